/* A run: its components and its position, for the files of the loop. */
#ifndef DLR_RUN_H
#define DLR_RUN_H
#include "runtime/train/best.h"
#include "runtime/train/evaluator.h"
#include "runtime/train/steps.h"
#include "runtime/train/train.h"

/* Its position is in `at` and nowhere else: a checkpoint is `at`, the values that the components
 * put in addition, and the tensors. */
typedef struct {
    const dlr_train_options *o;
    dl_arena *arena;
    dlr_exec *exec;
    dlr_batches batches;
    dlr_steps steps; /* of "train" */
    dlr_learning_rate rate;
    dlr_averages trained;
    dlr_evaluator evaluator;
    dlr_stopper stopper;
    dlr_best best;
    dlr_checkpointer checkpointer;
    dlr_logger logger;

    dlr_state at;       /* steps that are done */
    int64_t first;      /* iteration that this process began at */
    int64_t skipped;    /* skipped steps of the epoch whose loss is not finite, and left out of its
                           mean */
    int64_t best_epoch; /* that of at.best_loss, from 0 */
    dlr_run_origin origin;
} dlr_run;

/* Whether the run has a directory: with checkpoints, records and, unless it measures, validation.
 */
static inline bool dlr_run_keeps(const dlr_run *r) { return r->o->dir != NULL; }
static inline bool dlr_run_validates(const dlr_run *r) {
    return dlr_run_keeps(r) && !r->o->measure;
}

/* train_begin.c: weights, rates and batches as they are where the run begins: at a checkpoint
 * (r->origin.restored), or at the start. */
bool dlr_run_begin(dlr_run *r, bool resume, dl_error *err);
/* Steps of the epoch at hand. */
int64_t dlr_run_epoch_steps(const dlr_run *r);

/* train_steps.c: the run as the step loop's: feeds it, and takes each step's results. */
void dlr_run_open_steps(dlr_run *r);
/* train_print.c: {"step": 1, "loss": 0.123456789, "psnr": 21.5} on the console: loss and metrics
 * are those of one batch. With a loss scaler the step's scale, to the last digit, and whether it
 * was skipped follow the loss. */
void dlr_run_print_step(const dlr_run *r, double loss);
/* Saves everything and says so, where the run was asked to stop. False, with DL_REQUEUE. */
bool dlr_run_pause(dlr_run *r, dl_error *err);
/* train_epoch.c: an epoch's steps; then validation, records and a checkpoint. */
bool dlr_run_train_epoch(dlr_run *r, dl_error *err);
bool dlr_run_finish_epoch(dlr_run *r, dl_error *err);
/* train_nonfinite.c: the end of the message about the step just made, whose loss is not finite: the
 * steps since the newest checkpoint are repeated to find where. Weights, batches and r->at are
 * others then. */
const char *dlr_run_find_not_finite(dlr_run *r);

/* train_state.c: saves the run as it stands (dlr_checkpointer_save). */
bool dlr_run_save(dlr_run *r, bool is_best, dl_error *err);
/* Weights, the optimiser's and the components' state from a checkpoint. Errors: DL_INPUT listing
 * what forbids it. */
bool dlr_run_load(dlr_run *r, const dlr_checkpoint *checkpoint, dl_error *err);
/* train_resume.c: the newest checkpoint of the directory, or of that which o->resume.from names,
 * our own or PyTorch's, into the run; a log line says what was found. */
bool dlr_run_restore(dlr_run *r, dl_error *err);
/* train_same.c: adds what forbids this run to go on from that checkpoint, tensors apart; other
 * differences go to the log. */
void dlr_run_compare(const dlr_run *r, const dlr_checkpoint *checkpoint, dlr_differences *list);

/* train_torch.c: the run as PyTorch's programs keep it at the end of an epoch. */
void dlr_run_describe_torch(const dlr_run *r, dlr_torch_run *torch, dlr_torch_scheduler *scheduler);
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
#endif
