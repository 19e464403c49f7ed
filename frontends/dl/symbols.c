#include "frontends/dl/symbols.h"

#include "frontends/dl/elab.h"

const char *const dl_symbol_kinds[DL_N_SYMBOL_KINDS] = {
    "module", "model", "function", "argument", "input", "target", "parameter", "buffer", "value"};

/* The names that a part of the text sees: those of its own, then those of the part around it. */
typedef struct names names;
struct names {
    names *around;
    dl_span text;
    DL_ARRAY(int) own;
};

typedef struct {
    dl_arena *arena;
    dl_symbols *out;
    DL_ARRAY(names *) arguments; /* by symbol: the names of a module's inside; or NULL */
} resolver;

/* ---- definitions ---- */

static int find_own(const resolver *r, const names *n, const char *name) {
    for (int i = 0; i < n->own.n; i++)
        if (r->out->list.at[n->own.at[i]].name == name) return n->own.at[i];
    return -1;
}

static int find(const resolver *r, const names *n, const char *name) {
    for (; n; n = n->around) {
        int found = find_own(r, n, name);
        if (found >= 0) return found;
    }
    return -1;
}

static int define(resolver *r, names *n, const dl_ast *s, dl_symbol_kind kind, int outer) {
    int found = find_own(r, n, s->name);
    if (found >= 0) return found;
    dl_push(r->arena, &r->out->list, (dl_symbol){s->name, kind, s->at, s->span, n->text, outer});
    dl_push(r->arena, &r->arguments, NULL);
    dl_push(r->arena, &n->own, r->out->list.n - 1);
    return r->out->list.n - 1;
}

static bool kind_of(dl_ast_kind node, dl_symbol_kind *kind) {
    switch (node) {
    case DL_A_MODULE: *kind = DL_SYMBOL_MODULE; return true;
    case DL_A_MODEL: *kind = DL_SYMBOL_MODEL; return true;
    case DL_A_FUNCTION: *kind = DL_SYMBOL_FUNCTION; return true;
    case DL_A_INPUT: *kind = DL_SYMBOL_INPUT; return true;
    case DL_A_TARGET: *kind = DL_SYMBOL_TARGET; return true;
    case DL_A_PARAMETER: *kind = DL_SYMBOL_PARAMETER; return true;
    case DL_A_BUFFER: *kind = DL_SYMBOL_BUFFER; return true;
    case DL_A_ASSIGN:
    case DL_A_AUGMENT:
    case DL_A_FOR: *kind = DL_SYMBOL_VALUE; return true;
    default: return false;
    }
}

static names *inside(resolver *r, names *around, dl_span text) {
    names *n = DL_NEW(r->arena, names);
    n->around = around, n->text = text;
    return n;
}

static void define_arguments(resolver *r, names *n, const dl_ast_list *list, int outer) {
    for (int i = 0; i < list->list.n; i++)
        define(r, n, list->list.at[i], DL_SYMBOL_ARGUMENT, outer);
}

static void define_list(resolver *r, names *n, const dl_ast_list *list);

/* y, h = ... */
static void define_items(resolver *r, names *n, const dl_ast *s) {
    for (int i = 0; i < s->items.list.n; i++)
        define(r, n, s->items.list.at[i], DL_SYMBOL_VALUE, -1);
}

/* Loops and conditions have no names of their own. */
static void define_statement(resolver *r, names *n, const dl_ast *s) {
    dl_symbol_kind kind;
    if (kind_of(s->kind, &kind)) {
        int symbol = define(r, n, s, kind, -1);
        bool opens = s->kind == DL_A_MODULE || s->kind == DL_A_MODEL || s->kind == DL_A_FUNCTION;
        if (opens && !r->arguments.at[symbol]) {
            names *own = r->arguments.at[symbol] = inside(r, n, s->span);
            define_arguments(r, own, &s->items, symbol);
            if (s->kind == DL_A_MODULE) define_arguments(r, own, &s->more, symbol);
            define_list(r, own, &s->body);
            return;
        }
    }
    if (s->kind == DL_A_UNPACK) define_items(r, n, s);
    if (s->kind == DL_A_FOR || s->kind == DL_A_IF) define_list(r, n, &s->body);
    if (s->kind == DL_A_IF) define_list(r, n, &s->more);
}

static void define_list(resolver *r, names *n, const dl_ast_list *list) {
    for (int i = 0; i < list->list.n; i++) define_statement(r, n, list->list.at[i]);
}

/* ---- places ---- */

static void put_place(resolver *r, names *n, const char *name, dl_span where, bool defines) {
    int symbol = find(r, n, name);
    if (symbol >= 0) dl_push(r->arena, &r->out->places, (dl_symbol_place){where, symbol, defines});
}

static void visit(resolver *r, names *n, const dl_ast *e);

static void visit_list(resolver *r, names *n, const dl_ast_list *list) {
    for (int i = 0; i < list->list.n; i++) visit(r, n, list->list.at[i]);
}

/* Axes of a type or of an `as`: only stated sizes are expressions. */
static void visit_axes(resolver *r, names *n, const dl_ast_list *list) {
    for (int i = 0; i < list->list.n; i++)
        if (list->list.at[i]->name) visit(r, n, list->list.at[i]->a);
}

/* The parameter that argument i of a call is bound to; NULL: none, or one of any number. */
static const dl_param_spec *param_of(const dl_builtin *f, const dl_ast *arg, int i, bool piped) {
    for (int k = 0; k < DL_MAX_PARAMS && f->params[k].name; k++) {
        if (arg->name ? strcmp(f->params[k].name, arg->name) == 0 : k == i + piped)
            return &f->params[k];
        if (!arg->name && f->params[k].kind == DL_P_REST) return NULL;
    }
    return NULL;
}

/* Whether argument i of a call names axes, so that its words are no values. */
static bool names_axes(const dl_builtin *f, const dl_ast *arg, int i, bool piped) {
    const dl_param_spec *p = f ? param_of(f, arg, i, piped) : NULL;
    return p && (p->kind == DL_P_AXES || p->kind == DL_P_AXIS);
}

/* The name that a call begins with: of `f(a)(b)` it is f. */
static const dl_ast *callee_of(const dl_ast *e) {
    while (e->kind == DL_A_CALL) e = e->a;
    return e->kind == DL_A_NAME ? e : NULL;
}

/* The symbol that is called: a value or an argument hides no built-in function of its name. */
static int find_called(const resolver *r, const names *n, const char *name) {
    int found = find(r, n, name);
    bool own = found >= 0 && r->arguments.at[found];
    return own || !dl_builtin_find(name) ? found : -1;
}

/* A keyword is an argument of the module or function that is called. */
static void visit_call(resolver *r, names *n, const dl_ast *e, bool piped) {
    const dl_ast *callee = callee_of(e);
    int called = callee ? find_called(r, n, callee->name) : -1;
    names *own = called >= 0 ? r->arguments.at[called] : NULL;
    const dl_builtin *f = called < 0 && callee ? dl_builtin_find(callee->name) : NULL;
    if (e->a->kind == DL_A_CALL)
        visit_call(r, n, e->a, piped);
    else if (!f)
        visit(r, n, e->a);
    for (int i = 0; i < e->items.list.n; i++) {
        const dl_ast *arg = e->items.list.at[i];
        if (arg->name && own && find_own(r, own, arg->name) >= 0)
            put_place(r, own, arg->name, arg->at, false);
        if (!names_axes(f, arg, i, piped)) visit(r, n, arg->a);
    }
}

static void visit_step(resolver *r, names *n, const dl_ast *e, bool piped) {
    if (e->kind == DL_A_CALL) {
        visit_call(r, n, e, piped);
        return;
    }
    if (e->kind == DL_A_NAME) { /* x |> relu */
        if (find_called(r, n, e->name) >= 0) put_place(r, n, e->name, e->span, false);
        return;
    }
    visit_step(r, n, e->a, piped); /* a label */
    visit_list(r, n, &e->items);
}

static bool is_step(const dl_ast *e, bool piped) {
    while (e && e->kind == DL_A_LABEL) e = e->a; /* one of `optimize` has no layer */
    return e && (e->kind == DL_A_CALL || (piped && e->kind == DL_A_NAME));
}

/* Modules, models and functions, whose inside has names of its own. */
static void visit_inside(resolver *r, names *n, const dl_ast *s) {
    int symbol = find_own(r, n, s->name);
    names *own = symbol < 0 ? NULL : r->arguments.at[symbol];
    if (!own) return;
    const dl_ast_list *lists[] = {&s->items, s->kind == DL_A_MODULE ? &s->more : NULL};
    for (int k = 0; k < 2 && lists[k]; k++)
        for (int i = 0; i < lists[k]->list.n; i++) {
            const dl_ast *p = lists[k]->list.at[i];
            put_place(r, own, p->name, p->at, true);
            if (p->a) visit(r, n, p->a);
            if (p->b) visit(r, own, p->b);
        }
    if (s->a) visit(r, own, s->a);
    visit_list(r, own, &s->body);
}

static void visit_comprehension(resolver *r, names *n, const dl_ast *e) {
    names *own = inside(r, n, e->span);
    visit(r, n, e->b);
    define(r, own, e, DL_SYMBOL_VALUE, -1);
    put_place(r, own, e->name, e->at, true);
    visit(r, own, e->a);
    if (e->c) visit(r, own, e->c);
}

static void visit(resolver *r, names *n, const dl_ast *e) {
    dl_symbol_kind kind;
    if (kind_of(e->kind, &kind)) put_place(r, n, e->name, e->at, true);
    switch (e->kind) {
    case DL_A_NAME: put_place(r, n, e->name, e->span, false); return;
    case DL_A_STR:
    case DL_A_BAD: return;
    case DL_A_MODULE:
    case DL_A_MODEL:
    case DL_A_FUNCTION: visit_inside(r, n, e); return;
    case DL_A_COMP: visit_comprehension(r, n, e); return;
    case DL_A_TYPE: visit_axes(r, n, &e->items); return;
    case DL_A_UNPACK:
        for (int i = 0; i < e->items.list.n; i++)
            put_place(r, n, e->items.list.at[i]->name, e->items.list.at[i]->at, true);
        visit(r, n, e->a);
        return;
    case DL_A_AS:
        visit(r, n, e->a);
        visit_axes(r, n, &e->items);
        return;
    case DL_A_INIT: /* names of layers, and what they begin with */
        visit_list(r, n, &e->more);
        return;
    default: break;
    }
    if (is_step(e, false)) {
        visit_step(r, n, e, false);
        return;
    }
    if (e->a) visit(r, n, e->a);
    if (e->b && e->kind == DL_A_PIPE && is_step(e->b, true))
        visit_step(r, n, e->b, true);
    else if (e->b)
        visit(r, n, e->b);
    if (e->c) visit(r, n, e->c);
    visit_list(r, n, &e->items), visit_list(r, n, &e->body), visit_list(r, n, &e->more);
}

dl_symbols *dl_symbols_of(dl_arena *arena, const dl_source *source) {
    resolver r = {.arena = arena, .out = DL_NEW(arena, dl_symbols)};
    if (source->n > DL_SOURCE_LIMIT || dl_source_bad_byte(source) >= 0) return r.out;
    const dl_ast *file = dl_parse_file(arena, source, dl_diags_new(arena, source));
    names *all = inside(&r, NULL, (dl_span){0, (uint32_t)source->n});
    define_list(&r, all, &file->body);
    visit_list(&r, all, &file->body);
    return r.out;
}

const dl_symbol_place *dl_symbols_at(const dl_symbols *s, uint32_t at) {
    for (int i = 0; i < s->places.n; i++)
        if (s->places.at[i].where.begin <= at && at <= s->places.at[i].where.end)
            return &s->places.at[i];
    return NULL;
}
