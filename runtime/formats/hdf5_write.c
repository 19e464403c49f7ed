#include "runtime/formats/hdf5_write.h"

#include <stdlib.h>

#include "ir/base/output.h"
#include "ir/base/str.h"

enum { ALIGN = 4096, LONGEST_NAME = 255, MOST_BYTES = 1 << 30 /* bytes of all headers */ };
static const uint64_t undefined = UINT64_MAX;

struct dlr_h5_file {
    dl_output *out;
    int n;
    uint64_t *at; /* file offset of each set's numbers */
    size_t *size; /* of an element */
};

/* ---- primitives ---- */

static void put(dl_buf *b, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++) {
        char byte = (char)(v >> (8 * i));
        dl_putn(b, &byte, 1);
    }
}

static uint32_t turn(uint32_t x, int by) { return x << by | x >> (32 - by); }

/* Bob Jenkins' lookup3 ("A hash function for hash table lookup", 2006), the format's checksum. */
static uint32_t checksum(const char *data, size_t n) {
    static const int rounds[] = {4, 6, 8, 16, 19, 4}, last[] = {14, 11, 25, 16, 4, 14, 24};
    uint32_t v[3];
    v[0] = v[1] = v[2] = 0xdeadbeef + (uint32_t)n;
    for (;; data += 12, n -= 12) {
        for (size_t i = 0; i < n && i < 12; i++)
            v[i / 4] += (uint32_t)(unsigned char)data[i] << (8 * (i % 4));
        if (n <= 12) break;
        for (int r = 0; r < 6; r++) {
            uint32_t *a = &v[r % 3], *b = &v[(r + 1) % 3], *c = &v[(r + 2) % 3];
            *a -= *c, *a ^= turn(*c, rounds[r]), *c += *b;
        }
    }
    for (int r = 0; r < 7 && n; r++) {
        uint32_t *c = &v[(2 + r) % 3], b = v[(1 + r) % 3];
        *c ^= b, *c -= turn(b, last[r]);
    }
    return v[2];
}

static void put_checksum(dl_buf *b, size_t from) { put(b, checksum(b->at + from, b->n - from), 4); }

static size_t size_of(dlr_h5_type t) { return t == DLR_H5_TEXT ? 1 : t == DLR_H5_F32 ? 4 : 8; }

/* ---- messages ---- */

static void put_type(dl_buf *b, dlr_h5_type t, int64_t length) {
    if (t == DLR_H5_TEXT) {
        /* terminated by NUL, UTF-8 */
        put(b, 0x13, 1), put(b, 0x10, 3), put(b, (uint64_t)length + 1, 4);
    } else if (t == DLR_H5_I64) {
        put(b, 0x10, 1), put(b, 0x08, 3), put(b, 8, 4), put(b, 0, 2), put(b, 64, 2);
    } else {
        bool wide = t == DLR_H5_F64;
        put(b, 0x11, 1), put(b, wide ? 0x3f20 : 0x1f20, 3), put(b, wide ? 8 : 4, 4);
        put(b, 0, 2), put(b, wide ? 64 : 32, 2);                               /* bits */
        put(b, wide ? 52 : 23, 1), put(b, wide ? 11 : 8, 1);                   /* exponent */
        put(b, 0, 1), put(b, wide ? 52 : 23, 1), put(b, wide ? 1023 : 127, 4); /* mantissa, bias */
    }
}

static void put_space(dl_buf *b, int rank, const int64_t *dims) {
    put(b, 2, 1), put(b, (uint64_t)rank, 1), put(b, 0, 1), put(b, rank > 0, 1);
    for (int i = 0; i < rank; i++) put(b, (uint64_t)dims[i], 8);
}

static void put_message(dl_buf *b, int type, const dl_buf *body) {
    put(b, (uint64_t)type, 1), put(b, body->n, 2), put(b, 0, 1);
    dl_putn(b, body->at, body->n);
}

static void put_numbers(dl_buf *b, const dlr_h5_attribute *a) {
    int64_t n = a->n < 0 ? 1 : a->n;
    if (a->type != DLR_H5_F32) {
        dl_putn(b, a->data, (size_t)n * 8);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        float v = (float)((const double *)a->data)[i];
        dl_putn(b, (const char *)&v, sizeof v);
    }
}

static void put_attribute(dl_buf *b, const dlr_h5_attribute *a) {
    dl_buf body = {0}, type = {0}, space = {0};
    bool text = a->type == DLR_H5_TEXT;
    put_type(&type, a->type, a->n);
    put_space(&space, !text && a->n >= 0, &a->n);
    put(&body, 3, 1), put(&body, 0, 1), put(&body, strlen(a->name) + 1, 2);
    put(&body, type.n, 2), put(&body, space.n, 2), put(&body, 1, 1); /* name in UTF-8 */
    dl_putn(&body, a->name, strlen(a->name) + 1);
    dl_putn(&body, type.at, type.n), dl_putn(&body, space.at, space.n);
    if (text)
        dl_putn(&body, a->data, (size_t)a->n), put(&body, 0, 1);
    else
        put_numbers(&body, a);
    put_message(b, 0x0c, &body);
    dl_buf_free(&body), dl_buf_free(&type), dl_buf_free(&space);
}

/* Appends messages as an object header. */
static void put_header(dl_buf *b, const dl_buf *messages) {
    size_t from = b->n;
    dl_puts(b, "OHDR");
    put(b, 2, 1), put(b, 2, 1), put(b, messages->n, 4);
    dl_putn(b, messages->at, messages->n);
    put_checksum(b, from);
}

static uint64_t bytes_of(const dlr_h5_set *s) {
    uint64_t n = size_of(s->type);
    for (int i = 0; i < s->rank; i++) n *= (uint64_t)s->dims[i];
    return n;
}

static void put_set(dl_buf *b, const dlr_h5_set *s, uint64_t data) {
    dl_buf all = {0}, body = {0};
    put_space(&body, s->rank, s->dims);
    put_message(&all, 0x01, &body);
    body.n = 0, put_type(&body, s->type, 0);
    put_message(&all, 0x03, &body);
    body.n = 0, put(&body, 3, 1), put(&body, 0x05, 1); /* early allocation, no fill value */
    put_message(&all, 0x05, &body);
    body.n = 0, put(&body, 3, 1), put(&body, 1, 1), put(&body, data, 8), put(&body, bytes_of(s), 8);
    put_message(&all, 0x08, &body);
    for (int i = 0; i < s->n_attributes; i++) put_attribute(&all, &s->attributes[i]);
    put_header(b, &all);
    dl_buf_free(&all), dl_buf_free(&body);
}

static void put_root(dl_buf *b, int n, const dlr_h5_set *sets, const uint64_t *at, int n_attributes,
                     const dlr_h5_attribute *attributes) {
    dl_buf all = {0}, body = {0};
    /* the links' messages follow */
    put(&body, 0, 2), put(&body, undefined, 8), put(&body, undefined, 8);
    put_message(&all, 0x02, &body);
    body.n = 0, put(&body, 0, 2);
    put_message(&all, 0x0a, &body);
    for (int i = 0; i < n; i++) {
        body.n = 0, put(&body, 1, 1), put(&body, 0, 1), put(&body, strlen(sets[i].name), 1);
        dl_puts(&body, sets[i].name), put(&body, at[i], 8);
        put_message(&all, 0x06, &body);
    }
    for (int i = 0; i < n_attributes; i++) put_attribute(&all, &attributes[i]);
    put_header(b, &all);
    dl_buf_free(&all), dl_buf_free(&body);
}

static void put_superblock(dl_buf *b, uint64_t root, uint64_t end) {
    dl_putn(b, "\x89HDF\r\n\x1a\n", 8);
    put(b, 2, 1), put(b, 8, 1), put(b, 8, 1), put(b, 0, 1);
    put(b, 0, 8), put(b, undefined, 8), put(b, end, 8), put(b, root, 8);
    put_checksum(b, 0);
}

/* ---- the file ---- */

static bool check_attributes(const char *path, int n, const dlr_h5_attribute *a, dl_error *err) {
    for (int i = 0; i < n; i++) {
        size_t length = strlen(a[i].name);
        int64_t most = DLR_H5_ATTRIBUTE / (int64_t)size_of(a[i].type);
        if (length < 1 || length > LONGEST_NAME || a[i].n > most || a[i].n < -1)
            return dl_fail(err, DL_INPUT,
                           "%s: the attribute '%.80s' is too long for an HDF5 header", path,
                           a[i].name);
    }
    return true;
}

static bool check_sets(const char *path, int n, const dlr_h5_set *sets, dl_error *err) {
    for (int i = 0; i < n; i++) {
        const dlr_h5_set *s = &sets[i];
        int64_t bytes = (int64_t)size_of(s->type);
        bool fits = dl_is_file_name(s->name) && s->rank >= 0 && s->rank <= DLR_H5_RANK;
        for (int k = 0; fits && k < s->rank; k++)
            fits = s->dims[k] >= 0 && !__builtin_mul_overflow(bytes, s->dims[k], &bytes) &&
                   bytes < INT64_MAX / 8;
        for (int k = 0; fits && k < i; k++) fits = strcmp(sets[k].name, s->name) != 0;
        if (!fits)
            return dl_fail(err, DL_INPUT, "%s cannot hold a data set '%.80s' of this size", path,
                           s->name);
        if (!check_attributes(path, s->n_attributes, s->attributes, err)) return false;
    }
    return true;
}

/* Appends all headers; returns the end of the file. The addresses in headers depend on the headers'
 * sizes, which do not depend on the addresses: a second call writes the final values. */
static uint64_t put_headers(dl_buf *b, dlr_h5_file *f, const dlr_h5_set *sets, int n_attributes,
                            const dlr_h5_attribute *attributes, uint64_t *header) {
    uint64_t end = 0;
    for (int pass = 0; pass < 3; pass++) {
        uint64_t root = header[f->n];
        b->n = 0;
        put_superblock(b, root, end);
        header[f->n] = b->n;
        put_root(b, f->n, sets, header, n_attributes, attributes);
        for (int i = 0; i < f->n; i++) {
            header[i] = b->n;
            put_set(b, &sets[i], f->at[i]);
        }
        end = b->n;
        for (int i = 0; i < f->n; i++) {
            f->at[i] = (end + ALIGN - 1) / ALIGN * ALIGN;
            end = f->at[i] + bytes_of(&sets[i]);
        }
    }
    return end;
}

dlr_h5_file *dlr_h5_open(const char *path, int n, const dlr_h5_set *sets, int n_attributes,
                         const dlr_h5_attribute *attributes, dl_error *err) {
    if (!check_sets(path, n, sets, err) || !check_attributes(path, n_attributes, attributes, err))
        return NULL;
    dlr_h5_file *f = dl_calloc(1, sizeof *f);
    *f = (dlr_h5_file){.n = n,
                       .at = dl_calloc((size_t)n + 1, sizeof *f->at),
                       .size = dl_calloc((size_t)n + 1, sizeof *f->size)};
    for (int i = 0; i < n; i++) f->size[i] = size_of(sets[i].type);
    uint64_t *header = dl_calloc((size_t)n + 1, sizeof *header);
    dl_buf b = {0};
    uint64_t end = put_headers(&b, f, sets, n_attributes, attributes, header);
    f->out = dl_output_open(path, err);
    bool ok = f->out && dl_output_write_at(f->out, 0, b.at, b.n, err);
    ok = ok && dl_output_extend(f->out, end, err);
    free(header);
    dl_buf_free(&b);
    if (ok) return f;
    dlr_h5_discard(f);
    return NULL;
}

bool dlr_h5_write(dlr_h5_file *f, int set, int64_t first, int64_t n, const void *data,
                  dl_error *err) {
    return dl_output_write_at(f->out, f->at[set] + (uint64_t)first * f->size[set], data,
                              (size_t)n * f->size[set], err);
}

static void release(dlr_h5_file *f) { free(f->at), free(f->size), free(f); }

bool dlr_h5_commit(dlr_h5_file *f, dl_error *err) {
    bool ok = dl_output_commit(f->out, err);
    release(f);
    return ok;
}

void dlr_h5_discard(dlr_h5_file *f) {
    if (!f) return;
    if (f->out) dl_output_discard(f->out);
    release(f);
}
