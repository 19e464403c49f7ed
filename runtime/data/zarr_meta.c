#include "runtime/data/zarr_meta.h"

#include <math.h>
#include <stdlib.h>

#include "runtime/data/array_npy.h"
#include "runtime/data/packing.h"
#include "runtime/formats/json.h"

/* A group may hold the metadata of all its arrays ("consolidated"). */
static const dlr_json_limits limits = {.depth = 24, .values = 1 << 20};

static const char *string_of(const dlr_json *v) {
    return v && v->kind == DLR_JSON_STRING ? v->string : NULL;
}

static bool is_string(const dlr_json *v, const char *want) {
    return string_of(v) && strcmp(v->string, want) == 0;
}

static bool is_null(const dlr_json *v) { return !v || v->kind == DLR_JSON_NULL; }

/* Reads whole numbers of at least `least`; -1 when the value is none, or has more than
 * DLR_ARRAY_RANK. */
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

/* ---- numbers ---- */

/* Parses "0x7fc00000": the bits of a number of that type, in version 3. */
static bool take_bits(const char *text, dlr_element type, dlr_number *out) {
    const size_t digits = 2 * dlr_element_bytes(type);
    char *end;
    if (strncmp(text, "0x", 2) != 0 || strlen(text) != 2 + digits || digits == 0) return false;
    if (strspn(text + 2, "0123456789abcdefABCDEF") != digits) return false;
    uint64_t bits = strtoull(text + 2, &end, 16);
    uint32_t low = (uint32_t)bits;
    float single;
    memcpy(&single, &low, sizeof single);
    *out = (dlr_number){.kind = 'u', .u = bits};
    if (type == DLR_EL_F16) *out = (dlr_number){.kind = 'f', .f = dlr_of_half((uint16_t)bits)};
    if (type == DLR_EL_F32) *out = (dlr_number){.kind = 'f', .f = (double)single};
    if (type == DLR_EL_F64) out->kind = 'f';
    if (type >= DLR_EL_I8 && type <= DLR_EL_I64) {
        int unused = 64 - 4 * (int)digits;
        *out = (dlr_number){.kind = 'i', .i = (int64_t)(bits << unused) >> unused};
    }
    return true;
}

/* Parses a number of JSON, exactly, or one of the words and bit strings that stand for numbers of
 * that type. */
static bool take_number(const dlr_json *v, dlr_element type, dlr_number *out) {
    *out = (dlr_number){.kind = 'f'};
    if (v->kind == DLR_JSON_INT || v->kind == DLR_JSON_BOOL) {
        *out = (dlr_number){.kind = 'i', .i = v->kind == DLR_JSON_INT ? v->integer : v->boolean};
        return true;
    }
    if (v->kind == DLR_JSON_REAL) {
        out->f = v->real;
        return !v->digits || dlr_number_parse(v->digits, strlen(v->digits), out);
    }
    if (is_string(v, "NaN")) return out->f = NAN, true;
    if (is_string(v, "Infinity")) return out->f = INFINITY, true;
    if (is_string(v, "-Infinity")) return out->f = -INFINITY, true;
    return string_of(v) && take_bits(v->string, type, out);
}

/* The fill value: elements of chunks that are not stored. null means that such chunks are
 * undefined: zeros, as other readers have it. */
static void take_fill(dl_arena *arena, const dlr_json *v, dlr_array_facts *a, dlr_zarr_how *how) {
    dlr_number n, fitting;
    char value[8] = {0};
    if (a->type == DLR_EL_NONE || is_null(v)) return;
    if (!take_number(v, a->type, &n) || !dlr_number_fit(&n, a->type, &fitting)) {
        refuse(arena, a, "has a fill_value that is no number of its type%s", "");
        return;
    }
    dlr_number_store(&fitting, a->type, value);
    size_t bytes = dlr_element_bytes(a->type);
    for (size_t i = 0; i < bytes; i++) how->fill[i] = value[how->swapped ? bytes - 1 - i : i];
    if (how->version != 2) return;
    dlr_attribute *fill = DL_NEW(arena, dlr_attribute);
    dlr_number *number = DL_NEW(arena, dlr_number);
    dl_buf text = {0};
    *number = fitting;
    dl_put_double(&text, dlr_number_double(number));
    *fill = (dlr_attribute){.name = "fill_value (.zarray)",
                            .text = dl_strdup(arena, text.at),
                            .number = dlr_number_double(number),
                            .numbers = number,
                            .n = 1};
    dl_buf_free(&text);
    a->fill = fill;
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
    int version; /* the version that has it; 0: both */
} codecs[] = {
    {"gzip", DLR_CODEC_GZIP, 0},
    {"zlib", DLR_CODEC_ZLIB, 2},
    {"zstd", DLR_CODEC_ZSTD, 0},
    {"blosc", DLR_CODEC_BLOSC, 0},
    {"crc32c", DLR_CODEC_CRC32C, 3},
    {"shuffle", DLR_CODEC_SHUFFLE, 2},
    {"lz4", DLR_CODEC_LZ4_SIZED, 2},
    {"bz2", DLR_CODEC_BZIP2, 2},
    {"fletcher32", DLR_CODEC_FLETCHER32, 2},
};

/* Version 3 has those of version 2 by the names of numcodecs. */
static bool take_codec(dl_arena *arena, const char *name, const dlr_json *about, dlr_array_facts *a,
                       dlr_zarr_how *how) {
    static const char prefix[] = "numcodecs.";
    const bool named = name && strncmp(name, prefix, sizeof prefix - 1) == 0;
    const int version = named ? 2 : how->version;
    if (named) name += sizeof prefix - 1;
    for (size_t i = 0; name && i < sizeof codecs / sizeof *codecs; i++)
        if (strcmp(name, codecs[i].name) == 0 &&
            (!codecs[i].version || codecs[i].version == version)) {
            const dlr_json *size = dlr_json_get(about, "elementsize");
            size_t element =
                size && size->kind == DLR_JSON_INT && size->integer > 0 && size->integer < 256
                    ? (size_t)size->integer
                    : 4;
            add_codec(arena, a, how, codecs[i].kind, element, codecs[i].name);
            return true;
        }
    if (name && strncmp(name, "vlen-utf8", strlen("vlen-utf8")) == 0) a->odd = DLR_ODD_TEXT;
    return false;
}

/* ---- version 2 ---- */

static bool read_v2(dl_arena *arena, const dlr_json *doc, dlr_array_facts *a, dlr_zarr_how *how) {
    const dlr_json *type = dlr_json_get(doc, "dtype"), *packer = dlr_json_get(doc, "compressor");
    const dlr_json *filters = dlr_json_get(doc, "filters"),
                   *separator = dlr_json_get(doc, "dimension_separator");
    const char *code = string_of(type) ? type->string : "a record type";
    a->type = string_of(type) ? dlr_npy_element(code, &how->swapped) : DLR_EL_NONE;
    a->odd = dlr_npy_odd(code);
    a->stored = a->type == DLR_EL_NONE ? dl_format(arena, "'%s'", code)
                : how->swapped         ? dl_format(arena, "%s BE", dlr_element_name(a->type))
                                       : dlr_element_name(a->type);
    how->transposed = is_string(dlr_json_get(doc, "order"), "F");
    for (int i = 0; i < a->rank; i++) how->order[i] = a->rank - 1 - i;
    how->separator = is_string(separator, "/") ? '/' : '.';
    for (int i = 0; filters && filters->kind == DLR_JSON_ARRAY && i < filters->n; i++) {
        const char *name = string_of(dlr_json_get(&filters->items[i], "id"));
        if (!take_codec(arena, name, &filters->items[i], a, how))
            refuse(arena, a, "has the filter '%s', which is not read", name);
    }
    if (is_null(packer)) return true;
    const char *name = string_of(dlr_json_get(packer, "id"));
    if (!take_codec(arena, name, packer, a, how))
        refuse(arena, a, "is packed with '%s', which is not read", name);
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

/* By the beginnings of the names that zarr-extensions has; a struct is an object of that name. */
static dlr_odd odd_v3(const char *name) {
    static const struct {
        const char *begin;
        dlr_odd odd;
    } rows[] = {{"complex", DLR_ODD_COMPLEX},         {"string", DLR_ODD_TEXT},
                {"fixed_length_utf32", DLR_ODD_TEXT}, {"null_terminated_bytes", DLR_ODD_TEXT},
                {"numpy.datetime64", DLR_ODD_TIMES},  {"numpy.timedelta64", DLR_ODD_TIMES},
                {"struct", DLR_ODD_RECORDS}};
    for (size_t i = 0; name && i < sizeof rows / sizeof *rows; i++)
        if (strncmp(name, rows[i].begin, strlen(rows[i].begin)) == 0) return rows[i].odd;
    return DLR_ODD_OTHER;
}

/* The name of a codec or type: a text, or the member `name`. */
static const char *codec_name(const dlr_json *item) {
    return string_of(item) ? item->string : string_of(dlr_json_get(item, "name"));
}

/* Whether a `bytes` codec has the other byte order than this machine. */
static bool is_swapped(const dlr_json *about) {
    const bool little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    return is_string(dlr_json_get(about, "endian"), little ? "big" : "little");
}

/* The codec sharding_indexed ("Sharding codec", version 1.0): the chunks in a shard are those of
 * the array. The codecs of its chunks follow; NULL where it cannot be read. */
static const dlr_json *take_shards(dl_arena *arena, const dlr_json *about, dlr_array_facts *a,
                                   dlr_zarr_how *how) {
    const dlr_json *index = dlr_json_get(about, "index_codecs");
    const dlr_json *place = dlr_json_get(about, "index_location");
    int64_t inner[DLR_ARRAY_RANK];
    bool ok = take_sizes(dlr_json_get(about, "chunk_shape"), 1, inner) == a->rank;
    for (int i = 0; ok && i < a->rank; i++) {
        ok = a->chunk[i] % inner[i] == 0;
        how->shard[i] = a->chunk[i] / inner[i], a->chunk[i] = inner[i];
    }
    how->sharded = true, how->index_first = is_string(place, "start");
    ok = ok && (is_null(place) || how->index_first || is_string(place, "end")) && index &&
         index->kind == DLR_JSON_ARRAY && index->n >= 1 && index->n <= 2 &&
         codec_name(&index->items[0]) && strcmp(codec_name(&index->items[0]), "bytes") == 0;
    if (ok) how->index_swapped = is_swapped(dlr_json_get(&index->items[0], "configuration"));
    how->index_checked = ok && index->n == 2;
    if (how->index_checked)
        ok = codec_name(&index->items[1]) && strcmp(codec_name(&index->items[1]), "crc32c") == 0;
    if (!ok)
        refuse(arena, a, "is stored in shards whose chunks or index are not as '%s' has them",
               "sharding_indexed");
    return ok ? dlr_json_get(about, "codecs") : NULL;
}

/* The codec transpose ("Transpose codec", version 1.0): axis i of the chunk that it gives is axis
 * order[i] of the one that it takes. Codecs of that name may follow each other. */
static void take_transpose(dl_arena *arena, const dlr_json *about, dlr_array_facts *a,
                           dlr_zarr_how *how) {
    const dlr_json *order = dlr_json_get(about, "order");
    const bool falling = is_string(order, "F"), named = falling || is_string(order, "C");
    int64_t at[DLR_ARRAY_RANK];
    int before[DLR_ARRAY_RANK];
    unsigned seen = 0;
    if (!named && take_sizes(order, 0, at) != a->rank) {
        refuse(arena, a, "has the codec transpose with an order of axes that is %s", "none");
        return;
    }
    for (int i = 0; i < a->rank; i++) before[i] = how->transposed ? how->order[i] : i;
    for (int i = 0; i < a->rank; i++) {
        if (named) at[i] = falling ? a->rank - 1 - i : i;
        if (at[i] < a->rank) seen |= 1u << at[i], how->order[i] = before[at[i]];
    }
    how->transposed = true;
    if (seen != (1u << a->rank) - 1)
        refuse(arena, a, "has the codec transpose with an order that is %s of its axes", "none");
}

static void take_codecs_v3(dl_arena *arena, const dlr_json *list, dlr_array_facts *a,
                           dlr_zarr_how *how) {
    bool packed_yet = false; /* follows `bytes` */
    if (list && list->kind == DLR_JSON_ARRAY && list->n == 1 && codec_name(list->items) &&
        strcmp(codec_name(list->items), "sharding_indexed") == 0) {
        list = take_shards(arena, dlr_json_get(list->items, "configuration"), a, how);
        if (!list) return;
    }
    for (int i = 0; list && list->kind == DLR_JSON_ARRAY && i < list->n; i++) {
        const dlr_json *item = &list->items[i], *about = dlr_json_get(item, "configuration");
        const char *name = codec_name(item);
        if (name && strcmp(name, "bytes") == 0 && !packed_yet) {
            how->swapped = dlr_element_bytes(a->type) > 1 && is_swapped(about);
            if (how->swapped && a->type != DLR_EL_NONE)
                a->stored = dl_format(arena, "%s BE", a->stored);
            packed_yet = true;
        } else if (name && strcmp(name, "transpose") == 0 && !packed_yet)
            take_transpose(arena, about, a, how);
        else if (name && strcmp(name, "sharding_indexed") == 0)
            refuse(arena, a,
                   "is stored in shards (%s) within shards or packed as a whole, which is not read",
                   name);
        else if (!packed_yet || !take_codec(arena, name, about, a, how))
            refuse(arena, a, "has the codec '%s', which is not read", name);
    }
    if (!packed_yet) refuse(arena, a, "lacks the codec '%s'", "bytes");
}

/* ---- attributes ---- */

/* Decodes base64 of a double, least byte first, as xarray writes fill values of floats into version
 * 3. */
static bool take_base64(const char *text, dlr_number *out) {
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint64_t bits = 0;
    if (strlen(text) != 12 || text[11] != '=') return false;
    unsigned char bytes[9] = {0};
    for (int i = 0; i < 12; i++) {
        const char *at = i == 11 ? letters : strchr(letters, text[i]);
        if (!at) return false;
        for (int k = 0; k < 6; k++)
            bytes[(6 * i + k) / 8] |=
                (unsigned char)(((at - letters) >> (5 - k) & 1) << (7 - (6 * i + k) % 8));
    }
    for (int i = 7; i >= 0; i--) bits = bits << 8 | bytes[i];
    *out = (dlr_number){.kind = 'f'};
    memcpy(&out->f, &bits, sizeof bits);
    return true;
}

/* Reads all numbers of an attribute that packing.h knows. A text remains text. */
static void take_numbers(dl_arena *arena, const dlr_json *v, const dlr_array_facts *a, int version,
                         dlr_attribute *at) {
    const bool list = v->kind == DLR_JSON_ARRAY;
    const int n = list ? v->n : 1;
    dlr_number *numbers = DL_NEWS(arena, dlr_number, n + 1), decimal;
    at->numbers = numbers;
    at->unread = n == 0;
    for (int i = 0; i < n; i++) {
        const dlr_json *item = list ? &v->items[i] : v;
        const char *text = string_of(item);
        if (text && dlr_number_parse(text, strlen(text), &decimal))
            numbers[i] = decimal;
        else if (!take_number(item, a->type, &numbers[i]) &&
                 !(version == 3 && text && dlr_element_is_float(a->type) &&
                   take_base64(text, &numbers[i]))) {
            at->unread = !text || list;
            return;
        }
    }
    at->n = n;
    if (n) at->number = dlr_number_double(numbers);
}

static void put_attributes(dl_arena *arena, const dlr_json *object, int version,
                           dlr_array_facts *a) {
    if (!object || object->kind != DLR_JSON_OBJECT) return;
    dlr_attribute *all = DL_NEWS(arena, dlr_attribute, object->n + 1);
    const dlr_json *axes = dlr_json_get(object, "_ARRAY_DIMENSIONS");
    for (int i = 0; i < object->n; i++) {
        const dlr_json *v = &object->members[i].value;
        dlr_attribute at = {.name = object->members[i].key, .number = NAN};
        dl_buf text = {0};
        bool packs = dlr_packing_knows(at.name) && v->kind != DLR_JSON_NULL;
        if (packs) take_numbers(arena, v, a, version, &at);
        if (string_of(v))
            at.text = v->string;
        else if (packs ? at.n > 0 : dlr_json_number(v, &at.number)) {
            dl_put_double(&text, at.number);
            at.text = dl_strdup(arena, text.at);
        } else if (packs)
            at.text = "(neither numbers nor text)";
        dl_buf_free(&text);
        if (at.text) all[a->attribute_count++] = at;
    }
    a->attributes = all;
    for (int i = 0; axes && axes->kind == DLR_JSON_ARRAY && i < axes->n && i < DLR_ARRAY_RANK; i++)
        if (!a->axis[i]) a->axis[i] = string_of(&axes->items[i]);
}

/* Version 2's fill_value marks missing numbers where xarray wrote the array, or another program
 * that follows the CF conventions. Elsewhere it is an ordinary number, the value of chunks that
 * were not written. */
static void judge_fill(const dlr_json *attributes, dlr_array_facts *a) {
    bool follows = dlr_json_get(attributes, "_ARRAY_DIMENSIONS") != NULL;
    for (int i = 0; i < a->attribute_count; i++)
        follows |= dlr_packing_knows(a->attributes[i].name);
    if (!follows) a->fill = NULL;
}

static bool read_v3(dl_arena *arena, const dlr_json *doc, dlr_array_facts *a, dlr_zarr_how *how) {
    const dlr_json *type = dlr_json_get(doc, "data_type"), *grid = dlr_json_get(doc, "chunk_grid");
    const dlr_json *keys = dlr_json_get(doc, "chunk_key_encoding"),
                   *names = dlr_json_get(doc, "dimension_names");
    const dlr_json *separator = dlr_json_get(dlr_json_get(keys, "configuration"), "separator");
    const dlr_json *transformers = dlr_json_get(doc, "storage_transformers");
    const char *key = string_of(dlr_json_get(keys, "name"));
    const char *named = codec_name(type);
    a->type = type_v3(named), a->odd = odd_v3(named);
    a->stored = a->type == DLR_EL_NONE ? dl_format(arena, "'%s'", named ? named : "(no name)")
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
    put_attributes(arena, dlr_json_get(doc, "attributes"), 3, a);
    for (int i = 0; names && names->kind == DLR_JSON_ARRAY && i < names->n && i < DLR_ARRAY_RANK;
         i++)
        if (string_of(&names->items[i])) a->axis[i] = names->items[i].string;
    return true;
}

/* ---- both versions ---- */

bool dlr_zarr_array(dl_arena *arena, const char *text, size_t n, int version, const char *path,
                    dlr_array_facts *a, dlr_zarr_how *how, dl_error *err) {
    const dlr_json *doc = dlr_json_parse_python(arena, text, n, limits, path, err);
    if (!doc) return false;
    const dlr_json *format = dlr_json_get(doc, "zarr_format");
    if (!format || format->kind != DLR_JSON_INT || format->integer != version)
        return bad_meta(path, "zarr_format does not fit the file's name", err);
    *how = (dlr_zarr_how){.version = version};
    a->packing = "none", a->chunked = true;
    const dlr_json *chunks =
        version == 2 ? dlr_json_get(doc, "chunks")
                     : dlr_json_get(dlr_json_get(dlr_json_get(doc, "chunk_grid"), "configuration"),
                                    "chunk_shape");
    const dlr_json *shape = dlr_json_get(doc, "shape");
    if (shape && shape->kind == DLR_JSON_ARRAY && shape->n > DLR_ARRAY_RANK) {
        a->rank = shape->n, a->type = DLR_EL_NONE, a->stored = "too many axes";
        return true;
    }
    a->rank = take_sizes(shape, 0, a->dims);
    if (a->rank < 0) return bad_meta(path, "'shape' is no list of sizes", err);
    if (take_sizes(chunks, 1, a->chunk) != a->rank)
        return bad_meta(path, "the chunks' shape has not as many sizes (of 1 at least) as 'shape'",
                        err);
    bool ok = version == 2 ? read_v2(arena, doc, a, how) : read_v3(arena, doc, a, how);
    take_fill(arena, dlr_json_get(doc, "fill_value"), a, how);
    return ok;
}

bool dlr_zarr_attributes(dl_arena *arena, const char *text, size_t n, const char *path,
                         dlr_array_facts *a, dl_error *err) {
    const dlr_json *doc = dlr_json_parse_python(arena, text, n, limits, path, err);
    if (!doc) return false;
    put_attributes(arena, doc, 2, a);
    judge_fill(doc, a);
    return true;
}

bool dlr_zarr_node_of(dl_arena *arena, const char *text, size_t n, const char *path,
                      dlr_zarr_node *node, dl_error *err) {
    const dlr_json *doc = dlr_json_parse_python(arena, text, n, limits, path, err);
    const dlr_json *type = dlr_json_get(doc, "node_type");
    *node = is_string(type, "array")   ? DLR_ZARR_ARRAY
            : is_string(type, "group") ? DLR_ZARR_GROUP
                                       : DLR_ZARR_OTHER;
    return doc != NULL;
}
