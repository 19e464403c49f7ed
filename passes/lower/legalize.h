/* Private to the pass legalize_contractions. */
#ifndef DL_LEGALIZE_H
#define DL_LEGALIZE_H
#include "ir/builder.h"

/* The product of x and y. Unless y has all axes, the innermost ones are those that y alone has: the
 * loops of a sum of products compute several of them at a time, with one element of x for all. */
static inline dl_value *dl_multiply(dl_builder *b, dl_value *x, dl_value *y) {
    dl_type all = x->type;
    bool has_all = true;
    for (int i = 0; i < x->type.rank; i++)
        has_all = has_all && dl_type_axis(&y->type, x->type.axis[i].name) >= 0;
    for (int i = 0; !has_all && i < y->type.rank; i++)
        if (dl_type_axis(&x->type, y->type.axis[i].name) < 0)
            dl_type_push(&all, y->type.axis[i].name, y->type.axis[i].size);
    if (all.rank > x->type.rank) x = dl_build_as(b, DL_OP_broadcast, 1, &x, 0, NULL, all);
    return dl_build2(b, DL_OP_mul, x, y);
}

/* x y summed over the n named axes. */
static inline dl_value *dl_multiply_sum(dl_builder *b, dl_value *x, dl_value *y, int n,
                                        const char *const *over) {
    dl_value *v = dl_multiply(b, x, y);
    return n ? dl_build_reduce(b, DL_OP_sum, v, n, over) : v; /* n = 0 must not sum over all axes */
}
/* legalize_attention.c: attention, forward and backward; and the gradient of an addend. */
void dl_legalize_attention(dl_builder *b, const dl_node *n, dl_value *made[DL_MAX_RESULTS]);
void dl_legalize_attention_grad(dl_builder *b, const dl_node *n, dl_value *made[DL_MAX_RESULTS]);
dl_value *dl_legalize_attention_bias_grad(dl_builder *b, const dl_node *n);
/* Attention's result by contractions and a softmax: its gradients have gradients, which those of
 * the template do not. n: the template's node. */
dl_value *dl_expand_attention(dl_builder *b, const dl_node *n);
#endif
