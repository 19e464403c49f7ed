/* Reads the training state of a PyTorch program from its checkpoint {iters, epoch, model_state,
 * optimizer_state_dict, scheduler_state_dict}, the layout that torch_run.h writes and that common
 * training scripts use, with model_ema where it keeps means of the weights. The model's state is
 * the file's tensors (stored.h); this header has the rest. */
#ifndef DLR_TORCH_TRAINING_H
#define DLR_TORCH_TRAINING_H
#include "ir/base/optimizers.h"
#include "runtime/formats/torch_file.h"

/* The optimizer's state of a parameter, as the optimizer's row defines it: tensors of the
 * parameter's shape, NULL where one is not there yet, or where it is a scalar shared by all. */
typedef struct {
    const dlr_st_tensor *moment[DL_MOST_KEPT];
    const dlr_st_tensor *mean; /* of AveragedModel; NULL: the file has none */
} dlr_torch_kept;

typedef struct {
    int64_t iters, epoch;        /* steps done; the epoch just finished, from 0 */
    int64_t steps;               /* the optimizer's own step count; of SGD, which has none, iters */
    double scalar[DL_MOST_KEPT]; /* scalars that all parameters share; NaN: not in the file */
    const dlr_torch_kept *kept;  /* one per parameter, in the order of `params` */
    /* Values of the first parameter group; NaN: not in the file. */
    double rate, option[DL_N_OPTIONS];
    bool has_plateau;         /* the state of a ReduceLROnPlateau: */
    double best;              /* the lowest loss so far */
    int64_t cooldown_counter; /* epochs in which no loss counts as bad */
    int64_t bad_epochs;       /* epochs in a row without a lower loss */
    int64_t averaged;         /* how many weights the means are of; -1: the file has no means */
} dlr_torch_training;

/* Reads the state for a model of these parameters: `params` has name, rank and shape of each. The
 * optimizer numbers its parameters. Their names are `param_names` of its groups where they have
 * them (in our files, and PyTorch's since 2.6). Otherwise the order is that of the file's own
 * tensors, which is model.parameters(). Errors: DL_INPUT naming file and entry: one that is missing
 * or of another kind or shape; an optimizer with other state; options that have another value here
 * (amsgrad, maximize, dampening); parameters with different step counts, or with different shared
 * scalars; groups of different rates; a model_ema that is not AveragedModel's. */
bool dlr_torch_training_read(dl_arena *arena, const dlr_st_file *file, dl_optimizer optimizer,
                             const dlr_st_tensor *params, int n, dlr_torch_training *training,
                             dl_error *err);
/* The file's `iters` alone; -1: it has none. */
int64_t dlr_torch_training_iters(const dlr_st_file *file);
#endif
