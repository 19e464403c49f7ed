/* Which node waits for which, for whoever puts them in order: a node for those that make its
 * operands, and one that writes the next value of a variable in place for all other readers of the
 * old one, and a collective for that of the number before (sequence.c). */
#ifndef DL_WAITS_H
#define DL_WAITS_H
#include "ir/walk.h"

/* A reason that one node waits for another. */
typedef struct {
    int node;     /* the other: who waits, in `after`; whom it waits for, in `before` */
    dl_var *read; /* the variable whose old value is read before it is overwritten; NULL: an
                     operand, or */
    bool
        begins; /* of two collectives one behind the other, of which the later is not begun first */
} dl_wait;

typedef struct {
    int n;
    dl_arena *arena;
    dl_node **node;        /* in the order given */
    const dl_uses *uses;   /* by value id */
    int *position;         /* by value id: of its maker; variables: 0 */
    int *nafter, *nbefore; /* a node: how many reasons others wait for it, and it for others */
    dl_wait **after, **before;
} dl_waits;

dl_waits dl_find_waits(const dl_graph *g, dl_arena *arena);
#endif
