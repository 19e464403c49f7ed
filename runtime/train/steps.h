/* The step loop: runs the program "train" on batch after batch. On a device the host is one step
 * ahead. Training and replays provide the callbacks: how a batch is fed, what is done with a step's
 * results, and when to stop. */
#ifndef DLR_STEPS_H
#define DLR_STEPS_H
#include "runtime/exec/exec.h"
#include "runtime/report/profile.h"
#include "runtime/report/ranges.h"
#include "runtime/train/scaler.h"

/* A finished step. Its other results can be read from the executor until the next step is finished.
 */
typedef struct {
    double loss;
    bool skipped;      /* by the loss scaler: weights stayed as they were */
    const char *found; /* DLR_DEBUG=nan: the first value that is not finite, in words; or NULL */
} dlr_step;

typedef struct {
    dlr_exec *exec;
    int program;
    dl_arena *arena; /* of descriptions of values that are not finite */
    const dlr_ranges *ranges;
    bool watches;     /* DLR_DEBUG=nan */
    bool alone;       /* one step in flight: its feed runs a program, so the preceding step must be
                         finished */
    bool first_alone; /* the second step begins after the first one's results are processed */
    void *loop;
    /* Feeds the next batch into the program's inputs. */
    bool (*feed)(void *loop, dl_error *err);
    /* Processes the results of a step. */
    bool (*take)(void *loop, const dlr_step *step, dl_error *err);
    /* Whether to begin no further step, where `started` steps are in flight. NULL: never. */
    bool (*stops)(const void *loop, int started);

    /* Set by dlr_steps_open and dlr_steps_run. */
    dlr_view loss;
    dlr_scaler scaler;
    int accumulate;    /* the program of a step's batches before its last one; or -1 */
    const char *fed;   /* what is not finite in the newest step's batches before its last one */
    int64_t position;  /* steps of the epoch that are done */
    int started;       /* steps in flight */
    const char *found; /* of the newest step: what is not finite; or NULL */
    bool in_step;      /* a step's range has begun */
    double seconds;    /* spent on the epoch's steps so far */
    double wait;       /* of them, for batches */
} dlr_steps;

/* Finds the program "train" and its loss. Errors: DL_INPUT where the plan has none. */
bool dlr_steps_open(dlr_steps *s, dlr_exec *exec, dl_error *err);
/* Starts a program. With `watches` it runs to its end and is checked: returns a description of the
 * first value that is not finite. NULL: all are finite, or it was not checked. */
const char *dlr_steps_start_program(const dlr_steps *s, int program);
/* Runs a batch other than the last of its step (accumulate). Errors: DL_RESOURCE (the device
 * failed). */
bool dlr_steps_sum_batch(dlr_steps *s, dl_error *err);
/* Runs steps until `end` steps of the epoch are done, or `stops` returns true (*stopped). Begins a
 * step before it processes the results of the preceding one, so that the device never waits for the
 * host; finishes all that it has begun. Errors: those of feed and take; DL_RESOURCE (the device
 * failed). */
bool dlr_steps_run(dlr_steps *s, int64_t end, bool *stopped, dl_error *err);
/* Waits for the steps in flight and discards their results. */
void dlr_steps_abandon(dlr_steps *s);
#endif
