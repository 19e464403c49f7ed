/* Rule of casts. */
#include "imports/dl/rules.h"

/* Numbers of a narrow type whose every reader makes floats or another type of them: they are as
 * in a wide one where they fit, and PyTorch says nothing of others. */
static bool is_read_wide(const dl_in_ctx *c, const dl_foreign_tensor *t) {
    const dl_foreign_graph *g = c->w->graph;
    if (c->w->last_use[t->id] >= g->nodes.n) return false; /* an output */
    for (int i = c->index + 1; i <= c->w->last_use[t->id]; i++) {
        const dl_foreign_node *n = &g->nodes.at[i];
        for (int a = 0; a < n->n_args; a++)
            if (n->args[a].kind == DL_ARG_TENSOR && n->args[a].tensors[0] == t &&
                (n->n_results != 1 || n->results[0]->dtype == t->dtype))
                return false;
    }
    return true;
}

bool dl_in_cast(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c);
    if (!v || c->n->n_results != 1) return false;
    const dl_foreign_tensor *t = c->n->results[0];
    static const char *const names[DLR_ST_N_DTYPES] = {
        [DLR_ST_F64] = "f64", [DLR_ST_F32] = "f32", [DLR_ST_F16] = "f16",  [DLR_ST_BF16] = "bf16",
        [DLR_ST_I64] = "i64", [DLR_ST_I32] = "i32", [DLR_ST_BOOL] = "bool"};
    const dl_foreign_tensor *from = c->n->args[0].tensors[0];
    if (from->pair != t->pair) return false;
    if (from->class == t->class && from->dtype == t->dtype) return dl_in_same(c);
    if (t->class == DL_FOREIGN_UNKNOWN) return false;
    const char *to = names[t->dtype];
    if (!to && t->class == DL_FOREIGN_INT && from->class == DL_FOREIGN_FLOAT && is_read_wide(c, t))
        to = "i32";
    if (!to) return false;
    for (int d = 0; d < v->rank; d++) dl_axis_name(c, v, d);
    return dl_done(c, v, dl_say(c, STMT_PLAIN, P_PIPE, "%v as %s", v, to));
}
