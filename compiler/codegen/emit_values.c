/* Values of a program by element type: C types, literals, casts, and the expressions of
 * ir/ops.def. */
#include <ctype.h>
#include <stdio.h>

#include "compiler/codegen/emit_parts.h"

/* The C type of an element type's values by mode, and the prefix of its functions of ops.def. In
 * vector mode an f64 or i64 is a scalar that all lanes share. */
typedef struct {
    const char *type, *prefix;
} form;

static form form_here(const dl_emitter *e, dl_dtype d) {
    static const form forms[2][DL_NDTYPES] = {[DL_LANES] = {[DL_F32] = {"vf", "v_"},
                                                            [DL_F64] = {"double", "d_"},
                                                            [DL_F16] = {"vf", "v_"},
                                                            [DL_BF16] = {"vf", "v_"},
                                                            [DL_I32] = {"vi", "vi_"},
                                                            [DL_I64] = {"long", "l_"},
                                                            [DL_BOOL] = {"vb", "vb_"}},
                                              [DL_SINGLE] = {[DL_F32] = {"float", "s_"},
                                                             [DL_F64] = {"double", "d_"},
                                                             [DL_F16] = {"float", "s_"},
                                                             [DL_BF16] = {"float", "s_"},
                                                             [DL_I32] = {"int", "i_"},
                                                             [DL_I64] = {"long", "l_"},
                                                             [DL_BOOL] = {"int", "b_"}}};
    DL_CHECK(forms[e->mode][d].type);
    return forms[e->mode][d];
}

const char *dl_emit_element_type(dl_dtype d) {
    static const char *const names[DL_NDTYPES] = {
        [DL_F32] = "float", [DL_F64] = "double", [DL_F16] = "f16",           [DL_BF16] = "bf16",
        [DL_I32] = "int",   [DL_I64] = "long",   [DL_BOOL] = "unsigned char"};
    DL_CHECK(names[d]);
    return names[d];
}

const char *dl_emit_suffix(dl_dtype d) {
    static const char *const suffixes[DL_NDTYPES] = {
        [DL_F16] = "_f16", [DL_BF16] = "_bf16", [DL_I32] = "_i", [DL_BOOL] = "_b"};
    return suffixes[d] ? suffixes[d] : "";
}

/* Is there a vector of this type? */
static bool has_lanes(dl_dtype d) { return dl_emit_is_float(d) || d == DL_I32 || d == DL_BOOL; }

bool dl_emit_is_shared(const dl_kernel *k, const dl_kinstr *in) {
    bool scalar =
        in->kind == DL_K_CONST || (in->kind == DL_K_LOAD && !k->params.at[in->param].type.rank);
    return in->type == DL_I64 && scalar;
}

const char *dl_emit_type(const dl_emitter *e, dl_dtype d) { return form_here(e, d).type; }

static bool instr_has_lanes(const dl_kernel *k, const dl_kinstr *in) {
    if (in->kind == DL_K_STORE) {
        if (!has_lanes(k->params.at[in->param].type.dtype)) return false;
    } else if (!has_lanes(in->type) && !dl_emit_is_shared(k, in)) {
        return false;
    }
    if (in->kind == DL_K_LOAD && !dl_emit_is_shared(k, in) &&
        !has_lanes(k->params.at[in->param].type.dtype))
        return false;
    if (in->kind == DL_K_COORD && k->space[in->axis].size > INT32_MAX) return false;
    for (int a = 0; a < in->nargs; a++)
        if (k->instrs.at[in->args[a]].type == DL_I64 && in->kind != DL_K_RANDOM) return false;
    return true;
}

bool dl_emit_has_lanes(const dl_emitter *e, const dl_loop_nest *s) {
    for (int i = 0; i < s->run.n; i++)
        if (!instr_has_lanes(e->k, &e->k->instrs.at[s->run.at[i]])) return false;
    for (int i = 0; i < s->read.n; i++)
        if (!has_lanes(e->k->instrs.at[s->read.at[i]].type)) return false;
    return true;
}

/* An integer literal of this type. The least number has no literal in C: -2147483648 is an
 * operator and a literal that does not fit. */
static void put_whole(dl_emitter *e, dl_dtype d, double v) {
    bool wide = d == DL_I64;
    const double least = wide ? -0x1p63 : -0x1p31,
                 most = wide ? 0x1p63 : 0x1p31; /* most: the first that is too large */
    if (v - v != 0 || v <= least) /* the padding of a maximum (-inf) becomes the least integer */
        dl_puts(e->out, wide ? "(-__LONG_MAX__ - 1)" : "(-__INT_MAX__ - 1)");
    else if (v >= most)
        dl_puts(e->out, wide ? "__LONG_MAX__" : "__INT_MAX__");
    else
        dl_putf(e->out, "$%lld%s$", (long long)v, wide ? "L" : "");
}

void dl_emit_constant(dl_emitter *e, dl_dtype d, double v) {
    if (!dl_dtype_is_float(d)) {
        put_whole(e, d, v);
        return;
    }
    /* Rounded to float here, so that the literal has exact digits and no compiler rounds twice. */
    const char *suffix = d == DL_F64 ? "" : "f";
    if (d != DL_F64) v = (double)(float)v;
    if (v != v)
        dl_putf(e->out, "__builtin_nan%s(\"\")", suffix);
    else if (v - v != 0)
        dl_putf(e->out, "%s__builtin_inf%s()", v < 0 ? "-" : "", suffix);
    else { /* nine digits identify a float, 17 a double; without a point or exponent it would be an
              integer */
        char text[40];
        snprintf(text, sizeof text, d == DL_F64 ? "%.17g" : "%.9g", v);
        dl_putf(e->out, "$%s%s%s$", text, text[strspn(text, "-0123456789")] ? "" : ".0", suffix);
    }
}

dl_cast dl_emit_rounding(dl_lane_mode mode, dl_dtype d, bool wide) {
    static const dl_cast lanes
        [DL_NDTYPES] = {[DL_F16] = {"round_f16(", ")"}, [DL_BF16] = {"round_bf16(", ")"}},
   singles[DL_NDTYPES] = {[DL_F16] = {"s_round_f16(", ")"}, [DL_BF16] = {"s_round_bf16(", ")"}},
   doubles[DL_NDTYPES] = {
       [DL_F16] = {"s_round_f16(odd_float(", "))"}, [DL_BF16] = {"s_round_bf16(odd_float(", "))"}};
    dl_cast c = mode == DL_LANES ? lanes[d] : wide ? doubles[d] : singles[d];
    return c.open ? c : (dl_cast){"", ""};
}

dl_cast dl_emit_cast(dl_lane_mode mode, dl_dtype from, dl_dtype to) {
    static const dl_cast singles[DL_NDTYPES] = {[DL_F32] = {"(float)(", ")"},
                                                [DL_F64] = {"(double)(", ")"},
                                                [DL_I32] = {"(int)(", ")"},
                                                [DL_I64] = {"(long)(", ")"},
                                                [DL_BOOL] = {"((", ") != 0)"}};
    static const dl_cast of_whole[DL_NDTYPES] = {
        [DL_F16] = {"round_f16(odd_floats(", "))"}, [DL_BF16] = {"round_bf16(odd_floats(", "))"}};
    if (from == to) return (dl_cast){"", ""};
    if (dl_emit_is_float(from) && dl_emit_is_float(to)) return dl_emit_rounding(mode, to, false);
    if (dl_dtype_is_half(to) && mode == DL_SINGLE) return dl_emit_rounding(mode, to, true);
    if (dl_dtype_is_half(to) && from == DL_I32) return of_whole[to];
    if (mode == DL_SINGLE || !has_lanes(to)) return singles[to];
    if (to == DL_BOOL) return (dl_cast){"(vb)((", ") != 0)"};
    if (from == DL_BOOL)
        return dl_emit_is_float(to) ? (dl_cast){"v_truth(", ")"} : (dl_cast){"((", ") & 1)"};
    return (dl_cast){"__builtin_convertvector(", to == DL_F32 ? ", vf)" : ", vi)"};
}

void dl_emit_cast_operand(dl_emitter *e, const dl_kinstr *in) {
    dl_cast c = dl_emit_cast(e->mode, e->k->instrs.at[in->args[0]].type, in->type);
    dl_putf(e->out, "%s$v%d$%s", c.open, in->args[0], c.close);
}

void dl_emit_expression(dl_emitter *e, const dl_kinstr *in) {
    dl_dtype of = e->k->instrs.at[in->args[in->op == DL_OP_select]].type;
    if (in->op == DL_OP_cast) {
        dl_emit_cast_operand(e, in);
        return;
    }
    const char *prefix = form_here(e, of).prefix;
    if (in->no_contract) {
        dl_putf(e->out, "%s%s_no_contract($v%d$, $v%d$)", prefix, dl_ops[in->op].name, in->args[0],
                in->args[1]);
        return;
    }
    for (const char *s = dl_ops[in->op].expr; *s;) {
        if (!isalpha((unsigned char)*s)) {
            dl_putn(e->out, s++, 1);
            continue;
        }
        const char *end = s;
        while (isalnum((unsigned char)*end) || *end == '_') end++;
        if (end - s == 1 && *s >= 'a' && *s <= 'c')
            dl_putf(e->out, "$v%d$", in->args[*s - 'a']);
        else if (end - s == 1 && *s == 'p')
            dl_emit_constant(e, of, in->p);
        else if (s[0] == 'k' && s[1] == '_')
            dl_putf(e->out, "%s%.*s", prefix, (int)(end - s - 2), s + 2);
        else
            dl_putn(e->out, s, (size_t)(end - s));
        s = end;
    }
}

/* ---- reductions ---- */

const char *dl_emit_partial_type(const dl_kinstr *in) {
    return dl_dtype_is_float(in->type) ? "double" : "long";
}

const char *dl_emit_start(const dl_kinstr *in) {
    bool max = in->op == DL_OP_reduce_max;
    if (in->op == DL_OP_sum) return "0";
    if (dl_dtype_is_float(in->type)) return max ? "-__builtin_inff()" : "__builtin_inff()";
    if (in->type == DL_I64) return max ? "-__LONG_MAX__ - 1" : "__LONG_MAX__";
    return max ? "-__INT_MAX__ - 1" : "__INT_MAX__";
}

const char *dl_emit_combine(const dl_kinstr *in) {
    bool real = dl_dtype_is_float(in->type);
    return in->op == DL_OP_reduce_max ? real ? "d_max" : "l_max" : real ? "d_min" : "l_min";
}
