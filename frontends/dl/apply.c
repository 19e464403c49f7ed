/* Applies modules, local functions and bound layers: binds their arguments, and runs their bodies
 * in scopes of their own. */
#include "frontends/dl/builtin.h"

enum { MODULE_WORK = 50 };

/* Arguments of modules and local functions */

struct dl_arguments {
    dl_val at[64];
    bool given[64];
    int n;
};

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
                 const dl_ast_list *args, dl_arguments *out) {
    const dl_ast_list *params = &what->items;
    bool good = true;
    int next = 0;
    *out = (dl_arguments){.n = params->list.n};
    if (out->n > 64) out->n = 64;
    if (piped && out->n > 0) out->at[0] = *piped, out->given[0] = true, next = 1;
    for (int i = 0; args && i < args->list.n; i++) {
        const dl_ast *arg = args->list.at[i];
        dl_val v = dl_eval(E, arg->a);
        int at = next;
        if (arg->name) {
            for (at = 0; at < out->n && params->list.at[at]->name != arg->name;) at++;
            if (at == out->n) {
                dl_bad(E, arg->at, DL_DIAG_unknown_argument, "'%s' has no argument '%s'",
                       what->name, arg->name);
                dl_help(E, "it takes %s", usage(E, what));
                good = false;
                continue;
            }
        } else if (next >= out->n) {
            dl_bad(E, arg->span, DL_DIAG_too_many_arguments, "'%s' takes %d argument%s", what->name,
                   out->n, out->n == 1 ? "" : "s");
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
            dl_bad(E, call->span, DL_DIAG_missing_argument, "'%s' needs the argument '%s'",
                   what->name, params->list.at[i]->name);
            dl_help(E, "write %s", usage(E, what));
            good = false;
        }
    return good;
}

/* Puts bound arguments and defaults into the callee's scope. */
static void enter_arguments(dl_elab *E, const dl_ast *what, const dl_arguments *args) {
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

dl_val dl_apply_function(dl_elab *E, const dl_ast *f, dl_scope *home, const dl_ast *call,
                         const dl_val *piped, const dl_ast_list *args) {
    dl_arguments *b = DL_NEW(E->arena, dl_arguments);
    if (!bind(E, f, call, piped, args, b) || recursive(E, f, call) ||
        !dl_spend(E, call->span, MODULE_WORK))
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

/* Adds help for axes that differ from the declared ones: reorder or rename them. */
static void help_with_axes(dl_elab *E, const dl_type *is, const dl_type *want) {
    dl_buf from = {0}, to = {0}, names = {0};
    bool same = true, named = is->rank == want->rank;
    for (int i = 0; named && i < is->rank; i++) {
        const char *end = i + 1 < is->rank ? " " : "";
        dl_putf(&from, "%s%s", is->axis[i].name, end),
            dl_putf(&to, "%s%s", want->axis[i].name, end);
        dl_putf(&names, "%s%s", i ? ", " : "", want->axis[i].name);
        named = *want->axis[i].name && *is->axis[i].name;
        same = same && dl_type_axis(is, want->axis[i].name) >= 0;
    }
    if (named && same)
        dl_help(E, "its axes in that order: x |> rearrange(\"%s -> %s\")", from.at, to.at);
    else if (named)
        dl_help(E, "axes that are the same are renamed, in order: x as [%s]", names.at);
    dl_buf_free(&from), dl_buf_free(&to), dl_buf_free(&names);
}

/* Checks a tensor against a module's declared axes, and binds their sizes. */
static bool enter_tensor(dl_elab *E, const dl_ast *module, const dl_ast *p, dl_val v,
                         const dl_ast *call) {
    if (v.kind == DL_V_POISON) return false;
    if (v.kind != DL_V_TENSOR) {
        if (dl_refuse_layer(E, call->span, v)) return false;
        dl_bad(E, call->span, DL_DIAG_not_a_tensor, "'%s' is applied to a tensor, not to %s",
               module->name, dl_val_describe(E, v));
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
        dl_bad(E, call->span, DL_DIAG_module_axes, "'%s' works on %.*s, but is applied to %s",
               module->name, (int)(p->b->span.end - p->b->span.begin),
               E->source->text + p->b->span.begin, dl_type_text(t));
        dl_note(E, p->span, "its axes are stated here");
        help_with_axes(E, t, &want);
        return false;
    }
    for (int i = 0; i < t->rank; i++)
        if (*t->axis[i].name) dl_scope_bind_size(E, t->axis[i].name, t->axis[i].size, p->span);
    return true;
}

/* Runs a module's body in a scope of its own. */
static dl_val run_module(dl_elab *E, const dl_ast *m, const dl_ast *call, const dl_arguments *args,
                         int ntensors, const dl_val *tensors, dl_step *step) {
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
    E->frame = frame.outer; /* a wrong tensor is reported at the caller */
    for (int i = 0; i < ntensors; i++)
        good &= enter_tensor(E, m, m->more.list.at[i], tensors[i], call);
    E->frame = &frame;
    if (good) {
        dl_exec_list(E, &m->body);
        if (!E->returned && !E->exhausted && !E->syntax_faults) {
            dl_bad(E, m->at, DL_DIAG_no_return, "the module '%s' returns nothing", m->name);
            dl_help(E, "end it with: return y");
        }
    }
    dl_val v = E->returned ? E->result : dl_poison();
    E->scope = scope, E->frame = frame.outer, E->step = outer, E->place = place,
    E->returned = returned;
    if (v.kind == DL_V_TENSOR) v.origin = call->span, v.name = NULL;
    return v;
}

/* The tensors that a module or layer of `want` is applied to: the piped one, then `targs`. NULL:
 * reported, or poison. */
static dl_val *take_tensors(dl_elab *E, const char *name, int want, const dl_ast *call,
                            const dl_val *piped, const dl_ast_list *targs, const char *help) {
    dl_val *tensors = DL_NEWS(E->arena, dl_val, want + 1);
    int n = 0, given = (piped != NULL) + (targs ? targs->list.n : 0);
    bool named = false;
    if (piped && n < want) tensors[n++] = *piped;
    for (int i = 0; targs && i < targs->list.n && n < want; i++) {
        named |= targs->list.at[i]->name != NULL;
        tensors[n++] = dl_eval(E, targs->list.at[i]->a);
    }
    if (given == want && !named) return tensors;
    if (named)
        dl_bad(E, call->span, DL_DIAG_unknown_argument,
               "'%s' is applied to tensors, which have no names here", name);
    else
        dl_bad(E, call->span, given < want ? DL_DIAG_missing_argument : DL_DIAG_too_many_arguments,
               "'%s' is applied to %d tensor%s, not to %d", name, want, want == 1 ? "" : "s",
               given);
    dl_help(E, "write %s", help);
    return NULL;
}

dl_val dl_apply_module(dl_elab *E, const dl_ast *m, const dl_ast *call, const dl_val *piped,
                       const dl_ast_list *args, const dl_ast_list *targs, dl_step *step) {
    dl_arguments *b = DL_NEW(E->arena, dl_arguments);
    bool good = bind(E, m, call, NULL, args, b);
    if (!piped && !targs) {
        if (!good) return dl_poison();
        dl_layer layer = {.name = m->name, .module = m, .args = b};
        return dl_val_layer(E, layer, step, call->span);
    }
    dl_val *tensors = take_tensors(E, m->name, m->more.list.n, call, piped, targs,
                                   dl_format(E->arena, "x |> %s", usage(E, m)));
    if (!good || !tensors || recursive(E, m, call) || !dl_spend(E, call->span, MODULE_WORK))
        return dl_poison();
    return run_module(E, m, call, b, m->more.list.n, tensors, step);
}

/* A layer may contain another layer of the same module; one that binds itself ends at the nesting
 * limit. */
static dl_val apply_bound(dl_elab *E, dl_layer *l, const dl_ast *call, int n, dl_val *tensors,
                          const dl_ast *as) {
    if (!dl_spend(E, call->span, MODULE_WORK)) return dl_poison();
    dl_step *step = DL_NEW(E->arena, dl_step);
    *step = (dl_step){
        .outer = l->step->outer, .where = call->span, .layer = l, .application = ++l->applied};
    return l->module ? run_module(E, l->module, call, l->args, n, tensors, step)
                     : dl_apply_builtin_to(l->call, call->span, n, tensors, step, as);
}

dl_val dl_apply_layer(dl_elab *E, dl_layer *l, const dl_ast *call, const dl_val *piped,
                      const dl_ast_list *targs, const dl_ast *as) {
    const dl_ast *m = l->module;
    int given = (piped != NULL) + (targs ? targs->list.n : 0),
        most = m ? m->more.list.n : dl_builtin_tensors(l->call),
        want = m || given > most ? most
               : given < 1       ? 1
                                 : given;
    dl_val *tensors = take_tensors(E, l->name, want, call, piped, targs, "x |> layer, or layer(x)");
    if (!tensors) return dl_poison();
    return apply_bound(E, l, call, want, tensors, as);
}

dl_val dl_apply_layer_to(dl_elab *E, dl_layer *l, const dl_ast *cell, int n, dl_val *tensors) {
    const int want = l->module ? l->module->more.list.n : 1;
    if (n == want) return apply_bound(E, l, cell, n, tensors, NULL);
    return dl_bad(E, cell->span, n < want ? DL_DIAG_missing_argument : DL_DIAG_too_many_arguments,
                  "'%s' is applied to %d tensor%s, and the scan has %d: slices, and then states",
                  l->name, want, want == 1 ? "" : "s", n);
}
