/* Fusion: rematerializes values that cost less to recompute than to store and load.
 *
 * Other kernels read values at their own points: a mask of dropout, the operand of a gelu's
 * gradient, the result of a norm. They can recompute such a value from its operands. Then the
 * operands are stored instead, if they are not stored anyway. The choice of the values to store
 * is a minimum cut between values that no other kernel can compute and values that are read:
 * Chen et al., Training deep nets with sublinear memory cost, 2016; PyTorch's min-cut
 * partitioner (He, 2022).
 *
 * The cut is found cluster by cluster in the order in which they run, because it depends on what is
 * stored already. A rematerialized node becomes a member of its readers' clusters, too. These read
 * nothing from later kernels than before, so the order remains valid and closes no circle. */
#include <stdlib.h>

#include "passes/fuse/cut.h"
#include "passes/fuse/fuse.h"

/* Costs in quarters of a byte that is read or written. KEPT: a byte whose lifetime grows, which
 * limits the batch, too. TRIVIAL: an op of one or two instructions, a point. OTHER: an op of some
 * twenty instructions, such as a division or an exponential: as much as reading a float. */
enum { UNIT = 4, KEPT = 6, TRIVIAL = 1, OTHER = 16 };
enum { MOST_READERS = 64 };
#define MOST_COUNTED                                                                               \
    ((int64_t)1 << 36) /* of a tensor: the sum of all costs is below DL_CUT_NEVER */

/* A value that may be stored or recomputed: an edge of the network. */
typedef struct {
    dl_value *value;
    int node;          /* its node's position; -1: a variable */
    bool recomputable; /* other kernels can recompute it */
    uint64_t wanted;   /* by reader: reads the value, unless it recomputes it */
    uint64_t loads;    /* by reader: loads the value in any case */
    uint64_t needs;    /* by reader: a wanted value depends on it */
} vertex;

/* A cluster that reads values of the current cluster. */
typedef struct {
    int cluster;
    bool closed; /* no node is rematerialized in it */
    dl_nodes recomputed;
} reader;

typedef struct {
    dl_fusion *f;
    int *place;             /* by cluster: its position in the order */
    dl_edges *in;           /* by node: the nodes that it reads */
    bool *not_recomputable; /* by node: must not be recomputed, since it would round differently */
    bool *updated;          /* by value id: a variable that the step overwrites */
    int *times;             /* by cluster: the passes over its points; 0: not computed yet */
    int *vertex_of;         /* by value id: the number of its vertex, plus one */
    int at;                 /* the current cluster */
    reader readers[MOST_READERS];
    int nreaders;
    DL_ARRAY(vertex) vertices;
} cutter;

static const dl_node *node_at(const cutter *a, int i) { return a->f->graph->nodes.at[i]; }
static dl_cluster *cluster_at(const cutter *a, int g) { return &a->f->clusters.at[g]; }

/* The clusters that compute a node: its own, then those that rematerialize it. */
static int ncomputing(const cutter *a, int node) { return 1 + a->f->recomputed_in[node].n; }
static int computing(const cutter *a, int node, int i) {
    return i ? a->f->recomputed_in[node].at[i - 1] : a->f->cluster[node];
}

/* Does the cluster compute the node, as its own or rematerialized? */
static bool has(const cutter *a, int cluster, int node) {
    for (int i = 0; i < ncomputing(a, node); i++)
        if (computing(a, node, i) == cluster) return true;
    return false;
}

/* ---- the network of a cluster ---- */

/* Can other kernels over the same points recompute the node from its operands? */
static bool can_recompute(const cutter *a, int i) {
    const dl_node *n = node_at(a, i);
    if (dl_ops[n->op].class != DL_CLASS_ELEM || dl_op_is_transcendental(n->op) ||
        a->not_recomputable[i] || !n->out[0].type.rank ||
        !dl_fuse_same_axes(&n->out[0].type, &cluster_at(a, a->at)->space))
        return false;
    for (int k = 0; k < n->nin; k++)
        if (!dl_fuse_reads_in_order(a->f, n, k)) return false;
    return true;
}

/* Can this reader of the cluster compute additional nodes at its points? A kernel that runs in
 * memory order cannot. A cluster with reductions of several kinds also computes at points
 * of fewer axes, from the results of reductions. */
static bool is_open(const cutter *a, int cluster) {
    const dl_cluster *from = cluster_at(a, a->at), *to = cluster_at(a, cluster);
    return from->wide == to->wide &&
           (dl_fuse_same_axes(&from->space, &to->space) ||
            (to->mixed && dl_fuse_has_axes(&to->space, &from->space))) &&
           !(to->anchor && a->f->contractions->in_memory_order(to->anchor->op));
}

static int reader_of(cutter *a, int cluster) { /* -1: none, or closed */
    for (int i = 0; i < a->nreaders; i++)
        if (a->readers[i].cluster == cluster) return a->readers[i].closed ? -1 : i;
    if (a->nreaders == MOST_READERS || !is_open(a, cluster)) return -1;
    a->readers[a->nreaders] = (reader){.cluster = cluster};
    return a->nreaders++;
}

static vertex *find_vertex(const cutter *a, const dl_value *v) {
    int at = a->vertex_of[v->id];
    return at ? &a->vertices.at[at - 1] : NULL;
}

static vertex *add_vertex(cutter *a, dl_value *v) {
    if (!a->vertex_of[v->id]) {
        int node = a->f->position[v->id];
        dl_push(a->f->ctx->arena, &a->vertices, (vertex){.value = v, .node = node});
        a->vertex_of[v->id] = a->vertices.n;
    }
    return find_vertex(a, v);
}

/* By reader: reads a value of node i at its own points, and at no others. */
static uint64_t find_wanted(cutter *a, int i) {
    uint64_t soft = 0, hard = 0;
    for (int k = 0; k < a->f->out[i].n; k++) {
        dl_edge e = a->f->out[i].at[k];
        for (int h = 0; h < ncomputing(a, e.node); h++) {
            int cluster = computing(a, e.node, h);
            int r = cluster < 0 || has(a, cluster, i)
                        ? -1
                        : reader_of(a, cluster); /* -1: no reader needs it */
            if (r >= 0) *(e.kind == DL_EDGE_SOFT ? &soft : &hard) |= (uint64_t)1 << r;
        }
    }
    return soft & ~hard;
}

static void find_vertices(cutter *a) {
    const dl_cluster *g = cluster_at(a, a->at);
    for (int i = g->members.n - 1; i >= 0; i--) {
        int at = g->members.at[i];
        const dl_node *n = node_at(a, at);
        bool can = can_recompute(a, at);
        uint64_t wanted = can && a->f->cluster[at] == a->at ? find_wanted(a, at) : 0;
        vertex *v = wanted ? add_vertex(a, &n->out[0]) : find_vertex(a, &n->out[0]);
        if (!v) continue;
        uint64_t needs = v->needs |= wanted;
        v->wanted = wanted, v->recomputable = can;
        for (int k = 0; k < n->nin && can; k++) {
            dl_value *of = dl_fuse_past_views(a->f, n->in[k]);
            if (!dl_fuse_is_recomputed_source(a->f, of)) add_vertex(a, of)->needs |= needs;
        }
    }
}

/* Fills the values that each reader loads, whatever the cut is. */
static void find_loads(cutter *a) {
    for (int r = 0; r < a->nreaders; r++) {
        const dl_cluster *g = cluster_at(a, a->readers[r].cluster);
        uint64_t bit = (uint64_t)1 << r;
        for (int i = 0; i < g->members.n; i++) {
            int at = g->members.at[i];
            const dl_node *n = node_at(a, at);
            for (int k = 0; k < n->nin; k++) { /* variables */
                vertex *v = find_vertex(a, dl_fuse_past_views(a->f, n->in[k]));
                if (v && v->node < 0) v->loads |= bit;
            }
            for (int k = 0; k < a->in[at].n; k++) {
                int of = a->in[at].at[k].node;
                vertex *v = find_vertex(a, &node_at(a, of)->out[0]);
                if (v && !(v->wanted & bit) && !has(a, a->readers[r].cluster, of)) v->loads |= bit;
            }
        }
    }
}

/* The last position at which the value is in memory, whatever the cut is; -1: it is not stored. */
static int find_last(const cutter *a, const vertex *v) {
    if (v->node < 0 || a->f->wanted[v->value->id]) return INT32_MAX;
    int last = -1;
    for (int k = 0; k < a->f->out[v->node].n; k++) {
        int by = a->f->out[v->node].at[k].node;
        for (int h = 0; h < ncomputing(a, by); h++) {
            int cluster = computing(a, by, h);
            bool asks = has(a, cluster, v->node);
            for (int r = 0; r < a->nreaders && !asks; r++)
                asks = a->readers[r].cluster == cluster && v->wanted >> r & 1;
            if (!asks && cluster >= 0 && a->place[cluster] > last) last = a->place[cluster];
        }
    }
    return last;
}

static int times_of(cutter *a, int cluster) {
    if (!a->times[cluster]) a->times[cluster] = dl_fuse_passes(a->f, cluster, 0, NULL);
    return a->times[cluster];
}

static int64_t counted(int64_t n) { return n < MOST_COUNTED ? n : MOST_COUNTED; }

static int64_t cost_of_keeping(cutter *a, const vertex *v) {
    if (a->updated[v->value->id] &&
        dl_type_count(&v->value->type) * 2 > /* storing it would need a copy first */
            dl_axes_points(cluster_at(a, a->at)->space.rank, cluster_at(a, a->at)->space.axis, ~0u))
        return DL_CUT_NEVER;
    int last = find_last(a, v), until = 0;
    int64_t bytes = counted(dl_type_bytes(&v->value->type)), shares = last < 0;
    for (int r = 0; r < a->nreaders; r++) {
        if (!(v->needs >> r & 1)) continue;
        int cluster = a->readers[r].cluster;
        if (a->place[cluster] > until) until = a->place[cluster];
        if (!(v->loads >> r & 1)) shares += times_of(a, cluster);
    }
    return (shares * UNIT + (until > last) * KEPT) * bytes;
}

static int64_t cost_of_computing(cutter *a, const vertex *v) {
    int64_t points = counted(dl_type_count(&v->value->type)), times = 0;
    for (int r = 0; r < a->nreaders; r++)
        if (v->needs >> r & 1) times += times_of(a, a->readers[r].cluster);
    return points * times * (dl_op_is_trivial(v->value->def->op) ? TRIVIAL : OTHER);
}

/* By vertex: is it recomputed? A vertex is two nodes of the network with an edge between them.
 * The edge is cut where the value is stored. */
static bool *find_computed(cutter *a) {
    int n = a->vertices.n, source = 2 * n, sink = source + 1;
    dl_arena *arena = a->f->ctx->arena;
    dl_cut c = dl_cut_new(arena, 2 * n + 2);
    for (int i = 0; i < n; i++) {
        const vertex *v = &a->vertices.at[i];
        dl_cut_join(&c, source, 2 * i, v->recomputable ? cost_of_computing(a, v) : DL_CUT_NEVER);
        dl_cut_join(&c, 2 * i, 2 * i + 1, cost_of_keeping(a, v));
        if (v->wanted) dl_cut_join(&c, 2 * i + 1, sink, DL_CUT_NEVER);
        for (int k = 0; v->recomputable && k < v->value->def->nin; k++) {
            const vertex *of = find_vertex(a, dl_fuse_past_views(a->f, v->value->def->in[k]));
            if (of) dl_cut_join(&c, 2 * (int)(of - a->vertices.at) + 1, 2 * i, DL_CUT_NEVER);
        }
    }
    const bool *sink_side = dl_cut_find(&c, source, sink);
    bool *computed = DL_NEWS(arena, bool, n + 1);
    for (int i = 0; i < n; i++) computed[i] = sink_side[2 * i];
    return computed;
}

/* ---- changes to the clusters ---- */

/* Fills the rematerialized nodes of reader r: the values that it wants, and their operands, as
 * far as these are recomputed. */
static void find_recomputed_nodes(cutter *a, int r, const bool *computed) {
    const dl_cluster *g = cluster_at(a, a->at);
    bool *takes = DL_NEWS(a->f->ctx->arena, bool, a->vertices.n + 1);
    a->readers[r].recomputed.n = 0;
    for (int i = g->members.n - 1; i >= 0; i--) {
        const dl_node *n = node_at(a, g->members.at[i]);
        const vertex *v = find_vertex(a, &n->out[0]);
        int at = v ? (int)(v - a->vertices.at) : 0;
        if (!v || !computed[at] || v->loads >> r & 1 || !(takes[at] || v->wanted >> r & 1))
            continue;
        dl_push(a->f->ctx->arena, &a->readers[r].recomputed, v->node);
        for (int k = 0; k < n->nin; k++) {
            const vertex *of = find_vertex(a, dl_fuse_past_views(a->f, n->in[k]));
            if (of) takes[of - a->vertices.at] = true;
        }
    }
}

/* Can reader r take its rematerialized nodes as members? No, if there are too many, if its
 * kernel would make more passes over its points, or if one of them reads another at other
 * points. */
static bool can_take_recomputed(cutter *a, int r) {
    const reader *to = &a->readers[r];
    const dl_cluster *g = cluster_at(a, to->cluster);
    if (g->members.n + to->recomputed.n > DL_FUSE_MOST_MEMBERS) return false;
    for (int i = 0; i < to->recomputed.n; i++) {
        const dl_edges *in = &a->in[to->recomputed.at[i]];
        for (int k = 0; k < in->n; k++) {
            int of = in->at[k].node;
            bool member = has(a, to->cluster, of);
            for (int j = 0; j < to->recomputed.n; j++) member |= to->recomputed.at[j] == of;
            if (member && in->at[k].kind != DL_EDGE_SOFT) return false;
        }
    }
    return !g->reduce || dl_fuse_passes(a->f, to->cluster, to->recomputed.n, to->recomputed.at) <=
                             times_of(a, to->cluster);
}

static void take_in(cutter *a, int r) {
    const reader *to = &a->readers[r];
    for (int i = 0; i < to->recomputed.n; i++) {
        dl_push(a->f->ctx->arena, &a->f->recomputed_in[to->recomputed.at[i]], to->cluster);
        dl_push(a->f->ctx->arena, &cluster_at(a, to->cluster)->members, to->recomputed.at[i]);
    }
}

static int by_value(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* Makes the readers of cluster `at` recompute the values that the cut says. */
static void recompute_in_readers(cutter *a, int at) {
    dl_cluster *g = cluster_at(a, at);
    qsort(g->members.at, (size_t)g->members.n, sizeof(int), by_value);
    a->at = at, a->nreaders = 0;
    for (bool done = false; !done;) {
        a->vertices.n = 0, done = true;
        find_vertices(a);
        if (!a->vertices.n) return;
        find_loads(a);
        const bool *computed = find_computed(a);
        for (int r = 0; r < a->nreaders && done; r++) {
            find_recomputed_nodes(a, r, computed);
            if (!can_take_recomputed(a, r)) a->readers[r].closed = true, done = false;
        }
        for (int i = 0; i < a->vertices.n; i++) a->vertex_of[a->vertices.at[i].value->id] = 0;
    }
    for (int r = 0; r < a->nreaders; r++) take_in(a, r);
}

/* Keeps in a cluster the members whose values are stored, and their operands; fills f->kept with
 * the values that other clusters read. All later clusters have been pruned before. */
static void prune(cutter *a, int at, int *used) {
    dl_fusion *f = a->f;
    dl_cluster *g = cluster_at(a, at);
    int left = g->members.n;
    qsort(g->members.at, (size_t)g->members.n, sizeof(int), by_value);
    for (int i = g->members.n - 1; i >= 0; i--) {
        int node = g->members.at[i];
        const dl_node *n = node_at(a, node);
        bool live = used[node] == at + 1;
        for (int k = 0; k < n->nout && f->cluster[node] == at; k++)
            live |= f->kept[node] || f->wanted[n->out[k].id];
        if (!live) continue;
        for (int k = 0; k < a->in[node].n; k++) {
            int of = a->in[node].at[k].node;
            if (has(a, at, of))
                used[of] = at + 1;
            else
                f->kept[of] = true;
        }
        g->members.at[--left] = node;
    }
    g->members.n -= left;
    memmove(g->members.at, g->members.at + left, sizeof(int) * (size_t)g->members.n);
}

void dl_fuse_rematerialize(dl_fusion *f, int nclusters, const int *order) {
    dl_arena *arena = f->ctx->arena;
    const dl_graph *g = f->graph;
    cutter *a = DL_NEW(arena, cutter);
    *a = (cutter){.f = f};
    f->recomputed_in = DL_NEWS(arena, dl_nodes, f->n + 1), f->kept = DL_NEWS(arena, bool, f->n + 1);
    a->in = DL_NEWS(arena, dl_edges, f->n + 1);
    a->place = DL_NEWS(arena, int, f->clusters.n + 1),
    a->times = DL_NEWS(arena, int, f->clusters.n + 1);
    a->vertex_of = DL_NEWS(arena, int, g->next_id + 1),
    a->updated = DL_NEWS(arena, bool, g->next_id + 1);
    for (int i = 0; i < f->n; i++)
        for (int k = 0; k < f->out[i].n; k++)
            if (f->cluster[f->out[i].at[k].node] >= 0)
                dl_push(arena, &a->in[f->out[i].at[k].node], (dl_edge){i, f->out[i].at[k].kind});
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].role == DL_RESULT_UPDATE)
            a->updated[g->results.at[i].var->value.id] = true;
    for (int i = 0; i < nclusters; i++) a->place[order[i]] = i;
    a->not_recomputable = dl_fuse_find_not_recomputable(f);
    for (int i = 0; i < nclusters && !f->unfused; i++) recompute_in_readers(a, order[i]);
    dl_fuse_pin(f);
    int *used = DL_NEWS(arena, int, f->n + 1);
    for (int i = nclusters - 1; i >= 0; i--) prune(a, order[i], used);
}
