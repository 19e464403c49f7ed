/* Stored tensors: their types, shapes and bytes, in the file and in other files of its folder. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "imports/onnx/parts.h"
#include "ir/base/input.h"
#include "runtime/formats/onnx_fields.h"

enum { KNOWN_COUNT = 1 << 20 };

/* By onnx.proto, TensorProto.DataType. */
static const struct {
    dl_foreign_class class;
    dlr_st_dtype dtype;
} types[] = {[1] = {DL_FOREIGN_FLOAT, DLR_ST_F32},  [2] = {DL_FOREIGN_INT, DLR_ST_U8},
             [3] = {DL_FOREIGN_INT, DLR_ST_I8},     [4] = {DL_FOREIGN_INT, DLR_ST_U16},
             [5] = {DL_FOREIGN_INT, DLR_ST_I16},    [6] = {DL_FOREIGN_INT, DLR_ST_I32},
             [7] = {DL_FOREIGN_INT, DLR_ST_I64},    [9] = {DL_FOREIGN_BOOL, DLR_ST_BOOL},
             [10] = {DL_FOREIGN_FLOAT, DLR_ST_F16}, [11] = {DL_FOREIGN_FLOAT, DLR_ST_F64},
             [12] = {DL_FOREIGN_INT, DLR_ST_U32},   [13] = {DL_FOREIGN_INT, DLR_ST_U64},
             [16] = {DL_FOREIGN_FLOAT, DLR_ST_BF16}};

bool dl_ox_set_type(dl_foreign_tensor *t, uint64_t type) {
    bool is_there = type < sizeof types / sizeof *types;
    t->class = is_there ? types[type].class : DL_FOREIGN_UNKNOWN;
    t->dtype = is_there ? types[type].dtype : DLR_ST_F32;
    return t->class != DL_FOREIGN_UNKNOWN;
}

bool dl_ox_check_shape(const dl_ox *r, const dl_foreign_tensor *t) {
    int64_t count = 1;
    for (int d = 0; d < t->rank; d++) {
        if (t->shape[d] < 0)
            return dl_ox_bad(r, "axis %d has the size %lld", d, (long long)t->shape[d]);
        if (__builtin_mul_overflow(count, t->shape[d] ? t->shape[d] : 1, &count) ||
            count > (int64_t)1 << 47)
            return dl_ox_bad(r, "it has more than 2^47 elements");
    }
    return true;
}

bool dl_ox_read_info(dl_ox *r, dlr_pb_view info, dl_foreign_tensor *t,
                     const char *name[DL_FOREIGN_RANK]) {
    dlr_pb_field type, tensor, shape, f, part;
    if (!dlr_pb_find(info, DL_INFO_TYPE, &type) ||
        !dlr_pb_find(type.bytes, DL_TYPE_TENSOR, &tensor))
        return false;
    dl_ox_set_type(t, dlr_pb_find(tensor.bytes, DL_TENSOR_TYPE_ELEMENT, &f) ? f.number : 0);
    t->rank = 0;
    if (!dlr_pb_find(tensor.bytes, DL_TENSOR_TYPE_SHAPE, &shape)) return false;
    while (dlr_pb_next(&shape.bytes, &f)) {
        if (f.field != DL_SHAPE_DIM) continue;
        if (t->rank == DL_FOREIGN_RANK) return dl_ox_bad(r, "it has more than 8 axes");
        bool known = dlr_pb_find(f.bytes, DL_DIM_VALUE, &part);
        t->shape[t->rank] = known ? (int64_t)part.number : 0, t->open[t->rank] = !known;
        name[t->rank] = dlr_pb_find(f.bytes, DL_DIM_PARAM, &part) ? dl_ox_text(r, part.bytes) : "";
        t->rank++;
    }
    if (shape.bytes.at != shape.bytes.end) return dl_ox_bad(r, "its message breaks off");
    return dl_ox_check_shape(r, t);
}

/* ---- other files ---- */

static bool is_inside(const char *path) {
    if (!*path || *path == '/') return false;
    for (const char *p = path; *p; p += strcspn(p, "/"), p += *p == '/')
        if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || !p[2])) return false;
    return strchr(path, '\\') == NULL;
}

/* The file's number among the others, opened at its first use; -1 with an error. */
static int open_external(dl_ox *r, const char *location) {
    struct stat st;
    if (!is_inside(location))
        return dl_ox_bad(r, "its numbers are in '%.200s', which is not in the file's folder",
                         location),
               -1;
    const char *slash = strrchr(r->path, '/');
    int n = slash ? (int)(slash - r->path + 1) : 0;
    const char *path = dl_format(r->arena, "%.*s%s", n, r->path, location);
    for (int i = 0; i < r->externals.n; i++)
        if (strcmp(r->externals.at[i].path, path) == 0) return i;
    if (r->externals.n == 256) return dl_ox_bad(r, "the numbers are in more than 256 files"), -1;
    /* a link could lead out of the folder */
    if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
        return dl_ox_bad(r, "its numbers are in '%.200s', which is a link", location), -1;
    int fd = dl_input_open(path, r->err);
    if (fd < 0) return -1;
    if (fstat(fd, &st) != 0) return close(fd), dl_fail_errno(r->err, DL_IO, "%s", path), -1;
    dl_push(r->arena, &r->externals,
            (dl_ox_external){.path = path, .fd = fd, .bytes = (int64_t)st.st_size});
    return r->externals.n - 1;
}

bool dl_ox_read_external(void *context, const dl_foreign_data *data, void *to, dl_error *err) {
    const dl_ox *r = context;
    const dl_ox_external *e = &r->externals.at[data->entry];
    return dl_read_at(e->fd, e->path, to, (size_t)data->bytes, data->at, err);
}

static bool find_external(dl_ox *r, dlr_pb_view tensor, int64_t wanted, dl_foreign_data *data) {
    const char *location = "";
    int64_t offset = 0, length = wanted;
    dlr_pb_field f, part;
    while (dlr_pb_next(&tensor, &f)) {
        if (f.field != DL_TENSOR_EXTERNAL) continue;
        const char *key =
            dlr_pb_find(f.bytes, DL_ENTRY_KEY, &part) ? dl_ox_text(r, part.bytes) : "";
        const char *value =
            dlr_pb_find(f.bytes, DL_ENTRY_VALUE, &part) ? dl_ox_text(r, part.bytes) : "";
        bool fits = true;
        if (!strcmp(key, "location")) location = value;
        if (!strcmp(key, "offset")) fits = dl_parse_int(value, &offset);
        if (!strcmp(key, "length")) fits = dl_parse_int(value, &length);
        if (!fits) return dl_ox_bad(r, "its %s is '%.40s'", key, value);
    }
    int file = open_external(r, location);
    if (file < 0) return false;
    if (offset < 0 || length != wanted || offset > r->externals.at[file].bytes ||
        length > r->externals.at[file].bytes - offset)
        return dl_ox_bad(r,
                         "it has %lld bytes from byte %lld of '%.200s' on, which has %lld; its "
                         "shape needs %lld",
                         (long long)length, (long long)offset, location,
                         (long long)r->externals.at[file].bytes, (long long)wanted);
    data->at = offset, data->bytes = length, data->entry = file;
    return true;
}

/* ---- numbers in the file ---- */

static size_t put_number(dlr_st_dtype dtype, uint64_t bits, char *to) {
    size_t size = dlr_st_dtype_size(dtype);
    memcpy(to, &bits, size); /* little-endian */
    return size;
}

/* Numbers in fields of their own: floats and doubles of fixed size, all others as varints. */
static bool read_fields(dl_ox *r, dlr_pb_view tensor, const dl_foreign_tensor *t, int64_t count,
                        char *to) {
    int field = t->dtype == DLR_ST_F32   ? DL_TENSOR_FLOATS
                : t->dtype == DLR_ST_F64 ? DL_TENSOR_DOUBLES
                : t->dtype == DLR_ST_I64 ? DL_TENSOR_INT64S
                                         : DL_TENSOR_INT32S;
    bool fixed = field == DL_TENSOR_FLOATS || field == DL_TENSOR_DOUBLES;
    size_t size = dlr_st_dtype_size(t->dtype), room = (size_t)count * size, used = 0;
    dlr_pb_field f;
    while (dlr_pb_next(&tensor, &f)) {
        if (f.field != field) continue;
        size_t n = (size_t)(f.bytes.end - f.bytes.at);
        if (fixed) {
            if (n > room - used) return dl_ox_bad(r, "it has more numbers than its shape");
            memcpy(to + used, f.bytes.at, n), used += n;
            continue;
        }
        bool one = !f.bytes.at;
        for (uint64_t v = f.number; one || dlr_pb_next_number(&f.bytes, &v); one = false) {
            if (used == room) return dl_ox_bad(r, "it has more numbers than its shape");
            used += put_number(t->dtype, v, to + used);
            if (one) break;
        }
    }
    return used == room ||
           dl_ox_bad(r, "it has %zu bytes of numbers, its shape needs %zu", used, room);
}

bool dl_ox_read_tensor(dl_ox *r, dlr_pb_view tensor, dl_ox_value *v) {
    dl_foreign_tensor *t = DL_NEW(r->arena, dl_foreign_tensor);
    *t = (dl_foreign_tensor){.id = -1, .name = v->name, .path = v->name};
    t->origin = DL_FOREIGN_CONSTANT;
    dlr_pb_view rest = tensor, raw = {0};
    dlr_pb_field f;
    bool external = false;
    while (dlr_pb_next(&rest, &f)) {
        uint64_t size = f.number;
        bool one = !f.bytes.at;
        if (f.field == DL_TENSOR_DIMS)
            while (one || dlr_pb_next_number(&f.bytes, &size)) {
                if (t->rank == DL_FOREIGN_RANK) return dl_ox_bad(r, "it has more than 8 axes");
                t->shape[t->rank++] = (int64_t)size;
                if (one) break;
            }
        if (f.field == DL_TENSOR_TYPE) dl_ox_set_type(t, f.number);
        if (f.field == DL_TENSOR_RAW) raw = f.bytes;
        if (f.field == DL_TENSOR_LOCATION) external = f.number == 1;
    }
    if (rest.at != rest.end) return dl_ox_bad(r, "its message breaks off");
    if (!dl_ox_check_shape(r, t)) return false;
    if (v->t) return dl_ox_bad(r, "it is there twice");
    v->t = t, v->stored = true;
    if (t->class == DL_FOREIGN_UNKNOWN) return true; /* text: refused where a node uses it */
    int64_t count = dl_foreign_count(t), bytes = count * (int64_t)dlr_st_dtype_size(t->dtype);
    dl_foreign_data *data = DL_NEW(r->arena, dl_foreign_data);
    *data = (dl_foreign_data){.bytes = bytes};
    dl_foreign_set_strides(t, data);
    t->data = data;
    if (external) return find_external(r, tensor, bytes, data);
    if (raw.at) {
        data->held = raw.at;
        return raw.end - raw.at == bytes ||
               dl_ox_bad(r, "it has %lld bytes of numbers, its shape needs %lld",
                         (long long)(raw.end - raw.at), (long long)bytes);
    }
    /* a number takes a byte of the file at least */
    if (count > tensor.end - tensor.at) return dl_ox_bad(r, "it has fewer numbers than its shape");
    char *to = dl_alloc(r->arena, (size_t)bytes + 1);
    data->held = to;
    return read_fields(r, tensor, t, count, to);
}

/* ---- numbers of the reader ---- */

void dl_ox_hold(dl_ox *r, dl_ox_value *v, const dl_ox_shape *s, dl_foreign_class class,
                dlr_st_dtype dtype, double *numbers) {
    dl_foreign_tensor *t = DL_NEW(r->arena, dl_foreign_tensor);
    *t = (dl_foreign_tensor){.id = -1, .name = v->name, .path = v->name, .class = class};
    t->origin = DL_FOREIGN_CONSTANT, t->dtype = dtype, t->rank = s->rank;
    memcpy(t->shape, s->size, sizeof t->shape);
    v->t = t, v->known = numbers;
}

const double *dl_ox_known(dl_ox *r, dl_ox_value *v) {
    if (!v || !v->t || v->known) return v && v->t ? v->known : NULL;
    if (!v->stored || v->t->class == DL_FOREIGN_UNKNOWN || dl_ox_is_parameter(r, v) ||
        dl_foreign_count(v->t) > KNOWN_COUNT)
        return NULL;
    double *numbers = DL_NEWS(r->arena, double, dl_foreign_count(v->t) + 1);
    if (!dl_foreign_numbers(&r->graph, v->t, numbers, r->err)) return NULL;
    return v->known = numbers;
}

const double *dl_ox_setting(dl_ox *r, dl_ox_value *v) {
    const double *known = dl_ox_known(r, v);
    if (known || !v || !v->t || !v->stored || dl_foreign_count(v->t) > KNOWN_COUNT) return known;
    double *numbers = DL_NEWS(r->arena, double, dl_foreign_count(v->t) + 1);
    return dl_foreign_numbers(&r->graph, v->t, numbers, r->err) ? numbers : NULL;
}

dl_ox_value *dl_ox_vector(const dl_ox *r, dl_ox_value *v) {
    if (v && !v->stored && v->by >= 0 && !strcmp(r->nodes.at[v->by].op, "Unsqueeze"))
        v = r->nodes.at[v->by].in[0];
    bool is_one = v && v->stored && v->t->class == DL_FOREIGN_FLOAT && v->t->rank >= 1 &&
                  dl_foreign_count(v->t) == v->t->shape[0];
    return is_one ? v : NULL;
}

static bool only_number(const double *known, const dl_ox_value *v, double *number) {
    if (!known || v->other || dl_foreign_count(v->t) != 1) return false;
    *number = v->t->dtype == DLR_ST_F32 ? dl_ox_shortest((float)known[0]) : known[0];
    return true;
}

bool dl_ox_number(dl_ox *r, dl_ox_value *v, double *number) {
    return only_number(dl_ox_known(r, v), v, number);
}

bool dl_ox_set_number(dl_ox *r, dl_ox_value *v, double *number) {
    return only_number(dl_ox_setting(r, v), v, number);
}
