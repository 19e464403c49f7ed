/* Writes a tree of values as torch.save does. */
#include <stdio.h>
#include <stdlib.h>

#include "ir/base/utf8.h"
#include "runtime/formats/torch_internal.h"

static const char ARCHIVE[] = "archive";

typedef struct {
    dl_buf b;
    const dlr_st_content *content;
    int depth;
    dl_error *err;
} pickle;

static bool put_value(pickle *p, const dlr_torch_value *v);

static void put_bytes(pickle *p, uint64_t value, int n) {
    for (int i = 0; i < n; i++) dl_putn(&p->b, (const char[]){(char)(value >> 8 * i)}, 1);
}

static void put_int(pickle *p, int64_t v) {
    if (v >= 0 && v < 1 << 8)
        dl_puts(&p->b, "K"), put_bytes(p, (uint64_t)v, 1);
    else if (v >= 0 && v < 1 << 16)
        dl_puts(&p->b, "M"), put_bytes(p, (uint64_t)v, 2);
    else if (v >= INT32_MIN && v <= INT32_MAX)
        dl_puts(&p->b, "J"), put_bytes(p, (uint64_t)v, 4);
    else
        dl_puts(&p->b, "\x8a\x08"), put_bytes(p, (uint64_t)v, 8);
}

static void put_real(pickle *p, double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    dl_puts(&p->b, "G");
    put_bytes(p, __builtin_bswap64(bits), 8); /* floats in a pickle are big-endian */
}

static bool put_text(pickle *p, const char *text) {
    size_t n = strlen(text), step;
    for (size_t at = 0; at < n; at += step)
        if ((step = (size_t)dl_utf8_length(text + at, n - at)) == 0)
            return dl_fail(p->err, DL_INTERNAL, "'%.200s' is not UTF-8", text);
    dl_puts(&p->b, "X"), put_bytes(p, n, 4);
    dl_putn(&p->b, text, n);
    return true;
}

static void put_sizes(pickle *p, const int64_t *sizes, int n) {
    dl_puts(&p->b, "(");
    for (int i = 0; i < n; i++) put_int(p, sizes[i]);
    dl_puts(&p->b, "t");
}

static const char *const storages[DLR_ST_N_DTYPES] = {
    [DLR_ST_F64] = "Double",    [DLR_ST_F32] = "Float", [DLR_ST_F16] = "Half",
    [DLR_ST_BF16] = "BFloat16", [DLR_ST_I64] = "Long",  [DLR_ST_I32] = "Int",
    [DLR_ST_I16] = "Short",     [DLR_ST_I8] = "Char",   [DLR_ST_U8] = "Byte",
    [DLR_ST_BOOL] = "Bool"};

static const char ORDERED_DICT[] = "ccollections\nOrderedDict\n)R";

/* torch._utils._rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks); the
 * storage's key is the tensor's number. */
static bool put_tensor(pickle *p, const dlr_st_tensor *t) {
    int64_t strides[DLR_ST_MAX_RANK] = {0}, next = 1;
    uint64_t bytes;
    char key[32];
    if (!dlr_st_check_shape(t, &bytes, p->err)) return false;
    if (!storages[t->dtype])
        return dl_fail(p->err, DL_INTERNAL,
                       "the tensor '%s' is %s, which PyTorch's files cannot hold", t->name,
                       dlr_st_dtype_name(t->dtype));
    for (int i = t->rank - 1; i >= 0 && bytes; next *= t->shape[i], i--) strides[i] = next;
    dl_puts(&p->b, "ctorch._utils\n_rebuild_tensor_v2\n((");
    snprintf(key, sizeof key, "%d", (int)(t - p->content->tensors));
    put_text(p, "storage");
    dl_putf(&p->b, "ctorch\n%sStorage\n", storages[t->dtype]);
    put_text(p, key), put_text(p, "cpu");
    put_int(p, (int64_t)(bytes / dlr_st_dtype_size(t->dtype)));
    dl_puts(&p->b, "tQ"), put_int(p, 0);
    put_sizes(p, t->shape, t->rank), put_sizes(p, strides, t->rank);
    dl_puts(&p->b, "\x89"), dl_puts(&p->b, ORDERED_DICT), dl_puts(&p->b, "tR");
    return true;
}

static int by_key(const void *a, const void *b) {
    const dlr_torch_value *const *x = a, *const *y = b;
    return dlr_torch_compare_keys(*x, *y);
}

static bool check_keys(pickle *p, const dlr_torch_items *d) {
    dl_arena *arena = dl_arena_new(NULL);
    int n = d->n / 2;
    bool ok = d->n % 2 == 0 || dl_fail(p->err, DL_INTERNAL, "a key without a value");
    const dlr_torch_value **keys = DL_NEWS(arena, const dlr_torch_value *, n + 1);
    for (int i = 0; i < n && ok; i++) {
        keys[i] = &d->at[2 * i];
        ok = keys[i]->kind == DLR_TORCH_TEXT || keys[i]->kind == DLR_TORCH_INT ||
             dl_fail(p->err, DL_INTERNAL, "a dictionary's key is neither text nor a whole number");
    }
    if (ok && n > 1) qsort(keys, (size_t)n, sizeof *keys, by_key);
    for (int i = 1; i < n && ok; i++)
        if (dlr_torch_compare_keys(keys[i - 1], keys[i]) == 0)
            ok =
                keys[i]->kind == DLR_TORCH_TEXT
                    ? dl_fail(p->err, DL_INTERNAL, "the key '%.200s' is there twice", keys[i]->text)
                    : dl_fail(p->err, DL_INTERNAL, "the key %lld is there twice",
                              (long long)keys[i]->integer);
    dl_arena_free(arena);
    return ok;
}

/* Writes the items between the container's begin and end. */
static bool put_items(pickle *p, const dlr_torch_items *items, const char *begin, const char *end) {
    dl_puts(&p->b, begin);
    bool ok = true;
    for (int i = 0; i < items->n && ok; i++) ok = put_value(p, &items->at[i]);
    dl_puts(&p->b, end);
    return ok;
}

static bool put_container(pickle *p, const dlr_torch_value *v) {
    if (++p->depth > DLR_PICKLE_DEPTH)
        return dl_fail(p->err, DL_INTERNAL, "nested more than %d deep", DLR_PICKLE_DEPTH);
    const dlr_torch_items *items = v->items;
    bool ok = true;
    if (v->kind == DLR_TORCH_TUPLE) {
        ok = put_items(p, items, "(", "t");
    } else {
        bool dict = v->kind == DLR_TORCH_DICT;
        dl_puts(&p->b, !dict ? "]" : items->ordered ? ORDERED_DICT : "}");
        if (dict) ok = check_keys(p, items);
        if (ok && items->n) ok = put_items(p, items, "(", dict ? "u" : "e");
    }
    p->depth--;
    return ok;
}

static bool put_value(pickle *p, const dlr_torch_value *v) {
    switch (v->kind) {
    case DLR_TORCH_NONE: dl_puts(&p->b, "N"); return true;
    case DLR_TORCH_BOOL: dl_puts(&p->b, v->truth ? "\x88" : "\x89"); return true;
    case DLR_TORCH_INT: put_int(p, v->integer); return true;
    case DLR_TORCH_REAL: put_real(p, v->real); return true;
    case DLR_TORCH_TEXT: return put_text(p, v->text);
    case DLR_TORCH_TENSOR: return put_tensor(p, v->tensor);
    case DLR_TORCH_TUPLE:
    case DLR_TORCH_LIST:
    case DLR_TORCH_DICT: return put_container(p, v);
    case DLR_TORCH_N_KINDS: break;
    }
    return dl_fail(p->err, DL_INTERNAL, "a value of no kind");
}

/* ---- the archive ---- */

static bool put_storage(dlr_zip_writer *z, const dlr_st_content *content, int i) {
    char name[64];
    uint64_t bytes;
    snprintf(name, sizeof name, "%s/data/%d", ARCHIVE, i);
    return dlr_st_check_shape(&content->tensors[i], &bytes, z->s->err) &&
           dlr_zip_begin(z, name, bytes) && dlr_st_put_tensor(z->s, i) && dlr_zip_end(z);
}

static bool put_text_entry(dlr_zip_writer *z, dl_arena *arena, const char *name, const char *text) {
    return dlr_zip_put(z, dl_format(arena, "%s/%s", ARCHIVE, name), text, strlen(text));
}

static bool put_file(dlr_st_stream *s, dl_arena *arena, const void *root) {
    pickle p = {.content = s->content, .err = s->err};
    dlr_zip_writer z = {.s = s};
    s->counts_crc = true;
    dl_puts(&p.b, "\x80\x02");
    bool ok = put_value(&p, root);
    dl_puts(&p.b, ".");
    ok = ok && dlr_zip_put(&z, dl_format(arena, "%s/data.pkl", ARCHIVE), p.b.at, p.b.n) &&
         put_text_entry(&z, arena, "byteorder", "little");
    for (int i = 0; i < s->content->n && ok; i++) ok = put_storage(&z, s->content, i);
    ok = ok && put_text_entry(&z, arena, "version", "3\n") && dlr_zip_finish(&z);
    dl_buf_free(&p.b);
    dlr_zip_free(&z);
    return ok;
}

bool dlr_torch_write(const char *path, const dlr_torch_value *root, const dlr_st_content *content,
                     dlr_st_written *written, dl_error *err) {
    return dlr_st_write_as(path, content, put_file, root, written, err);
}

bool dlr_torch_write_state(const char *path, const dlr_st_content *content, dlr_st_written *written,
                           dl_error *err) {
    if (content->n_metadata)
        return dl_fail(err, DL_INTERNAL, "%s: PyTorch's files have no room for metadata", path);
    dl_arena *arena = dl_arena_new(NULL);
    dlr_torch_value *at = DL_NEWS(arena, dlr_torch_value, 2 * content->n + 1);
    for (int i = 0; i < content->n; i++) {
        at[2 * i] = (dlr_torch_value){.kind = DLR_TORCH_TEXT, .text = content->tensors[i].name};
        at[2 * i + 1] = (dlr_torch_value){.kind = DLR_TORCH_TENSOR, .tensor = &content->tensors[i]};
    }
    dlr_torch_items items = {.at = at, .n = 2 * content->n, .ordered = true};
    bool ok = dlr_torch_write(path, &(dlr_torch_value){.kind = DLR_TORCH_DICT, .items = &items},
                              content, written, err);
    dl_arena_free(arena);
    return ok;
}
