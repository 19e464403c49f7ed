/* Helpers of passes: uses of values, replacement, removal of dead code, copies, topological order.
 */
#ifndef DL_WALK_H
#define DL_WALK_H
#include "ir/graph.h"

/* The readers of each value, by value id. Valid until the graph changes. */
typedef struct {
    int n;             /* reading nodes (a node that reads it twice counts twice) */
    int results;       /* graph results that name it */
    dl_node **readers; /* n of them, in graph order */
} dl_uses;
dl_uses *dl_graph_uses(const dl_graph *g, dl_arena *arena); /* indexed by value id, g->next_id
                                                               entries */

/* The most collectives of a kind in progress before the first is waited for; their operands stay
 * alive until then. */
enum { DL_UNDER_WAY = 2 };
/* By position: where a collective is waited for. That is before the first node that reads one of
 * its results; where only the host or the next step reads it, before the DL_UNDER_WAY-th later
 * collective of its kind, or at nodes.n. -1: no collective. */
int *dl_graph_waits(const dl_graph *g, dl_arena *arena);
/* May the node's result share the memory of operand k? Yes, if nobody else reads the operand, and
 * the node is an all_reduce, or a reduce_scatter of contiguous shards, where this rank's shard
 * stays in place. */
bool dl_reduces_in_place(const dl_node *n, int k, const dl_uses *uses);
/* Bytes from the start of such a node's operand to its result. */
int64_t dl_reduced_at(const dl_node *n);

/* Makes every node and result that reads `from` read `to`. */
void dl_replace_value(dl_graph *g, dl_value *from, dl_value *to);
/* Removes nodes whose results are unused, except those that forward data to other ranks
 * (dl_op_forwards); true when one was removed. Variables stay. */
bool dl_graph_sweep(dl_graph *g);
/* Puts g->nodes into topological order again, stable (smallest earlier position first). False, and
 * the order is as before: there is none, since nodes form a cycle. */
bool dl_graph_sort(dl_graph *g);
#endif
