/* Declarations: types with named axes, inputs, targets, parameters and rules for initial values. */
#include "frontends/dl/dist.h"
#include "parser.h"

/* Types */

/* The number of an axis among those that data_size sizes, from the last one; -1: it is another one.
 */
static int edge_number(const char *axis) {
    static const char *const edges[] = {"W", "H", "D"};
    for (int i = 0; i < 3; i++)
        if (strcmp(axis, edges[i]) == 0) return i;
    return -1;
}

/* The value of the argument data_size for an axis that it sizes; NULL: it sizes other axes, or is
 * not given. */
static const dl_val *edge_of(dl_elab *E, const char *axis, dl_val *room) {
    if (edge_number(axis) < 0) return NULL;
    /* it is declared: bound, if only to its default */
    for (int i = 0; i < E->model->items.list.n; i++)
        if (strcmp(E->model->items.list.at[i]->name, DL_ARGUMENT_EDGE) == 0)
            return dl_scope_find(E->scope, dl_intern(DL_ARGUMENT_EDGE));
    for (int i = 0; i < E->config->narguments; i++) {
        const dl_argument *a = &E->config->arguments[i];
        if (strcmp(a->name, DL_ARGUMENT_EDGE) == 0 &&
            (a->value.kind == DL_SET_INT || a->value.kind == DL_SET_LIST))
            return *room = dl_setting_value(E, (dl_span){0}, &a->value), room;
    }
    return NULL;
}

/* The size that data_size gives an axis; false: reported. */
static bool edge_size(dl_elab *E, const dl_ast *arg, const char *axis, dl_val edge, int64_t *size) {
    if (edge.kind == DL_V_POISON) return false;
    if (edge.kind == DL_V_LIST) {
        int n = edge.list->items.n, at = n - 1 - edge_number(axis);
        if (n < 2 || n > 3 || at < 0) {
            dl_bad(E, arg->span, DL_DIAG_unknown_size, "%s has %d %s, and none is that of axis %s",
                   DL_ARGUMENT_EDGE, n, n == 1 ? "size" : "sizes", axis);
            dl_help(E, "give a number for all axes, [H, W] or [D, H, W]");
            return false;
        }
        edge = edge.list->items.at[at];
    }
    if (edge.kind != DL_V_INT) {
        dl_bad(E, arg->span, DL_DIAG_bad_setting, "%s gives axis %s a size that is %s",
               DL_ARGUMENT_EDGE, axis, dl_val_describe(E, edge));
        return false;
    }
    *size = edge.i;
    if (*size < 1)
        dl_bad(E, arg->span, DL_DIAG_negative_size, "%s gives axis %s the size %lld",
               DL_ARGUMENT_EDGE, axis, (long long)*size);
    return *size >= 1;
}

/* False, reported: an argument has the axis' name, and its value is a whole number or not given. It
 * is not used as the size: check, compile and a file's data would each use another one. N is the
 * batch, which is sized elsewhere. */
static bool is_no_argument(dl_elab *E, const dl_ast *arg, const char *name) {
    const dl_val *v = strcmp(name, "N") == 0 ? NULL : dl_scope_find(E->scope, name);
    bool argument = v && v->kind == DL_V_INT;
    for (int i = 0; v && v->kind == DL_V_POISON && i < E->model->items.list.n; i++)
        argument |= E->model->items.list.at[i]->name == name;
    if (!argument) return true;
    if (dl_is_poisoned(E, name)) return false; /* reported once */
    dl_bad(E, arg->span, DL_DIAG_unknown_size,
           "the size of axis %s is not written, and the value %s of this name is no axis' size by "
           "itself",
           name, name);
    dl_help(E, "write %s=%s", name, name);
    return false;
}

/* The size of an axis that its declaration omits; false: reported. */
static bool open_size(dl_elab *E, const dl_ast *arg, const char *name, int64_t *size) {
    const dl_size_binding *s = dl_scope_size(E->scope, name);
    if (s && s->sizes_differ)
        return dl_eval(E, arg->a).kind == DL_V_INT; /* reports the ambiguity */
    if (s) return *size = s->size, true;
    if (!is_no_argument(E, arg, name)) return false;
    for (int i = 0; i < E->config->nsizes; i++)
        if (strcmp(E->config->sizes[i].axis, name) == 0) {
            *size = E->config->sizes[i].size;
            if (*size < 0)
                dl_bad(E, arg->span, DL_DIAG_negative_size,
                       "the configuration gives axis %s the size %lld", name, (long long)*size);
            return *size >= 0;
        }
    dl_val room;
    const dl_val *edge = edge_of(E, name, &room);
    bool sized = edge && edge->kind != DL_V_NONE;
    if (sized) return edge_size(E, arg, name, *edge, size);
    if (E->assumed) {
        dl_push(E->arena, &E->assumed_axes, name);
        return *size = strcmp(name, "N") == 0 ? 2 : E->assumed, true;
    }
    if (dl_is_poisoned(E, name)) return false;
    dl_bad(E, arg->span, DL_DIAG_unknown_size, "the size of axis %s is not known", name);
    dl_help(E, "write it (%s=64) or give it in the configuration", name);
    return false;
}

static bool eval_axis(dl_elab *E, const dl_ast *arg, bool declares, dl_type *out) {
    const char *name = arg->name                   ? arg->name
                       : arg->a->kind == DL_A_NAME ? arg->a->name
                                                   : dl_intern("");
    int64_t size = -1;
    if (out->rank == DL_MAX_RANK) {
        dl_bad(E, arg->span, DL_DIAG_rank_mismatch, "a tensor has at most %d axes", DL_MAX_RANK);
        return false;
    }
    if (*name && dl_type_axis(out, name) >= 0) {
        dl_bad(E, arg->span, DL_DIAG_duplicate_axis, "the axis %s is named twice", name);
        return false;
    }
    bool sized = arg->name || arg->a->kind != DL_A_NAME;
    if (sized) {
        if (!dl_val_count(E, dl_eval(E, arg->a), 0,
                          *name ? dl_format(E->arena, "the size of %s", name) : "a size", &size))
            return false;
        if (!*name && size != 1) {
            dl_bad(E, arg->span, DL_DIAG_unnamed_axis, "an axis of size %lld needs a name",
                   (long long)size);
            dl_help(E,
                    "write C=%lld, with the axis' name for C; only axes of size 1 may do without",
                    (long long)size);
            return false;
        }
    } else if (declares && !open_size(E, arg, name, &size))
        return false;
    if (declares && *name) dl_scope_bind_size(E, name, size, arg->span);
    out->axis[out->rank++] = (dl_axis){name, size};
    return true;
}

bool dl_eval_type(dl_elab *E, const dl_ast *type, bool declares, dl_type *out) {
    dl_dtype d = DL_F32;
    if (type->name && !dl_dtype_named(E, type->name, type->at, &d)) return false;
    *out = dl_scalar(d);
    bool good = true;
    for (int i = 0; i < type->items.list.n; i++)
        if (!eval_axis(E, type->items.list.at[i], declares, out)) {
            good = false;
            /* The name is known, its size is not: it becomes poison, so that its uses report
             * nothing. */
            const dl_ast *arg = type->items.list.at[i];
            const char *name = arg->name                   ? arg->name
                               : arg->a->kind == DL_A_NAME ? arg->a->name
                                                           : NULL;
            if (declares && name && !dl_scope_size(E->scope, name))
                dl_push(E->arena, &E->poisoned, name);
        }
    return good && dl_check_count(E, type->span, out);
}

/* Declarations */

bool dl_only_in(dl_elab *E, const dl_ast *s, dl_place place, const char *what) {
    if (E->place == place) return true;
    dl_bad(E, s->span, DL_DIAG_misplaced_statement, "%s belongs into %s", what,
           place == DL_IN_MODEL ? "the model, not a module" : "a module");
    return false;
}

static bool is_new(dl_elab *E, const dl_ast *s) {
    const dl_var *v = dl_graph_find_var(E->b.graph, s->name);
    if (!v) return true;
    dl_bad(E, s->at, DL_DIAG_duplicate_definition, "'%s' is declared twice; first on line %d",
           s->name, v->loc.line);
    return false;
}

void dl_declare_input(dl_elab *E, const dl_ast *s, dl_var_role role) {
    dl_type type;
    dl_val v = dl_poison();
    if (!dl_only_in(E, s, DL_IN_MODEL, role == DL_VAR_INPUT ? "input" : "target")) return;
    if (dl_eval_type(E, s->a, true, &type) && is_new(E, s)) {
        dl_loc loc = dl_source_loc(E->source, s->at.begin);
        v = dl_val_tensor(&dl_graph_var(E->b.graph, role, s->name, type, (dl_init){0}, loc)->value,
                          s->at);
    }
    dl_scope_set(E, s->name, v);
}

static bool constant_init(dl_elab *E, const dl_ast *e, dl_init_rule *out) {
    const dl_ast *name = e->kind == DL_A_CALL ? e->a : e;
    if (name->kind == DL_A_NAME && dl_dist_find(name->name) &&
        !dl_scope_find(E->scope, name->name)) {
        dl_bad(E, e->span, DL_DIAG_bad_init, "a number must follow '=', and '%s' is a distribution",
               name->name);
        dl_help(E, "write ~ instead of =");
        return false;
    }
    dl_val v = dl_eval(E, e);
    if (v.kind == DL_V_POISON) return false;
    if (!dl_val_is_number(v)) {
        dl_bad(E, e->span, DL_DIAG_bad_init, "an initial value is a number, not %s",
               dl_val_describe(E, v));
        dl_help(E, "for random values write ~ and a distribution");
        return false;
    }
    out->dist = "constant", out->a = dl_val_number(v);
    return true;
}

/* A distribution: `normal(0, 0.02)`, `he_normal`, or with op '=' a number. */
static bool eval_dist(dl_elab *E, const dl_ast *e, bool constant, dl_init_rule *out) {
    if (constant) return constant_init(E, e, out);
    const dl_ast *name = e->kind == DL_A_CALL ? e->a : e;
    if (name->kind != DL_A_NAME) return dl_bad_dist(E, e, NULL);
    const dl_dist *d = dl_dist_find(name->name);
    if (!d) return dl_bad_dist(E, name, name->name);
    int n = e->kind == DL_A_CALL ? e->items.list.n : 0;
    if (n != d->arguments) {
        dl_bad(E, e->span, DL_DIAG_bad_init, "%s takes %d argument%s, not %d", d->name,
               d->arguments, d->arguments == 1 ? "" : "s", n);
        if (d->arguments == 2)
            dl_help(E, "%s(%s)", d->name,
                    d->kind == DL_INIT_UNIFORM ? "low, high" : "mean, deviation");
        return false;
    }
    double v[2] = {0};
    for (int i = 0; i < n; i++) {
        const dl_ast *arg = e->items.list.at[i];
        dl_val x = dl_eval(E, arg->a);
        if (x.kind == DL_V_POISON) return false;
        if (arg->name || !dl_val_is_number(x)) {
            dl_bad(E, arg->span, DL_DIAG_bad_init, "%s takes plain numbers", d->name);
            return false;
        }
        v[i] = dl_val_number(x);
    }
    bool normal = d->kind == DL_INIT_NORMAL || d->kind == DL_INIT_TRUNC_NORMAL;
    if (n == 2 && normal && v[1] < 0) {
        dl_bad(E, e->span, DL_DIAG_bad_init, "a standard deviation is not negative");
        return false;
    }
    if (n == 2 && !normal && v[1] < v[0]) {
        dl_bad(E, e->span, DL_DIAG_bad_init, "uniform(low, high) needs low <= high");
        return false;
    }
    out->dist = d->name, out->a = v[0], out->b = v[1];
    return true;
}

/* A variable of the model's own, trained or not, under the path of the module that it is in. */
static void declare_own(dl_elab *E, const dl_ast *s, dl_var_role role, dl_type type, dl_init init) {
    const char *name = s->items.list.n ? dl_label_text(E, s) : s->name;
    if (!name) return;
    if (!*name) {
        dl_bad(E, s->at, DL_DIAG_bad_label, "a %s needs a name",
               role == DL_VAR_PARAM ? "parameter" : "buffer");
        return;
    }
    if (E->step) {
        const char *path = dl_step_path(E, E->step);
        if (!path) return;
        name = dl_intern(dl_join_path(E, path, name));
        for (int i = 0; i < E->params.n; i++) {
            dl_param_info *info = &E->params.at[i];
            if (info->var->name != name || !dl_is_shared(info, E->step)) continue;
            dl_scope_set(E, s->name, dl_share_param(E, info, E->step, &type, s->at));
            return;
        }
        E->step->made++;
    }
    const dl_var *old = dl_graph_find_var(E->b.graph, name);
    if (old) {
        dl_bad(E, s->at, DL_DIAG_duplicate_definition, "'%s' is declared twice; first on line %d",
               name, old->loc.line);
        return;
    }
    dl_var *var =
        dl_graph_var(E->b.graph, role, name, type, init, dl_source_loc(E->source, s->at.begin));
    dl_push(E->arena, &E->params,
            (dl_param_info){.var = var, .role = s->name, .where = s->at, .step = E->step});
    dl_scope_set(E, s->name, dl_val_tensor(&var->value, s->at));
}

void dl_declare_parameter(dl_elab *E, const dl_ast *s) {
    dl_type type;
    dl_init_rule rule = {0};
    dl_init init = {0};
    dl_scope_set(E, s->name, dl_poison());
    bool good = dl_eval_type(E, s->a, true, &type);
    if (!s->b) {
        dl_bad(E, s->at, DL_DIAG_bad_init, "the parameter '%s' needs initial values", s->name);
        dl_help(E, "add ~ normal(0, 0.02), or = 0");
        return;
    }
    if (!eval_dist(E, s->b, s->op == T_ASSIGN, &rule) || !good) return;
    int64_t n = dl_type_count(&type), last = type.rank ? type.axis[0].size : 1;
    if (!dl_dist_init(E, &rule, last ? (double)(n / last) : 0, (double)last, &init)) return;
    declare_own(E, s, DL_VAR_PARAM, type, init);
}

void dl_declare_buffer(dl_elab *E, const dl_ast *s) {
    dl_type type;
    dl_scope_set(E, s->name, dl_poison());
    if (dl_eval_type(E, s->a, true, &type))
        declare_own(E, s, DL_VAR_STATE, type, (dl_init){.kind = DL_INIT_GIVEN});
}

void dl_declare_init(dl_elab *E, const dl_ast *s) {
    if (!dl_only_in(E, s, DL_IN_MODEL, "init")) return;
    for (int k = 0; k < s->items.list.n; k++) {
        const dl_ast *kind = s->items.list.at[k];
        const dl_builtin *f = dl_builtin_find(kind->name);
        if (!f || !f->makes) {
            dl_bad(E, kind->span, DL_DIAG_unknown_init_kind, "'%s' is no layer with parameters",
                   kind->name);
            const char *names[64];
            int n = 0;
            for (int i = 0; i < dl_builtin_count() && n < 64; i++)
                if (dl_builtin_at(i)->makes) names[n++] = dl_builtin_at(i)->name;
            const char *near = dl_suggest(kind->name, names, n);
            if (near) dl_help(E, "did you mean '%s'?", near);
            continue;
        }
        for (int i = 0; i < s->more.list.n; i++) {
            const dl_ast *set = s->more.list.at[i];
            dl_init_rule rule = {.layer = f->name, .role = set->name, .where = set->span};
            if (!dl_builtin_makes(f, set->name)) {
                dl_bad(E, set->at, DL_DIAG_bad_init, "'%s' has no '%s'", f->name, set->name);
                dl_help(E, "its parameters are: %s", f->makes);
                continue;
            }
            if (eval_dist(E, set->a, set->op == T_ASSIGN, &rule))
                dl_push(E->arena, &E->rules, rule);
        }
    }
}
