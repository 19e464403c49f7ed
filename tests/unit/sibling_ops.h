/* Ops that differ in their meaning alone, so that a case of one serves the other. */
#ifndef SIBLING_OPS_H
#define SIBLING_OPS_H
#include <string.h>

#include "ir/op.h"

/* Have both ops the same shape rule, operands and attributes? */
static inline bool are_siblings(dl_op a, dl_op b) {
    static const char *const rules[DL_NOPS] = {
#define OP(id, text, arity, class, infer, ...) #infer,
#include "ir/ops.def"
#undef OP
    };
    return strcmp(rules[a], rules[b]) == 0 && dl_op_wants_float(a) == dl_op_wants_float(b) &&
           dl_ops[a].arity == dl_ops[b].arity && dl_ops[a].nattrs == dl_ops[b].nattrs &&
           memcmp(dl_ops[a].attrs, dl_ops[b].attrs, sizeof dl_ops[a].attrs) == 0;
}
#endif
