#include "exports/onnx/batch.h"

#include <math.h>

#include "exports/onnx/keep.h"
#include "ir/walk.h"
#include "passes/pass.h"

/* Batch sizes that are compared: N // 2, N % 3 and the like differ. */
enum { FIRST = 60, SECOND = 97 };

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

/* Bounds of slices may follow the batch: all multiples of N, or the end of an axis. */
static bool same_bound(const dl_node *m, const dl_node *n, const dl_attr *a, const dl_attr *b,
                       dl_onnx_sizes *to) {
    const char *axis = dl_node_name(m, DL_ATTR_axis);
    const dl_type *s = &m->in[0]->type, *t = &n->in[0]->type;
    bool ends = a->id == DL_ATTR_stop && a->i == s->axis[dl_type_axis(s, axis)].size &&
                b->i == t->axis[dl_type_axis(t, axis)].size;
    if (a->i == b->i || ends) return true;
    to->cuts[m->out[0].id][a->id == DL_ATTR_stop] = a->i / FIRST;
    return a->i / FIRST * FIRST == a->i && a->i / FIRST * SECOND == b->i;
}

static bool same_attr(const dl_node *m, const dl_node *n, const dl_attr *a, const dl_attr *b,
                      dl_onnx_sizes *to) {
    if (a->id != b->id || a->n != b->n) return false;
    switch (dl_attrs[a->id].kind) {
    case DL_KIND_INT: return m->op == DL_OP_slice ? same_bound(m, n, a, b, to) : a->i == b->i;
    case DL_KIND_FLOAT:
        return a->id == DL_ATTR_doubled || a->f == b->f || (isnan(a->f) && isnan(b->f));
    case DL_KIND_NAME:
    case DL_KIND_STR: return strcmp(a->s, b->s) == 0;
    case DL_KIND_INTS: return memcmp(a->ints, b->ints, sizeof *a->ints * (size_t)a->n) == 0;
    case DL_KIND_NAMES: return memcmp(a->names, b->names, sizeof *a->names * (size_t)a->n) == 0;
    default: return true; /* of collectives */
    }
}

static bool same_attrs(const dl_node *m, const dl_node *n, dl_onnx_sizes *to) {
    for (int i = 0; i < m->nattrs; i++)
        if (i >= n->nattrs || !same_attr(m, n, &m->attrs[i], &n->attrs[i], to)) return false;
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

static bool find_node(const dl_node *m, const dl_node *n, dl_onnx_sizes *to) {
    bool same = m->op == n->op && m->nin == n->nin && m->nout == n->nout && same_attrs(m, n, to);
    for (int k = 0; same && k < m->nin; k++) same = m->in[k]->id == n->in[k]->id;
    for (int k = 0; same && k < m->nout; k++)
        same = m->out[k].id == n->out[k].id &&
               find_per(&m->out[k].type, &n->out[k].type, to->per[m->out[k].id]);
    return same;
}

static const char *compare(const dl_export *e, const dl_graph *b, dl_onnx_sizes *to);

/* Are a scan's bodies the same? Two nodes without bodies are. */
static bool find_body(const dl_export *e, const dl_node *m, const dl_node *n, dl_onnx_sizes *to) {
    if (!m->body || !n->body) return !m->body && !n->body;
    bool same = m->body->results.n == n->body->results.n;
    return same && !compare(e, n->body, to->bodies[m->out[0].id]);
}

/* Compares the graphs; returns why the batch is fixed, or NULL. */
static const char *compare(const dl_export *e, const dl_graph *b, dl_onnx_sizes *to) {
    const dl_graph *a = to->graph;
    for (int i = 0; i < a->vars.n; i++) {
        const dl_var *v = a->vars.at[i], *w = i < b->vars.n ? b->vars.at[i] : NULL;
        if (!w || w->name != v->name || w->value.id != v->value.id ||
            !find_per(&v->value.type, &w->value.type, to->per[v->value.id]))
            return dl_format(e->arena, "'%s' has another type for another batch", v->name);
    }
    for (int i = 0; i < a->nodes.n; i++)
        if (i >= b->nodes.n || !find_node(a->nodes.at[i], b->nodes.at[i], to) ||
            !find_body(e, a->nodes.at[i], b->nodes.at[i], to))
            return dl_format(e->arena, "%s depends on the batch's size",
                             place_of(e, a->nodes.at[i]));
    return a->nodes.n == b->nodes.n ? NULL : "its operations depend on the batch's size";
}

static void make_room(const dl_export *e, dl_onnx_sizes *out) {
    const dl_graph *g = out->graph;
    size_t n = (size_t)g->next_id + 1;
    out->per = dl_alloc_array(e->arena, n, sizeof *out->per);
    out->cuts = dl_alloc_array(e->arena, n, sizeof *out->cuts);
    out->bodies = dl_alloc_array(e->arena, n, sizeof *out->bodies);
    for (int i = 0; i < g->nodes.n; i++) {
        if (!g->nodes.at[i]->body) continue;
        dl_onnx_sizes *own = DL_NEW(e->arena, dl_onnx_sizes);
        own->graph = g->nodes.at[i]->body;
        make_room(e, own);
        out->bodies[g->nodes.at[i]->out[0].id] = own;
    }
}

void dl_onnx_sizes_any(const dl_export *e, dl_onnx_sizes *out) {
    dl_error none = {0};
    *out = (dl_onnx_sizes){.graph = graph_at(e, FIRST, &none)};
    const dl_graph *second = out->graph ? graph_at(e, SECOND, &none) : NULL;
    if (!second) {
        out->why = "the model has no other batch", out->only = true;
        return;
    }
    make_room(e, out);
    out->why = compare(e, second, out);
}

bool dl_onnx_sizes_fixed(const dl_export *e, dl_onnx_sizes *out, dl_error *err) {
    out->graph = graph_at(e, e->net->session->batch, err);
    if (!out->graph) return false;
    make_room(e, out);
    return true;
}

static void describe(dl_onnx *o, const dl_value *v) {
    dl_onnx_value *to = &o->values[v->id];
    to->type = v->type;
    memcpy(to->per, o->sizes->per[v->id], sizeof to->per);
}

void dl_onnx_enter(dl_onnx *o, const dl_onnx_sizes *sizes) {
    const dl_graph *g = sizes->graph;
    o->sizes = sizes;
    o->values = DL_NEWS(o->arena, dl_onnx_value, g->next_id + 1);
    for (int i = 0; i < g->vars.n; i++) describe(o, &g->vars.at[i]->value);
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.at[i]->nout; k++) describe(o, &g->nodes.at[i]->out[k]);
}
