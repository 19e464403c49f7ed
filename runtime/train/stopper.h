/* Decides when a run ends: after its number of epochs or steps, at a request of the user, after
 * `stop_after` steps of this process, or early. All ranks stop after the same step. */
#ifndef DLR_STOPPER_H
#define DLR_STOPPER_H
#include "ir/base/console.h"
#include "runtime/comm/comm.h"
#include "runtime/formats/checkpoint.h"
#include "runtime/train/state_values.h"

/* Asked on rank 0 after each epoch but the last: *ends the run, with a line of the log. */
typedef struct {
    void (*ask)(void *context, bool *ends); /* NULL: nobody is asked */
    void *context;
} dlr_stop_judge;

typedef struct {
    int64_t epochs;
    int64_t steps;               /* in all, instead of `epochs`, so that the last may be shorter; 0:
                                    whole epochs */
    int64_t stop_after;          /* steps of this process after which the run stops as by a signal;
                                    0: none */
    int64_t early;               /* epochs in a row without a better validation loss that end the
                                    run; 0: none do */
    const dlr_stop_judge *judge; /* NULL: there is none */
    double save_seconds;         /* after which a checkpoint is due within an epoch; 0: never */
    const char *resume_command;  /* resumes the run after a stop; NULL: its own with --resume */
} dlr_stopper_options;

typedef struct {
    const dlr_stopper_options *o;
    const dl_console *console; /* polled between steps for requests to stop; NULL: none */
    dlr_comm *comm;            /* NULL: one rank */
    bool is_rank0;
    double least;   /* validation loss so far, */
    int64_t stale;  /* and epochs since */
    bool judged;    /* the judge has ended the run */
    bool saves;     /* a checkpoint is due by time; the run that writes it resets this */
    double save_at; /* rank 0: the time of the next one; 0: not yet known */
    int requested;  /* the signal that requested a stop on some rank; 0: none */
    bool asking;    /* the ranks' flags are being reduced: */
    int64_t ticket;
    int32_t flags[2]; /* this rank's, and the largest of all */
} dlr_stopper;

/* Call it at the end of each step. Sets `requested` to the request that all ranks knew of at the
 * end of the preceding step (one rank: now), and `saves` where rank 0's clock had a checkpoint due
 * then. Errors: DL_PEER. */
bool dlr_stopper_poll(dlr_stopper *s, dl_error *err);
/* Finishes the reduction of flags that the last poll began. Errors: DL_PEER. */
bool dlr_stopper_end_poll(dlr_stopper *s, dl_error *err);
/* Whether to begin no further step, after `made` steps of this process. */
bool dlr_stopper_stops(const dlr_stopper *s, int64_t made);
/* Sets the error DL_REQUEUE, whose message has the command that resumes the run. Returns false. */
bool dlr_stopper_fail(const dlr_stopper *s, const dlr_state *at, dl_error *err);

/* Call it with the loss of each validation; dlr_stopper_is_early then tells whether early stopping
 * ends the run. */
void dlr_stopper_validated(dlr_stopper *s, double valid);
bool dlr_stopper_is_early(const dlr_stopper *s);
/* Asks the judge on rank 0, and gives all ranks its answer. Errors: DL_PEER. */
bool dlr_stopper_judge(dlr_stopper *s, dl_error *err);
/* Saves the lowest loss and the number of stale epochs in a checkpoint, and restores them. They
 * restart where the checkpoint's run had other options. */
void dlr_stopper_put_state(const dlr_stopper *s, dl_arena *arena, dlr_state_list *list);
void dlr_stopper_restore(dlr_stopper *s, const dlr_checkpoint *checkpoint);

/* Whether the run is complete, with its last validation; and that message as a line of the log. */
bool dlr_stopper_is_done(const dlr_stopper_options *o, const dlr_state *at);
void dlr_stopper_log_done(const dlr_stopper_options *o, const dlr_state *at);
/* The steps of the whole run; the steps of the current epoch, which are fewer where the run ends
 * within it; and the number of epochs. epoch_batches: the batches of an epoch. */
int64_t dlr_stopper_all_steps(const dlr_stopper_options *o, int64_t epoch_batches);
int64_t dlr_stopper_epoch_steps(const dlr_stopper_options *o, const dlr_state *at,
                                int64_t epoch_batches);
int64_t dlr_stopper_epochs(const dlr_stopper_options *o, const dlr_state *at,
                           int64_t epoch_batches);
#endif
