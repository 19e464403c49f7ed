/* A run in the form of PyTorch's programs: {iters, epoch, model_state, optimizer_state_dict,
 * scheduler_state_dict}, in a file that torch.load reads. torch.optim's class of the optimiser
 * resumes from optimizer_state_dict, and CosineAnnealingLR and ReduceLROnPlateau from
 * scheduler_state_dict. A plan that keeps means of the weights adds model_ema, from which
 * torch.optim.swa_utils.AveragedModel resumes. */
#ifndef DLR_TORCH_RUN_H
#define DLR_TORCH_RUN_H
#include "ir/base/optimizers.h"
#include "runtime/checkpoint/tensors.h"
#include "runtime/exec/exec.h"
#include "runtime/formats/torch_file.h"
#include "runtime/train/plateau.h"

/* The optimiser that a plan was compiled with, and its options. */
typedef struct {
    dl_optimizer which;          /* not NONE */
    double option[DL_N_OPTIONS]; /* a flag is 0 or 1 */
    bool decay_vectors;          /* weight decay is for biases and norms, too
                                    (decay_norm_and_bias) */
} dlr_torch_optimizer;

/* A scheduler of torch.optim.lr_scheduler after an epoch. */
typedef struct {
    int64_t epochs; /* finished: how often it was stepped */
    /* ReduceLROnPlateau; NULL: CosineAnnealingLR, of */
    const dlr_plateau_options *plateau;
    dlr_plateau at;    /* the state of that plateau */
    int64_t total;     /* epochs: T_max */
    double least_rate; /* eta_min */
} dlr_torch_scheduler;

typedef struct {
    const dlr_torch_optimizer *optimizer;
    double rate;         /* the next step's rate: lr */
    double initial_rate; /* the first rate of PyTorch's scheduler: initial_lr; NaN: there is none */
    int64_t iters, epoch;
    const dlr_torch_scheduler *scheduler; /* scheduler_state_dict; NULL: None */
    const dlr_torch_value *more;          /* further entries after these: key, value, key, value,
                                             without tensors */
    int n_more;                           /* of `more` */
    bool finite;                          /* a value that is not finite is an error */
} dlr_torch_run;

/* A run to be written: its numbers are copied; its tensors are in the executor until they have data
 * of their own (a snapshot's). */
typedef struct {
    dlr_torch_value root;
    dlr_tensors tensors;
    bool finite;
} dlr_torch_gathered;

/* Gathers the run, in the arena. Weights, buffers and moments have PyTorch's names and layouts;
 * parameters are numbered in the order of the model's text, with their names in each group's
 * param_names. There is one group, or, where decay is not for vectors, a second one of vectors
 * without it. Before the first step an optimiser whose steps PyTorch does not count has no state.
 * Each group has a scheduler's rates `rate` and `initial_rate`. Errors: DL_INTERNAL for an
 * optimiser that the plan was not compiled with. */
bool dlr_torch_run_gather(dl_arena *arena, dlr_exec *exec, const dlr_torch_run *run,
                          dlr_torch_gathered *gathered, dl_error *err);
/* Writes it whole or not at all. Errors: those of dlr_torch_write. */
bool dlr_torch_run_write(const char *path, const dlr_torch_gathered *gathered, dl_error *err);
#endif
