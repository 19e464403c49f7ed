/* The lowering of recurrent layers: the inputs of all steps are multiplied at once; the template
 * `recurrent` (ir/recurrence.h) has what depends on the step before. */
#include "ir/recurrence.h"
#include "passes/lower/lower.h"

/* A vector with the name of the last axis of t. */
static dl_value *along_last(dl_builder *b, dl_value *v, const dl_type *t) {
    dl_type named = v->type;
    named.axis[0].name = t->axis[t->rank - 1].name;
    if (dl_type_same(&named, &v->type)) return v;
    return dl_build_as(b, DL_OP_rename, 1, &v, 0, NULL, named);
}

static dl_value *zeros(dl_builder *b, dl_type like, const dl_type *p) {
    dl_value *zero = dl_build_const(b, like.dtype, 0);
    like.rank = 1, like.axis[0] = p->axis[p->rank - 1];
    return dl_build_as(b, DL_OP_broadcast, 1, &zero, 0, NULL, like);
}

/* In f32, of 16-bit operands: as a linear layer's bias, it is added before the product is rounded.
 */
static dl_value *add_bias(dl_builder *b, dl_value *p, dl_value *bias) {
    dl_dtype own = p->type.dtype, wide = dl_dtype_is_half(own) ? DL_F32 : own;
    bias = dl_build_cast(b, along_last(b, bias, &p->type), wide);
    return dl_build_cast(b, dl_build2(b, DL_OP_add, dl_build_cast(b, p, wide), bias), own);
}

dl_value *dl_lower_recurrence(dl_builder *b, const dl_node *n) {
    dl_value *factors[] = {n->in[DL_LAYER_X], n->in[DL_LAYER_W_IH]};
    dl_node *product = dl_build(b, DL_OP_linear, 2, factors, 0, NULL)->def;
    b->graph->nodes.n--; /* it is lowered itself */
    dl_value *p = dl_lower_linear(b, product);
    bool biased = dl_layer_is_biased(n);
    int start = dl_recurrence_start(n);
    if (biased) p = add_bias(b, p, n->in[DL_LAYER_PLAIN]);
    dl_value *bias =
        biased ? along_last(b, n->in[DL_LAYER_PLAIN + 1], &p->type) : zeros(b, p->type, &p->type);
    dl_value *in[DL_STEPS_IN + 1] = {p, n->in[DL_LAYER_W_HH], bias,
                                     start < 0 ? NULL : n->in[start]};
    return dl_build(b, DL_OP_recurrent, DL_STEPS_IN + (start >= 0), in, n->nattrs, n->attrs);
}
