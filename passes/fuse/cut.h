/* A least cut of a network of few nodes (Ford and Fulkerson 1956, by shortest paths: Edmonds and
 * Karp 1972). Which values to keep and which to compute again is such a cut. */
#ifndef DL_CUT_H
#define DL_CUT_H
#include "ir/base/arena.h"

/* More than all finite capacities of a network together. */
#define DL_CUT_NEVER (INT64_MAX / 4)

typedef struct {
    int to, twin; /* the same edge the other way round */
    int64_t left; /* capacity that is left */
} dl_cut_edge;

typedef struct {
    dl_arena *arena;
    DL_ARRAY(dl_cut_edge) edges;
    DL_ARRAY(int) * of; /* by node: its edges */
    int n;
} dl_cut;

/* A network of n nodes without edges. */
dl_cut dl_cut_new(dl_arena *arena, int n);
void dl_cut_join(dl_cut *c, int from, int to, int64_t capacity);
/* By node: does it lie on the sink's side? Of several least cuts it is the one nearest to the sink.
 * Some cut has no edge of DL_CUT_NEVER. Takes the capacities away. */
bool *dl_cut_find(dl_cut *c, int source, int sink);
#endif
