/* Binds the arguments of calls of built-in layers and functions to parameters, and checks their
 * kinds. */
#include <stdlib.h>

#include "frontends/dl/builtin.h"
#include "frontends/dl/hints.h"

static dl_val default_value(const char *text, dl_span where) {
    if (strcmp(text, "none") == 0) return (dl_val){.kind = DL_V_NONE, .origin = where};
    if (strcmp(text, "true") == 0) return dl_val_bool(true, where);
    if (strcmp(text, "false") == 0) return dl_val_bool(false, where);
    if (strpbrk(text, ".e")) return dl_val_float(strtod(text, NULL), where);
    return dl_val_int(strtoll(text, NULL, 10), where);
}

static bool wrong_kind(dl_call *c, const dl_param_spec *p, dl_val v, const char *want) {
    if (dl_refuse_layer(c->E, c->where, v)) return false;
    dl_bad(c->E, v.kind == DL_V_TENSOR ? c->where : v.origin, DL_DIAG_bad_argument,
           "%s: '%s' must be %s, not %s", c->what->name, p->name, want, dl_val_describe(c->E, v));
    return false;
}

/* Whether argument i is none where none is the default: the same as not given. */
static bool is_left_out(const dl_call *c, int i) {
    const char *otherwise = c->what->params[i].otherwise;
    return c->arg[i].kind == DL_V_NONE && otherwise && strcmp(otherwise, "none") == 0;
}

static bool check_argument(dl_call *c, int i) {
    const dl_param_spec *p = &c->what->params[i];
    dl_val v = c->arg[i];
    int64_t n;
    if (v.kind == DL_V_POISON || is_left_out(c, i)) return true;
    switch (p->kind) {
    case DL_P_TENSOR: return v.kind == DL_V_TENSOR || wrong_kind(c, p, v, "a tensor");
    case DL_P_INT:
        return dl_val_count(c->E, v, 1, dl_format(c->E->arena, "%s: '%s'", c->what->name, p->name),
                            &n);
    case DL_P_NUMBER: return dl_val_is_number(v) || wrong_kind(c, p, v, "a number");
    case DL_P_BOOL: return v.kind == DL_V_BOOL || wrong_kind(c, p, v, "true or false");
    case DL_P_STR: return v.kind == DL_V_STR || wrong_kind(c, p, v, "a string");
    case DL_P_PAD:
        if (v.kind == DL_V_STR && (strcmp(v.s, "same") == 0 || strcmp(v.s, "valid") == 0))
            return true;
        if (v.kind == DL_V_STR)
            return wrong_kind(c, p, v, "a number, a list of numbers, same or valid");
        /* fall through */
    case DL_P_KERNEL:
        if (p->kind == DL_P_KERNEL && v.kind == DL_V_TENSOR) return true;
        /* fall through */
    case DL_P_WINDOW:
        if (v.kind == DL_V_LIST || v.kind == DL_V_INT) return true;
        if (v.kind == DL_V_FLOAT)
            return dl_val_count(c->E, v, 0,
                                dl_format(c->E->arena, "%s: '%s'", c->what->name, p->name), &n);
        return wrong_kind(c, p, v, "a whole number or a list of them");
    case DL_P_FACTOR:
        return v.kind == DL_V_LIST || dl_val_is_number(v) ||
               wrong_kind(c, p, v, "a number or a list of them");
    default: return true;
    }
}

static int find_param(const dl_builtin *f, const char *name) {
    for (int i = 0; i < DL_MAX_PARAMS && f->params[i].name; i++)
        if (strcmp(f->params[i].name, name) == 0) return i;
    return -1;
}

/* The number of parameters, without a last one for keywords of any name. */
static int count_params(const dl_builtin *f) {
    int n = 0;
    while (n < DL_MAX_PARAMS && f->params[n].name && f->params[n].kind != DL_P_KEYED) n++;
    return n;
}

/* Reports an unknown argument; returns the parameter that was probably meant, which then does not
 * count as missing, or -1. */
static int unknown_argument(dl_call *c, const dl_ast *arg) {
    const char *names[DL_MAX_PARAMS];
    int n = count_params(c->what);
    for (int i = 0; i < n; i++) names[i] = c->what->params[i].name;
    const char *near = dl_hint_alias(DL_HINT_ARGUMENT, arg->name);
    if (!near || find_param(c->what, near) < 0)
        near = near ? NULL : dl_suggest(arg->name, names, n);
    const char *hint = dl_hint_find(DL_HINT_ARGUMENT, arg->name, strlen(arg->name));
    dl_bad(c->E, arg->at, DL_DIAG_unknown_argument, "%s has no argument '%s'", c->what->name,
           arg->name);
    if (hint)
        dl_help(c->E, "%s", hint);
    else if (near)
        dl_help(c->E, "did you mean '%s'? %s", near, dl_builtin_usage(c->E->arena, c->what));
    else
        dl_help(c->E, "it takes %s", dl_builtin_usage(c->E->arena, c->what));
    return near ? find_param(c->what, near) : -1;
}

/* `v`: the argument's value, or NULL where it is not evaluated yet. */
static bool place_argument(dl_call *c, int at, const dl_ast *arg, const dl_val *v) {
    const dl_param_spec *p = &c->what->params[at];
    if (c->given[at]) {
        dl_bad(c->E, arg->span, DL_DIAG_duplicate_argument, "%s: '%s' is given twice",
               c->what->name, p->name);
        return false;
    }
    c->given[at] = true;
    c->ast[at] = arg->a;
    if (p->kind == DL_P_AXES || p->kind == DL_P_AXIS) return true;
    c->arg[at] = v ? *v : dl_eval(c->E, arg->a);
    return check_argument(c, at);
}

/* Is the weight that a layer would make given as a tensor? */
static bool has_weight(const dl_call *c, int n) {
    for (int i = 0; i < n; i++)
        if (c->what->params[i].kind == DL_P_KERNEL &&
            (c->arg[i].kind == DL_V_TENSOR || (c->given[i] && c->arg[i].kind == DL_V_POISON)))
            return true;
    return false;
}

static bool bind_builtin(dl_call *c, const dl_val *piped, const dl_ast_list *args) {
    const dl_builtin *f = c->what;
    int n = count_params(f), next = 0;
    bool good = true, rest = n > 0 && f->params[0].kind == DL_P_REST,
         keyed = n < DL_MAX_PARAMS && f->params[n].kind == DL_P_KEYED;
    if (piped && rest)
        dl_push(c->E->arena, &c->rest.items, *piped);
    else if (piped) {
        c->arg[0] = *piped, c->given[0] = true, next = 1;
        c->arg[0].origin = piped->origin;
        good = check_argument(c, 0);
    }
    for (int i = 0; args && i < args->list.n; i++) {
        const dl_ast *arg = args->list.at[i];
        if (arg->name) {
            int at = find_param(f, arg->name);
            if (at >= 0)
                good &= place_argument(c, at, arg, NULL);
            else if (keyed) {
                dl_val v = dl_eval(c->E, arg->a);
                v.name = arg->name;
                dl_push(c->E->arena, &c->keyed.items, v);
            } else {
                dl_eval(c->E, arg->a);
                int meant = unknown_argument(c, arg);
                if (meant >= 0) c->given[meant] = true;
                good = false;
            }
        } else if (rest)
            dl_push(c->E->arena, &c->rest.items, dl_eval(c->E, arg->a));
        else if (next >= n) {
            dl_bad(c->E, arg->span, DL_DIAG_too_many_arguments, "%s takes at most %d argument%s%s",
                   f->name, n, n == 1 ? "" : "s", piped ? ", the piped tensor included" : "");
            dl_help(c->E, "it is %s", dl_builtin_usage(c->E->arena, f));
            return false;
        } else if (f->makes && next == 0) { /* linear(x, 8), or a later x */
            dl_val v = dl_eval(c->E, arg->a);
            next = v.kind != DL_V_TENSOR && v.kind != DL_V_POISON;
            good &= place_argument(c, next++, arg, &v);
        } else
            good &= place_argument(c, next++, arg, NULL);
    }
    for (int i = rest; i < n; i++) {
        const dl_param_spec *p = &f->params[i];
        if (c->given[i] || (i == 0 && f->makes)) continue;
        if (p->otherwise || has_weight(c, n)) {
            c->arg[i] = default_value(p->otherwise ? p->otherwise : "none", c->where);
            continue;
        }
        dl_bad(c->E, c->where, DL_DIAG_missing_argument, "%s needs the argument '%s'", f->name,
               p->name);
        dl_help(c->E, "write %s%s", f->makes ? "x |> " : "", dl_builtin_usage(c->E->arena, f));
        good = false;
    }
    return good;
}

/* A formula sees the built-in functions and its own parameters alone; axes are in its text. */
static dl_val apply_formula(const dl_call *c) {
    dl_elab *E = c->E;
    const dl_ast *e = dl_formula_of(c);
    if (!e) return dl_bad(E, c->where, DL_DIAG_bad_argument, "%s has no formula", c->what->name);
    dl_scope *outer = E->scope;
    const dl_ast *modules = E->file;
    dl_facts *facts = E->facts;
    E->facts = NULL; /* its parts are no part of the model's text */
    E->scope = dl_scope_new(E, NULL);
    E->file = &(dl_ast){.kind = DL_A_FILE};
    for (int i = 0; i < DL_MAX_PARAMS && c->what->params[i].name; i++) {
        const dl_param_spec *p = &c->what->params[i];
        if (p->kind != DL_P_AXES && p->kind != DL_P_AXIS)
            dl_scope_set(E, dl_intern(p->name),
                         c->what->wide ? dl_tensor_pin(E, c->where, c->arg[i]) : c->arg[i]);
    }
    dl_val v = dl_eval(E, e);
    E->scope = outer, E->file = modules, E->facts = facts;
    if (v.kind == DL_V_TENSOR) v.origin = c->where, v.name = NULL;
    return v;
}

dl_val dl_apply_builtin(dl_elab *E, const dl_builtin *f, const dl_ast *e, const dl_ast *name,
                        const dl_val *piped, const dl_ast_list *args, dl_step *step,
                        const dl_ast *as) {
    dl_call *c = DL_NEW(E->arena, dl_call);
    *c = (dl_call){.E = E,
                   .what = f,
                   .where = e->span,
                   .name_at = name->span,
                   .step = step,
                   .as = as,
                   .apply = dl_apply_layer_to};
    if (piped) c->where.begin = name->span.begin;
    if (!bind_builtin(c, piped, args)) return dl_poison();
    for (int i = 0; i < DL_MAX_PARAMS && f->params[i].name; i++)
        if (f->params[i].kind != DL_P_AXES && f->params[i].kind != DL_P_AXIS && is_left_out(c, i))
            c->given[i] = false;
    for (int i = 0; i < DL_MAX_PARAMS; i++)
        if (c->given[i] && c->arg[i].kind == DL_V_POISON && f->params[i].kind != DL_P_AXES &&
            f->params[i].kind != DL_P_AXIS)
            return dl_poison();
    for (int i = 0; i < c->rest.items.n; i++)
        if (c->rest.items.at[i].kind == DL_V_POISON) return dl_poison();
    for (int i = 0; i < c->keyed.items.n; i++)
        if (c->keyed.items.at[i].kind == DL_V_POISON) return dl_poison();
    E->last = NULL;
    if (f->makes && !c->given[0]) {
        dl_layer layer = {.name = f->name, .call = c};
        return dl_val_layer(E, layer, step, e->span);
    }
    return f->formula ? apply_formula(c) : dl_builtin_run(c);
}

/* The next parameter after `at` that an application may give as a tensor, since the binding has
 * not; -1: none. */
static int next_tensor(const dl_call *bound, int at) {
    while (++at < DL_MAX_PARAMS && bound->what->params[at].name)
        if (bound->what->params[at].kind == DL_P_TENSOR && !bound->given[at]) return at;
    return -1;
}

int dl_builtin_tensors(const dl_call *bound) {
    int n = 1;
    for (int at = 0; (at = next_tensor(bound, at)) >= 0;) n++;
    return n;
}

dl_val dl_apply_builtin_to(const dl_call *bound, dl_span where, int n, const dl_val *tensors,
                           dl_step *step, const dl_ast *as) {
    dl_call *c = DL_NEW(bound->E->arena, dl_call);
    *c = *bound;
    c->where = c->name_at = where;
    c->step = step, c->as = as;
    for (int i = 0, at = 0; i < n; i++, at = next_tensor(bound, at)) {
        if (tensors[i].kind == DL_V_POISON) return dl_poison();
        c->arg[at] = tensors[i], c->given[at] = true;
        if (!check_argument(c, at)) return dl_poison();
    }
    return dl_builtin_run(c);
}
