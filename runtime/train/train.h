/* The training loop: a run from its first log line to its last. */
#ifndef DLR_TRAIN_H
#define DLR_TRAIN_H
#include "runtime/report/ranges.h"
#include "runtime/train/batches.h"
#include "runtime/train/best.h"
#include "runtime/train/checkpointer.h"
#include "runtime/train/learning_rate.h"
#include "runtime/train/logger.h"
#include "runtime/train/stopper.h"

/* The model as a checkpoint records it. graph: a digest of its graphs, independent of the batch;
 * source: its text; data: the record of its data (runtime/setup/data_record.h); keys: the names of
 * the settings in `hyperparams` on which the model depends, NULL at the end. Zero-initialised: not
 * recorded. */
typedef struct {
    const char *graph, *source, *data;
    const char *const *keys;
} dlr_run_model;

typedef struct {
    bool wanted;      /* resumes from the newest checkpoint, if there is one: */
    const char *from; /* of the run or checkpoint in this directory; NULL: of the run itself */
} dlr_resume_options;

/* Steps within an epoch after which a point is logged, validation runs, and a checkpoint is
 * written, in addition to the epoch's end; 0: never. */
typedef struct {
    int64_t log, validate, save;
    int64_t epochs; /* after which the model is validated, and after the last one; 0 is 1 */
} dlr_intervals;

/* The options of a training run: its plan, its directory, and the options of each component. */
typedef struct {
    dlr_exec *exec;            /* programs "train" and "eval" */
    const dl_console *console; /* polled between steps for requests to stop; NULL: none */
    const dlr_rundir *dir;     /* NULL: no validation, checkpoints or records; each step's loss is
                                  printed on the console, as by dlr_train_replay */
    dlr_run_model model;
    dlr_run_ranks ranks;
    dlr_ranges ranges; /* profilers of the run's parts; zero: none */

    dlr_start_options start;
    dlr_learning_rate_options rate;
    dlr_batches_options data;
    dlr_stopper_options stop;
    dlr_best_options best;
    dlr_intervals every;
    bool measure; /* no validation, no point at step 0 */
    dlr_resume_options resume;
    dlr_checkpointer_options checkpoints;
    dlr_logger_options log;
    const char *save_grads;   /* the file of the first step's gradients; NULL: none */
    const char *save_weights; /* the file of parameters and buffers at the end; NULL: none */
} dlr_train_options;

/* Trains until o->stop ends the run, and writes the files that rundir.h lists. Errors: those of
 * data, files and options; DL_NUMERIC for a loss, or a tensor of a checkpoint, that is not finite
 * (the newest checkpoint is kept); DL_REQUEUE when the user or stop_after stopped the run: a
 * checkpoint is then written, from which `resume` continues with the same bits. From the call on,
 * also after it, requests to stop are DL_STOP_LATER (console.h), since the program still has
 * weights to write and a status to return. */
bool dlr_train(const dlr_train_options *options, dl_error *err);

/* Trains on exactly the batches of a file (replay.h), without validation or checkpoints. Prints a
 * line {"step": 1, "loss": 0.123456789} for each step on standard output; the model's metrics
 * follow the loss by name (null: not finite). Ignores the options dir, data, stop and log. Batch
 * size and number of steps are the file's, so rates are not scaled and there is no warm-up. With
 * several ranks each takes its share of the samples, and rank 0 prints. */
bool dlr_train_replay(const dlr_train_options *options, const char *path, dl_error *err);
#endif
