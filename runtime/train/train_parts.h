/* Shared by the files of the loop. */
#ifndef DLR_TRAIN_PARTS_H
#define DLR_TRAIN_PARTS_H
#include "runtime/base/background.h"
#include "runtime/checkpoint/snapshot.h"
#include "runtime/checkpoint/tensors.h"
#include "runtime/formats/checkpoint.h"
#include "runtime/formats/progress.h"
#include "runtime/report/profile.h"
#include "runtime/report/sink.h"
#include "runtime/train/feed.h"
#include "runtime/train/start.h"
#include "runtime/train/steps.h"
#include "runtime/train/torch_run.h"
#include "runtime/train/train.h"

/* A metric of one program, with its name and tag: NAME/train or NAME/valid for the model's metrics;
 * the style's tag for the loop's own (NULL, and without a style: not recorded). */
typedef struct {
    const char *name, *tag;
    bool own;
    dlr_view now; /* of the batch just run */
    double sum, last;
    int64_t lost; /* batches whose value is left out */
} dlr_average;

/* All of them, averaged over the batches added since the last clear. (train_metrics.c) */
typedef struct {
    dlr_average *terms;
    int n;
    int64_t batches;
} dlr_averages;
dlr_averages dlr_averages_of(dl_arena *arena, dlr_exec *exec, int program, const char *split,
                             const dlr_record_style *style);
void dlr_averages_clear(dlr_averages *averages);
/* Leaves out values of a skipped step that are not finite. */
void dlr_averages_add(dlr_averages *averages, const dlr_exec *exec, bool skipped);
double dlr_averages_mean(const dlr_averages *averages, int term); /* NaN of no batch */
/* " - NAME: MEAN" of each metric of the model, with `before` before its name, appended to
 * `line`. */
const char *dlr_averages_line(const dlr_averages *averages, const dlr_record_style *style,
                              const char *before, dl_buf *line);
/* The recorded value of a term: its mean; for the weights' norm the last value, where the style
 * says so. */
double dlr_averages_value(const dlr_averages *averages, int term, const dlr_record_style *style);

/* A checkpoint that is put together or written. (train_checkpoint.c) */
typedef struct dlr_saving dlr_saving;
typedef DL_ARRAY(dlr_state_value) dlr_state_list;

/* The writer of checkpoints: a thread, from a copy in memory; or, without it, the loop itself. */
typedef struct {
    dlr_background *thread;
    dlr_snapshot snapshot;
    dlr_saving *saving; /* under way; NULL: none */
    dlr_shards *shards; /* each rank writes its own part of them; NULL: rank 0 writes them */
    bool written;       /* this rank's part of the one under way is durable, or, with a fault, never
                           will be */
    dl_error fault;
    bool committing; /* and so are all ranks': rank 0 makes them a checkpoint */
    bool asking;     /* that question is under way: */
    int64_t ticket;
    int32_t flags[2]; /* ours, and the largest of all: still at it */
    int n;
    double copied, waited, wrote; /* seconds: of the loop for copies, and for files; of all
                                     writing */
} dlr_saver;

/* A run. Its position is in `at` and nowhere else: a checkpoint is `at` and the tensors. */
typedef struct {
    const dlr_train_options *o;
    dl_arena *arena;
    dlr_exec *exec;
    int eval;             /* the program */
    dlr_steps steps;      /* of "train" */
    dlr_view rate, valid; /* "Learning Rate" of train, "loss" of eval */
    dlr_feed feed;
    dlr_prefetch *batches;
    dlr_prefetch_raw raw;  /* of files' numbers: the device does the rest, */
    bool gathers;          /* where it does */
    int batch;             /* samples, */
    int global_batch;      /* of all ranks */
    int64_t epoch_batches; /* in an epoch */
    dlr_rates rates;
    dlr_plateau plateau; /* where o->plateau is set */

    int64_t lost; /* skipped steps of the epoch whose loss is not finite, and left out of its
                     mean */

    int asked;   /* the signal by which any rank was asked to stop; 0: none was */
    bool asking; /* that is on its way: */
    int64_t ticket;
    int32_t flags[2]; /* ours, and the largest of all */

    dlr_state at;       /* steps that are done */
    int64_t first;      /* iteration that this process began at */
    double last_rate;   /* of the newest step */
    int64_t best_epoch; /* that of at.best_loss, from 0 */
    const char *from;   /* what --resume=DIR named when the run's first checkpoint was taken over;
                           or NULL */
    bool other;         /* this start goes on from another run than that of its directory, which
                           lies in */
    const char *source; /* NULL: none, or not known */
    dlr_averages trained, validated;
    DL_ARRAY(dlr_metric) point; /* that is being put together */

    dlr_saver saver;
    dlr_sinks sinks; /* metrics.jsonl and the others; none but on rank 0 */
    dlr_progress progress;
} dlr_run;

/* train_start.c: whether the device or the host makes samples from the files' numbers; logs it. */
bool dlr_run_gathers(const dlr_run *r);
bool dlr_run_holds(dlr_run *r); /* whether it now holds the data sets' numbers; the log says so, and
                                   why */
/* Writes the gradients of the step just run to o->save_grads, if that is wanted. */
bool dlr_run_save_gradients(const dlr_train_options *o, int program, dl_error *err);
/* Writes parameters and buffers to o->save_weights, if that is wanted. */
bool dlr_run_save_weights(const dlr_train_options *o, dl_error *err);

/* train_begin.c: weights, rates and batches as they are where the run begins: at a checkpoint, or
 * at the start. */
bool dlr_run_begin(dlr_run *r, bool resume, bool *restored, dl_error *err);
/* Steps of the epoch at hand: fewer than others where the run ends within it. */
int64_t dlr_run_epoch_steps(const dlr_run *r);
/* Sets the rate that the plateau has come to, as the factor that the plan multiplies its first one
 * by. */
void dlr_run_set_scale(const dlr_run *r);
/* train_again.c: the end of the message about the step just made, whose loss is not finite: the
 * steps since the newest checkpoint are made again to find where. Weights, batches and r->at are
 * others then. */
const char *dlr_run_find_not_finite(dlr_run *r);

/* train_steps.c: the run as the step loop's: feeds it, and takes each step's results. */
void dlr_run_open_steps(dlr_run *r);
/* Saves everything and says so, where the run was asked to stop. False, with DL_REQUEUE. */
bool dlr_run_pause(dlr_run *r, dl_error *err);
/* Checks what a watched run of a program found (NULL: nothing). A step that a loss scaler skips may
 * have such values. what: "training", "validation". Errors: DL_NUMERIC. */
bool dlr_run_check_found(const dlr_run *r, const char *what, const char *found, bool skipped,
                         dl_error *err);
/* Checks a loss of the program "eval", which was just run. Errors: DL_NUMERIC. */
bool dlr_run_check_loss(dlr_run *r, const char *what, double loss, dl_error *err);
/* train_validate.c: mean loss and metrics over the validation's batches (of an epoch), or over one
 * of them. The ring of batches serves validation, too, and is then at the next epoch's start. */
bool dlr_run_validate(dlr_run *r, bool epoch, double *mean, dl_error *err);
/* Records the untrained model on the first batch of either data set. */
bool dlr_run_record_untrained(dlr_run *r, dl_error *err);
/* train_epoch.c: an epoch's steps; then validation, records and a checkpoint. */
bool dlr_run_train_epoch(dlr_run *r, dl_error *err);
bool dlr_run_finish_epoch(dlr_run *r, dl_error *err);
/* train_log.c: lines of a style with these numbers; those about the process as a whole. */
void dlr_run_log_lines(const char *lines, const dlr_record_numbers *numbers);
void dlr_run_log_process(const dlr_train_options *o, const char *lines);

/* train_resume.c: the newest checkpoint of the directory, or of that which o->resume_from names,
 * our own or PyTorch's, into the run; a log line says what was found. Of another run's, its points
 * are in r->source. */
bool dlr_run_restore(dlr_run *r, bool *restored, dl_error *err);
/* train_checkpoint.c: allocates the memory that checkpoints need in addition to the plan's, where
 * o->async is set. */
bool dlr_run_open_saver(dlr_run *r, dl_error *err);
/* Saves the run as it stands: the loop waits for the checkpoint before this one, if it is still
 * under way, and for a copy in memory (or, without o->async, for all of it). Errors: those of
 * dlr_checkpoint_save and dlr_torch_run_write, of the one before; without o->async of this one. All
 * ranks call this and the next two, at the same steps: with o->sharded each writes, and they agree
 * that all have written. */
bool dlr_run_save(dlr_run *r, bool is_best, dl_error *err);
/* Between steps: the fault of a checkpoint that was done meanwhile. */
bool dlr_run_check_saved(dlr_run *r, dl_error *err);
/* Waits for the one under way, if there is one, and gives its fault. */
bool dlr_run_wait_saved(dlr_run *r, dl_error *err);
void dlr_run_log_saver(const dlr_run *r);
/* Waits, and frees everything; an unreported fault goes to the log. Does not wait for other ranks:
 * parts that are not durable on all of them are no checkpoint. */
void dlr_run_close_saver(dlr_run *r);
/* train_shards.c: gives all ranks the list of written files of a checkpoint, in the order of
 * saver.shards->names; `own` are this rank's. Errors: DL_PEER. */
bool dlr_run_gather_written(const dlr_run *r, const dlr_st_written *own, dlr_checkpoint_file *all,
                            dl_error *err);
/* Gives all ranks the fault of the first rank that could not write its part: *fault is this rank's,
 * or none. Errors: DL_PEER. */
bool dlr_run_share_fault(const dlr_run *r, dl_error *fault, dl_error *err);
/* Begins to ask whether any rank is still at its part, and hears it. */
void dlr_run_ask_written(dlr_run *r);
bool dlr_run_hear_written(dlr_run *r, bool *all, dl_error *err);
/* The ranks as readers of a checkpoint; NULL: there is one. */
const dlr_checkpoint_readers *dlr_run_readers(const dlr_run *r);
/* train_torch.c: the run as PyTorch's programs keep it at the end of an epoch. */
bool dlr_run_gather_torch(const dlr_run *r, dl_arena *arena, dlr_torch_gathered *gathered,
                          dl_error *err);
/* The rate that a scheduler, as PyTorch has them, has set for the next epoch or step; NaN: there is
 * none. */
double dlr_run_next_rate(const dlr_run *r);
/* train_torch_resume.c: the ckpt.tar that a program of PyTorch's left in `dir`, the place of ours,
 * and that is further than our own checkpoint (NULL: there is none), of which the points are in the
 * directory `run` (NULL: there are none); *file NULL where there is no such, or it is not wanted.
 * Errors: DL_INPUT where it cannot be read and there is nothing else to go on from. */
bool dlr_run_find_torch(const dlr_run *r, const char *dir, const char *run, const dlr_state *own,
                        dlr_st_file **file, dl_error *err);
/* Weights, the optimiser's state, plateau and place in the run from it; what it was trained with
 * otherwise is told in the log. Best loss and epoch are those of the points recorded in `run`,
 * which such a file lacks. */
bool dlr_run_load_torch(dlr_run *r, const dlr_st_file *file, const char *run, dl_error *err);
/* train_same.c: adds what forbids this run to go on from that checkpoint, tensors apart; other
 * differences go to the log. */
void dlr_run_compare(const dlr_run *r, const dlr_checkpoint *checkpoint, dlr_differences *list);

/* train_ranks.c: whether this rank writes files, log and records. */
bool dlr_run_leads(const dlr_train_options *o);
/* Checks that all ranks have plans that agree, and begin at the same step with the same weights.
 * Errors: DL_INPUT, naming the ranks that differ; DL_PEER. */
bool dlr_run_check_ranks(dlr_run *r, dl_error *err);
/* Called after a step: every `check_every` steps, checks that all ranks still have the same
 * weights. Errors: as above. */
bool dlr_run_check_replicas(dlr_run *r, dl_error *err);
/* Starts to find the largest of all ranks' flags[0], which goes into flags[1]; the ticket. */
int64_t dlr_run_start_largest(dlr_comm *comm, int32_t flags[2], const char *what);
/* At a step's end: r->asked is what all ranks knew at the end of the step before (alone: now). */
bool dlr_run_ask(dlr_run *r, dl_error *err);
bool dlr_run_end_asking(dlr_run *r, dl_error *err); /* afterwards no question is under way */
bool dlr_run_meet(const dlr_run *r, dl_error *err); /* waits for all ranks */
/* Rank 0's running statistics to all, unless each is to have its own. */
bool dlr_run_share_buffers(const dlr_run *r, dl_error *err);

/* train_record.c: the files for people. */
bool dlr_run_open_records(dlr_run *r, bool restored, dl_error *err);
/* Tells how the run ended: done, or with what is in `err`. A fault of this is the run's if it has
 * none. */
bool dlr_run_close_records(dlr_run *r, bool done, dl_error *err);
/* Adds a value, where the style has a tag for it, or all averages, to the next point. */
void dlr_run_put(dlr_run *r, dlr_value_name name, double value);
void dlr_run_put_averages(dlr_run *r, const dlr_averages *averages);
/* Writes that point of all curves, at the run's iteration. */
bool dlr_run_record(dlr_run *r, dl_error *err);
/* train_history.c: the style's summary at the end, of all points of the run, those before a resume
 * included. */
bool dlr_run_end_history(dlr_run *r, dl_error *err);
/* Draws slices of input, target and prediction of eval's last batch, and the model's own
 * figures. */
bool dlr_run_draw(dlr_run *r, const dlr_batch *batch, dl_error *err);
#endif
