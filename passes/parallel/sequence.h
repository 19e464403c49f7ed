/* The order in which collectives begin, where ranks might choose different ones. */
#ifndef DL_SEQUENCE_H
#define DL_SEQUENCE_H
#include "ir/graph.h"

/* The graph's collectives that have a number, by it; *n of them. */
dl_node **dl_in_sequence(const dl_graph *g, dl_arena *arena, int *n);

/* By node: may a bucket of at most that many bytes hold it? (buckets.c) */
bool *dl_find_joinable(const dl_graph *g, int64_t most, dl_arena *arena);
#endif
