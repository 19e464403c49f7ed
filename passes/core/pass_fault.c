/* Faults of a user's model that several passes find, in one wording. */
#include "passes/pass.h"

bool dl_fail_op(const dl_graph *g, const dl_node *n, dl_error *err) {
    bool high = dl_ops[n->op].class == DL_CLASS_HIGH;
    return dl_fail(err, DL_INPUT, "%s:%d:%d: error: '%s' %s [DL-E080%d]",
                   n->loc.file ? n->loc.file : g->name, n->loc.line, n->loc.column,
                   dl_ops[n->op].name,
                   high ? "is checked, but this version cannot compile it yet"
                        : "has no gradient, and the loss needs one",
                   high ? 1 : 2);
}

bool dl_fail_taken(const dl_graph *g, const dl_var *v, const char *as, dl_error *err) {
    return dl_fail(err, DL_INPUT, "%s:%d:%d: error: a variable is called $%.200s, as %s: rename it",
                   v->loc.file ? v->loc.file : g->name, v->loc.line, v->loc.column, v->name, as);
}
