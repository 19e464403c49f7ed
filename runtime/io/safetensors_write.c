#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ir/base/output.h"
#include "runtime/io/checksum.h"
#include "runtime/io/json.h"
#include "runtime/io/safetensors_internal.h"

/* One pass over the data: each piece is summed while it is in the cache, and then written. */
enum { PIECE = 1 << 20 };

typedef struct {
    const char *path;
    int fd;
    dlr_checksum sum;
    dl_error *err;
} stream;

static bool put(stream *s, const void *data, uint64_t n) {
    for (const char *p = data; n > 0;) {
        size_t piece = n < PIECE ? (size_t)n : PIECE;
        dlr_checksum_add(&s->sum, p, piece);
        if (!dl_write_all(s->fd, p, piece)) return dl_fail_errno(s->err, DL_IO, "cannot write %s", s->path);
        p += piece, n -= piece;
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

static bool put_tensor_entry(dl_buf *b, const dlr_st_tensor *t, uint64_t *at, uint64_t *largest,
                             dl_error *err) {
    uint64_t bytes;
    if (t->rank < 0 || t->rank > DLR_ST_MAX_RANK || !dlr_st_size(t, &bytes) || INT64_MAX - bytes < *at)
        return dl_fail(err, DL_INTERNAL, "the tensor '%s' has no valid shape", t->name);
    dlr_json_put_key(b, t->name);
    dl_putf(b, "{\"dtype\":\"%s\",\"shape\":[", dlr_st_dtype_name(t->dtype));
    for (int i = 0; i < t->rank; i++) dl_putf(b, "%s%lld", i ? "," : "", (long long)t->shape[i]);
    dl_putf(b, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)*at, (unsigned long long)(*at + bytes));
    *at += bytes;
    if (!t->data && bytes > *largest) *largest = bytes;
    return true;
}

/* The header with its length in front, padded; `largest`: the bytes of the largest tensor that is to be read.
 */
static bool build_header(dl_arena *arena, const dlr_st_content *c, const int *order, dl_buf *b,
                         uint64_t *largest, const char *path, dl_error *err) {
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
        if (!put_tensor_entry(b, &c->tensors[order[i]], &at, largest, err)) return false;
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

static bool put_tensors(stream *s, const dlr_st_content *c, const int *order, uint64_t largest) {
    void *buffer = NULL;
    if (largest > 0 && !(buffer = malloc(largest)))
        return dl_fail(s->err, DL_RESOURCE, "cannot write %s: no memory for a tensor of %llu bytes", s->path,
                       (unsigned long long)largest);
    bool ok = true;
    for (int i = 0; i < c->n && ok; i++) {
        const dlr_st_tensor *t = &c->tensors[order[i]];
        uint64_t bytes = 0;
        dlr_st_size(t, &bytes);
        if (bytes == 0) continue;
        if (!t->data && !c->read)
            ok = dl_fail(s->err, DL_INTERNAL, "%s: the tensor '%s' has neither data nor a reader", s->path,
                         t->name);
        else
            ok = (t->data || c->read(c->ctx, order[i], buffer, s->err)) &&
                 put(s, t->data ? t->data : buffer, bytes);
    }
    free(buffer);
    return ok;
}

bool dlr_st_write(const char *path, const dlr_st_content *content, dlr_st_written *written, dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_buf header = {0};
    uint64_t largest = 0;
    const char *tmp = dl_format(arena, "%s.tmp%ld", path, (long)getpid());
    const int *order = order_by_width(arena, content);
    stream s = {.path = path, .fd = -1, .err = err};
    dlr_checksum_start(&s.sum);
    bool made = false, ok = build_header(arena, content, order, &header, &largest, path, err);
    if (ok) {
        s.fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        made = s.fd >= 0;
        ok = made || dl_fail_errno(err, DL_IO, "cannot write %s", path);
    }
    ok = ok && put(&s, header.at, header.n) && put_tensors(&s, content, order, largest);
    if (ok && fsync(s.fd) != 0) ok = dl_fail_errno(err, DL_IO, "cannot make %s durable", path);
    if (made && close(s.fd) != 0 && ok) ok = dl_fail_errno(err, DL_IO, "cannot write %s", path);
    if (ok && rename(tmp, path) != 0) ok = dl_fail_errno(err, DL_IO, "cannot write %s", path);
    if (made && !ok) unlink(tmp);
    if (ok && written) *written = (dlr_st_written){s.sum.n, dlr_checksum_value(&s.sum)};
    dl_buf_free(&header);
    dl_arena_free(arena);
    return ok;
}
