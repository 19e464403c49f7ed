/* Statements: results, control flow and assignment. */
#include "frontends/dl/elab.h"
#include "ir/base/tags.h"
#include "parser.h"

/* Results */

static bool want_tensor(dl_elab *E, const dl_ast *s, const char *what, dl_val v) {
    if (v.kind == DL_V_POISON) return false;
    if (v.kind == DL_V_TENSOR) return true;
    if (dl_refuse_layer(E, s->a->span, v)) return false;
    dl_bad(E, s->a->span, DL_DIAG_not_a_tensor, "%s must be a tensor, not %s", what,
           dl_val_describe(E, v));
    return false;
}

/* The target of that name; NULL after a report. */
static const dl_var *find_target(dl_elab *E, const dl_ast *name) {
    const dl_graph *g = E->b.graph;
    const dl_var *v = dl_graph_find_var(g, name->name);
    if (v && v->role == DL_VAR_TARGET) return v;
    if (dl_is_poisoned(E, name->name)) return NULL;
    dl_bad(E, name->span, DL_DIAG_bad_undo, "no target '%s' is declared above", name->name);
    const char **targets = DL_NEWS(E->arena, const char *, g->vars.n + 1);
    int n = 0;
    for (int i = 0; i < g->vars.n; i++)
        if (g->vars.at[i]->role == DL_VAR_TARGET) targets[n++] = g->vars.at[i]->name;
    const char *near = n == 1 ? targets[0] : dl_suggest(name->name, targets, n);
    if (near) dl_help(E, "did you mean '%s'?", near);
    return NULL;
}

/* "C=3"; "no axis" */
static const char *axis_text(dl_elab *E, const dl_type *t, int axis) {
    return axis < 0
               ? "no axis"
               : dl_format(E->arena, "%s=%lld", t->axis[axis].name, (long long)t->axis[axis].size);
}

/* The target whose normalisation undoes the output v, for dl_result; NULL: none is said, or after a
 * report. A target that is normalised by channel has an output of the same channels. */
static const char *find_undone(dl_elab *E, const dl_ast *said, const dl_value *v) {
    if (!said) return NULL;
    if (said->kind == DL_A_NONE) return DL_UNDO_NONE;
    const dl_var *target = find_target(E, said);
    if (!target) return NULL;
    const dl_type *of = &target->value.type, *t = &v->type;
    int from = dl_type_channel_axis(of), to = dl_type_channel_axis(t);
    if (!dl_dtype_is_float(of->dtype) || !dl_dtype_is_float(t->dtype)) {
        dl_bad(E, said->span, DL_DIAG_bad_undo,
               "only floats are normalised: the target '%s' is %s, the output %s", said->name,
               dl_type_text(of), dl_type_text(t));
    } else if (from >= 0 && (to < 0 || of->axis[from].name != t->axis[to].name ||
                             of->axis[from].size != t->axis[to].size)) {
        dl_bad(E, said->span, DL_DIAG_bad_undo,
               "the target '%s' is normalised along %s, and the output's channels are %s",
               said->name, axis_text(E, of, from), axis_text(E, t, to));
        dl_help(
            E,
            "the output is %s, the target %s; `undo none` leaves the output's numbers as they are",
            dl_type_text(t), dl_type_text(of));
    } else
        return target->name;
    return NULL;
}

static void exec_output(dl_elab *E, const dl_ast *s) {
    if (!dl_only_in(E, s, DL_IN_MODEL, "output")) return;
    E->has_output = true;
    dl_val v = dl_eval(E, s->a);
    if (!want_tensor(E, s, "an output", v)) return;
    const char *name = s->a->kind == DL_A_NAME ? s->a->name : dl_intern("output");
    if (dl_graph_find_result(E->b.graph, DL_RESULT_OUTPUT, name)) {
        dl_bad(E, s->span, DL_DIAG_duplicate_definition, "there is an output '%s' already", name);
        return;
    }
    const char *undo = find_undone(E, s->b, v.t);
    dl_graph_result(E->b.graph, DL_RESULT_OUTPUT, name, v.t, NULL)->undo = undo;
}

static bool result_is_new(dl_elab *E, const dl_ast *s, dl_result_role role, const char *name) {
    if (!dl_graph_find_result(E->b.graph, role, name)) return true;
    dl_bad(E, s->at, DL_DIAG_duplicate_definition, "there is a %s '%s' already",
           dl_result_roles[role], name);
    return false;
}

/* The name of a metric or figure, with the values of its braces inserted; NULL after a report. */
static const char *result_name(dl_elab *E, const dl_ast *s) {
    const char *name = s->name ? s->name : dl_parts_text(E, &s->items, "a name");
    if (!name) return NULL;
    bool shown = *name && strlen(name) <= 200;
    for (const char *c = name; shown && *c; c++) shown = (unsigned char)*c >= ' ' && *c != 0x7F;
    if (!shown) {
        dl_bad(E, s->at, DL_DIAG_bad_result_name,
               "a name has 1 to 200 bytes, and no control characters");
        return NULL;
    }
    const char *taken = dl_tag_find(name);
    if (!taken) return name;
    dl_bad(E, s->at, DL_DIAG_bad_result_name,
           "the name '%s' is taken: training writes its own '%s'", name, taken);
    dl_help(E, "give it another name, such as \"model %s\"", name);
    return NULL;
}

static void exec_metric(dl_elab *E, const dl_ast *s) {
    if (!dl_only_in(E, s, DL_IN_MODEL, "metric")) return;
    dl_val v = dl_eval(E, s->a);
    if (!want_tensor(E, s, "a metric", v) || !dl_want_scalar(E, s->a->span, "a metric", v)) return;
    const char *name = result_name(E, s);
    if (!name || !result_is_new(E, s, DL_RESULT_METRIC, name)) return;
    v = dl_tensor_cast(E, s->span, v, DL_F32);
    if (v.kind == DL_V_TENSOR) dl_graph_result(E->b.graph, DL_RESULT_METRIC, name, v.t, NULL);
}

static void exec_optimize(dl_elab *E, const dl_ast *s) {
    if (!dl_only_in(E, s, DL_IN_MODEL, "optimize")) return;
    dl_objective o = {.name = s->name, .where = s->at};
    for (int i = 0; i < s->items.list.n; i++) {
        const dl_ast *item = s->items.list.at[i];
        const char *text = dl_parts_text(E, &item->items, "a label");
        if (text) dl_push(E->arena, &o.labels, ((dl_set_label){.text = text, .where = item->span}));
    }
    if (!s->items.list.n)
        dl_push(E->arena, &o.labels, ((dl_set_label){.text = s->name, .where = s->at}));
    o.loss = dl_eval(E, s->a), o.loss.origin = s->a->span;
    dl_add_objective(E, &o);
}

static void exec_figure(dl_elab *E, const dl_ast *s) {
    if (!dl_only_in(E, s, DL_IN_MODEL, "figure")) return;
    dl_val v = dl_eval(E, s->a);
    if (v.kind == DL_V_POISON) return;
    dl_val_list one = {0};
    if (v.kind != DL_V_LIST) dl_push(E->arena, &one.items, v);
    const dl_val_list *panels = v.kind == DL_V_LIST ? v.list : &one;
    const char *stem = result_name(E, s);
    if (!stem) return;
    for (int i = 0; i < panels->items.n; i++) {
        dl_val p = panels->items.at[i];
        if (!want_tensor(E, s, "a figure's panel", p)) continue;
        if (p.t->type.rank != 2) {
            dl_bad(E, s->a->span, DL_DIAG_bad_figure, "a figure's panel has two axes, but %s",
                   dl_format(E->arena, "%s is %s",
                             panels->items.n > 1 ? dl_format(E->arena, "panel %d", i + 1) : "this",
                             dl_type_text(&p.t->type)));
            dl_help(E, "fix the other axes: x[N=0, C=2]");
            continue;
        }
        const char *name = v.kind == DL_V_LIST ? dl_format(E->arena, "%s/%d", stem, i) : stem;
        if (!result_is_new(E, s, DL_RESULT_FIGURE, name)) return;
        p = dl_tensor_cast(E, s->span, p, DL_F32);
        if (p.kind == DL_V_TENSOR) dl_graph_result(E->b.graph, DL_RESULT_FIGURE, name, p.t, NULL);
    }
}

/* Control */

static void exec(dl_elab *E, const dl_ast *s);

void dl_exec_list(dl_elab *E, const dl_ast_list *list) {
    for (int i = 0; i < list->list.n && !E->returned && !E->exhausted; i++)
        exec(E, list->list.at[i]);
}

static void exec_for(dl_elab *E, const dl_ast *s) {
    dl_val over = dl_eval(E, s->a);
    if (over.kind != DL_V_LIST) {
        if (over.kind != DL_V_POISON) {
            dl_bad(E, s->a->span, DL_DIAG_not_a_list, "`for` runs over a list, not %s",
                   dl_val_describe(E, over));
            if (over.kind == DL_V_INT) dl_help(E, "write range(%lld)", (long long)over.i);
        }
        /* One iteration with a poisoned variable, to find other faults in the body. */
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
        dl_bad(E, s->a->span, DL_DIAG_not_a_condition,
               "`if` is decided when compiling, but this is %s", dl_val_describe(E, v));
        if (v.kind == DL_V_TENSOR)
            dl_help(E, "choose element by element with where(condition, a, b)");
        return;
    }
    bool yes =
        v.kind == DL_V_LIST ? v.list->items.n != 0 : v.kind != DL_V_NONE && dl_val_number(v) != 0;
    dl_exec_list(E, yes ? &s->body : &s->more);
}

/* v was computed from the expression at `from`. */
static void assign(dl_elab *E, const char *name, dl_val v, dl_span from) {
    bool loss = E->place == DL_IN_MODEL && strcmp(name, "loss") == 0;
    if (loss) {
        v.origin = from;
        if (E->has_loss) dl_check_replaced_loss(E, dl_scope_find(E->scope, name), &v);
        E->has_loss = true;
    }
    dl_scope_set(E, name, v);
}

static void exec_assign(dl_elab *E, const dl_ast *s) {
    assign(E, s->name, dl_eval_named(E, s->a, s->name), s->a->span);
}

/* Each name gets an item of the list. */
static void exec_unpack(dl_elab *E, const dl_ast *s) {
    const int n = s->items.list.n;
    dl_val v = dl_eval(E, s->a);
    bool good = v.kind == DL_V_LIST && v.list->items.n == n;
    if (!good && v.kind != DL_V_POISON && !dl_refuse_layer(E, s->a->span, v))
        dl_bad(E, s->a->span, DL_DIAG_not_a_list, "%d names take a list of %d, not %s", n, n,
               dl_val_describe(E, v));
    for (int i = 0; i < n; i++)
        assign(E, s->items.list.at[i]->name, good ? v.list->items.at[i] : dl_poison(), s->a->span);
}

/* `h += [x]`: the result is a new list, so that values read before keep their length. */
static dl_val grow_list(dl_elab *E, const dl_ast *s, dl_val a, dl_val b) {
    dl_val grown = dl_val_new_list(E, s->span);
    if (b.kind == DL_V_POISON) return b;
    if (b.kind != DL_V_LIST) {
        dl_bad(E, s->a->span, DL_DIAG_bad_operand, "a list grows by a list, not by %s",
               dl_val_describe(E, b));
        dl_help(E, "put it in brackets: %s += [...]", s->name);
        return dl_poison();
    }
    const dl_val_list *parts[] = {a.list, b.list};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < parts[k]->items.n; i++)
            if (!dl_val_append(E, grown, parts[k]->items.at[i], s->span)) return dl_poison();
    return grown;
}

static void exec_augment(dl_elab *E, const dl_ast *s) {
    dl_ast left = {.kind = DL_A_NAME, .span = s->at, .at = s->at, .name = s->name};
    dl_ast sum = {
        .kind = DL_A_BINARY, .span = s->span, .at = s->at, .op = T_PLUS, .a = &left, .b = s->a};
    dl_val a = dl_eval(E, &left);
    dl_val v = a.kind == DL_V_LIST ? grow_list(E, s, a, dl_eval(E, s->a)) : dl_eval(E, &sum);
    dl_scope_set(E, s->name, v);
}

static void exec_return(dl_elab *E, const dl_ast *s) {
    if (!dl_only_in(E, s, DL_IN_MODULE, "return")) return;
    E->result = dl_eval(E, s->a);
    E->returned = true;
}

static void exec(dl_elab *E, const dl_ast *s) {
    switch (s->kind) {
    case DL_A_ASSIGN: exec_assign(E, s); break;
    case DL_A_UNPACK: exec_unpack(E, s); break;
    case DL_A_AUGMENT: exec_augment(E, s); break;
    case DL_A_FUNCTION: dl_push(E->arena, &E->scope->functions, s); break;
    case DL_A_INPUT: dl_declare_input(E, s, DL_VAR_INPUT); break;
    case DL_A_TARGET: dl_declare_input(E, s, DL_VAR_TARGET); break;
    case DL_A_PARAMETER: dl_declare_parameter(E, s); break;
    case DL_A_BUFFER: dl_declare_buffer(E, s); break;
    case DL_A_INIT: dl_declare_init(E, s); break;
    case DL_A_OUTPUT: exec_output(E, s); break;
    case DL_A_OPTIMIZE: exec_optimize(E, s); break;
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
            dl_bad(E, s->at, DL_DIAG_misplaced_statement,
                   "modules and models are declared at the left margin");
        break;
    default: break;
    }
}
