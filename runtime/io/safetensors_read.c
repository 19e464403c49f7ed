#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/input.h"
#include "runtime/io/json.h"
#include "runtime/io/safetensors_internal.h"

/* A tensor needs about ten JSON values: room for 150,000 tensors, and a bound on what a hostile header costs.
 */
enum { MAX_VALUES = 1500000, MAX_DEPTH = 8 };

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
#define ROW(name, size) {#name, size},
    DLR_ST_DTYPES(ROW)
#undef ROW
};

const char *dlr_st_dtype_name(dlr_st_dtype dtype) { return dtypes[dtype].name; }
size_t dlr_st_dtype_size(dlr_st_dtype dtype) { return dtypes[dtype].size; }

struct dlr_st_private {
    dl_arena *arena; /* holds the file's description too */
    int fd;
    unsigned char *map;
    uint64_t size, data; /* of the file; where its data starts */
    int *by_name;
};

bool dlr_st_size(const dlr_st_tensor *t, uint64_t *bytes) {
    int64_t n = (int64_t)dtypes[t->dtype].size;
    bool empty = false;
    for (int i = 0; i < t->rank; i++) {
        if (t->shape[i] < 0) return false;
        empty = empty || t->shape[i] == 0;
    }
    /* A size of 0 makes the product 0 however large the others are. */
    for (int i = 0; i < t->rank && !empty; i++)
        if (__builtin_mul_overflow(n, t->shape[i], &n)) return false;
    *bytes = empty ? 0 : (uint64_t)n;
    return true;
}

/* The header's text, checked for its length; NULL: failed. */
static char *read_header(dlr_st_file *f, uint64_t *n, dl_error *err) {
    struct dlr_st_private *p = f->private;
    if (p->size < 8)
        return dl_fail(err, DL_INPUT, "%s: no safetensors file: shorter than 8 bytes", f->path), NULL;
    if (!dl_read_at(p->fd, f->path, n, 8, 0, err)) return NULL;
    if (*n > DLR_ST_MAX_HEADER)
        return dl_fail(err, DL_INPUT,
                       "%s: no safetensors file: its first 8 bytes announce a header of %llu bytes, at "
                       "most %d are allowed",
                       f->path, (unsigned long long)*n, DLR_ST_MAX_HEADER),
               NULL;
    if (*n > p->size - 8)
        return dl_fail(err, DL_INPUT, "%s: cut off: the header has %llu bytes, the file only %llu", f->path,
                       (unsigned long long)*n, (unsigned long long)p->size),
               NULL;
    char *text = dl_alloc(p->arena, (size_t)*n + 1);
    return dl_read_at(p->fd, f->path, text, (size_t)*n, 8, err) ? text : NULL;
}

static bool read_shape(const dlr_st_file *f, const dlr_json *shape, dlr_st_tensor *t, dl_error *err) {
    if (!shape || shape->kind != DLR_JSON_ARRAY)
        return dl_fail(err, DL_INPUT, "%s: tensor '%.200s': no list 'shape'", f->path, t->name);
    if (shape->n > DLR_ST_MAX_RANK)
        return dl_fail(err, DL_INPUT, "%s: tensor '%.200s': %d dimensions, at most %d are supported", f->path,
                       t->name, shape->n, DLR_ST_MAX_RANK);
    t->rank = shape->n;
    for (int i = 0; i < t->rank; i++) {
        if (shape->items[i].kind != DLR_JSON_INT || shape->items[i].integer < 0)
            return dl_fail(err, DL_INPUT,
                           "%s: tensor '%.200s': size %d of its shape is not a whole number >= 0", f->path,
                           t->name, i);
        t->shape[i] = shape->items[i].integer;
    }
    return true;
}

static bool read_dtype(const dlr_st_file *f, const dlr_json *dtype, dlr_st_tensor *t, dl_error *err) {
    if (!dtype || dtype->kind != DLR_JSON_STRING)
        return dl_fail(err, DL_INPUT, "%s: tensor '%.200s': no string 'dtype'", f->path, t->name);
    for (int i = 0; i < DLR_ST_N_DTYPES; i++)
        if (strcmp(dtype->string, dtypes[i].name) == 0) {
            t->dtype = (dlr_st_dtype)i;
            return true;
        }
    return dl_fail(err, DL_INPUT, "%s: tensor '%.200s': the element type '%.40s' is not supported", f->path,
                   t->name, dtype->string);
}

/* One entry of the header; its first and last offset in `span`. */
static bool read_entry(const dlr_st_file *f, const char *name, const dlr_json *entry, dlr_st_tensor *t,
                       uint64_t span[2], dl_error *err) {
    const struct dlr_st_private *p = f->private;
    t->name = name;
    if (entry->kind != DLR_JSON_OBJECT || entry->n != 3)
        return dl_fail(err, DL_INPUT,
                       "%s: tensor '%.200s': expected {dtype, shape, data_offsets} and nothing else", f->path,
                       name);
    if (!read_dtype(f, dlr_json_get(entry, "dtype"), t, err) ||
        !read_shape(f, dlr_json_get(entry, "shape"), t, err))
        return false;
    const dlr_json *offsets = dlr_json_get(entry, "data_offsets");
    if (!offsets || offsets->kind != DLR_JSON_ARRAY || offsets->n != 2 ||
        offsets->items[0].kind != DLR_JSON_INT || offsets->items[1].kind != DLR_JSON_INT ||
        offsets->items[0].integer < 0 || offsets->items[1].integer < offsets->items[0].integer)
        return dl_fail(err, DL_INPUT,
                       "%s: tensor '%.200s': 'data_offsets' is not [begin, end] with 0 <= begin <= end",
                       f->path, name);
    span[0] = (uint64_t)offsets->items[0].integer, span[1] = (uint64_t)offsets->items[1].integer;
    if (span[1] > p->size - p->data)
        return dl_fail(err, DL_INPUT,
                       "%s: tensor '%.200s' ends at byte %llu of the data, the file has only %llu", f->path,
                       name, (unsigned long long)span[1], (unsigned long long)(p->size - p->data));
    if (!dlr_st_size(t, &t->bytes) || t->bytes != span[1] - span[0])
        return dl_fail(err, DL_INPUT,
                       "%s: tensor '%.200s': its shape does not fit the %llu bytes of its data", f->path,
                       name, (unsigned long long)(span[1] - span[0]));
    t->data = p->map + p->data + span[0];
    return true;
}

static int by_place(const void *a, const void *b) {
    const dlr_st_tensor *x = a, *y = b;
    const unsigned char *px = x->data, *py = y->data;
    if (px != py) return px < py ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes); /* empty tensors before the one that starts there */
}

/* In the order of their places, each tensor must start where the one before ended, and the last end with the
 * file. */
static bool check_places(const dlr_st_file *f, dl_error *err) {
    const struct dlr_st_private *p = f->private;
    const unsigned char *next = p->map + p->data, *end = p->map + p->size;
    for (int i = 0; i < f->n; i++) {
        const unsigned char *at = f->tensors[i].data;
        if (at != next)
            return dl_fail(err, DL_INPUT, "%s: %s the data of tensor '%.200s'", f->path,
                           at > next ? "a gap before" : "another tensor overlaps", f->tensors[i].name);
        next = at + f->tensors[i].bytes;
    }
    if (next == end) return true;
    return dl_fail(err, DL_INPUT, "%s: %llu bytes follow the last tensor", f->path,
                   (unsigned long long)(end - next));
}

static const char *strip(const char *name) {
    static const char *const prefixes[] = {"module.", "_orig_mod."};
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < 2; i++) {
            size_t n = strlen(prefixes[i]);
            if (strncmp(name, prefixes[i], n) == 0 && name[n]) name += n, again = true;
        }
    }
    return name;
}

static int by_name(const void *a, const void *b, void *tensors) {
    const dlr_st_tensor *t = tensors;
    return strcmp(t[*(const int *)a].name, t[*(const int *)b].name);
}

/* Names were unique in the header, but need not be after stripping. */
static bool index_names(dlr_st_file *f, dl_error *err) {
    int *order = f->private->by_name = DL_NEWS(f->private->arena, int, f->n);
    for (int i = 0; i < f->n; i++) order[i] = i;
    if (f->n > 1) qsort_r(order, (size_t)f->n, sizeof *order, by_name, (void *)f->tensors);
    for (int i = 1; i < f->n; i++)
        if (strcmp(f->tensors[order[i - 1]].name, f->tensors[order[i]].name) == 0)
            return dl_fail(err, DL_INPUT, "%s: two tensors are called '%.200s' once prefixes are dropped",
                           f->path, f->tensors[order[i]].name);
    return true;
}

static bool read_metadata(dlr_st_file *f, const dlr_json *object, dl_error *err) {
    if (object->kind != DLR_JSON_OBJECT)
        return dl_fail(err, DL_INPUT, "%s: '__metadata__' is no object", f->path);
    dlr_st_meta *m = DL_NEWS(f->private->arena, dlr_st_meta, object->n);
    for (int i = 0; i < object->n; i++) {
        if (object->members[i].value.kind != DLR_JSON_STRING)
            return dl_fail(err, DL_INPUT, "%s: '__metadata__': '%.200s' is not a string", f->path,
                           object->members[i].key);
        m[i] = (dlr_st_meta){object->members[i].key, object->members[i].value.string};
    }
    f->metadata = m, f->n_metadata = object->n;
    return true;
}

static bool describe(dlr_st_file *f, dlr_st_flags flags, dl_error *err) {
    struct dlr_st_private *p = f->private;
    uint64_t n;
    char *text = read_header(f, &n, err);
    if (!text) return false;
    p->data = 8 + n;
    const char *name = dl_format(p->arena, "%s: header", f->path);
    const dlr_json *header =
        dlr_json_parse(p->arena, text, (size_t)n, (dlr_json_limits){MAX_DEPTH, MAX_VALUES}, name, err);
    if (!header) return false;
    if (header->kind != DLR_JSON_OBJECT) return dl_fail(err, DL_INPUT, "%s is no JSON object", name);
    dlr_st_tensor *tensors = DL_NEWS(p->arena, dlr_st_tensor, header->n);
    for (int i = 0; i < header->n; i++) {
        const dlr_json_member *m = &header->members[i];
        uint64_t span[2];
        if (strcmp(m->key, "__metadata__") == 0) {
            if (!read_metadata(f, &m->value, err)) return false;
        } else {
            const char *key = flags & DLR_ST_STRIP ? strip(m->key) : m->key;
            if (!read_entry(f, key, &m->value, &tensors[f->n++], span, err)) return false;
        }
    }
    if (f->n > 1) qsort(tensors, (size_t)f->n, sizeof *tensors, by_place);
    f->tensors = tensors;
    return check_places(f, err) && index_names(f, err);
}

dlr_st_file *dlr_st_open(const char *path, dlr_st_flags flags, dl_error *err) {
    int fd = flags & DLR_ST_INPUT ? dl_input_open(path, err) : dl_file_open(path, err);
    struct stat st;
    if (fd < 0) return NULL;
    dl_arena *arena = dl_arena_new(NULL);
    dlr_st_file *f = DL_NEW(arena, dlr_st_file);
    f->path = dl_strdup(arena, path);
    f->private = DL_NEW(arena, struct dlr_st_private);
    *f->private = (struct dlr_st_private){.arena = arena, .fd = fd};
    bool ok = fstat(fd, &st) == 0 || dl_fail_errno(err, DL_IO, "cannot read %s", path);
    if (ok && st.st_size > 0) {
        f->private->size = (uint64_t)st.st_size;
        void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        ok = map != MAP_FAILED || dl_fail_errno(err, DL_IO, "cannot map %s", path);
        if (ok) f->private->map = map;
    }
    if (ok && describe(f, flags, err)) return f;
    dlr_st_close(f);
    return NULL;
}

void dlr_st_close(dlr_st_file *f) {
    if (!f) return;
    struct dlr_st_private *p = f->private;
    if (p->map) munmap(p->map, (size_t)p->size);
    close(p->fd);
    dl_arena_free(p->arena);
}

const dlr_st_tensor *dlr_st_find(const dlr_st_file *f, const char *name) {
    for (int low = 0, high = f->n; low < high;) {
        int middle = low + (high - low) / 2;
        const dlr_st_tensor *t = &f->tensors[f->private->by_name[middle]];
        int c = strcmp(name, t->name);
        if (c == 0) return t;
        if (c < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const char *dlr_st_metadata(const dlr_st_file *f, const char *key) {
    for (int i = 0; i < f->n_metadata; i++)
        if (strcmp(f->metadata[i].key, key) == 0) return f->metadata[i].value;
    return NULL;
}

dlr_st_tensor dlr_st_part(const dlr_st_tensor *t, int64_t first, int64_t n) {
    uint64_t size = dtypes[t->dtype].size;
    dlr_st_tensor part = {.name = t->name, .dtype = t->dtype, .rank = 1, .shape = {n}};
    part.data = (const unsigned char *)t->data + (uint64_t)first * size;
    part.bytes = (uint64_t)n * size;
    return part;
}

bool dlr_st_load(const dlr_st_file *f, const dlr_st_tensor *t, void *dst, dl_error *err) {
    int64_t at = (const unsigned char *)t->data - f->private->map;
    return dl_read_at(f->private->fd, f->path, dst, (size_t)t->bytes, at, err);
}
