/* The gradient rules. `y` is the node's result, `dy` its gradient, `a`, `b`, `c` are the
 * operands.
 *
 * A derivative is written in terms of y instead of an operand where it can be: the next op
 * usually needs y anyway, and the pre-activation can be freed early. dy is the first factor of a
 * product, so that the axes keep the order of y. Ties of min, max and of reductions share the
 * gradient evenly, as in PyTorch's maximum and amax. */
#include <math.h>

#include "ir/attention.h"
#include "ir/complex.h"
#include "ir/fourier.h"
#include "ir/relation.h"
#include "passes/grad/grad.h"

static dl_value *operand(const dl_grad *g, int i) { return g->node->in[i]; }
static dl_value *result(const dl_grad *g) { return &g->node->out[0]; }

static dl_value *sub(dl_grad *g, dl_value *a, dl_value *b) {
    return dl_build2(g->b, DL_OP_sub, a, b);
}
static dl_value *mul(dl_grad *g, dl_value *a, dl_value *b) {
    return dl_build2(g->b, DL_OP_mul, a, b);
}
static dl_value *divide(dl_grad *g, dl_value *a, dl_value *b) {
    return dl_build2(g->b, DL_OP_div, a, b);
}
static dl_value *neg(dl_grad *g, dl_value *a) { return dl_build1(g->b, DL_OP_neg, a); }
static dl_value *scale(dl_grad *g, dl_value *a, double k) {
    return dl_build_k(g->b, DL_OP_mul, a, k);
}
static dl_value *constant(dl_grad *g, double k) {
    return dl_build_const(g->b, g->dy->type.dtype, k);
}
static dl_value *one_minus(dl_grad *g, dl_value *a) { return sub(g, constant(g, 1), a); }
static dl_value *select(dl_grad *g, dl_value *c, dl_value *a, dl_value *b) {
    return dl_build3(g->b, DL_OP_select, c, a, b);
}

/* The gradient is zero. */
void dl_grad_zero(dl_grad *g) { (void)g; }

/* ---- templates ---- */

/* The gradient of addend k of attention, from the operands of its backward half: that of all
 * queries, summed where they share the addend. */
static dl_value *addend_grad(dl_grad *g, const dl_node *n, int nin, dl_value *const *in, int k) {
    dl_attr attrs[DL_MAX_ATTRS];
    int count = 0;
    for (int i = 0; i < n->nattrs; i++) {
        if (n->attrs[i].id == DL_ATTR_first) attrs[count++] = dl_attr_int(DL_ATTR_k, k);
        attrs[count++] = n->attrs[i];
    }
    if (count == n->nattrs) attrs[count++] = dl_attr_int(DL_ATTR_k, k);
    dl_value *d = dl_build(g->b, DL_OP_flash_attention_bias_grad, nin, in, count, attrs);
    const dl_value *addend = in[DL_GRAD_FIXED + k];
    if (addend->type.axis[2].size == d->type.axis[2].size) return d;
    const char *query = d->type.axis[2].name;
    d = dl_build_reduce(g->b, DL_OP_sum, d, 1, &query);
    dl_attr at[] = {dl_attr_name(DL_ATTR_axis, query), dl_attr_int(DL_ATTR_index, 2)};
    return dl_build(g->b, DL_OP_unsqueeze, 1, &d, 2, at);
}

/* dq, dk and dv: the template's backward half, from the results of the forward half; and the
 * gradients of what is added to the scores. */
void dl_grad_flash_attention(dl_grad *g) {
    const dl_node *n = g->node;
    dl_value *in[DL_GRAD_MOST] = {n->in[DL_ATT_Q],           n->in[DL_ATT_K],
                                  n->in[DL_ATT_V],           &g->node->out[DL_ATT_Y],
                                  &g->node->out[DL_ATT_LOG], g->dy};
    for (int i = DL_ATT_FIXED; i < n->nin; i++) in[DL_GRAD_FIXED + i - DL_ATT_FIXED] = n->in[i];
    dl_value *dq = dl_build(g->b, DL_OP_flash_attention_grad, n->nin + 3, in, n->nattrs, n->attrs);
    for (int i = 0; i < 3; i++) dl_grad_give(g, i, &dq->def->out[i]);
    for (int k = 0; k < dl_attention_of(n).addends; k++)
        dl_grad_give(g, DL_ATT_FIXED + k, addend_grad(g, n, n->nin + 3, in, k));
}

/* The adjoint is an instance of the same op. */
void dl_grad_fourier(dl_grad *g) {
    dl_attr attrs[DL_FOURIER_ATTRS];
    dl_fourier_adjoint(g->node, attrs);
    dl_grad_give(g, 0, dl_build(g->b, DL_OP_fourier, 1, &g->dy, DL_FOURIER_ATTRS, attrs));
}

/* The gradient by operand i: dy times the other operand, conjugated, or where the operand itself
 * was conjugated, dy conjugated times the other operand; summed over the axes that operand i lacks.
 */
static void give_factor(dl_grad *g, int i) {
    const dl_node *n = g->node;
    const dl_type *own = &n->in[i]->type, *y = &n->out[0].type;
    const int64_t *conj = dl_node_attr(n, DL_ATTR_conj)->ints;
    dl_value *in[] = {i ? n->in[0] : g->dy, i ? g->dy : n->in[1]};
    int64_t of_dy = conj[i], of_other = conj[i] ? conj[1 - i] : !conj[1 - i];
    const int64_t flags[] = {i ? of_other : of_dy, i ? of_dy : of_other};
    dl_attr at[] = {{.id = DL_ATTR_over}, dl_attr_ints(DL_ATTR_conj, 2, flags)};
    for (int k = 0; k < y->rank; k++)
        if (dl_type_axis(own, y->axis[k].name) < 0) at[0].names[at[0].n++] = y->axis[k].name;
    if (dl_grad_wanted(g, i))
        dl_grad_give(g, i, dl_build_as(g->b, DL_OP_complex_contract, 2, in, 2, at, *own));
}
void dl_grad_complex_contract(dl_grad *g) { give_factor(g, 0), give_factor(g, 1); }

/* ---- pointwise, one operand ---- */
/* A linear op of one operand that is its own adjoint. */
void dl_grad_self_adjoint(dl_grad *g) {
    const dl_node *n = g->node;
    dl_grad_give(g, 0, dl_build(g->b, n->op, 1, &g->dy, n->nattrs, n->attrs));
}
void dl_grad_abs(dl_grad *g) {
    dl_grad_give(g, 0, mul(g, g->dy, dl_build1(g->b, DL_OP_sign, operand(g, 0))));
}
void dl_grad_exp(dl_grad *g) { dl_grad_give(g, 0, mul(g, g->dy, result(g))); }
void dl_grad_log(dl_grad *g) { dl_grad_give(g, 0, divide(g, g->dy, operand(g, 0))); }
void dl_grad_expm1(dl_grad *g) { /* exp a, as y + 1: 0 for large negative a, where exp a is less
                                    than the rounding of y */
    dl_grad_give(g, 0, mul(g, g->dy, dl_build_k(g->b, DL_OP_add, result(g), 1)));
}
void dl_grad_log1p(dl_grad *g) {
    dl_grad_give(g, 0, divide(g, g->dy, dl_build_k(g->b, DL_OP_add, operand(g, 0), 1)));
}
void dl_grad_rsqrt(dl_grad *g) { /* -y^3 / 2 */
    dl_value *y = result(g), *cube = mul(g, mul(g, y, y), y);
    dl_grad_give(g, 0, mul(g, scale(g, g->dy, -0.5), cube));
}
void dl_grad_elu(dl_grad *g) { /* p exp a below zero: y + p */
    double alpha = dl_node_float(g->node, DL_ATTR_alpha);
    dl_value *bent = mul(g, g->dy, dl_build_k(g->b, DL_OP_add, result(g), alpha));
    dl_grad_give(g, 0, select(g, dl_build_k(g->b, DL_OP_gt, operand(g, 0), 0), g->dy, bent));
}
void dl_grad_sqrt(dl_grad *g) { dl_grad_give(g, 0, divide(g, scale(g, g->dy, 0.5), result(g))); }
void dl_grad_sin(dl_grad *g) {
    dl_grad_give(g, 0, mul(g, g->dy, dl_build1(g->b, DL_OP_cos, operand(g, 0))));
}
void dl_grad_cos(dl_grad *g) {
    dl_grad_give(g, 0, neg(g, mul(g, g->dy, dl_build1(g->b, DL_OP_sin, operand(g, 0)))));
}
void dl_grad_tanh(dl_grad *g) {
    dl_value *y = result(g);
    dl_grad_give(g, 0, mul(g, g->dy, one_minus(g, mul(g, y, y))));
}
void dl_grad_sigmoid(dl_grad *g) {
    dl_value *y = result(g);
    dl_grad_give(g, 0, mul(g, g->dy, mul(g, y, one_minus(g, y))));
}
void dl_grad_erf(dl_grad *g) { /* 2 / sqrt(pi) exp(-a^2) */
    dl_value *a = operand(g, 0), *bell = dl_build1(g->b, DL_OP_exp, neg(g, mul(g, a, a)));
    dl_grad_give(g, 0, mul(g, g->dy, scale(g, bell, M_2_SQRTPI)));
}
void dl_grad_relu(dl_grad *g) {
    dl_value *off = dl_build_k(g->b, DL_OP_le, result(g), 0); /* false for a NaN */
    dl_grad_give(g, 0, select(g, off, constant(g, 0), g->dy));
}
void dl_grad_leaky_relu(dl_grad *g) {
    double slope = dl_node_float(g->node, DL_ATTR_slope);
    /* y > 0 is equivalent to a > 0, unless a negative slope makes y positive for negative a. */
    dl_value *on = dl_build_k(g->b, DL_OP_gt, slope < 0 ? operand(g, 0) : result(g), 0);
    dl_grad_give(g, 0, select(g, on, g->dy, scale(g, g->dy, slope)));
}
void dl_grad_cast(dl_grad *g) {
    dl_grad_give(g, 0, dl_build_cast(g->b, g->dy, operand(g, 0)->type.dtype));
}

void dl_grad_scale_gradient(dl_grad *g) {
    dl_grad_give(g, 0, scale(g, g->dy, dl_node_float(g->node, DL_ATTR_value)));
}

/* ---- pointwise, two and three operands ---- */
void dl_grad_add(dl_grad *g) {
    dl_grad_give(g, 0, g->dy);
    dl_grad_give(g, 1, g->dy);
}
void dl_grad_sub(dl_grad *g) {
    dl_grad_give(g, 0, g->dy);
    if (dl_grad_wanted(g, 1)) dl_grad_give(g, 1, neg(g, g->dy));
}
void dl_grad_mul(dl_grad *g) {
    if (dl_grad_wanted(g, 0)) dl_grad_give(g, 0, mul(g, g->dy, operand(g, 1)));
    if (dl_grad_wanted(g, 1)) dl_grad_give(g, 1, mul(g, g->dy, operand(g, 0)));
}
void dl_grad_div(dl_grad *g) { /* d(a/b) = da / b - y db / b */
    dl_value *da = divide(g, g->dy, operand(g, 1));
    dl_grad_give(g, 0, da);
    if (dl_grad_wanted(g, 1)) dl_grad_give(g, 1, neg(g, mul(g, da, result(g))));
}
void dl_grad_pow(dl_grad *g) {
    dl_value *a = operand(g, 0), *b = operand(g, 1), *zero = constant(g, 0);
    if (dl_grad_wanted(g, 0)) { /* b a^(b-1); 0 where b is 0, even at a = 0 */
        dl_value *less = dl_build2(g->b, DL_OP_pow, a, dl_build_k(g->b, DL_OP_sub, b, 1));
        dl_value *da = mul(g, mul(g, g->dy, b), less);
        dl_grad_give(g, 0, select(g, dl_build_k(g->b, DL_OP_ne, b, 0), da, zero));
    }
    if (dl_grad_wanted(g, 1)) { /* y log a; 0 where a is 0 and b is not negative, as in PyTorch */
        dl_value *db = mul(g, g->dy, mul(g, result(g), dl_build1(g->b, DL_OP_log, a)));
        dl_value *positive = dl_build_k(g->b, DL_OP_ge, b, 0),
                 *nil = dl_build_k(g->b, DL_OP_eq, a, 0);
        dl_grad_give(g, 1, select(g, dl_build2(g->b, DL_OP_and, nil, positive), zero, db));
    }
}
/* A power of two by which two numbers are scaled before they are squared: squares of numbers near
 * 1 neither overflow nor vanish. f16 has no room for it. */
static dl_value *square_scale(dl_grad *g, dl_value *a, dl_value *b) {
    if (g->dy->type.dtype == DL_F16) return constant(g, 1);
    const int bits = g->dy->type.dtype == DL_F64 ? 500 : 60;
    dl_value *most =
        dl_build2(g->b, DL_OP_max, dl_build1(g->b, DL_OP_abs, a), dl_build1(g->b, DL_OP_abs, b));
    dl_value *large = dl_build_k(g->b, DL_OP_gt, most, ldexp(1, bits / 2)),
             *small = dl_build_k(g->b, DL_OP_lt, most, ldexp(1, -bits / 2));
    return select(g, large, constant(g, ldexp(1, -bits)),
                  select(g, small, constant(g, ldexp(1, bits)), constant(g, 1)));
}

/* dy b / (a^2 + b^2) and -dy a / (a^2 + b^2): NaN at the origin, as in PyTorch. */
void dl_grad_atan2(dl_grad *g) {
    dl_value *scaled = square_scale(g, operand(g, 0), operand(g, 1));
    dl_value *a = mul(g, scaled, operand(g, 0)), *b = mul(g, scaled, operand(g, 1));
    dl_value *square = dl_build2(g->b, DL_OP_add, mul(g, a, a), mul(g, b, b));
    dl_value *share = divide(g, g->dy, square);
    if (dl_grad_wanted(g, 0)) dl_grad_give(g, 0, mul(g, mul(g, share, b), scaled));
    if (dl_grad_wanted(g, 1)) dl_grad_give(g, 1, neg(g, mul(g, mul(g, share, a), scaled)));
}

/* The greater (or lesser) operand gets dy, the other one 0, equal operands half each; with a NaN
 * both get dy, as in PyTorch. */
static void grad_extreme(dl_grad *g, dl_op loses0, dl_op loses1) {
    dl_value *a = operand(g, 0), *b = operand(g, 1), *tie = dl_build2(g->b, DL_OP_eq, a, b);
    dl_value *share = select(g, tie, scale(g, g->dy, 0.5), g->dy), *zero = constant(g, 0);
    if (dl_grad_wanted(g, 0))
        dl_grad_give(g, 0, select(g, dl_build2(g->b, loses0, a, b), zero, share));
    if (dl_grad_wanted(g, 1))
        dl_grad_give(g, 1, select(g, dl_build2(g->b, loses1, a, b), zero, share));
}
void dl_grad_max(dl_grad *g) { grad_extreme(g, DL_OP_lt, DL_OP_gt); }
void dl_grad_min(dl_grad *g) { grad_extreme(g, DL_OP_gt, DL_OP_lt); }

void dl_grad_select(dl_grad *g) {
    dl_value *c = operand(g, 0), *zero = constant(g, 0);
    if (dl_grad_wanted(g, 1)) dl_grad_give(g, 1, select(g, c, g->dy, zero));
    if (dl_grad_wanted(g, 2)) dl_grad_give(g, 2, select(g, c, zero, g->dy));
}

/* ---- reductions ---- */

/* Broadcasts v back to the axes of operand 0. */
static dl_value *broadcast_back(dl_grad *g, dl_value *v) {
    return dl_build_as(g->b, DL_OP_broadcast, 1, &v, 0, NULL, operand(g, 0)->type);
}
void dl_grad_sum(dl_grad *g) { dl_grad_give(g, 0, broadcast_back(g, g->dy)); }
void dl_grad_mean(dl_grad *g) {
    double count =
        (double)dl_type_count(&operand(g, 0)->type) / (double)dl_type_count(&result(g)->type);
    dl_grad_give(g, 0, broadcast_back(g, scale(g, g->dy, 1 / count)));
}
static void grad_reduced_extreme(dl_grad *g) {
    dl_value *a = operand(g, 0), *is_extreme = dl_build2(g->b, DL_OP_eq, a, result(g));
    dl_value *mask = dl_build_cast(g->b, is_extreme, g->dy->type.dtype);
    dl_attr over = *dl_node_attr(g->node, DL_ATTR_over);
    int named = 0; /* an axis without a name was removed: the comparison broadcasts */
    for (int i = 0; i < over.n; i++)
        if (*over.names[i]) over.names[named++] = over.names[i];
    over.n = named;
    dl_value *ties = dl_build(g->b, DL_OP_sum, 1, &mask, 1, &over);
    dl_grad_give(g, 0, mul(g, mask, divide(g, g->dy, ties)));
}
void dl_grad_reduce_max(dl_grad *g) { grad_reduced_extreme(g); }
void dl_grad_reduce_min(dl_grad *g) { grad_reduced_extreme(g); }

/* ---- moves ---- */
void dl_grad_broadcast(dl_grad *g) { dl_grad_give(g, 0, g->dy); }

static int64_t size_of(const dl_value *v, const char *axis) {
    return v->type.axis[dl_type_axis(&v->type, axis)].size;
}
void dl_grad_slice(dl_grad *g) {
    dl_grad_give_slice(g, 0, dl_node_name(g->node, DL_ATTR_axis),
                       dl_node_int(g->node, DL_ATTR_start));
}
void dl_grad_pad(dl_grad *g) {
    const char *axis = dl_node_name(g->node, DL_ATTR_axis);
    int64_t lo = dl_node_attr(g->node, DL_ATTR_pad_lo)->ints[0];
    dl_grad_give(g, 0, dl_build_slice(g->b, g->dy, axis, lo, lo + size_of(operand(g, 0), axis)));
}
void dl_grad_cat(dl_grad *g) {
    const char *axis = dl_node_name(g->node, DL_ATTR_axis);
    int64_t at = 0;
    for (int i = 0; i < g->node->nin; i++) {
        int64_t size = size_of(operand(g, i), axis);
        if (dl_grad_wanted(g, i))
            dl_grad_give(g, i, dl_build_slice(g->b, g->dy, axis, at, at + size));
        at += size;
    }
}

void dl_grad_gather(dl_grad *g) {
    dl_value *in[] = {g->dy, operand(g, 1)};
    dl_grad_give(g, 0,
                 dl_build_as(g->b, DL_OP_scatter_add, 2, in, 1, dl_node_attr(g->node, DL_ATTR_axis),
                             operand(g, 0)->type));
}
/* By the number of operand 1: an element of v, along the axis of the node, or 0 where there is
 * none. */
static dl_value *taken_back(dl_grad *g, dl_value *v, dl_value *mask) {
    const dl_attr *axis = dl_node_attr(g->node, DL_ATTR_axis);
    const int64_t size = size_of(v, axis->s);
    dl_value *numbers = operand(g, 1), *in[] = {v, numbers};
    dl_value *below = dl_build_k(g->b, DL_OP_lt, numbers, (double)size),
             *there = dl_build2(g->b, DL_OP_and, dl_build_k(g->b, DL_OP_ge, numbers, 0), below),
             *taken = dl_build(g->b, DL_OP_gather, 2, in, 1, axis);
    if (mask) taken = mul(g, mask, taken);
    return select(g, there, taken, dl_build_const(g->b, v->type.dtype, 0));
}
void dl_grad_scatter_add(dl_grad *g) { /* elements that were added nowhere have no gradient */
    dl_grad_give(g, 0, taken_back(g, g->dy, NULL));
}

/* Equal ones share the gradient, as those of reduce_max do. Their number, in 16 bits, would be
 * rounded. */
void dl_grad_scatter_max(dl_grad *g) {
    const dl_attr *axis = dl_node_attr(g->node, DL_ATTR_axis);
    const dl_dtype own = g->dy->type.dtype, wide = dl_dtype_is_half(own) ? DL_F32 : own;
    dl_value *numbers = operand(g, 1), *most[] = {result(g), numbers};
    dl_value *is_most = dl_build2(g->b, DL_OP_eq, operand(g, 0),
                                  dl_build(g->b, DL_OP_gather, 2, most, 1, axis)),
             *mask = dl_build_cast(g->b, is_most, wide), *counted[] = {mask, numbers};
    dl_type t = g->dy->type;
    t.dtype = wide;
    dl_value *ties = dl_build_as(g->b, DL_OP_scatter_add, 2, counted, 1, axis, t);
    /* No share of an empty segment is 0 / 0. Of one whose largest is NaN all are. */
    dl_value *most_of = result(g), *is_number = dl_build2(g->b, DL_OP_eq, most_of, most_of);
    ties = select(g, is_number, dl_build_k(g->b, DL_OP_max, ties, 1), ties);
    dl_value *share = divide(g, dl_build_cast(g->b, g->dy, wide), ties);
    dl_grad_give(g, 0, dl_build_cast(g->b, taken_back(g, share, mask), own));
}

/* squeeze, unsqueeze and rename keep the elements and their order, and so do their gradients. */
void dl_grad_squeeze(dl_grad *g) {
    int index = dl_type_axis(&operand(g, 0)->type, dl_node_name(g->node, DL_ATTR_axis));
    dl_attr at[] = {*dl_node_attr(g->node, DL_ATTR_axis), dl_attr_int(DL_ATTR_index, index)};
    dl_grad_give(g, 0, dl_build(g->b, DL_OP_unsqueeze, 1, &g->dy, 2, at));
}
void dl_grad_unsqueeze(dl_grad *g) {
    dl_grad_give(g, 0,
                 dl_build(g->b, DL_OP_squeeze, 1, &g->dy, 1, dl_node_attr(g->node, DL_ATTR_axis)));
}
void dl_grad_reshape(dl_grad *g) {
    dl_grad_give(g, 0, dl_build_as(g->b, DL_OP_reshape, 1, &g->dy, 0, NULL, operand(g, 0)->type));
}
void dl_grad_rename(dl_grad *g) {
    dl_grad_give(g, 0, dl_build_as(g->b, DL_OP_rename, 1, &g->dy, 0, NULL, operand(g, 0)->type));
}

/* ---- contractions: trilinear forms of operands and result ---- */

/* d(a b) = dy b for a, a dy for b: each summed over the axes that the operand lacks, except
 * batch axes. */
void dl_grad_contract(dl_grad *g) {
    for (int k = 1; k >= 0;
         k--) { /* weights first: their updates then run while the activations are in cache */
        if (!dl_grad_wanted(g, k)) continue;
        /* A contraction's result has the axes of the first operand, then those of the second. dy
         * comes first where the operand begins with one of its own axes (not a summed one), so
         * that a weight's gradient has the weight's order of axes. */
        dl_value *other = operand(g, 1 - k), *in[] = {g->dy, other};
        const dl_type *of = &operand(g, k)->type;
        if (of->rank && dl_type_axis(&g->dy->type, of->axis[0].name) < 0)
            in[0] = other, in[1] = g->dy;
        dl_attr over = {.id = DL_ATTR_over};
        for (int i = 0; i < g->dy->type.rank; i++) {
            const char *name = g->dy->type.axis[i].name;
            if (dl_type_axis(&operand(g, k)->type, name) < 0) over.names[over.n++] = name;
        }
        dl_grad_give(g, k, dl_build(g->b, DL_OP_contract, 2, in, 1, &over));
    }
}

/* The three ops by windows are the derivatives of one trilinear form <y, conv(x, w)> by one
 * factor each. So the gradient for an operand is the op of the same geometry that computes this
 * operand's tensor. Weights first: their updates then run while dy and x are in cache. */
void dl_grad_windows(dl_grad *g) {
    const dl_node *n = g->node;
    int weight = dl_op_place(n->op, DL_TENSOR_W), first = weight == 1;
    for (int i = 0; i < 2; i++) {
        int k = i ? 1 - first : first;
        if (!dl_grad_wanted(g, k)) continue;
        dl_op op = dl_op_making(dl_op_tensor(n->op, k));
        const dl_type *like = &operand(g, k)->type;
        dl_value *in[2];
        for (int p = 0; p < 2; p++)
            in[p] = dl_op_tensor(op, p) == dl_op_tensor(n->op, 1 - k) ? operand(g, 1 - k) : g->dy;
        const dl_op_info *row = &dl_ops[op];
        dl_attr at[DL_MAX_ATTRS];
        int count = 0;
        for (int a = 0; a < row->nattrs;
             a++) { /* an attribute that n lacks is the size of the gradient's tensor */
            const dl_attr *has = dl_node_attr(n, row->attrs[a]);
            if (!has && a >= row->nattrs - row->noptional) continue;
            at[count] = has ? *has : (dl_attr){.id = row->attrs[a], .n = like->rank - 2};
            for (int d = 0; !has && d < at[count].n; d++)
                at[count].ints[d] = like->axis[d + 2].size;
            count++;
        }
        dl_value *v = dl_build(g->b, op, 2, in, count, at);
        if (!dl_type_same(&v->type, like))
            v = dl_build_as(g->b, DL_OP_rename, 1, &v, 0, NULL, *like);
        dl_grad_give(g, k, v);
    }
}
