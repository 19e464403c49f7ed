/* Calls: what a name in front of parentheses or behind `|>` stands for, and which argument goes where. */
#include "frontends/dl/builtin.h"

#include <strings.h>

#include "frontends/dl/hints.h"

enum { MODULE_WORK = 50, CALL_WORK = 5 };

static const dl_ast *find_module(const dl_elab *E, const char *name) {
    for (int i = 0; i < E->file->body.list.n; i++) {
        const dl_ast *m = E->file->body.list.at[i];
        if (m->kind == DL_A_MODULE && m->name == name) return m;
    }
    return NULL;
}

bool dl_is_callable(const dl_elab *E, const char *name) {
    dl_scope *home;
    return dl_scope_function(E->scope, name, &home) || find_module(E, name) || dl_builtin_find(name);
}

static dl_val unknown_function(dl_elab *E, const dl_ast *name) {
    if (dl_is_poisoned(E, name->name)) return dl_poison();
    const dl_val *v = dl_scope_find(E->scope, name->name);
    if (v) {
        if (v->kind == DL_V_POISON) return dl_poison();
        return dl_bad(E, name->span, DL_DIAG_not_callable, "'%s' is %s, not a layer or function", name->name,
                      dl_val_describe(E, *v));
    }
    DL_ARRAY(const char *) all = {0};
    for (int i = 0; i < dl_builtin_count(); i++) dl_push(E->arena, &all, dl_builtin_at(i)->name);
    for (int i = 0; i < E->file->body.list.n; i++)
        if (E->file->body.list.at[i]->kind == DL_A_MODULE)
            dl_push(E->arena, &all, E->file->body.list.at[i]->name);
    for (const dl_scope *s = E->scope; s; s = s->parent)
        for (int i = 0; i < s->functions.n; i++) dl_push(E->arena, &all, s->functions.at[i]->name);
    dl_bad(E, name->span, DL_DIAG_unknown_function, "there is no layer, function or module '%s'", name->name);
    const char *help = dl_hint_find(DL_HINT_CALL, name->name, strlen(name->name));
    const char *near = dl_hint_alias(DL_HINT_CALL, name->name);
    if (!near) near = dl_suggest(name->name, all.at, all.n);
    if (help)
        dl_help(E, "%s", help);
    else if (near)
        dl_help(E, "did you mean '%s'?", near);
    return dl_poison();
}

/* The source of an expression where that is short, for messages; else "x". */
static const char *source_words(dl_elab *E, const dl_ast *e) {
    bool parenthesised = e->kind == DL_A_PIPE || e->kind == DL_A_BINARY || e->kind == DL_A_AS;
    size_t n = e->span.end - e->span.begin - 2 * parenthesised;
    const char *at = E->source->text + e->span.begin + parenthesised;
    return n > 24 || memchr(at, '\n', n) ? "x" : dl_strndup(E->arena, at, n);
}

/* y.mean() and torch.relu(y): the language has neither methods nor packages. `args`: what was in parentheses,
 * or NULL behind `|>`. */
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
        dl_help(E, "write x |> %s", dl_builtin_usage(E, f));
    else if (near && !package)
        dl_help(E, "write %s(%s%s)", near, source_words(E, callee->a), args && args->list.n ? ", ..." : "");
    else if (near)
        dl_help(E, "write %s(...)", near);
    else
        dl_help(E, "%s", package ? package : "functions stand in front, f(x), or behind, x |> f");
    return dl_poison();
}

/* Labels */

static bool label_ok(const char *s) {
    if (!*s || *s == '.' || s[strlen(s) - 1] == '.' || strstr(s, "..")) return false;
    for (; *s; s++)
        if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') || *s == '_' ||
              *s == '.'))
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
            dl_bad(E, part->span, DL_DIAG_bad_label, "%s takes whole numbers and strings, not %s", what,
                   dl_val_describe(E, v));
        if (v.kind == DL_V_INT && v.i < 0)
            dl_bad(E, part->span, DL_DIAG_bad_label, "%s takes no negative number, but this is %lld", what,
                   (long long)v.i);
    }
    const char *text = good ? dl_intern(b.at) : NULL;
    dl_buf_free(&b);
    return text;
}

/* The text of a label; NULL after a report. */
static const char *label_text(dl_elab *E, const dl_ast *e) {
    const char *text = dl_parts_text(E, &e->items, "a label");
    if (!text || (strlen(text) <= 200 && label_ok(text))) return text;
    dl_bad(E, e->at, DL_DIAG_bad_label, "'%.80s' is no path of names and numbers joined by dots", text);
    dl_help(E, "write @name, @name{i} or @outer.inner");
    return NULL;
}

/* Arguments of modules and local functions */

typedef struct {
    dl_val at[64];
    bool given[64];
    int n;
} bound;

static const char *usage(dl_elab *E, const dl_ast *what) {
    dl_buf b = {0};
    dl_putf(&b, "%s(", what->name);
    for (int i = 0; i < what->items.list.n; i++)
        dl_putf(&b, "%s%s%s", i ? ", " : "", what->items.list.at[i]->name,
                what->items.list.at[i]->a ? "=..." : "");
    dl_puts(&b, ")");
    const char *text = dl_strdup(E->arena, b.at);
    dl_buf_free(&b);
    return text;
}

/* Evaluates the arguments of a call in the caller's scope. False: a report was made. */
static bool bind(dl_elab *E, const dl_ast *what, const dl_ast *call, const dl_val *piped,
                 const dl_ast_list *args, bound *out) {
    const dl_ast_list *params = &what->items;
    bool good = true;
    int next = 0;
    *out = (bound){.n = params->list.n};
    if (out->n > 64) out->n = 64;
    if (piped && out->n > 0) out->at[0] = *piped, out->given[0] = true, next = 1;
    for (int i = 0; args && i < args->list.n; i++) {
        const dl_ast *arg = args->list.at[i];
        dl_val v = dl_eval(E, arg->a);
        int at = next;
        if (arg->name) {
            for (at = 0; at < out->n && params->list.at[at]->name != arg->name;) at++;
            if (at == out->n) {
                dl_bad(E, arg->at, DL_DIAG_unknown_argument, "'%s' has no argument '%s'", what->name,
                       arg->name);
                dl_help(E, "it takes %s", usage(E, what));
                good = false;
                continue;
            }
        } else if (next >= out->n) {
            dl_bad(E, arg->span, DL_DIAG_too_many_arguments, "'%s' takes %d argument%s", what->name, out->n,
                   out->n == 1 ? "" : "s");
            dl_help(E, "it is %s", usage(E, what));
            return false;
        } else
            next++;
        if (out->given[at]) {
            dl_bad(E, arg->span, DL_DIAG_duplicate_argument, "the argument '%s' is given twice",
                   params->list.at[at]->name);
            good = false;
        }
        out->at[at] = v, out->given[at] = true;
    }
    for (int i = 0; i < out->n; i++)
        if (!out->given[i] && !params->list.at[i]->a) {
            dl_bad(E, call->span, DL_DIAG_missing_argument, "'%s' needs the argument '%s'", what->name,
                   params->list.at[i]->name);
            dl_help(E, "write %s", usage(E, what));
            good = false;
        }
    return good;
}

/* Puts bound arguments and defaults into the callee's scope. */
static void enter_arguments(dl_elab *E, const dl_ast *what, const bound *args) {
    for (int i = 0; i < args->n; i++) {
        const dl_ast *p = what->items.list.at[i];
        dl_val v = args->given[i] ? args->at[i] : dl_eval(E, p->a);
        dl_scope_set(E, p->name, v);
    }
}

static bool recursive(dl_elab *E, const dl_ast *what, const dl_ast *call) {
    for (const dl_frame *f = E->frame; f; f = f->outer)
        if (f->what == what) {
            dl_bad(E, call->span, DL_DIAG_recursion, "'%s' applies itself", what->name);
            dl_help(E, "repeat with `for`");
            return true;
        }
    return false;
}

static dl_val apply_function(dl_elab *E, const dl_ast *f, dl_scope *home, const dl_ast *call,
                             const dl_val *piped, const dl_ast_list *args) {
    bound *b = DL_NEW(E->arena, bound);
    if (!bind(E, f, call, piped, args, b) || recursive(E, f, call) || !dl_spend(E, call->span, MODULE_WORK))
        return dl_poison();
    dl_scope *outer = E->scope;
    dl_frame frame = {E->frame, f, call};
    E->scope = dl_scope_new(E, home);
    E->frame = &frame;
    enter_arguments(E, f, b);
    dl_val v = dl_eval(E, f->a);
    E->scope = outer, E->frame = frame.outer;
    if (v.kind == DL_V_TENSOR) v.origin = call->span;
    return v;
}

/* Checks a tensor against the axes that a module states, and binds their sizes. */
static bool enter_tensor(dl_elab *E, const dl_ast *module, const dl_ast *p, dl_val v, const dl_ast *call) {
    if (v.kind == DL_V_POISON) return false;
    if (v.kind != DL_V_TENSOR) {
        dl_bad(E, call->span, DL_DIAG_not_a_tensor, "'%s' is applied to a tensor, not to %s", module->name,
               dl_val_describe(E, v));
        return false;
    }
    dl_scope_set(E, p->name, v);
    if (!p->b) return true;
    dl_type want;
    if (!dl_eval_type(E, p->b, false, &want)) return false;
    const dl_type *t = &v.t->type;
    bool fits = want.rank == t->rank && (!p->b->name || want.dtype == t->dtype);
    for (int i = 0; fits && i < t->rank; i++)
        fits = want.axis[i].name == t->axis[i].name &&
               (want.axis[i].size < 0 || want.axis[i].size == t->axis[i].size);
    if (!fits) {
        dl_bad(E, call->span, DL_DIAG_module_axes, "'%s' works on %.*s, but is applied to %s", module->name,
               (int)(p->b->span.end - p->b->span.begin), E->source->text + p->b->span.begin, dl_type_text(t));
        dl_note(E, p->span, "its axes are stated here");
        return false;
    }
    for (int i = 0; i < t->rank; i++)
        if (*t->axis[i].name) dl_scope_bind_size(E, t->axis[i].name, t->axis[i].size, p->span);
    return true;
}

/* Runs a module's body in a scope of its own. */
static dl_val run_module(dl_elab *E, const dl_ast *m, const dl_ast *call, const bound *args, int ntensors,
                         const dl_val *tensors, dl_step *step) {
    dl_scope *scope = E->scope;
    dl_step *outer = E->step;
    dl_place place = E->place;
    bool returned = E->returned;
    dl_frame frame = {E->frame, m, call};
    E->scope = dl_scope_new(E, E->global);
    E->frame = &frame, E->step = step, E->place = DL_IN_MODULE, E->returned = false;
    E->result = dl_poison();
    enter_arguments(E, m, args);
    bool good = true;
    E->frame = frame.outer; /* a wrong tensor is the caller's fault */
    for (int i = 0; i < ntensors; i++) good &= enter_tensor(E, m, m->more.list.at[i], tensors[i], call);
    E->frame = &frame;
    if (good) {
        dl_exec_list(E, &m->body);
        if (!E->returned && !E->exhausted && !E->syntax_faults) {
            dl_bad(E, m->at, DL_DIAG_no_return, "the module '%s' returns nothing", m->name);
            dl_help(E, "end it with: return y");
        }
    }
    dl_val v = E->returned ? E->result : dl_poison();
    E->scope = scope, E->frame = frame.outer, E->step = outer, E->place = place, E->returned = returned;
    if (v.kind == DL_V_TENSOR) v.origin = call->span, v.name = NULL;
    return v;
}

static dl_val apply_module(dl_elab *E, const dl_ast *m, const dl_ast *call, const dl_val *piped,
                           const dl_ast_list *args, const dl_ast_list *targs, dl_step *step) {
    bound *b = DL_NEW(E->arena, bound);
    bool good = bind(E, m, call, NULL, args, b);
    int want = m->more.list.n, n = 0;
    dl_val *tensors = DL_NEWS(E->arena, dl_val, want + 1);
    if (piped && n < want) tensors[n++] = *piped;
    int given = (piped != NULL) + (targs ? targs->list.n : 0);
    for (int i = 0; targs && i < targs->list.n && n < want; i++)
        tensors[n++] = dl_eval(E, targs->list.at[i]->a);
    if (given != want) {
        dl_bad(E, call->span, given < want ? DL_DIAG_missing_argument : DL_DIAG_too_many_arguments,
               "'%s' is applied to %d tensor%s, not to %d", m->name, want, want == 1 ? "" : "s", given);
        dl_help(E, "write x |> %s", usage(E, m));
        good = false;
    }
    if (!good || recursive(E, m, call) || !dl_spend(E, call->span, MODULE_WORK)) return dl_poison();
    return run_module(E, m, call, b, n, tensors, step);
}

/* The parts of a call: the name, and one or two argument lists. */
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

dl_val dl_apply(dl_elab *E, const dl_ast *e, const dl_val *piped, dl_pipeline *pipeline, const dl_ast *as) {
    dl_step step = {.outer = E->step, .pipeline = pipeline, .where = e->span};
    const dl_ast *label = NULL, *name;
    const dl_ast_list *args, *more;
    if (e->kind == DL_A_LABEL) {
        label = e;
        step.label = label_text(E, e);
        /* A label that could not be read stands for some name. */
        if (!step.label) step.path = dl_internf("?%lld", (long long)E->work);
        e = e->a;
    }
    if (e->kind == DL_A_LABEL) return dl_bad(E, label->at, DL_DIAG_bad_label, "a step has one label");
    bool call = take_apart(e, &name, &args, &more);
    if (name->kind == DL_A_ATTR && (args || piped)) return method_call(E, name, args);
    if (label && !piped && !args) {
        dl_bad(E, label->at, DL_DIAG_useless_label, "a label stands behind a layer");
        dl_help(E, "x |> conv(8, 3) @name; there is no matmul: multiply and add, sum(a * b, over=K)");
        return dl_poison();
    }
    if (!call || (!piped && !args))
        return dl_bad(E, e->span, DL_DIAG_not_callable,
                      piped ? "behind '|>' stands a layer, a function or a module" : "this cannot be called");
    if (!dl_spend(E, e->span, CALL_WORK)) return dl_poison();
    dl_scope *home;
    const dl_ast *f = dl_scope_function(E->scope, name->name, &home);
    const dl_ast *m = f ? NULL : find_module(E, name->name);
    const dl_builtin *b = f || m ? NULL : dl_builtin_find(name->name);
    dl_val v;
    if (m) {
        if (!piped && !more && m->items.list.n == 0) more = args, args = NULL;
        v = apply_module(E, m, e, piped, args, more, &step);
    } else if (!f && !b) {
        v = unknown_function(E, name);
        for (int i = 0; args && i < args->list.n; i++)
            if (args->list.at[i]->a->kind != DL_A_NAME && args->list.at[i]->a->kind != DL_A_LIST)
                dl_eval(E, args->list.at[i]->a);
    } else if (more)
        v = dl_bad(E, e->span, DL_DIAG_not_callable, "'%s' takes one list of arguments", name->name);
    else if (f)
        v = apply_function(E, f, home, e, piped, args);
    else
        v = dl_apply_builtin(E, b, e, name, piped, args, &step, as);
    if (label && v.kind != DL_V_POISON && !m && (!b || !b->makes)) {
        dl_bad(E, label->at, DL_DIAG_useless_label, "'%s' has no parameters that a label could name",
               name->name);
        dl_help(E, "put the label behind the layer with parameters");
    }
    return v;
}
