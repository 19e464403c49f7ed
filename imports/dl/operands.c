/* The values of a node's operands, which are declared at their first use; and those that are one
 * number. */
#include "imports/dl/rules.h"

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

bool dl_is_one_of(const char *op, const char *const *names) {
    while (*names && strncmp(op, *names, strlen(*names)) != 0) names++;
    return *names != NULL;
}

const dl_foreign_tensor *dl_source_of(const dl_in_ctx *c, const dl_foreign_tensor *t) {
    static const char *const views[] = {"aten.slice.",   "aten.select.",    "aten.expand.",
                                        "aten.reshape.", "aten.view.",      "aten.to.",
                                        "aten.clone.",   "aten.unsqueeze.", NULL};
    for (int depth = 0; t && depth < 64; depth++) {
        int by = c->w->defined_by[t->id];
        if (c->w->written[t->id]) return NULL;
        if (by < 0 || !dl_is_one_of(c->w->graph->nodes.at[by].op, views)) return t;
        t = dl_foreign_operand(&c->w->graph->nodes.at[by], "self");
    }
    return NULL;
}

bool dl_is_filled(const dl_in_ctx *c, const dl_foreign_tensor *t, double *number) {
    static const char *const zeros_of[] = {"aten.zeros.", "aten.zeros_like.", "aten.new_zeros.",
                                           NULL},
                             *const ones_of[] = {"aten.ones.", "aten.ones_like.", "aten.new_ones.",
                                                 NULL},
                             *const fulls[] = {"aten.full.", "aten.full_like.", "aten.new_full.",
                                               NULL};
    const dl_foreign_tensor *of = dl_source_of(c, t);
    if (!of || c->w->defined_by[of->id] < 0) return false;
    const dl_foreign_node *n = &c->w->graph->nodes.at[c->w->defined_by[of->id]];
    const dl_foreign_arg *value = dl_foreign_find(n, "fill_value");
    bool zeros = dl_is_one_of(n->op, zeros_of), ones = dl_is_one_of(n->op, ones_of);
    *number = zeros ? 0 : ones ? 1 : dl_foreign_real(n, "fill_value", 0);
    return zeros || ones ||
           (dl_is_one_of(n->op, fulls) && value &&
            (value->kind == DL_ARG_INT || value->kind == DL_ARG_FLOAT));
}

bool dl_is_zero(const dl_in_ctx *c, const dl_foreign_tensor *t) {
    double number;
    return dl_is_filled(c, t, &number) && number == 0;
}
