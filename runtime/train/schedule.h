/* The numbers of the learning rate. The device computes the rate once a step from them and its own
 * step count, by the schedule that the plan was compiled with (passes/optim/schedules.c has the
 * formulas). Preset volumes' rate (NERSC/ml-pm-training-2022, utils/__init__.py):
 *
 *    i < warmup:  rate = i / warmup * init                                           (i from 1)
 *    otherwise:   rate = end + (init - end) / 2 * (1 + cos(pi (i - warmup) / total))
 *
 * init is start_lr scaled by the ratio of global batch to base batch, or by its root, where that is
 * above 1; otherwise start_lr. The number of warm-up steps is scaled likewise. (The original
 * formula also reduces the rate for batches below the base batch. None of its configurations has
 * one, and its comments say "scale up".) With preset keras the rate grows with the number of ranks,
 * and the warm-up begins at the rate of one rank. */
#ifndef DLR_SCHEDULE_H
#define DLR_SCHEDULE_H
#include <stdbool.h>
#include <stdint.h>

#include "ir/base/rate_phases.h"
#include "ir/base/status.h"

/* Epochs [start, end) of which the rate is multiplied by a factor. */
typedef struct {
    double start, end, factor;
} dlr_rate_range;

typedef struct {
    double start_lr, end_lr;
    const char *scaling;         /* "none", "linear" or "sqrt" */
    int64_t warmup_steps;        /* wanted, */
    bool warmup_where_scaled;    /* but only where scaling makes the rate larger */
    int64_t warmup_epochs;       /* or in epochs */
    bool cosine;                 /* preset weather's, of steps */
    bool by_epochs;              /* the cosine counts epochs, not steps: */
    int64_t cosine_epochs;       /* so many; 0: all */
    const dlr_rate_range *range; /* of a rate by ranges of epochs */
    int ranges;
    const dl_rate_phase *phase; /* of the schedule `phases`, */
    int phases;
    bool phases_in_epochs; /* which count epochs, not steps */
    int64_t global_batch, base_batch;
    const char *rank_scaling;   /* likewise, of a rate meant for one rank; NULL: none */
    int64_t ranks;              /* that share the batch; 0 as 1 */
    int64_t steps, epoch_steps; /* in all, and of an epoch */
} dlr_schedule;

/* A phase in steps or epochs of this run, and in rates. */
typedef struct {
    double start, length, from, to, by, down, fade;
} dlr_rate_phase;

/* Values of the plan's variables lr.init, lr.end, lr.warmup, lr.warmup.from, lr.total, lr.steps,
 * lr.unit and lr.passed; of lr.range.* as they were given; of lr.phase.* as this run has them. */
typedef struct {
    double init, end, warmup, total, epoch_steps;
    double warmup_from; /* lr.warmup.from: a warm-up's first rate, as a share of its last */
    double passed;      /* steps that the schedule is ahead of the run */
    const dlr_rate_range *range;
    int ranges;
    double unit; /* steps that a phase counts as one */
    dlr_rate_phase phase[DL_MOST_RATE_PHASES];
    int phases;
} dlr_rates;

/* Errors: DL_USAGE for a scaling of another name, batches or steps below 1. */
bool dlr_schedule_rates(const dlr_schedule *schedule, dlr_rates *rates, dl_error *err);
/* The value of a variable of this name. False: it is not the schedule's. */
bool dlr_rates_value(const dlr_rates *rates, const char *name, double *value);
/* The rate of step i >= 1 by preset volumes' formula, with which a test compares the device's
 * value. */
double dlr_schedule_rate(const dlr_rates *rates, int64_t i);
/* And by preset weather's: the lower of i / warmup and half a cosine of i - 1. */
double dlr_schedule_cosine(const dlr_rates *rates, int64_t i);
#endif
