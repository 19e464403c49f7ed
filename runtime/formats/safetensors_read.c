/* Safetensors: u64le N, N bytes of JSON {name: {dtype, shape, data_offsets}, "__metadata__": {text:
 * text}}, then the tensors, little-endian and row-major, without gaps. */
#include <stdlib.h>

#include "ir/base/input.h"
#include "runtime/formats/json.h"
#include "runtime/formats/stored_internal.h"

/* A tensor needs about ten JSON values: enough for 150,000 tensors, and a bound on the cost of a
 * malicious header. */
enum { MAX_VALUES = 1500000, MAX_DEPTH = 8 };

/* The header's text; its length is checked. NULL: failed. */
static char *read_header(dlr_st_file *f, uint64_t *n, dl_error *err) {
    struct dlr_st_private *p = f->private;
    if (p->size < 8)
        return dl_fail(err, DL_INPUT,
                       "%s: no safetensors and no file of PyTorch's: shorter than 8 bytes",
                       f->path),
               NULL;
    if (!dl_read_at(p->fd, f->path, n, 8, 0, err)) return NULL;
    if (*n > DLR_ST_MAX_HEADER)
        return dl_fail(err, DL_INPUT,
                       "%s: no file of PyTorch's, nor safetensors: its first 8 bytes announce a "
                       "header of "
                       "%llu bytes, at "
                       "most %d are allowed",
                       f->path, (unsigned long long)*n, DLR_ST_MAX_HEADER),
               NULL;
    if (*n > p->size - 8)
        return dl_fail(err, DL_INPUT, "%s: cut off: the header has %llu bytes, the file only %llu",
                       f->path, (unsigned long long)*n, (unsigned long long)p->size),
               NULL;
    char *text = dl_alloc(p->arena, (size_t)*n + 1);
    return dl_read_at(p->fd, f->path, text, (size_t)*n, 8, err) ? text : NULL;
}

/* A complex number is two f32: a tensor of them is one of f32 with a last axis of size 2. */
static bool is_complex(const dlr_json *dtype) {
    return dtype && dtype->kind == DLR_JSON_STRING && strcmp(dtype->string, "C64") == 0;
}

static bool read_shape(const dlr_st_file *f, const dlr_json *shape, const dlr_json *dtype,
                       dlr_st_tensor *t, dl_error *err) {
    if (!shape || shape->kind != DLR_JSON_ARRAY)
        return dl_fail(err, DL_INPUT, "%s: tensor '%.200s': no list 'shape'", f->path, t->name);
    int parts = is_complex(dtype);
    if (shape->n + parts > DLR_ST_MAX_RANK)
        return dl_fail(err, DL_INPUT,
                       "%s: tensor '%.200s': %d dimensions, at most %d are supported", f->path,
                       t->name, shape->n + parts, DLR_ST_MAX_RANK);
    t->rank = shape->n + parts;
    if (parts) t->shape[shape->n] = 2;
    for (int i = 0; i < shape->n; i++) {
        if (shape->items[i].kind != DLR_JSON_INT || shape->items[i].integer < 0)
            return dl_fail(err, DL_INPUT,
                           "%s: tensor '%.200s': size %d of its shape is not a whole number >= 0",
                           f->path, t->name, i);
        t->shape[i] = shape->items[i].integer;
    }
    return true;
}

static bool read_dtype(const dlr_st_file *f, const dlr_json *dtype, dlr_st_tensor *t,
                       dl_error *err) {
    if (!dtype || dtype->kind != DLR_JSON_STRING)
        return dl_fail(err, DL_INPUT, "%s: tensor '%.200s': no string 'dtype'", f->path, t->name);
    for (int i = 0; i < DLR_ST_N_DTYPES; i++)
        if (strcmp(dtype->string, dlr_st_dtype_name((dlr_st_dtype)i)) == 0) {
            t->dtype = (dlr_st_dtype)i;
            return true;
        }
    if (is_complex(dtype)) {
        t->dtype = DLR_ST_F32;
        return true;
    }
    return dl_fail(err, DL_INPUT, "%s: tensor '%.200s': the element type '%.40s' is not supported",
                   f->path, t->name, dtype->string);
}

/* Reads one entry of the header; `span` gets its first and last offset. */
static bool read_entry(const dlr_st_file *f, const char *name, const dlr_json *entry,
                       dlr_st_tensor *t, uint64_t span[2], dl_error *err) {
    const struct dlr_st_private *p = f->private;
    t->name = name;
    if (entry->kind != DLR_JSON_OBJECT || entry->n != 3)
        return dl_fail(
            err, DL_INPUT,
            "%s: tensor '%.200s': expected {dtype, shape, data_offsets} and nothing else", f->path,
            name);
    if (!read_dtype(f, dlr_json_get(entry, "dtype"), t, err) ||
        !read_shape(f, dlr_json_get(entry, "shape"), dlr_json_get(entry, "dtype"), t, err))
        return false;
    const dlr_json *offsets = dlr_json_get(entry, "data_offsets");
    if (!offsets || offsets->kind != DLR_JSON_ARRAY || offsets->n != 2 ||
        offsets->items[0].kind != DLR_JSON_INT || offsets->items[1].kind != DLR_JSON_INT ||
        offsets->items[0].integer < 0 || offsets->items[1].integer < offsets->items[0].integer)
        return dl_fail(
            err, DL_INPUT,
            "%s: tensor '%.200s': 'data_offsets' is not [begin, end] with 0 <= begin <= end",
            f->path, name);
    span[0] = (uint64_t)offsets->items[0].integer, span[1] = (uint64_t)offsets->items[1].integer;
    if (span[1] > p->size - p->data)
        return dl_fail(err, DL_INPUT,
                       "%s: tensor '%.200s' ends at byte %llu of the data, the file has only %llu",
                       f->path, name, (unsigned long long)span[1],
                       (unsigned long long)(p->size - p->data));
    if (!dlr_st_size(t, &t->bytes) || t->bytes != span[1] - span[0])
        return dl_fail(err, DL_INPUT,
                       "%s: tensor '%.200s': its shape does not fit the %llu bytes of its data",
                       f->path, name, (unsigned long long)(span[1] - span[0]));
    t->data = p->map + p->data + span[0];
    return true;
}

static int by_place(const void *a, const void *b) {
    const dlr_st_tensor *x = a, *y = b;
    const unsigned char *px = x->data, *py = y->data;
    if (px != py) return px < py ? -1 : 1;
    /* empty tensors come before the one that starts at the same offset */
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Checks, in the order of offsets, that each tensor starts where the previous one ends, and that
 * the last ends with the file. */
static bool check_places(const dlr_st_file *f, dl_error *err) {
    const struct dlr_st_private *p = f->private;
    const unsigned char *next = p->map + p->data, *end = p->map + p->size;
    for (int i = 0; i < f->n; i++) {
        const unsigned char *at = p->tensors[i].data;
        if (at != next)
            return dl_fail(err, DL_INPUT, "%s: %s the data of tensor '%.200s'", f->path,
                           at > next ? "a gap before" : "another tensor overlaps",
                           p->tensors[i].name);
        next = at + p->tensors[i].bytes;
    }
    if (next == end) return true;
    return dl_fail(err, DL_INPUT, "%s: %llu bytes follow the last tensor", f->path,
                   (unsigned long long)(end - next));
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

bool dlr_safetensors_describe(dlr_st_file *f, dl_error *err) {
    struct dlr_st_private *p = f->private;
    uint64_t n;
    char *text = read_header(f, &n, err);
    if (!text) return false;
    p->data = 8 + n;
    const char *name = dl_format(p->arena, "%s: header", f->path);
    const dlr_json *header = dlr_json_parse(p->arena, text, (size_t)n,
                                            (dlr_json_limits){MAX_DEPTH, MAX_VALUES}, name, err);
    if (!header) return false;
    if (header->kind != DLR_JSON_OBJECT)
        return dl_fail(err, DL_INPUT, "%s is no JSON object", name);
    dlr_st_tensor *tensors = p->tensors = DL_NEWS(p->arena, dlr_st_tensor, header->n);
    for (int i = 0; i < header->n; i++) {
        const dlr_json_member *m = &header->members[i];
        uint64_t span[2];
        if (strcmp(m->key, "__metadata__") == 0) {
            if (!read_metadata(f, &m->value, err)) return false;
        } else {
            if (!read_entry(f, m->key, &m->value, &tensors[f->n++], span, err)) return false;
        }
    }
    if (f->n > 1) qsort(tensors, (size_t)f->n, sizeof *tensors, by_place);
    return check_places(f, err);
}
