/* The values of a node's operands; parameters and constants are declared at their first use. */
#include "imports/dl/parts.h"

dl_in_value *dl_value_of(dl_in_ctx *c, const dl_foreign_tensor *t) {
    if (!c->b->of[t->id]) c->b->of[t->id] = dl_declare(c, t);
    return c->b->of[t->id];
}

dl_in_value *dl_operand(dl_in_ctx *c, const char *name) {
    const dl_foreign_tensor *t = dl_foreign_operand(c->n, name);
    return t ? dl_value_of(c, t) : NULL;
}

dl_in_value *dl_self(dl_in_ctx *c) {
    return c->n->n_args && c->n->args[0].kind == DL_ARG_TENSOR
               ? dl_value_of(c, c->n->args[0].tensors[0])
               : NULL;
}
