/* Dependences between nodes, for passes that reorder them. A node depends on the nodes of its
 * operands. A node that overwrites a variable with its next value depends on all other readers of
 * the old value. A collective depends on the one with the preceding number (order_collectives.c).
 */
#ifndef DL_WAITS_H
#define DL_WAITS_H
#include "ir/walk.h"

/* A dependence of one node on another. */
typedef struct {
    int node; /* the other node: the dependent one in `after`, the one it depends on in `before` */
    dl_var *read; /* the variable whose old value is read before it is overwritten; NULL: an
                     operand, or */
    bool begins;  /* of two consecutive collectives, of which the later must not start first */
} dl_wait;

typedef struct {
    int n;
    dl_arena *arena;
    dl_node **node;        /* in the order given */
    const dl_uses *uses;   /* by value id */
    int *position;         /* by value id: the position of its node; variables: 0 */
    int *nafter, *nbefore; /* by node: the number of its dependents, and of its dependences */
    dl_wait **after, **before;
} dl_waits;

dl_waits dl_find_waits(const dl_graph *g, dl_arena *arena);
#endif
