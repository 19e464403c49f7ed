/* Statements `optimize`: losses whose parameters have optimisers of their own. They become
 * objectives of the graph "train" and metrics of both graphs, and each parameter belongs to one. */
#include "frontends/dl/elab.h"
#include "ir/base/tags.h"

void dl_add_objective(dl_elab *E, const dl_objective *o) {
    for (int i = 0; i < E->objectives.n; i++)
        if (E->objectives.at[i].name == o->name) {
            dl_bad(E, o->where, DL_DIAG_duplicate_definition, "there is an optimizer '%s' already",
                   o->name);
            dl_note(E, E->objectives.at[i].where, "it is here");
            return;
        }
    dl_push(E->arena, &E->objectives, *o);
}

/* Does the label name the parameter, or what it is part of? */
static bool covers(const char *label, const char *name) {
    size_t n = strlen(label);
    return strncmp(label, name, n) == 0 && (!name[n] || name[n] == '.');
}

static const dl_param_info *info_of(const dl_elab *E, const dl_var *v) {
    for (int i = 0; i < E->params.n; i++)
        if (E->params.at[i].var == v) return &E->params.at[i];
    return NULL;
}

/* Reports a label that no parameter has. */
static void fail_unknown(dl_elab *E, const dl_set_label *label) {
    const dl_graph *g = E->b.graph;
    const char **tops = DL_NEWS(E->arena, const char *, g->vars.n + 1);
    int n = 0;
    for (int i = 0; i < g->vars.n; i++) {
        const char *name = g->vars.at[i]->name;
        if (g->vars.at[i]->role == DL_VAR_PARAM)
            tops[n++] = dl_strndup(E->arena, name, strcspn(name, "."));
    }
    dl_bad(E, label->where, DL_DIAG_bad_optimize, "no parameter is called '%s', or lies below it",
           label->text);
    const char *near = dl_suggest(label->text, tops, n);
    if (near)
        dl_help(E, "did you mean '%s'?", near);
    else if (n)
        dl_help(E, "the first one is '%s': name it @%s", tops[0], tops[0]);
}

/* Gives each parameter its objective. */
static void share_parameters(dl_elab *E) {
    const dl_graph *g = E->b.graph;
    const dl_var *left = NULL;
    int nleft = 0;
    for (int i = 0; i < g->vars.n; i++) {
        dl_var *v = g->vars.at[i];
        if (v->role != DL_VAR_PARAM) continue;
        const dl_objective *first = NULL;
        for (int k = 0; k < E->objectives.n; k++) {
            dl_objective *o = &E->objectives.at[k];
            const dl_set_label *by = NULL;
            for (int l = 0; l < o->labels.n; l++)
                if (covers(o->labels.at[l].text, v->name))
                    by = &o->labels.at[l], o->labels.at[l].found = true;
            if (by && first) {
                dl_bad(E, by->where, DL_DIAG_bad_optimize,
                       "'%s' and '%s' both have the parameter '%s'", first->name, o->name, v->name);
                dl_note(E, first->where, "the first one");
                dl_help(E, "a parameter has one optimizer: name the labels that differ");
                return;
            }
            if (by) first = o, v->by = o->name;
        }
        if (!first && !left) left = v;
        nleft += !first;
    }
    for (int k = 0; k < E->objectives.n; k++)
        for (int l = 0; l < E->objectives.at[k].labels.n; l++)
            if (!E->objectives.at[k].labels.at[l].found)
                fail_unknown(E, &E->objectives.at[k].labels.at[l]);
    if (!left) return;
    const dl_param_info *info = info_of(E, left);
    const char *others = nleft > 1 ? dl_format(E->arena, " and %d more", nleft - 1) : "";
    dl_bad(E, info ? info->where : E->model->at, DL_DIAG_bad_optimize,
           "no `optimize` has the parameter '%s'%s", left->name, others);
    dl_help(E, "name its label there: optimize %s @%s, @...: ...", E->objectives.at[0].name,
            dl_strndup(E->arena, left->name, strcspn(left->name, ".")));
}

/* The objective's value as one number in f32; NULL after a report. */
static dl_value *number_of(dl_elab *E, const dl_objective *o) {
    const dl_val loss = o->loss;
    if (loss.kind == DL_V_POISON) return NULL;
    const char *what = dl_format(E->arena, "the loss of '%s'", o->name);
    if (loss.kind != DL_V_TENSOR) {
        dl_bad(E, loss.origin, DL_DIAG_not_a_tensor,
               "%s must depend on its parameters, but it is %s", what, dl_val_describe(E, loss));
        return NULL;
    }
    if (!dl_want_scalar(E, loss.origin, what, loss)) return NULL;
    dl_val v = dl_tensor_cast(E, loss.origin, loss, DL_F32);
    return v.kind == DL_V_TENSOR ? v.t : NULL;
}

dl_value *dl_end_objectives(dl_elab *E) {
    dl_graph *g = E->b.graph;
    dl_value *sum = NULL;
    bool all = true;
    for (int i = 0; i < E->objectives.n; i++) {
        dl_objective *o = &E->objectives.at[i];
        o->value = number_of(E, o), all = all && o->value;
        if (!o->value) continue;
        const char *metric = dl_internf(DL_OBJECTIVE_METRIC "%s", o->name);
        if (dl_graph_find_result(g, DL_RESULT_METRIC, metric)) {
            dl_bad(E, o->where, DL_DIAG_duplicate_definition,
                   "there is a metric '%s' already, as which this loss is reported", metric);
            continue;
        }
        if (E->train) dl_graph_result(g, DL_RESULT_OBJECTIVE, o->name, o->value, NULL);
        dl_graph_result(g, DL_RESULT_METRIC, metric, o->value, NULL);
        E->b.loc = dl_source_loc(E->source, o->loss.origin.begin);
        sum = sum ? dl_build2(&E->b, DL_OP_add, sum, o->value) : o->value;
    }
    if (E->objectives.n && !E->syntax_faults && !dl_is_partial(E)) share_parameters(E);
    return all ? sum : NULL;
}
