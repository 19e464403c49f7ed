/* When a run ends: at its number of epochs or steps, at the user's request, or after so many steps
 * of this process. All ranks stop after the same step. */
#ifndef DLR_STOPPER_H
#define DLR_STOPPER_H
#include "ir/base/console.h"
#include "runtime/comm/comm.h"
#include "runtime/formats/checkpoint.h"
#include "runtime/train/state_values.h"

typedef struct {
    int64_t epochs;
    int64_t steps;              /* in all, instead of `epochs`, so that the last may be shorter; 0:
                                   whole epochs */
    int64_t stop_after;         /* steps of this process after which the run stops as by a signal;
                                   0: none */
    int64_t early;              /* epochs in a row without a better validation loss that end the
                                   run; 0: none do */
    const char *resume_command; /* resumes the run after a stop; NULL: its own with --resume */
} dlr_stopper_options;

typedef struct {
    const dlr_stopper_options *o;
    const dl_console *console; /* asked between steps whether to stop; NULL: nobody is */
    dlr_comm *comm;            /* NULL: one rank */
    double least;              /* validation loss so far, */
    int64_t stale;             /* and epochs since */
    int requested;             /* the signal by which any rank was asked to stop; 0: none was */
    bool asking;               /* the ranks' flags are being reduced: */
    int64_t ticket;
    int32_t flags[2]; /* this rank's, and the largest of all */
} dlr_stopper;

/* At a step's end: afterwards `requested` is what all ranks knew at the end of the step before
 * (alone: now). Errors: DL_PEER. */
bool dlr_stopper_poll(dlr_stopper *s, dl_error *err);
/* Afterwards no flags are being reduced. Errors: DL_PEER. */
bool dlr_stopper_end_poll(dlr_stopper *s, dl_error *err);
/* Whether no further step is begun, where this process has made so many. */
bool dlr_stopper_stops(const dlr_stopper *s, int64_t made);
/* Fails with DL_REQUEUE, and the command that resumes the run. */
bool dlr_stopper_fail(const dlr_stopper *s, const dlr_state *at, dl_error *err);

/* After an epoch's validation. Whether the run ends early by it. */
void dlr_stopper_validated(dlr_stopper *s, double valid);
bool dlr_stopper_is_early(const dlr_stopper *s);
/* The least loss and the epochs since in a checkpoint; one of another run's options begins anew. */
void dlr_stopper_put_state(const dlr_stopper *s, dl_arena *arena, dlr_state_list *list);
void dlr_stopper_restore(dlr_stopper *s, const dlr_checkpoint *checkpoint);

/* Whether nothing is left to do, not even a validation; and that as a line of the log. */
bool dlr_stopper_is_done(const dlr_stopper_options *o, const dlr_state *at);
void dlr_stopper_log_done(const dlr_stopper_options *o, const dlr_state *at);
/* Steps of the whole run, steps of the epoch at hand (fewer than others where the run ends within
 * it), and epochs, where an epoch has so many batches. */
int64_t dlr_stopper_all_steps(const dlr_stopper_options *o, int64_t epoch_batches);
int64_t dlr_stopper_epoch_steps(const dlr_stopper_options *o, const dlr_state *at,
                                int64_t epoch_batches);
int64_t dlr_stopper_epochs(const dlr_stopper_options *o, const dlr_state *at,
                           int64_t epoch_batches);
#endif
