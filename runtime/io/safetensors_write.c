#include <stdlib.h>

#include "ir/base/output.h"
#include "runtime/io/checksum.h"
#include "runtime/io/json.h"
#include "runtime/io/safetensors_internal.h"

/* One pass over the data: each block is summed while it is in the cache, and then written. */
enum { BLOCK = 1 << 20 };

typedef struct {
    const char *path;
    dl_output *out;
    dlr_checksum sum;
    const char *not_finite; /* the first such tensor */
    dl_error *err;
} stream;

static bool put(stream *s, const void *data, uint64_t n) {
    for (const char *p = data; n > 0;) {
        size_t block = n < BLOCK ? (size_t)n : BLOCK;
        dlr_checksum_add(&s->sum, p, block);
        if (!dl_output_write(s->out, p, block, s->err)) return false;
        p += block, n -= block;
    }
    return true;
}

/* Stable, by falling element size: each tensor then starts at a multiple of its element's size. */
static int *order_by_width(dl_arena *arena, const dlr_st_content *c) {
    int *order = DL_NEWS(arena, int, c->n), n = 0;
    for (size_t size = 8; size > 0; size /= 2)
        for (int i = 0; i < c->n; i++)
            if (dlr_st_dtype_size(c->tensors[i].dtype) == size) order[n++] = i;
    return order;
}

static bool put_tensor_entry(dl_buf *b, const dlr_st_tensor *t, uint64_t *at, dl_error *err) {
    uint64_t bytes;
    if (t->rank < 0 || t->rank > DLR_ST_MAX_RANK || !dlr_st_size(t, &bytes) || INT64_MAX - bytes < *at)
        return dl_fail(err, DL_INTERNAL, "the tensor '%s' has no valid shape", t->name);
    dlr_json_put_key(b, t->name);
    dl_putf(b, "{\"dtype\":\"%s\",\"shape\":[", dlr_st_dtype_name(t->dtype));
    for (int i = 0; i < t->rank; i++) dl_putf(b, "%s%lld", i ? "," : "", (long long)t->shape[i]);
    dl_putf(b, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)*at, (unsigned long long)(*at + bytes));
    *at += bytes;
    return true;
}

/* The header with its length in front, padded. */
static bool build_header(dl_arena *arena, const dlr_st_content *c, const int *order, dl_buf *b,
                         const char *path, dl_error *err) {
    uint64_t at = 0, n;
    dl_putn(b, "\0\0\0\0\0\0\0", 8);
    dl_puts(b, "{");
    if (c->n_metadata > 0) {
        dl_puts(b, "\"__metadata__\":{");
        for (int i = 0; i < c->n_metadata; i++) {
            dlr_json_put_key(b, c->metadata[i].key);
            dlr_json_put_string(b, c->metadata[i].value);
        }
        dl_puts(b, "}");
    }
    for (int i = 0; i < c->n; i++)
        if (!put_tensor_entry(b, &c->tensors[order[i]], &at, err)) return false;
    dl_puts(b, "}");
    /* A name given twice is the caller's fault; the reader's own look at the header finds it. */
    dl_error fault = {0};
    if (!dlr_json_parse(arena, b->at + 8, b->n - 8, (dlr_json_limits){8, INT32_MAX}, path, &fault))
        return dl_fail(err, DL_INTERNAL, "%s", fault.message);
    while (b->n % DLR_ST_ALIGN) dl_puts(b, " ");
    n = b->n - 8;
    memcpy(b->at, &n, sizeof n);
    return n <= DLR_ST_MAX_HEADER || dl_fail(err, DL_INTERNAL, "%s: too many tensors for one file", path);
}

/* The name of a value that is not finite, and where it is: "nan at [3, 0]". */
static void put_not_finite(dl_buf *b, const dlr_st_tensor *t, int64_t element, const char *value) {
    int64_t at[DLR_ST_MAX_RANK];
    for (int i = t->rank - 1; i >= 0; i--) at[i] = element % t->shape[i], element /= t->shape[i];
    dl_putf(b, "%s", value);
    for (int i = 0; i < t->rank; i++) dl_putf(b, "%s%lld", i ? ", " : " at [", (long long)at[i]);
    if (t->rank > 0) dl_puts(b, "]");
}

/* Remembers the first tensor with a value that is not finite; fails where there may be none. */
static bool test_finite(stream *s, const dlr_st_tensor *t, int64_t first, int64_t n, const void *data,
                        bool must) {
    if (s->not_finite) return true;
    bool nan;
    int64_t bad = dlr_st_find_not_finite(t->dtype, data, n, &nan);
    if (bad < 0) return true;
    s->not_finite = t->name;
    if (!must) return true;
    dl_buf where = {0};
    put_not_finite(&where, t, first + bad, nan ? "nan" : "an infinity");
    dl_fail(s->err, DL_NUMERIC, "the tensor '%.200s' has %s", t->name, where.at);
    dl_buf_free(&where);
    return false;
}

static bool put_tensor(stream *s, const dlr_st_content *c, int index, void *buffer) {
    const dlr_st_tensor *t = &c->tensors[index];
    int64_t size = (int64_t)dlr_st_dtype_size(t->dtype), piece = DLR_ST_PIECE / size;
    uint64_t bytes = 0;
    dlr_st_size(t, &bytes);
    if (bytes > 0 && !t->data && !c->read)
        return dl_fail(s->err, DL_INTERNAL, "%s: the tensor '%s' has neither data nor a reader", s->path,
                       t->name);
    for (int64_t at = 0, count = (int64_t)bytes / size; at < count; at += piece) {
        int64_t n = count - at < piece ? count - at : piece;
        const void *data = t->data ? (const char *)t->data + at * size : buffer;
        if (!t->data && !c->read(c->ctx, index, at, n, buffer, s->err)) return false;
        if (!test_finite(s, t, at, n, data, c->finite) || !put(s, data, (uint64_t)(n * size))) return false;
    }
    return true;
}

static bool put_tensors(stream *s, const dlr_st_content *c, const int *order) {
    void *buffer = malloc(DLR_ST_PIECE);
    bool ok = buffer || dl_fail(s->err, DL_RESOURCE, "cannot write %s: no memory", s->path);
    for (int i = 0; i < c->n && ok; i++) ok = put_tensor(s, c, order[i], buffer);
    free(buffer);
    return ok;
}

bool dlr_st_write(const char *path, const dlr_st_content *content, dlr_st_written *written, dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_buf header = {0};
    const int *order = order_by_width(arena, content);
    stream s = {.path = path, .err = err};
    dlr_checksum_start(&s.sum);
    bool ok = build_header(arena, content, order, &header, path, err) &&
              (s.out = dl_output_open(path, err)) && put(&s, header.at, header.n) &&
              put_tensors(&s, content, order);
    if (ok)
        ok = dl_output_commit(s.out, err);
    else
        dl_output_discard(s.out);
    if (ok && written) *written = (dlr_st_written){s.sum.n, dlr_checksum_value(&s.sum), s.not_finite};
    dl_buf_free(&header);
    dl_arena_free(arena);
    return ok;
}
