/* Shared by the files of the pass shard: placements of tensors, and their propagation.
 *
 * A model's graphs compute with whole tensors. In tensor parallelism (group "tp") and context
 * parallelism ("cp") a rank computes a part. The pass writes the graph of one rank, with the
 * collectives that it needs, from the meaning of the ops alone. For each of the two groups every
 * value has a placement (compare PyTorch's DTensor):
 *
 *   FREE   replicated, without a gradient
 *   WHOLE  replicated, and so is its gradient: all ranks compute the same with it
 *   PART   replicated, but its gradient is partial (the sum over the ranks is the gradient):
 *          each rank computes something else with it
 *   PIECE  each rank has its shard along an axis (collective.h), and the same of the gradient
 *
 * A sum along a sharded axis becomes whole by an all_reduce at once. Conversions: WHOLE to PART is
 * an `enter` (whose gradient is an all_reduce). PART to WHOLE is a `scale_gradient` (of equal
 * gradients, each rank's term is an equal share). PART to PIECE is a slice (whose gradient is zero
 * elsewhere). PIECE to WHOLE or PART is an all_gather (whose gradient is the rank's own shard, or
 * a reduce_scatter). Autodiff derives the backward pass from these.
 *
 * Over tp, parameters start as WHOLE, or as PIECE: then the variable holds the shard. Over cp they
 * start as PART, so that every parameter's gradient is summed over cp, as it is averaged over
 * dp. */
#ifndef DL_SHARD_H
#define DL_SHARD_H
#include "ir/builder.h"
#include "ir/collective.h"
#include "ir/walk.h"
#include "passes/pass.h"

enum { DL_TP, DL_CP, DL_NSHARDS };
extern const char *const dl_shard_groups[DL_NSHARDS]; /* "tp", "cp" */

typedef enum { DL_STATE_FREE, DL_STATE_WHOLE, DL_STATE_PART, DL_STATE_PIECE } dl_state_kind;
/* A sharded axis. It consists of `parts` parts of equal size, and each of `ranks` ranks has its
 * share of each part. Several parts occur where one contraction computes queries, keys and values:
 * a rank has its heads of all three. */
typedef struct {
    const char *axis; /* interned; NULL: no axis */
    int parts, ranks;
} dl_along;
typedef struct {
    dl_state_kind kind;
    dl_along along; /* PIECE */
    int64_t size;   /* PIECE: the size of the whole axis */
} dl_state;

static inline bool dl_along_same(dl_along a, dl_along b) {
    return a.axis == b.axis && a.parts == b.parts;
}

/* ---- propagation along axes: shard_axes.c ---- */

/* Propagates forward: the sharding of the node's first result if operand k is sharded so. No axis
 * where the op reduces the axis, reads it as a whole, or moves along it. The node has whole
 * operands. */
dl_along dl_shard_goes(const dl_node *n, int k, dl_along from);
/* Propagates backward: the sharding of operand k that a result sharded so needs, if any. */
dl_along dl_shard_comes(const dl_node *n, int k, dl_along to);
/* Can the result be sharded so, by sharding at least one operand? */
bool dl_shard_follows(const dl_node *n, dl_along to);
/* Does the node sum along operand k's axis, so that partial sums of the shards add up to the
 * result? For a contraction, *other is the sharding that the other operand needs. */
bool dl_shard_sums(const dl_node *n, int k, dl_along from, dl_along *other);

/* ---- desired sharding: shard_wants.c ---- */

/* By value id: the desired sharding of the value, if any. */
typedef struct {
    dl_along *along[DL_NSHARDS];
} dl_shard_wants;
/* The desired shardings of a graph of whole tensors. False: the error, with its place in the model
 * where it has one. */
bool dl_shard_find_wants(const dl_graph *g, dl_pass_ctx *ctx, dl_shard_wants *wants);
/* ---- the rewriting: shard.c ---- */

/* Rewrites all graphs of a module for this rank; wants[i] has the desired shardings of graph i.
 * Any choice is correct; a poor one needs more collectives. */
void dl_shard_module(const dl_module *m, dl_pass_ctx *ctx, dl_shard_wants *wants);

int dl_shard_ranks(const dl_parallel *p, int group);
int dl_shard_rank(const dl_parallel *p, int group);
#endif
