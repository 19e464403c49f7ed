/* Shared by the two halves of fusion: grouping (fuse.c) and making kernels of groups (fuse_kernel.c). */
#ifndef DL_FUSE_H
#define DL_FUSE_H
#include "ir/kernel.h"
#include "passes/pass.h"

/* Part of the graph that becomes one kernel. */
typedef struct {
    bool alive, wide;      /* wide: computes in f64 (step counts, learning rates) */
    dl_node *anchor;       /* its contraction, or NULL */
    dl_node *reduce;       /* its first reduction, or NULL; all have the same operand axes and `over` */
    dl_type space;         /* full space (of the operand when it reduces) */
    dl_type post;          /* the reduced space, when it reduces */
    DL_ARRAY(int) members; /* node positions, descending */
} dl_group;

typedef struct {
    dl_graph *graph;
    dl_pass_ctx *ctx;
    int n;         /* nodes */
    int *group;    /* node position -> group, -1: inlined into its readers or not needed */
    int *position; /* value id -> position of its node, -1: a variable */
    bool *stored;  /* value id -> a MOVE or SOURCE value that must exist in memory */
    DL_ARRAY(dl_group) groups;
} dl_fusion;

/* Is this node a mere view or constant that its readers take in? (SOURCE and most MOVE ops, unless stored) */
bool dl_fuse_inlined(const dl_fusion *f, const dl_node *n);
/* Operand `k` of a contraction may be several values side by side, read in place: fills parts (at most 4),
 * returns how many; 1 and the operand itself when it is not a usable cat. */
int dl_fuse_parts(const dl_node *n, int k, dl_value *parts[4]);
/* A weight operand that is an aligned slice along O of a stored weight: that weight and the first row; else
 * itself, 0. */
dl_value *dl_fuse_weight(const dl_node *n, int64_t *start);

/* Makes the kernel and the fused node of a group; `outs` are the values others read. */
dl_node *dl_fuse_build(dl_fusion *f, dl_group *group, int nouts, dl_value *const *outs, const char *name);
#endif
