/* Shared by the files of the pass shard: placements of tensors, and their propagation.
 *
 * A model's graphs compute with whole tensors. In tensor parallelism (group "tp") and context
 * parallelism ("cp") a rank computes a part. The pass writes the graph of one rank, with the
 * collectives that it needs, from the meaning of the ops alone. For each of the two groups every
 * value has a placement (compare PyTorch's DTensor):
 *
 *   CONSTANT      replicated, without a gradient
 *   REPLICATE     replicated, and so is its gradient: all ranks compute the same with it
 *   PARTIAL_GRAD  replicated, but its gradient is Partial (the sum over the ranks is the
 *                 gradient): each rank computes something else with it
 *   SHARD         each rank has its shard along an axis (collective.h), and that of the gradient
 *
 * A sum along a sharded axis becomes whole by an all_reduce at once. Conversions:
 *
 *   REPLICATE to PARTIAL_GRAD  `enter`, whose gradient is an all_reduce
 *   PARTIAL_GRAD to REPLICATE  `scale_gradient`: of equal gradients, each rank's term is an equal
 *                              share
 *   PARTIAL_GRAD to SHARD      a slice, whose gradient is zero elsewhere
 *   SHARD to REPLICATE         an all_gather, whose gradient is the rank's own shard
 *   SHARD to PARTIAL_GRAD      an all_gather, whose gradient is a reduce_scatter
 *
 * Autodiff derives the backward pass from these. Over tp, parameters start as REPLICATE, or as
 * SHARD: then the variable holds the shard. Over cp they start as PARTIAL_GRAD, so that every
 * parameter's gradient is summed over cp, as it is averaged over dp. */
#ifndef DL_SHARD_H
#define DL_SHARD_H
#include "ir/builder.h"
#include "ir/collective.h"
#include "ir/templates.h"
#include "ir/walk.h"
#include "passes/pass.h"

enum { DL_TP, DL_CP, DL_NSHARDS };
extern const char *const dl_shard_groups[DL_NSHARDS]; /* "tp", "cp" */

typedef enum {
    DL_PLACE_CONSTANT,
    DL_PLACE_REPLICATE,
    DL_PLACE_PARTIAL_GRAD,
    DL_PLACE_SHARD
} dl_placement_kind;
/* A sharded axis. It consists of `parts` parts of equal size, and each of `ranks` ranks has its
 * share of each part. Several parts occur where one contraction computes queries, keys and values:
 * a rank has its heads of all three. */
typedef struct {
    const char *axis; /* interned; NULL: no axis */
    int parts, ranks;
} dl_sharding;
typedef struct {
    dl_placement_kind kind;
    dl_sharding along; /* SHARD */
    int64_t size;      /* SHARD: the size of the whole axis */
} dl_placement;

static inline bool dl_sharding_same(dl_sharding a, dl_sharding b) {
    return a.axis == b.axis && a.parts == b.parts;
}

/* ---- propagation along axes: shard_axes.c ---- */

/* Propagates forward: the sharding of the node's first result if operand k is sharded so. No axis
 * where the op reduces the axis, reads it as a whole, or moves along it. The node has whole
 * operands. */
dl_sharding dl_shard_forward(const dl_node *n, int k, dl_sharding from);

/* dl_shard_<shard>: the same for templates, by the column of ops.def: the result's axis that axis
 * `at` of operand k becomes, or NULL. */
typedef const char *dl_shard_call(const dl_node *n, int k, int at, dl_sharding from);
#define DL_TEMPLATE(id, ...)                   __VA_ARGS__
#define CALL(results, family, variants, shard) dl_shard_call dl_shard_##shard;
#define OP                                     DL_TEMPLATE_ROW
#include "ir/ops.def"
#undef OP
#undef CALL
#undef DL_TEMPLATE
/* Propagates backward: the sharding of operand k that a result sharded so needs, if any. */
dl_sharding dl_shard_backward(const dl_node *n, int k, dl_sharding to);
/* Can the result be sharded so, by sharding at least one operand? */
bool dl_shard_propagates(const dl_node *n, dl_sharding to);
/* Does the node sum along operand k's axis, so that partial sums of the shards add up to the
 * result? For a contraction, *other is the sharding that the other operand needs. */
bool dl_shard_sums(const dl_node *n, int k, dl_sharding from, dl_sharding *other);

/* ---- desired sharding: shard_specs.c ---- */

/* By value id: the desired sharding of the value, if any. */
typedef struct {
    dl_sharding *along[DL_NSHARDS];
} dl_shard_specs;
/* The desired shardings of a graph of whole tensors. False: the error, with its place in the model
 * where it has one. */
bool dl_shard_find_specs(const dl_graph *g, dl_pass_ctx *ctx, dl_shard_specs *specs);
/* ---- the rewriting: shard.c ---- */

/* Rewrites all graphs of a module for this rank; specs[i] has the desired shardings of graph i.
 * Any choice is correct; a poor one needs more collectives. */
void dl_shard_module(const dl_module *m, dl_pass_ctx *ctx, dl_shard_specs *specs);

int dl_shard_ranks(const dl_parallel *p, int group);
int dl_shard_rank(const dl_parallel *p, int group);
#endif
