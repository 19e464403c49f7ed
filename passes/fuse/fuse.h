/* Fusion's shared types: grouping (fuse.c) and the making of kernels (fuse_kernel.c). */
#ifndef DL_FUSE_H
#define DL_FUSE_H
#include "ir/base/heap.h"
#include "ir/kernel/contraction_rules.h"
#include "ir/kernel/kernel.h"
#include "passes/pass.h"

/* How a reader reads a node's value, past inlined views. Soft: at its own points, so that both
 * may be in one kernel. Spread: a reduction's result is broadcast back to the points that it was
 * reduced over; a kernel without a contraction may have both. Hard: through memory. */
typedef enum { DL_EDGE_HARD, DL_EDGE_BROADCAST_BACK, DL_EDGE_SOFT } dl_edge_kind;
typedef struct {
    int node;
    dl_edge_kind kind;
} dl_edge;
typedef DL_ARRAY(dl_edge) dl_edges;
typedef DL_ARRAY(int) dl_nodes; /* positions of nodes, or numbers of clusters */
/* A kernel is one C function, and a C compiler's time grows faster than a function's length.
 * Chains of hundreds of nodes become several kernels. */
enum { DL_FUSE_MOST_MEMBERS = 128 };

/* A part of the graph that becomes one kernel. */
typedef struct {
    bool alive, wide;     /* wide: computes in f64 (step counts, learning rates) */
    dl_node *anchor;      /* its contraction, or NULL */
    dl_node *reduce;      /* one of its reductions, or NULL */
    bool mixed;           /* has reductions of several kinds; dl_fuse_pays has approved them */
    bool broadcasts_back; /* a reduction needs another one, or its result is broadcast back to all
                             points */
    dl_type space;        /* its iteration space; the operand's where it reduces */
    dl_type post;         /* the axes after its reduction, unless it is mixed */
    dl_nodes members;     /* positions of nodes; unordered while clusters grow */
    dl_edges out; /* edges of its members to other clusters, or to nodes that have joined since */
    int place;    /* its index in dl_fusion.line */
    int seen;     /* the last search that visited it */
} dl_cluster;

typedef struct {
    dl_graph *graph;
    dl_pass_ctx *ctx;
    const dl_contraction_rules *contractions;
    int n;            /* nodes */
    int *cluster;     /* node position -> cluster; -1: inlined into its readers, or not needed */
    int *position;    /* value id -> position of its node, -1: a variable */
    bool *stored;     /* value id -> a result of a MOVE or SOURCE op that must exist in memory */
    dl_var **next_of; /* value id -> the variable whose next value it is, or NULL */
    int *instr;    /* node position -> its instruction in the kernel that is being made, -1: none */
    bool unfused;  /* each node is a kernel of its own */
    bool *wanted;  /* value id -> a result of the graph, or an operand of a collective */
    dl_edges *out; /* by node position */
    dl_nodes *recomputed_in; /* node position -> other clusters that rematerialize it */
    bool *kept;              /* node position -> other clusters read its value from memory */
    const int *rounding;     /* node position -> whether recomputing keeps its bits (rounding.c) */
    bool *pinned; /* node position -> its rounding is pinned: the same in every kernel that computes
                   it */
    DL_ARRAY(dl_cluster) clusters;
    DL_ARRAY(int)
    line; /* clusters in an order in which they can run, from the last to the first; -1: none */
    int searches;       /* how many searches there were */
    dl_heap next;       /* the queue of a search */
    DL_ARRAY(int) rest; /* scratch of a move within the line */
} dl_fusion;

/* ---- fuse_reads.c: kinds of nodes, and the values that they read ---- */

/* SOURCE ops and most MOVE ops: views and constants that readers may inline. */
bool dl_fuse_is_view(dl_op op);
/* Is this node inlined by its readers, because it is not stored? */
bool dl_fuse_inlined(const dl_fusion *f, const dl_node *n);
/* Does it read or write at indices that its second operand holds? Such a node is a kernel of its
 * own. */
bool dl_fuse_is_indexed(dl_op op);
/* Does it compute in f64? */
bool dl_fuse_is_wide(const dl_node *n);
/* The values that a contraction, template or collective reads from memory as operand k: up to 4,
 * the parts of a concatenation. A contraction reads past views. Returns their number. A slice of
 * a weight begins at row *start; otherwise *start is 0. */
int dl_fuse_reads(const dl_node *n, int k, dl_value *values[4], int64_t *start);

/* The value that a read of v means, past inlined views. */
dl_value *dl_fuse_past_views(const dl_fusion *f, dl_value *v);
/* Ops that compute one value a point from operands at the same point. */
bool dl_fuse_is_pointwise(dl_op op);
/* Does b have all named axes of a? */
bool dl_fuse_has_axes(const dl_type *b, const dl_type *a);
/* Do both types have the same axes, in any order? Axes without a name have size 1 and are
 * ignored. */
bool dl_fuse_same_axes(const dl_type *a, const dl_type *b);
/* Operand `k` of a contraction by names, past renames and permutations: the value in memory, and
 * for each of its axes the name that the contraction gives it. */
dl_value *dl_fuse_named(const dl_node *n, int k, const char *names[DL_MAX_RANK]);

/* ---- fuse_edges.c: edges between nodes ---- */

/* Fills f->stored: the views that contractions, results and other views cannot inline. */
void dl_fuse_find_stored(dl_fusion *f);
/* Fills f->out. */
void dl_fuse_find_edges(dl_fusion *f);

/* ---- fuse_epilogue.c: reductions of what a contraction makes ---- */

enum { DL_FUSE_EPILOGUE_NODES = 16 /* the most nodes between a contraction and its reduction */ };
/* Can this reduction be an epilogue reduction of the contraction? Its axes are the contraction's.
 */
bool dl_fuse_takes_reduction(const dl_fusion *f, const dl_node *anchor, const dl_node *reduce);
/* The contraction that produces the operand of this reduction, as far as the reduction can join
 * its epilogue at little cost; or NULL. */
const dl_node *dl_fuse_epilogue_producer(const dl_fusion *f, const dl_node *reduce);

/* ---- fuse_loop_nests.c: the cost of reductions and their readers in one kernel ---- */

/* Is v computed pointwise from results of reductions over the points of `space`? */
bool dl_fuse_from_reduction(const dl_fusion *f, dl_value *v, const dl_type *space);
/* The number of passes over the points of `space` that one kernel of clusters a and b (-1: none)
 * and `node` (-1: none) would make; 0 where separate kernels move fewer bytes. */
int dl_fuse_pays(dl_fusion *f, int a, int b, int node, const dl_type *space);
/* The number of passes over its points that a cluster's kernel makes with n nodes of other clusters
 * as members. INT_MAX: its chain of reductions would be longer than a kernel may have. */
int dl_fuse_passes(dl_fusion *f, int cluster, int n, const int *nodes);

/* The index, among the sorted members of a cluster, of the node that makes v, past inlined views;
 * -1: it is no member. */
int dl_fuse_member(const dl_fusion *f, const dl_cluster *cluster, dl_value *v);

/* rematerialize.c: rematerialization. In: all nodes' clusters, in the order in which they run.
 * Nodes become members of further clusters, which compute the values again instead of reading them.
 * Nodes that nobody reads any more are removed, and a cluster may be left without members. Out:
 * sorted members, f->recomputed_in and f->kept. */
void dl_fuse_rematerialize(dl_fusion *f, int nclusters, const int *order);

/* ---- rounding.c: rounding legality of rematerialization ---- */

/* By node: must its value not be recomputed? So it is where a recomputed value may round
 * differently, a reader depends on the rounding, and dl_fuse_pin cannot pin it. */
bool *dl_fuse_find_not_recomputable(dl_fusion *f);
/* After the choice of what to rematerialize: fills f->pinned with the nodes whose values must be
 * equal in all kernels. */
void dl_fuse_pin(dl_fusion *f);
/* Is v recomputed wherever it is read (a source that is not stored)? */
bool dl_fuse_is_recomputed_source(const dl_fusion *f, const dl_value *v);
/* Does a pointwise node read operand k past views without a division in its index, and in the
 * order in which both are in memory? */
bool dl_fuse_reads_in_order(const dl_fusion *f, const dl_node *n, int k);

/* ---- fuse_order.c: joins that close no circle of kernels ---- */

/* A new cluster for `node`, all of whose readers are in clusters already. */
int dl_fuse_new_cluster(dl_fusion *f, int node);
/* Moves cluster `at` so that `node` may join it. False: a path of readers leads from the node into
 * the cluster through other clusters, or by a hard edge. */
bool dl_fuse_order_join(dl_fusion *f, int node, int at);
/* The same for the merge of clusters a and b, which takes the position of `a`. */
bool dl_fuse_order_merge(dl_fusion *f, int a, int b);
/* The live clusters, each after those that it reads, otherwise in program order; returns their
 * number. */
int dl_fuse_order_clusters(dl_fusion *f, int *order);

/* fuse_view.c: rewrites the indices of a read of a view, in a kernel over `space`, into indices
 * of its operand. False where the result is no index that a kernel can hold: then the view is
 * stored. */
bool dl_fuse_through_view(const dl_axis *space, const dl_node *n, dl_index *index);

/* Moves `index` from a concatenation's result to its operand k, which begins at `start`;
 * elements outside this operand are not used. Returns the operand's length. */
int64_t dl_fuse_part_index(const dl_node *cat, int k, int64_t start, dl_index *index);

/* ---- fuse_call.c, fuse_kernel.c: kernels of templates and of clusters ---- */
dl_node *dl_fuse_call(dl_fusion *f, dl_node *n, const char *name);

/* The kernel and the fused node of a cluster; `outs` are the values that others read. */
dl_node *dl_fuse_build(dl_fusion *f, dl_cluster *cluster, int nouts, dl_value *const *outs,
                       const char *name);

/* ---- fuse_reductions.c ---- */

/* Kernels have sums, maxima and minima over at least one axis. A mean becomes a sum and a product;
 * a reduction over no axis becomes its operand. The pass simplify does so too, but may be
 * skipped. */
void dl_fuse_lower_reductions(dl_graph *g, dl_arena *arena);
/* fuse_body.c: gives each result of a body a node of its own. A scan's kernels write a state over
 * the one before it, and an output into the result of the graph around. */
void dl_fuse_own_results(dl_graph *g);
/* hoist.c: moves what is the same at each step of a scan out of its body. True: it did. */
bool dl_fuse_hoist(dl_graph *g, dl_arena *arena);
#endif
