/* NumPy's .npy format, versions 1 to 3 (NumPy enhancement proposal 1): one array behind a header that is a
 * Python dictionary with exactly the keys descr, fortran_order and shape. */
#include "dldata/array.h"
#include "ir/base/input.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Element types by NumPy's code (little-endian or one byte), and how to widen them. */
#define WIDEN(T)                                                                                             \
    static double widen_##T(const char *p) {                                                                 \
        T v;                                                                                                 \
        memcpy(&v, p, sizeof v);                                                                             \
        return (double)v;                                                                                    \
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
    {"<f4", "f32", 4, widen_float},    {"<f8", "f64", 8, widen_double},   {"|i1", "i8", 1, widen_int8_t},
    {"<i2", "i16", 2, widen_int16_t},  {"<i4", "i32", 4, widen_int32_t},  {"<i8", "i64", 8, widen_int64_t},
    {"|u1", "u8", 1, widen_uint8_t},   {"<u2", "u16", 2, widen_uint16_t}, {"<u4", "u32", 4, widen_uint32_t},
    {"<u8", "u64", 8, widen_uint64_t}, {"|b1", "bool", 1, widen_uint8_t},
};
enum { N_TYPES = sizeof types / sizeof types[0], MAX_HEADER = 1 << 16 };

static bool read_at(int fd, char *out, size_t n, uint64_t offset) {
    while (n > 0) {
        ssize_t k = pread(fd, out, n, (off_t)offset);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        out += k, n -= (size_t)k, offset += (uint64_t)k;
    }
    return true;
}

/* Blocks come as the walker makes them: whole trailing axes, a range of one axis, single indices before it.
 */
static bool read_block(const array *a, const uint64_t *start, const uint64_t *size, double *out,
                       dl_error *err) {
    size_t element = types[a->element].size, n = 1;
    uint64_t first = 0;
    for (int i = 0; i < a->rank; i++) first = first * a->dims[i] + start[i], n *= size[i];
    char *raw = malloc(n * element + 1);
    if (!raw) return dl_fail(err, DL_RESOURCE, "no memory to read %zu elements of '%s'", n, a->name);
    bool ok = read_at((int)a->handle, raw, n * element, a->offset + first * element);
    for (size_t i = 0; ok && i < n; i++) out[i] = types[a->element].widen(raw + i * element);
    free(raw);
    return ok || dl_fail(err, DL_IO, "cannot read the data of '%s'", a->name);
}

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

static bool take_shape(cursor *c, array *a) {
    if (!take(c, '(')) return false;
    while (!take(c, ')')) {
        char *end;
        skip_space(c);
        errno = 0;
        if (*c->at < '0' || *c->at > '9' || a->rank == ARRAY_MAX_RANK) return false;
        a->dims[a->rank] = strtoull(c->at, &end, 10);
        if (errno || __builtin_mul_overflow(a->count, a->dims[a->rank], &a->count)) return false;
        a->rank++;
        c->at = *end == 'L' ? end + 1 : end;
        if (!take(c, ',') && (skip_space(c), *c->at != ')')) return false;
    }
    return a->count <= (uint64_t)1 << 47;
}

static bool take_header(cursor *c, char code[32], bool *fortran, array *a) {
    char key[32];
    unsigned seen = 0;
    if (!take(c, '{')) return false;
    while (!take(c, '}')) {
        if (!take_text(c, key, sizeof key) || !take(c, ':')) return false;
        skip_space(c);
        unsigned bit;
        if (!strcmp(key, "descr")) {
            bit = 1;
            if (!take_text(c, code, 32))
                snprintf(code, 32, "a record type"), c->at += strcspn(c->at, "]"), c->at += *c->at != 0;
        } else if (!strcmp(key, "fortran_order")) {
            bit = 2;
            *fortran = strncmp(c->at, "True", 4) == 0;
            if (!*fortran && strncmp(c->at, "False", 5) != 0) return false;
            c->at += *fortran ? 4 : 5;
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

bool npy_open(dl_arena *arena, const char *path, array_file *f, dl_error *err) {
    int fd = dl_file_open(path, err);
    if (fd < 0) return false;
    uint8_t head[12];
    uint32_t n = 0;
    bool long_header = false, ok = read_at(fd, (char *)head, 10, 0);
    if (ok) {
        long_header = head[6] > 1;
        if (long_header) ok = read_at(fd, (char *)head + 10, 2, 10);
        n = long_header ? (uint32_t)head[8] | (uint32_t)head[9] << 8 | (uint32_t)head[10] << 16 |
                              (uint32_t)head[11] << 24
                        : (uint32_t)head[8] | (uint32_t)head[9] << 8;
    }
    if (!ok || head[6] < 1 || head[6] > 3 || n > MAX_HEADER) {
        close(fd);
        return dl_fail(err, DL_INPUT, "%s is a damaged .npy file: its header has no valid version and length",
                       path);
    }
    char *text = dl_alloc(arena, n + 1), code[32] = "";
    array a = {.name = "array",
               .count = 1,
               .contiguous = true,
               .read = read_block,
               .handle = fd,
               .offset = (long_header ? 12 : 10) + (uint64_t)n,
               .element = -1};
    bool fortran = false;
    cursor c = {text};
    if (!read_at(fd, text, n, a.offset - n) || !take_header(&c, code, &fortran, &a)) {
        close(fd);
        return dl_fail(err, DL_INPUT,
                       "%s is a damaged .npy file: its header does not say type, order and shape", path);
    }
    for (int i = 0; i < N_TYPES; i++)
        if (!strcmp(code, types[i].code)) a.element = i;
    f->format = "NumPy array";
    a.numeric = a.element >= 0;
    a.type = a.numeric ? types[a.element].name : dl_strdup(arena, code);
    a.f32 = !strcmp(code, "<f4");
    a.storage = fortran ? "contiguous, first axis fastest (Fortran order)" : "contiguous";
    if (fortran && a.rank > 1) a.unreadable = "it is in Fortran order; save it with numpy.ascontiguousarray";
    if (a.numeric && a.offset + a.count * types[a.element].size > f->bytes)
        return dl_fail(err, DL_INPUT, "%s is truncated: its header promises %llu bytes, and it has %llu",
                       path, (unsigned long long)(a.offset + a.count * types[a.element].size),
                       (unsigned long long)f->bytes);
    dl_push(arena, &f->arrays, a);
    return true;
}

bool array_file_open(dl_arena *arena, const char *path, array_file *f, dl_error *err) {
    static const char hdf5[8] = "\x89HDF\r\n\x1a\n", npy[6] = "\x93NUMPY";
    int fd = dl_file_open(path, err);
    if (fd < 0) return false;
    struct stat st;
    char head[8] = "";
    *f = (array_file){.bytes = fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0};
    bool is_npy = read_at(fd, head, sizeof npy, 0) && !memcmp(head, npy, sizeof npy), is_hdf5 = false;
    /* An HDF5 file may begin with a block of its user's, of 512 bytes times a power of two. */
    for (uint64_t at = 0; !is_npy && !is_hdf5 && at < f->bytes; at = at ? 2 * at : 512)
        is_hdf5 = read_at(fd, head, sizeof hdf5, at) && !memcmp(head, hdf5, sizeof hdf5);
    close(fd);
    if (f->bytes == 0) return dl_fail(err, DL_INPUT, "%s is empty", path);
    if (is_npy) return npy_open(arena, path, f, err);
    if (is_hdf5) return hdf5_open(arena, path, f, err);
    return image_open(arena, path, f, err);
}
