/* Builds the graph "predict": evaluation without the loss and the tensors that it is compared
 * with. */
#include "passes/core/prediction.h"

#include "ir/walk.h"

static bool is_models(const dl_var *v) {
    return v->role == DL_VAR_PARAM || v->role == DL_VAR_STATE;
}

static bool drop_variables(dl_graph *g, const dl_uses *uses, dl_error *err) {
    int n = 0;
    for (int i = 0; i < g->vars.n; i++) {
        dl_var *v = g->vars.at[i];
        bool used = uses[v->value.id].n || uses[v->value.id].results;
        if (used && v->role == DL_VAR_TARGET)
            return dl_fail(
                err, DL_INPUT,
                "an output of the model is made of its target '%s', which a prediction does not "
                "have: declare it as an input",
                v->name);
        if (used || is_models(v)) g->vars.at[n++] = v;
    }
    g->vars.n = n;
    return true;
}

/* Files of weights also hold variables that only training reads (how many batches a norm has
 * seen). */
static void add_missing(dl_graph *g, const dl_graph *train) {
    for (int i = 0; train && i < train->vars.n; i++) {
        const dl_var *v = train->vars.at[i];
        if (!is_models(v) || dl_graph_find_var(g, v->name)) continue;
        dl_graph_var(g, v->role, v->name, v->value.type, v->init, v->loc)->of = v->of;
    }
}

void dl_keep_evaluation(dl_module *m) {
    dl_graph *g = dl_module_graph(m, "eval");
    DL_CHECK(g);
    add_missing(g, dl_module_graph(m, "train"));
    m->graphs.at[0] = g, m->graphs.n = 1;
}

/* A prediction is a function of its inputs. */
static bool refuse_draws(const dl_graph *g, dl_error *err) {
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        if (n->op == DL_OP_rand)
            return dl_fail(err, DL_INPUT,
                           "%s:%d:%d: error: an output of the model draws random numbers, which a "
                           "prediction does not: draw in training alone (z = m + randn(m) if train "
                           "else m), or declare the noise as an input",
                           n->loc.file ? n->loc.file : g->name, n->loc.line, n->loc.column);
    }
    return true;
}

bool dl_keep_prediction(dl_module *m, dl_error *err) {
    dl_graph *g = dl_module_graph(m, "eval");
    DL_CHECK(g);
    int n = 0;
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].role == DL_RESULT_OUTPUT) g->results.at[n++] = g->results.at[i];
    g->results.n = n;
    dl_graph_sweep(g);
    dl_arena *scratch = dl_arena_new(NULL);
    bool ok = refuse_draws(g, err) && drop_variables(g, dl_graph_uses(g, scratch), err);
    dl_arena_free(scratch);
    if (!ok) return false;
    add_missing(g, dl_module_graph(m, "train"));
    g->name = dl_intern("predict");
    m->graphs.at[0] = g, m->graphs.n = 1;
    return true;
}
