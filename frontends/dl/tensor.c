/* Tensors: converts operators, indices and renamings to nodes, and faults of the shape rules to
 * diagnostics. */
#include <math.h>

#include "frontends/dl/elab.h"
#include "ir/relation.h"
#include "parser.h"

static const int64_t max_count = (int64_t)1 << 47;

/* Words for an operand without a name in messages. */
static const char *const places[] = {"the first operand", "the second operand",
                                     "the third operand"};

static dl_val shape_fault(dl_elab *E, dl_span where, const dl_shape_fault *f, int n,
                          const dl_val *in) {
    int id = dl_diag_find(f->code);
    dl_bad(E, where, id < 0 ? DL_DIAG_bad_operand : (dl_diag_id)id, "%s", f->message);
    for (int i = 0; i < n; i++)
        if (in[i].origin.begin != where.begin) dl_note_tensor(E, in[i]);
    if (*f->help) dl_help(E, "%s", f->help);
    return dl_poison();
}

static bool any_poison(int n, const dl_val *in) {
    for (int i = 0; i < n; i++)
        if (in[i].kind == DL_V_POISON) return true;
    return false;
}

dl_val dl_tensor_op(dl_elab *E, dl_span where, dl_op op, int n, const dl_val *in, int nattrs,
                    const dl_attr *attrs, const dl_type *given) {
    if (any_poison(n, in) || !dl_spend(E, where, 1)) return dl_poison();
    dl_value **values = DL_NEWS(E->arena, dl_value *, n + 1);
    for (int i = 0; i < n; i++) {
        DL_CHECK(in[i].kind == DL_V_TENSOR);
        values[i] = in[i].t;
    }
    dl_shape_fault fault = {.operand = -1};
    E->b.loc = dl_source_loc(E->source, where.begin);
    dl_value *v = dl_build_try(&E->b, op, n, values, nattrs, attrs, given, &fault);
    if (!v) return shape_fault(E, where, &fault, n, in);
    if (dl_ops[op].class == DL_CLASS_CONTRACT && values[0]->type.dtype != values[1]->type.dtype) {
        dl_bad(E, where, DL_DIAG_type_mismatch,
               "%s has %s as the first operand and %s as the second operand", dl_ops[op].name,
               dl_type_text(&values[0]->type), dl_type_text(&values[1]->type));
        dl_help(E, "nothing is converted silently: cast one of them to the other's element type");
        return dl_poison();
    }
    dl_val r = dl_val_tensor(v, where);
    r.mixed = dl_mixes_axes(op, n, in, &v->type);
    return r;
}

/* A constant of the IR is a double, which represents whole numbers up to 2^53: a larger one is made
 * of two. */
static dl_val long_constant(dl_elab *E, dl_val v) {
    int64_t low = v.i & 0xFFFFFFFF, high = v.i - low;
    dl_type t = dl_scalar(DL_I64);
    dl_val in[2];
    for (int i = 0; i < 2; i++) {
        dl_attr a = dl_attr_float(DL_ATTR_value, (double)(i ? low : high));
        in[i] = dl_tensor_op(E, v.origin, DL_OP_const, 0, NULL, 1, &a, &t);
    }
    return dl_tensor_op(E, v.origin, DL_OP_add, 2, in, 0, NULL, NULL);
}

dl_val dl_tensor_of(dl_elab *E, dl_val v, dl_dtype dtype) {
    if (!dl_val_is_number(v)) return v;
    const int64_t exact = (int64_t)1 << 53;
    if (v.kind == DL_V_INT && dtype == DL_I64 && (v.i > exact || v.i < -exact))
        return long_constant(E, v);
    const dl_attr a[] = {dl_attr_float(DL_ATTR_value, dl_val_number(v)),
                         dl_attr_float(DL_ATTR_doubled, v.doubled)};
    dl_type t = dl_scalar(dtype);
    return dl_tensor_op(E, v.origin, DL_OP_const, 0, NULL, v.batch && isfinite(v.doubled) ? 2 : 1,
                        a, &t);
}

dl_val dl_tensor_cast(dl_elab *E, dl_span where, dl_val x, dl_dtype to) {
    if (x.kind != DL_V_TENSOR || x.t->type.dtype == to) return x;
    dl_type t = x.t->type;
    t.dtype = to;
    dl_val r = dl_tensor_op(E, where, DL_OP_cast, 1, &x, 0, NULL, &t);
    r.origin = x.origin, r.name = x.name;
    return r;
}

dl_val dl_tensor_pin(dl_elab *E, dl_span where, dl_val x) {
    if (x.kind != DL_V_TENSOR) return x;
    if (x.t->type.dtype != DL_F32 && !dl_dtype_is_half(x.t->type.dtype)) return x;
    dl_val r = dl_tensor_op(E, where, DL_OP_cast, 1, &x, 0, NULL, &x.t->type);
    r.origin = x.origin, r.name = x.name;
    return r;
}

dl_val dl_tensor_ordered(dl_elab *E, dl_span where, dl_val x, const dl_type *like) {
    if (x.kind != DL_V_TENSOR || x.t->type.rank != like->rank) return x;
    dl_type t = *like;
    t.dtype = x.t->type.dtype;
    if (dl_type_same(&t, &x.t->type)) return x;
    return dl_tensor_op(E, where, DL_OP_broadcast, 1, &x, 0, NULL, &t);
}

bool dl_check_count(dl_elab *E, dl_span where, const dl_type *t) {
    int64_t count = 1;
    for (int i = 0; i < t->rank; i++) {
        int64_t size = t->axis[i].size;
        if (size > 0 && size > max_count / count) {
            dl_bad(E, where, DL_DIAG_too_large, "%s has more than 2^47 elements", dl_type_text(t));
            return false;
        }
        if (size > 0) count *= size;
    }
    return true;
}

/* Whether the tensor is the result of a transposed convolution, looking through its bias and
 * activation. */
static bool is_grown(const dl_value *v) {
    while (v->def && dl_ops[v->def->op].class == DL_CLASS_ELEM && v->def->nin) v = v->def->in[0];
    return v->def && dl_op_tensor(v->def->op, DL_RESULT_PLACE) == DL_TENSOR_X;
}

bool dl_axes_agree(dl_elab *E, dl_span where, const char *what, int n, const dl_val *in,
                   const char *skip) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i && j < 3; j++) { /* the others are compared with the first three */
            if (in[i].kind != DL_V_TENSOR || in[j].kind != DL_V_TENSOR) continue;
            const dl_type *a = &in[j].t->type, *b = &in[i].t->type;
            for (int k = 0; k < a->rank; k++) {
                int at = *a->axis[k].name ? dl_type_axis(b, a->axis[k].name) : -1;
                if (at < 0 || a->axis[k].name == skip || a->axis[k].size == b->axis[at].size)
                    continue;
                const char *axis = a->axis[k].name;
                /* A skip connection that does not fit: the layer that made one side the wrong size
                 * must change, so the fault is reported there and not at the cat. */
                bool grown[2] = {is_grown(in[j].t), is_grown(in[i].t)};
                const dl_val *layer = skip && grown[0] != grown[1] ? &in[grown[0] ? j : i] : NULL;
                if (layer && layer->origin.begin >= where.begin) layer = NULL;
                dl_bad(E, layer ? layer->origin : where, DL_DIAG_axis_mismatch,
                       "%s: %s has %s=%lld, but %s has %s=%lld", what,
                       dl_val_words(E, in[j], places[j < 3 ? j : 2]), axis,
                       (long long)a->axis[k].size, dl_val_words(E, in[i], places[i < 3 ? i : 2]),
                       axis, (long long)b->axis[at].size);
                if (layer) dl_note(E, where, "joined here");
                if (layer != &in[j]) dl_note_tensor(E, in[j]);
                if (layer != &in[i]) dl_note_tensor(E, in[i]);
                bool single = !skip && (a->axis[k].size == 1 || b->axis[at].size == 1);
                if (single)
                    dl_help(E,
                            "axes of one name have one size, and 1 is not stretched: make %s "
                            "agree, or take "
                            "it away, [%s=0], so that the operand is broadcast along it",
                            axis, axis);
                else
                    dl_help(
                        E,
                        "axes of one name have one size: make %s agree, or rename one of the axes",
                        axis);
                return false;
            }
        }
    return true;
}

dl_dtype dl_tensor_meet(int n, const dl_val *in, bool *tensors) {
    dl_dtype d = DL_BOOL;
    bool fraction = false, large = false;
    *tensors = false;
    for (int i = 0; i < n; i++) {
        if (in[i].kind != DL_V_TENSOR) {
            fraction |= in[i].kind == DL_V_FLOAT;
            large |= in[i].kind == DL_V_INT && in[i].i != (int32_t)in[i].i;
            continue;
        }
        *tensors = true;
        dl_dtype t = in[i].t->type.dtype;
        if (d == DL_BOOL)
            d = t;
        else if (t == DL_BOOL)
            continue;
        else if (dl_dtype_is_float(t) != dl_dtype_is_float(d))
            d = dl_dtype_is_float(t) ? t : d;
        else if (t != d)
            d = dl_dtype_is_float(t) ? (d == DL_F64 || t == DL_F64 ? DL_F64 : DL_F32) : DL_I64;
    }
    if (d == DL_I32 && large) d = DL_I64;
    return d == DL_BOOL || (fraction && !dl_dtype_is_float(d)) ? DL_F32 : d;
}

dl_dtype dl_tensor_number_type(dl_op op, dl_dtype d) {
    return d == DL_BOOL || (dl_op_wants_float(op) && !dl_dtype_is_float(d)) ? DL_F32 : d;
}

dl_val dl_tensor_elem(dl_elab *E, dl_span where, dl_op op, int n, const dl_val *in, int nattrs,
                      const dl_attr *attrs) {
    dl_val x[3];
    DL_CHECK(n <= 3);
    if (any_poison(n, in)) return dl_poison();
    for (int i = 0; i < n; i++)
        if (in[i].kind != DL_V_TENSOR && !dl_val_is_number(in[i]))
            return dl_bad(E, where, DL_DIAG_bad_operand,
                          "%s works on tensors and numbers, not on %s", dl_ops[op].name,
                          dl_val_describe(E, in[i]));
    if (!dl_axes_agree(E, where, dl_ops[op].name, n, in, NULL)) return dl_poison();
    dl_doubt_outer_product(E, where, op, n, in);
    int first = op == DL_OP_select ? 1 : 0; /* the condition keeps its type */
    bool tensors;
    dl_dtype d = dl_tensor_meet(n - first, in + first, &tensors);
    if (dl_op_wants_float(op) && !dl_dtype_is_float(d)) d = DL_F32;
    for (int i = 0; i < n; i++) {
        x[i] = in[i];
        if (i < first || dl_op_curve(op) == DL_CURVE_LOGIC) {
            if (x[i].kind != DL_V_TENSOR) x[i] = dl_tensor_of(E, x[i], DL_BOOL);
            continue;
        }
        x[i] =
            x[i].kind == DL_V_TENSOR ? dl_tensor_cast(E, where, x[i], d) : dl_tensor_of(E, x[i], d);
    }
    return dl_tensor_op(E, where, op, n, x, nattrs, attrs, NULL);
}

dl_val dl_tensor_unary(dl_elab *E, const dl_ast *e, dl_val a) {
    if (e->op == T_PLUS) return a;
    return dl_tensor_elem(E, e->span, e->op == T_NOT ? DL_OP_not : DL_OP_neg, 1, &a, 0, NULL);
}

static const struct {
    int token;
    dl_op op;
} operators[] = {{T_PLUS, DL_OP_add},   {T_MINUS, DL_OP_sub}, {T_TIMES, DL_OP_mul},
                 {T_DIVIDE, DL_OP_div}, {T_POWER, DL_OP_pow}, {T_EQ, DL_OP_eq},
                 {T_NE, DL_OP_ne},      {T_LT, DL_OP_lt},     {T_LE, DL_OP_le},
                 {T_GT, DL_OP_gt},      {T_GE, DL_OP_ge},     {T_AND, DL_OP_and},
                 {T_OR, DL_OP_or}};

static bool is_number(dl_val v, double k) { return dl_val_is_number(v) && dl_val_number(v) == k; }

dl_val dl_tensor_square(dl_elab *E, dl_span where, dl_val x) {
    x = dl_tensor_pin(E, where, x);
    return dl_tensor_elem(E, where, DL_OP_mul, 2, (dl_val[]){x, x}, 0, NULL);
}

/* x itself, which mixed precision computes in f32, like every power. The product with 1 is dropped
 * when compiling; the pin alone would keep a following layer in f32, too. */
static dl_val first_power(dl_elab *E, dl_span where, dl_val x) {
    dl_val pinned = dl_tensor_pin(E, where, x), one = dl_val_float(1, where);
    if (pinned.kind != DL_V_TENSOR || pinned.t == x.t) return x;
    return dl_tensor_elem(E, where, DL_OP_mul, 2, (dl_val[]){pinned, one}, 0, NULL);
}

static bool is_scalar(dl_val v) { return v.kind == DL_V_TENSOR && v.t->type.rank == 0; }

dl_val dl_tensor_binary(dl_elab *E, const dl_ast *e, dl_val a, dl_val b) {
    dl_val in[] = {a, b};
    for (int i = 0; i < 2; i++)
        if (in[i].kind != DL_V_TENSOR && !dl_val_is_number(in[i])) {
            if (dl_refuse_layer(E, e->at, in[i])) return dl_poison();
            dl_bad(E, e->at, DL_DIAG_bad_operand,
                   "the operator works on tensors and numbers, not on %s",
                   dl_val_describe(E, in[i]));
            if (in[i].kind == DL_V_LIST)
                dl_help(E, "take an element of the list, join tensors with cat(a, b, over=C), or "
                           "name the axes of "
                           "numbers: ([1, 2] as [C])");
            return dl_poison();
        }
    /* A term with a weight of zero is omitted, and so is not computed at all: `+ lambda_rho *
     * ...`. */
    if (e->op == T_TIMES &&
        ((is_number(a, 0) && is_scalar(b)) || (is_number(b, 0) && is_scalar(a))))
        return dl_val_float(0, e->span);
    if ((e->op == T_PLUS || e->op == T_MINUS) && is_number(b, 0)) return a.origin = e->span, a;
    if (e->op == T_PLUS && is_number(a, 0)) return b.origin = e->span, b;
    if (e->op == T_POWER && a.kind == DL_V_TENSOR) {
        if (is_number(b, 2)) return dl_tensor_square(E, e->span, a);
        if (is_number(b, 1)) return first_power(E, e->span, a);
        if (is_number(b, 0.5)) return dl_tensor_elem(E, e->span, DL_OP_sqrt, 1, &a, 0, NULL);
    }
    if (e->op == T_DIVIDE && dl_val_is_number(a))
        in[1] = dl_tensor_pin(E, e->at, b); /* a reciprocal */
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (operators[i].token == e->op) {
            /* A mismatch is reported at the operator, which is the node's place, too. */
            dl_val r = dl_tensor_elem(E, e->at, operators[i].op, 2, in, 0, NULL);
            r.origin = e->span;
            return r;
        }
    dl_bad(E, e->at, DL_DIAG_bad_operand, "this operator does not work on tensors");
    dl_help(E, "use / and floor(...)");
    return dl_poison();
}

dl_val dl_tensor_reduce(dl_elab *E, dl_span where, dl_op op, dl_val x, int n,
                        const char *const *over) {
    if (x.kind == DL_V_POISON) return x;
    if (x.t->type.dtype == DL_BOOL ||
        (dl_op_wants_float(op) && !dl_dtype_is_float(x.t->type.dtype)))
        x = dl_tensor_cast(E, where, x, DL_F32);
    if (x.kind == DL_V_POISON) return x;
    dl_attr attr = {.id = DL_ATTR_over};
    if (n > 0) attr = dl_attr_names(DL_ATTR_over, n, over);
    for (int i = 0; n < 0 && i < x.t->type.rank; i++) attr.names[attr.n++] = x.t->type.axis[i].name;
    return dl_tensor_op(E, where, op, 1, &x, 1, &attr, NULL);
}

/* Indexing */

dl_val dl_tensor_slice(dl_elab *E, dl_span where, dl_val x, const char *axis, int64_t from,
                       int64_t to) {
    dl_attr at[] = {dl_attr_name(DL_ATTR_axis, axis), dl_attr_int(DL_ATTR_start, from),
                    dl_attr_int(DL_ATTR_stop, to)};
    return dl_tensor_op(E, where, DL_OP_slice, 1, &x, 3, at, NULL);
}

dl_val dl_tensor_at(dl_elab *E, dl_span where, dl_val x, const char *axis, int64_t i) {
    dl_attr at = dl_attr_name(DL_ATTR_axis, axis);
    x = dl_tensor_slice(E, where, x, axis, i, i + 1);
    return dl_tensor_op(E, where, DL_OP_squeeze, 1, &x, 1, &at, NULL);
}

/* Elements from, from + step, ... below `to` of an axis. */
dl_val dl_tensor_every(dl_elab *E, dl_span where, dl_val x, dl_axis axis, int64_t from, int64_t to,
                       int64_t step) {
    dl_type t = x.t->type;
    int64_t size = (to - from) / step + ((to - from) % step != 0);
    dl_attr at[] = {dl_attr_ints(DL_ATTR_stride, 1, &step), dl_attr_int(DL_ATTR_start, from),
                    dl_attr_names(DL_ATTR_along, 1, &axis.name), dl_attr_int(DL_ATTR_div, 1),
                    dl_attr_name(DL_ATTR_outside, dl_outside_names[DL_OUT_ZERO])};
    t.axis[dl_type_axis(&t, axis.name)].size = size;
    return dl_tensor_op(E, where, DL_OP_affine, 1, &x, 5, at, &t);
}

/* Reports x[:, 0], which is written x[C=0]. */
dl_val dl_tensor_positional(dl_elab *E, const dl_ast *e, const dl_ast *arg, dl_val x) {
    dl_buf b = {0};
    int n = e->items.list.n, written = 0;
    dl_puts(&b, "");
    for (int i = 0; i < n && i < x.t->type.rank; i++) {
        const dl_ast *item = e->items.list.at[i], *v = item->a;
        if (item->name || (v->kind == DL_A_SLICE && !v->a && !v->b)) continue;
        dl_putf(&b, "%s%s=%.*s", written++ ? ", " : "", x.t->type.axis[i].name,
                (int)(v->span.end - v->span.begin), E->source->text + v->span.begin);
    }
    dl_bad(E, arg->span, DL_DIAG_missing_axis, "a tensor is indexed by axis name, not by position");
    if (arg->a->kind == DL_A_NONE)
        dl_help(
            E,
            "a new axis is not needed: operands meet by axis name, and one that lacks an axis is "
            "broadcast along it");
    else if (written && n <= x.t->type.rank && b.n <= 80 && !strchr(b.at, '\n'))
        dl_help(E, "%s is %s: write [%s]", dl_val_words(E, x, "it"), dl_type_text(&x.t->type),
                b.at);
    else
        dl_help(E, "%s is %s: write [%s=...]", dl_val_words(E, x, "it"), dl_type_text(&x.t->type),
                x.t->type.rank ? x.t->type.axis[0].name : "C");
    dl_buf_free(&b);
    return dl_poison();
}
