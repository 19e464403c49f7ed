/* How far a training run of PyTorch's had come, from the file that its program kept:
 * {iters, epoch, model_state, optimizer_state_dict, scheduler_state_dict}, as torch_run.h writes it
 * and recipes minimal and tracked do. The model's state is the file's tensors (stored.h); this is
 * all beside it. */
#ifndef DLR_TORCH_TRAINING_H
#define DLR_TORCH_TRAINING_H
#include "ir/base/optimizers.h"
#include "runtime/formats/torch_file.h"

/* What is kept of a parameter, as the optimiser's row has it; a tensor of its shape each, NULL
 * where it has none yet, or where it is a number of all. */
typedef struct {
    const dlr_st_tensor *moment[DL_MOST_KEPT];
} dlr_torch_kept;

typedef struct {
    int64_t iters, epoch;        /* steps made; the epoch just finished, from 0 */
    int64_t steps;               /* the optimiser's own count; of SGD, which has none, iters */
    double scalar[DL_MOST_KEPT]; /* a number of all that the row keeps; NaN: not said */
    const dlr_torch_kept *kept;  /* one a parameter, in the order of `params` */
    /* Of the first group of parameters; NaN: not said. */
    double rate, option[DL_N_OPTIONS];
    bool has_plateau;   /* a ReduceLROnPlateau's state: */
    double best;        /* lowest loss that it saw */
    int64_t bad_epochs; /* in a row without a lower one */
} dlr_torch_training;

/* Reads it for a model of these parameters: `params` has name, rank and shape of each. The
 * optimiser numbers its parameters; which is which is said by `param_names` of its groups where
 * they have them (ours, and PyTorch's since 2.6), and else by the order of the file's own tensors,
 * as model.parameters() gives them. Errors: DL_INPUT naming file and entry: what is missing or of
 * another kind or shape; an optimiser that keeps something else; options that have another value
 * here (amsgrad, maximize, dampening); parameters stepped a different number of times, or with
 * different numbers of all; groups of different rates. */
bool dlr_torch_training_read(dl_arena *arena, const dlr_st_file *file, dl_optimizer optimizer,
                             const dlr_st_tensor *params, int n, dlr_torch_training *training,
                             dl_error *err);
/* The file's `iters` alone; -1: it has none. */
int64_t dlr_torch_training_iters(const dlr_st_file *file);
#endif
