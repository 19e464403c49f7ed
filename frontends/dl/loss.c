/* Does a gradient of the loss reach a parameter? */
#include "frontends/dl/elab.h"

typedef enum { FLOWS, ZERO } gradient;

/* Of each op: the column `grad` of ops.def says `zero` where the derivative is zero. (`none` is told when
 * compiling: by its name, E0802.) */
static gradient gradient_of(dl_op op) {
    static const char *const rules[DL_NOPS] = {
#define OP(id, text, arity, class, infer, grad, amp, attrs, expr) [DL_OP_##id] = #grad,
#include "ir/ops.def"
#undef OP
    };
    return strcmp(rules[op], "zero") == 0 ? ZERO : FLOWS;
}

enum { DEPENDS = 1, ACTIVE = 2 }; /* on a parameter; along a path of gradients */

static unsigned char *find_paths(dl_elab *E, const dl_graph *g) {
    unsigned char *path = DL_NEWS(E->arena, unsigned char, g->next_id + 1);
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *v = g->vars.at[i];
        if (v->role == DL_VAR_PARAM)
            path[v->value.id] = DEPENDS | (dl_dtype_is_float(v->value.type.dtype) ? ACTIVE : 0);
    }
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        unsigned char all = 0;
        for (int k = 0; k < n->nin; k++) all |= path[n->in[k]->id];
        for (int k = 0; k < n->nout; k++) {
            bool flows = gradient_of(n->op) == FLOWS && dl_dtype_is_float(n->out[k].type.dtype);
            path[n->out[k].id] = flows ? all : all & DEPENDS;
        }
    }
    return path;
}

/* The last op on the way from a parameter to the loss that lets no gradient through. */
static const dl_node *find_block(const dl_graph *g, const unsigned char *path, const dl_value *loss) {
    const dl_value *v = loss;
    while (v->def) {
        const dl_value *from = NULL;
        for (int k = 0; k < v->def->nin; k++) {
            if (path[v->def->in[k]->id] & ACTIVE) return v->def;
            if (path[v->def->in[k]->id]) from = v->def->in[k];
        }
        if (!from) break;
        v = from;
    }
    (void)g;
    return NULL;
}

void dl_check_loss(dl_elab *E, dl_span where, const dl_value *loss) {
    const dl_graph *g = E->b.graph;
    bool any = false;
    for (int i = 0; i < g->vars.n; i++) any |= g->vars.at[i]->role == DL_VAR_PARAM;
    if (E->diags->errors || E->syntax_faults || E->exhausted) return;
    if (!any) {
        dl_bad(E, E->model->at, DL_DIAG_nothing_to_train,
               "the model '%s' has no parameters: nothing can be trained", E->model->name);
        return;
    }
    const unsigned char *path = find_paths(E, g);
    if (path[loss->id] & ACTIVE) return;
    if (!path[loss->id]) {
        dl_bad(E, where, DL_DIAG_loss_without_parameters, "the loss depends on no parameter of the model");
        dl_help(E, "compute it from the model's output");
        return;
    }
    const dl_node *block = find_block(g, path, loss);
    dl_bad(E, where, DL_DIAG_loss_without_gradient, "no gradient of the loss reaches a parameter%s%s%s",
           block ? ": that of '" : "", block ? dl_ops[block->op].name : "",
           block ? "' is zero everywhere" : "");
    dl_help(E, "use a smooth measure for the loss, and keep counts for metrics");
}
