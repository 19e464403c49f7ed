/* Rewriting rules of the simplify pass. Private to it. */
#ifndef DL_SIMPLIFY_H
#define DL_SIMPLIFY_H
#include "ir/builder.h"
#include "ir/walk.h"

typedef struct {
    dl_builder b;        /* inserts before the current node */
    const dl_uses *uses; /* of the graph before this round, by value id */
    uint32_t known;      /* ids below this are in `uses` */
    bool ranks;          /* ranks share samples: a rank's shares may have no elements */
    bool changed;
} dl_simplifier;

/* A value that may replace the node's only result, or NULL. It may also change the node in place
 * (`changed`). Every rule makes the graph smaller by some measure (fewer nodes, fewer computed
 * elements, broadcasts nearer to the results), and no rule makes it larger by an earlier measure.
 * So the rounds terminate. */
dl_value *dl_simplify_node(dl_simplifier *s, dl_node *n);
/* The rule for views that rename and permute axes only: where they restore the original order,
 * returns the original under the last names. */
dl_value *dl_simplify_order(dl_simplifier *s, dl_node *n);
/* The rule for the rename of a contraction's result. */
dl_value *dl_simplify_rename(dl_simplifier *s, dl_node *n);
/* simplify_body.c: drops what nobody reads of the scans of a graph. True: it did. */
bool dl_simplify_bodies(dl_graph *g, dl_arena *arena);
#endif
