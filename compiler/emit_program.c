/* The scalar program of a kernel as C statements. */
#include "compiler/emit_program.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

#include "ir/base/foreign.h"

enum { FROM_MEMORY = 1 << 18 }; /* bytes of an array that has left a core's cache when it is read again */

bool dl_emit_refuse(const dl_kernel *k, const dl_kinstr *at, dl_error *err, const char *format, ...) {
    va_list ap;
    char text[400];
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    return dl_fail(err, DL_INPUT, "%s:%d:%d: error: %s", at->loc.file ? at->loc.file : k->name, at->loc.line,
                   at->loc.column, text);
}

/* Does an integer type hold this number, which came here as a double? */
static bool is_whole(dl_dtype d, double v) {
    double most = d == DL_BOOL ? 1 : d == DL_I32 ? INT32_MAX : 0x1p53, least = d == DL_BOOL ? 0 : -most;
    return dl_dtype_is_float(d) || (v >= least && v <= most && v == (double)(int64_t)v);
}

bool dl_check_constants(const dl_kernel *k, dl_error *err) {
    for (int i = 0; i < k->instrs.n; i++) {
        const dl_kinstr *in = &k->instrs.at[i];
        if (in->kind == DL_K_CONST && !is_whole(in->type, in->p))
            return dl_emit_refuse(k, in, err, "the constant %g is no number of %s [DL-E0803]", in->p,
                                  dl_dtype_name(in->type));
    }
    return true;
}

const dl_dialect dl_dialect_c = {"long", "unsigned long", "L", "UL", false};

/* How a value of an element type stands in the program, by mode: its C type, and what the functions of
 * ops.def on it begin with. In lanes an f64 or i64 is one number that all lanes share. */
typedef struct {
    const char *type, *prefix;
} form;

static form form_of(dl_lane_mode mode, dl_dtype d) {
    static const form forms[2][DL_NDTYPES] = {
        [DL_LANES] = {[DL_F32] = {"vf", "v_"},
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
    DL_CHECK(forms[mode][d].type);
    return forms[mode][d];
}

static form form_here(const dl_emitter *e, dl_dtype d) { return form_of(e->mode, d); }

/* An element in memory; the letters that the prelude's functions on arrays of it end with. */
const char *dl_emit_element_type(dl_dtype d) {
    static const char *const names[DL_NDTYPES] = {
        [DL_F32] = "float", [DL_F64] = "double", [DL_F16] = "f16",           [DL_BF16] = "bf16",
        [DL_I32] = "int",   [DL_I64] = "long",   [DL_BOOL] = "unsigned char"};
    DL_CHECK(names[d]);
    return names[d];
}

static const char *array_suffix(dl_dtype d) {
    static const char *const suffixes[DL_NDTYPES] = {
        [DL_F16] = "_f16", [DL_BF16] = "_bf16", [DL_I32] = "_i", [DL_BOOL] = "_b"};
    return suffixes[d] ? suffixes[d] : "";
}

/* A type of which vectors are made. */
static bool has_lanes(dl_dtype d) { return dl_emit_is_float(d) || d == DL_I32 || d == DL_BOOL; }

/* One number that all lanes share: what a random number is drawn by. */
static bool is_shared(const dl_kernel *k, const dl_kinstr *in) {
    bool scalar = in->kind == DL_K_CONST || (in->kind == DL_K_LOAD && !k->params.at[in->param].type.rank);
    return in->type == DL_I64 && scalar;
}

const char *dl_emit_type(const dl_emitter *e, dl_dtype d) { return form_here(e, d).type; }

static bool instr_has_lanes(const dl_kernel *k, const dl_kinstr *in) {
    if (in->kind == DL_K_STORE) {
        if (!has_lanes(k->params.at[in->param].type.dtype)) return false;
    } else if (!has_lanes(in->type) && !is_shared(k, in)) {
        return false;
    }
    if (in->kind == DL_K_LOAD && !is_shared(k, in) && !has_lanes(k->params.at[in->param].type.dtype))
        return false;
    if (in->kind == DL_K_COORD && k->space[in->axis].size > INT32_MAX) return false;
    for (int a = 0; a < in->nargs; a++)
        if (k->instrs.at[in->args[a]].type == DL_I64 && in->kind != DL_K_RANDOM) return false;
    return true;
}

bool dl_emit_has_lanes(const dl_emitter *e, const dl_sweep *s) {
    for (int i = 0; i < s->run.n; i++)
        if (!instr_has_lanes(e->k, &e->k->instrs.at[s->run.at[i]])) return false;
    for (int i = 0; i < s->read.n; i++)
        if (!has_lanes(e->k->instrs.at[s->read.at[i]].type)) return false;
    return true;
}

/* A number of an element type; integers are whole (check_types). */
static void put_number(dl_emitter *e, dl_dtype d, double v) {
    const char *suffix = d == DL_F64 ? "" : "f";
    if (!dl_dtype_is_float(d) && v - v != 0) /* what lies outside of a maximum: below every element */
        dl_puts(e->out, d == DL_I64 ? "(-__LONG_MAX__ - 1)" : "(-__INT_MAX__ - 1)");
    else if (!dl_dtype_is_float(d))
        dl_putf(e->out, "%lld%s", (long long)v, d == DL_I64 ? "L" : "");
    else if (v != v)
        dl_putf(e->out, "__builtin_nan%s(\"\")", suffix);
    else if (v - v != 0)
        dl_putf(e->out, "%s__builtin_inf%s()", v < 0 ? "-" : "", suffix);
    else
        dl_putf(e->out, "%.17g%s%s", v, v == (double)(int64_t)v && v < 1e15 && v > -1e15 ? ".0" : "", suffix);
}

dl_cast dl_emit_rounding(dl_lane_mode mode, dl_dtype d, bool wide) {
    static const dl_cast
        lanes[DL_NDTYPES] = {[DL_F16] = {"round_f16(", ")"}, [DL_BF16] = {"round_bf16(", ")"}},
        singles[DL_NDTYPES] = {[DL_F16] = {"s_round_f16(", ")"}, [DL_BF16] = {"s_round_bf16(", ")"}},
        doubles[DL_NDTYPES] = {
            [DL_F16] = {"s_round_f16(odd_float(", "))"}, [DL_BF16] = {"s_round_bf16(odd_float(", "))"}};
    dl_cast c = mode == DL_LANES ? lanes[d] : wide ? doubles[d] : singles[d];
    return c.open ? c : (dl_cast){"", ""};
}

/* What stands in front of an expression of type `from` and behind it to make it one of type `to`. */
static dl_cast cast_of(dl_lane_mode mode, dl_dtype from, dl_dtype to) {
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
    if (from == DL_BOOL) return dl_emit_is_float(to) ? (dl_cast){"v_truth(", ")"} : (dl_cast){"((", ") & 1)"};
    return (dl_cast){"__builtin_convertvector(", to == DL_F32 ? ", vf)" : ", vi)"};
}

/* The operand as the result's type. */
static void put_cast(dl_emitter *e, const dl_kinstr *in) {
    dl_cast c = cast_of(e->mode, e->k->instrs.at[in->args[0]].type, in->type);
    dl_putf(e->out, "%sv%d%s", c.open, in->args[0], c.close);
}

/* The op's expression with a, b, c as operand values, p as its attribute, k_f as f on their type. */
static void put_expression(dl_emitter *e, const dl_kinstr *in) {
    dl_dtype of = e->k->instrs.at[in->args[in->op == DL_OP_select]].type;
    if (in->op == DL_OP_cast) {
        put_cast(e, in);
        return;
    }
    const char *prefix = form_here(e, of).prefix;
    for (const char *s = dl_ops[in->op].expr; *s;) {
        if (!isalpha((unsigned char)*s)) {
            dl_putn(e->out, s++, 1);
            continue;
        }
        const char *end = s;
        while (isalnum((unsigned char)*end) || *end == '_') end++;
        if (end - s == 1 && *s >= 'a' && *s <= 'c')
            dl_putf(e->out, "v%d", in->args[*s - 'a']);
        else if (end - s == 1 && *s == 'p')
            put_number(e, of, in->p);
        else if (s[0] == 'k' && s[1] == '_')
            dl_putf(e->out, "%s%.*s", prefix, (int)(end - s - 2), s + 2);
        else
            dl_putn(e->out, s, (size_t)(end - s));
        s = end;
    }
}

/* "4L": a number among coordinates. */
static const char *whole(const dl_emitter *e, int64_t v) {
    return dl_format(e->arena, "%lld%s", (long long)v, e->dialect->whole);
}

static const char *natural(const dl_emitter *e, int64_t v) {
    return dl_format(e->arena, "%lld%s", (long long)v, e->dialect->not_signed);
}

static void put_term(dl_emitter *e, const dl_term *t) {
    dl_putf(e->out, "x%d", t->axis);
    if (t->div != 1) dl_putf(e->out, " / %s", whole(e, t->div));
    if (t->mod) dl_putf(e->out, " %% %s", whole(e, t->mod));
    if (t->mul != 1) dl_putf(e->out, " * %s", whole(e, t->mul));
}

/* The sum of an index, before it is divided. */
static void put_sum(dl_emitter *e, dl_index at) {
    if (at.nterms) {
        for (int i = 0; i < at.nterms; i++) dl_puts(e->out, i ? " + " : "("), put_term(e, &at.term[i]);
        if (at.offset) dl_putf(e->out, " + %s", whole(e, at.offset));
        dl_puts(e->out, ")");
    } else if (at.axis < 0)
        dl_putf(e->out, "%s", whole(e, at.offset));
    else if (at.offset)
        dl_putf(e->out, "(x%d + %s)", at.axis, whole(e, at.offset));
    else
        dl_putf(e->out, "x%d", at.axis);
}

/* The element along an axis of `size` that an index means; where none is, put_bounds has asked before. */
static void put_coordinate(dl_emitter *e, dl_index at, int64_t size) {
    if (at.by) {
        dl_putf(e->out, e->mode == DL_LANES ? "v%d[j]" : "v%d", at.by - 1);
        return;
    }
    bool inside = dl_index_inside(e->k->space, &at, size), moves = !inside && !dl_outside_fills(at.outside);
    if (moves) dl_putf(e->out, "%s_place(", dl_outside_names[at.outside]);
    if (at.div > 1) {
        bool plain = at.outside == DL_OUT_EXACT || dl_index_natural(e->k->space, &at);
        dl_puts(e->out, plain ? "(" : "floor_div(");
        put_sum(e, at);
        dl_putf(e->out, plain ? " / %s)" : ", %s)", whole(e, at.div));
    } else {
        put_sum(e, at);
    }
    if (moves) dl_putf(e->out, ", %s)", whole(e, size));
}

void dl_emit_address(dl_emitter *e, const dl_type *t, const dl_index *at) {
    if (e->flat) {
        int64_t start = 0; /* of a part that lies in one */
        for (int i = 0; i < t->rank; i++) {
            int64_t outer, inner;
            dl_type_around(t, i, &outer, &inner);
            start += at[i].offset * inner;
        }
        dl_puts(e->out, t->rank ? "x0" : "0");
        if (start) dl_putf(e->out, " + %s", whole(e, start));
    } else if (t->layout.kind == DL_PANEL) {
        int64_t taps = 1;
        for (int i = 2; i < t->rank; i++) taps *= t->axis[i].size;
        dl_puts(e->out, "((");
        put_coordinate(e, at[0], t->axis[0].size);
        dl_putf(e->out, " / %d * %s", t->layout.width, whole(e, taps));
        for (int i = 2; i < t->rank; i++) {
            int64_t rest = 1;
            for (int j = i + 1; j < t->rank; j++) rest *= t->axis[j].size;
            dl_puts(e->out, " + ");
            put_coordinate(e, at[i], t->axis[i].size);
            dl_putf(e->out, " * %s", whole(e, rest));
        }
        dl_putf(e->out, ") * %s + ", whole(e, t->axis[1].size));
        put_coordinate(e, at[1], t->axis[1].size);
        dl_putf(e->out, ") * %s + ", whole(e, t->layout.width));
        put_coordinate(e, at[0], t->axis[0].size);
        dl_putf(e->out, " %% %s", whole(e, t->layout.width));
    } else {
        int64_t stride[DL_MAX_RANK];
        dl_type_strides(t, stride);
        bool any = false;
        for (int i = 0; i < t->rank; i++) {
            if (at[i].axis < 0 && !at[i].offset && !at[i].nterms && !at[i].by) continue;
            dl_puts(e->out, any ? " + " : "");
            put_coordinate(e, at[i], t->axis[i].size);
            if (stride[i] != 1) dl_putf(e->out, " * %s", whole(e, stride[i]));
            any = true;
        }
        if (!any) dl_puts(e->out, "0");
    }
}

/* Does a term stay the same over a vector? Vectors begin at multiples of their width. */
static bool is_same(const dl_emitter *e, const dl_term *t) {
    return t->axis != e->lane_axis || t->div % e->t->lanes == 0;
}

/* Does it go from lane to lane in even steps? */
static bool is_even(const dl_emitter *e, const dl_term *t) {
    return is_same(e, t) || (t->div == 1 && t->mod % e->t->lanes == 0);
}

/* Does an index change from lane to lane? */
static bool along_lanes(const dl_emitter *e, const dl_index *at) {
    bool along = e->lane_axis >= 0 && at->axis == e->lane_axis;
    for (int k = 0; k < at->nterms; k++) along |= !is_same(e, &at->term[k]);
    return along;
}

/* And in even steps, through elements that are there? */
static bool steps_evenly(const dl_emitter *e, const dl_index *at, int64_t size) {
    for (int k = 0; k < at->nterms; k++)
        if (!is_even(e, &at->term[k])) return false;
    return at->div <= 1 && dl_index_inside(e->k->space, at, size);
}

/* Steps a parameter takes from lane to lane: 0: the same element. */
static int64_t lane_step(const dl_emitter *e, const dl_type *t, const dl_index *at) {
    if (e->flat) return t->rank ? 1 : 0;
    int64_t stride[DL_MAX_RANK], step = 0;
    dl_type_strides(t, stride);
    for (int i = 0; i < t->rank; i++) {
        if (at[i].axis == e->lane_axis && !at[i].nterms) step += stride[i];
        for (int k = 0; k < at[i].nterms; k++)
            if (!is_same(e, &at[i].term[k])) step += at[i].term[k].mul * stride[i];
    }
    return step;
}

/* The condition that an access stays inside its parameter; nothing when it always does. */
static bool put_bounds(dl_emitter *e, const dl_type *t, const dl_index *at) {
    bool any = false;
    for (int i = 0; !e->flat && i < t->rank; i++) {
        if (dl_index_inside(e->k->space, &at[i], t->axis[i].size) || !dl_outside_fills(at[i].outside))
            continue;
        dl_puts(e->out, any ? " && " : "");
        if (at[i].outside == DL_OUT_EXACT && at[i].div > 1)
            put_sum(e, at[i]), dl_putf(e->out, " %% %s == 0 && ", whole(e, at[i].div));
        dl_putf(e->out, "(%s)", e->dialect->natural);
        put_coordinate(e, at[i], t->axis[i].size);
        dl_putf(e->out, " < %s", natural(e, t->axis[i].size));
        any = true;
    }
    return any;
}

/* Accesses that no vector instruction serves: panels read across, lanes that may lie outside or at uneven
 * places, steps in arrays of other than floats. */
static bool is_slow(dl_emitter *e, const dl_type *t, const dl_index *at) {
    if (e->flat || !t->rank) return false;
    if (t->layout.kind == DL_PANEL) return true;
    for (int i = 0; i < t->rank; i++)
        if (at[i].by) return true;
    for (int i = 0; i < t->rank; i++)
        if (along_lanes(e, &at[i]) && !steps_evenly(e, &at[i], t->axis[i].size)) return true;
    int64_t step = lane_step(e, t, at);
    return !dl_emit_is_float(t->dtype) && step != 0 && step != 1;
}

bool dl_emit_is_plain(dl_emitter *e, const dl_sweep *s) {
    for (int i = 0; i < s->run.n; i++) {
        const dl_kinstr *in = &e->k->instrs.at[s->run.at[i]];
        if ((in->kind != DL_K_LOAD && in->kind != DL_K_STORE) || is_shared(e->k, in)) continue;
        const dl_type *t = &e->k->params.at[in->param].type;
        if (e->mode != DL_LANES || is_slow(e, t, in->index)) return false;
        int64_t step = lane_step(e, t, in->index);
        if (step != 0 && step != 1) return false;
        for (int a = 0; a < t->rank; a++)
            if (in->index[a].nterms || in->index[a].div > 1) return false;
    }
    return true;
}

static bool has_axis(int n, const int *axes, int a, int b) {
    for (int i = 0; i < n; i++)
        if (axes[i] == a || axes[i] == b) return true;
    return false;
}

/* Does an access step from the last of axis b to the first of axis a's next as it steps along b? */
static bool joins_access(const dl_emitter *e, const dl_type *t, const dl_index *at, int a, int b) {
    int64_t stride[DL_MAX_RANK], by_a = 0, by_b = 0;
    if (t->layout.kind == DL_PANEL) return false;
    dl_type_strides(t, stride);
    for (int i = 0; i < t->rank; i++) {
        bool used = !at[i].nterms && (at[i].axis == a || at[i].axis == b);
        for (int k = 0; k < at[i].nterms; k++)
            if (at[i].term[k].axis == a || at[i].term[k].axis == b) return false;
        if (used && (at[i].div > 1 || !dl_index_inside(e->k->space, &at[i], t->axis[i].size))) return false;
        if (used) *(at[i].axis == a ? &by_a : &by_b) += stride[i];
    }
    return by_a == by_b * e->k->space[b].size;
}

bool dl_emit_joins(const dl_emitter *e, int a, int b) {
    const dl_sweep *s = e->now;
    for (int i = 0; i < s->read.n; i++)
        if (has_axis(e->kept[s->read.at[i]].n, e->kept[s->read.at[i]].axis, a, b)) return false;
    for (int i = 0; i < s->run.n; i++) {
        int number = s->run.at[i];
        const dl_kinstr *in = &e->k->instrs.at[number];
        if (has_axis(e->partial[number].n, e->partial[number].axis, a, b)) return false;
        if (in->kind == DL_K_COORD && (in->axis == a || in->axis == b)) return false;
        if (in->kind == DL_K_RANDOM && in->along[a] != in->along[b] * e->k->space[b].size) return false;
        if ((in->kind == DL_K_LOAD || in->kind == DL_K_STORE) &&
            !joins_access(e, &e->k->params.at[in->param].type, in->index, a, b))
            return false;
    }
    return true;
}

void dl_emit_split(dl_emitter *e, const char *number, int64_t count, int n, const int *axes) {
    for (int i = 0, first = 0; i < n; first = ++i) {
        int64_t size = e->k->space[axes[i]].size;
        for (; i + 1 < n && dl_emit_joins(e, axes[i], axes[i + 1]); size *= e->k->space[axes[++i]].size)
            dl_putf(e->out, "        const %s x%d = 0;\n", e->dialect->index, axes[i]);
        count /= size ? size : 1;
        dl_putf(e->out, "        const %s x%d = %s", e->dialect->index, axes[i], number);
        if (count > 1) dl_putf(e->out, " / %s", whole(e, count));
        if (first) dl_putf(e->out, " %% %s", whole(e, (size ? size : 1)));
        dl_puts(e->out, ";\n");
    }
}

/* "if (...) " around what follows, where an access may lie outside. */
static void put_guard(dl_emitter *e, const dl_type *t, const dl_index *at) {
    size_t mark = e->out->n;
    dl_puts(e->out, "if (");
    if (put_bounds(e, t, at))
        dl_puts(e->out, ") ");
    else
        e->out->n = mark, e->out->at[mark] = 0;
}

bool dl_emit_is_whole(const dl_emitter *e) {
    if (e->mode != DL_LANES) return false;
    if (!e->flat) return e->lane_axis >= 0 && e->k->space[e->lane_axis].size % e->t->lanes == 0;
    for (int i = 0; i < e->k->params.n; i++) {
        const dl_type *t = &e->k->params.at[i].type;
        if (t->rank && dl_type_stored(t) % e->t->lanes) return false;
    }
    return true;
}

/* Lane by lane: the loop's head; x<lane axis> is the lane's own coordinate in it. */
static void put_lane_loop(dl_emitter *e) {
    if (e->lane_axis >= 0) dl_putf(e->out, "const long lane0 = x%d; ", e->lane_axis);
    dl_puts(e->out, "for (long j = 0; j < n; j++) { ");
    if (e->lane_axis >= 0)
        dl_putf(e->out, "const long x%d = lane0 + j; (void)x%d; ", e->lane_axis, e->lane_axis);
}

const char *dl_emit_param(const dl_emitter *e, int param) {
    if (e->dialect->named) return dl_format(e->arena, "p%d", param);
    return dl_format(e->arena, "((%s%s *)arg[%d])", param < e->k->nin ? "const " : "",
                     dl_emit_element_type(e->k->params.at[param].type.dtype), param);
}

/* The element that a load or store of one value touches: its parameter's, or what the emitter puts in its
 * place. */
static void put_element(dl_emitter *e, const dl_kinstr *in) {
    const char *other = e->array ? e->array[in - e->k->instrs.at] : NULL;
    if (other) {
        dl_puts(e->out, other);
        return;
    }
    dl_putf(e->out, "%s[", dl_emit_param(e, in->param));
    dl_emit_address(e, &e->k->params.at[in->param].type, in->index);
    dl_puts(e->out, "]");
}

/* In front of an element of memory: what makes it one in the program. */
static const char *widening(dl_dtype d) {
    return d == DL_F16 ? "s_widen_f16" : d == DL_BF16 ? "s_widen_bf16" : d == DL_BOOL ? "-" : "";
}

/* A vector read from memory, in memory's type. */
static void put_load_lanes(dl_emitter *e, const dl_kinstr *in) {
    const dl_kparam *p = &e->k->params.at[in->param];
    const char *type = dl_emit_element_type(p->type.dtype), *suffix = array_suffix(p->type.dtype);
    double outside = dl_kinstr_outside(in, e->k->space, &p->type);
    size_t mark = e->out->n; /* what holds for all lanes is asked once */
    dl_putf(e->out, "({ %s r = splat%s(", form_here(e, p->type.dtype).type,
            array_suffix(dl_kernel_type(p->type.dtype)));
    put_number(e, dl_kernel_type(p->type.dtype), outside);
    dl_puts(e->out, "); ");
    if (is_slow(e, &p->type, in->index)) {
        put_lane_loop(e);
        put_guard(e, &p->type, in->index);
        dl_putf(e->out, "r[j] = %s(((const %s *)arg[%d])[", widening(p->type.dtype), type, in->param);
        dl_emit_address(e, &p->type, in->index);
        dl_puts(e->out, "]); } r; })");
        return;
    }
    dl_puts(e->out, "if (");
    bool asked = put_bounds(e, &p->type, in->index);
    if (asked)
        dl_puts(e->out, ") r = ");
    else
        e->out->n = mark, e->out->at[mark] = 0;
    int64_t step = lane_step(e, &p->type, in->index);
    bool whole = step == 1 && dl_emit_is_float(p->type.dtype) && dl_emit_is_whole(e);
    bool ahead = e->ahead && dl_type_stored(&p->type) * (int64_t)sizeof(float) >= FROM_MEMORY;
    dl_putf(e->out, "%s%s(((const %s *)arg[%d])%s",
            step == 0   ? "splat"
            : whole     ? ahead ? "ld_ahead" : "ld"
            : step == 1 ? "ldn"
                        : "ld_step",
            suffix, type, in->param, step ? " + " : "[");
    dl_emit_address(e, &p->type, in->index);
    if (step == 0)
        dl_puts(e->out, "])");
    else if (whole && ahead)
        dl_putf(e->out, ", %lldL)", (long long)e->ahead);
    else if (step == 1)
        dl_puts(e->out, whole ? ")" : ", n)");
    else
        dl_putf(e->out, ", %lldL, n)", (long long)step);
    if (asked) dl_puts(e->out, "; r; })");
}

static void put_load(dl_emitter *e, const dl_kinstr *in) {
    const dl_kparam *p = &e->k->params.at[in->param];
    bool shared = is_shared(e->k, in);
    dl_cast c = cast_of(shared ? DL_SINGLE : e->mode, p->type.dtype, in->type);
    if (e->mode == DL_LANES && !shared) {
        dl_puts(e->out, c.open), put_load_lanes(e, in), dl_puts(e->out, c.close);
        return;
    }
    bool bounded = put_bounds(e, &p->type, in->index);
    const char *half = dl_dtype_is_half(p->type.dtype) ? widening(p->type.dtype) : "";
    dl_putf(e->out, "%s%s%s(", bounded ? " ? " : "", c.open, half);
    put_element(e, in);
    dl_putf(e->out, ")%s", c.close);
    if (!bounded) return;
    dl_puts(e->out, " : ");
    put_number(e, in->type, dl_kinstr_outside(in, e->k->space, &p->type));
}

static void put_store(dl_emitter *e, const dl_kinstr *in) {
    const dl_kparam *p = &e->k->params.at[in->param];
    const char *type = dl_emit_element_type(p->type.dtype);
    dl_dtype from = e->k->instrs.at[in->args[0]].type;
    /* a float is rounded as it is written */
    dl_cast c = dl_emit_is_float(from) && dl_dtype_is_half(p->type.dtype)
                    ? (dl_cast){"", ""}
                    : cast_of(e->mode, from, p->type.dtype);
    const char *narrow = p->type.dtype == DL_F16 ? "narrow_f16" : "narrow_bf16";
    dl_puts(e->out, "    ");
    if (e->mode == DL_LANES && is_slow(e, &p->type, in->index)) {
        bool half = dl_dtype_is_half(p->type.dtype);
        dl_putf(e->out, "{ const %s r = %s(%sv%d%s); ", half ? "vh" : form_here(e, p->type.dtype).type,
                half ? narrow : "", c.open, in->args[0], c.close);
        put_lane_loop(e);
        put_guard(e, &p->type, in->index);
        dl_putf(e->out, "((%s *)arg[%d])[", type, in->param);
        dl_emit_address(e, &p->type, in->index);
        dl_putf(e->out, "] = (%s)r[j]%s; } }\n", type, p->type.dtype == DL_BOOL ? " & 1" : "");
        return;
    }
    if (e->mode == DL_LANES) {
        int64_t step = lane_step(e, &p->type, in->index);
        if (step == 0) { /* along an axis of one point: one lane is in use */
            DL_CHECK(e->k->space[e->lane_axis].size == 1);
            step = 1;
        }
        bool whole = step == 1 && dl_emit_is_float(p->type.dtype) && dl_emit_is_whole(e);
        put_guard(e, &p->type, in->index);
        dl_putf(e->out, "%s%s((%s *)arg[%d] + ",
                whole       ? "st"
                : step == 1 ? "stn"
                            : "st_step",
                array_suffix(p->type.dtype), type, in->param);
        dl_emit_address(e, &p->type, in->index);
        if (step != 1) dl_putf(e->out, ", %lldL", (long long)step);
        dl_putf(e->out, ", %sv%d%s%s);\n", c.open, in->args[0], c.close, whole ? "" : ", n");
        return;
    }
    put_guard(e, &p->type, in->index);
    put_element(e, in);
    if (dl_dtype_is_half(p->type.dtype))
        dl_putf(e->out, " = s_%s(%sv%d%s);\n", narrow, c.open, in->args[0], c.close);
    else
        dl_putf(e->out, " = %sv%d%s;\n", c.open, in->args[0], c.close);
}

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

void dl_emit_number(dl_emitter *e, int n, const int *axis) {
    int64_t stride = 1;
    for (int i = 0; i < n; i++) stride *= e->k->space[axis[i]].size;
    for (int i = 0; i < n; i++) {
        int64_t size = e->k->space[axis[i]].size;
        stride /= size ? size : 1;
        dl_putf(e->out, "%sx%d", i ? " + " : "", axis[i]);
        if (stride != 1) dl_putf(e->out, " * %s", whole(e, stride));
    }
    if (!n) dl_puts(e->out, "0");
}

/* One reduction's step: into this unit's partial results, which are doubles of whatever floats the values
 * are: thousands of terms in one chain of floats would lose digits. */
static void put_reduce(dl_emitter *e, int number) {
    const dl_kinstr *in = &e->k->instrs.at[number];
    const dl_partial *p = &e->partial[number];
    bool sum = in->op == DL_OP_sum, lanes_kept = p->n && p->axis[p->n - 1] == e->lane_axis;
    const char *type = dl_emit_partial_type(in);
    dl_putf(e->out, "    {\n        %s *s = (%s *)sums + %lldL", type, type, (long long)p->at);
    if (p->n) dl_puts(e->out, " + "), dl_emit_number(e, p->n, p->axis);
    dl_puts(e->out, ";\n        ");
    if (e->mode != DL_LANES) {
        if (sum)
            dl_putf(e->out, "*s += v%d;\n", in->args[0]);
        else
            dl_putf(e->out, "*s = %s(*s, v%d);\n", dl_emit_combine(in), in->args[0]);
    } else if (p->n && !lanes_kept) {
        DL_CHECK(sum);
        dl_putf(e->out, dl_emit_is_whole(e) ? "*s += sum_lanes(v%d);\n" : "*s += sum_lanes(keep(v%d, n));\n",
                in->args[0]);
    } else if (sum) {
        dl_putf(e->out, "add_to(s, v%d, %s);\n", in->args[0], dl_emit_is_whole(e) ? "LANES" : "n");
    } else {
        dl_putf(e->out, "for (long j = 0; j < n; j++) s[j] = %s(s[j], v%d[j]);\n", dl_emit_combine(in),
                in->args[0]);
    }
    dl_puts(e->out, "    }\n");
}

static void put_const(dl_emitter *e, const dl_kinstr *in) {
    bool lanes = e->mode == DL_LANES && !is_shared(e->k, in);
    dl_cast c = dl_emit_rounding(DL_SINGLE, in->type, true);
    if (lanes) dl_putf(e->out, "splat%s(", array_suffix(dl_kernel_type(in->type)));
    dl_puts(e->out, c.open);
    put_number(e, dl_dtype_is_half(in->type) ? DL_F64 : in->type, in->p);
    dl_putf(e->out, "%s%s", c.close, lanes ? ")" : "");
}

/* Exact in integers first, whatever it becomes. */
static void put_coord(dl_emitter *e, const dl_kinstr *in) {
    if (e->mode != DL_LANES) {
        dl_cast c = cast_of(DL_SINGLE, DL_I64, in->type);
        dl_putf(e->out, "%sx%d%s", c.open, in->axis, c.close);
        return;
    }
    dl_cast c = cast_of(DL_LANES, DL_I32, in->type);
    dl_putf(e->out, "%ssplat_i((int)x%d)%s%s", c.open, in->axis,
            in->axis == e->lane_axis ? " + lane_numbers()" : "", c.close);
}

/* Where a random number is drawn decides how many share a block (kernels/random.c). */
static void put_random(dl_emitter *e, const dl_kinstr *in) {
    int64_t step = 0, any = 0;
    for (int i = 0; i < e->k->nspace; i++) any |= in->along[i];
    if (e->mode == DL_LANES) step = e->flat ? any != 0 : e->lane_axis >= 0 ? in->along[e->lane_axis] : 0;
    dl_cast c = cast_of(step ? DL_LANES : DL_SINGLE, DL_F32, in->type);
    dl_puts(e->out, e->mode == DL_LANES && !step ? "splat(" : c.open);
    dl_putf(e->out, "%s(%lldL",
            step == 0   ? "s_random"
            : step == 1 ? "v_random_row"
                        : "v_random_step",
            (long long)in->first);
    if (e->flat && any) dl_puts(e->out, " + x0");
    for (int i = 0; i < e->k->nspace && !e->flat; i++)
        if (in->along[i]) dl_putf(e->out, " + x%d * %lldL", i, (long long)in->along[i]);
    if (in->nargs > 2) dl_putf(e->out, " + (unsigned long)v%d * %lldUL", in->args[2], (long long)in->part);
    if (step > 1) dl_putf(e->out, ", %lldL", (long long)step);
    dl_putf(e->out, ", v%d, v%d, %d)", in->args[0], in->args[1], in->number);
    dl_puts(e->out, e->mode == DL_LANES && !step ? ")" : c.close);
}

void dl_emit_instr(dl_emitter *e, int number) {
    const dl_kinstr *in = &e->k->instrs.at[number];
    if (in->kind == DL_K_STORE) {
        put_store(e, in);
        return;
    }
    if (e->steps[number].kind == DL_K_REDUCE) {
        (e->reduce ? e->reduce : put_reduce)(e, number);
        return;
    }
    dl_putf(e->out, "    %s v%d = ", form_here(e, in->type).type, number);
    /* what casts round themselves */
    bool rounds = in->kind == DL_K_CONTRACT || (in->kind == DL_K_ELEM && in->op != DL_OP_cast);
    dl_cast rounding = rounds ? dl_emit_rounding(e->mode, in->type, false) : (dl_cast){"", ""};
    dl_puts(e->out, rounding.open);
    switch (in->kind) {
    case DL_K_CONTRACT: dl_puts(e->out, e->mode == DL_LANES ? "ld(acc)" : "*acc"); break;
    case DL_K_LOAD: put_load(e, in); break;
    case DL_K_CONST: put_const(e, in); break;
    case DL_K_COORD: put_coord(e, in); break;
    case DL_K_RANDOM: put_random(e, in); break;
    case DL_K_REDUCE: put_cast(e, in); break; /* of one point */
    default: put_expression(e, in); break;
    }
    dl_putf(e->out, "%s;\n", rounding.close);
}

/* A kept value: where it goes, or comes from. */
static void put_kept_place(dl_emitter *e, int number) {
    const dl_kept *at = &e->kept[number];
    const char *type = dl_emit_element_type(dl_kernel_type(e->k->instrs.at[number].type));
    dl_putf(e->out, "((%s *)(workspace + %lldL))", type, (long long)at->base);
}

/* Steps that a kept value takes from lane to lane. */
static int64_t kept_step(const dl_emitter *e, const dl_kept *at) {
    int64_t step = 1;
    for (int i = at->n - 1; i >= 0; step *= e->k->space[at->axis[i--]].size)
        if (at->axis[i] == e->lane_axis) return step;
    return 0;
}

void dl_emit_read(dl_emitter *e, int number) {
    const dl_kept *at = &e->kept[number];
    dl_dtype type = dl_kernel_type(e->k->instrs.at[number].type);
    int64_t step = e->mode == DL_LANES ? kept_step(e, at) : 0;
    dl_putf(e->out, "    %s v%d = ", form_here(e, type).type, number);
    if (step > 1) { /* lane by lane */
        dl_putf(e->out, "({ %s r = {0}; for (long j = 0; j < n; j++) r[j] = %s", form_here(e, type).type,
                type == DL_BOOL ? "-" : "");
        put_kept_place(e, number);
        dl_puts(e->out, "["), dl_emit_number(e, at->n, at->axis);
        dl_putf(e->out, " + j * %lldL]; r; });\n", (long long)step);
        return;
    }
    if (e->mode == DL_LANES) dl_putf(e->out, "%s%s(", step ? "ldn" : "splat", array_suffix(type));
    put_kept_place(e, number);
    dl_puts(e->out, step ? " + " : "["), dl_emit_number(e, at->n, at->axis);
    dl_puts(e->out, step ? ", n)" : e->mode == DL_LANES ? "])" : "]");
    dl_puts(e->out, ";\n");
}

void dl_emit_keep(dl_emitter *e, int number) { /* one value at a time */
    dl_puts(e->out, "    "), put_kept_place(e, number);
    dl_puts(e->out, "["), dl_emit_number(e, e->kept[number].n, e->kept[number].axis);
    dl_putf(e->out, "] = v%d;\n", number);
}

void dl_emit_run(dl_emitter *e) {
    for (int i = 0; i < e->now->read.n; i++) dl_emit_read(e, e->now->read.at[i]);
    for (int i = 0; i < e->now->run.n; i++) dl_emit_instr(e, e->now->run.at[i]);
}

static bool is_combined(const dl_sweep *s, int number) {
    for (int i = 0; i < s->combined.n; i++)
        if (s->combined.at[i] == number) return true;
    return false;
}

void dl_emit_run_behind(dl_emitter *e) {
    const dl_sweep *s = e->now;
    for (int i = 0; i < s->read.n; i++)
        if (!is_combined(s, s->read.at[i])) dl_emit_read(e, s->read.at[i]);
    for (int i = 0; i < s->run.n; i++) dl_emit_instr(e, s->run.at[i]);
    for (int i = 0; i < s->combined.n; i++)
        if (e->sweeps.kept[s->combined.at[i]]) dl_emit_keep(e, s->combined.at[i]);
    for (int i = 0; i < s->run.n; i++)
        if (e->sweeps.kept[s->run.at[i]]) dl_emit_keep(e, s->run.at[i]);
}

/* ---- around the program ---- */

void dl_emit_title(dl_emitter *e) {
    dl_putf(e->out, "/* @%s", e->k->name);
    for (int i = 0; i < e->k->locs.n; i++) {
        dl_puts(e->out, " ");
        dl_put_foreign(e->out, DL_IN_COMMENT, e->k->locs.at[i].file);
        dl_putf(e->out, ":%d", e->k->locs.at[i].line);
    }
    dl_puts(e->out, " */\n");
}

void dl_emit_find_kept(dl_emitter *e, dl_emitted *code) {
    for (int i = 0; i < e->k->instrs.n; i++) {
        dl_kept *at = &e->kept[i];
        *at = (dl_kept){0};
        if (!e->sweeps.kept[i]) continue;
        for (int a = 0; a < e->k->nspace; a++)
            if (e->steps[i].axes >> a & 1) at->axis[at->n++] = a;
        at->base = code->workspace;
        code->workspace += dl_plan_round(dl_axes_points(e->k->nspace, e->k->space, e->steps[i].axes) *
                                         (int64_t)sizeof(double));
    }
}

bool dl_emit_has_phase(const dl_emitter *e, const dl_emitted *code, dl_error *err) {
    return code->phases < DL_MAX_PHASES ||
           dl_emit_refuse(
               e->k, &e->k->instrs.at[0], err,
               "a kernel of more than %d phases: too many reductions wait for each other [DL-E0803]",
               (int)DL_MAX_PHASES);
}
