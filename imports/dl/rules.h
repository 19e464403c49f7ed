/* The rules that rules.def names. */
#ifndef DL_IMPORTS_DL_RULES_H
#define DL_IMPORTS_DL_RULES_H
#include "imports/dl/parts.h"

#define RULE(op, function, detail) extern dl_in_rule dl_in_##function;
#include "imports/dl/rules.def"

/* Matches two values as PyTorch broadcasts them, so that equal positions have equal names; the
 * result's axes in the order that the language gives them. stmt is set by the caller. */
dl_in_value *dl_match(dl_in_ctx *c, dl_in_value *a, dl_in_value *b);
/* A product over named axes: letters of einsum. n operands; letter[k] of each dimension of operand
 * k, and the result's. */
bool dl_contract(dl_in_ctx *c, int n, dl_in_value *const *v, const char *const *letters,
                 const char *result);
/* A tensor after a write into a part of it, which node `part` (a slice, a select) has made of it;
 * NULL: another kind of part. */
dl_in_value *dl_written(dl_in_ctx *c, const dl_foreign_node *part, const dl_in_value *whole,
                        const dl_in_value *content);
/* The module Recurrence, for texts that use it. */
extern const char dl_in_lstm_module[];
/* sets result 0 of an elementwise function */
bool dl_done(dl_in_ctx *c, const dl_in_value *like, int stmt);
#endif
