/* The step loop: batches go through the program "train", on a device one step ahead of the host.
 * Training and replays run through it; what a step's results mean is theirs. */
#ifndef DLR_STEPS_H
#define DLR_STEPS_H
#include "runtime/exec/exec.h"
#include "runtime/report/profile.h"
#include "runtime/report/ranges.h"
#include "runtime/train/scaler.h"

/* A step that is done; its other results are in the executor until the next one is finished. */
typedef struct {
    double loss;
    bool skipped;      /* by the loss scaler: weights stayed as they were */
    const char *found; /* DLR_DEBUG=nan: the first value that is not finite, in words; or NULL */
} dlr_step;

typedef struct {
    dlr_exec *exec;
    int program;
    dl_arena *arena; /* of what is found */
    const dlr_ranges *ranges;
    bool watches;     /* DLR_DEBUG=nan */
    bool alone;       /* a step is not begun before the results of the one before are taken: its
                         feed runs a program */
    bool first_alone; /* nothing is started before the first step's results are looked at */
    void *loop;
    /* Feeds the next batch into the program's inputs. */
    bool (*feed)(void *loop, dl_error *err);
    /* Takes the results of a step. */
    bool (*take)(void *loop, const dlr_step *step, dl_error *err);
    /* Whether no further step is begun; `started` are under way. NULL: all are. */
    bool (*stops)(const void *loop, int started);

    /* dlr_steps_open's and dlr_steps_run's */
    dlr_view loss;
    dlr_scaler scaler;
    int accumulate;    /* the program of a step's batches before its last one; or -1 */
    const char *fed;   /* what is not finite in the newest step's batches before its last one */
    int64_t position;  /* steps of the epoch that are done */
    int started;       /* later steps that are under way */
    const char *found; /* of the newest step: what is not finite; or NULL */
    bool in_step;      /* a step's range has begun */
    double seconds;    /* spent on the epoch's steps so far */
    double wait;       /* of them, for batches */
} dlr_steps;

/* Finds the program "train" and its loss. Errors: DL_INPUT where the plan has none. */
bool dlr_steps_open(dlr_steps *s, dlr_exec *exec, dl_error *err);
/* Starts a program; where the loop watches, it is run and checked, and what is not finite is
 * returned, in words. NULL: nothing, or it is not watched. */
const char *dlr_steps_start_program(const dlr_steps *s, int program);
/* Runs the batch that was fed, which is not its step's last one. Errors: DL_RESOURCE of a
 * device. */
bool dlr_steps_sum_batch(dlr_steps *s, dl_error *err);
/* Runs steps until `end` of the epoch are done, or the loop stops. Before the next step's results
 * are looked at, it is begun, so that a device never waits for the host; all that are begun are
 * finished. *stopped: by `stops`. Errors: those of feed and take; DL_RESOURCE of a device. */
bool dlr_steps_run(dlr_steps *s, int64_t end, bool *stopped, dl_error *err);
/* Waits for the steps under way, whose results are lost. */
void dlr_steps_abandon(dlr_steps *s);
#endif
