/* A walk from a graph's first node to its last, in which some nodes become others. */
#ifndef DL_REWRITE_H
#define DL_REWRITE_H
#include "ir/graph.h"

/* What node n, whose operands are those of now, becomes: builds it at the end of the graph and puts
 * what stands for its results into made[] (NULL: nobody reads it). False: the node stays. */
typedef bool dl_rewrite_rule(void *user, dl_node *n, dl_value *made[DL_MAX_RESULTS]);
/* True when a node became another. The graph's nodes are built anew: rules append. */
bool dl_rewrite(dl_graph *g, dl_arena *arena, dl_rewrite_rule *rule, void *user);
#endif
