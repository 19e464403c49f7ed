#include "runtime/formats/json.h"
#include "runtime/formats/stored_internal.h"

/* A stable order by descending element size: each tensor then starts at a multiple of its element's
 * size. */
static int *order_by_width(dl_arena *arena, const dlr_st_content *c) {
    int *order = DL_NEWS(arena, int, c->n), n = 0;
    for (size_t size = 8; size > 0; size /= 2)
        for (int i = 0; i < c->n; i++)
            if (dlr_st_dtype_size(c->tensors[i].dtype) == size) order[n++] = i;
    return order;
}

static bool put_tensor_entry(dl_buf *b, const dlr_st_tensor *t, uint64_t *at, dl_error *err) {
    uint64_t bytes;
    if (!dlr_st_check_shape(t, &bytes, err)) return false;
    if (INT64_MAX - bytes < *at)
        return dl_fail(err, DL_INTERNAL, "the tensor '%s' is too large", t->name);
    dlr_json_put_key(b, t->name);
    dl_putf(b, "{\"dtype\":\"%s\",\"shape\":[", dlr_st_dtype_name(t->dtype));
    for (int i = 0; i < t->rank; i++) dl_putf(b, "%s%lld", i ? "," : "", (long long)t->shape[i]);
    dl_putf(b, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)*at,
            (unsigned long long)(*at + bytes));
    *at += bytes;
    return true;
}

/* Builds the header, with its length in front, padded. */
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
    /* A name given twice is the caller's error; parsing the header finds it. */
    dl_error fault = {0};
    if (!dlr_json_parse(arena, b->at + 8, b->n - 8, (dlr_json_limits){8, INT32_MAX}, path, &fault))
        return dl_fail(err, DL_INTERNAL, "%s", fault.message);
    while (b->n % DLR_ST_ALIGN) dl_puts(b, " ");
    n = b->n - 8;
    memcpy(b->at, &n, sizeof n);
    return n <= DLR_ST_MAX_HEADER ||
           dl_fail(err, DL_INTERNAL, "%s: too many tensors for one file", path);
}

bool dlr_safetensors_put(dlr_st_stream *s, dl_arena *arena, const void *ctx) {
    (void)ctx;
    dl_buf header = {0};
    const int *order = order_by_width(arena, s->content);
    bool ok = build_header(arena, s->content, order, &header, s->path, s->err) &&
              dlr_st_put(s, header.at, header.n);
    for (int i = 0; i < s->content->n && ok; i++) ok = dlr_st_put_tensor(s, order[i]);
    dl_buf_free(&header);
    return ok;
}
