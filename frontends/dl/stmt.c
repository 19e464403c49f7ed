/* Statements, and one run of a model into a graph. */
#include "frontends/dl/elab.h"
#include "ir/walk.h"
#include "parser.h"

static const char *const dtypes[] = {
#define X(id, text, bytes) text,
    DL_DTYPES(X)
#undef X
};

/* Types */

/* The size of an axis that its declaration leaves open; false: reported. */
static bool open_size(dl_elab *E, const dl_ast *arg, const char *name, int64_t *size) {
    const dl_size_binding *s = dl_scope_size(E->scope, name);
    if (s && s->sizes_differ) return dl_eval(E, arg->a).kind == DL_V_INT; /* reports the ambiguity */
    if (s) return *size = s->size, true;
    for (int i = 0; i < E->config->nsizes; i++)
        if (strcmp(E->config->sizes[i].axis, name) == 0) return *size = E->config->sizes[i].size, true;
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
    const char *name = arg->name ? arg->name : arg->a->kind == DL_A_NAME ? arg->a->name : dl_intern("");
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
        if (!dl_val_count(E, dl_eval(E, arg->a), 0, *name ? dl_format(E->arena, "the size of %s", name) : "a size", &size))
            return false;
        if (!*name && size != 1) {
            dl_bad(E, arg->span, DL_DIAG_unnamed_axis, "an axis of size %lld needs a name", (long long)size);
            dl_help(E, "write C=%lld, with the axis' name for C; only axes of size 1 may do without", (long long)size);
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
    if (type->name && !dl_dtype_parse(type->name, &d)) {
        dl_bad(E, type->at, DL_DIAG_type_mismatch, "'%s' is no element type", type->name);
        const char *near = dl_suggest(type->name, dtypes, DL_NDTYPES);
        dl_help(E, "%s%s%s", near ? "did you mean '" : "the types are f32, f64, f16, bf16, i32, i64 and bool",
                near ? near : "", near ? "'?" : "");
        return false;
    }
    *out = dl_scalar(d);
    bool good = true;
    for (int i = 0; i < type->items.list.n; i++)
        if (!eval_axis(E, type->items.list.at[i], declares, out)) {
            good = false;
            /* The name is known, its size is not: poison, so that its uses are silent. */
            const dl_ast *arg = type->items.list.at[i];
            const char *name = arg->name ? arg->name : arg->a->kind == DL_A_NAME ? arg->a->name : NULL;
            if (declares && name && !dl_scope_size(E->scope, name)) dl_push(E->arena, &E->poisoned, name);
        }
    return good && dl_check_count(E, type->span, out);
}

/* Declarations */

static bool only_in(dl_elab *E, const dl_ast *s, dl_place place, const char *what) {
    if (E->place == place) return true;
    dl_bad(E, s->span, DL_DIAG_misplaced_statement, "%s belongs into %s", what,
           place == DL_IN_MODEL ? "the model, not a module" : "a module");
    return false;
}

static bool is_new(dl_elab *E, const dl_ast *s) {
    const dl_var *v = dl_graph_find_var(E->b.graph, s->name);
    if (!v) return true;
    dl_bad(E, s->at, DL_DIAG_duplicate_definition, "'%s' is declared twice; first on line %d", s->name, v->loc.line);
    return false;
}

static void exec_input(dl_elab *E, const dl_ast *s, dl_var_role role) {
    dl_type type;
    dl_val v = dl_poison();
    if (!only_in(E, s, DL_IN_MODEL, role == DL_VAR_INPUT ? "input" : "target")) return;
    if (dl_eval_type(E, s->a, true, &type) && is_new(E, s)) {
        dl_loc loc = dl_source_loc(E->source, s->at.begin);
        v = dl_val_tensor(&dl_graph_var(E->b.graph, role, s->name, type, (dl_init){0}, loc)->value, s->at);
    }
    dl_scope_set(E, s->name, v);
}

static void exec_parameter(dl_elab *E, const dl_ast *s) {
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
    if (!dl_eval_dist(E, s->b, s->op == T_ASSIGN, &rule) || !good) return;
    int64_t n = dl_type_count(&type), last = type.rank ? type.axis[0].size : 1;
    if (!dl_dist_init(E, &rule, last ? (double)(n / last) : 0, (double)last, &init)) return;
    const char *name = s->name;
    if (E->step) {
        const char *path = dl_step_path(E, E->step);
        if (!path) return;
        name = dl_intern(dl_format(E->arena, "%s.%s", path, s->name));
        E->step->made++;
    }
    const dl_var *old = dl_graph_find_var(E->b.graph, name);
    if (old) {
        dl_bad(E, s->at, DL_DIAG_duplicate_definition, "'%s' is declared twice; first on line %d", name, old->loc.line);
        return;
    }
    dl_var *var = dl_graph_var(E->b.graph, DL_VAR_PARAM, name, type, init, dl_source_loc(E->source, s->at.begin));
    dl_push(E->arena, &E->params, (dl_param_info){.var = var, .where = s->at});
    dl_scope_set(E, s->name, dl_val_tensor(&var->value, s->at));
}

static void exec_init(dl_elab *E, const dl_ast *s) {
    if (!only_in(E, s, DL_IN_MODEL, "init")) return;
    for (int k = 0; k < s->items.list.n; k++) {
        const dl_ast *kind = s->items.list.at[k];
        const dl_builtin *f = dl_builtin_find(kind->name);
        if (!f || !f->makes) {
            dl_bad(E, kind->span, DL_DIAG_unknown_init_kind, "'%s' is no layer with parameters", kind->name);
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
            if (strcmp(set->name, "weight") != 0 && strcmp(set->name, "bias") != 0) {
                dl_bad(E, set->at, DL_DIAG_bad_init, "'%s' has no '%s'", f->name, set->name);
                dl_help(E, "its parameters are: %s", f->makes);
                continue;
            }
            if (dl_eval_dist(E, set->a, set->op == T_ASSIGN, &rule)) dl_push(E->arena, &E->rules, rule);
        }
    }
}

/* Results */

static bool want_tensor(dl_elab *E, const dl_ast *s, const char *what, dl_val v) {
    if (v.kind == DL_V_POISON) return false;
    if (v.kind == DL_V_TENSOR) return true;
    dl_bad(E, s->a->span, DL_DIAG_not_a_tensor, "%s must be a tensor, not %s", what, dl_val_describe(E, v));
    return false;
}

static bool want_scalar(dl_elab *E, dl_span where, const char *what, dl_val v) {
    if (v.t->type.rank == 0) return true;
    dl_bad(E, where, DL_DIAG_not_scalar, "%s must be one number, but it is %s", what, dl_type_text(&v.t->type));
    dl_help(E, "reduce it: mean(...)");
    return false;
}

static void exec_output(dl_elab *E, const dl_ast *s) {
    if (!only_in(E, s, DL_IN_MODEL, "output")) return;
    E->has_output = true;
    dl_val v = dl_eval(E, s->a);
    if (!want_tensor(E, s, "an output", v)) return;
    const char *name = s->a->kind == DL_A_NAME ? s->a->name : dl_intern("output");
    if (dl_graph_find_result(E->b.graph, DL_RESULT_OUTPUT, name))
        dl_bad(E, s->span, DL_DIAG_duplicate_definition, "there is an output '%s' already", name);
    else
        dl_graph_result(E->b.graph, DL_RESULT_OUTPUT, name, v.t, NULL);
}

static bool result_is_new(dl_elab *E, const dl_ast *s, dl_result_role role, const char *name) {
    if (!dl_graph_find_result(E->b.graph, role, name)) return true;
    dl_bad(E, s->at, DL_DIAG_duplicate_definition, "there is a %s '%s' already", dl_result_roles[role], s->name);
    return false;
}

static void exec_metric(dl_elab *E, const dl_ast *s) {
    if (!only_in(E, s, DL_IN_MODEL, "metric")) return;
    dl_val v = dl_eval(E, s->a);
    if (!want_tensor(E, s, "a metric", v) || !want_scalar(E, s->a->span, "a metric", v)) return;
    if (!result_is_new(E, s, DL_RESULT_METRIC, s->name)) return;
    v = dl_tensor_cast(E, s->span, v, DL_F32);
    if (v.kind == DL_V_TENSOR) dl_graph_result(E->b.graph, DL_RESULT_METRIC, s->name, v.t, NULL);
}

static void exec_figure(dl_elab *E, const dl_ast *s) {
    if (!only_in(E, s, DL_IN_MODEL, "figure")) return;
    dl_val v = dl_eval(E, s->a);
    if (v.kind == DL_V_POISON) return;
    dl_val_list one = {0};
    if (v.kind != DL_V_LIST) dl_push(E->arena, &one.items, v);
    const dl_val_list *panels = v.kind == DL_V_LIST ? v.list : &one;
    for (int i = 0; i < panels->items.n; i++) {
        dl_val p = panels->items.at[i];
        if (!want_tensor(E, s, "a figure's panel", p)) continue;
        if (p.t->type.rank != 2) {
            dl_bad(E, s->a->span, DL_DIAG_bad_figure, "a figure's panel has two axes, but %s",
                   dl_format(E->arena, "%s is %s", panels->items.n > 1 ? dl_format(E->arena, "panel %d", i + 1) : "this",
                             dl_type_text(&p.t->type)));
            dl_help(E, "fix the other axes: x[N=0, C=2]");
            continue;
        }
        const char *name = v.kind == DL_V_LIST ? dl_format(E->arena, "%s/%d", s->name, i) : s->name;
        if (!result_is_new(E, s, DL_RESULT_FIGURE, name)) return;
        p = dl_tensor_cast(E, s->span, p, DL_F32);
        if (p.kind == DL_V_TENSOR) dl_graph_result(E->b.graph, DL_RESULT_FIGURE, name, p.t, NULL);
    }
}

/* Control */

static void exec(dl_elab *E, const dl_ast *s);

void dl_exec_list(dl_elab *E, const dl_ast_list *list) {
    for (int i = 0; i < list->list.n && !E->returned && !E->exhausted; i++) exec(E, list->list.at[i]);
}

static void exec_for(dl_elab *E, const dl_ast *s) {
    dl_val over = dl_eval(E, s->a);
    if (over.kind != DL_V_LIST) {
        if (over.kind != DL_V_POISON) {
            dl_bad(E, s->a->span, DL_DIAG_not_a_list, "`for` runs over a list, not %s", dl_val_describe(E, over));
            if (over.kind == DL_V_INT) dl_help(E, "write range(%lld)", (long long)over.i);
        }
        /* Once with a poisoned variable, to find what else is wrong in the body. */
        dl_scope_set(E, s->name, dl_poison());
        dl_exec_list(E, &s->body);
        return;
    }
    for (int i = 0; i < over.list->items.n && !E->returned && dl_spend(E, s->span, 1); i++) {
        dl_scope_set(E, s->name, over.list->items.at[i]);
        dl_exec_list(E, &s->body);
    }
}

static void exec_if(dl_elab *E, const dl_ast *s) {
    dl_val v = dl_eval(E, s->a);
    if (v.kind == DL_V_POISON) return;
    if (v.kind == DL_V_TENSOR || v.kind == DL_V_STR) {
        dl_bad(E, s->a->span, DL_DIAG_not_a_condition, "`if` is decided when compiling, but this is %s",
               dl_val_describe(E, v));
        if (v.kind == DL_V_TENSOR) dl_help(E, "choose element by element with where(condition, a, b)");
        return;
    }
    bool yes = v.kind == DL_V_LIST ? v.list->items.n != 0 : v.kind != DL_V_NONE && dl_val_number(v) != 0;
    dl_exec_list(E, yes ? &s->body : &s->more);
}

static void exec_assign(dl_elab *E, const dl_ast *s) {
    dl_val v = dl_eval_named(E, s->a, s->name);
    bool loss = E->place == DL_IN_MODEL && strcmp(s->name, "loss") == 0;
    if (loss) E->has_loss = true, v.origin = s->a->span;
    dl_scope_set(E, s->name, v);
}

/* `h += [x]`: the grown list is a new one, so that what was read before keeps its length. */
static dl_val grow_list(dl_elab *E, const dl_ast *s, dl_val a, dl_val b) {
    dl_val grown = dl_val_new_list(E, s->span);
    if (b.kind == DL_V_POISON) return b;
    if (b.kind != DL_V_LIST) {
        dl_bad(E, s->a->span, DL_DIAG_bad_operand, "a list grows by a list, not by %s", dl_val_describe(E, b));
        dl_help(E, "put it in brackets: %s += [...]", s->name);
        return dl_poison();
    }
    const dl_val_list *parts[] = {a.list, b.list};
    dl_spend(E, s->span, (a.list->items.n + b.list->items.n) / 8);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < parts[k]->items.n; i++)
            if (!dl_val_append(E, grown, parts[k]->items.at[i], s->span)) return dl_poison();
    return grown;
}

static void exec_augment(dl_elab *E, const dl_ast *s) {
    dl_ast left = {.kind = DL_A_NAME, .span = s->at, .at = s->at, .name = s->name};
    dl_ast sum = {.kind = DL_A_BINARY, .span = s->span, .at = s->at, .op = T_PLUS, .a = &left, .b = s->a};
    dl_val a = dl_eval(E, &left);
    dl_val v = a.kind == DL_V_LIST ? grow_list(E, s, a, dl_eval(E, s->a)) : dl_eval(E, &sum);
    dl_scope_set(E, s->name, v);
}

static void exec_return(dl_elab *E, const dl_ast *s) {
    if (!only_in(E, s, DL_IN_MODULE, "return")) return;
    E->result = dl_eval(E, s->a);
    E->returned = true;
}

static void exec(dl_elab *E, const dl_ast *s) {
    switch (s->kind) {
    case DL_A_ASSIGN: exec_assign(E, s); break;
    case DL_A_AUGMENT: exec_augment(E, s); break;
    case DL_A_FUNCTION: dl_push(E->arena, &E->scope->functions, s); break;
    case DL_A_INPUT: exec_input(E, s, DL_VAR_INPUT); break;
    case DL_A_TARGET: exec_input(E, s, DL_VAR_TARGET); break;
    case DL_A_PARAMETER: exec_parameter(E, s); break;
    case DL_A_INIT: exec_init(E, s); break;
    case DL_A_OUTPUT: exec_output(E, s); break;
    case DL_A_METRIC: exec_metric(E, s); break;
    case DL_A_FIGURE: exec_figure(E, s); break;
    case DL_A_RETURN: exec_return(E, s); break;
    case DL_A_FOR: exec_for(E, s); break;
    case DL_A_IF: exec_if(E, s); break;
    case DL_A_EXPR: {
        dl_val v = dl_eval(E, s->a);
        if (v.kind == DL_V_POISON) break;
        dl_bad(E, s->span, DL_DIAG_unused_value, "this value is computed and not used");
        dl_help(E, "assign it to a name");
        break;
    }
    case DL_A_MODULE:
    case DL_A_MODEL:
        if (E->place != DL_IN_FILE)
            dl_bad(E, s->at, DL_DIAG_misplaced_statement, "modules and models are declared at the left margin");
        break;
    default: break;
    }
}

/* A run */

static void poison_names(dl_elab *E, const dl_ast_list *list) {
    for (int i = 0; i < list->list.n; i++) {
        const dl_ast *s = list->list.at[i];
        if (s->kind == DL_A_BAD) {
            E->syntax_faults = true;
            for (int k = 0; k < s->items.list.n; k++) dl_push(E->arena, &E->poisoned, s->items.list.at[k]->name);
        }
        poison_names(E, &s->body);
        if (s->kind == DL_A_IF) poison_names(E, &s->more);
    }
}

static void finish(dl_elab *E) {
    const dl_ast *m = E->model;
    const dl_val *loss = dl_scope_find(E->scope, dl_intern("loss"));
    if (E->has_loss && loss && loss->kind != DL_V_POISON) {
        if (loss->kind != DL_V_TENSOR)
            dl_bad(E, loss->origin, DL_DIAG_not_a_tensor, "the loss must depend on the model's output, but it is %s",
                   dl_val_describe(E, *loss));
        else if (want_scalar(E, loss->origin, "the loss", *loss)) {
            dl_val v = dl_tensor_cast(E, loss->origin, *loss, DL_F32);
            if (v.kind == DL_V_TENSOR) dl_graph_result(E->b.graph, DL_RESULT_LOSS, "loss", v.t, NULL);
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
    if (!E->has_loss) {
        dl_bad(E, m->at, DL_DIAG_no_loss, "the model '%s' has no loss", m->name);
        dl_help(E, "say what training minimises: loss = mean(abs(y - t))");
    }
}

/* Declared and never read. */
static void warn_unused(dl_elab *E) {
    const dl_graph *g = E->b.graph;
    bool *used = DL_NEWS(E->arena, bool, g->next_id + 1);
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.at[i]->nin; k++) used[g->nodes.at[i]->in[k]->id] = true;
    for (int i = 0; i < g->results.n; i++) used[g->results.at[i].value->id] = true;
    for (int i = 0; i < E->model->body.list.n; i++) {
        const dl_ast *s = E->model->body.list.at[i];
        if (s->kind != DL_A_INPUT && s->kind != DL_A_TARGET && s->kind != DL_A_PARAMETER) continue;
        const dl_var *v = dl_graph_find_var(g, s->name);
        if (v && !used[v->value.id])
            dl_bad(E, s->at, DL_DIAG_unused_declaration, "%s '%s' is never used", dl_var_roles[v->role], s->name);
    }
}

static dl_val setting_value(dl_elab *E, dl_span where, const dl_setting *s) {
    switch (s->kind) {
    case DL_SET_NONE: return (dl_val){.kind = DL_V_NONE, .origin = where};
    case DL_SET_BOOL: return dl_val_bool(s->b, where);
    case DL_SET_INT: return dl_val_int(s->i, where);
    case DL_SET_FLOAT: return dl_val_float(s->f, where);
    case DL_SET_STRING: return dl_val_str(dl_intern(s->s), where);
    case DL_SET_LIST: break;
    }
    dl_val list = dl_val_new_list(E, where);
    for (int i = 0; i < s->list.n; i++)
        if (!dl_val_append(E, list, setting_value(E, where, &s->list.items[i]), where)) break;
    return list;
}

/* A configuration's value must be of the default's kind; whole numbers serve as numbers. */
static bool fits(dl_val otherwise, dl_val given) {
    return otherwise.kind == DL_V_POISON || otherwise.kind == DL_V_NONE || otherwise.kind == given.kind ||
           given.kind == DL_V_NONE || (otherwise.kind == DL_V_FLOAT && given.kind == DL_V_INT);
}

static void bind_arguments(dl_elab *E) {
    for (int i = 0; i < E->model->items.list.n; i++) {
        const dl_ast *p = E->model->items.list.at[i];
        dl_val v = p->a ? dl_eval(E, p->a) : dl_poison();
        const dl_setting *s = NULL;
        for (int k = 0; k < E->config->narguments; k++)
            if (strcmp(E->config->arguments[k].name, p->name) == 0) s = &E->config->arguments[k].value;
        if (s) {
            dl_val given = setting_value(E, p->span, s);
            if (!fits(v, given)) {
                dl_bad(E, p->span, DL_DIAG_bad_setting, "the configuration gives '%s' as %s, but its default is %s",
                       p->name, dl_val_describe(E, given), dl_val_describe(E, v));
                v = dl_poison();
            } else
                v = given;
        } else if (!p->a && !E->assumed) {
            dl_bad(E, p->span, DL_DIAG_missing_setting, "the argument '%s' has no default, and the configuration does not give it",
                   p->name);
            dl_help(E, "add `%s:` to the configuration, or a default: %s=...", p->name, p->name);
        }
        dl_scope_set(E, p->name, v);
    }
}

static void check_batch(dl_elab *E) {
    const dl_size_binding *n = dl_scope_size(E->scope, dl_intern("N"));
    for (int i = 0; n && i < E->config->nsizes; i++)
        if (strcmp(E->config->sizes[i].axis, "N") == 0 && E->config->sizes[i].size != n->size && n->size >= 0) {
            dl_bad(E, n->where, DL_DIAG_bad_setting, "the model fixes the batch N=%lld, but the configuration asks for %lld",
                   (long long)n->size, (long long)E->config->sizes[i].size);
            dl_help(E, "leave it open: write N");
        }
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
    warn_unused(E);
    /* A term with weight zero leaves its operands behind. */
    dl_graph_sweep(g);
}
