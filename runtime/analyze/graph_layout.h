/* Places for the boxes of a graph: the layered method of Sugiyama, Tagawa and Toda (1981). Ranks
 * are longest paths; an edge over several ranks has a narrow box in each; sweeps by barycentres
 * order the boxes of a rank, and means of their neighbours' places set them apart. */
#ifndef DL_GRAPH_LAYOUT_H
#define DL_GRAPH_LAYOUT_H
#include "ir/base/arena.h"

typedef struct {
    double width;               /* in */
    bool is_bend;               /* a place where an edge crosses a rank */
    int rank, at;               /* out: its rank, and its index there */
    double x;                   /* out: its centre */
    DL_ARRAY(int) below, above; /* boxes that an edge leads to or comes from, in the next rank */
} dl_layout_box;

/* An edge between two of the boxes given, and the boxes that it goes through, both ends included.
 */
typedef struct {
    int from, to;
    DL_ARRAY(int) path;
} dl_layout_edge;

typedef struct {
    DL_ARRAY(dl_layout_box) boxes; /* those given first */
    DL_ARRAY(dl_layout_edge) edges;
    int ranks;
    double width; /* out: of all ranks; x is between 0 and this */
} dl_graph_layout;

/* Fills in ranks and places. Each edge leads from a box to one with a larger index; others are
 * dropped. gap: between two boxes of a rank. */
void dl_lay_out_graph(dl_arena *arena, dl_graph_layout *l, double gap);
#endif
