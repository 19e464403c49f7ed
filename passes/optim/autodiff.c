/* autodiff: reverse-mode differentiation of the train graph. It walks the nodes from the last to
 * the first, and asks each op's rule (column `grad` of ops.def) for the gradients of its
 * operands, given that of its result. */
#include "passes/grad/grad.h"
#include "passes/optim/scaler.h"

/* Marks every value that depends on a parameter which is not frozen, along a path on which
 * gradients flow. */
static bool *find_active(const dl_graph *g, const dl_pass_ctx *ctx) {
    bool *active = DL_NEWS(ctx->arena, bool, g->next_id);
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *v = g->vars.at[i];
        active[v->value.id] = v->role == DL_VAR_PARAM && dl_dtype_is_float(v->value.type.dtype) &&
                              !dl_param_is_frozen(ctx->params, v->name);
    }
    dl_grad_find_active(g, active);
    return active;
}

/* Ops that only the backward pass needs. */
static bool pass_stop(dl_value **v) {
    const dl_value *before = *v;
    while ((*v)->def && ((*v)->def->op == DL_OP_stop_gradient || (*v)->def->op == DL_OP_enter ||
                         (*v)->def->op == DL_OP_scale_gradient))
        *v = (*v)->def->in[0];
    return *v != before;
}

/* Removes ops that stopped a gradient, or changed it between ranks: their readers read the
 * operand. */
static bool forget_stops(dl_graph *g) {
    bool any = false;
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.at[i]->nin; k++) any |= pass_stop(&g->nodes.at[i]->in[k]);
    for (int i = 0; i < g->results.n; i++) any |= pass_stop(&g->results.at[i].value);
    return any;
}

static bool differentiate(dl_graph *g, dl_pass_ctx *ctx) {
    const dl_result *loss = dl_graph_find_result(g, DL_RESULT_LOSS, NULL);
    bool trains = strcmp(g->name, "train") == 0 || strcmp(g->name, DL_GRAPH_ACCUMULATE) == 0;
    if (!trains || !loss || dl_graph_find_result(g, DL_RESULT_GRAD, NULL)) return false;

    bool *active = find_active(g, ctx);
    int forward = g->nodes.n,
        vars = g->vars.n; /* gradient nodes and the scaler's state are added after these */
    dl_value *root = loss->value;
    if (!active[root->id]) return false; /* the loss depends on no parameter: nothing to train */
    dl_builder b = {.graph = g, .loc = root->def ? root->def->loc : (dl_loc){0}};
    dl_grad grad = dl_grad_new(&b, active, false, ctx->arena, ctx->err);
    grad.grads[root->id] = dl_step_scales_loss(&ctx->step_options)
                               ? dl_scaler_seed(&b, root->type.dtype, ctx->err)
                               : dl_build_const(&b, root->type.dtype, 1);
    if (ctx->err->code != DL_OK || !dl_grad_walk(&grad, forward, NULL)) return false;
    for (int i = 0; i < vars; i++) {
        dl_var *v = g->vars.at[i];
        dl_value *dv = active[v->value.id] ? dl_grad_of(&grad, &v->value) : NULL;
        if (dv) dl_graph_result(g, DL_RESULT_GRAD, v->name, dv, v);
    }
    return true;
}

bool dl_pass_autodiff(dl_graph *g, dl_pass_ctx *ctx) {
    bool changed = differentiate(g, ctx);
    return ctx->err->code == DL_OK && (forget_stops(g) || changed);
}
