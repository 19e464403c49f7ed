/* A walk over a graph from its first node to its last, which replaces nodes. */
#ifndef DL_REWRITE_H
#define DL_REWRITE_H
#include "ir/graph.h"

/* Replaces node n, whose operands have been replaced already: appends new nodes to the graph and
 * sets made[] to the replacements of its results (NULL: nobody reads the result). False: the
 * node stays. */
typedef bool dl_rewrite_rule(void *user, dl_node *n, dl_value *made[DL_MAX_RESULTS]);
/* True when a node was replaced. The graph's list of nodes is built anew: rules append to it. */
bool dl_rewrite(dl_graph *g, dl_arena *arena, dl_rewrite_rule *rule, void *user);
#endif
