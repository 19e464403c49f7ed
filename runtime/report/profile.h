/* A profile of some training steps: when each kernel ran, the host's work meanwhile, and how near
 * each kernel came to the machine's peak rates.
 *
 * It is taken in one epoch of a run, after a few warm-up steps, and written when that epoch has
 * ended: a trace (Chrome's format, for ui.perfetto.dev and chrome://tracing) and a table, the
 * roofline's numbers by kernel. The steps that are recorded run launch by launch, to the same
 * bits. */
#ifndef DLR_PROFILE_H
#define DLR_PROFILE_H
#include "ir/base/str.h"
#include "runtime/exec/exec.h"
#include "runtime/report/range_parts.h"

enum { DLR_PROFILE_WARM_UP = 5, DLR_PROFILE_STEPS = 10 }; /* where an epoch has so many */

/* The machine's peak rates. Zero: unknown. */
typedef struct {
    double gflops, gbytes; /* a second: arithmetic, and what a stream through memory moves */
    const char *from;      /* "measured here" */
} dlr_peak_rates;

typedef struct {
    const char *trace, *table; /* files */
    int64_t epoch;             /* index of the one that is recorded; -1: the first that is run */
    /* Asked for once, when the steps have been recorded. False: why not, in err, and the table does
     * without. */
    bool (*peak_rates)(void *context, dlr_peak_rates *peak_rates, dl_error *err);
    void *context;
} dlr_profile_options;

typedef struct dlr_profile dlr_profile;

/* A profile of a program that the executor runs. It is in the arena, which must outlive it, as must
 * everything that the options point to. */
dlr_profile *dlr_profile_new(dl_arena *arena, const dlr_profile_options *options);

/* An epoch begins, which has so many steps to go, the first of them number `first`. */
void dlr_profile_epoch(dlr_profile *profile, dlr_exec *exec, int program, int64_t epoch,
                       int64_t first, int64_t steps);
/* Where the times of step `number` go, whose range has begun: the step is watched (dlr_exec_time).
 * NULL: it is not recorded. */
dlr_timeline *dlr_profile_step(dlr_profile *profile, int64_t number);
bool dlr_profile_wants(const dlr_profile *profile, int64_t number); /* whether it would be */
/* Ranges of the host's, within each other: while the epoch is recorded. Use ranges.h. */
void dlr_profile_begin(dlr_profile *profile, dlr_part part, int64_t number);
void dlr_profile_end(dlr_profile *profile);
/* The epoch, or the run, has ended: writes both files, and the table to the log, once, if steps
 * were recorded. Errors: DL_IO. */
bool dlr_profile_write(dlr_profile *profile, dl_error *err);
/* Whether it was written. */
bool dlr_profile_done(const dlr_profile *profile);

/* ---- what its files share ---- */

typedef struct {
    dlr_part part;
    int64_t number;
    dlr_time time; /* ended 0: it has not ended */
} dlr_profile_range;

typedef struct {
    int64_t number; /* in the epoch, from 0 */
    dlr_timeline timeline;
} dlr_profile_run;

struct dlr_profile {
    dl_arena *arena;
    dlr_profile_options options;
    const dl_plan *plan;
    const dl_plan_program *program;
    int threads;
    int64_t epoch, first, end; /* of the steps that are recorded */
    bool open, done;
    DL_ARRAY(dlr_profile_range) ranges; /* in the order in which they began */
    int stack[16], depth;               /* those that have not ended */
    DL_ARRAY(dlr_profile_run *) runs;
};

/* profile_trace.c: the trace as JSON. */
void dlr_profile_put_trace(const dlr_profile *profile, dl_buf *out);
/* profile_table.c: the table, lines with a newline each. */
void dlr_profile_put_table(const dlr_profile *profile, const dlr_peak_rates *peak_rates,
                           dl_buf *out);
#endif
