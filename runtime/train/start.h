/* The start of training: weights and hyperparameters of a plan. */
#ifndef DLR_START_H
#define DLR_START_H
#include "runtime/exec/exec.h"
#include "runtime/train/schedule.h"

/* A hyperparameter of the plan and its value. Names that the plan lacks are ignored. */
typedef struct {
    const char *name;
    double value;
} dlr_hyper;

typedef struct {
    uint64_t seed;           /* of initial weights, and of random ops */
    int data_rank;           /* this rank's number among those with different samples: random ops
                                differ by it */
    double loss_scale;       /* the first scale of a loss scaler */
    const dlr_hyper *hypers; /* in addition to those of the schedule */
    int n_hypers;
    bool init_partial;        /* the file need not be of this model: what fits is taken */
    const char *init_weights; /* a file of tensors (stored.h) with PyTorch's names; NULL: drawn */
} dlr_start_options;

/* Initial weights, or those of the file; a loss scaler as it begins. Errors: those of
 * dlr_tensors_load_file. */
bool dlr_start_weights(dlr_exec *exec, const dlr_start_options *o, dl_error *err);
/* Sets every hyperparameter that the plan names: from the schedule, from o->hypers, or to its
 * default. */
void dlr_start_hypers(dlr_exec *exec, const dlr_start_options *o, const dlr_rates *rates);
/* Sets one, where the plan has it. */
void dlr_set_hyper(dlr_exec *exec, const char *name, double value);
#endif
