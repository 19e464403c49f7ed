/* The globals that a PyTorch pickle may name and call: storages, tensors, OrderedDict. */
#include <stdio.h>

#include "runtime/formats/torch_internal.h"

typedef bool call(dlr_pickle *m, const dlr_torch_items *args);
static call make_ordered_dict, rebuild_tensor, rebuild_typed_tensor, rebuild_parameter;

/* A class of storages has an element type or none (untyped); of COMPLEX, an element is two of the
 * type, a last axis of size 2. TYPE is an element type itself. */
enum { FUNCTION, STORAGE, COMPLEX, UNTYPED, TYPE };
static const struct {
    const char *module, *name;
    int what;
    dlr_st_dtype dtype;
    call *call;
} globals[] = {
    {"collections", "OrderedDict", FUNCTION, 0, make_ordered_dict},
    {"torch._utils", "_rebuild_tensor_v2", FUNCTION, 0, rebuild_tensor},
    {"torch._utils", "_rebuild_tensor_v3", FUNCTION, 0, rebuild_typed_tensor},
    {"torch._utils", "_rebuild_parameter", FUNCTION, 0, rebuild_parameter},
    {"torch", "DoubleStorage", STORAGE, DLR_ST_F64, NULL},
    {"torch", "FloatStorage", STORAGE, DLR_ST_F32, NULL},
    {"torch", "HalfStorage", STORAGE, DLR_ST_F16, NULL},
    {"torch", "BFloat16Storage", STORAGE, DLR_ST_BF16, NULL},
    {"torch", "ComplexFloatStorage", COMPLEX, DLR_ST_F32, NULL},
    {"torch", "ComplexDoubleStorage", COMPLEX, DLR_ST_F64, NULL},
    {"torch", "LongStorage", STORAGE, DLR_ST_I64, NULL},
    {"torch", "IntStorage", STORAGE, DLR_ST_I32, NULL},
    {"torch", "ShortStorage", STORAGE, DLR_ST_I16, NULL},
    {"torch", "CharStorage", STORAGE, DLR_ST_I8, NULL},
    {"torch", "ByteStorage", STORAGE, DLR_ST_U8, NULL},
    {"torch", "BoolStorage", STORAGE, DLR_ST_BOOL, NULL},
    {"torch.storage", "UntypedStorage", UNTYPED, 0, NULL},
    {"torch", "uint16", TYPE, DLR_ST_U16, NULL},
    {"torch", "uint32", TYPE, DLR_ST_U32, NULL},
    {"torch", "uint64", TYPE, DLR_ST_U64, NULL},
};
enum { N_GLOBALS = sizeof globals / sizeof *globals };

static bool same(const char *a, const char *b, size_t n) {
    return strlen(a) == n && memcmp(a, b, n) == 0;
}

int dlr_pickle_find_global(const char *module, size_t module_bytes, const char *name,
                           size_t name_bytes) {
    for (int i = 0; i < N_GLOBALS; i++)
        if (same(globals[i].module, module, module_bytes) &&
            same(globals[i].name, name, name_bytes))
            return i;
    return -1;
}

bool dlr_pickle_call(dlr_pickle *m, int64_t global, const dlr_torch_items *args) {
    if (globals[global].call) return globals[global].call(m, args);
    return dlr_pickle_refuse(m, "calls %s.%s", globals[global].module, globals[global].name);
}

static bool make_ordered_dict(dlr_pickle *m, const dlr_torch_items *args) {
    if (args->n)
        return dlr_pickle_refuse(m, "an OrderedDict with %d arguments, where none are wanted",
                                 args->n);
    return dlr_pickle_push_object(m, DLR_TORCH_DICT, true);
}

/* ---- storages ---- */

static bool is_global(dlr_torch_value v, int what) {
    return v.kind == DLR_PICKLE_GLOBAL && globals[v.integer].what == what;
}

/* ("storage", class, key, device, number of elements) */
bool dlr_pickle_load_storage(dlr_pickle *m, dlr_torch_value id) {
    const dlr_torch_value *a = id.kind == DLR_TORCH_TUPLE && id.items->n == 5 ? id.items->at : NULL;
    if (!a || a[0].kind != DLR_TORCH_TEXT || strcmp(a[0].text, "storage") != 0 ||
        !(is_global(a[1], STORAGE) || is_global(a[1], COMPLEX) || is_global(a[1], UNTYPED)) ||
        a[2].kind != DLR_TORCH_TEXT || a[3].kind != DLR_TORCH_TEXT || a[4].kind != DLR_TORCH_INT ||
        a[4].integer < 0)
        return dlr_pickle_refuse(m,
                                 "BINPERSID of what is no (\"storage\", class, key, device, size)");
    char name[400];
    if (snprintf(name, sizeof name, "%s/data/%s", m->archive, a[2].text) >= (int)sizeof name)
        return dlr_pickle_refuse(m, "a storage's name of %zu bytes", strlen(a[2].text));
    const dlr_zip_entry *e = dlr_zip_find(m->zip, name);
    if (!e) return dlr_pickle_refuse(m, "the file has no entry '%.200s' for a storage", name);
    bool complex = is_global(a[1], COMPLEX);
    dlr_pickle_storage s = {m->map + e->at, e->bytes, complex || is_global(a[1], STORAGE),
                            globals[a[1].integer].dtype, complex};
    uint64_t size = s.typed ? dlr_st_dtype_size(s.dtype) << s.complex : 1;
    if (e->bytes % size || e->bytes / size != (uint64_t)a[4].integer)
        return dlr_pickle_refuse(m, "the storage '%.200s' has %llu bytes, but %lld elements of %d",
                                 name, (unsigned long long)e->bytes, (long long)a[4].integer,
                                 (int)size);
    dl_push(m->arena, &m->storages, s);
    return dlr_pickle_push(
        m, (dlr_torch_value){.kind = DLR_PICKLE_STORAGE, .integer = m->storages.n - 1});
}

/* ---- tensors ---- */

static bool is_empty(dlr_torch_value v) {
    return v.kind == DLR_TORCH_NONE || (v.kind == DLR_TORCH_DICT && v.items->n == 0);
}

/* Reads a tuple of whole numbers >= 0. */
static bool read_sizes(dlr_pickle *m, dlr_torch_value v, const char *what, int64_t *sizes, int *n) {
    if (v.kind != DLR_TORCH_TUPLE)
        return dlr_pickle_refuse(m, "a tensor's %s is %s, not a tuple", what,
                                 dlr_torch_kind_name(v.kind));
    if (v.items->n > DLR_ST_MAX_RANK)
        return dlr_pickle_refuse(m, "a tensor of %d dimensions, at most %d are supported",
                                 v.items->n, DLR_ST_MAX_RANK);
    *n = v.items->n;
    for (int i = 0; i < *n; i++) {
        if (v.items->at[i].kind != DLR_TORCH_INT || v.items->at[i].integer < 0)
            return dlr_pickle_refuse(m, "a tensor's %s holds what is no whole number >= 0", what);
        sizes[i] = v.items->at[i].integer;
    }
    return true;
}

/* Whether elements are row-major; strides of axes of size 1 are ignored. */
static bool is_row_major(const dlr_st_view *v) {
    int64_t next = 1;
    for (int i = v->rank - 1; i >= 0; next *= v->shape[i], i--)
        if (v->shape[i] != 1 && v->stride[i] != next) return false;
    return true;
}

/* Whether every element lies within the n elements from `first` on. */
static bool fits(const dlr_st_view *v, int64_t first, int64_t n) {
    int64_t last = first, step;
    for (int i = 0; i < v->rank; i++)
        if (__builtin_mul_overflow(v->shape[i] - 1, v->stride[i], &step) ||
            __builtin_add_overflow(last, step, &last))
            return false;
    return last < n;
}

/* The view, of complex numbers, as one of their parts, with a last axis of two. */
static bool take_parts(dlr_pickle *m, dlr_st_view *view, int64_t *first) {
    if (view->rank == DLR_ST_MAX_RANK)
        return dlr_pickle_refuse(m, "a complex tensor of %d dimensions, at most %d are supported",
                                 view->rank, DLR_ST_MAX_RANK - 1);
    for (int i = 0; i < view->rank; i++)
        if (__builtin_mul_overflow(view->stride[i], 2, &view->stride[i]))
            return dlr_pickle_refuse(m, "a tensor's stride is too large");
    view->shape[view->rank] = 2, view->stride[view->rank++] = 1;
    return !__builtin_mul_overflow(*first, 2, first) ||
           dlr_pickle_refuse(m, "a tensor's offset is too large");
}

/* Arguments 0 to 5: storage, offset, size, stride, requires_grad, backward_hooks. */
static bool make_tensor(dlr_pickle *m, const dlr_torch_value *a, dlr_st_dtype dtype,
                        uint64_t bytes) {
    dlr_st_view view = {0};
    int strides = 0;
    if (a[1].kind != DLR_TORCH_INT || a[1].integer < 0)
        return dlr_pickle_refuse(m, "a tensor's offset is no whole number >= 0");
    if (!read_sizes(m, a[2], "size", view.shape, &view.rank) ||
        !read_sizes(m, a[3], "stride", view.stride, &strides))
        return false;
    if (strides != view.rank)
        return dlr_pickle_refuse(m, "a tensor with %d sizes and %d strides", view.rank, strides);
    if (a[4].kind != DLR_TORCH_BOOL || !is_empty(a[5]))
        return dlr_pickle_refuse(m, "a tensor with hooks");
    if (++m->tensors > DLR_PICKLE_TENSORS)
        return dlr_pickle_refuse(m, "more than %d tensors", DLR_PICKLE_TENSORS);
    const dlr_pickle_storage *s = &m->storages.at[a[0].integer];
    int64_t first = a[1].integer;
    if (s->complex && !take_parts(m, &view, &first)) return false;
    dlr_st_tensor *t = DL_NEW(m->arena, dlr_st_tensor);
    *t = (dlr_st_tensor){.name = "", .dtype = dtype, .rank = view.rank};
    memcpy(t->shape, view.shape, sizeof t->shape);
    if (!dlr_st_size(t, &t->bytes)) return dlr_pickle_refuse(m, "a tensor of more than 2^63 bytes");
    uint64_t size = dlr_st_dtype_size(dtype);
    t->data = s->data;
    if (t->bytes > 0) {
        if (!fits(&view, first, (int64_t)(bytes / size)))
            return dlr_pickle_refuse(m, "a tensor reaches beyond its storage of %llu elements",
                                     (unsigned long long)(bytes / size));
        t->data = s->data + (uint64_t)first * size;
        if (!is_row_major(&view)) {
            dlr_st_view *own = DL_NEW(m->arena, dlr_st_view);
            *own = view, t->view = own;
        }
    }
    return dlr_pickle_push(m, (dlr_torch_value){.kind = DLR_TORCH_TENSOR, .tensor = t});
}

static const dlr_pickle_storage *storage_of(const dlr_pickle *m, const dlr_torch_items *args,
                                            int least, int most) {
    if (args->n < least || args->n > most || args->at[0].kind != DLR_PICKLE_STORAGE) return NULL;
    return &m->storages.at[args->at[0].integer];
}

/* (storage, offset, size, stride, requires_grad, backward_hooks[, metadata]): metadata would mean a
 * conjugate or negative view, whose numbers differ from the storage's. */
static bool rebuild_tensor(dlr_pickle *m, const dlr_torch_items *args) {
    const dlr_pickle_storage *s = storage_of(m, args, 6, 7);
    if (!s || !s->typed || (args->n > 6 && !is_empty(args->at[6])))
        return dlr_pickle_refuse(m, "_rebuild_tensor_v2 with other arguments than torch.save's");
    return make_tensor(m, args->at, s->dtype, s->bytes);
}

/* The same with an element type before the metadata, for types without a class of storages. */
static bool rebuild_typed_tensor(dlr_pickle *m, const dlr_torch_items *args) {
    const dlr_pickle_storage *s = storage_of(m, args, 7, 8);
    if (!s || s->typed || !is_global(args->at[6], TYPE) || (args->n > 7 && !is_empty(args->at[7])))
        return dlr_pickle_refuse(m, "_rebuild_tensor_v3 with other arguments than torch.save's");
    return make_tensor(m, args->at, globals[args->at[6].integer].dtype, s->bytes);
}

/* (tensor, requires_grad, backward_hooks) */
static bool rebuild_parameter(dlr_pickle *m, const dlr_torch_items *args) {
    const dlr_torch_value *a = args->at;
    if (args->n != 3 || a[0].kind != DLR_TORCH_TENSOR || a[1].kind != DLR_TORCH_BOOL ||
        !is_empty(a[2]))
        return dlr_pickle_refuse(m, "_rebuild_parameter with other arguments than torch.save's");
    return dlr_pickle_push(m, a[0]);
}
