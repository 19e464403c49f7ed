/* A learning rate that falls when the validation loss stops falling:
 * torch.optim.lr_scheduler.ReduceLROnPlateau with mode "min" and a relative threshold. The host
 * decides once an epoch, from the one number that it has anyway; the rate itself is a
 * hyperparameter of the plan. */
#ifndef DLR_PLATEAU_H
#define DLR_PLATEAU_H
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    double factor;    /* the rate is multiplied by this, */
    int64_t patience; /* after more than so many epochs in a row without an improvement */
    double threshold; /* an improvement is a loss below best (1 - threshold) */
    int64_t cooldown; /* epochs after a fall that do not count as without an improvement */
    double least;     /* the rate never falls below this, */
    double smallest;  /* nor by less than this */
} dlr_plateau_options;

/* PyTorch's defaults. */
#define DLR_PLATEAU_DEFAULTS                                                                       \
    ((dlr_plateau_options){.factor = 0.1, .patience = 10, .threshold = 1e-4, .smallest = 1e-8})

/* Its state; part of a checkpoint. Begin with {.best = INFINITY, .rate = the first rate}. */
typedef struct {
    double best;
    int64_t bad;     /* epochs without an improvement */
    int64_t waiting; /* epochs of the cooldown that are left */
    double rate;
} dlr_plateau;

/* Called after an epoch with this validation loss (NaN counts as no improvement). True when p->rate
 * fell. */
bool dlr_plateau_step(dlr_plateau *p, const dlr_plateau_options *options, double loss);
#endif
