/* In which loops a kernel runs: the one analysis that interpreter, emitters and fusion share.
 *
 * Every value of a kernel carries its axes: those along which it differs. A reduction clears some; a later
 * instruction may have them again, because another operand does. What waits for a reduction runs in a later
 * loop than what the reduction is made of, so each value has a stage: how many reductions, one behind the
 * other, it waits for. A loop ("sweep") runs at every point of some axes; it stores, adds up reductions, and
 * computes again what it needs of earlier stages down to parameters and to what is kept: results of
 * reductions, and values made of these alone (a mean, a spread), in a sweep "behind" the reductions.
 *
 * With a `row`, which is a set of axes, reductions over just these are no loops of their own: one point of
 * the other axes after another, their row is passed over several times, and all that the row needs is done
 * at once. A value's level is the number of such reductions that it waits for within its sweep: the pass
 * over the row in which it is there. */
#ifndef DL_SWEEP_H
#define DL_SWEEP_H
#include "ir/kernel/kernel.h"

/* An instruction, or a node that will be one, as far as loops go. */
typedef struct {
    dl_kinstr_kind kind;
    unsigned axes; /* a bit an axis of the space that has not one point: along which the value differs; of a
                      store, those of its points */
    unsigned over; /* REDUCE */
    int nargs, args[3];
} dl_step;

typedef struct {
    int stage;
    bool behind;            /* runs where reductions' partial results are combined */
    unsigned axes, row;     /* runs at every point of these, over rows of those; no bit in both */
    DL_ARRAY(int) run;      /* what it computes, stores and adds up, in order */
    DL_ARRAY(int) read;     /* results of reductions, and what was kept, that it takes */
    DL_ARRAY(int) combined; /* behind: the reductions whose results are made here */
} dl_sweep;

typedef struct {
    bool valid; /* can be run so at all: a row may not suit a kernel */
    int *stage; /* by instruction */
    int *level; /* by instruction: the pass over the row */
    bool *kept; /* by instruction: some sweep but its own reads it */
    int n;      /* sweeps, in an order in which they can run */
    dl_sweep *at;
    int times; /* how often, one behind the other, points are swept over */
} dl_sweeps;

enum {
    DL_ROW_POINTS = 16384, /* a row has at most so many: its values stay in a core's own cache; */
    DL_ROW_ACROSS = 512,   /* so many where memory's neighbours belong to other rows, which run beside it, */
    DL_ROW_LANES = 16,     /* so many at a time; */
    DL_ROW_KEPT = 1 << 17, /* so many values are put away for later passes. */
    DL_ROW_SHARED = 16,    /* There are at least so many rows, or lanes full of them, for threads to share, */
    DL_ROW_SMALL = 65536,  /* where all together are more points than these */
    DL_ROW_ENOUGH = 4096   /* with fewer rows, partial results use more threads than a row a thread does */
};

dl_step *dl_kernel_steps(const dl_kernel *k, dl_arena *arena);
/* The sweeps of `n` steps, each behind its operands, with these axes as a row; 0: none. */
dl_sweeps dl_find_sweeps(dl_arena *arena, int n, const dl_step *steps, unsigned row);
/* The kernel as it runs in sweeps without a row: in those behind the one that stores a value, the value is a
 * load of the output that it was stored into, where they then read fewer bytes. The kernel itself where there
 * is nothing of the kind. */
const dl_kernel *dl_kernel_read_back(dl_arena *arena, const dl_kernel *k);
/* One more than the last of the sweeps from number `from` on that do not wait for each other. */
int dl_sweeps_beside(const dl_sweeps *s, int from);
/* The space axis along which the largest strided parameter has its neighbours in memory, or -1. */
int dl_kernel_inner(const dl_kernel *k);
/* The row for which fewest sweeps remain; 0 where none helps or none fits. inner: as dl_kernel_inner. */
unsigned dl_choose_row(dl_arena *arena, int n, const dl_step *steps, int nspace, const dl_axis *space,
                       int inner);
/* The row of a kernel whose reductions each kept point should do by itself: all are over the same axes, of at
 * most `along` points, or `across` where memory's neighbours belong to other rows, and there are enough of
 * them. 0: none. */
unsigned dl_row_within(const dl_kernel *k, const dl_step *steps, dl_arena *arena, int64_t along,
                       int64_t across);
#endif
