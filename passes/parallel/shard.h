/* The pass shard: what its files share.
 *
 * A model's graphs compute with whole tensors. In tensor parallelism (group "tp") and context
 * parallelism
 * ("cp") a rank computes a part: the pass writes what one rank does, and the collectives between,
 * by what the ops mean, not by who wrote them. For each of the two groups every value has a state:
 *
 *   FREE   whole on every rank, and nothing flows back into it
 *   WHOLE  whole on every rank, and so is its gradient: all ranks do the same with it
 *   PART   whole on every rank, but its gradient is the sum of the ranks': each does other work
 * with it PIECE  each rank has its share along an axis (collective.h), and of the gradient the same
 *
 * What is summed along an axis of which ranks have pieces is made whole by an all_reduce at once.
 * From state to state goes: WHOLE to PART by `enter` (whose gradient is an all_reduce), PART to
 * WHOLE by `scale_gradient` (of equal gradients each rank's part is an equal share), PART to PIECE
 * by a slice (whose gradient is zero elsewhere), PIECE to WHOLE or PART by an all_gather (whose
 * gradient is the own piece, or a reduce_scatter). Autodiff makes the way back of these.
 *
 * Over tp parameters begin WHOLE, or are PIECEs from the start: the variable holds its share. Over
 * cp they begin PART, so that every parameter's gradient is to be summed over cp, as it is averaged
 * over dp. */
#ifndef DL_SHARD_H
#define DL_SHARD_H
#include "ir/builder.h"
#include "ir/collective.h"
#include "ir/walk.h"
#include "passes/pass.h"

enum { DL_TP, DL_CP, DL_NSHARDS };
extern const char *const dl_shard_groups[DL_NSHARDS]; /* "tp", "cp" */

typedef enum { DL_STATE_FREE, DL_STATE_WHOLE, DL_STATE_PART, DL_STATE_PIECE } dl_state_kind;
/* Along an axis, of which lie `parts` parts of equal size behind each other, each of `ranks` ranks
 * has its share of each part: where one product makes queries, keys and values, its heads of all
 * three. */
typedef struct {
    const char *axis; /* interned; NULL: along none */
    int parts, ranks;
} dl_along;
typedef struct {
    dl_state_kind kind;
    dl_along along; /* PIECE */
    int64_t size;   /* PIECE: of the whole axis */
} dl_state;

static inline bool dl_along_same(dl_along a, dl_along b) {
    return a.axis == b.axis && a.parts == b.parts;
}

/* ---- where axes go: shard_axes.c ---- */

/* Where in the node's first result what operand k has goes, the op doing the same at every place of
 * the axis; along none where it ends, is looked at as a whole, or is moved. Of a node with whole
 * operands. */
dl_along dl_shard_goes(const dl_node *n, int k, dl_along from);
/* What of operand k goes along this axis of the result, if anything. */
dl_along dl_shard_comes(const dl_node *n, int k, dl_along to);
/* Does any operand's? */
bool dl_shard_follows(const dl_node *n, dl_along to);
/* Does the node sum along operand k's axis, so that sums of pieces add up to the whole? Of a
 * contraction, *other is what the other operand has. */
bool dl_shard_sums(const dl_node *n, int k, dl_along from, dl_along *other);

/* ---- what should be in pieces: shard_wants.c ---- */

/* By value id: along what the value should be in pieces, if it should. */
typedef struct {
    dl_along *along[DL_NSHARDS];
} dl_shard_wants;
/* Of a graph that is still whole. False: the error, located in the model where it can be. */
bool dl_shard_find_wants(const dl_graph *g, dl_pass_ctx *ctx, dl_shard_wants *wants);
/* ---- the walk: shard.c ---- */

/* Cuts all graphs of a module as wants[i] of the i-th says. What does not follow from what is
 * wanted is right all the same, at the price of more collectives. */
void dl_shard_module(const dl_module *m, dl_pass_ctx *ctx, dl_shard_wants *wants);

int dl_shard_ranks(const dl_parallel *p, int group);
int dl_shard_rank(const dl_parallel *p, int group);
#endif
