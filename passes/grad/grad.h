/* Gradient rules: one function for each name in the `grad` column of ops.def. Private to autodiff.
 */
#ifndef DL_GRAD_H
#define DL_GRAD_H
#include "ir/builder.h"
#include "passes/pass.h"

/* What a rule sees: the forward node, the gradient of its result, and where to write.
 * Rules may hand over a gradient with more axes than the operand has: what an implicit broadcast
 * added is summed away by dl_grad_give. */
typedef struct {
    dl_builder *b;
    const dl_node *node;
    dl_value *dy;       /* of the type of node->out[0] */
    const bool *active; /* by value id: depends on a parameter, so its gradient is wanted */
    dl_value **grads;   /* by value id: sum of the contributions so far, or NULL */
    dl_error *err;
} dl_grad;

/* Is the gradient of this operand wanted? Rules ask before they build anything costly. */
bool dl_grad_wanted(const dl_grad *g, int operand);
/* Adds a contribution to an operand's gradient. */
void dl_grad_give(dl_grad *g, int operand, dl_value *contribution);
/* The same to a value behind the operands, past views that are read through: it stands in front of
 * the node, too. */
void dl_grad_give_to(dl_grad *g, const dl_value *v, dl_value *contribution);

/* The sum of v over n of its axes, in which factors that are the same all along them stand outside.
 */
dl_value *dl_grad_unspread(dl_builder *b, dl_value *v, int n, const char *const *over);

/* A rule gives each wanted operand its contribution, or sets g->err. */
typedef void dl_grad_rule(dl_grad *g);
#define OP(id, text, arity, class, infer, grad, lower, amp, attrs, expr)                           \
    dl_grad_rule dl_grad_##grad;
#include "ir/ops.def"
#undef OP
#endif
