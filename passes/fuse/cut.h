/* A minimum cut of a network of few nodes: augmenting paths (Ford and Fulkerson 1956), the
 * shortest first (Edmonds and Karp 1972). Fusion uses it to choose which values to store and
 * which to rematerialize. */
#ifndef DL_CUT_H
#define DL_CUT_H
#include "ir/base/arena.h"

/* More than all finite capacities of a network together. */
#define DL_CUT_NEVER (INT64_MAX / 4)

typedef struct {
    int to, twin; /* the reverse edge */
    int64_t left; /* residual capacity */
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
/* By node: is it on the sink's side of a minimum cut? Among several minimum cuts, this is the
 * one nearest to the sink. The network must have a cut without an edge of DL_CUT_NEVER. The
 * capacities are used up. */
bool *dl_cut_find(dl_cut *c, int source, int sink);
#endif
