/* Calls: resolves the name before parentheses or after `|>`, and applies the layer, module or
 * function. */
#include "frontends/dl/builtin.h"

#include <strings.h>

#include "frontends/dl/hints.h"

enum { CALL_WORK = 5 };

static dl_val unknown_function(dl_elab *E, const dl_ast *name) {
    if (dl_is_poisoned(E, name->name)) return dl_poison();
    const dl_val *v = dl_scope_find(E->scope, name->name);
    if (v) {
        if (v->kind == DL_V_POISON) return dl_poison();
        return dl_bad(E, name->span, DL_DIAG_not_callable, "'%s' is %s, not a layer or function",
                      name->name, dl_val_describe(E, *v));
    }
    DL_ARRAY(const char *) all = {0};
    for (int i = 0; i < dl_builtin_count(); i++) dl_push(E->arena, &all, dl_builtin_at(i)->name);
    for (int i = 0; i < E->file->body.list.n; i++)
        if (E->file->body.list.at[i]->kind == DL_A_MODULE)
            dl_push(E->arena, &all, E->file->body.list.at[i]->name);
    for (const dl_scope *s = E->scope; s; s = s->parent)
        for (int i = 0; i < s->functions.n; i++) dl_push(E->arena, &all, s->functions.at[i]->name);
    dl_bad(E, name->span, DL_DIAG_unknown_function, "there is no layer, function or module '%s'",
           name->name);
    const char *help = dl_hint_find(DL_HINT_CALL, name->name, strlen(name->name));
    const char *near = dl_hint_alias(DL_HINT_CALL, name->name);
    if (!near) near = dl_suggest(name->name, all.at, all.n);
    if (help)
        dl_help(E, "%s", help);
    else if (near)
        dl_help(E, "did you mean '%s'?", near);
    return dl_poison();
}

/* The source text of an expression if it is short, for messages; otherwise "x". */
static const char *source_words(dl_elab *E, const dl_ast *e) {
    bool parenthesised = e->kind == DL_A_PIPE || e->kind == DL_A_BINARY || e->kind == DL_A_AS ||
                         e->kind == DL_A_CAST;
    size_t n = e->span.end - e->span.begin - 2 * parenthesised;
    const char *at = E->source->text + e->span.begin + parenthesised;
    return n > 24 || memchr(at, '\n', n) ? "x" : dl_strndup(E->arena, at, n);
}

/* Reports y.mean() and torch.relu(y): the language has neither methods nor packages. `args`: the
 * items in parentheses, or NULL after `|>`. */
static dl_val method_call(dl_elab *E, const dl_ast *callee, const dl_ast_list *args) {
    const dl_ast *base = callee->a;
    while (base->kind == DL_A_ATTR) base = base->a;
    const char *package = base->kind == DL_A_NAME && !dl_scope_find(E->scope, base->name)
                              ? dl_hint_find(DL_HINT_NAME, base->name, strlen(base->name))
                              : NULL;
    if (!package && dl_eval(E, callee->a).kind == DL_V_POISON) return dl_poison();
    const char *help = dl_hint_find(DL_HINT_CALL, callee->name, strlen(callee->name));
    const char *near = dl_hint_alias(DL_HINT_CALL, callee->name);
    if (!near && dl_is_callable(E, callee->name)) near = callee->name;
    for (int i = 0; !near && i < dl_builtin_count(); i++) /* ReLU, Linear, Softmax */
        if (strcasecmp(callee->name, dl_builtin_at(i)->name) == 0) near = dl_builtin_at(i)->name;
    const dl_builtin *f = near ? dl_builtin_find(near) : NULL;
    dl_bad(E, callee->at, DL_DIAG_not_callable,
           package ? "there are no packages" : "tensors have no methods");
    if (help)
        dl_help(E, "%s", help);
    else if (f && f->makes)
        dl_help(E, "write x |> %s", dl_builtin_usage(E->arena, f));
    else if (near && !package)
        dl_help(E, "write %s(%s%s)", near, source_words(E, callee->a),
                args && args->list.n ? ", ..." : "");
    else if (near)
        dl_help(E, "write %s(...)", near);
    else
        dl_help(E, "%s",
                package ? package : "write the function first, f(x), or after the tensor, x |> f");
    return dl_poison();
}

/* Labels */

static bool label_ok(const char *s) {
    if (!*s) return true; /* @{""}: names as without the layer around */
    if (*s == '.' || s[strlen(s) - 1] == '.' || strstr(s, "..")) return false;
    for (; *s; s++)
        if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') ||
              strchr("_.-/:+", *s)))
            return false;
    return true;
}

const char *dl_parts_text(dl_elab *E, const dl_ast_list *parts, const char *what) {
    dl_buf b = {0};
    bool good = true;
    dl_puts(&b, "");
    for (int i = 0; good && i < parts->list.n; i++) {
        const dl_ast *part = parts->list.at[i];
        dl_val v = dl_eval(E, part);
        good = v.kind == DL_V_STR || (v.kind == DL_V_INT && v.i >= 0);
        if (v.kind == DL_V_INT)
            dl_putf(&b, "%lld", (long long)v.i);
        else if (v.kind == DL_V_STR)
            dl_puts(&b, v.s);
        else if (v.kind != DL_V_POISON)
            dl_bad(E, part->span, DL_DIAG_bad_label, "%s takes whole numbers and strings, not %s",
                   what, dl_val_describe(E, v));
        if (v.kind == DL_V_INT && v.i < 0)
            dl_bad(E, part->span, DL_DIAG_bad_label,
                   "%s takes no negative number, but this is %lld", what, (long long)v.i);
    }
    const char *text = good ? dl_intern(b.at) : NULL;
    dl_buf_free(&b);
    return text;
}

const char *dl_label_text(dl_elab *E, const dl_ast *e) {
    const char *text = dl_parts_text(E, &e->items, "a label");
    if (!text || (strlen(text) <= 200 && label_ok(text))) return text;
    dl_bad(E, e->at, DL_DIAG_bad_label, "'%.80s' is no path of names and numbers joined by dots",
           text);
    dl_help(E, "write @name, @name{i} or @outer.inner");
    return NULL;
}

/* Splits a call into the name and one or two argument lists. */
static bool take_apart(const dl_ast *e, const dl_ast **name, const dl_ast_list **args,
                       const dl_ast_list **more) {
    *args = *more = NULL;
    if (e->kind == DL_A_CALL) {
        *args = &e->items;
        e = e->a;
        if (e->kind == DL_A_CALL) *more = *args, *args = &e->items, e = e->a;
    }
    *name = e;
    return e->kind == DL_A_NAME;
}

/* The bound layer that a callee refers to: a variable, or an element of a list. NULL: it is no
 * layer; *bad: reported. */
static dl_layer *find_layer(dl_elab *E, const dl_ast *name, bool *bad) {
    *bad = false;
    if (name->kind == DL_A_NAME) {
        const dl_val *v = dl_scope_find(E->scope, name->name);
        return v && v->kind == DL_V_LAYER ? v->layer : NULL;
    }
    if (name->kind != DL_A_INDEX) return NULL;
    dl_val v = dl_eval(E, name);
    *bad = v.kind == DL_V_POISON;
    return v.kind == DL_V_LAYER ? v.layer : NULL;
}

static dl_val useless_label(dl_elab *E, const dl_ast *label, const dl_ast *name, bool bound) {
    const char *what =
        name->kind == DL_A_NAME ? dl_format(E->arena, "'%s'", name->name) : "this layer";
    if (bound) {
        dl_bad(E, label->at, DL_DIAG_useless_label,
               "%s has its name already, wherever it is applied", what);
        dl_help(E, "the label stands where the layer is bound: enc = Enc(8) @enc");
    } else {
        dl_bad(E, label->at, DL_DIAG_useless_label, "%s has no parameters that a label could name",
               what);
        dl_help(E, "put the label after the layer with parameters");
    }
    return dl_poison();
}

static dl_val apply(dl_elab *E, const dl_ast *e, const dl_val *piped, dl_pipeline *pipeline,
                    const dl_ast *as) {
    dl_step *step = DL_NEW(E->arena, dl_step);
    *step = (dl_step){.outer = E->step, .pipeline = pipeline, .where = e->span};
    const dl_ast *label = NULL, *name;
    const dl_ast_list *args, *more;
    if (e->kind == DL_A_LABEL) {
        label = e;
        step->label = dl_label_text(E, e);
        /* A label with a syntax error gets a substitute name. */
        if (!step->label) step->path = dl_internf("?%lld", (long long)E->work);
        e = e->a;
    }
    if (e->kind == DL_A_LABEL)
        return dl_bad(E, label->at, DL_DIAG_bad_label, "a step has one label");
    bool call = take_apart(e, &name, &args, &more), bad = false;
    if (name->kind == DL_A_ATTR && (args || piped)) return method_call(E, name, args);
    dl_scope *home;
    const dl_ast *f = call ? dl_scope_function(E->scope, name->name, &home) : NULL;
    dl_layer *layer = f || (!piped && !args) ? NULL : find_layer(E, name, &bad);
    if (bad) return dl_poison();
    if (layer && label) return useless_label(E, label, name, true);
    if (layer && more)
        return dl_bad(E, e->span, DL_DIAG_not_callable, "the layer '%s' has its arguments already",
                      layer->name);
    if (layer)
        return dl_spend(E, e->span, CALL_WORK) ? dl_apply_layer(E, layer, e, piped, args, as)
                                               : dl_poison();
    const dl_ast *m = call && !f ? dl_find_module(E, name->name) : NULL;
    const dl_builtin *b = !call || f || m ? NULL : dl_builtin_find(name->name);
    bool binds = label && (m || (b && b->makes)); /* enc = Enc @enc */
    if (label && !piped && !args && !binds) {
        dl_bad(E, label->at, DL_DIAG_useless_label, "a label follows a layer");
        dl_help(E,
                "x |> conv(8, 3) @name; there is no matmul: multiply and add, sum(a * b, over=K)");
        return dl_poison();
    }
    if (!call || (!piped && !args && !binds))
        return dl_bad(E, e->span, DL_DIAG_not_callable,
                      piped ? "a layer, a function or a module must follow '|>'"
                            : "this cannot be called");
    if (!dl_spend(E, e->span, CALL_WORK)) return dl_poison();
    dl_val v;
    if (m) {
        if (!piped && !more && m->items.list.n == 0 && args && args->list.n)
            more = args, args = NULL;
        v = dl_apply_module(E, m, e, piped, args, more, step);
    } else if (!f && !b) {
        v = unknown_function(E, name);
        for (int i = 0; args && i < args->list.n; i++)
            if (args->list.at[i]->a->kind != DL_A_NAME && args->list.at[i]->a->kind != DL_A_LIST)
                dl_eval(E, args->list.at[i]->a);
    } else if (more) {
        v = dl_bad(E, e->span, DL_DIAG_not_callable, "'%s' takes one list of arguments",
                   name->name);
        if (b && !f)
            dl_help(E, "what it is applied to stands in front: x |> %s(...) @name", name->name);
    } else if (f)
        v = dl_apply_function(E, f, home, e, piped, args);
    else
        v = dl_apply_builtin(E, b, e, name, piped, args, step, as);
    if (label && v.kind != DL_V_POISON && !m && (!b || !b->makes))
        useless_label(E, label, name, false);
    return v;
}

dl_val dl_apply(dl_elab *E, const dl_ast *e, const dl_val *piped, dl_pipeline *pipeline,
                const dl_ast *as) {
    dl_val v = apply(E, e, piped, pipeline, as);
    dl_tell(E, e->span, v);
    return v;
}
