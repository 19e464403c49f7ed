/* One run of a model into a graph: its arguments, its body, and the checks at the end. */
#include <math.h>

#include "frontends/dl/elab.h"
#include "ir/walk.h"

static void poison_names(dl_elab *E, const dl_ast_list *list) {
    for (int i = 0; i < list->list.n; i++) {
        const dl_ast *s = list->list.at[i];
        if (s->kind == DL_A_BAD) {
            E->syntax_faults = true;
            for (int k = 0; k < s->items.list.n; k++)
                dl_push(E->arena, &E->poisoned, s->items.list.at[k]->name);
        }
        poison_names(E, &s->body);
        if (s->kind == DL_A_IF) poison_names(E, &s->more);
    }
}

static void finish(dl_elab *E) {
    const dl_ast *m = E->model;
    dl_value *objectives = dl_end_objectives(E);
    if (objectives && !E->has_loss)
        dl_graph_result(E->b.graph, DL_RESULT_LOSS, "loss", objectives, NULL);
    const dl_val *loss = dl_scope_find(E->scope, dl_intern("loss"));
    if (E->has_loss && loss && loss->kind != DL_V_POISON) {
        if (loss->kind != DL_V_TENSOR)
            dl_bad(E, loss->origin, DL_DIAG_not_a_tensor,
                   "the loss must depend on the model's output, but it is %s",
                   dl_val_describe(E, *loss));
        else if (dl_want_scalar(E, loss->origin, "the loss", *loss)) {
            dl_val v = dl_tensor_cast(E, loss->origin, *loss, DL_F32);
            if (v.kind == DL_V_TENSOR)
                dl_graph_result(E->b.graph, DL_RESULT_LOSS, "loss", v.t, NULL);
        }
    }
    if (E->exhausted || E->syntax_faults) return;
    bool has_input = false;
    for (int i = 0; i < m->body.list.n; i++) has_input |= m->body.list.at[i]->kind == DL_A_INPUT;
    if (!has_input) {
        dl_bad(E, m->at, DL_DIAG_no_input, "the model '%s' has no input", m->name);
        dl_help(E, "add: input x: f32[N, C=3, H, W]");
    }
    if (!E->has_output) {
        dl_bad(E, m->at, DL_DIAG_no_output, "the model '%s' has no output", m->name);
        dl_help(E, "say what it predicts: output y");
    }
    if (!E->has_loss && !E->objectives.n) {
        dl_bad(E, m->at, DL_DIAG_no_loss, "the model '%s' has no loss", m->name);
        dl_help(E, "say what training minimises: loss = mean(abs(y - t))");
    }
}

/* By value: whether a node or a result reads it. */
static const bool *find_used(const dl_elab *E) {
    const dl_graph *g = E->b.graph;
    bool *used = DL_NEWS(E->arena, bool, g->next_id + 1);
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.at[i]->nin; k++) used[g->nodes.at[i]->in[k]->id] = true;
    for (int i = 0; i < g->results.n; i++) used[g->results.at[i].value->id] = true;
    return used;
}

/* The variable that a statement declares: a label may give it another name. */
static const dl_var *declared_by(const dl_elab *E, const dl_ast *s) {
    for (int i = 0; i < E->params.n; i++)
        if (E->params.at[i].where.begin == s->at.begin) return E->params.at[i].var;
    return dl_graph_find_var(E->b.graph, s->name);
}

/* Warns of declarations that are never read. */
static void warn_unused(dl_elab *E) {
    const bool *used = find_used(E);
    for (int i = 0; i < E->model->body.list.n; i++) {
        const dl_ast *s = E->model->body.list.at[i];
        if (s->kind != DL_A_INPUT && s->kind != DL_A_TARGET && s->kind != DL_A_PARAMETER &&
            s->kind != DL_A_BUFFER)
            continue;
        const dl_var *v = declared_by(E, s);
        if (v && !used[v->value.id])
            dl_bad(E, s->at, DL_DIAG_unused_declaration, "%s '%s' is never used",
                   s->kind == DL_A_BUFFER ? "buffer" : dl_var_roles[v->role], s->name);
    }
}

/* Warns of layers that are bound and never applied, and of those whose results nothing reads. The
 * graph must be swept. */
static void warn_idle(dl_elab *E) {
    for (int i = 0; i < E->layers.n; i++) {
        const dl_layer *l = E->layers.at[i];
        if (l->applied) continue;
        dl_bad(E, l->step->where, DL_DIAG_unused_declaration,
               "this layer (%s) is never applied: it has no parameters, and is not counted",
               l->name);
        dl_help(E, "PyTorch counts and saves what a module declares, used or not: leave the line "
                   "out, or apply it");
    }
    const bool *used = find_used(E);
    for (int i = 0; i < E->params.n; i++) {
        const dl_param_info *p = &E->params.at[i];
        if (!p->step || !p->role || p->var->role != DL_VAR_PARAM || used[p->var->value.id])
            continue;
        dl_bad(
            E, p->where, DL_DIAG_unused_declaration,
            "nothing reads what this layer makes: its parameter '%s' is counted, but not trained",
            p->var->name);
    }
}

/* Whether a configuration's value has the kind of the default; whole numbers are accepted as
 * numbers, and one size or several where axes are sized. */
static bool fits(const char *name, dl_val otherwise, dl_val given) {
    bool sizes = strcmp(name, DL_ARGUMENT_EDGE) == 0 &&
                 (otherwise.kind == DL_V_INT || otherwise.kind == DL_V_LIST) &&
                 (given.kind == DL_V_INT || given.kind == DL_V_LIST);
    return sizes || otherwise.kind == DL_V_POISON || otherwise.kind == DL_V_NONE ||
           otherwise.kind == given.kind || given.kind == DL_V_NONE ||
           (otherwise.kind == DL_V_FLOAT && given.kind == DL_V_INT);
}

static void bind_arguments(dl_elab *E) {
    for (int i = 0; i < E->model->items.list.n; i++) {
        const dl_ast *p = E->model->items.list.at[i];
        dl_val v = p->a ? dl_eval(E, p->a) : dl_poison();
        const dl_setting *s = NULL;
        for (int k = 0; k < E->config->narguments; k++)
            if (strcmp(E->config->arguments[k].name, p->name) == 0)
                s = &E->config->arguments[k].value;
        if (s) {
            dl_val given = dl_setting_value(E, p->span, s);
            if (given.kind == DL_V_FLOAT && !isfinite(given.f)) {
                dl_bad(E, p->span, DL_DIAG_bad_setting, "the configuration gives '%s' as %g",
                       p->name, given.f);
                v = dl_poison();
            } else if (!fits(p->name, v, given)) {
                dl_bad(E, p->span, DL_DIAG_bad_setting,
                       "the configuration gives '%s' as %s, but its default is %s", p->name,
                       dl_val_describe(E, given), dl_val_describe(E, v));
                v = dl_poison();
            } else
                v = given;
        } else if (!p->a && !E->assumed) {
            dl_bad(E, p->span, DL_DIAG_missing_setting,
                   "the argument '%s' has no default, and the configuration does not give it",
                   p->name);
            dl_help(E, "add `%s:` to the configuration, or a default: %s=...", p->name, p->name);
        }
        dl_scope_set(E, p->name, v);
    }
}

static void check_batch(dl_elab *E) {
    const dl_size_binding *n = dl_scope_size(E->scope, dl_intern("N"));
    for (int i = 0; n && !E->config->any_batch && i < E->config->nsizes; i++)
        if (strcmp(E->config->sizes[i].axis, "N") == 0 && E->config->sizes[i].size != n->size &&
            n->size >= 0) {
            dl_bad(E, n->where, DL_DIAG_bad_setting,
                   "the model fixes the batch N=%lld, but the configuration asks for %lld",
                   (long long)n->size, (long long)E->config->sizes[i].size);
            dl_help(E, "leave it open: write N");
        }
}

/* A training step computes no outputs and figures, unless its loss reads them: validation draws
 * them, and predictions write them. */
static void drop_unread_results(dl_graph *g) {
    int n = 0;
    for (int i = 0; i < g->results.n; i++) {
        const dl_result_role role = g->results.at[i].role;
        if (role != DL_RESULT_OUTPUT && role != DL_RESULT_FIGURE)
            g->results.at[n++] = g->results.at[i];
    }
    g->results.n = n;
    dl_graph_sweep(g);
}

void dl_elaborate(dl_elab *E, dl_graph *g) {
    E->b.graph = g;
    E->global = E->scope = dl_scope_new(E, NULL);
    dl_scope_set(E, dl_intern("pi"), dl_val_float(3.14159265358979323846, (dl_span){0}));
    dl_scope_set(E, dl_intern("train"), dl_val_bool(E->train, (dl_span){0}));
    dl_scope_set(E, dl_intern("same"), dl_val_str(dl_intern("same"), (dl_span){0}));
    dl_scope_set(E, dl_intern("valid"), dl_val_str(dl_intern("valid"), (dl_span){0}));
    poison_names(E, &E->file->body);
    E->place = DL_IN_FILE;
    dl_exec_list(E, &E->file->body);
    E->scope = dl_scope_new(E, E->global);
    E->place = DL_IN_MODEL;
    bind_arguments(E);
    poison_names(E, &E->model->body);
    dl_exec_list(E, &E->model->body);
    check_batch(E);
    finish(E);
    dl_apply_rules(E);
    if (E->diags->errors || E->syntax_faults) return;
    /* nodes that were not built may read values that seem unused */
    bool partial = dl_is_partial(E);
    if (!partial) warn_unused(E);
    if (E->train) dl_check_loss(E);
    /* A term with weight zero leaves unused operands in the graph. */
    dl_graph_sweep(g);
    if (!E->train) return;
    if (!partial) warn_idle(E);
    drop_unread_results(g);
}
