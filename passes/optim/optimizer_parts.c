/* Functions that the optimiser's rules and the loss scaler share: variables of the optimiser, the
 * whole of a shard, and totals over parameters and ranks. */
#include "passes/optim/optimizer.h"

/* Reports a model's variable whose name the optimiser needs. */
static void check_free(const dl_optimization *o, const char *name) {
    const dl_var *v = dl_var_set_find(&o->model, name);
    if (v) dl_fail_taken(o->b->graph, v, "the optimiser's own", o->err);
}

static dl_init starts_at(double first) {
    return (dl_init){.kind = first ? DL_INIT_CONST : DL_INIT_ZERO, .a = first};
}

/* The plain name may be taken by the model: exp_avg.weight of a layer labelled exp_avg, together
 * with a parameter `weight`. Then the name gets two dots, which no name of a model has. */
static dl_var *add_state(const dl_optimization *o, const char *what, const dl_trained *t,
                         dl_type type, double first) {
    const char *name = dl_internf("%s.%s", what, t->var->name);
    if (dl_var_set_find(&o->model, name)) name = dl_internf("%s..%s", what, t->var->name);
    dl_var *v = dl_graph_var(o->b->graph, DL_VAR_STATE, name, type, starts_at(first), t->var->loc);
    v->of = t->var->name;
    return v;
}

dl_var *dl_optimizer_state(const dl_optimization *o, const char *what, const dl_trained *t,
                           double first) {
    dl_var *v = add_state(o, what, t, t->own->type, first);
    v->piece = t->var->piece;
    for (int i = 0; i < t->share.n; i++) v->piece.cut[v->piece.n++] = t->share.cut[i];
    return v;
}

dl_var *dl_optimizer_summary(const dl_optimization *o, const char *what, const dl_trained *t,
                             dl_type type) {
    return add_state(o, what, t, type, 0);
}

const char *dl_optimizer_own_name(const dl_optimization *o, const char *text) {
    const char *of = o->set ? o->set->name : NULL;
    return of ? dl_internf("optimizer.%s.%s", of, text) : dl_internf("optimizer.%s", text);
}

static bool is_option(const char *text) {
    for (int i = 0; i < DL_N_OPTIONS; i++)
        if (strcmp(dl_optimizer_options[i].name, text) == 0) return true;
    return false;
}

dl_value *dl_optimizer_hyper(dl_optimization *o, const char *text, double fallback) {
    return dl_optimizer_number(
        o, is_option(text) ? dl_optimizer_own_name(o, text) : dl_internf("optimizer.%s", text),
        fallback);
}

dl_value *dl_optimizer_number(dl_optimization *o, const char *name, double fallback) {
    for (int i = 0; i < o->hypers.n; i++)
        if (o->hypers.at[i]->name == name) return &o->hypers.at[i]->value;
    check_free(o, name);
    dl_var *v = dl_graph_var(o->b->graph, DL_VAR_HYPER, name, dl_scalar(DL_F64),
                             starts_at(fallback), o->b->loc);
    dl_push(o->arena, &o->hypers, v);
    return &v->value;
}

dl_var *dl_optimizer_scalar(const dl_optimization *o, const char *text, double first) {
    const char *name = dl_optimizer_own_name(o, text);
    check_free(o, name);
    return dl_graph_var(o->b->graph, DL_VAR_STATE, name, dl_scalar(DL_F64), starts_at(first),
                        o->b->loc);
}

dl_value *dl_o_whole(const dl_optimization *o, const dl_trained *t, dl_value *v) {
    for (int i = t->share.n - 1; i >= 0; i--)
        v = dl_build_gathered(o->b, v, &t->share.cut[i], t->var->name);
    return v;
}

void dl_o_total_add(dl_optimization *o, dl_o_total *total, const dl_trained *t, dl_value *term) {
    const dl_var_piece *both[] = {&t->var->piece, &t->share};
    int k = 0;
    for (int i = 0; i < 2; i++)
        for (int c = 0; c < both[i]->n; c++) {
            int kind = strcmp(both[i]->cut[c].group, "tp") == 0 ? DL_O_TENSORS : DL_O_SUMMED;
            k |= kind, total->cut[kind] = &both[i]->cut[c];
        }
    total->sum[k] = total->sum[k] ? dl_o_add(o, total->sum[k], term) : term;
}

/* a plus b, where b is summed over the ranks of the cut; either may be NULL. */
static dl_value *add_sum(dl_optimization *o, dl_value *a, dl_value *b, const dl_var_cut *cut,
                         const char *of) {
    if (!b) return a;
    dl_attr attrs[] = {dl_attr_name(DL_ATTR_group, cut->group),
                       dl_attr_int(DL_ATTR_ranks, cut->ranks), dl_attr_of(o->b->graph, of)};
    b = dl_build(o->b, DL_OP_all_reduce, 1, &b, 3, attrs);
    return a ? dl_o_add(o, a, b) : b;
}

dl_value *dl_o_total_sum(dl_optimization *o, const dl_o_total *total, const char *of) {
    dl_value *const *sum = total->sum;
    const dl_var_cut *tensors = total->cut[DL_O_TENSORS], *summed = total->cut[DL_O_SUMMED];
    dl_value *pieces = add_sum(o, sum[DL_O_TENSORS], sum[DL_O_BOTH], summed, of);
    return add_sum(o, add_sum(o, sum[0], pieces, tensors, of), sum[DL_O_SUMMED], summed, of);
}
