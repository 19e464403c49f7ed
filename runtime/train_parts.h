/* What the files of the loop share. */
#ifndef DLR_TRAIN_PARTS_H
#define DLR_TRAIN_PARTS_H
#include "runtime/feed.h"
#include "runtime/io/checkpoint.h"
#include "runtime/io/metrics.h"
#include "runtime/io/progress.h"
#include "runtime/io/tensorboard.h"
#include "runtime/tensors.h"
#include "runtime/train.h"

/* A run. Where it stands is in `at` and nowhere else: a checkpoint is `at` and the tensors. */
typedef struct {
    const dlr_train_options *o;
    dl_arena *arena;
    dlr_exec *exec;
    int train, eval;            /* programs */
    dlr_view loss, rate, valid; /* "loss" and "Learning Rate" of train, "loss" of eval */
    dlr_feed feed;
    dlr_prefetch *batches;
    int batch;             /* samples */
    int64_t epoch_batches; /* in an epoch */

    dlr_state at;
    double seconds;   /* spent on the current epoch's steps so far */
    double last_rate; /* of the newest step */

    dlr_metrics *metrics;
    dlr_tensorboard *board;
    dlr_progress progress;
} dlr_run;

/* train_start.c: initial weights, or those of a file. */
bool dlr_run_start_weights(const dlr_train_options *o, dl_error *err);
/* Sets lr.init, lr.end, lr.warmup and lr.total. */
bool dlr_run_set_rates(dlr_exec *exec, const dlr_schedule *schedule, dl_error *err);
/* Writes the gradients of the step just run to o->save_grads, if that is wanted. */
bool dlr_run_save_gradients(const dlr_train_options *o, int program, dl_error *err);

/* train_checkpoint.c: the newest checkpoint of the directory into the run; a log line says what was found. */
bool dlr_run_restore(dlr_run *r, bool *restored, dl_error *err);
bool dlr_run_save(dlr_run *r, bool is_best, dl_error *err);

/* train_record.c: the files that people look at. */
bool dlr_run_open_records(dlr_run *r, bool restored, dl_error *err);
void dlr_run_close_records(dlr_run *r);
typedef struct {
    const dlr_metric *values;
    int n;
} dlr_point;
/* One point of all curves, at the run's iteration. */
bool dlr_run_record(dlr_run *r, dlr_point point, dl_error *err);
/* Slices of input, target and prediction of the batch that eval has just run on, and the model's own figures.
 */
bool dlr_run_draw(dlr_run *r, const dlr_batch *batch, dl_error *err);
#endif
