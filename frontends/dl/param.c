/* Parameters: their names, which are paths of labels, and their initial values. */
#include "frontends/dl/dist.h"
#include "frontends/dl/facts.h"

enum { MAX_PATH = 800 };

const char *dl_join_path(dl_elab *E, const char *outer, const char *name) {
    return !*outer ? name : !*name ? outer : dl_format(E->arena, "%s.%s", outer, name);
}

const char *dl_step_path(dl_elab *E, dl_step *step) {
    if (step->path) return step->path;
    if (step->layer) return step->path = dl_step_path(E, step->layer->step);
    const char *label = step->label;
    if (!label) {
        dl_pipeline *p = step->pipeline;
        if (p && p->variable && p->unlabelled == 0)
            label = p->variable;
        else if (p && p->variable) {
            dl_bad(E, step->where, DL_DIAG_unlabelled_layers,
                   "a second layer without a label: both would be '%s'", p->variable);
            dl_note(E, p->first, "this one takes the variable's name");
            dl_help(E, "label them: |> conv(...) @name");
        } else {
            dl_bad(E, step->where, DL_DIAG_unlabelled_layers,
                   "this layer has parameters and needs a label");
            dl_help(E, "add @name after it, or assign it alone to a variable");
        }
        if (p && p->unlabelled++ == 0) p->first = step->where;
    }
    const char *outer = step->outer ? dl_step_path(E, step->outer) : "";
    /* After a report elaboration continues with a unique name. */
    if (!label) return step->path = dl_internf("?%lld", (long long)E->work);
    const char *path = dl_join_path(E, outer, label);
    if (strlen(path) > MAX_PATH) {
        dl_bad(E, step->where, DL_DIAG_bad_label,
               "the path of this label is longer than %d characters", MAX_PATH);
        path = dl_internf("?%lld", (long long)E->work);
    }
    return step->path = dl_intern(path);
}

static dl_var *make_var(dl_call *c, dl_var_role role, const char *name, dl_type type,
                        dl_init init) {
    dl_elab *E = c->E;
    if (!dl_spend(E, c->where, 40) || !dl_check_count(E, c->where, &type)) return NULL;
    return dl_graph_var(E->b.graph, role, name, type, init,
                        dl_source_loc(E->source, c->name_at.begin));
}

/* Sharing. A parameter's name is the path of its step. A second parameter of the same name is
 * either the same one or belongs to a second layer of one label: the applications of bound layers
 * that contain the two steps decide. */

/* The innermost application of a bound layer that a step is in, or NULL. */
static const dl_step *application_of(const dl_step *step) {
    while (step && !step->layer) step = step->outer;
    return step;
}

static int count_applications(const dl_step *a) {
    int n = 0;
    for (a = application_of(a); a; a = application_of(a->outer)) n++;
    return n;
}

/* The outermost applications in which they differ are applications of the same layer. */
bool dl_is_shared(const dl_param_info *info, const dl_step *step) {
    const dl_step *a = application_of(info->step), *b = application_of(step);
    int n = count_applications(a), m = count_applications(b);
    bool shared = false;
    for (; n > m; n--) a = application_of(a->outer);
    for (; m > n; m--) b = application_of(b->outer);
    for (; a; a = application_of(a->outer), b = application_of(b->outer))
        if (a->layer != b->layer || a->application != b->application) shared = a->layer == b->layer;
    return shared;
}

static bool same_shape(const dl_type *a, const dl_type *b) {
    bool same = a->rank == b->rank && a->dtype == b->dtype;
    for (int i = 0; same && i < a->rank; i++) same = a->axis[i].size == b->axis[i].size;
    return same;
}

/* v under the axis names of `want`. */
static dl_val named_as(dl_elab *E, dl_span where, dl_val v, const dl_type *want) {
    if (v.kind != DL_V_TENSOR || dl_type_same(&v.t->type, want)) return v;
    return dl_tensor_op(E, where, DL_OP_rename, 1, &v, 0, NULL, want);
}

dl_val dl_share_param(dl_elab *E, dl_param_info *info, dl_step *step, const dl_type *want,
                      dl_span where) {
    dl_val v = dl_val_tensor(&info->var->value, where);
    step->made++;
    if (same_shape(&info->var->value.type, want)) {
        info->step = step;
        return named_as(E, where, v, want);
    }
    if (step->made > 1) return dl_poison(); /* one report per layer: the weight's */
    dl_bad(E, where, DL_DIAG_shared_shape,
           "applied again, this layer would need '%s' as %s, but it is %s", info->var->name,
           dl_type_text(want), dl_type_text(&info->var->value.type));
    dl_note(E, info->where, "its first application, which made it");
    dl_help(E, "a layer that is shared is applied to tensors of the same channels; for other "
               "shapes bind another");
    return dl_poison();
}

dl_val dl_make_param(dl_call *c, const char *role, dl_type type, dl_init init, double fan_in,
                     double fan_out) {
    return dl_make_param_of(c, role, "", type, init, fan_in, fan_out);
}

dl_val dl_make_param_of(dl_call *c, const char *role, const char *suffix, dl_type type,
                        dl_init init, double fan_in, double fan_out) {
    dl_elab *E = c->E;
    const char *path = dl_step_path(E, c->step);
    const char *name = dl_intern(dl_join_path(E, path, dl_format(E->arena, "%s%s", role, suffix)));
    for (int i = 0; i < E->params.n; i++)
        if (E->params.at[i].var->name == name) {
            if (dl_is_shared(&E->params.at[i], c->step))
                return dl_share_param(E, &E->params.at[i], c->step, &type, c->where);
            /* One report per layer: the weight's; the bias follows it. */
            if (c->step->made == 0) {
                dl_bad(E, c->where, DL_DIAG_duplicate_label, "two layers are called '%s'", path);
                dl_note(E, E->params.at[i].where, "the first one");
                dl_help(E, "give each its own label; in a loop, number it: @name{i}");
            }
            c->step->made++;
            return dl_val_tensor(&E->params.at[i].var->value, c->where);
        }
    c->step->made++;
    for (dl_step *s = c->step->outer; s; s = s->outer) s->made++;
    dl_var *var = make_var(c, DL_VAR_PARAM, name, type, init);
    if (!var) return dl_poison();
    if (E->facts) dl_facts_parameter(E->facts, c->where, name, &var->value.type);
    dl_push(E->arena, &E->params,
            (dl_param_info){var, dl_intern(c->what->name), dl_intern(role), fan_in, fan_out,
                            c->where, false, c->step});
    return dl_val_tensor(&var->value, c->where);
}

static const char *state_name(dl_call *c, const char *role) {
    return dl_intern(dl_join_path(c->E, dl_step_path(c->E, c->step), role));
}

/* A second buffer of a name belongs to a shared layer: it continues from the value of the first
 * application. (If the layer is not shared, or has another shape, that has been reported for the
 * weight.) */
dl_val dl_make_state(dl_call *c, const char *role, dl_type type, dl_init init) {
    const char *name = state_name(c, role);
    dl_var *var = dl_graph_find_var(c->E->b.graph, name);
    if (!var) {
        var = make_var(c, DL_VAR_STATE, name, type, init);
        return var ? dl_val_tensor(&var->value, c->where) : dl_poison();
    }
    if (var->role != DL_VAR_STATE || !same_shape(&var->value.type, &type)) return dl_poison();
    const dl_result *next = dl_graph_find_result(c->E->b.graph, DL_RESULT_UPDATE, name);
    return named_as(c->E, c->where, dl_val_tensor(next ? next->value : &var->value, c->where),
                    &type);
}

void dl_update_state(dl_call *c, const char *role, dl_val next) {
    dl_graph *g = c->E->b.graph;
    const char *name = state_name(c, role);
    dl_var *var = dl_graph_find_var(g, name);
    if (!var || next.kind != DL_V_TENSOR) return;
    next = named_as(c->E, c->where, next, &var->value.type);
    if (next.kind != DL_V_TENSOR) return;
    dl_result *earlier = dl_graph_find_result(g, DL_RESULT_UPDATE, name);
    if (earlier)
        earlier->value = next.t;
    else
        dl_graph_result(g, DL_RESULT_UPDATE, name, next.t, var);
}

/* conv.weight: every weight of that kind of layer made so far. */
dl_val dl_layer_parameters(dl_elab *E, const dl_ast *e, const dl_builtin *f) {
    if (!dl_builtin_makes(f, e->name)) {
        dl_bad(E, e->at, DL_DIAG_unknown_attribute, "'%s' has no '%s'", f->name, e->name);
        if (f->makes) dl_help(E, "its parameters are: %s", f->makes);
        return dl_poison();
    }
    dl_val list = dl_val_new_list(E, e->span);
    for (int i = 0; i < E->params.n; i++) {
        const dl_param_info *p = &E->params.at[i];
        if (p->layer && strcmp(p->layer, f->name) == 0 && p->role == e->name)
            dl_val_append(E, list, dl_val_tensor(&p->var->value, p->where), e->span);
    }
    return list;
}

static bool is_made_in(const dl_step *step, const dl_layer *layer) {
    while (step && step->layer != layer) step = step->outer;
    return step != NULL;
}

/* enc.weight of a bound layer: its parameter; of a bound module: all weights made in it so far. */
dl_val dl_bound_parameters(dl_elab *E, const dl_ast *e, dl_val layer) {
    const char *path = dl_step_path(E, layer.layer->step);
    size_t n = strlen(path) + (*path != 0);
    dl_val list = dl_val_new_list(E, e->span);
    for (int i = 0; i < E->params.n; i++) {
        const dl_param_info *p = &E->params.at[i];
        if (!is_made_in(p->step, layer.layer)) continue;
        const char *own = layer.layer->module ? p->role : p->var->name + n;
        if (strcmp(own, e->name) != 0) continue;
        dl_val v = dl_val_tensor(&p->var->value, p->where);
        if (!layer.layer->module) return v;
        dl_val_append(E, list, v, e->span);
    }
    const dl_builtin *f = layer.layer->module ? NULL : layer.layer->call->what;
    if (list.list->items.n) return list;
    dl_bad(E, e->at, DL_DIAG_unknown_attribute, "%s has no '%s'%s",
           dl_val_words(E, layer, "this layer"), e->name,
           layer.layer->applied ? "" : " before it is applied");
    if (f) dl_help(E, "its parameters are: %s", f->makes);
    return dl_poison();
}

void dl_apply_rules(dl_elab *E) {
    for (int r = 0; r < E->rules.n; r++)
        for (int i = 0; i < E->params.n; i++) {
            dl_param_info *p = &E->params.at[i];
            const dl_init_rule *rule = &E->rules.at[r];
            if (p->layer && strcmp(p->layer, rule->layer) == 0 && strcmp(p->role, rule->role) == 0)
                dl_dist_init(E, rule, p->fan_in, p->fan_out, &p->var->init);
        }
}
