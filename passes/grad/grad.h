/* Gradient rules: one function for each name in the `grad` column of ops.def. Private to autodiff.
 */
#ifndef DL_GRAD_H
#define DL_GRAD_H
#include "ir/builder.h"
#include "passes/pass.h"

/* The input of a rule: the forward node, the gradient of its result, and the table of gradients.
 * A rule may give a gradient with more axes than the operand has; dl_grad_give sums over the
 * axes that an implicit broadcast added. */
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
/* The same for a value that is read through views of the operands; its node is before this node,
 * too. */
void dl_grad_give_to(dl_grad *g, const dl_value *v, dl_value *contribution);

/* The sum of v over n of its axes. Factors that are constant along all of these axes are
 * multiplied after the sum. */
dl_value *dl_grad_factored_sum(dl_builder *b, dl_value *v, int n, const char *const *over);

/* A rule gives each wanted operand its contribution, or sets g->err. */
typedef void dl_grad_rule(dl_grad *g);
#define OP(id, text, arity, class, infer, grad, lower, amp, attrs, expr)                           \
    dl_grad_rule dl_grad_##grad;
#include "ir/ops.def"
#undef OP
#endif
