/* The order in which collectives start, where ranks might choose different ones. */
#ifndef DL_ORDER_COLLECTIVES_H
#define DL_ORDER_COLLECTIVES_H
#include "ir/graph.h"

/* The numbered collectives of the graph in order; *n: how many there are. */
dl_node **dl_in_sequence(const dl_graph *g, dl_arena *arena, int *n);

/* buckets.c: by node: may a bucket of at most `most` bytes hold it? */
bool *dl_find_joinable(const dl_graph *g, int64_t most, dl_arena *arena);
#endif
