/* The order in which collectives begin, where ranks might choose different ones. */
#ifndef DL_SEQUENCE_H
#define DL_SEQUENCE_H
#include "ir/graph.h"

/* The graph's collectives that have a number, by it; *n of them. */
dl_node **dl_in_sequence(const dl_graph *g, dl_arena *arena, int *n);
#endif
