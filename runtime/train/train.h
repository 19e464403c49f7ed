/* The training loop: a run from its first log line to its last. */
#ifndef DLR_TRAIN_H
#define DLR_TRAIN_H
#include "runtime/report/ranges.h"
#include "runtime/train/batches.h"
#include "runtime/train/checkpointer.h"
#include "runtime/train/learning_rate.h"
#include "runtime/train/logger.h"
#include "runtime/train/stopper.h"

/* The model as a checkpoint records it. graph: a digest of its graphs, whatever the batch; source:
 * its text; keys: the settings in `hyperparams` that it depends on, ending with NULL; data: what it
 * was trained on (runtime/setup/data_record.h). Zero: not recorded. */
typedef struct {
    const char *graph, *source, *data;
    const char *const *keys;
} dlr_run_model;

typedef struct {
    bool wanted;      /* resumes from the newest checkpoint, if there is one: */
    const char *from; /* of the run or checkpoint in this directory; NULL: of the run itself */
} dlr_resume_options;

/* Numbers of steps of an epoch after which something is done in addition to its end; 0: never. */
typedef struct {
    int64_t log, validate, save;
} dlr_intervals;

/* A run: its plan and place, and the options of each of its components. */
typedef struct {
    dlr_exec *exec;            /* programs "train" and "eval" */
    const dl_console *console; /* asked between steps whether to stop; NULL: nobody is */
    const dlr_rundir *dir;     /* NULL: neither validation nor checkpoints nor records, but a line a
                                  step on the console, as dlr_train_replay has it */
    dlr_run_model model;
    dlr_run_ranks ranks;
    dlr_ranges ranges; /* profilers of the run's parts; zero: none */

    dlr_start_options start;
    dlr_learning_rate_options rate;
    dlr_batches_options data;
    dlr_stopper_options stop;
    dlr_intervals every;
    bool measure; /* no validation, no point at step 0 */
    dlr_resume_options resume;
    dlr_checkpointer_options checkpoints;
    dlr_logger_options log;
    const char *save_grads;   /* the file of the first step's gradients; NULL: none */
    const char *save_weights; /* the file of parameters and buffers at the end; NULL: none */
} dlr_train_options;

/* Trains until o->stop says that the run is over; writes all that rundir.h lists. Errors: those of
 * data, files and options; DL_NUMERIC when a loss, or a tensor of a checkpoint, is not finite (the
 * newest checkpoint stays); DL_REQUEUE when the user, or stop_after, asked to stop: then a
 * checkpoint is written and `resume` goes on from there to the same bits. Requests are taken as
 * DL_STOP_LATER (console.h) from the call on, and afterwards, since a program that is asked to stop
 * then still has weights to write and a status to return. */
bool dlr_train(const dlr_train_options *options, dl_error *err);

/* Trains on exactly the batches of a file (replay.h), without validation or checkpoint, and prints
 * on standard output a line {"step": 1, "loss": 0.123456789} each, with the model's metrics after
 * the loss by their names (null: not finite). Of the options, dir, data, stop and log are not used;
 * the schedule's batches and steps are the file's: no scaling, no warm-up. Each of several ranks
 * takes its part of the samples, and rank 0 prints. */
bool dlr_train_replay(const dlr_train_options *options, const char *path, dl_error *err);
#endif
