/* The learning rate of system A (NERSC/ml-pm-training-2022, utils/__init__.py), as the four numbers that the
 * plan's optimizer takes. The rate itself is worked out on the device, once a step, from these and its own
 * step count:
 *
 *   i < warmup:  rate = i / warmup * init                                           (i counts from 1)
 *   otherwise:   rate = end + (init - end) / 2 * (1 + cos(pi (i - warmup) / total))
 *
 * init is start_lr scaled by the ratio of global batch to base batch, or its root, where that is above 1;
 * so is the warm-up used. (System A's formula is the same for its configurations, none of which has a batch
 * below the base; taken literally it would slow a laptop's small batch down, which its comments, "scale up",
 * do not mean.) */
#ifndef DLR_SCHEDULE_H
#define DLR_SCHEDULE_H
#include <stdint.h>

#include "ir/base/status.h"

typedef struct {
    double start_lr, end_lr;
    const char *scaling;  /* "none", "linear" or "sqrt" */
    int64_t warmup_steps; /* wanted, if the warm-up is used at all */
    int64_t global_batch, base_batch;
    int64_t steps; /* in all: epochs x (Nsamples // global_batch) */
} dlr_schedule;

/* Values of the plan's variables lr.init, lr.end, lr.warmup, lr.total. */
typedef struct {
    double init, end, warmup, total;
} dlr_rates;

/* Errors: DL_USAGE for a scaling of another name, batches or steps below 1. */
bool dlr_schedule_rates(const dlr_schedule *schedule, dlr_rates *rates, dl_error *err);
/* The rate of step i >= 1, as the formula above: what a test holds the device's value against. */
double dlr_schedule_rate(const dlr_rates *rates, int64_t i);
#endif
