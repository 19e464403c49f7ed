/* Fusion, first half: clusters nodes into kernels.
 *
 * In: a graph of lowered ops with layouts. Out: the clusters of fuse.h, of which fuse_kernel.c
 * makes kernels.
 *
 * Nodes are visited from the end of the graph to its beginning. A node joins the kernel of its
 * readers when they compute on the same points (a soft edge). So a contraction's epilogue takes
 * its bias, activation, residual and even the parameter update. Kernels that read the same value
 * point by point are merged, too. A reduction's result may be broadcast back to all points of
 * its kernel (a broadcast-back edge). The reduction then joins its readers where this moves
 * fewer bytes (fuse_loop_nests.c). Readers at other points (a contraction's operand, a view,
 * another broadcast) need the value in memory (a hard edge), and are in another kernel.
 *
 * A kernel has at most one contraction. In addition to it, the kernel has epilogue reductions
 * only: reductions of values that this contraction makes. A join that would close a circle of
 * kernels is refused. */
#include "passes/fuse/fuse.h"

#include "ir/walk.h"

/* ---- is a join legal? ---- */

static bool same_reduction(const dl_node *a, const dl_node *b) {
    return dl_fuse_same_axes(&a->in[0]->type, &b->in[0]->type) &&
           dl_fuse_same_axes(&a->out[0].type, &b->out[0].type);
}

/* Does the contraction's kernel run through its result in memory order? */
static bool in_memory_order(const dl_fusion *f, const dl_node *anchor) {
    return f->contractions->in_memory_order(anchor->op);
}

/* In a kernel that runs through its result in memory order, other operands of members must have
 * the same layout, or be scalars or constants. A view is read at other places, and does not fit.
 */
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
        if (viewed || v->type.rank != t->rank || !dl_layout_same(v->type.layout, t->layout))
            return false;
        for (int a = 0; a < t->rank; a++)
            if (v->type.axis[a].name != t->axis[a].name) return false;
    }
    return true;
}

static bool all_fit_panels(const dl_fusion *f, const dl_cluster *g) {
    for (int i = 0; i < g->members.n; i++) {
        const dl_node *n = f->graph->nodes.at[g->members.at[i]];
        if (dl_fuse_is_pointwise(n->op) && !fits_panels(f, n)) return false;
    }
    return true;
}

static bool is_broadcast_back(const dl_fusion *f, const dl_edges *out, int cluster) {
    for (int i = 0; i < out->n; i++)
        if (out->at[i].kind == DL_EDGE_BROADCAST_BACK && f->cluster[out->at[i].node] == cluster)
            return true;
    return false;
}

static bool one_broadcasts_back(const dl_fusion *f, int a, int b) {
    const dl_cluster *x = &f->clusters.at[a], *y = &f->clusters.at[b];
    return x->broadcasts_back || y->broadcasts_back || is_broadcast_back(f, &x->out, b) ||
           is_broadcast_back(f, &y->out, a);
}

/* Would clusters a and b have reductions of several kinds when they are merged? */
static bool mix(const dl_fusion *f, int a, int b) {
    const dl_cluster *x = &f->clusters.at[a], *y = &f->clusters.at[b];
    return x->mixed || y->mixed || one_broadcasts_back(f, a, b) ||
           (x->reduce && y->reduce && !same_reduction(x->reduce, y->reduce));
}

/* Are all reductions of a cluster possible epilogue reductions of this contraction? */
static bool are_epilogue_reductions(const dl_fusion *f, const dl_node *anchor,
                                    const dl_cluster *g) {
    for (int i = 0; i < g->members.n && g->reduce; i++) {
        const dl_node *n = f->graph->nodes.at[g->members.at[i]];
        if (dl_ops[n->op].class == DL_CLASS_REDUCE && !dl_fuse_takes_reduction(f, anchor, n))
            return false;
    }
    return true;
}

static bool reads(const dl_fusion *f, int node, int reader) {
    for (int i = 0; i < f->out[node].n; i++)
        if (f->out[node].at[i].node == reader) return true;
    return false;
}

/* Would clusters a and b, when they are merged, compare a node's value with its own maximum or
 * minimum? Several loop nests of one kernel recompute a value, and may round it differently;
 * then no value equals the maximum. Such a value goes through memory. */
static bool compares_with_itself(const dl_fusion *f, int node, int a, int b) {
    for (int i = 0; i < f->out[node].n; i++) {
        int r = f->out[node].at[i].node;
        dl_op op = f->graph->nodes.at[r]->op;
        if (dl_op_curve(op) != DL_CURVE_EXTREMUM || (f->cluster[r] != a && f->cluster[r] != b))
            continue;
        for (int k = 0; k < f->out[r].n; k++) {
            int c = f->out[r].at[k].node;
            bool here = f->cluster[c] == a || f->cluster[c] == b;
            if (here && dl_op_curve(f->graph->nodes.at[c]->op) == DL_CURVE_COMPARE &&
                reads(f, node, c))
                return true;
        }
    }
    return false;
}

static bool one_compares_with_itself(const dl_fusion *f, int a, int b) {
    const int clusters[] = {a, b};
    for (int g = 0; g < 2; g++)
        for (int i = 0; i < f->clusters.at[clusters[g]].members.n; i++)
            if (compares_with_itself(f, f->clusters.at[clusters[g]].members.at[i], a, b))
                return true;
    return false;
}

/* The contraction of a cluster, or the contraction whose epilogue could take one of its
 * reductions; or NULL. In the kernel of another contraction the reduction would read its operand
 * again. */
static const dl_node *epilogue_producer_of(const dl_fusion *f, const dl_cluster *g) {
    const dl_node *of = g->anchor;
    for (int i = 0; i < g->members.n && g->reduce && !of; i++) {
        const dl_node *n = f->graph->nodes.at[g->members.at[i]];
        if (dl_ops[n->op].class == DL_CLASS_REDUCE) of = dl_fuse_epilogue_producer(f, n);
    }
    return of;
}

/* Is there room for a contraction, and for the nodes between it and a reduction? */
static bool has_room(const dl_cluster *g) {
    return g->members.n + DL_FUSE_EPILOGUE_NODES <= DL_FUSE_MOST_MEMBERS;
}

static bool are_different(const dl_node *a, const dl_node *b) { return a && b && a != b; }

/* Would a merge with cluster b prevent the reductions of cluster a from becoming epilogue
 * reductions? True where all reductions of `a` can be such, and those of `b` cannot. */
static bool prevents_epilogue_reductions(const dl_fusion *f, int a, int b) {
    const dl_cluster *x = &f->clusters.at[a];
    if (!x->reduce || x->mixed || !f->clusters.at[b].broadcasts_back) return false;
    for (int i = 0; i < x->members.n; i++) {
        const dl_node *n = f->graph->nodes.at[x->members.at[i]];
        if (dl_ops[n->op].class == DL_CLASS_REDUCE && !dl_fuse_epilogue_producer(f, n))
            return false;
    }
    return true;
}

static bool can_merge(dl_fusion *f, int a, int b) {
    const dl_cluster *x = &f->clusters.at[a], *y = &f->clusters.at[b];
    if (x->members.n + y->members.n > DL_FUSE_MOST_MEMBERS) return false;
    if (x->wide != y->wide || (x->anchor && y->anchor)) return false;
    if (!dl_fuse_same_axes(&x->space, &y->space)) return false;
    const dl_node *anchor = x->anchor ? x->anchor : y->anchor;
    if (anchor && (one_broadcasts_back(f, a, b) || !are_epilogue_reductions(f, anchor, x) ||
                   !are_epilogue_reductions(f, anchor, y)))
        return false;
    if (anchor && in_memory_order(f, anchor) && !(all_fit_panels(f, x) && all_fit_panels(f, y)))
        return false;
    if (prevents_epilogue_reductions(f, a, b) || prevents_epilogue_reductions(f, b, a))
        return false;
    if (are_different(epilogue_producer_of(f, x), epilogue_producer_of(f, y))) return false;
    if (mix(f, a, b) &&
        (one_compares_with_itself(f, a, b) || !dl_fuse_pays(f, a, b, -1, &x->space)))
        return false;
    return dl_fuse_order_merge(f, a, b);
}

/* Merges two clusters for which can_merge holds; returns the number of the result. The larger one
 * takes the members of the smaller one, so that a node seldom changes its cluster. */
static int merge(dl_fusion *f, int into, int from) {
    dl_arena *arena = f->ctx->arena;
    dl_cluster *x = &f->clusters.at[into], *y = &f->clusters.at[from];
    x->mixed = mix(f, into, from), x->broadcasts_back = one_broadcasts_back(f, into, from);
    if (y->anchor) x->anchor = y->anchor, x->space = y->space;
    if (!x->reduce) x->reduce = y->reduce, x->post = y->post;
    if (x->members.n < y->members.n) {
        dl_cluster whole = *x;
        whole.members = y->members, whole.out = y->out;
        y->members = x->members, y->out = x->out, *x = *y, *y = whole;
        dl_cluster *t = x;
        x = y, y = t;
        f->line.at[x->place] = from, into = from;
    }
    for (int i = 0; i < y->members.n; i++) {
        f->cluster[y->members.at[i]] = into;
        dl_push(arena, &x->members, y->members.at[i]);
    }
    for (int i = 0; i < y->out.n; i++) dl_push(arena, &x->out, y->out.at[i]);
    y->alive = false, y->members.n = y->out.n = 0;
    return into;
}

/* The properties of cluster `at` after `node` has joined it, or the fact that it cannot join. */
typedef struct {
    bool can, mixed, broadcasts_back;
    dl_type space;
} joined;

static void join_reduction(const dl_fusion *f, const dl_node *n, const dl_cluster *g, joined *j) {
    const dl_type *from = &n->in[0]->type, *t = &n->out[0].type;
    const dl_node *producer = dl_fuse_epilogue_producer(f, n);
    if (are_different(producer, epilogue_producer_of(f, g)) ||
        (producer && !g->anchor && !has_room(g)))
        return;
    if (g->anchor &&
        (j->broadcasts_back || !g->reduce || !dl_fuse_takes_reduction(f, g->anchor, n)))
        return;
    if (dl_fuse_same_axes(&g->space, from)) {
        j->mixed |= !g->reduce || !same_reduction(g->reduce, n);
        j->can = true;
    } else if (!g->anchor &&
               dl_fuse_same_axes(&g->space,
                                 t)) { /* the old members become those after the reduction */
        if (g->reduce) j->mixed = j->broadcasts_back = true;
        j->can = true, j->space = *from;
    }
}

static void join_point(const dl_fusion *f, const dl_node *n, const dl_cluster *g, joined *j) {
    const dl_type *t = &n->out[0].type;
    if (g->anchor && (j->broadcasts_back || (in_memory_order(f, g->anchor) && !fits_panels(f, n))))
        return;
    j->can = dl_fuse_same_axes(&g->space, t) ||
             (g->reduce && dl_fuse_same_axes(&g->post, t) && (g->anchor || has_room(g))) ||
             (j->mixed && dl_fuse_has_axes(&g->space, t));
}

static bool can_anchor(const dl_fusion *f, const dl_cluster *g, const dl_node *n) {
    if (g->anchor || !dl_fuse_same_axes(&g->space, &n->out[0].type)) return false;
    return are_epilogue_reductions(f, n, g) && (!in_memory_order(f, n) || all_fit_panels(f, g));
}

static joined try_join(dl_fusion *f, int node, int at) {
    const dl_node *n = f->graph->nodes.at[node];
    const dl_cluster *g = &f->clusters.at[at];
    joined j = {.mixed = g->mixed, .broadcasts_back = g->broadcasts_back, .space = g->space},
           no = {0};
    if (g->members.n == DL_FUSE_MOST_MEMBERS || g->wide != dl_fuse_is_wide(n)) return no;
    if (is_broadcast_back(f, &f->out[node], at)) j.mixed = j.broadcasts_back = true;
    if (dl_ops[n->op].class == DL_CLASS_REDUCE)
        join_reduction(f, n, g, &j);
    else if (dl_ops[n->op].class == DL_CLASS_CONTRACT)
        j.can = !j.broadcasts_back && can_anchor(f, g, n);
    else if (dl_fuse_is_pointwise(n->op)) /* each of these ops is a kernel of its own */
        join_point(f, n, g, &j);
    if (j.can && j.mixed && compares_with_itself(f, node, at, at)) return no;
    if (j.can && j.mixed) {
        int times = dl_fuse_pays(f, at, -1, node, &j.space);
        j.can =
            times == 1 ||
            (times && !(dl_ops[n->op].class == DL_CLASS_REDUCE && dl_fuse_epilogue_producer(f, n)));
    }
    return j.can && dl_fuse_order_join(f, node, at) ? j : no;
}

static void join(dl_fusion *f, int node, int at, const joined *j) {
    dl_node *n = f->graph->nodes.at[node];
    dl_cluster *g = &f->clusters.at[at];
    g->mixed = j->mixed, g->broadcasts_back = j->broadcasts_back;
    g->space = j->space;
    if (dl_ops[n->op].class == DL_CLASS_REDUCE && !g->reduce)
        g->reduce = n, g->post = n->out[0].type, g->space = n->in[0]->type;
    if (dl_ops[n->op].class == DL_CLASS_CONTRACT)
        g->anchor = n, g->space = n->out[0].type; /* the order of axes is the contraction's */
    f->cluster[node] = at;
    dl_push(f->ctx->arena, &g->members, node);
    for (int i = 0; i < f->out[node].n; i++) {
        int to = f->cluster[f->out[node].at[i].node];
        if (to >= 0 && to != at) dl_push(f->ctx->arena, &g->out, f->out[node].at[i]);
    }
}

/* The clusters of a node's readers that the node may join. Groups that read it at the same points
 * are merged first, where they can be. */
static int find_readers(dl_fusion *f, int node, int most, int *clusters) {
    const dl_edges *out = &f->out[node];
    int n = 0;
    for (int i = 0; i < out->n && !f->unfused; i++) {
        int r = f->cluster[out->at[i].node], known = 0;
        if (out->at[i].kind == DL_EDGE_HARD || r < 0) continue;
        for (; known < n; known++) {
            if (clusters[known] == r) break;
            if (out->at[i].kind == DL_EDGE_BROADCAST_BACK || !can_merge(f, clusters[known], r))
                continue;
            clusters[known] = merge(f, clusters[known], r);
            break;
        }
        if (known == n && n < most) clusters[n++] = r;
    }
    return n;
}

static void place(dl_fusion *f, int node) {
    enum { MOST_READERS = 8 };
    int clusters[MOST_READERS], n = find_readers(f, node, MOST_READERS, clusters), at = -1;
    joined j = {0};
    for (int i = 0; i < n && !j.can; i++) /* the node joins the first cluster that can take it; the
                                             others read it from memory */
        j = try_join(f, node, at = clusters[i]);
    if (!j.can) {
        at = dl_fuse_new_cluster(f, node);
        j = (joined){.space = f->clusters.at[at].space};
    }
    join(f, node, at, &j);
}

/* ---- small kernels are merged ---- */

/* points whose computation takes less time than a launch */
enum { FEW_POINTS = 4096, MOST_OPEN = 64 };

static bool is_small(const dl_fusion *f, const dl_cluster *g) {
    if (!g->alive || !g->members.n || g->anchor || g->reduce || g->broadcasts_back) return false;
    if (dl_type_count(&g->space) > FEW_POINTS) return false;
    for (int i = 0; i < g->members.n; i++)
        if (!dl_fuse_is_pointwise(f->graph->nodes.at[g->members.at[i]]->op)) return false;
    return true;
}

/* Merges kernels of few points that are independent of each other, where their points have the
 * same axes: running statistics of norms, step counters. */
static void join_small(dl_fusion *f) {
    int open[MOST_OPEN], n = 0;
    for (int i = f->clusters.n - 1; i >= 0; i--) {
        int k = 0;
        if (!is_small(f, &f->clusters.at[i])) continue;
        while (k < n && !can_merge(f, open[k], i)) k++;
        if (k < n)
            open[k] = merge(f, open[k], i);
        else if (n < MOST_OPEN)
            open[n++] = i;
    }
}

/* ---- the pass ---- */

/* Is a result of node i read by a kernel, or is it a result of the graph? A template has several
 * results, of which some may be unused. */
static bool is_read(const dl_fusion *f, int i) {
    const dl_node *n = f->graph->nodes.at[i];
    bool read = f->out[i].n > 0;
    for (int k = 0; k < n->nout; k++) read |= f->wanted[n->out[k].id];
    return read;
}

/* Makes kernels of the graph's nodes. unfused: each node becomes a kernel of its own. */
static bool make_kernels(dl_graph *g, dl_pass_ctx *ctx, bool unfused) {
    dl_fuse_own_results(g);
    dl_fuse_lower_reductions(g, ctx->arena);
    dl_graph_sweep(g);
    dl_fusion f = {.graph = g,
                   .ctx = ctx,
                   .contractions = dl_contraction_rules_of(ctx->contractions),
                   .n = g->nodes.n,
                   .unfused = unfused};
    f.cluster = DL_NEWS(ctx->arena, int, f.n + 1), f.instr = DL_NEWS(ctx->arena, int, f.n + 1);
    f.position = DL_NEWS(ctx->arena, int, g->next_id + 1);
    f.stored = DL_NEWS(ctx->arena, bool, g->next_id + 1);
    f.next_of = DL_NEWS(ctx->arena, dl_var *, g->next_id + 1);
    for (uint32_t i = 0; i < g->next_id; i++) f.position[i] = -1;
    for (int i = 0; i < f.n; i++) {
        dl_node *n = g->nodes.at[i];
        f.cluster[i] = f.instr[i] = -1;
        for (int k = 0; k < n->nout; k++) f.position[n->out[k].id] = i;
        if (dl_ops[n->op].class != DL_CLASS_HIGH) continue;
        dl_fail_op(g, n, ctx->err);
        return false;
    }
    dl_fuse_find_stored(&f);
    dl_fuse_find_edges(&f);
    bool *wanted = f.wanted = DL_NEWS(ctx->arena, bool, g->next_id + 1);
    for (int i = 0; i < g->results.n; i++) {
        const dl_result *r = &g->results.at[i];
        wanted[r->value->id] = true;
        if (r->role == DL_RESULT_UPDATE) f.next_of[r->value->id] = r->var;
    }
    for (int i = 0; i < f.n; i++)
        if (dl_op_forwards(g->nodes.at[i]->op)) wanted[g->nodes.at[i]->out[0].id] = true;
    for (int i = f.n - 1; i >= 0; i--) {
        if (!dl_fuse_inlined(&f, g->nodes.at[i]) && is_read(&f, i)) place(&f, i);
    }
    if (!unfused) join_small(&f);

    int *order = DL_NEWS(ctx->arena, int, f.clusters.n + 1),
        nclusters = dl_fuse_order_clusters(&f, order), n = 0, kernels = 0;
    dl_fuse_rematerialize(&f, nclusters, order);
    dl_node **nodes = DL_NEWS(ctx->arena, dl_node *, nclusters + 1);
    for (int i = 0; i < nclusters; i++) {
        dl_cluster *cluster = &f.clusters.at[order[i]];
        if (!cluster->members.n) continue;
        DL_ARRAY(dl_value *) outs = {0};
        for (int m = 0; m < cluster->members.n; m++) {
            int at = cluster->members.at[m];
            dl_value *v = &g->nodes.at[at]->out[0];
            if (f.cluster[at] == order[i] && (f.kept[at] || wanted[v->id]))
                dl_push(ctx->arena, &outs, v);
        }
        dl_node *first = g->nodes.at[cluster->members.at[0]];
        if (dl_op_is_collective(first->op) || first->body) {
            nodes[n++] = first;
            continue;
        }
        const char *name = dl_internf("%s_k%d", g->name, kernels++);
        nodes[n++] = dl_ops[first->op].class == DL_CLASS_TEMPLATE
                         ? dl_fuse_call(&f, first, name)
                         : dl_fuse_build(&f, cluster, outs.n, outs.at, name);
    }
    nclusters = n;
    g->nodes.n = 0;
    for (int i = 0; i < nclusters; i++) dl_push(g->module->arena, &g->nodes, nodes[i]);
    g->kernels.n = 0;
    for (int i = 0; i < nclusters; i++)
        if (nodes[i]->kernel) dl_push(g->module->arena, &g->kernels, nodes[i]->kernel);

    /* The fused nodes' results keep the ids of the values that they replace; update the readers. */
    dl_value **now = DL_NEWS(ctx->arena, dl_value *, g->next_id + 1);
    for (int i = 0; i < nclusters; i++)
        for (int k = 0; k < nodes[i]->nout; k++) now[nodes[i]->out[k].id] = &nodes[i]->out[k];
    for (int i = 0; i < nclusters; i++)
        for (int k = 0; k < nodes[i]->nin; k++)
            if (nodes[i]->in[k]->def) nodes[i]->in[k] = now[nodes[i]->in[k]->id];
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].value->def) g->results.at[i].value = now[g->results.at[i].value->id];
    return true;
}

bool dl_pass_fuse(dl_graph *g, dl_pass_ctx *ctx) { return make_kernels(g, ctx, false); }
bool dl_skip_fuse(dl_graph *g, dl_pass_ctx *ctx) { return make_kernels(g, ctx, true); }
