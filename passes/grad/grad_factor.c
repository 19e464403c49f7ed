/* Sums of gradients over the axes that a broadcast added: factors that are constant along these
 * axes are multiplied after the sum.
 *
 * The backward pass multiplies by the same factors as the forward pass. So the gradients of a
 * norm's weight, bias, mean and variance are sums of products that differ only in factors that
 * depend on the channel alone. Without these factors they are just two sums, which simplify
 * finds equal, and which need no earlier reduction. */
#include "passes/grad/grad.h"

/* v = outer * inner, optionally negated; either may be NULL, which means 1. */
typedef struct {
    dl_value *outer, *inner;
    bool negated;
} product;

typedef struct {
    dl_builder *b;
    const char *const *over;
    int n;
} axes;

static bool is_same_along(const axes *a, const dl_type *t) {
    for (int i = 0; i < a->n; i++)
        if (dl_type_axis(t, a->over[i]) >= 0) return false;
    return true;
}

static dl_value *times(const axes *a, dl_value *x, dl_value *y) {
    return x && y ? dl_build2(a->b, DL_OP_mul, x, y) : x ? x : y;
}

/* The search visits a node on every path to it; below this depth it takes nodes as they are. */
enum { DEPTH = 6 };

static product split(const axes *a, dl_value *v, int depth) {
    const dl_node *n = v->def;
    if (is_same_along(a, &v->type)) return (product){.outer = v};
    if (!n || depth == DEPTH) return (product){.inner = v};
    if (n->op == DL_OP_broadcast && is_same_along(a, &n->in[0]->type))
        return (product){.outer = n->in[0]};
    if (n->op == DL_OP_neg) {
        product p = split(a, n->in[0], depth + 1);
        p.negated = !p.negated;
        return p;
    }
    if (n->op != DL_OP_mul) return (product){.inner = v};
    product x = split(a, n->in[0], depth + 1), y = split(a, n->in[1], depth + 1);
    if (!x.outer && !y.outer && !x.negated && !y.negated) return (product){.inner = v};
    return (product){times(a, x.outer, y.outer), times(a, x.inner, y.inner),
                     x.negated != y.negated};
}

/* Does the value have all axes that are summed? */
static bool has_axes(const axes *a, const dl_value *v) {
    int found = 0;
    for (int i = 0; v && i < a->n; i++) found += dl_type_axis(&v->type, a->over[i]) >= 0;
    return found == a->n;
}

dl_value *dl_grad_factored_sum(dl_builder *b, dl_value *v, int n, const char *const *over) {
    axes a = {b, over, n};
    product p = split(&a, v, 0);
    if (!has_axes(&a, p.inner)) return dl_build_reduce(b, DL_OP_sum, v, n, over);
    dl_value *sum = dl_build_reduce(b, DL_OP_sum, p.inner, n, over);
    if (p.negated) sum = dl_build1(b, DL_OP_neg, sum);
    return times(&a, sum, p.outer);
}
