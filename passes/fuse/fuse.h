/* Shared by the two halves of fusion: grouping (fuse.c) and making kernels of groups
 * (fuse_kernel.c). */
#ifndef DL_FUSE_H
#define DL_FUSE_H
#include "ir/base/heap.h"
#include "ir/kernel/kernel.h"
#include "passes/pass.h"

/* Who reads a node's value, looking through inlined views. Soft: at the same points, so that the
 * two may share a kernel; spread: what a reduction over the reader's points has left, at all of
 * them again, which a kernel without a contraction may hold; hard: through memory. */
typedef enum { DL_EDGE_HARD, DL_EDGE_SPREAD, DL_EDGE_SOFT } dl_edge_kind;
typedef struct {
    int node;
    dl_edge_kind kind;
} dl_edge;
typedef DL_ARRAY(dl_edge) dl_edges;
typedef DL_ARRAY(int) dl_nodes; /* positions, or groups */
/* A kernel is one C function, and a C compiler's time grows faster than its length: chains of
 * hundreds of nodes become several kernels. */
enum { DL_FUSE_MOST_MEMBERS = 128 };

/* Part of the graph that becomes one kernel. */
typedef struct {
    bool alive, wide; /* wide: computes in f64 (step counts, learning rates) */
    dl_node *anchor;  /* its contraction, or NULL */
    dl_node *reduce;  /* a reduction of it, or NULL */
    bool mixed;       /* it has reductions of several kinds: dl_fuse_pays has been asked */
    bool spreads;  /* some of them wait for others, or their results are read at all points again */
    dl_type space; /* full space (of the operand when it reduces) */
    dl_type post;  /* what its reduction leaves, unless it is mixed */
    dl_nodes members; /* node positions, in no order while groups grow */
    dl_edges out; /* edges of its members to other groups, or to what has become a member since */
    int place;    /* in dl_fusion.line */
    int seen;     /* number of the last search that came by */
} dl_group;

typedef struct {
    dl_graph *graph;
    dl_pass_ctx *ctx;
    int n;            /* nodes */
    int *group;       /* node position -> group, -1: inlined into its readers or not needed */
    int *position;    /* value id -> position of its node, -1: a variable */
    bool *stored;     /* value id -> a MOVE or SOURCE value that must exist in memory */
    dl_var **next_of; /* value id -> the variable that it updates, or NULL */
    int *instr;       /* node position -> its instruction in the kernel being made, -1: none */
    bool alone;       /* every node is a kernel of its own */
    bool *wanted; /* value id -> a result of the graph, or what a rank takes that others count on */
    dl_edges *out;   /* by node position */
    dl_nodes *hosts; /* node position -> groups beside its own that compute it again */
    bool *kept;      /* node position -> a value that other groups read from memory */
    const int *ways; /* node position -> in how many ways it may round: fuse_same.c's */
    bool *held;      /* node position -> is to round in one way, whichever kernel computes it */
    DL_ARRAY(dl_group) groups;
    DL_ARRAY(int)
    line; /* groups in an order in which they can run, from the last to the first; -1: none here */
    int searches;       /* so far */
    dl_heap next;       /* of a search */
    DL_ARRAY(int) rest; /* of a move within the line */
} dl_fusion;

/* fuse_reads.c: kinds of nodes, and what they read. */

/* SOURCE and most MOVE ops: views and constants that readers may take in. */
bool dl_fuse_is_view(dl_op op);
/* Is this node one that its readers take in, because it is not stored? */
bool dl_fuse_inlined(const dl_fusion *f, const dl_node *n);
/* Does it read or write at places that its second operand tells? It is a kernel of its own. */
bool dl_fuse_numbered(dl_op op);
/* Does it compute in f64? */
bool dl_fuse_is_wide(const dl_node *n);
/* What a contraction, template or collective reads from memory in place of operand k: up to 4
 * values, parts side by side; of a contraction past views. Returns how many. A weight's slice
 * begins at row *start, otherwise 0. */
int dl_fuse_reads(const dl_node *n, int k, dl_value *values[4], int64_t *start);

/* What is read as v, past inlined views. */
dl_value *dl_fuse_past_views(const dl_fusion *f, dl_value *v);
/* Ops that compute one value a point from operands at the same point. */
bool dl_fuse_is_pointwise(dl_op op);
/* Has b all named axes of a? */
bool dl_fuse_has_axes(const dl_type *b, const dl_type *a);
/* The same axes in any order; those without a name have size 1 and are alike. */
bool dl_fuse_same_axes(const dl_type *a, const dl_type *b);
/* Operand `k` of a contraction by names, past renames and permutations: the value that is read, and
 * for each of its axes the name under which the contraction knows it. */
dl_value *dl_fuse_named(const dl_node *n, int k, const char *names[DL_MAX_RANK]);

/* fuse_edges.c: who reads whom. */

/* Fills f->stored: views that contractions, results and other views cannot take in. */
void dl_fuse_find_stored(dl_fusion *f);
/* Fills f->out. */
void dl_fuse_find_edges(dl_fusion *f);

/* fuse_sweeps.c: what reductions and their readers cost in one kernel. */

/* Is v made of reductions over the points of `space`, by ops on what they keep? */
bool dl_fuse_from_reduction(const dl_fusion *f, dl_value *v, const dl_type *space);
/* How often the nodes of groups a and b (-1: none), with `node` (-1: none), as one kernel over
 * `space`, would go over its points; 0 where they move fewer bytes apart. */
int dl_fuse_pays(dl_fusion *f, int a, int b, int node, const dl_type *space);
/* How often the kernel of a group goes over its points, with n nodes of other groups as members;
 * INT_MAX where more of its reductions would wait for each other than a kernel may have. */
int dl_fuse_times(dl_fusion *f, int group, int n, const int *nodes);

/* Number among the members of a group, which are in order, of the node that makes what is read as
 * v, past inlined views; -1: none of them. */
int dl_fuse_member(const dl_fusion *f, const dl_group *group, dl_value *v);

/* fuse_again.c: when all nodes have their groups, which stand in this order: makes nodes members of
 * further groups that compute their values again instead of reading them, leaves out what nobody
 * reads any more, sorts the members, and fills f->hosts and f->kept. A group may be left without
 * members. */
void dl_fuse_again(dl_fusion *f, int ngroups, const int *order);

/* fuse_same.c: what can be computed again. */

bool dl_fuse_compares(dl_op op);
/* May what it does last be a product, which a compiler joins with a sum of it? Is it what passes
 * such a one on? */
bool dl_fuse_may_join_sum(dl_op op);
bool dl_fuse_passes_on(dl_op op);
/* By node: would its value round otherwise when it is computed elsewhere, does that matter to a
 * reader, and can dl_fuse_hold not mend it? */
bool *dl_fuse_find_fragile(dl_fusion *f);
/* When it is known what is computed again: fills f->held with what must be the same numbers
 * everywhere. */
void dl_fuse_hold(dl_fusion *f);
/* Is v made anew wherever it is read? (a source that is not stored) */
bool dl_fuse_is_made(const dl_fusion *f, const dl_value *v);
/* Is operand k of a pointwise node read past views without a division for where it stands, and in
 * the order in which both lie in memory? */
bool dl_fuse_at_hand(const dl_fusion *f, const dl_node *n, int k);

/* fuse_order.c: joins that would not make kernels wait for each other in a circle. */

/* A new group of its own for `node`, whose readers are in groups already. */
int dl_fuse_new_group(dl_fusion *f, int node);
/* Makes room for `node` in group `at`, if its readers let it: false where a path of readers leads
 * from it into the group through others, or by a hard edge. */
bool dl_fuse_order_join(dl_fusion *f, int node, int at);
/* The same for groups a and b as one, which then stands in the place of `a`. */
bool dl_fuse_order_merge(dl_fusion *f, int a, int b);
/* The groups that are alive, each behind those it reads, the earliest of the program first; returns
 * how many. */
int dl_fuse_order_groups(dl_fusion *f, int *order);

/* fuse_view.c: rewrites the indices at which a view is read, in a kernel over `space`, into those
 * of its operand. False where the result is no index of a kernel: then the view is stored. */
bool dl_fuse_through_view(const dl_axis *space, const dl_node *n, dl_index *index);

/* Moves `index` of a concatenation's result to that of its operand k, which begins at `start`; what
 * it reads beside that operand is not used. Returns the operand's length. */
int64_t dl_fuse_part_index(const dl_node *cat, int k, int64_t start, dl_index *index);

/* fuse_call.c: the kernel and the fused node of a template. */
dl_node *dl_fuse_call(dl_fusion *f, dl_node *n, const char *name);

/* Makes the kernel and the fused node of a group; `outs` are the values others read. */
dl_node *dl_fuse_build(dl_fusion *f, dl_group *group, int nouts, dl_value *const *outs,
                       const char *name);
#endif
