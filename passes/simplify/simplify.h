/* Rewriting rules of the simplify pass. Private to it. */
#ifndef DL_SIMPLIFY_H
#define DL_SIMPLIFY_H
#include "ir/builder.h"
#include "ir/walk.h"

typedef struct {
    dl_builder b;        /* writes in front of the node looked at */
    const dl_uses *uses; /* of the graph as it was before this round, by value id */
    uint32_t known;      /* ids below this are in `uses` */
    bool changed;
} dl_simplifier;

/* A value that may stand for the node's only result, or NULL. May also mend the node in place
 * (`changed`). Every rule makes the graph smaller by some measure (fewer nodes, fewer elements
 * computed, broadcasts nearer to the results) and none makes it larger by an earlier one, so that
 * rounds of them end. */
dl_value *dl_simplify_node(dl_simplifier *s, dl_node *n);
/* The rule for views that only name and order axes: what they view, under the last names, when they
 * bring axes back to where they were. */
dl_value *dl_simplify_order(dl_simplifier *s, dl_node *n);
/* The rule for the rename of a product. */
dl_value *dl_simplify_rename(dl_simplifier *s, dl_node *n);
#endif
