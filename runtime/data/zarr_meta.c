#include "runtime/data/zarr_meta.h"

#include <math.h>
#include <stdlib.h>

#include "runtime/data/array_npy.h"
#include "runtime/io/json.h"

static const dlr_json_limits limits = {.depth = 16, .values = 20000};

static const char *string_of(const dlr_json *v) { return v && v->kind == DLR_JSON_STRING ? v->string : NULL; }

static bool is_string(const dlr_json *v, const char *want) {
    return string_of(v) && strcmp(v->string, want) == 0;
}

static bool is_null(const dlr_json *v) { return !v || v->kind == DLR_JSON_NULL; }

/* Whole numbers of at least `least`; -1 when it is none, or has more than DLR_ARRAY_RANK. */
static int take_sizes(const dlr_json *v, int64_t least, int64_t *out) {
    if (!v || v->kind != DLR_JSON_ARRAY || v->n > DLR_ARRAY_RANK) return -1;
    for (int i = 0; i < v->n; i++) {
        if (v->items[i].kind != DLR_JSON_INT || v->items[i].integer < least) return -1;
        out[i] = v->items[i].integer;
    }
    return v->n;
}

static bool bad_meta(const char *path, const char *what, dl_error *err) {
    return dl_fail(err, DL_INPUT, "%s: no metadata of a Zarr array: %s", path, what);
}

static void refuse(dl_arena *arena, dlr_array_facts *a, const char *format, const char *what) {
    if (!a->refused) a->refused = dl_format(arena, format, what ? what : "(no name)");
}

/* ---- the number of chunks that are not stored ---- */

/* A double as a number of that type, in its stored bytes; exactly, or false. */
static bool store_number(const dlr_array_facts *a, bool swapped, const void *number, dlr_element type,
                         char *fill) {
    char value[8] = {0};
    int64_t bad[DLR_ARRAY_RANK];
    double odd;
    dlr_element_move m = {.from = number, .from_type = type, .to = value, .to_type = a->type};
    if (a->type == DLR_EL_F16) return false;
    if (!dlr_elements_move(&m, bad, &odd)) return false;
    size_t n = dlr_element_bytes(a->type);
    for (size_t i = 0; i < n; i++) fill[i] = value[swapped ? n - 1 - i : i];
    return true;
}

/* null means that such chunks are not defined: zeros, as other readers have it. */
static void take_fill(dl_arena *arena, const dlr_json *v, dlr_array_facts *a, dlr_zarr_how *how) {
    double real = 0;
    bool ok = true;
    if (a->type == DLR_EL_NONE || is_null(v)) return;
    if (v->kind == DLR_JSON_INT)
        ok = v->integer == 0 || store_number(a, how->swapped, &v->integer, DLR_EL_I64, how->fill);
    else if (v->kind == DLR_JSON_BOOL)
        ok = store_number(a, how->swapped, &(int64_t){v->boolean}, DLR_EL_I64, how->fill);
    else if (v->kind == DLR_JSON_REAL)
        real = v->real, ok = real == 0 || store_number(a, how->swapped, &real, DLR_EL_F64, how->fill);
    else {
        real = is_string(v, "NaN") ? NAN : is_string(v, "Infinity") ? INFINITY : -INFINITY;
        ok = (is_string(v, "NaN") || is_string(v, "Infinity") || is_string(v, "-Infinity")) &&
             store_number(a, how->swapped, &real, DLR_EL_F64, how->fill);
    }
    if (!ok) refuse(arena, a, "has a fill_value that is no number of its type%s", "");
}

/* ---- codecs ---- */

static void add_codec(dl_arena *arena, dlr_array_facts *a, dlr_zarr_how *how, dlr_codec_kind kind,
                      size_t element, const char *name) {
    if (how->codecs == DLR_MAX_CODECS) {
        refuse(arena, a, "is packed by more than %s codecs", "8");
        return;
    }
    how->codec[how->codecs++] = (dlr_codec){kind, element};
    a->packing = how->codecs > 1 ? dl_format(arena, "%s, %s", a->packing, name) : name;
}

static const struct {
    const char *name;
    dlr_codec_kind kind;
    int version; /* that has it; 0: both */
} codecs[] = {
    {"gzip", DLR_CODEC_GZIP, 0},   {"zlib", DLR_CODEC_ZLIB, 2},     {"zstd", DLR_CODEC_ZSTD, 0},
    {"blosc", DLR_CODEC_BLOSC, 0}, {"crc32c", DLR_CODEC_CRC32C, 3}, {"shuffle", DLR_CODEC_SHUFFLE, 2},
};

static bool take_codec(dl_arena *arena, const char *name, const dlr_json *about, dlr_array_facts *a,
                       dlr_zarr_how *how) {
    for (size_t i = 0; name && i < sizeof codecs / sizeof *codecs; i++)
        if (strcmp(name, codecs[i].name) == 0 && (!codecs[i].version || codecs[i].version == how->version)) {
            const dlr_json *size = dlr_json_get(about, "elementsize");
            size_t element = size && size->kind == DLR_JSON_INT && size->integer > 0 && size->integer < 256
                                 ? (size_t)size->integer
                                 : 4;
            add_codec(arena, a, how, codecs[i].kind, element, codecs[i].name);
            return true;
        }
    return false;
}

/* ---- version 2 ---- */

static bool read_v2(dl_arena *arena, const dlr_json *doc, dlr_array_facts *a, dlr_zarr_how *how) {
    const dlr_json *type = dlr_json_get(doc, "dtype"), *packer = dlr_json_get(doc, "compressor");
    const dlr_json *filters = dlr_json_get(doc, "filters"),
                   *separator = dlr_json_get(doc, "dimension_separator");
    const char *code = string_of(type) ? type->string : "a record type";
    a->type = string_of(type) ? dlr_npy_element(code, &how->swapped) : DLR_EL_NONE;
    a->stored = a->type == DLR_EL_NONE ? dl_format(arena, "'%s'", code)
                : how->swapped         ? dl_format(arena, "%s BE", dlr_element_name(a->type))
                                       : dlr_element_name(a->type);
    how->fortran = is_string(dlr_json_get(doc, "order"), "F");
    how->separator = is_string(separator, "/") ? '/' : '.';
    for (int i = 0; filters && filters->kind == DLR_JSON_ARRAY && i < filters->n; i++) {
        const char *name = string_of(dlr_json_get(&filters->items[i], "id"));
        if (!take_codec(arena, name, &filters->items[i], a, how))
            refuse(arena, a, "has the filter '%s', which is not supported: write it again without", name);
    }
    if (is_null(packer)) return true;
    const char *name = string_of(dlr_json_get(packer, "id"));
    if (!take_codec(arena, name, packer, a, how))
        refuse(arena, a,
               "is packed with '%s', which is not supported: write it again with blosc, zstd or gzip", name);
    return true;
}

/* ---- version 3 ---- */

static dlr_element type_v3(const char *name) {
    static const struct {
        const char *name;
        dlr_element type;
    } types[] = {{"bool", DLR_EL_BOOL},   {"int8", DLR_EL_I8},     {"int16", DLR_EL_I16},
                 {"int32", DLR_EL_I32},   {"int64", DLR_EL_I64},   {"uint8", DLR_EL_U8},
                 {"uint16", DLR_EL_U16},  {"uint32", DLR_EL_U32},  {"uint64", DLR_EL_U64},
                 {"float16", DLR_EL_F16}, {"float32", DLR_EL_F32}, {"float64", DLR_EL_F64}};
    for (size_t i = 0; name && i < sizeof types / sizeof *types; i++)
        if (strcmp(name, types[i].name) == 0) return types[i].type;
    return DLR_EL_NONE;
}

static void take_codecs_v3(dl_arena *arena, const dlr_json *list, dlr_array_facts *a, dlr_zarr_how *how) {
    bool packed_yet = false; /* behind `bytes` */
    for (int i = 0; list && list->kind == DLR_JSON_ARRAY && i < list->n; i++) {
        const dlr_json *item = &list->items[i], *about = dlr_json_get(item, "configuration");
        const char *name = string_of(item) ? item->string : string_of(dlr_json_get(item, "name"));
        if (name && strcmp(name, "bytes") == 0 && !packed_yet) {
            const bool little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
            how->swapped = dlr_element_bytes(a->type) > 1 &&
                           is_string(dlr_json_get(about, "endian"), little ? "big" : "little");
            if (how->swapped && a->type != DLR_EL_NONE) a->stored = dl_format(arena, "%s BE", a->stored);
            packed_yet = true;
        } else if (name && strcmp(name, "sharding_indexed") == 0)
            refuse(arena, a, "is stored in shards (%s), which are not supported: write it again without",
                   name);
        else if (!packed_yet || !take_codec(arena, name, about, a, how))
            refuse(arena, a,
                   "has the codec '%s', which is not supported: write it again with blosc, zstd or gzip",
                   name);
    }
    if (!packed_yet) refuse(arena, a, "lacks the codec '%s'", "bytes");
}

static void put_attributes(dl_arena *arena, const dlr_json *object, dlr_array_facts *a) {
    if (!object || object->kind != DLR_JSON_OBJECT) return;
    dlr_attribute *all = DL_NEWS(arena, dlr_attribute, object->n + 1);
    const dlr_json *axes = dlr_json_get(object, "_ARRAY_DIMENSIONS");
    for (int i = 0; i < object->n; i++) {
        const dlr_json *v = &object->members[i].value;
        dlr_attribute at = {.name = object->members[i].key, .number = NAN};
        dl_buf text = {0};
        if (string_of(v))
            at.text = v->string;
        else if (dlr_json_number(v, &at.number)) {
            dl_put_double(&text, at.number);
            at.text = dl_strdup(arena, text.at);
        }
        dl_buf_free(&text);
        if (at.text) all[a->attribute_count++] = at;
    }
    a->attributes = all;
    for (int i = 0; axes && axes->kind == DLR_JSON_ARRAY && i < axes->n && i < DLR_ARRAY_RANK; i++)
        if (!a->axis[i]) a->axis[i] = string_of(&axes->items[i]);
}

static bool read_v3(dl_arena *arena, const dlr_json *doc, dlr_array_facts *a, dlr_zarr_how *how) {
    const dlr_json *type = dlr_json_get(doc, "data_type"), *grid = dlr_json_get(doc, "chunk_grid");
    const dlr_json *keys = dlr_json_get(doc, "chunk_key_encoding"),
                   *names = dlr_json_get(doc, "dimension_names");
    const dlr_json *separator = dlr_json_get(dlr_json_get(keys, "configuration"), "separator");
    const dlr_json *transformers = dlr_json_get(doc, "storage_transformers");
    const char *key = string_of(dlr_json_get(keys, "name"));
    a->type = type_v3(string_of(type));
    a->stored = a->type == DLR_EL_NONE
                    ? dl_format(arena, "'%s'", string_of(type) ? type->string : "a record type")
                    : dlr_element_name(a->type);
    how->prefixed = key && strcmp(key, "default") == 0;
    how->separator = how->prefixed ? '/' : '.';
    if (string_of(separator)) how->separator = separator->string[0] == '.' ? '.' : '/';
    if (!is_string(dlr_json_get(grid, "name"), "regular"))
        refuse(arena, a, "has a grid of chunks that is not '%s'", "regular");
    if (!how->prefixed && !(key && strcmp(key, "v2") == 0))
        refuse(arena, a, "names its chunks by '%s', which is not supported", key);
    if (transformers && transformers->n > 0)
        refuse(arena, a, "has storage transformers, which are not supported%s", "");
    take_codecs_v3(arena, dlr_json_get(doc, "codecs"), a, how);
    put_attributes(arena, dlr_json_get(doc, "attributes"), a);
    for (int i = 0; names && names->kind == DLR_JSON_ARRAY && i < names->n && i < DLR_ARRAY_RANK; i++)
        if (string_of(&names->items[i])) a->axis[i] = names->items[i].string;
    return true;
}

/* ---- both ---- */

bool dlr_zarr_array(dl_arena *arena, const char *text, size_t n, int version, const char *path,
                    dlr_array_facts *a, dlr_zarr_how *how, dl_error *err) {
    const dlr_json *doc = dlr_json_parse(arena, text, n, limits, path, err);
    if (!doc) return false;
    const dlr_json *format = dlr_json_get(doc, "zarr_format");
    if (!format || format->kind != DLR_JSON_INT || format->integer != version)
        return bad_meta(path, "zarr_format does not fit the file's name", err);
    *how = (dlr_zarr_how){.version = version};
    a->packing = "none", a->chunked = true;
    const dlr_json *chunks =
        version == 2
            ? dlr_json_get(doc, "chunks")
            : dlr_json_get(dlr_json_get(dlr_json_get(doc, "chunk_grid"), "configuration"), "chunk_shape");
    a->rank = take_sizes(dlr_json_get(doc, "shape"), 0, a->dims);
    if (a->rank < 0) return bad_meta(path, "'shape' is no list of at most 8 sizes", err);
    if (take_sizes(chunks, 1, a->chunk) != a->rank)
        return bad_meta(path, "the chunks' shape is none of as many axes as 'shape'", err);
    bool ok = version == 2 ? read_v2(arena, doc, a, how) : read_v3(arena, doc, a, how);
    take_fill(arena, dlr_json_get(doc, "fill_value"), a, how);
    return ok;
}

bool dlr_zarr_attributes(dl_arena *arena, const char *text, size_t n, const char *path, dlr_array_facts *a,
                         dl_error *err) {
    const dlr_json *doc = dlr_json_parse(arena, text, n, limits, path, err);
    if (doc) put_attributes(arena, doc, a);
    return doc != NULL;
}

bool dlr_zarr_node_of(dl_arena *arena, const char *text, size_t n, const char *path, dlr_zarr_node *node,
                      dl_error *err) {
    const dlr_json *doc = dlr_json_parse(arena, text, n, limits, path, err);
    const dlr_json *type = dlr_json_get(doc, "node_type");
    *node = is_string(type, "array")   ? DLR_ZARR_ARRAY
            : is_string(type, "group") ? DLR_ZARR_GROUP
                                       : DLR_ZARR_OTHER;
    return doc != NULL;
}
