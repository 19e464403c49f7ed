/* Fusion, first half: which nodes become one kernel.
 *
 * From the end of the graph to its beginning, a node joins the kernel of its readers when they compute on the
 * same points (a soft edge): so a contraction's accumulator flows into its bias, activation, residual and
 * even the parameter update without touching memory, and a value that several kernels read point by point
 * brings these together. Reading at other points (a contraction's operand, a view, a broadcast) is a hard
 * edge: it goes through memory and thus between two kernels. A kernel has at most one contraction and reduces
 * over one set of axes. A join that would make kernels wait for each other in a circle is refused. */
#include "passes/fuse.h"

#include <stdlib.h>

#include "ir/walk.h"

/* The same axes in any order; those without a name have size 1 and are alike. */
static bool same_axes(const dl_type *a, const dl_type *b) {
    int unnamed = 0;
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++) {
        int k = *a->axis[i].name ? dl_type_axis(b, a->axis[i].name) : -1;
        if (*a->axis[i].name && (k < 0 || b->axis[k].size != a->axis[i].size)) return false;
        unnamed += !*a->axis[i].name - !*b->axis[i].name;
    }
    return unnamed == 0;
}

static bool is_wide_type(const dl_type *t) { return t->dtype == DL_F64 || t->dtype == DL_I64; }

bool dl_fuse_is_wide(const dl_node *n) {
    bool wide = is_wide_type(&n->out[0].type);
    for (int i = 0; i < n->nin; i++) wide |= is_wide_type(&n->in[i]->type);
    return wide;
}

/* Ops that compute one value a point from operands at the same point. */
static bool is_pointwise(dl_op op) { return dl_ops[op].class == DL_CLASS_ELEM || op == DL_OP_relayout; }

bool dl_fuse_numbered(dl_op op) { return op == DL_OP_gather || op == DL_OP_scatter_add; }

static bool is_view(dl_op op) {
    return !dl_fuse_numbered(op) &&
           (dl_ops[op].class == DL_CLASS_SOURCE ||
            (dl_ops[op].class == DL_CLASS_MOVE && op != DL_OP_cat && op != DL_OP_relayout));
}

bool dl_fuse_inlined(const dl_fusion *f, const dl_node *n) {
    return is_view(n->op) && !f->stored[n->out[0].id];
}

/* Is operand k of a contraction the weight of windows, which is read as it is or as a slice? */
static bool is_weight(const dl_node *n, int k) { return dl_op_tensor(n->op, k) == DL_TENSOR_W; }

/* Does the contraction make a weight, whose panels the rest of its kernel runs straight through? */
static bool makes_weight(const dl_node *n) { return is_weight(n, DL_RESULT_PLACE); }

int dl_fuse_parts(const dl_node *n, int k, dl_value *parts[4]) {
    dl_value *v = n->in[k];
    parts[0] = v;
    if (!v->def || v->def->op != DL_OP_cat || v->def->nin > 4 || is_weight(n, k)) return 1;
    if (dl_node_windows(n).groups > 1) return 1; /* whose channels end elsewhere than the parts */
    if (v->type.axis[1].name != dl_node_name(v->def, DL_ATTR_axis)) return 1;
    int weight = dl_op_place(n->op, DL_TENSOR_W);
    bool lanes = dl_op_tensor(n->op, k) == DL_TENSOR_Y; /* its channels lie along the weight's lanes */
    int width = lanes ? (weight == DL_RESULT_PLACE ? n->out[0] : *n->in[weight]).type.layout.width : 1;
    for (int i = 0; i < v->def->nin; i++) {
        if (i + 1 < v->def->nin && v->def->in[i]->type.axis[1].size % width) return 1;
        if (v->def->in[i]->type.layout.kind != DL_CL) return 1;
        parts[i] = v->def->in[i];
    }
    return v->def->nin;
}

/* What a contraction reads in place of operand k, past views: up to 4 values. A weight's slice begins at row
 * *start, otherwise 0. */
static int read_by(const dl_node *n, int k, dl_value *values[4], int64_t *start) {
    const char *names[DL_MAX_RANK];
    *start = 0;
    if (dl_op_slides(n->op) && !is_weight(n, k)) return dl_fuse_parts(n, k, values);
    values[0] = is_weight(n, k) ? dl_fuse_weight(n, k, start) : dl_fuse_named(n, k, names);
    return 1;
}

/* A view that gives axes other names or another order, and nothing else. */
static bool is_renaming(const dl_node *n) {
    return n->op == DL_OP_rename || (n->op == DL_OP_broadcast && same_axes(&n->in[0]->type, &n->out[0].type));
}

dl_value *dl_fuse_named(const dl_node *n, int k, const char *names[DL_MAX_RANK]) {
    dl_value *v = n->in[k];
    for (int i = 0; i < v->type.rank; i++) names[i] = v->type.axis[i].name;
    while (v->def && is_renaming(v->def)) {
        dl_value *of = v->def->in[0];
        if (of->type.layout.kind == DL_PANEL) break; /* read as it is, and stored */
        const char *known[DL_MAX_RANK];
        memcpy(known, names, sizeof known);
        for (int i = 0; i < of->type.rank && v->def->op == DL_OP_broadcast; i++)
            names[i] = known[dl_type_axis(&v->type, of->type.axis[i].name)];
        v = of;
    }
    return v;
}

dl_value *dl_fuse_weight(const dl_node *n, int k, int64_t *start) {
    dl_value *w = n->in[k];
    *start = 0;
    if (dl_op_tensor(n->op, DL_RESULT_PLACE) != DL_TENSOR_Y || !w->def || w->def->op != DL_OP_slice) return w;
    dl_value *whole = w->def->in[0];
    int64_t first = dl_node_int(w->def, DL_ATTR_start), width = whole->type.layout.width;
    if (whole->type.layout.kind != DL_PANEL || dl_node_name(w->def, DL_ATTR_axis) != whole->type.axis[0].name)
        return w;
    if (first % width || dl_node_windows(n).groups > 1) return w;
    *start = first;
    return whole;
}

/* ---- edges ---- */

static void mark_stored(dl_fusion *f, dl_value *v) {
    if (v->def && is_view(v->def->op)) f->stored[v->id] = true;
}

/* A source is made anew at its reader's coordinates, if those are plain ones. */
static bool makes_source(const dl_type *space, const dl_value *v, const dl_index *index) {
    for (int i = 0; i < v->type.rank; i++)
        if (index[i].nterms || index[i].div > 1 ||
            (index[i].outside != DL_OUT_ANY &&
             !dl_index_inside(space->axis, &index[i], v->type.axis[i].size)))
            return false;
    return true;
}

/* A view that a reader over `space` cannot read through, at `index` of v, must exist in memory. */
static void store_unreadable(dl_fusion *f, const dl_type *space, dl_value *v, dl_index *index) {
    while (v->def && dl_fuse_inlined(f, v->def)) {
        bool source = dl_ops[v->def->op].class == DL_CLASS_SOURCE;
        if (!(source ? makes_source(space, v, index) : dl_fuse_through_view(space->axis, v->def, index))) {
            mark_stored(f, v);
            return;
        }
        if (source) return;
        v = v->def->in[0];
    }
}

/* What node n reads through views it must be able to read. */
static void store_unreadables(dl_fusion *f, const dl_node *n) {
    const dl_type *space = dl_ops[n->op].class == DL_CLASS_REDUCE ? &n->in[0]->type : &n->out[0].type;
    bool view = is_view(n->op);
    int64_t start = 0;
    for (int k = 0; k < n->nin; k++) {
        const dl_type *t = view ? &n->out[0].type : &n->in[k]->type;
        dl_index index[DL_MAX_RANK] = {0};
        for (int i = 0; i < t->rank; i++)
            index[i].axis = *t->axis[i].name ? dl_type_axis(space, t->axis[i].name) : -1;
        if (n->op == DL_OP_cat) start += dl_fuse_part_index(n, k, start, index);
        if (view) DL_CHECK(dl_fuse_through_view(space->axis, n, index));
        store_unreadable(f, space, n->in[k], index);
    }
}

/* Views that contractions, results and other views cannot take in must exist in memory. */
static void find_stored(dl_fusion *f) {
    dl_graph *g = f->graph;
    for (int i = 0; i < g->results.n; i++) mark_stored(f, g->results.at[i].value);
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        dl_node *n = g->nodes.at[i];
        if (dl_ops[n->op].class == DL_CLASS_CONTRACT) {
            for (int k = 0; k < 2; k++) {
                int64_t start;
                dl_value *values[4];
                int count = read_by(n, k, values, &start);
                for (int v = 0; v < count; v++) mark_stored(f, values[v]);
            }
        }
        for (int k = 0; k < 2 && dl_fuse_numbered(n->op); k++)
            mark_stored(f, n->in[k]); /* read as they are */
        if (dl_ops[n->op].class == DL_CLASS_CONTRACT || dl_fuse_inlined(f, n)) continue;
        store_unreadables(f, n);
    }
}

static void add_edges(dl_fusion *f, dl_value *v, int reader, bool soft) {
    while (v->def && dl_fuse_inlined(f, v->def)) {
        if (dl_ops[v->def->op].class == DL_CLASS_SOURCE) {
            for (int i = 0; i < v->def->nin; i++) add_edges(f, v->def->in[i], reader, false);
            return;
        }
        v = v->def->in[0], soft = false;
    }
    if (v->def) dl_push(f->ctx->arena, &f->out[f->position[v->id]], (dl_edge){reader, soft});
}

static void find_edges(dl_fusion *f) {
    f->out = DL_NEWS(f->ctx->arena, dl_edges, f->n ? f->n : 1);
    for (int i = 0; i < f->n; i++) {
        dl_node *n = f->graph->nodes.at[i];
        if (dl_fuse_inlined(f, n)) continue;
        bool contract = dl_ops[n->op].class == DL_CLASS_CONTRACT;
        for (int k = 0; k < n->nin; k++) {
            if (contract) {
                int64_t start;
                dl_value *values[4];
                int count = read_by(n, k, values, &start);
                for (int v = 0; v < count; v++) add_edges(f, values[v], i, false);
            } else {
                bool soft = is_pointwise(n->op) ? same_axes(&n->in[k]->type, &n->out[0].type)
                                                : dl_ops[n->op].class == DL_CLASS_REDUCE;
                add_edges(f, n->in[k], i, soft);
            }
        }
    }
}

/* ---- is a join legal? ---- */

static bool same_reduction(const dl_node *a, const dl_node *b) {
    return same_axes(&a->in[0]->type, &b->in[0]->type) && same_axes(&a->out[0].type, &b->out[0].type);
}

/* Beside a contraction only sums that keep nothing or its channels are taken: each unit of work leaves a
 * partial result of what is kept. */
static bool sums_beside(const dl_node *anchor, const dl_node *reduce) {
    if (!dl_op_slides(anchor->op) || makes_weight(anchor) || reduce->op == DL_OP_reduce_max ||
        reduce->op == DL_OP_reduce_min)
        return false;
    const dl_type *kept = &reduce->out[0].type;
    return kept->rank == 0 || (kept->rank == 1 && kept->axis[0].name == anchor->out[0].type.axis[1].name);
}

/* A kernel is one C function, and a C compiler's time grows faster than its length: chains of hundreds of
 * nodes become several kernels. */
enum { MOST_MEMBERS = 128 };

/* A weight gradient's program runs straight through its panels: what a member reads beside them lies in the
 * same panels, or is a scalar or a constant. A view, which is read at other places, is none of these. */
static bool fits_panels(const dl_fusion *f, const dl_node *n) {
    const dl_type *t = &n->out[0].type;
    for (int i = 0; i < n->nin; i++) {
        const dl_value *v = n->in[i];
        bool viewed = false;
        for (; v->def && dl_fuse_inlined(f, v->def) && dl_ops[v->def->op].class == DL_CLASS_MOVE;
             viewed = true)
            v = v->def->in[0];
        if (v->def && v->def->op == DL_OP_random && dl_fuse_inlined(f, v->def)) return false;
        bool constant = v->def && v->def->op == DL_OP_const;
        if (constant || !v->type.rank) continue;
        if (viewed || v->type.rank != t->rank || !dl_layout_same(v->type.layout, t->layout)) return false;
        for (int a = 0; a < t->rank; a++)
            if (v->type.axis[a].name != t->axis[a].name) return false;
    }
    return true;
}

static bool all_fit_panels(const dl_fusion *f, const dl_group *g) {
    for (int i = 0; i < g->members.n; i++) {
        const dl_node *n = f->graph->nodes.at[g->members.at[i]];
        if (dl_ops[n->op].class != DL_CLASS_CONTRACT && !fits_panels(f, n)) return false;
    }
    return true;
}

static bool can_merge(dl_fusion *f, int a, int b) {
    const dl_group *x = &f->groups.at[a], *y = &f->groups.at[b];
    if (x->members.n + y->members.n > MOST_MEMBERS) return false;
    if (x->wide != y->wide || (x->anchor && y->anchor)) return false;
    if (!same_axes(&x->space, &y->space)) return false;
    if (x->reduce && y->reduce && !same_reduction(x->reduce, y->reduce)) return false;
    const dl_node *anchor = x->anchor ? x->anchor : y->anchor;
    if (anchor && x->reduce && !sums_beside(anchor, x->reduce)) return false;
    if (anchor && y->reduce && !sums_beside(anchor, y->reduce)) return false;
    if (anchor && makes_weight(anchor) && !(all_fit_panels(f, x) && all_fit_panels(f, y))) return false;
    return dl_fuse_order_merge(f, a, b);
}

/* One group of two that can_merge; returns its number. The larger takes in the smaller, so that a node
 * changes its group a few times only. */
static int merge(dl_fusion *f, int into, int from) {
    dl_arena *arena = f->ctx->arena;
    dl_group *x = &f->groups.at[into], *y = &f->groups.at[from];
    if (y->anchor) x->anchor = y->anchor, x->space = y->space;
    if (!x->reduce) x->reduce = y->reduce, x->post = y->post;
    if (x->members.n < y->members.n) {
        dl_group whole = *x;
        whole.members = y->members, whole.out = y->out;
        y->members = x->members, y->out = x->out, *x = *y, *y = whole;
        dl_group *t = x;
        x = y, y = t;
        f->line.at[x->place] = from, into = from;
    }
    for (int i = 0; i < y->members.n; i++) {
        f->group[y->members.at[i]] = into;
        dl_push(arena, &x->members, y->members.at[i]);
    }
    for (int i = 0; i < y->out.n; i++) dl_push(arena, &x->out, y->out.at[i]);
    y->alive = false, y->members.n = y->out.n = 0;
    return into;
}

static bool can_join(dl_fusion *f, int node, int at) {
    const dl_node *n = f->graph->nodes.at[node];
    const dl_group *g = &f->groups.at[at];
    const dl_type *t = &n->out[0].type;
    if (g->members.n == MOST_MEMBERS || g->wide != dl_fuse_is_wide(n)) return false;
    if (dl_ops[n->op].class == DL_CLASS_REDUCE) {
        if (g->reduce) {
            if (!same_reduction(g->reduce, n) || (g->anchor && !sums_beside(g->anchor, n))) return false;
        } else { /* what is there becomes the part behind the reduction */
            if (g->anchor || !same_axes(&g->space, t)) return false;
        }
    } else if (dl_ops[n->op].class == DL_CLASS_CONTRACT) {
        if (g->anchor || !same_axes(&g->space, t)) return false;
        for (int i = 0; i < g->members.n; i++) {
            const dl_node *r = f->graph->nodes.at[g->members.at[i]];
            if (dl_ops[r->op].class == DL_CLASS_REDUCE && !sums_beside(n, r)) return false;
        }
        if (makes_weight(n) && !all_fit_panels(f, g)) return false;
    } else if (is_pointwise(n->op)) {
        if (!same_axes(&g->space, t) && !(g->reduce && same_axes(&g->post, t))) return false;
        if (g->anchor && makes_weight(g->anchor) && !fits_panels(f, n)) return false;
    } else {
        return false; /* cat and stored views stand alone */
    }
    return dl_fuse_order_join(f, node, at);
}

static void join(dl_fusion *f, int node, int at) {
    dl_node *n = f->graph->nodes.at[node];
    dl_group *g = &f->groups.at[at];
    if (dl_ops[n->op].class == DL_CLASS_REDUCE && !g->reduce)
        g->reduce = n, g->post = n->out[0].type, g->space = n->in[0]->type;
    if (dl_ops[n->op].class == DL_CLASS_CONTRACT)
        g->anchor = n, g->space = n->out[0].type; /* its order of axes */
    f->group[node] = at;
    dl_push(f->ctx->arena, &g->members, node);
    for (int i = 0; i < f->out[node].n; i++) {
        int to = f->group[f->out[node].at[i].node];
        if (to >= 0 && to != at) dl_push(f->ctx->arena, &g->out, f->out[node].at[i]);
    }
}

static void place(dl_fusion *f, int node) {
    const dl_edges *out = &f->out[node];
    int at = -1;
    for (int i = 0; i < out->n && !f->alone; i++) {
        int r = f->group[out->at[i].node];
        if (!out->at[i].soft || r < 0 || r == at) continue;
        if (at < 0)
            at = r;
        else if (can_merge(f, at, r))
            at = merge(f, at, r);
        else {
            at = -1; /* readers that cannot be one: the value goes through memory */
            break;
        }
    }
    if (at < 0 || !can_join(f, node, at)) at = dl_fuse_new_group(f, node);
    join(f, node, at);
}

/* ---- the pass ---- */

/* Kernels know sums, largest and smallest, over at least one axis: a mean becomes sum and product, a
 * reduction over nothing its operand (what simplify does too, but a pass may be left out). */
static void lower_reductions(dl_graph *g, dl_arena *arena) {
    dl_node **old = g->nodes.at;
    int n = g->nodes.n;
    dl_value **now = DL_NEWS(arena, dl_value *, g->next_id + 1); /* by id: what stands for a value, or NULL */
    uint32_t known = g->next_id;
    g->nodes.at = NULL, g->nodes.n = g->nodes.cap = 0;
    for (int i = 0; i < n; i++) {
        dl_node *r = old[i];
        for (int k = 0; k < r->nin; k++)
            if (r->in[k]->id < known && now[r->in[k]->id]) r->in[k] = now[r->in[k]->id];
        if (dl_ops[r->op].class == DL_CLASS_REDUCE && dl_node_attr(r, DL_ATTR_over)->n == 0) {
            now[r->out[0].id] = r->in[0];
            continue;
        }
        if (r->op == DL_OP_first_max) r->op = DL_OP_reduce_max;
        if (r->op != DL_OP_mean) {
            dl_push(g->module->arena, &g->nodes, r);
            continue;
        }
        dl_type scalar = dl_scalar(r->out[0].type.dtype);
        dl_node *sum = dl_node_append(g, DL_OP_sum, 1, r->in, 1, &r->out[0].type, r->loc);
        dl_node_set(g, sum, *dl_node_attr(r, DL_ATTR_over));
        dl_node *share = dl_node_append(g, DL_OP_const, 0, NULL, 1, &scalar, r->loc);
        double count = (double)dl_type_count(&r->in[0]->type) / (double)dl_type_count(&r->out[0].type);
        dl_node_set(g, share, (dl_attr){.id = DL_ATTR_value, .f = 1 / count});
        dl_value *in[] = {&sum->out[0], &share->out[0]};
        r->op = DL_OP_mul, r->nattrs = 0, r->nin = 2;
        r->in = DL_NEWS(g->module->arena, dl_value *, 2);
        r->in[0] = in[0], r->in[1] = in[1];
        dl_push(g->module->arena, &g->nodes, r);
    }
    for (int i = 0; i < g->results.n; i++) {
        dl_result *r = &g->results.at[i];
        if (r->value->id < known && now[r->value->id]) r->value = now[r->value->id];
    }
}

static int by_value(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* Makes kernels of the graph's nodes. */
static bool make_kernels(dl_graph *g, dl_pass_ctx *ctx, bool alone) {
    lower_reductions(g, ctx->arena);
    dl_graph_sweep(g);
    dl_fusion f = {.graph = g, .ctx = ctx, .n = g->nodes.n, .alone = alone};
    f.group = DL_NEWS(ctx->arena, int, f.n + 1), f.instr = DL_NEWS(ctx->arena, int, f.n + 1);
    f.position = DL_NEWS(ctx->arena, int, g->next_id + 1);
    f.stored = DL_NEWS(ctx->arena, bool, g->next_id + 1);
    f.next_of = DL_NEWS(ctx->arena, dl_var *, g->next_id + 1);
    for (uint32_t i = 0; i < g->next_id; i++) f.position[i] = -1;
    for (int i = 0; i < f.n; i++) {
        dl_node *n = g->nodes.at[i];
        f.group[i] = f.instr[i] = -1;
        f.position[n->out[0].id] = i;
        if (dl_ops[n->op].class != DL_CLASS_HIGH) continue;
        dl_fail_op(g, n, ctx->err);
        return false;
    }
    find_stored(&f);
    find_edges(&f);
    bool *wanted = DL_NEWS(ctx->arena, bool, g->next_id + 1);
    for (int i = 0; i < g->results.n; i++) {
        const dl_result *r = &g->results.at[i];
        wanted[r->value->id] = true;
        if (r->role == DL_RESULT_UPDATE) f.next_of[r->value->id] = r->var;
    }
    for (int i = f.n - 1; i >= 0; i--) {
        if (dl_fuse_inlined(&f, g->nodes.at[i])) continue;
        if (f.out[i].n || wanted[g->nodes.at[i]->out[0].id]) place(&f, i);
    }

    int *order = DL_NEWS(ctx->arena, int, f.groups.n + 1), ngroups = dl_fuse_order_groups(&f, order);
    dl_node **nodes = DL_NEWS(ctx->arena, dl_node *, ngroups + 1);
    for (int i = 0; i < ngroups; i++) {
        dl_group *group = &f.groups.at[order[i]];
        qsort(group->members.at, (size_t)group->members.n, sizeof(int), by_value);
        DL_ARRAY(dl_value *) outs = {0};
        for (int m = 0; m < group->members.n; m++) {
            int at = group->members.at[m];
            dl_value *v = &g->nodes.at[at]->out[0];
            bool read = wanted[v->id];
            for (int k = 0; k < f.out[at].n; k++) read |= f.group[f.out[at].at[k].node] != order[i];
            if (read) dl_push(ctx->arena, &outs, v);
        }
        nodes[i] = dl_fuse_build(&f, group, outs.n, outs.at, dl_internf("%s_k%d", g->name, i));
    }
    g->nodes.n = 0;
    for (int i = 0; i < ngroups; i++) dl_push(g->module->arena, &g->nodes, nodes[i]);
    g->kernels.n = 0;
    for (int i = 0; i < ngroups; i++) dl_push(g->module->arena, &g->kernels, nodes[i]->kernel);

    /* Readers of the old values read the fused nodes' results, which carry the old numbers. */
    dl_value **now = DL_NEWS(ctx->arena, dl_value *, g->next_id + 1);
    for (int i = 0; i < ngroups; i++)
        for (int k = 0; k < nodes[i]->nout; k++) now[nodes[i]->out[k].id] = &nodes[i]->out[k];
    for (int i = 0; i < ngroups; i++)
        for (int k = 0; k < nodes[i]->nin; k++)
            if (nodes[i]->in[k]->def) nodes[i]->in[k] = now[nodes[i]->in[k]->id];
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].value->def) g->results.at[i].value = now[g->results.at[i].value->id];
    return true;
}

bool dl_pass_fuse(dl_graph *g, dl_pass_ctx *ctx) { return make_kernels(g, ctx, false); }
bool dl_skip_fuse(dl_graph *g, dl_pass_ctx *ctx) { return make_kernels(g, ctx, true); }
