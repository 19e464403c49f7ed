/* Functions of builtins.def that the model language itself defines: a row has the text of an
 * expression in terms of its parameters and of other built-in functions. A call evaluates the text
 * with its arguments (bind.c). Whatever is at fault is reported at the call. */
#include "frontends/dl/builtin.h"

static int find_axes_param(const dl_call *c, const char *name) {
    for (int i = 0; i < DL_MAX_PARAMS && c->what->params[i].name; i++) {
        dl_param_kind kind = c->what->params[i].kind;
        if ((kind == DL_P_AXES || kind == DL_P_AXIS) && strcmp(c->what->params[i].name, name) == 0)
            return i;
    }
    return -1;
}

static void resolve(const dl_call *c, dl_ast *e);

/* x[over=0] and x.over: the axis that the call names. */
static const char *axis_name(const dl_call *c, const char *name) {
    int i = find_axes_param(c, name);
    bool one = i >= 0 && c->given[i] && c->ast[i]->kind == DL_A_NAME;
    return one ? c->ast[i]->name : name;
}

/* Axes are names, not values: `over=over` takes what the call says, or is left out. */
static void resolve_items(const dl_call *c, dl_ast_list *items) {
    int kept = 0;
    for (int i = 0; i < items->list.n; i++) {
        dl_ast *item = items->list.at[i];
        bool named = item->kind == DL_A_ARG && item->name && item->a->kind == DL_A_NAME;
        int axes = named ? find_axes_param(c, item->a->name) : -1;
        if (axes >= 0 && !c->given[axes]) continue;
        resolve(c, item);
        if (axes >= 0) item->a = (dl_ast *)c->ast[axes];
        items->list.at[kept++] = item;
    }
    items->list.n = kept;
}

static void rename_axes(const dl_call *c, dl_ast_list *items) {
    for (int i = 0; i < items->list.n; i++)
        items->list.at[i]->name = axis_name(c, items->list.at[i]->name);
}

/* Gives all nodes of the expression the place of the call. */
static void resolve(const dl_call *c, dl_ast *e) {
    if (!e) return;
    e->span = c->where, e->at = c->name_at;
    resolve(c, e->a), resolve(c, e->b), resolve(c, e->c);
    if (e->kind == DL_A_ATTR) e->name = axis_name(c, e->name);
    if (e->kind == DL_A_INDEX) rename_axes(c, &e->items);
    resolve_items(c, &e->items);
}

dl_ast *dl_formula_of(const dl_call *c) {
    const char *text = dl_format(c->E->arena, "formula() = %s\n", c->what->formula);
    const dl_source *source = dl_source_new(c->E->arena, c->what->name, text, strlen(text));
    const dl_ast *file = dl_parse_file(c->E->arena, source, dl_diags_new(c->E->arena, source));
    dl_ast *e = file->body.list.n == 1 ? file->body.list.at[0]->a : NULL;
    resolve(c, e);
    return e;
}
