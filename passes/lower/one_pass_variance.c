/* one_pass_variance: computes the variance of a contraction's 16-bit results in one pass: the sum
 * of squared deviations from the mean becomes sum(x^2) - sum(x)^2 / n, whose two sums are epilogue
 * reductions of the contraction. As written, sum((x - sum(x) / n)^2) reads all of x again after
 * its mean is known.
 *
 * Squares of 11-digit numbers are exact in f32. The cancellation in sum(x^2) - sum(x)^2 / n
 * costs 2^-24 of the squared mean; rounding x to 8 or 11 digits has already cost 2^-18 / 3 or
 * 2^-24 / 3 of it. f32 values have more digits, and stay as written. It runs after autodiff:
 * gradients are those of the deviations.
 *
 * A variance is found by its form, since there are four who write one: the rules of norms, the
 * running statistics of batch norm, `var`, and a model's own text. simplify has made one sum of
 * those that are equal. */
#include <math.h>

#include "ir/builder.h"
#include "ir/walk.h"
#include "passes/core/rewrite.h"
#include "passes/pass.h"

static bool is_const(const dl_value *v, double k) {
    const dl_node *n = dl_made_by(v, DL_OP_const);
    return n && fabs(dl_node_float(n, DL_ATTR_value) - k) <= 1e-6 * k;
}

static bool same_axes(const dl_node *a, const dl_node *b) {
    const dl_attr *x = dl_node_attr(a, DL_ATTR_over), *y = dl_node_attr(b, DL_ATTR_over);
    bool same = x->n == y->n;
    for (int i = 0; same && i < x->n; i++) same = x->names[i] == y->names[i];
    return same;
}

static double terms_of(const dl_node *sum) {
    const dl_attr *over = dl_node_attr(sum, DL_ATTR_over);
    const dl_type *t = &sum->in[0]->type;
    double n = 1;
    for (int i = 0; i < over->n; i++) n *= (double)t->axis[dl_type_axis(t, over->names[i])].size;
    return n;
}

/* A 16-bit result of a contraction, or of elementwise ops on one. */
static bool is_contracted(const dl_value *x) {
    const dl_node *widened = dl_made_by(x, DL_OP_cast);
    if (!widened || !dl_dtype_is_half(widened->in[0]->type.dtype)) return false;
    for (x = widened->in[0]; x->def && dl_ops[x->def->op].class == DL_CLASS_ELEM;) {
        const dl_node *n = x->def;
        int same = 0;
        while (same < n->nin && n->in[same]->type.rank != x->type.rank) same++;
        if (same == n->nin) return false;
        x = n->in[same];
    }
    return x->def && dl_ops[x->def->op].class == DL_CLASS_CONTRACT;
}

/* If n sums squared deviations from the mean: returns the sum that the mean is computed from. */
static dl_value *find_sum(const dl_node *n) {
    const dl_node *square = n->op == DL_OP_sum ? dl_made_by(n->in[0], DL_OP_mul) : NULL;
    const dl_node *off =
        square && square->in[0] == square->in[1] ? dl_made_by(square->in[0], DL_OP_sub) : NULL;
    const dl_node *mean = off ? dl_made_by(off->in[1], DL_OP_mul) : NULL;
    for (int i = 0; mean && i < 2; i++) {
        const dl_node *sum = dl_made_by(mean->in[i], DL_OP_sum);
        if (sum && sum->in[0] == off->in[0] && same_axes(sum, n) &&
            is_const(mean->in[1 - i], 1 / terms_of(n)) && is_contracted(sum->in[0]))
            return mean->in[i];
    }
    return NULL;
}

/* sum(x^2) - sum(x)^2 / n, clamped at 0. */
static dl_value *squares(dl_builder *b, const dl_node *n, dl_value *sum) {
    const dl_attr *over = dl_node_attr(n, DL_ATTR_over);
    dl_value *x = sum->def->in[0];
    dl_value *all =
        dl_build_reduce(b, DL_OP_sum, dl_build2(b, DL_OP_mul, x, x), over->n, over->names);
    dl_value *mean = dl_build_k(b, DL_OP_mul, dl_build2(b, DL_OP_mul, sum, sum), 1 / terms_of(n));
    dl_value *off = dl_build2(b, DL_OP_sub, all, mean);
    return dl_build2(b, DL_OP_max, off, dl_build_const(b, off->type.dtype, 0));
}

static bool rule(void *user, dl_node *n, dl_value *made[DL_MAX_RESULTS]) {
    dl_builder *b = user;
    dl_value *sum = find_sum(n);
    if (!sum) return false;
    b->loc = n->loc;
    made[0] = squares(b, n, sum);
    return true;
}

bool dl_pass_one_pass_variance(dl_graph *g, dl_pass_ctx *ctx) {
    dl_builder b = {.graph = g};
    if (!dl_rewrite(g, ctx->arena, rule, &b)) return false;
    dl_graph_sweep(g);
    return true;
}
