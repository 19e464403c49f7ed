/* NumPy's .npy format, versions 1 to 3 (NumPy enhancement proposal 1): one array after a header, a
 * Python dictionary with exactly the keys descr, fortran_order and shape. */
#include "ir/base/npy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/input.h"

/* Element types by NumPy's code (little-endian or one byte), and how to widen them. */
#define WIDEN(T)                                                                                   \
    static double widen_##T(const char *p) {                                                       \
        T v;                                                                                       \
        memcpy(&v, p, sizeof v);                                                                   \
        return (double)v;                                                                          \
    }
WIDEN(float)
WIDEN(double)
WIDEN(int8_t)
WIDEN(int16_t)
WIDEN(int32_t)
WIDEN(int64_t)
WIDEN(uint8_t)
WIDEN(uint16_t)
WIDEN(uint32_t)
WIDEN(uint64_t)

static const struct {
    const char *code, *name;
    size_t size;
    double (*widen)(const char *p);
} types[] = {
    {"<f4", "f32", 4, widen_float},    {"<f8", "f64", 8, widen_double},
    {"|i1", "i8", 1, widen_int8_t},    {"<i2", "i16", 2, widen_int16_t},
    {"<i4", "i32", 4, widen_int32_t},  {"<i8", "i64", 8, widen_int64_t},
    {"|u1", "u8", 1, widen_uint8_t},   {"<u2", "u16", 2, widen_uint16_t},
    {"<u4", "u32", 4, widen_uint32_t}, {"<u8", "u64", 8, widen_uint64_t},
    {"|b1", "bool", 1, widen_uint8_t},
};
enum { N_TYPES = sizeof types / sizeof types[0], MAX_HEADER = 1 << 16 };

/* A reader of the dictionary's text. */
typedef struct {
    const char *at;
} cursor;

static void skip_space(cursor *c) { c->at += strspn(c->at, " \t\r\n"); }

static bool take(cursor *c, char want) {
    skip_space(c);
    if (*c->at != want) return false;
    c->at++;
    return true;
}

static bool take_text(cursor *c, char *out, size_t cap) {
    skip_space(c);
    char quote = *c->at;
    if (quote != '\'' && quote != '"') return false;
    size_t n = strcspn(c->at + 1, quote == '\'' ? "'" : "\"");
    if (c->at[1 + n] != quote || n >= cap) return false;
    memcpy(out, c->at + 1, n);
    out[n] = 0;
    c->at += n + 2;
    return true;
}

static bool take_shape(cursor *c, dl_npy *a) {
    if (!take(c, '(')) return false;
    while (!take(c, ')')) {
        char *end;
        skip_space(c);
        errno = 0;
        if (*c->at < '0' || *c->at > '9' || a->rank == DL_NPY_RANK) return false;
        a->dims[a->rank] = strtoull(c->at, &end, 10);
        if (errno || __builtin_mul_overflow(a->count, a->dims[a->rank], &a->count)) return false;
        a->rank++;
        c->at = *end == 'L' ? end + 1 : end;
        if (!take(c, ',') && (skip_space(c), *c->at != ')')) return false;
    }
    return a->count <= (uint64_t)1 << 47;
}

static bool take_header(cursor *c, dl_npy *a) {
    char key[32];
    unsigned seen = 0;
    if (!take(c, '{')) return false;
    while (!take(c, '}')) {
        if (!take_text(c, key, sizeof key) || !take(c, ':')) return false;
        skip_space(c);
        unsigned bit;
        if (!strcmp(key, "descr")) {
            bit = 1;
            if (!take_text(c, a->code, sizeof a->code))
                snprintf(a->code, sizeof a->code, "a record type"), c->at += strcspn(c->at, "]"),
                    c->at += *c->at != 0;
        } else if (!strcmp(key, "fortran_order")) {
            bit = 2;
            a->fortran = strncmp(c->at, "True", 4) == 0;
            if (!a->fortran && strncmp(c->at, "False", 5) != 0) return false;
            c->at += a->fortran ? 4 : 5;
        } else if (!strcmp(key, "shape")) {
            bit = 4;
            if (!take_shape(c, a)) return false;
        } else
            return false;
        if (seen & bit) return false;
        seen |= bit;
        if (!take(c, ',') && (skip_space(c), *c->at != '}')) return false;
    }
    return seen == 7;
}

bool dl_npy_header(int fd, const char *path, uint64_t file_bytes, dl_npy *a, dl_error *err) {
    char head[DL_NPY_HEAD];
    dl_error unread = {0};
    size_t n = file_bytes < sizeof head ? (size_t)file_bytes : sizeof head;
    if (!dl_read_at(fd, path, head, n, 0, &unread)) n = 0;
    return dl_npy_parse(head, n, path, file_bytes, a, err);
}

bool dl_npy_parse(const void *start, size_t given, const char *path, uint64_t file_bytes, dl_npy *a,
                  dl_error *err) {
    const uint8_t *head = start;
    *a = (dl_npy){.count = 1, .element = -1};
    if (given < 10 || memcmp(head, "\x93NUMPY", 6) != 0)
        return dl_fail(err, DL_INPUT, "%s is not a .npy file", path);
    bool long_header = head[6] > 1, ok = !long_header || given >= 12;
    uint32_t n = (uint32_t)head[8] | (uint32_t)head[9] << 8;
    if (ok && long_header) n |= (uint32_t)head[10] << 16 | (uint32_t)head[11] << 24;
    if (!ok || head[6] < 1 || head[6] > 3 || n > MAX_HEADER)
        return dl_fail(err, DL_INPUT,
                       "%s is a damaged .npy file: its header has no valid version and length",
                       path);
    a->offset = (long_header ? 12 : 10) + (uint64_t)n;
    char text[MAX_HEADER + 1];
    cursor c = {text};
    text[n] = 0;
    ok = a->offset <= given;
    if (ok) memcpy(text, head + a->offset - n, n);
    if (!ok || !take_header(&c, a))
        return dl_fail(err, DL_INPUT,
                       "%s is a damaged .npy file: its header does not say type, order and shape",
                       path);
    for (int i = 0; i < N_TYPES; i++)
        if (!strcmp(a->code, types[i].code)) a->element = i;
    if (a->element < 0) return true;
    a->type = types[a->element].name;
    uint64_t bytes = a->count * types[a->element].size;
    if (a->offset + bytes <= file_bytes) return true;
    return dl_fail(err, DL_INPUT,
                   "%s is truncated: its header promises %llu bytes, and it has %llu", path,
                   (unsigned long long)(a->offset + bytes), (unsigned long long)file_bytes);
}

bool dl_npy_read(int fd, const char *path, int element, uint64_t offset, uint64_t first, size_t n,
                 double *out, dl_error *err) {
    size_t each = types[element].size;
    char *raw = malloc(n * each + 1);
    if (!raw) return dl_fail(err, DL_RESOURCE, "no memory to read %zu elements of '%s'", n, path);
    bool ok = dl_read_at(fd, path, raw, n * each, (int64_t)(offset + first * each), err);
    for (size_t i = 0; ok && i < n; i++) out[i] = types[element].widen(raw + i * each);
    free(raw);
    return ok;
}

void dl_npy_put_header(dl_buf *out, const char *code, const int64_t *dims, int rank) {
    enum {
        BEFORE = 10,
        ALIGN = 64
    }; /* magic, version and length; what the numbers begin at a multiple of */
    dl_buf words = {0};
    dl_putf(&words, "{'descr': '%s', 'fortran_order': False, 'shape': (", code);
    for (int i = 0; i < rank; i++)
        dl_putf(&words, i + 1 < rank ? "%lld, " : rank == 1 ? "%lld," : "%lld", (long long)dims[i]);
    dl_puts(&words, "), }");
    while ((BEFORE + words.n + 1) % ALIGN) dl_puts(&words, " ");
    dl_puts(&words, "\n");
    const char length[2] = {(char)(words.n & 255), (char)(words.n >> 8)};
    dl_putn(out, "\x93NUMPY\x01\x00", 8);
    dl_putn(out, length, 2);
    dl_putn(out, words.at, words.n);
    dl_buf_free(&words);
}
