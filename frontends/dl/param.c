/* Parameters: their names, which are paths of labels, and their initial values. */
#include <math.h>

#include "frontends/dl/elab.h"

enum { MAX_PATH = 800 };

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
            dl_bad(E, step->where, DL_DIAG_unlabelled_layers, "this layer has parameters and needs a label");
            dl_help(E, "add @name behind it, or assign it alone to a variable");
        }
        if (p && p->unlabelled++ == 0) p->first = step->where;
    }
    const char *outer = step->outer ? dl_step_path(E, step->outer) : "";
    /* After a report the walk goes on under a name that nothing else has. */
    if (!label) return step->path = dl_internf("?%lld", (long long)E->work);
    const char *path = *outer ? dl_format(E->arena, "%s.%s", outer, label) : label;
    if (strlen(path) > MAX_PATH) {
        dl_bad(E, step->where, DL_DIAG_bad_label, "the path of this label is longer than %d characters",
               MAX_PATH);
        path = dl_internf("?%lld", (long long)E->work);
    }
    return step->path = dl_intern(path);
}

static dl_var *make_var(dl_call *c, dl_var_role role, const char *name, dl_type type, dl_init init) {
    dl_elab *E = c->E;
    if (!dl_spend(E, c->where, 40) || !dl_check_count(E, c->where, &type)) return NULL;
    return dl_graph_var(E->b.graph, role, name, type, init, dl_source_loc(E->source, c->name_at.begin));
}

/* Sharing. A parameter's name tells where it stands; whether a second one of that name is the same parameter
 * or a second layer of one label is told by the applications of bound layers that the two steps are in. */

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

/* The outermost application in which they differ is one of the same layer. */
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

dl_val dl_share_param(dl_elab *E, dl_param_info *info, dl_step *step, const dl_type *want, dl_span where) {
    dl_val v = dl_val_tensor(&info->var->value, where);
    step->made++;
    if (same_shape(&info->var->value.type, want)) {
        info->step = step;
        return named_as(E, where, v, want);
    }
    if (step->made > 1) return dl_poison(); /* one report a layer: the weight's */
    dl_bad(E, where, DL_DIAG_shared_shape, "applied again, this layer would need '%s' as %s, but it is %s",
           info->var->name, dl_type_text(want), dl_type_text(&info->var->value.type));
    dl_note(E, info->where, "its first application, which made it");
    dl_help(
        E,
        "a layer that is shared is applied to tensors of the same channels; for other shapes bind another");
    return dl_poison();
}

dl_val dl_make_param(dl_call *c, const char *role, dl_type type, dl_init init, double fan_in,
                     double fan_out) {
    dl_elab *E = c->E;
    const char *path = dl_step_path(E, c->step), *name = dl_internf("%s.%s", path, role);
    for (int i = 0; i < E->params.n; i++)
        if (E->params.at[i].var->name == name) {
            if (dl_is_shared(&E->params.at[i], c->step))
                return dl_share_param(E, &E->params.at[i], c->step, &type, c->where);
            /* One report a layer: the weight's; the bias goes under. */
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
    dl_push(E->arena, &E->params,
            (dl_param_info){var, dl_intern(c->what->name), dl_intern(role), fan_in, fan_out, c->where, false,
                            c->step});
    return dl_val_tensor(&var->value, c->where);
}

static const char *state_name(dl_call *c, const char *role) {
    return dl_internf("%s.%s", dl_step_path(c->E, c->step), role);
}

/* A second one of a name belongs to a shared layer: it goes on where the first application left it. (If the
 * layer is not shared, or of another shape, that has been reported with the weight.) */
dl_val dl_make_state(dl_call *c, const char *role, dl_type type, dl_init init) {
    const char *name = state_name(c, role);
    dl_var *var = dl_graph_find_var(c->E->b.graph, name);
    if (!var) {
        var = make_var(c, DL_VAR_STATE, name, type, init);
        return var ? dl_val_tensor(&var->value, c->where) : dl_poison();
    }
    if (var->role != DL_VAR_STATE || !same_shape(&var->value.type, &type)) return dl_poison();
    const dl_result *next = dl_graph_find_result(c->E->b.graph, DL_RESULT_UPDATE, name);
    return named_as(c->E, c->where, dl_val_tensor(next ? next->value : &var->value, c->where), &type);
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

/* Distributions. The fan-scaled ones are Keras' (He and Glorot normal are truncated at two deviations, and
 * widened so that the deviation after cutting is the one asked for) and PyTorch's kaiming_uniform with a =
 * sqrt(5). */
typedef enum { BY_ARGUMENTS, BY_FAN_IN, BY_FANS } scaling;
static const struct {
    const char *name;
    int arguments;
    scaling scale;
    dl_init_kind kind;
    double factor; /* variance = factor / fan */
} dists[] = {
    {"normal", 2, BY_ARGUMENTS, DL_INIT_NORMAL, 0},
    {"trunc_normal", 2, BY_ARGUMENTS, DL_INIT_TRUNC_NORMAL, 0},
    {"uniform", 2, BY_ARGUMENTS, DL_INIT_UNIFORM, 0},
    {"constant", 1, BY_ARGUMENTS, DL_INIT_CONST, 0},
    {"he_normal", 0, BY_FAN_IN, DL_INIT_TRUNC_NORMAL, 2},
    {"he_uniform", 0, BY_FAN_IN, DL_INIT_UNIFORM, 2},
    {"glorot_normal", 0, BY_FANS, DL_INIT_TRUNC_NORMAL, 1},
    {"glorot_uniform", 0, BY_FANS, DL_INIT_UNIFORM, 1},
    {"kaiming_uniform", 0, BY_FAN_IN, DL_INIT_UNIFORM, 1.0 / 3},
};
enum { NDISTS = sizeof dists / sizeof *dists };
/* Standard deviation of the unit normal cut at two deviations. */
static const double cut_deviation = 0.87962566103423978;

static bool bad_dist(dl_elab *E, const dl_ast *e, const char *name) {
    const char *names[NDISTS];
    for (int i = 0; i < NDISTS; i++) names[i] = dists[i].name;
    const char *near = name ? dl_suggest(name, names, NDISTS) : NULL;
    if (name)
        dl_bad(E, e->span, DL_DIAG_bad_init, "'%s' is no distribution", name);
    else
        dl_bad(E, e->span, DL_DIAG_bad_init, "behind '~' stands a distribution");
    if (near)
        dl_help(E, "did you mean '%s'?", near);
    else
        dl_help(E, "write ~ normal(mean, deviation), uniform(low, high), he_normal..., or = and a number");
    return false;
}

static int find_dist(const char *name) {
    int k = 0;
    while (k < NDISTS && strcmp(dists[k].name, name) != 0) k++;
    return k;
}

static bool constant_init(dl_elab *E, const dl_ast *e, dl_init_rule *out) {
    const dl_ast *name = e->kind == DL_A_CALL ? e->a : e;
    if (name->kind == DL_A_NAME && find_dist(name->name) < NDISTS && !dl_scope_find(E->scope, name->name)) {
        dl_bad(E, e->span, DL_DIAG_bad_init, "behind '=' stands a number, and '%s' is a distribution",
               name->name);
        dl_help(E, "write ~ instead of =");
        return false;
    }
    dl_val v = dl_eval(E, e);
    if (v.kind == DL_V_POISON) return false;
    if (!dl_val_is_number(v)) {
        dl_bad(E, e->span, DL_DIAG_bad_init, "an initial value is a number, not %s", dl_val_describe(E, v));
        dl_help(E, "for random values write ~ and a distribution");
        return false;
    }
    out->dist = "constant", out->a = dl_val_number(v);
    return true;
}

bool dl_eval_dist(dl_elab *E, const dl_ast *e, bool constant, dl_init_rule *out) {
    if (constant) return constant_init(E, e, out);
    const dl_ast *name = e->kind == DL_A_CALL ? e->a : e;
    if (name->kind != DL_A_NAME) return bad_dist(E, e, NULL);
    int k = find_dist(name->name);
    if (k == NDISTS) return bad_dist(E, name, name->name);
    int n = e->kind == DL_A_CALL ? e->items.list.n : 0;
    if (n != dists[k].arguments) {
        dl_bad(E, e->span, DL_DIAG_bad_init, "%s takes %d argument%s, not %d", dists[k].name,
               dists[k].arguments, dists[k].arguments == 1 ? "" : "s", n);
        if (dists[k].arguments == 2)
            dl_help(E, "%s(%s)", dists[k].name,
                    dists[k].kind == DL_INIT_UNIFORM ? "low, high" : "mean, deviation");
        return false;
    }
    double v[2] = {0};
    for (int i = 0; i < n; i++) {
        const dl_ast *arg = e->items.list.at[i];
        dl_val x = dl_eval(E, arg->a);
        if (x.kind == DL_V_POISON) return false;
        if (arg->name || !dl_val_is_number(x)) {
            dl_bad(E, arg->span, DL_DIAG_bad_init, "%s takes plain numbers", dists[k].name);
            return false;
        }
        v[i] = dl_val_number(x);
    }
    bool normal = dists[k].kind == DL_INIT_NORMAL || dists[k].kind == DL_INIT_TRUNC_NORMAL;
    if (n == 2 && normal && v[1] < 0) {
        dl_bad(E, e->span, DL_DIAG_bad_init, "a standard deviation is not negative");
        return false;
    }
    if (n == 2 && !normal && v[1] < v[0]) {
        dl_bad(E, e->span, DL_DIAG_bad_init, "uniform(low, high) needs low <= high");
        return false;
    }
    out->dist = dists[k].name, out->a = v[0], out->b = v[1];
    return true;
}

bool dl_dist_init(dl_elab *E, const dl_init_rule *rule, double fan_in, double fan_out, dl_init *out) {
    (void)E;
    int k = find_dist(rule->dist);
    *out = (dl_init){dists[k].kind, rule->a, rule->b};
    if (out->kind == DL_INIT_CONST && rule->a == 0) out->kind = DL_INIT_ZERO;
    if (dists[k].scale == BY_ARGUMENTS) return true;
    double fan = dists[k].scale == BY_FAN_IN ? fan_in : (fan_in + fan_out) / 2;
    double variance = dists[k].factor / (fan > 1 ? fan : 1), deviation = sqrt(variance);
    if (out->kind == DL_INIT_UNIFORM)
        out->a = -sqrt(3 * variance), out->b = sqrt(3 * variance);
    else
        out->a = 0, out->b = deviation / cut_deviation;
    return true;
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
