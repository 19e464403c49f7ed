/* Rewriting help for passes: uses, replacement, dead code, copies, order. */
#ifndef DL_WALK_H
#define DL_WALK_H
#include "ir/graph.h"

/* Who reads each value, by value id. Valid until the graph changes. */
typedef struct {
    int n;             /* nodes that read it (a node that reads it twice counts twice) */
    int results;       /* graph results that name it */
    dl_node **readers; /* n of them, in graph order */
} dl_uses;
dl_uses *dl_graph_uses(const dl_graph *g, dl_arena *arena); /* indexed by value id, g->next_id entries */

/* Collectives of a kind that may be under way while nothing waits for them: what they read lives so long. */
enum { DL_UNDER_WAY = 2 };
/* By position: where a collective is waited for, in front of the first node that reads one of its results;
 * where only the host or the next step does, in front of the DL_UNDER_WAY-th of its kind behind it, or at
 * nodes.n. -1: no collective. */
int *dl_graph_waits(const dl_graph *g, dl_arena *arena);
/* Is operand k of the node, an all_reduce, read by nobody else, so that its result may lie in its place; or a
 * reduce_scatter of shares that lie in one each, so that this rank's may stay where it is? */
bool dl_reduces_in_place(const dl_node *n, int k, const dl_uses *uses);
/* Bytes from where the operand of such a node begins to where its result does. */
int64_t dl_reduced_at(const dl_node *n);

/* Makes every node and result that reads `from` read `to`. */
void dl_replace_value(dl_graph *g, dl_value *from, dl_value *to);
/* Removes nodes whose results nobody reads, but for those that give on to others (dl_op_gives_on); true when
 * something went. Variables stay. */
bool dl_graph_sweep(dl_graph *g);
/* Puts g->nodes into topological order again, stable (smallest earlier position first). */
void dl_graph_sort(dl_graph *g);
#endif
