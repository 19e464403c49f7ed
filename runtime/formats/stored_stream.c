/* Writes a file of stored tensors of any format: bytes and tensors to the stream, and the file
 * atomically. */
#include <stdlib.h>
#include <zlib.h>

#include "ir/base/str.h"
#include "runtime/formats/stored_internal.h"

enum { BLOCK = 1 << 20 };

bool dlr_st_put(dlr_st_stream *s, const void *data, uint64_t n) {
    for (const char *p = data; n > 0;) {
        size_t block = n < BLOCK ? (size_t)n : BLOCK;
        dlr_checksum_add(&s->sum, p, block);
        if (s->counts_crc)
            s->crc = (uint32_t)crc32(s->crc, (const unsigned char *)p, (unsigned)block);
        if (!dl_output_write(s->out, p, block, s->err)) return false;
        p += block, n -= block;
    }
    return true;
}

bool dlr_st_check_shape(const dlr_st_tensor *t, uint64_t *bytes, dl_error *err) {
    return (t->rank >= 0 && t->rank <= DLR_ST_MAX_RANK && dlr_st_size(t, bytes)) ||
           dl_fail(err, DL_INTERNAL, "the tensor '%s' has no valid shape", t->name);
}

/* Appends the value's name and index: "nan at [3, 0]". */
static void put_not_finite(dl_buf *b, const dlr_st_tensor *t, int64_t element, const char *value) {
    int64_t at[DLR_ST_MAX_RANK];
    for (int i = t->rank - 1; i >= 0; i--) at[i] = element % t->shape[i], element /= t->shape[i];
    dl_putf(b, "%s", value);
    for (int i = 0; i < t->rank; i++) dl_putf(b, "%s%lld", i ? ", " : " at [", (long long)at[i]);
    if (t->rank > 0) dl_puts(b, "]");
}

/* Records the first tensor with a value that is not finite; fails where that is an error. */
static bool test_finite(dlr_st_stream *s, const dlr_st_tensor *t, int64_t first, int64_t n,
                        const void *data, bool must) {
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

bool dlr_st_put_tensor(dlr_st_stream *s, int index) {
    const dlr_st_content *c = s->content;
    const dlr_st_tensor *t = &c->tensors[index];
    int64_t size = (int64_t)dlr_st_dtype_size(t->dtype), piece = DLR_ST_PIECE / size;
    uint64_t bytes = 0;
    dlr_st_size(t, &bytes);
    if (bytes > 0 && !t->data && !c->read)
        return dl_fail(s->err, DL_INTERNAL, "%s: the tensor '%s' has neither data nor a reader",
                       s->path, t->name);
    if (!s->buffer && !t->data && !(s->buffer = malloc(DLR_ST_PIECE)))
        return dl_fail(s->err, DL_RESOURCE, "cannot write %s: no memory", s->path);
    for (int64_t at = 0, count = (int64_t)bytes / size; at < count; at += piece) {
        int64_t n = count - at < piece ? count - at : piece;
        const void *data = t->data ? (const char *)t->data + at * size : s->buffer;
        if (!t->data && !c->read(c->ctx, index, at, n, s->buffer, s->err)) return false;
        if (!test_finite(s, t, at, n, data, c->finite) ||
            !dlr_st_put(s, data, (uint64_t)(n * size)))
            return false;
    }
    return true;
}

bool dlr_st_write_as(const char *path, const dlr_st_content *content, dlr_st_format *format,
                     const void *ctx, dlr_st_written *written, dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    dlr_st_stream s = {.path = path, .content = content, .err = err};
    dlr_checksum_start(&s.sum);
    bool ok = (s.out = dl_output_open(path, err)) && format(&s, arena, ctx);
    if (ok)
        ok = dl_output_commit(s.out, err);
    else
        dl_output_discard(s.out);
    if (ok && written)
        *written = (dlr_st_written){s.sum.n, dlr_checksum_value(&s.sum), s.not_finite};
    free(s.buffer);
    dl_arena_free(arena);
    return ok;
}
