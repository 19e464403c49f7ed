/* A run's records for people: log lines, points of curves, pictures, the configuration. Rank 0
 * alone writes them. */
#ifndef DLR_LOGGER_H
#define DLR_LOGGER_H
#include "runtime/formats/progress.h"
#include "runtime/formats/wandb.h"
#include "runtime/report/sink.h"
#include "runtime/train/averages.h"
#include "runtime/train/feed.h"
#include "runtime/train/rundir.h"
#include "runtime/train/train_ranks.h"

typedef struct {
    const dlr_log_format *style; /* tags and wording */
    bool between;                /* points are written within epochs, too */
    const char *hyperparams;     /* the configuration as YAML */
    const dlr_hparam *trial;     /* the values of a sweep's trial */
    int n_trial;                 /* 0: the run is none */
    const dl_plan *kernels;      /* kept in the run's directory (ir/plan/plan_kept.h); NULL: not */
    const dlr_wandb_options *wandb; /* also writes the run in Weights & Biases' form; NULL: not */
} dlr_logger_options;

typedef struct {
    const dlr_logger_options *o;
    const dlr_rundir *dir;
    const dlr_run_ranks *ranks;
    dl_arena *arena;
    dlr_sinks sinks;            /* metrics.jsonl and the others; none but on rank 0 */
    DL_ARRAY(dlr_metric) point; /* the next one: values so far */
    dlr_progress progress;
} dlr_logger;

/* Where a run begins, if not at step 0 of its own. */
typedef struct {
    bool restored;      /* at a checkpoint: points after it are dropped */
    bool other;         /* of another run than that of its directory, whose points are in */
    const char *source; /* NULL: none, or not known */
    const char *from;   /* what --resume=DIR named when the run's first checkpoint was taken over;
                           or NULL */
} dlr_run_origin;

/* Opens the files in `dir`. o, dir, ranks and arena must be set. Errors: DL_IO. */
bool dlr_logger_open(dlr_logger *l, const dlr_state *at, const dlr_run_origin *origin,
                     dl_error *err);
/* Records how the run ended: done, or with the error in `err`. A fault of this is the run's if it
 * has none. */
bool dlr_logger_close(dlr_logger *l, bool done, dl_error *err);

/* Adds a value, where the style has a tag for it, or all averages, to the next point. */
void dlr_logger_put(dlr_logger *l, dlr_value_name name, double value);
void dlr_logger_put_averages(dlr_logger *l, const dlr_averages *averages);
/* Adds the loss of a step, as Loss/step. */
void dlr_logger_put_step(dlr_logger *l, double loss);
/* Writes that point of all curves, at the run's iteration; `between`: within an epoch. */
bool dlr_logger_record(dlr_logger *l, const dlr_state *at, bool between, dl_error *err);

/* logger_figures.c: draws slices of input, target and prediction of the program's last batch, and
 * the model's own figures. */
bool dlr_logger_draw(dlr_logger *l, dlr_exec *exec, int program, const dlr_feed *feed,
                     const dlr_batch *batch, const dlr_state *at, dl_error *err);
/* logger_history.c: the style's summary at the end, of all points of the run, those before a resume
 * included. */
bool dlr_logger_history(dlr_logger *l, const dlr_averages *trained, const dlr_averages *validated,
                        dl_error *err);
/* logger_lines.c: lines of a style with these numbers; those about the process as a whole. */
void dlr_logger_lines(const char *lines, const dlr_record_numbers *numbers);
void dlr_logger_process(const dlr_run_ranks *ranks, const char *lines);
#endif
