/* From a caller's arrays to the plan's, and back: loops with normalisation. */
#include <math.h>

#include "exports/c/c_network.h"

const char *dl_c_type(dl_dtype d) {
    static const char *const types[DL_NDTYPES] = {
        [DL_F32] = "float",   [DL_F64] = "double",  [DL_F16] = "float",   [DL_BF16] = "float",
        [DL_I32] = "int32_t", [DL_I64] = "int64_t", [DL_BOOL] = "uint8_t"};
    return types[d];
}

const char *dl_c_stored_type(dl_dtype d) { return dl_dtype_is_half(d) ? "uint16_t" : dl_c_type(d); }

/* ---- statistics ---- */

static void put_float(dl_buf *b, float v) {
    if (isnan(v)) {
        dl_puts(b, "__builtin_nanf(\"\")");
    } else if (isinf(v)) {
        dl_puts(b, v < 0 ? "-__builtin_inff()" : "__builtin_inff()");
    } else {
        size_t from = b->n;
        dl_putf(b, "%.9g", (double)v);
        dl_puts(b, strpbrk(b->at + from, ".e") ? "f" : ".0f");
    }
}

static void put_table(dl_buf *b, const dl_c_network *c, const char *prefix, const dl_c_array *a,
                      const char *what, const float *at) {
    dl_putf(b, "static const float %s_%s%s_%s[] = {", c->name, prefix, a->id, what);
    for (int i = 0; i < a->record->n_scales; i++) {
        dl_puts(b, !i ? "" : i % 6 ? ", " : ",\n    ");
        put_float(b, at[i]);
    }
    dl_puts(b, "};\n");
}

static void put_tables(dl_buf *b, const dl_c_network *c, const char *prefix, int n,
                       const dl_c_array *arrays) {
    for (int i = 0; i < n; i++) {
        if (!arrays[i].record || !arrays[i].record->n_scales) continue;
        put_table(b, c, prefix, &arrays[i], "mean", arrays[i].record->mean);
        put_table(b, c, prefix, &arrays[i], "deviation", arrays[i].record->deviation);
    }
}

/* Conversions between float and types of 16 bits, to the nearest, ties to even. */
static const char helpers[DL_NDTYPES][2][1400] = {
    [DL_BF16] = {"static uint16_t %s_to_bf16(float v) {\n"
                 "    uint32_t u;\n"
                 "    __builtin_memcpy(&u, &v, sizeof u);\n"
                 "    if (v != v) return (uint16_t)(u >> 16 | 0x40);\n"
                 "    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);\n"
                 "}\n",
                 "static float %s_of_bf16(uint16_t h) {\n"
                 "    uint32_t u = (uint32_t)h << 16;\n"
                 "    float v;\n"
                 "    __builtin_memcpy(&v, &u, sizeof v);\n"
                 "    return v;\n"
                 "}\n"},
    [DL_F16] = {"static uint16_t %s_to_f16(float v) {\n"
                "    uint32_t u;\n"
                "    __builtin_memcpy(&u, &v, sizeof u);\n"
                "    uint32_t sign = u >> 16 & 0x8000;\n"
                "    u &= 0x7fffffff;\n"
                "    if (u > 0x7f800000) return (uint16_t)(sign | 0x7e00);\n"
                "    if (u >= 0x477ff000) return (uint16_t)(sign | 0x7c00);\n"
                "    if (u < 0x38800000) { /* subnormal: the low bits of 0.5 are multiples of "
                "2^-24 */\n"
                "        float size;\n"
                "        __builtin_memcpy(&size, &u, sizeof size);\n"
                "        size += 0.5f;\n"
                "        __builtin_memcpy(&u, &size, sizeof u);\n"
                "        return (uint16_t)(sign | (u - 0x3f000000));\n"
                "    }\n"
                "    return (uint16_t)(sign | ((u - 0x38000000 + 0xfff + (u >> 13 & 1)) >> 13));\n"
                "}\n",
                "static float %s_of_f16(uint16_t h) {\n"
                "    uint32_t exponent = h >> 10 & 31, digits = h & 0x3ff, u;\n"
                "    float v = (float)digits * 0x1p-24f;\n"
                "    u = (exponent == 31 ? 255u : exponent + 112) << 23 | digits << 13;\n"
                "    if (exponent) __builtin_memcpy(&v, &u, sizeof v);\n"
                "    return h & 0x8000 ? -v : v;\n"
                "}\n"}};

static void put_helper(dl_buf *b, const dl_c_network *c, const char *text) {
    const char *at = strchr(text, '%');
    dl_putn(b, text, (size_t)(at - text));
    dl_putf(b, "%s%s", c->name, at + 2);
}

void dl_c_put_statistics(dl_buf *b, const dl_c_network *c) {
    put_tables(b, c, "", c->n_inputs, c->input);
    put_tables(b, c, "out_", c->n_outputs, c->output);
    bool has[2][DL_NDTYPES] = {{false}};
    for (int i = 0; i < c->n_inputs; i++) has[0][c->input[i].type.dtype] = true;
    for (int i = 0; i < c->n_outputs; i++) has[1][c->output[i].type.dtype] = true;
    for (int k = 0; k < 2; k++)
        for (int d = 0; d < DL_NDTYPES; d++)
            if (has[k][d] && dl_dtype_is_half((dl_dtype)d)) put_helper(b, c, helpers[d][k]);
}

/* ---- loops ---- */

/* One loop over axes that both arrays have next to each other: elements from one index to the
 * next in the row-major array, and in the plan's. */
typedef struct {
    int64_t size, row, stored;
    bool scales; /* the axis of the statistics */
} loop;

static int find_loops(const dl_c_array *a, const dl_type *stored, loop *out) {
    int64_t row[DL_MAX_RANK], there[DL_MAX_RANK];
    int n = 0, axis = a->record && a->record->n_scales > 1 ? dl_type_channel_axis(&a->type) : -1;
    dl_type_strides(&a->type, row);
    dl_type_strides(stored, there);
    for (int k = 0; k < a->type.rank; k++) {
        loop l = {a->type.axis[k].size, row[k], there[k], k == axis};
        loop *last = n ? &out[n - 1] : NULL;
        if (l.size == 1) continue;
        if (last && !last->scales && !l.scales && last->row == l.row * l.size &&
            last->stored == l.stored * l.size)
            last->size *= l.size, last->row = l.row, last->stored = l.stored;
        else
            out[n++] = l;
    }
    return n;
}

/* The element of the innermost loop: "i0 * 32L + i1". */
static const char *index_of(dl_arena *arena, int n, const loop *loops, bool row) {
    const char *text = n ? "" : "0";
    for (int i = 0; i < n; i++) {
        int64_t step = row ? loops[i].row : loops[i].stored;
        const char *times = step == 1 ? "" : dl_format(arena, " * %lldL", (long long)step);
        text = dl_format(arena, "%s%si%d%s", text, i ? " + " : "", i, times);
    }
    return text;
}

/* The function's head, its loops, and in the innermost `v = VALUE; to[TO] = RESULT;`. */
typedef struct {
    const char *head, *type, *value, *to, *result;
} copy;
static void put_copy(dl_buf *b, int n, const loop *loops, const copy *c) {
    dl_putf(b, "static ALONE void %s {\n", c->head);
    for (int i = 0; i < n; i++)
        dl_putf(b, "%*sfor (long i%d = 0; i%d < %lldL; i%d++)%s\n", 4 + 4 * i, "", i, i,
                (long long)loops[i].size, i, i == n - 1 ? " {" : "");
    dl_putf(b, "%*s%s v = %s;\n", 4 + 4 * n, "", c->type, c->value);
    dl_putf(b, "%*sto[%s] = %s;\n", 4 + 4 * n, "", c->to, c->result);
    if (n) dl_putf(b, "%*s}\n", 4 * n, "");
    dl_puts(b, "}\n");
}

/* The index of the statistics: that of their axis, or 0. */
static const char *scale_index(int n, const loop *loops) {
    for (int i = 0; i < n; i++)
        if (loops[i].scales) return dl_internf("i%d", i);
    return "0";
}

/* v normalised, as the run does it; missing values replaced. */
static const char *normalised(const dl_c_network *c, const dl_c_array *a, const char *at) {
    dl_arena *arena = c->of->arena;
    const dl_array_record *r = a->record;
    const char *v = "v";
    if (r->n_scales)
        v = dl_format(arena, "(v - %s_%s_mean[%s]) / %s_%s_deviation[%s]", c->name, a->id, at,
                      c->name, a->id, at);
    if (!r->replaces_nan) return v;
    dl_buf nan = {0};
    put_float(&nan, (float)r->nan);
    v = dl_format(arena, "__builtin_isfinite(v) ? %s : %s", v, nan.at);
    dl_buf_free(&nan);
    return v;
}

/* Numbers are normalised as floats, whatever their type: so the run did it. */
static void put_take(dl_buf *b, const dl_c_network *c, const dl_c_array *a, const dl_type *stored) {
    loop loops[DL_MAX_RANK];
    int n = find_loops(a, stored, loops);
    dl_arena *arena = c->of->arena;
    dl_dtype d = a->type.dtype;
    const char *type = dl_c_type(d);
    copy x = {.head = dl_format(arena, "%s_take_%s(const %s *from, %s *to)", c->name, a->id, type,
                                dl_c_stored_type(d)),
              .type = a->record ? "float" : type,
              .to = index_of(arena, n, loops, false),
              .result = d == DL_BOOL ? "v != 0" : "v"};
    x.value = dl_format(arena, "%sfrom[%s]", a->record && d == DL_F64 ? "(float)" : "",
                        index_of(arena, n, loops, true));
    if (a->record) x.result = normalised(c, a, scale_index(n, loops));
    if (dl_dtype_is_half(d))
        x.result = dl_format(arena, "%s_to_%s(%s)", c->name, dl_dtype_name(d), x.result);
    put_copy(b, n, loops, &x);
}

static void put_give(dl_buf *b, const dl_c_network *c, const dl_c_array *a, const dl_type *stored) {
    loop loops[DL_MAX_RANK];
    int n = find_loops(a, stored, loops);
    dl_arena *arena = c->of->arena;
    dl_dtype d = a->type.dtype;
    bool scaled = a->record && a->record->n_scales;
    const char *type = dl_c_type(d), *at = scale_index(n, loops);
    copy x = {.head = dl_format(arena, "%s_give_%s(const %s *from, %s *to)", c->name, a->id,
                                dl_c_stored_type(d), type),
              .type = scaled ? "float" : type,
              .to = index_of(arena, n, loops, true),
              .result = "v"};
    x.value = dl_format(arena, "%sfrom[%s]", scaled && d == DL_F64 ? "(float)" : "",
                        index_of(arena, n, loops, false));
    if (dl_dtype_is_half(d))
        x.value = dl_format(arena, "%s_of_%s(%s)", c->name, dl_dtype_name(d), x.value);
    if (scaled)
        x.result = dl_format(arena, "v * %s_out_%s_deviation[%s] + %s_out_%s_mean[%s]", c->name,
                             a->id, at, c->name, a->id, at);
    put_copy(b, n, loops, &x);
}

void dl_c_put_arrays(dl_buf *b, const dl_c_network *c, const dl_c_variant *v) {
    for (int i = 0; i < c->n_inputs; i++)
        put_take(b, c, &c->input[i], &dl_c_input_var(v, &c->input[i])->type);
    for (int i = 0; i < c->n_outputs; i++)
        put_give(b, c, &c->output[i], &v->program->results.at[i].type);
}
