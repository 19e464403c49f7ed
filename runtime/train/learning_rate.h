/* The learning rate of a run: the schedule's hyperparameters, from which the device computes each
 * step's rate, and a plateau scheduler that lowers the rate after epochs without improvement. */
#ifndef DLR_LEARNING_RATE_H
#define DLR_LEARNING_RATE_H
#include "runtime/train/plateau.h"
#include "runtime/train/start.h"
#include "runtime/train/state_values.h"

typedef struct {
    dlr_schedule schedule;              /* the run fills in its steps */
    const dlr_plateau_options *plateau; /* NULL: none */
} dlr_learning_rate_options;

typedef struct {
    const dlr_learning_rate_options *o;
    dlr_exec *exec;
    dlr_view view; /* the step's rate; type NULL: the plan has no optimiser */
    dlr_rates rates;
    dlr_plateau plateau; /* where o->plateau is set */
    double last;         /* rate of the newest step */
    bool moved;          /* a step since the epoch's begin, or since the run went on, had a rate */
    bool warned;         /* of an epoch without one */
} dlr_learning_rate;

/* Finds the rate of a program. */
void dlr_learning_rate_open(dlr_learning_rate *r, const dlr_learning_rate_options *o,
                            dlr_exec *exec, int program);
/* The run has so many steps. Errors: those of dlr_schedule_rates. */
bool dlr_learning_rate_set_steps(dlr_learning_rate *r, int64_t steps, int64_t epoch_steps,
                                 dl_error *err);
/* The plateau as it is before the first epoch. */
void dlr_learning_rate_reset(dlr_learning_rate *r);
/* Sets the plan's hyperparameters; the schedule is so many steps ahead of the run. */
void dlr_learning_rate_begin(dlr_learning_rate *r, const dlr_start_options *start, double passed);
/* After a step: notes its rate. */
void dlr_learning_rate_note(dlr_learning_rate *r);
/* After an epoch: warns, once in a run, where none of its `noted` steps here had a rate above 0. */
void dlr_learning_rate_end_epoch(dlr_learning_rate *r, int64_t epoch, int64_t noted);
/* After a validation: the plateau may lower the rate, which the log then says. */
void dlr_learning_rate_validated(dlr_learning_rate *r, double valid);
/* The rate that a scheduler, as PyTorch has them, has set for the next epoch or step; NaN: there is
 * none. */
double dlr_learning_rate_next(const dlr_learning_rate *r, const dlr_state *at);
/* The rate to record after an epoch: the newest step's, or, with `at_end`, the scheduler's. */
double dlr_learning_rate_recorded(const dlr_learning_rate *r, const dlr_state *at, bool at_end);

/* The plateau in a checkpoint. Of a run that had none it begins now. If the first rate has changed,
 * it is lowered by the same factor as the earlier one. */
void dlr_learning_rate_put_state(const dlr_learning_rate *r, dl_arena *arena, dlr_state_list *list);
void dlr_learning_rate_restore(dlr_learning_rate *r, const dlr_checkpoint *checkpoint);
#endif
