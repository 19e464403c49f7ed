/* The training loop: system A's run, from its first log line to its last. */
#ifndef DLR_TRAIN_H
#define DLR_TRAIN_H
#include "runtime/data/dataset.h"
#include "runtime/exec/exec.h"
#include "runtime/formats/wandb.h"
#include "runtime/report/ranges.h"
#include "runtime/report/record.h"
#include "runtime/train/plateau.h"
#include "runtime/train/rundir.h"
#include "runtime/train/schedule.h"
#include "runtime/train/torch_run.h"

/* The model as a checkpoint records it. graph: a digest of its graphs, whatever the batch; source: its text;
 * keys: the settings in `hyperparams` that it depends on, NULL behind the last. Zero: not recorded. */
typedef struct {
    const char *graph, *source;
    const char *const *keys;
} dlr_run_model;

/* A hyperparameter of the plan and its value. Names that the plan has not are passed over. */
typedef struct {
    const char *name;
    double value;
} dlr_hyper;

/* Who trains together. Zero: one rank. Rank 0 alone writes files, but parts of checkpoints. */
typedef struct {
    dlr_comm *comm;            /* NULL: nobody else */
    int rank, size;            /* in the world; size 0 as 1 */
    int data_rank, data_ranks; /* among those that have different samples; 0 as 1 */
    int64_t check_every;       /* steps behind which all ranks' weights are compared; 0: they are not */
    bool own_buffers;          /* each rank validates with the running statistics of its own samples */
} dlr_run_ranks;

typedef struct {
    dlr_exec *exec;        /* programs "train" and "eval" */
    const dlr_rundir *dir; /* dlr_train alone, and */
    const dlr_record_style *style;
    dlr_schedule schedule; /* its steps are worked out here */
    const dlr_plateau_options
        *plateau;            /* lowers the rate behind epochs that do not help; NULL: nothing does */
    double loss_scale;       /* that a loss scaler begins with */
    const dlr_hyper *hypers; /* beside those of the schedule */
    int n_hypers;
    uint64_t seed;            /* of initial weights, and what the data sets were opened with */
    const char *init_weights; /* a file of tensors (stored.h) with PyTorch's names; NULL: drawn */
    const char *save_grads;   /* where the first step's gradients go; NULL: nowhere */
    const char *save_weights; /* where parameters and buffers go at the end; NULL: nowhere */

    const dlr_dataset *train, *valid;
    int workers;         /* data threads of each */
    bool device_holds;   /* their numbers, too, where they fit there beside the plan's */
    bool device_samples; /* a device is to cut, turn, scale and convert samples itself, where it can */
    int64_t epochs;
    int64_t steps; /* in all, instead of `epochs`, so that the last may be shorter; 0: whole epochs */
    bool measure;  /* no validation, no point at step 0 */
    bool resume;   /* go on from the newest checkpoint, if there is one, */
    const char *resume_from; /* from the run or checkpoint in this directory; NULL: in the run's own */
    const char *go_on;       /* what goes on with it once it was stopped; NULL: its command with --resume */
    int64_t stop_after;      /* steps of this process, behind which the run stops as by a signal; 0: none */
    bool async;              /* checkpoints are copied, and written while training goes on */
    bool sharded; /* each rank writes its part of them (shards.h), not rank 0 all; without `torch` */
    int keep;     /* newest checkpoints kept */
    const dlr_torch_optimizer *torch; /* beside each, checkpoints/ckpt.tar and ckpt_best.tar; NULL: none */
    const char *hyperparams;          /* the configuration as YAML */
    const dlr_wandb_options *wandb;   /* the run also as Weights & Biases keeps it; NULL: not */
    dlr_run_model model;
    dlr_run_ranks ranks;
    dlr_ranges ranges; /* who looks at the run's parts; zero: nobody */
} dlr_train_options;

/* What a run holds in memory beside the plan's own: a ring of batches that are read ahead. */
typedef struct {
    int batches;
    int64_t bytes; /* of one */
} dlr_train_ring;
dlr_train_ring dlr_train_ring_of(const dl_plan *plan, int workers);

/* Trains for `epochs` epochs, or `steps` steps; writes all that rundir.h lists. Errors: what data, files and
 * options give; DL_NUMERIC when a loss, or a tensor of a checkpoint, is not finite (the newest checkpoint
 * stays); DL_REQUEUE when a signal, or stop_after, asked to stop: then a checkpoint is written and `resume`
 * goes on from there to the same bits. Signals stay watched (signals.h) behind it: who is asked to stop while
 * it ends has weights to write, and a status to tell. */
bool dlr_train(const dlr_train_options *options, dl_error *err);

/* Trains on exactly the batches of a file (feed.h), without data set, validation or checkpoint, and prints on
 * standard output a line {"step": 1, "loss": 0.123456789} each, with the model's metrics behind the loss by
 * their names (null: not finite). The schedule's batches and steps are the
 * file's: no scaling, no warm-up. Of several ranks, each takes its part of the samples, and rank 0 prints. */
bool dlr_train_replay(const dlr_train_options *options, const char *path, dl_error *err);
#endif
