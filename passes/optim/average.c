/* Means of the weights, with which a model is validated and used: an exponential one (Polyak and
 * Juditsky 1992; torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn), or the plain mean
 * from an epoch on (SWA, Izmailov et al. 2018). The mean of parameter P is the variable
 * "average..P" of role STATE. The graph "eval" of a module that trains reads it in P's place. The
 * hyperparameters are optimizer.average.decay, and optimizer.average.from, in epochs. */
#include "passes/optim/average.h"
#include "ir/base/tags.h"
#include "ir/walk.h"
#include "passes/optim/rules.h"

/* The variable of this mean. Its initial value is the host's to set: that of the weights. */
static dl_var *mean_of(dl_graph *g, const dl_var *of) {
    dl_var *v = dl_graph_var(g, DL_VAR_STATE, dl_internf(DL_AVERAGE "%s", of->name), of->value.type,
                             (dl_init){.kind = DL_INIT_ZERO}, of->loc);
    v->of = of->name, v->piece = of->piece;
    return v;
}

/* The weight of the newest value: 1 for the first, and for all before the mean begins. */
static dl_value *share_of(dl_optimization *o) {
    if (!o->step_options->mean_of_epochs) {
        dl_value *first = dl_build_k(o->b, DL_OP_le, o->taken, 1);
        dl_value *rest = dl_rule_rest(o, dl_optimizer_hyper(o, "average.decay", 0));
        return dl_build3(o->b, DL_OP_select, first, dl_o_k(o, 1), rest);
    }
    dl_value *begin =
        dl_o_mul(o, dl_optimizer_hyper(o, "average.from", 0), dl_optimizer_hyper(o, "lr.steps", 1));
    dl_value *n = dl_build_k(o->b, DL_OP_max, dl_o_sub(o, o->at, begin), 1);
    return dl_o_div(o, dl_o_k(o, 1), n);
}

void dl_average_update(dl_optimization *o, const dl_trained *t, dl_value *next) {
    dl_value *share = share_of(o), *all = dl_build_k(o->b, DL_OP_ge, share, 1);
    dl_var *v = mean_of(o->b->graph, t->var);
    dl_value *way = dl_o_mul(o, dl_o_sub(o, next, &v->value), dl_rule_as(o, share, t));
    dl_value *mean = dl_build3(o->b, DL_OP_select, all, next, dl_o_add(o, &v->value, way));
    dl_rule_update(o, v, mean);
}

bool dl_average_read(dl_graph *g, const dl_pass_ctx *ctx) {
    bool any = false;
    if (!ctx->step_options.average || strcmp(g->name, "eval") != 0 ||
        !dl_module_graph(g->module, "train"))
        return false;
    for (int i = 0, n = g->vars.n; i < n; i++) {
        dl_var *v = g->vars.at[i];
        if (v->role != DL_VAR_PARAM || !dl_dtype_is_float(v->value.type.dtype) ||
            dl_param_is_frozen(ctx->params, v->name) ||
            dl_graph_find_var(g, dl_internf(DL_AVERAGE "%s", v->name)))
            continue;
        dl_replace_value(g, &v->value, &mean_of(g, v)->value);
        any = true;
    }
    return any;
}
