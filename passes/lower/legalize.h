/* Private to the pass legalize_contractions. */
#ifndef DL_LEGALIZE_H
#define DL_LEGALIZE_H
#include "ir/builder.h"

/* a b summed over the n named axes. */
static inline dl_value *dl_multiply_sum(dl_builder *b, dl_value *x, dl_value *y, int n,
                                        const char *const *over) {
    dl_value *v = dl_build2(b, DL_OP_mul, x, y);
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
