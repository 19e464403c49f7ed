/* The schedule of a kernel: how its loops run.
 *
 * In: a kernel, and the rules of its target. Out: the schedule that the kernel carries from then
 * on. It is chosen once, where fusion or a later pass makes or changes the kernel; the IR's text
 * has it in the kernel's first line:
 *
 *   schedule points {phases=3}
 *   schedule rows {over=[E], phases=1}
 *   schedule per_thread {over=[kH, kW], phases=1}
 *   schedule tiles {phases=2}
 *   schedule tiles {phases=2, variant="64x64, terms in 8"}
 *   schedule scatter
 *   schedule call
 *
 * Cost, aliasing and the emitters read it; none of them chooses loops. A phase is a group of loop
 * nests that are independent of each other; splitting the K of a tile adds one that is not counted.
 *
 * An output may share an input's memory only where the schedule reads each element before it is
 * overwritten; dl_schedule_fault checks that. The interpreter, which judges the emitters, keeps
 * outputs apart and runs every kernel by points. */
#ifndef DL_SCHEDULE_H
#define DL_SCHEDULE_H
#include "ir/kernel/loop_nest.h"

/* The schedules that a target's emitter prefers and can run. All zeros: rows and points alone. */
typedef struct dl_loop_rules {
    /* A kernel with one loop nest, of reductions over the same axes, runs by rows where a row has
     * at most so many points: contiguous ones, and ones whose neighbours belong to other rows. 0:
     * only where rows save a loop nest. */
    int64_t contiguous_terms, strided_terms;
    bool floats; /* ... and where all its reductions are of f32 or of 16-bit types */
    bool maxima; /* ... however few the rows, where none of its reductions is a sum: points have
                    vectors for sums alone */
    /* Reductions of at most so many terms, which are not contiguous in memory, at no fewer than so
     * many points are a thread's own; 0: none are. */
    int64_t thread_terms, thread_points;
    /* Can the emitter run the kernel, which carries a schedule by rows? NULL: any. */
    bool (*runs_rows)(const dl_kernel *k);
} dl_loop_rules;

/* A kernel, or one that fusion may make, as far as its schedule depends on it. */
typedef struct {
    const dl_kernel *k; /* NULL: it is not made yet, and shares no memory */
    int n;              /* steps */
    const dl_step *steps;
    int nspace;
    const dl_axis *space;
    int inner;   /* the axis along which memory is contiguous (dl_kernel_inner), or -1 */
    bool floats; /* all its reductions are of f32 or of 16-bit types */
    bool sums;   /* one of them is a sum */
} dl_loop_problem;

/* The loop nests of a kernel as the emitters run them. */
typedef struct {
    const dl_kernel *k;   /* with loads of stored values that later loop nests read back */
    const dl_step *steps; /* per-thread reductions are ELEM, as part of their point */
    dl_loop_nests nests;  /* by tiles, that of the contraction is the first */
} dl_scheduled;

/* "rows": the kind's name in the text; NULL for DL_BY_NOTHING. */
const char *dl_schedule_name(dl_loop_kind kind);
/* Does a schedule of this kind consist of phases of loop nests? */
static inline bool dl_schedule_has_phases(dl_loop_kind kind) {
    return kind != DL_BY_SCATTER && kind != DL_BY_CALL;
}
/* Does it go over axes of its own? */
static inline bool dl_schedule_has_axes(dl_loop_kind kind) {
    return kind == DL_BY_ROWS || kind == DL_BY_THREAD;
}
/* Can targets have several variants of its code? They are chosen when a plan is made. */
static inline bool dl_schedule_has_variants(dl_loop_kind kind) {
    return kind == DL_BY_TILES || kind == DL_BY_CALL;
}
/* The kind that a kernel's instructions leave no choice of; DL_BY_NOTHING: there is a choice. */
dl_loop_kind dl_schedule_forced(const dl_kernel *k);
/* The schedule of a problem without a contraction, scatter or call; rules: NULL as zeros. */
dl_loop_schedule dl_schedule_choose(dl_arena *arena, const dl_loop_problem *p,
                                    const dl_loop_rules *rules);
/* Steps as loop nests see them: a thread's own reduction is an op like others. */
const dl_step *dl_schedule_steps(dl_arena *arena, int n, const dl_step *steps, dl_loop_schedule s);
/* The loop nests of `n` steps by a schedule. */
dl_loop_nests dl_schedule_nests(dl_arena *arena, int n, const dl_step *steps,
                                dl_loop_schedule schedule);
/* Chooses the kernel's schedule, and counts its cost. Outputs keep the memory that they share. */
void dl_kernel_schedule(dl_kernel *k, const dl_loop_rules *rules);
/* The loop nests of the schedule that the kernel carries; of DL_BY_NOTHING, scatter and call: by
 * points. */
dl_scheduled dl_kernel_scheduled(dl_arena *arena, const dl_kernel *k);
/* dl_kernel_count, by these loop nests. */
void dl_kernel_count_scheduled(dl_kernel *k, const dl_scheduled *runs);
/* Groups of loop nests of which each waits for the one before. */
int dl_count_phases(const dl_loop_nests *s);
/* Can loop nests of `steps` run by the schedule, with the memory that the kernel's outputs share
 * (NULL: none do)? */
bool dl_schedule_suits(const dl_kernel *k, const dl_step *steps, const dl_loop_nests *s,
                       dl_loop_schedule by);
/* Gives outputs their own memory where the schedule overwrites an element of the input whose memory
 * they share before all reads of it are over. Did any share it so? */
bool dl_schedule_unshare(dl_arena *arena, dl_kernel *k, dl_loop_schedule schedule);
/* The fault of a schedule that does not fit its kernel, or NULL. */
const char *dl_schedule_fault(const dl_kernel *k, dl_arena *arena);
#endif
