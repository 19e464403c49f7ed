/* Names in expressions: the value, axis size, layer, function or module that a name refers to. The
 * evaluator (eval.c) is built on it: a name's value does not depend on other expressions. */
#include "frontends/dl/elab.h"
#include "frontends/dl/hints.h"

enum { MAX_DEPTH = 600 };

/* Whether names of parameters begin with it. */
static bool is_label(const dl_elab *E, const char *name) {
    size_t n = strlen(name);
    for (int i = 0; i < E->params.n; i++) {
        const char *path = E->params.at[i].var->name;
        if (strncmp(path, name, n) == 0 && path[n] == '.') return true;
    }
    return false;
}

dl_val dl_name_value(dl_elab *E, const dl_ast *e) {
    const dl_val *v = dl_scope_find(E->scope, e->name);
    if (v) {
        dl_val r = *v;
        /* A fault in a number is shown where it is used; the origin of a tensor or layer is where
         * it was made. */
        if (r.kind != DL_V_TENSOR && r.kind != DL_V_LAYER) r.origin = e->span;
        r.name = e->name;
        return r;
    }
    const dl_size_binding *s = dl_scope_size(E->scope, e->name);
    if (s && s->sizes_differ) {
        dl_bad(E, e->span, DL_DIAG_ambiguous_size,
               "the axis %s has size %lld in one place and %lld in another", e->name,
               (long long)s->size, (long long)s->other);
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
    /* `break` alone on its line */
    if (!hint) hint = dl_hint_find(DL_HINT_WORD, e->name, strlen(e->name));
    if (hint)
        dl_help(E, "%s", hint);
    else if (dl_is_callable(E, e->name))
        dl_help(E, "'%s' is a layer or function: write x |> %s or %s(x)", e->name, e->name,
                e->name);
    else if (is_label(E, e->name))
        dl_help(E,
                "@%s only names parameters; a layer that is bound is a value: %s = linear(8), then "
                "x |> %s "
                "and %s.weight",
                e->name, e->name, e->name, e->name);
    else if (near)
        dl_help(E, "did you mean '%s'?", near);
    /* A missing name is reported once. */
    dl_push(E->arena, &E->poisoned, e->name);
    return dl_poison();
}

const dl_ast *dl_find_module(const dl_elab *E, const char *name) {
    for (int i = 0; i < E->file->body.list.n; i++) {
        const dl_ast *m = E->file->body.list.at[i];
        if (m->kind == DL_A_MODULE && m->name == name) return m;
    }
    return NULL;
}

bool dl_is_callable(const dl_elab *E, const char *name) {
    dl_scope *home;
    return dl_scope_function(E->scope, name, &home) || dl_find_module(E, name) ||
           dl_builtin_find(name);
}

bool dl_begin_eval(dl_elab *E, const dl_ast *e) {
    if (!dl_spend(E, e->span, 1)) return false;
    /* Expressions nest at most 256 deep, but modules and functions that apply one another add
     * up. */
    if (E->depth < MAX_DEPTH) return true;
    dl_bad(E, e->span, DL_DIAG_nested_too_deep,
           "modules and expressions are nested more than %d deep here", MAX_DEPTH);
    return false;
}

dl_val dl_eval_name(dl_elab *E, const dl_ast *e) {
    dl_val v = dl_begin_eval(E, e) ? dl_name_value(E, e) : dl_poison();
    dl_tell(E, e->span, v);
    return v;
}
