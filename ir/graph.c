#include "ir/graph.h"

#include <stdlib.h>

#include "ir/collective.h"
#include "ir/infer.h"

const char *const dl_var_roles[DL_NVAR_ROLES] = {"input", "target", "param", "state",
                                                 "hyper", "table",  "copy"};
const char *const dl_init_kinds[DL_NINITS] = {"zero",         "const",   "normal",
                                              "trunc_normal", "uniform", "given"};
const char *const dl_result_roles[DL_NRESULT_ROLES] = {"output", "loss",   "metric",    "figure",
                                                       "grad",   "update", "objective", "measure"};

dl_module *dl_module_new(dl_arena *parent) {
    dl_arena *arena = dl_arena_new(parent);
    dl_module *m = DL_NEW(arena, dl_module);
    m->arena = arena;
    return m;
}

dl_graph *dl_module_graph(const dl_module *m, const char *name) {
    for (int i = 0; i < m->graphs.n; i++)
        if (strcmp(m->graphs.at[i]->name, name) == 0) return m->graphs.at[i];
    return NULL;
}

dl_graph *dl_graph_new(dl_module *m, const char *name) {
    dl_graph *g = DL_NEW(m->arena, dl_graph);
    g->module = m;
    g->name = dl_intern(name);
    dl_push(m->arena, &m->graphs, g);
    return g;
}

dl_var *dl_graph_var(dl_graph *g, dl_var_role role, const char *name, dl_type type, dl_init init,
                     dl_loc loc) {
    dl_var *v = DL_NEW(g->module->arena, dl_var);
    *v = (dl_var){.role = role, .name = dl_intern(name), .init = init, .loc = loc};
    v->value = (dl_value){.id = g->next_id++, .var = v, .type = type, .offset = -1};
    dl_push(g->module->arena, &g->vars, v);
    return v;
}

dl_type dl_piece_whole(dl_type type, const dl_var_piece *piece) {
    for (int i = piece->n - 1; i >= 0; i--) type.axis[piece->cut[i].axis].size = piece->cut[i].size;
    return type;
}

dl_share dl_cut_share(const dl_var_cut *c) {
    return dl_share_of(c->size / c->parts, c->ranks, c->rank);
}

int64_t dl_piece_at(const dl_var_piece *piece, int axis, int64_t at, int64_t *n) {
    for (int i = piece->n - 1; i >= 0; i--) {
        const dl_var_cut *c = &piece->cut[i];
        dl_share own = dl_cut_share(c);
        if (c->axis != axis) continue;
        int64_t part = c->parts > 1 && own.n ? at / own.n : 0, in = at - part * own.n;
        if (c->parts > 1 && *n > own.n - in) *n = own.n - in;
        at = part * (c->size / c->parts) + own.first + in;
    }
    return at;
}

bool dl_piece_fits(const dl_type *type, const dl_var_piece *piece) {
    dl_type whole = *type;
    bool ok = piece->n >= 0 && piece->n <= DL_MAX_CUTS;
    for (int i = ok ? piece->n - 1 : -1; ok && i >= 0; i--) {
        const dl_var_cut *c = &piece->cut[i];
        ok = c->group && *c->group && c->axis >= 0 && c->axis < type->rank && c->ranks >= 1 &&
             c->rank >= 0 && c->rank < c->ranks && c->size >= 0 && c->parts >= 1 &&
             c->size % c->parts == 0 && (c->parts == 1 || c->axis == 0) &&
             dl_cut_share(c).n * c->parts == whole.axis[c->axis].size;
        if (ok) whole.axis[c->axis].size = c->size;
    }
    whole.layout = (dl_layout){0};
    return ok && (!piece->n || dl_infer_type(&whole, &(dl_shape_fault){0}));
}

dl_var *dl_graph_table(dl_graph *g, const char *name, dl_type type, int n, const double *numbers,
                       dl_loc loc) {
    dl_var *v = dl_graph_var(g, DL_VAR_TABLE, name, type, (dl_init){0}, loc);
    v->numbers.at = DL_NEWS(g->module->arena, double, n + 1);
    v->numbers.n = v->numbers.cap = n;
    if (n) memcpy(v->numbers.at, numbers, sizeof *numbers * (size_t)n);
    return v;
}

dl_var *dl_graph_find_var(const dl_graph *g, const char *name) {
    for (int i = 0; i < g->vars.n; i++)
        if (strcmp(g->vars.at[i]->name, name) == 0) return g->vars.at[i];
    return NULL;
}

bool dl_graph_updates(const dl_graph *g) {
    bool any = false;
    for (int i = 0; i < g->results.n; i++) any |= g->results.at[i].role == DL_RESULT_UPDATE;
    return any;
}

static int by_name(const void *a, const void *b) {
    uintptr_t p = (uintptr_t)(*(const dl_var *const *)a)->name,
              q = (uintptr_t)(*(const dl_var *const *)b)->name;
    return (p > q) - (p < q);
}

dl_var_set dl_var_set_new(const dl_graph *g, dl_arena *arena) {
    dl_var_set s = {DL_NEWS(arena, const dl_var *, g->vars.n + 1), g->vars.n};
    for (int i = 0; i < s.n; i++) s.by_name[i] = g->vars.at[i];
    qsort(s.by_name, (size_t)s.n, sizeof *s.by_name, by_name);
    return s;
}

dl_var *dl_var_set_find(const dl_var_set *s, const char *name) {
    dl_var key = {.name = name}, *p = &key;
    dl_var **found = bsearch(&p, s->by_name, (size_t)s->n, sizeof *s->by_name, by_name);
    return found ? *found : NULL;
}

dl_result *dl_graph_result(dl_graph *g, dl_result_role role, const char *name, dl_value *value,
                           dl_var *var) {
    dl_push(g->module->arena, &g->results, (dl_result){role, dl_intern(name), value, var, NULL});
    return &g->results.at[g->results.n - 1];
}

dl_result *dl_graph_find_result(const dl_graph *g, dl_result_role role, const char *name) {
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].role == role && (!name || strcmp(g->results.at[i].name, name) == 0))
            return &g->results.at[i];
    return NULL;
}

dl_node *dl_node_new(dl_graph *g, dl_op op, int nin, dl_value *const *in, int nout,
                     const dl_type *types, dl_loc loc) {
    dl_arena *a = g->module->arena;
    dl_node *n = DL_NEW(a, dl_node);
    *n = (dl_node){.op = op, .nin = nin, .nout = nout, .loc = loc};
    n->in = DL_NEWS(a, dl_value *, nin ? nin : 1);
    if (nin) memcpy(n->in, in, sizeof *in * (size_t)nin);
    /* A scan may get a result more for each state, and for some others (dl_scan_add_output). */
    n->out = DL_NEWS(a, dl_value, nout + (op == DL_OP_scan ? nin + DL_SCAN_KEPT : 0));
    for (int i = 0; i < nout; i++)
        n->out[i] =
            (dl_value){.id = g->next_id++, .def = n, .index = i, .type = types[i], .offset = -1};
    n->attrs = DL_NEWS(a, dl_attr, DL_MAX_ATTRS);
    return n;
}

dl_node *dl_node_append(dl_graph *g, dl_op op, int nin, dl_value *const *in, int nout,
                        const dl_type *types, dl_loc loc) {
    dl_node *n = dl_node_new(g, op, nin, in, nout, types, loc);
    dl_push(g->module->arena, &g->nodes, n);
    return n;
}

const dl_attr *dl_node_attr(const dl_node *n, dl_attr_id id) {
    for (int i = 0; i < n->nattrs; i++)
        if (n->attrs[i].id == id) return &n->attrs[i];
    return NULL;
}

bool dl_names_have(int n, const char *const *names, const char *name) {
    for (int i = 0; i < n; i++)
        if (names[i] == name) return true;
    return false;
}

bool dl_node_lists(const dl_node *n, dl_attr_id id, const char *name) {
    const dl_attr *a = dl_node_attr(n, id);
    return a && dl_names_have(a->n, a->names, name);
}

void dl_node_set(dl_graph *g, dl_node *n, dl_attr attr) {
    (void)g;
    int at = 0;
    while (at < n->nattrs && n->attrs[at].id < attr.id) at++;
    if (at == n->nattrs || n->attrs[at].id != attr.id) {
        DL_CHECK(n->nattrs < DL_MAX_ATTRS);
        memmove(&n->attrs[at + 1], &n->attrs[at], sizeof attr * (size_t)(n->nattrs - at));
        n->nattrs++;
    }
    n->attrs[at] = attr;
}

double dl_node_float(const dl_node *n, dl_attr_id id) {
    const dl_attr *a = dl_node_attr(n, id);
    DL_CHECK(a);
    return a->f;
}

int64_t dl_node_int(const dl_node *n, dl_attr_id id) {
    const dl_attr *a = dl_node_attr(n, id);
    DL_CHECK(a);
    return a->i;
}

const char *dl_node_name(const dl_node *n, dl_attr_id id) {
    const dl_attr *a = dl_node_attr(n, id);
    DL_CHECK(a);
    return a->s;
}
