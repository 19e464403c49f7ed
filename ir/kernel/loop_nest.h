/* The loop nests of a kernel: the one analysis that interpreter, emitters and fusion share.
 *
 * In: the instructions of a kernel with the axes of each. Out: its loop nests in an
 * order in which they can run, and for each the instructions that it computes, stores and reduces.
 *
 * Every value of a kernel carries its axes: those along which it differs. A reduction clears some;
 * a later instruction may have them again, because another operand does. A reduction's readers run
 * in a later loop nest than the reduction itself, so each value has a stage: the length of the
 * longest chain of reductions that it needs. A loop nest runs at every point of some axes. It
 * stores, reduces, and recomputes the values of earlier stages that it needs, down to parameters
 * and to kept values: results of reductions, and values computed from these alone (a mean, a
 * deviation). A loop nest with `finalize` is a finalize step: it combines partial results, and
 * computes and stores values of these alone.
 *
 * With a `row`, a set of axes, reductions over exactly these axes are resident and need no loop
 * nest of their own: for one point of the other axes after another, several passes go over the row,
 * and do all the work on it. A value's level is the number of resident reductions that it needs
 * within its loop nest: the number of the pass over the row that has it. */
#ifndef DL_LOOP_NEST_H
#define DL_LOOP_NEST_H
#include "ir/kernel/kernel.h"

/* The facts about an instruction, or a node that will be one, that its loops depend on. */
typedef struct {
    dl_kinstr_kind kind;
    unsigned axes; /* a bit for each axis of the space, except those of one point, along which the
                      value differs; for a store, the axes of its points */
    unsigned over; /* REDUCE */
    int nargs, args[3];
} dl_step;

typedef struct {
    int stage;
    bool finalize;          /* combines partial results of reductions over the grid */
    unsigned axes, row;     /* runs at every point of `axes`, over rows of `row`; no bit in both */
    DL_ARRAY(int) run;      /* the instructions that it computes, stores and reduces, in order */
    DL_ARRAY(int) read;     /* kept values and results of reductions that it reads */
    DL_ARRAY(int) combined; /* finalize: the reductions whose results are complete here */
} dl_loop_nest;

typedef struct {
    bool valid; /* false: a row does not suit the kernel */
    int *stage; /* by instruction */
    int *level; /* by instruction: the pass over the row */
    bool *kept; /* by instruction: another loop nest reads it */
    int n;      /* loop nests, in an order in which they can run */
    dl_loop_nest *at;
    int times; /* how many stages have a loop nest over points */
} dl_loop_nests;

dl_step *dl_kernel_steps(const dl_kernel *k, dl_arena *arena);
/* The loop nests of `n` steps, each of which follows its operands, with these axes as a row (0:
 * none). Called by dl_schedule_nests alone (schedule.h). */
dl_loop_nests dl_find_loop_nests(dl_arena *arena, int n, const dl_step *steps, unsigned row);
/* The kernel for a schedule without a row: loop nests after the one that stores a value load it
 * back from the output, where they then read fewer bytes. Returns `k` itself where no value is read
 * back. */
const dl_kernel *dl_kernel_read_back(dl_arena *arena, const dl_kernel *k);
/* The end of the run of loop nests from number `from` on that are independent of each other. */
int dl_loop_nests_independent(const dl_loop_nests *s, int from);
/* The space axis along which the largest strided parameter has its neighbours in memory, or -1. */
int dl_kernel_inner(const dl_kernel *k);
#endif
