/* Expressions. Numbers, strings and lists are computed; tensors go on to tensor.c. */
#include "frontends/dl/elab.h"
#include "frontends/dl/hints.h"
#include "parser.h"

enum { MAX_DEPTH = 600 };

/* Do names of parameters begin with it? */
static bool is_label(const dl_elab *E, const char *name) {
    size_t n = strlen(name);
    for (int i = 0; i < E->params.n; i++) {
        const char *path = E->params.at[i].var->name;
        if (strncmp(path, name, n) == 0 && path[n] == '.') return true;
    }
    return false;
}

static dl_val eval_name(dl_elab *E, const dl_ast *e) {
    const dl_val *v = dl_scope_find(E->scope, e->name);
    if (v) {
        dl_val r = *v;
        /* A fault in a number is shown where it is used; a tensor's or layer's origin is where it was made.
         */
        if (r.kind != DL_V_TENSOR && r.kind != DL_V_LAYER) r.origin = e->span;
        r.name = e->name;
        return r;
    }
    const dl_size_binding *s = dl_scope_size(E->scope, e->name);
    if (s && s->sizes_differ) {
        dl_bad(E, e->span, DL_DIAG_ambiguous_size,
               "the axis %s has size %lld in one place and %lld in another", e->name, (long long)s->size,
               (long long)s->other);
        dl_note(E, s->where, "%s=%lld here", e->name, (long long)s->size);
        dl_note(E, s->where_other, "%s=%lld here", e->name, (long long)s->other);
        dl_help(E, "say which tensor's: x.%s", e->name);
        return dl_poison();
    }
    if (s) return s->size < 0 ? dl_poison() : dl_val_size(e->name, s->size, e->span);
    if (dl_is_poisoned(E, e->name)) return dl_poison();
    dl_bad(E, e->span, DL_DIAG_unknown_name, "'%s' is not defined", e->name);
    const char *near = dl_scope_nearest(E, e->name);
    const char *hint = dl_hint_find(DL_HINT_NAME, e->name, strlen(e->name));
    if (!hint) hint = dl_hint_find(DL_HINT_WORD, e->name, strlen(e->name)); /* `break` alone on its line */
    if (hint)
        dl_help(E, "%s", hint);
    else if (dl_is_callable(E, e->name))
        dl_help(E, "'%s' is a layer or function: write x |> %s or %s(x)", e->name, e->name, e->name);
    else if (is_label(E, e->name))
        dl_help(E,
                "@%s only names parameters; a layer that is bound is a value: %s = linear(8), then x |> %s "
                "and %s.weight",
                e->name, e->name, e->name, e->name);
    else if (near)
        dl_help(E, "did you mean '%s'?", near);
    /* One report for one missing name: further uses are silent. */
    dl_push(E->arena, &E->poisoned, e->name);
    return dl_poison();
}

static dl_val eval_list(dl_elab *E, const dl_ast *e) {
    dl_val list = dl_val_new_list(E, e->span);
    for (int i = 0; i < e->items.list.n; i++) {
        const dl_ast *item = e->items.list.at[i];
        if (item->name) return dl_bad(E, item->span, DL_DIAG_syntax, "a list has no named elements");
        if (!dl_val_append(E, list, dl_eval(E, item->a), item->span)) return dl_poison();
    }
    return list;
}

static bool decide(dl_elab *E, const dl_ast *e, bool *yes) {
    dl_val v = dl_eval(E, e);
    if (v.kind == DL_V_POISON) return false;
    if (dl_val_is_number(v)) return *yes = dl_val_number(v) != 0, true;
    if (v.kind == DL_V_NONE) return *yes = false, true;
    if (v.kind == DL_V_LIST) return *yes = v.list->items.n != 0, true;
    dl_bad(E, e->span, DL_DIAG_not_a_condition, "a condition is decided when compiling, but this is %s",
           dl_val_describe(E, v));
    if (v.kind == DL_V_TENSOR) dl_help(E, "choose element by element with where(condition, a, b)");
    return false;
}

static dl_val eval_comprehension(dl_elab *E, const dl_ast *e) {
    dl_val from = dl_eval(E, e->b), list = dl_val_new_list(E, e->span);
    if (from.kind == DL_V_POISON) return from;
    if (from.kind != DL_V_LIST)
        return dl_bad(E, e->b->span, DL_DIAG_not_a_list, "this runs over a list, not %s",
                      dl_val_describe(E, from));
    dl_scope *outer = E->scope;
    E->scope = dl_scope_new(E, outer);
    bool good = true;
    for (int i = 0; i < from.list->items.n && good; i++) {
        bool take = true;
        dl_scope_set(E, e->name, from.list->items.at[i]);
        good = dl_spend(E, e->span, 1) && (!e->c || decide(E, e->c, &take));
        if (good && take) good = dl_val_append(E, list, dl_eval(E, e->a), e->span);
    }
    E->scope = outer;
    return good ? list : dl_poison();
}

/* `and` and `or` look at the right side only when they must. */
static dl_val eval_logic(dl_elab *E, const dl_ast *e) {
    dl_val a = dl_eval(E, e->a);
    if (a.kind == DL_V_POISON) return a;
    if (a.kind == DL_V_TENSOR) {
        dl_val b = dl_eval(E, e->b);
        return b.kind == DL_V_POISON ? b : dl_tensor_binary(E, e, a, b);
    }
    if (!dl_val_is_number(a))
        return dl_bad(E, e->a->span, DL_DIAG_not_a_condition, "'%s' needs true or false, not %s",
                      e->op == T_AND ? "and" : "or", dl_val_describe(E, a));
    bool yes = dl_val_number(a) != 0;
    if (yes == (e->op == T_OR)) return dl_val_bool(yes, e->span);
    if (!decide(E, e->b, &yes)) return dl_poison();
    return dl_val_bool(yes, e->span);
}

static dl_val eval_binary(dl_elab *E, const dl_ast *e) {
    if (e->op == T_AND || e->op == T_OR) return eval_logic(E, e);
    dl_val a = dl_eval(E, e->a), b = dl_eval(E, e->b);
    if (a.kind == DL_V_POISON || b.kind == DL_V_POISON) return dl_poison();
    if (a.kind == DL_V_TENSOR || b.kind == DL_V_TENSOR) return dl_tensor_binary(E, e, a, b);
    return dl_fold_binary(E, e, a, b);
}

static dl_val eval_unary(dl_elab *E, const dl_ast *e) {
    dl_val a = dl_eval(E, e->a);
    if (a.kind == DL_V_POISON) return a;
    if (a.kind == DL_V_TENSOR) return dl_tensor_unary(E, e, a);
    if (e->op == T_NOT) {
        bool yes;
        return decide(E, e->a, &yes) ? dl_val_bool(!yes, e->span) : dl_poison();
    }
    return dl_fold_unary(E, e, a);
}

static bool list_position(dl_elab *E, const dl_ast *e, int n, int64_t *at) {
    dl_val v = dl_eval(E, e);
    if (v.kind == DL_V_POISON) return false;
    if (v.kind != DL_V_INT) {
        dl_bad(E, e->span, DL_DIAG_bad_operand, "a list is indexed by a whole number, not %s",
               dl_val_describe(E, v));
        return false;
    }
    *at = v.i < 0 ? v.i + n : v.i;
    return true;
}

static dl_val index_list(dl_elab *E, const dl_ast *e, dl_val list) {
    int n = list.list->items.n;
    const dl_ast *arg = e->items.list.at[0];
    if (e->items.list.n != 1 || arg->name)
        return dl_bad(E, e->span, DL_DIAG_bad_operand, "a list takes one index, without an axis name");
    if (arg->a->kind == DL_A_SLICE) {
        int64_t from = 0, to = n;
        if (arg->a->a && !list_position(E, arg->a->a, n, &from)) return dl_poison();
        if (arg->a->b && !list_position(E, arg->a->b, n, &to)) return dl_poison();
        int64_t step;
        if (!dl_slice_step(E, arg->a, &step)) return dl_poison();
        dl_val r = dl_val_new_list(E, e->span);
        for (int64_t i = from < 0 ? 0 : from; i < to && i < n; i += step) {
            dl_val_append(E, r, list.list->items.at[i], e->span);
            if (step > n) break;
        }
        return r;
    }
    int64_t at;
    if (!list_position(E, arg->a, n, &at)) return dl_poison();
    if (at < 0 || at >= n) {
        dl_bad(E, arg->span, DL_DIAG_index_range, "index %lld is outside %s of %d element%s",
               (long long)(at < 0 ? at - n : at), dl_val_words(E, list, "a list"), n, n == 1 ? "" : "s");
        dl_help(E, n ? "the first is [0], the last [-1]" : "the list is empty");
        return dl_poison();
    }
    dl_val v = list.list->items.at[at];
    v.name = NULL;
    if (v.kind != DL_V_TENSOR) v.origin = e->span;
    return v;
}

static dl_val eval_index(dl_elab *E, const dl_ast *e) {
    if (e->a->kind == DL_A_LABEL) {
        dl_bad(E, e->at, DL_DIAG_bad_label, "a label takes its numbers in braces");
        dl_help(
            E,
            "@blocks.{i}; of a layer's result take parts behind parentheses: (x |> conv(8, 3) @name)[C=0]");
        return dl_poison();
    }
    dl_val x = dl_eval(E, e->a);
    if (x.kind == DL_V_POISON) return x;
    if (x.kind == DL_V_TENSOR) return dl_tensor_index(E, e, x);
    if (x.kind == DL_V_LIST) return index_list(E, e, x);
    if (dl_refuse_layer(E, e->at, x)) return dl_poison();
    return dl_bad(E, e->at, DL_DIAG_bad_operand, "lists and tensors can be indexed, not %s",
                  dl_val_describe(E, x));
}

/* conv.weight: every weight of that kind of layer made so far. */
static dl_val layer_parameters(dl_elab *E, const dl_ast *e, const dl_builtin *f) {
    if (!f->makes || !strstr(f->makes, e->name)) {
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

/* enc.weight of a bound layer: its parameter; of a bound module: all weights made in it so far. */
static dl_val bound_parameters(dl_elab *E, const dl_ast *e, dl_val layer) {
    const char *path = dl_step_path(E, layer.layer->step);
    size_t n = strlen(path);
    dl_val list = dl_val_new_list(E, e->span);
    for (int i = 0; i < E->params.n; i++) {
        const dl_param_info *p = &E->params.at[i];
        if (strncmp(p->var->name, path, n) != 0 || p->var->name[n] != '.' || p->role != e->name) continue;
        dl_val v = dl_val_tensor(&p->var->value, p->where);
        if (!layer.layer->module) return v;
        dl_val_append(E, list, v, e->span);
    }
    const dl_builtin *f = layer.layer->module ? NULL : layer.layer->call->what;
    if (list.list->items.n) return list;
    dl_bad(E, e->at, DL_DIAG_unknown_attribute, "%s has no '%s'%s", dl_val_words(E, layer, "this layer"),
           e->name, layer.layer->applied ? "" : " before it is applied");
    if (f) dl_help(E, "its parameters are: %s", f->makes);
    return dl_poison();
}

static dl_val eval_attribute(dl_elab *E, const dl_ast *e) {
    if (e->a->kind == DL_A_NAME && !dl_scope_find(E->scope, e->a->name)) {
        const dl_builtin *f = dl_builtin_find(e->a->name);
        if (f) return layer_parameters(E, e, f);
    }
    dl_val x = dl_eval(E, e->a);
    if (x.kind == DL_V_POISON) return x;
    if (x.kind == DL_V_LAYER) return bound_parameters(E, e, x);
    if (x.kind != DL_V_TENSOR)
        return dl_bad(E, e->at, DL_DIAG_unknown_attribute, "%s has no '%s'", dl_val_describe(E, x), e->name);
    int at = dl_type_axis(&x.t->type, e->name);
    if (at >= 0) return dl_val_size(e->name, x.t->type.axis[at].size, e->span);
    const char *hint = dl_hint_find(DL_HINT_ATTRIBUTE, e->name, strlen(e->name));
    dl_bad(E, e->at, DL_DIAG_unknown_attribute, "%s has no axis %s", dl_val_describe(E, x), e->name);
    dl_help(E, "%s", hint ? hint : "x.C is the size of axis C of x");
    return dl_poison();
}

static dl_val eval_pipe(dl_elab *E, const dl_ast *e, dl_pipeline *pipeline, const dl_ast *as) {
    dl_val x;
    if (e->a->kind == DL_A_PIPE)
        x = eval_pipe(E, e->a, pipeline, NULL);
    else if (e->a->kind == DL_A_CALL || e->a->kind == DL_A_LABEL)
        x = dl_apply(E, e->a, NULL, pipeline, NULL);
    else
        x = dl_eval(E, e->a);
    return dl_apply(E, e->b, &x, pipeline, as);
}

static dl_val eval_as(dl_elab *E, const dl_ast *e, dl_pipeline *pipeline) {
    /* rearrange makes the new axes itself and needs their names. */
    dl_val x = e->a->kind == DL_A_PIPE   ? eval_pipe(E, e->a, pipeline, e)
               : e->a->kind == DL_A_CALL ? dl_apply(E, e->a, NULL, pipeline, e)
                                         : dl_eval(E, e->a);
    if (x.kind == DL_V_POISON) return x;
    if (x.kind == DL_V_LIST) return dl_tensor_literal(E, e, x);
    if (dl_refuse_layer(E, e->at, x)) return dl_poison();
    if (x.kind != DL_V_TENSOR)
        return dl_bad(E, e->at, DL_DIAG_not_a_tensor, "`as` names the axes of a tensor, not of %s",
                      dl_val_describe(E, x));
    return dl_tensor_as(E, e, x);
}

static dl_val eval_cast(dl_elab *E, const dl_ast *e, dl_pipeline *pipeline) {
    dl_val x = e->a->kind == DL_A_PIPE ? eval_pipe(E, e->a, pipeline, NULL)
               : e->a->kind == DL_A_AS ? eval_as(E, e->a, pipeline)
                                       : dl_eval(E, e->a);
    return x.kind == DL_V_POISON ? x : dl_tensor_convert(E, e, x);
}

static dl_val eval_kind(dl_elab *E, const dl_ast *e, const char *variable) {
    dl_pipeline pipeline = {.variable = variable};
    switch (e->kind) {
    case DL_A_INT: return dl_val_int(e->i, e->span);
    case DL_A_FLOAT: return dl_val_float(e->f, e->span);
    case DL_A_BOOL: return dl_val_bool(e->i, e->span);
    case DL_A_STR: return dl_val_str(e->name, e->span);
    case DL_A_NONE: return (dl_val){.kind = DL_V_NONE, .origin = e->span};
    case DL_A_NAME: return eval_name(E, e);
    case DL_A_LIST: return eval_list(E, e);
    case DL_A_COMP: return eval_comprehension(E, e);
    case DL_A_UNARY: return eval_unary(E, e);
    case DL_A_BINARY: return eval_binary(E, e);
    case DL_A_COND: {
        bool yes;
        if (!decide(E, e->b, &yes)) return dl_poison();
        return dl_eval_named(E, yes ? e->a : e->c, variable);
    }
    case DL_A_CALL:
    case DL_A_LABEL: return dl_apply(E, e, NULL, &pipeline, NULL);
    case DL_A_PIPE: return eval_pipe(E, e, &pipeline, NULL);
    case DL_A_AS: return eval_as(E, e, &pipeline);
    case DL_A_CAST: return eval_cast(E, e, &pipeline);
    case DL_A_INDEX: return eval_index(E, e);
    case DL_A_ATTR: return eval_attribute(E, e);
    case DL_A_SLICE:
        return dl_bad(E, e->span, DL_DIAG_syntax,
                      "a slice a:b or a:b:step stands only in brackets behind a value");
    default: return dl_poison();
    }
}

dl_val dl_eval_named(dl_elab *E, const dl_ast *e, const char *variable) {
    if (!dl_spend(E, e->span, 1)) return dl_poison();
    /* Expressions nest at most 256 deep, but modules and functions that apply one another add up. */
    if (E->depth == MAX_DEPTH)
        return dl_bad(E, e->span, DL_DIAG_nested_too_deep,
                      "modules and expressions are nested more than %d deep here", MAX_DEPTH);
    E->depth++;
    dl_val v = eval_kind(E, e, variable);
    E->depth--;
    return v;
}

dl_val dl_eval(dl_elab *E, const dl_ast *e) { return dl_eval_named(E, e, NULL); }

static bool push_axis(dl_elab *E, const dl_ast *e, int *n, const char *names[DL_MAX_RANK]) {
    if (e->kind != DL_A_NAME) {
        dl_bad(E, e->span, DL_DIAG_bad_argument, "`over` takes axis names: over=C or over=[H, W]");
        dl_help(
            E,
            "axes go by name, not by number: that of a tensor [N, C, T] which is dim=1 in PyTorch is over=C");
        return false;
    }
    if (*n == DL_MAX_RANK) {
        dl_bad(E, e->span, DL_DIAG_rank_mismatch, "a tensor has at most %d axes", DL_MAX_RANK);
        return false;
    }
    names[(*n)++] = e->name;
    return true;
}

bool dl_eval_axes(dl_elab *E, const dl_ast *e, int *n, const char *names[DL_MAX_RANK]) {
    *n = 0;
    if (e->kind != DL_A_LIST) return push_axis(E, e, n, names);
    for (int i = 0; i < e->items.list.n; i++)
        if (!push_axis(E, e->items.list.at[i]->a, n, names)) return false;
    return true;
}
