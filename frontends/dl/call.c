/* Calls: what a name in front of parentheses or behind `|>` stands for, and which argument goes where. */
#include <stdlib.h>

#include "frontends/dl/elab.h"

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
        if (E->file->body.list.at[i]->kind == DL_A_MODULE) dl_push(E->arena, &all, E->file->body.list.at[i]->name);
    for (const dl_scope *s = E->scope; s; s = s->parent)
        for (int i = 0; i < s->functions.n; i++) dl_push(E->arena, &all, s->functions.at[i]->name);
    dl_bad(E, name->span, DL_DIAG_unknown_function, "there is no layer, function or module '%s'", name->name);
    static const struct {
        const char *theirs, *ours;
    } words[] = {{"Conv1d", "conv"},  {"Conv2d", "conv"},  {"Conv3d", "conv"},      {"conv1d", "conv"},
                 {"conv2d", "conv"},  {"conv3d", "conv"},  {"Dense", "linear"},     {"dense", "linear"},
                 {"softmax2d", "softmax"}, {"ConvTranspose2d", "conv_transpose"}, {"ConvTranspose3d", "conv_transpose"},
                 {"BatchNorm2d", "batch_norm"}, {"BatchNorm3d", "batch_norm"}, {"LayerNorm", "layer_norm"},
                 {"concat", "cat"}, {"concatenate", "cat"}, {"permute", "rearrange"}, {"reshape", "rearrange"},
                 {"view", "rearrange"}, {"transpose", "rearrange"}, {"flatten", "rearrange"}, {"select", "where"}};
    const char *near = NULL;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i].theirs, name->name) == 0) near = words[i].ours;
    if (!near) near = dl_suggest(name->name, all.at, all.n);
    if (near) dl_help(E, "did you mean '%s'?", near);
    return dl_poison();
}

/* Labels */

static bool label_ok(const char *s) {
    if (!*s || *s == '.' || s[strlen(s) - 1] == '.' || strstr(s, "..")) return false;
    for (; *s; s++)
        if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') || *s == '_' || *s == '.'))
            return false;
    return true;
}

/* The text of a label; NULL after a report. */
static const char *label_text(dl_elab *E, const dl_ast *e) {
    dl_buf b = {0};
    const char *text = NULL;
    dl_puts(&b, "");
    for (int i = 0; i < e->items.list.n; i++) {
        const dl_ast *part = e->items.list.at[i];
        dl_val v = dl_eval(E, part);
        if (v.kind == DL_V_POISON) goto done;
        if (v.kind == DL_V_INT && v.i >= 0)
            dl_putf(&b, "%lld", (long long)v.i);
        else if (v.kind == DL_V_STR)
            dl_puts(&b, v.s);
        else {
            dl_bad(E, part->span, DL_DIAG_bad_label, "a label takes whole numbers and strings, not %s",
                   dl_val_describe(E, v));
            goto done;
        }
    }
    if (b.n > 200 || !label_ok(b.at)) {
        dl_bad(E, e->at, DL_DIAG_bad_label, "'%.80s' is no path of names and numbers joined by dots", b.at);
        dl_help(E, "write @name, @name{i} or @outer.inner");
        goto done;
    }
    text = dl_intern(b.at);
done:
    dl_buf_free(&b);
    return text;
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
        dl_putf(&b, "%s%s%s", i ? ", " : "", what->items.list.at[i]->name, what->items.list.at[i]->a ? "=..." : "");
    dl_puts(&b, ")");
    const char *text = dl_strdup(E->arena, b.at);
    dl_buf_free(&b);
    return text;
}

/* Evaluates the arguments of a call in the caller's scope. False: a report was made. */
static bool bind(dl_elab *E, const dl_ast *what, const dl_ast *call, const dl_val *piped, const dl_ast_list *args,
                 bound *out) {
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
                dl_bad(E, arg->at, DL_DIAG_unknown_argument, "'%s' has no argument '%s'", what->name, arg->name);
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

static dl_val apply_function(dl_elab *E, const dl_ast *f, dl_scope *home, const dl_ast *call, const dl_val *piped,
                             const dl_ast_list *args) {
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
        fits = want.axis[i].name == t->axis[i].name && (want.axis[i].size < 0 || want.axis[i].size == t->axis[i].size);
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
    for (int i = 0; targs && i < targs->list.n && n < want; i++) tensors[n++] = dl_eval(E, targs->list.at[i]->a);
    if (given != want) {
        dl_bad(E, call->span, given < want ? DL_DIAG_missing_argument : DL_DIAG_too_many_arguments,
               "'%s' is applied to %d tensor%s, not to %d", m->name, want, want == 1 ? "" : "s", given);
        dl_help(E, "write x |> %s", usage(E, m));
        good = false;
    }
    if (!good || recursive(E, m, call) || !dl_spend(E, call->span, MODULE_WORK)) return dl_poison();
    return run_module(E, m, call, b, n, tensors, step);
}

/* Arguments of built-in layers and functions */

static dl_val default_value(const char *text, dl_span where) {
    if (strcmp(text, "none") == 0) return (dl_val){.kind = DL_V_NONE, .origin = where};
    if (strcmp(text, "true") == 0) return dl_val_bool(true, where);
    if (strcmp(text, "false") == 0) return dl_val_bool(false, where);
    if (strpbrk(text, ".e")) return dl_val_float(strtod(text, NULL), where);
    return dl_val_int(strtoll(text, NULL, 10), where);
}

const char *dl_builtin_usage(dl_elab *E, const dl_builtin *f) {
    dl_buf b = {0};
    dl_putf(&b, "%s(", f->name);
    bool first = true;
    for (int i = 0; i < DL_MAX_PARAMS && f->params[i].name; i++) {
        const dl_param_spec *p = &f->params[i];
        if (i == 0 && f->makes) continue; /* the tensor that is piped in */
        dl_putf(&b, "%s%s", first ? "" : ", ", p->name);
        if (p->otherwise) dl_putf(&b, "=%s", p->otherwise);
        first = false;
    }
    dl_puts(&b, ")");
    const char *text = dl_strdup(E->arena, b.at);
    dl_buf_free(&b);
    return text;
}

static bool wrong_kind(dl_call *c, const dl_param_spec *p, dl_val v, const char *want) {
    dl_bad(c->E, v.kind == DL_V_TENSOR ? c->where : v.origin, DL_DIAG_bad_argument,
           "%s: '%s' must be %s, not %s", c->what->name, p->name, want, dl_val_describe(c->E, v));
    return false;
}

static bool check_argument(dl_call *c, int i) {
    const dl_param_spec *p = &c->what->params[i];
    dl_val v = c->arg[i];
    int64_t n;
    if (v.kind == DL_V_POISON) return true;
    if (v.kind == DL_V_NONE && p->otherwise && strcmp(p->otherwise, "none") == 0) return true;
    switch (p->kind) {
    case DL_P_TENSOR: return v.kind == DL_V_TENSOR || wrong_kind(c, p, v, "a tensor");
    case DL_P_INT: return dl_val_count(c->E, v, 1, dl_format(c->E->arena, "%s: '%s'", c->what->name, p->name), &n);
    case DL_P_NUMBER: return dl_val_is_number(v) || wrong_kind(c, p, v, "a number");
    case DL_P_BOOL: return v.kind == DL_V_BOOL || wrong_kind(c, p, v, "true or false");
    case DL_P_STR: return v.kind == DL_V_STR || wrong_kind(c, p, v, "a string");
    case DL_P_PAD:
        if (v.kind == DL_V_STR && (strcmp(v.s, "same") == 0 || strcmp(v.s, "valid") == 0)) return true;
        if (v.kind == DL_V_STR) return wrong_kind(c, p, v, "a number, a list of numbers, same or valid");
        /* fall through */
    case DL_P_WINDOW:
        if (v.kind == DL_V_LIST || v.kind == DL_V_INT) return true;
        if (v.kind == DL_V_FLOAT)
            return dl_val_count(c->E, v, 0, dl_format(c->E->arena, "%s: '%s'", c->what->name, p->name), &n);
        return wrong_kind(c, p, v, "a whole number or a list of them");
    default: return true;
    }
}

static int find_param(const dl_builtin *f, const char *name) {
    for (int i = 0; i < DL_MAX_PARAMS && f->params[i].name; i++)
        if (strcmp(f->params[i].name, name) == 0) return i;
    return -1;
}

static int count_params(const dl_builtin *f) {
    int n = 0;
    while (n < DL_MAX_PARAMS && f->params[n].name) n++;
    return n;
}

static bool unknown_argument(dl_call *c, const dl_ast *arg) {
    const char *names[DL_MAX_PARAMS];
    int n = count_params(c->what);
    for (int i = 0; i < n; i++) names[i] = c->what->params[i].name;
    const char *near = dl_suggest(arg->name, names, n);
    dl_bad(c->E, arg->at, DL_DIAG_unknown_argument, "%s has no argument '%s'", c->what->name, arg->name);
    if (strcmp(arg->name, "padding") == 0) near = "pad";
    if (strcmp(arg->name, "dim") == 0 || strcmp(arg->name, "axis") == 0) near = find_param(c->what, "over") < 0 ? NULL : "over";
    if (near && find_param(c->what, near) >= 0)
        dl_help(c->E, "did you mean '%s'? %s", near, dl_builtin_usage(c->E, c->what));
    else
        dl_help(c->E, "it takes %s", dl_builtin_usage(c->E, c->what));
    return false;
}

static bool place_argument(dl_call *c, int at, const dl_ast *arg) {
    const dl_param_spec *p = &c->what->params[at];
    if (c->given[at]) {
        dl_bad(c->E, arg->span, DL_DIAG_duplicate_argument, "%s: '%s' is given twice", c->what->name, p->name);
        return false;
    }
    c->given[at] = true;
    c->ast[at] = arg->a;
    if (p->kind == DL_P_AXES || p->kind == DL_P_AXIS) return true;
    c->arg[at] = dl_eval(c->E, arg->a);
    return check_argument(c, at);
}

static bool bind_builtin(dl_call *c, const dl_val *piped, const dl_ast_list *args) {
    const dl_builtin *f = c->what;
    int n = count_params(f), next = 0;
    bool good = true, rest = n > 0 && f->params[0].kind == DL_P_REST;
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
                good &= place_argument(c, at, arg);
            else if (strcmp(f->name, "rearrange") == 0) {
                dl_val v = dl_eval(c->E, arg->a);
                v.name = arg->name;
                dl_push(c->E->arena, &c->keyed.items, v);
            } else {
                dl_eval(c->E, arg->a);
                good = unknown_argument(c, arg);
            }
        } else if (rest)
            dl_push(c->E->arena, &c->rest.items, dl_eval(c->E, arg->a));
        else if (next >= n) {
            dl_bad(c->E, arg->span, DL_DIAG_too_many_arguments, "%s takes at most %d argument%s%s", f->name, n,
                   n == 1 ? "" : "s", piped ? ", the piped tensor included" : "");
            dl_help(c->E, "it is %s", dl_builtin_usage(c->E, f));
            return false;
        } else
            good &= place_argument(c, next++, arg);
    }
    for (int i = rest; i < n; i++) {
        const dl_param_spec *p = &f->params[i];
        if (c->given[i]) continue;
        if (p->otherwise) {
            c->arg[i] = default_value(p->otherwise, c->where);
            continue;
        }
        dl_bad(c->E, c->where, DL_DIAG_missing_argument, "%s needs the argument '%s'", f->name, p->name);
        dl_help(c->E, "write %s%s", f->makes ? "x |> " : "", dl_builtin_usage(c->E, f));
        good = false;
    }
    return good;
}

static dl_val apply_builtin(dl_elab *E, const dl_builtin *f, const dl_ast *e, const dl_ast *name, const dl_val *piped,
                            const dl_ast_list *args, dl_step *step, const dl_ast *as) {
    dl_call *c = DL_NEW(E->arena, dl_call);
    *c = (dl_call){.E = E, .what = f, .where = e->span, .name_at = name->span, .step = step, .as = as};
    if (piped) c->where.begin = name->span.begin;
    if (!bind_builtin(c, piped, args)) return dl_poison();
    for (int i = 0; i < DL_MAX_PARAMS; i++)
        if (c->given[i] && c->arg[i].kind == DL_V_POISON && f->params[i].kind != DL_P_AXES && f->params[i].kind != DL_P_AXIS)
            return dl_poison();
    for (int i = 0; i < c->rest.items.n; i++)
        if (c->rest.items.at[i].kind == DL_V_POISON) return dl_poison();
    E->last = NULL;
    return f->apply(c);
}

/* The parts of a call: the name, and one or two argument lists. */
static bool take_apart(const dl_ast *e, const dl_ast **name, const dl_ast_list **args, const dl_ast_list **more) {
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
    if (e->kind == DL_A_LABEL)
        return dl_bad(E, label->at, DL_DIAG_bad_label, "a step has one label");
    bool call = take_apart(e, &name, &args, &more);
    if (!call || (!piped && !args))
        return dl_bad(E, e->span, piped ? DL_DIAG_not_callable : label ? DL_DIAG_useless_label : DL_DIAG_not_callable,
                      piped ? "behind '|>' stands a layer, a function or a module" :
                      label ? "a label stands behind a layer" : "this cannot be called");
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
        v = apply_builtin(E, b, e, name, piped, args, &step, as);
    if (label && v.kind != DL_V_POISON && !m && (!b || !b->makes)) {
        dl_bad(E, label->at, DL_DIAG_useless_label, "'%s' has no parameters that a label could name", name->name);
        dl_help(E, "put the label behind the layer with parameters");
    }
    return v;
}
