#include "exports/onnx/batch.h"

#include "exports/onnx/keep.h"
#include "ir/walk.h"
#include "passes/pass.h"

enum { FIRST = 2, SECOND = 3 }; /* batch sizes that are compared; 1 would hide an axis */

static const char *place_of(const dl_export *e, const dl_node *n) {
    return dl_format(e->arena, "'%s' (%s:%d)", dl_ops[n->op].name, n->loc.file ? n->loc.file : "?",
                     n->loc.line);
}

/* The graph at a batch; NULL with an error. */
static const dl_graph *graph_at(const dl_export *e, int64_t batch, dl_error *err) {
    dl_session at = *e->net->session;
    at.batch = batch;
    if (!dl_session_predict(&at, 0, NULL, err)) return NULL;
    dl_pass_ctx ctx = {.arena = e->arena, .keeps = dl_onnx_keeps, .err = err};
    if (!dl_run_passes(at.module, "lower", &ctx, (dl_pass_options){0})) return NULL;
    dl_graph_sweep(at.module->graphs.at[0]);
    return at.module->graphs.at[0];
}

/* ---- comparing two graphs ---- */

/* A slice up to the end of an axis reads it to its end for every size. */
static bool same_stop(const dl_node *a, const dl_node *b) {
    const char *axis = dl_node_name(a, DL_ATTR_axis);
    const dl_type *s = &a->in[0]->type, *t = &b->in[0]->type;
    return dl_node_int(a, DL_ATTR_stop) == s->axis[dl_type_axis(s, axis)].size &&
           dl_node_int(b, DL_ATTR_stop) == t->axis[dl_type_axis(t, axis)].size;
}

static bool same_attr(const dl_node *m, const dl_node *n, const dl_attr *a, const dl_attr *b) {
    if (a->id != b->id || a->n != b->n) return false;
    switch (dl_attrs[a->id].kind) {
    case DL_KIND_INT:
        return a->i == b->i || (a->id == DL_ATTR_stop && m->op == DL_OP_slice && same_stop(m, n));
    case DL_KIND_FLOAT:
        return a->id == DL_ATTR_doubled || a->f == b->f || (a->f != a->f && b->f != b->f);
    case DL_KIND_NAME:
    case DL_KIND_STR: return strcmp(a->s, b->s) == 0;
    case DL_KIND_INTS: return memcmp(a->ints, b->ints, sizeof *a->ints * (size_t)a->n) == 0;
    case DL_KIND_NAMES: return memcmp(a->names, b->names, sizeof *a->names * (size_t)a->n) == 0;
    default: return true; /* of collectives */
    }
}

static bool same_attrs(const dl_node *m, const dl_node *n) {
    for (int i = 0; i < m->nattrs; i++)
        if (i >= n->nattrs || !same_attr(m, n, &m->attrs[i], &n->attrs[i])) return false;
    return m->nattrs == n->nattrs;
}

/* The sizes of a value, as multiples of N. False: a size is neither that nor constant. */
static bool find_per(const dl_type *a, const dl_type *b, int64_t per[DL_MAX_RANK]) {
    if (a->rank != b->rank || a->dtype != b->dtype) return false;
    for (int i = 0; i < a->rank; i++) {
        int64_t s = a->axis[i].size, t = b->axis[i].size;
        per[i] = s == t ? 0 : s / FIRST;
        if (a->axis[i].name != b->axis[i].name) return false;
        if (s != t && (per[i] * FIRST != s || per[i] * SECOND != t)) return false;
    }
    return true;
}

static bool find_node(const dl_node *m, const dl_node *n, int64_t (*per)[DL_MAX_RANK]) {
    bool same = m->op == n->op && m->nin == n->nin && m->nout == n->nout && same_attrs(m, n);
    for (int k = 0; same && k < m->nin; k++) same = m->in[k]->id == n->in[k]->id;
    for (int k = 0; same && k < m->nout; k++)
        same = m->out[k].id == n->out[k].id &&
               find_per(&m->out[k].type, &n->out[k].type, per[m->out[k].id]);
    return same;
}

/* Compares the graphs; returns why the batch is fixed, or NULL. */
static const char *compare(const dl_export *e, const dl_graph *a, const dl_graph *b,
                           int64_t (*per)[DL_MAX_RANK]) {
    for (int i = 0; i < a->vars.n; i++) {
        const dl_var *v = a->vars.at[i], *w = i < b->vars.n ? b->vars.at[i] : NULL;
        if (!w || w->name != v->name || w->value.id != v->value.id ||
            !find_per(&v->value.type, &w->value.type, per[v->value.id]))
            return dl_format(e->arena, "'%s' has another type for another batch", v->name);
    }
    for (int i = 0; i < a->nodes.n; i++)
        if (i >= b->nodes.n || !find_node(a->nodes.at[i], b->nodes.at[i], per))
            return dl_format(e->arena, "%s depends on the size of the batch",
                             place_of(e, a->nodes.at[i]));
    return a->nodes.n == b->nodes.n ? NULL : "its operations depend on the size of the batch";
}

static void make_room(const dl_export *e, dl_onnx_sizes *out) {
    size_t n = (size_t)out->graph->next_id + 1;
    out->per = dl_alloc_array(e->arena, n, sizeof *out->per);
}

void dl_onnx_sizes_any(const dl_export *e, dl_onnx_sizes *out) {
    dl_error none = {0};
    *out = (dl_onnx_sizes){.graph = graph_at(e, FIRST, &none)};
    const dl_graph *second = out->graph ? graph_at(e, SECOND, &none) : NULL;
    if (!second) {
        out->why = dl_format(e->arena, "the model has no other batch (%s)", none.message);
        return;
    }
    make_room(e, out);
    out->why = compare(e, out->graph, second, out->per);
}

bool dl_onnx_sizes_fixed(const dl_export *e, dl_onnx_sizes *out, dl_error *err) {
    out->graph = graph_at(e, e->net->session->batch, err);
    if (!out->graph) return false;
    make_room(e, out);
    return true;
}
