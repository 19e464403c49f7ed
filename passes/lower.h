/* Lowering rules: one function for each name in the `lower` column of ops.def. Private to the pass lower. */
#ifndef DL_LOWER_H
#define DL_LOWER_H
#include "ir/builder.h"

/* Builds what the composite node means out of other ops, in front of it; returns the value that stands for
 * its result, of the same type. */
typedef dl_value *dl_lower_rule(dl_builder *b, const dl_node *n);
#define OP(id, text, arity, class, infer, grad, lower, amp, attrs, expr) dl_lower_rule dl_lower_##lower;
#include "ir/ops.def"
#undef OP
#endif
