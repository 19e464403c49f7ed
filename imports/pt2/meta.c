/* Members of the JSON, sizes and types; messages with their place. */
#include "imports/pt2/parts.h"

bool dl_pt2_bad(const dl_pt2_reader *r, const char *format, ...) {
    const char *place = dl_format(r->arena, "models/model.json: %s", r->place);
    va_list args;
    va_start(args, format);
    dl_foreign_bad(r->err, r->archive->path, place, format, args);
    va_end(args);
    return false;
}

const dlr_json *dl_pt2_get(const dl_pt2_reader *r, const dlr_json *object, const char *key,
                           dlr_json_kind kind) {
    const dlr_json *value = dlr_json_get(object, key);
    if (!value || value->kind != kind)
        return dl_pt2_bad(r, "'%s' is missing, or of another kind", key), NULL;
    return value;
}

const dlr_json_member *dl_pt2_tagged(const dl_pt2_reader *r, const dlr_json *value) {
    if (!value || value->kind != DLR_JSON_OBJECT || value->n != 1)
        return dl_pt2_bad(r, "an argument is no object with one member"), NULL;
    return &value->members[0];
}

/* ---- sizes and types ---- */

bool dl_pt2_size(const dl_pt2_reader *r, const dlr_json *value, int64_t *size, bool *open) {
    const dlr_json *known = dlr_json_get(value, "as_int"), *expression;
    *open = false;
    if (!known && (expression = dlr_json_get(value, "as_expr"))) {
        *open = true;
        known = dlr_json_get(dlr_json_get(expression, "hint"), "as_int");
    }
    if (!known || known->kind != DLR_JSON_INT || known->integer < 0)
        return dl_pt2_bad(r, "a size is not known, or negative");
    *size = known->integer;
    return true;
}

/* By torch/_export/serde/schema.py, ScalarType; complex numbers are pairs. */
static const struct {
    dl_foreign_class class;
    dlr_st_dtype dtype;
    bool pair;
} types[] = {
    [1] = {DL_FOREIGN_INT, DLR_ST_U8, false},     [2] = {DL_FOREIGN_INT, DLR_ST_I8, false},
    [3] = {DL_FOREIGN_INT, DLR_ST_I16, false},    [4] = {DL_FOREIGN_INT, DLR_ST_I32, false},
    [5] = {DL_FOREIGN_INT, DLR_ST_I64, false},    [6] = {DL_FOREIGN_FLOAT, DLR_ST_F16, false},
    [7] = {DL_FOREIGN_FLOAT, DLR_ST_F32, false},  [8] = {DL_FOREIGN_FLOAT, DLR_ST_F64, false},
    [10] = {DL_FOREIGN_FLOAT, DLR_ST_F32, true},  [11] = {DL_FOREIGN_FLOAT, DLR_ST_F64, true},
    [12] = {DL_FOREIGN_BOOL, DLR_ST_BOOL, false}, [13] = {DL_FOREIGN_FLOAT, DLR_ST_BF16, false}};

/* Strides and the offset of complex numbers, counted in floats. */
static bool in_floats(const dl_pt2_reader *r, int n, int64_t *stride, int64_t *offset) {
    bool beyond = __builtin_mul_overflow(*offset, 2, offset);
    for (int d = 0; d < n; d++) beyond |= __builtin_mul_overflow(stride[d], 2, &stride[d]);
    stride[n] = 1;
    return !beyond || dl_pt2_bad(r, "it has strides beyond all sizes");
}

bool dl_pt2_meta(const dl_pt2_reader *r, const dlr_json *meta, dl_foreign_tensor *t,
                 int64_t *stride, int64_t *offset) {
    const dlr_json *dtype, *sizes, *strides;
    bool open;
    if (!(dtype = dl_pt2_get(r, meta, "dtype", DLR_JSON_INT)) ||
        !(sizes = dl_pt2_get(r, meta, "sizes", DLR_JSON_ARRAY)))
        return false;
    if (dtype->integer > 0 && dtype->integer < (int64_t)(sizeof types / sizeof *types))
        t->class = types[dtype->integer].class, t->dtype = types[dtype->integer].dtype,
        t->pair = types[dtype->integer].pair;
    if (sizes->n + t->pair > DL_FOREIGN_RANK) return dl_pt2_bad(r, "it has %d axes", sizes->n);
    t->rank = sizes->n + t->pair;
    if (t->pair) t->shape[sizes->n] = 2, t->open[sizes->n] = false;
    int64_t count = 1;
    for (int d = 0; d < sizes->n; d++)
        if (!dl_pt2_size(r, &sizes->items[d], &t->shape[d], &t->open[d])) return false;
    for (int d = 0; d < t->rank; d++)
        if (__builtin_mul_overflow(count, t->shape[d] ? t->shape[d] : 1, &count) ||
            count > (int64_t)1 << 47)
            return dl_pt2_bad(r, "it has more than 2^47 elements");
    if (!stride) return true;
    if (!(strides = dl_pt2_get(r, meta, "strides", DLR_JSON_ARRAY))) return false;
    if (strides->n != sizes->n) return dl_pt2_bad(r, "it has %d strides", strides->n);
    for (int d = 0; d < sizes->n; d++)
        if (!dl_pt2_size(r, &strides->items[d], &stride[d], &open)) return false;
    if (!dl_pt2_size(r, dlr_json_get(meta, "storage_offset"), offset, &open)) return false;
    return !t->pair || in_floats(r, sizes->n, stride, offset);
}
