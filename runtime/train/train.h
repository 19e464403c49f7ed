/* The training loop: a run from its first log line to its last. */
#ifndef DLR_TRAIN_H
#define DLR_TRAIN_H
#include "ir/base/console.h"
#include "runtime/data/dataset.h"
#include "runtime/exec/exec.h"
#include "runtime/formats/wandb.h"
#include "runtime/report/ranges.h"
#include "runtime/report/record.h"
#include "runtime/train/plateau.h"
#include "runtime/train/rundir.h"
#include "runtime/train/schedule.h"
#include "runtime/train/torch_run.h"

/* The model as a checkpoint records it. graph: a digest of its graphs, whatever the batch; source:
 * its text; keys: the settings in `hyperparams` that it depends on, ending with NULL; data: what it
 * was trained on (runtime/setup/data_record.h). Zero: not recorded. */
typedef struct {
    const char *graph, *source, *data;
    const char *const *keys;
} dlr_run_model;

/* A hyperparameter of the plan and its value. Names that the plan lacks are ignored. */
typedef struct {
    const char *name;
    double value;
} dlr_hyper;

/* The ranks that train together. Zero: one rank. Rank 0 alone writes files, except parts of
 * checkpoints. */
typedef struct {
    dlr_comm *comm;            /* NULL: nobody else */
    int rank, size;            /* in the world; size 0 as 1 */
    int data_rank, data_ranks; /* among the ranks that have different samples; 0 as 1 */
    int64_t check_every;       /* steps after which all ranks' weights are compared; 0: they are
                                  not */
    bool own_buffers;          /* each rank validates with the running statistics of its own
                                  samples */
} dlr_run_ranks;

typedef struct {
    dlr_exec *exec;            /* programs "train" and "eval" */
    const dl_console *console; /* asked between steps whether to stop; NULL: nobody is */
    const dlr_rundir *dir;     /* dlr_train alone, and */
    const dlr_record_style *style;
    dlr_schedule schedule;              /* the loop fills in its steps */
    const dlr_plateau_options *plateau; /* lowers the rate after epochs without improvement; NULL:
                                           none */
    double loss_scale;                  /* the first scale of a loss scaler */
    const dlr_hyper *hypers;            /* in addition to those of the schedule */
    int n_hypers;
    uint64_t seed;            /* of initial weights, and of the data sets */
    const char *init_weights; /* a file of tensors (stored.h) with PyTorch's names; NULL: drawn */
    const char *save_grads;   /* the file of the first step's gradients; NULL: none */
    const char *save_weights; /* the file of parameters and buffers at the end; NULL: none */

    const dlr_dataset *train, *valid;
    int workers;         /* data threads of each */
    bool device_holds;   /* device-resident data sets, where they fit in addition to the plan */
    bool device_samples; /* a device crops, rotates, scales and converts samples itself, where it
                            can */
    int64_t epochs;
    int64_t steps;                    /* in all, instead of `epochs`, so that the last may be
                                         shorter; 0: whole epochs */
    bool measure;                     /* no validation, no point at step 0 */
    bool resume;                      /* resumes from the newest checkpoint, if there is one: */
    const char *resume_from;          /* of the run or checkpoint in this directory; NULL: of the
                                         run itself */
    const char *go_on;                /* the command that resumes it after a stop; NULL: its own
                                         with --resume */
    int64_t stop_after;               /* steps of this process after which the run stops as by a
                                         signal; 0: none */
    bool async;                       /* checkpoints are copied in memory, and written while
                                         training goes on */
    bool sharded;                     /* each rank writes its part of them (shards.h), not rank 0
                                         all; without `torch` */
    int keep;                         /* newest checkpoints kept */
    const dlr_torch_optimizer *torch; /* with each, checkpoints/ckpt.tar and ckpt_best.tar; NULL:
                                         none */
    const char *hyperparams;          /* the configuration as YAML */
    const dlr_wandb_options *wandb;   /* also writes the run in Weights & Biases' form; NULL: not */
    dlr_run_model model;
    dlr_run_ranks ranks;
    dlr_ranges ranges; /* profilers of the run's parts; zero: none */
} dlr_train_options;

/* A run's memory in addition to the plan's: a ring of batches that are read ahead. */
typedef struct {
    int batches;
    int64_t bytes; /* of one */
} dlr_train_ring;
dlr_train_ring dlr_train_ring_of(const dl_plan *plan, int workers);

/* Trains for `epochs` epochs, or `steps` steps; writes all that rundir.h lists. Errors: those of
 * data, files and options; DL_NUMERIC when a loss, or a tensor of a checkpoint, is not finite (the
 * newest checkpoint stays); DL_REQUEUE when the user, or stop_after, asked to stop: then a
 * checkpoint is written and `resume` goes on from there to the same bits. Requests are taken as
 * DL_STOP_LATER (console.h) from the call on, and afterwards, since a program that is asked to stop
 * then still has weights to write and a status to return. */
bool dlr_train(const dlr_train_options *options, dl_error *err);

/* Trains on exactly the batches of a file (feed.h), without data set, validation or checkpoint, and
 * prints on standard output a line {"step": 1, "loss": 0.123456789} each, with the model's metrics
 * after the loss by their names (null: not finite). The schedule's batches and steps are the
 * file's: no scaling, no warm-up. Each of several ranks takes its part of the samples, and rank 0
 * prints. */
bool dlr_train_replay(const dlr_train_options *options, const char *path, dl_error *err);
#endif
