/* Validation: mean loss and metrics of the program "eval". */
#ifndef DLR_EVALUATOR_H
#define DLR_EVALUATOR_H
#include "runtime/train/batches.h"
#include "runtime/train/logger.h"
#include "runtime/train/steps.h"
#include "runtime/train/stopper.h"

typedef struct {
    dlr_exec *exec;
    int program;
    dl_arena *arena;
    dlr_view loss;
    dlr_averages averages;    /* of the newest validation */
    dlr_view samples, of_all; /* the program's numbers of samples that count in a batch; without a
                                 type it counts full batches only */
    int64_t counted[2];       /* their values */
    dlr_view number;          /* the batch's, for random numbers; without a type it draws none */
    bool within;              /* the next validation is within an epoch, which goes on after it */
    /* the run's other components that a validation uses */
    dlr_batches *batches;
    dlr_stopper *stopper;
    dlr_logger *logger;
    const dlr_run_ranks *ranks;
    const dlr_ranges *ranges;
} dlr_evaluator;

/* Finds the program "eval"; exec, arena and the other components must be set. Where it counts full
 * batches only, the log says how many samples of validation are left out. Errors: DL_INPUT where
 * the plan has no such program, or it has no loss; DL_USAGE where these samples are all. */
bool dlr_evaluator_open(dlr_evaluator *e, dl_error *err);
/* Mean loss and metrics over the validation's batches (`whole`, of which the first is drawn), or
 * over one of them. The ring of batches is at the next epoch's start afterwards, or, `within` an
 * epoch, where it goes on. With *stopped
 * the user asked to stop in a whole validation, which will be repeated. steps: how programs are
 * started. Errors: those of data; DL_NUMERIC. */
bool dlr_evaluator_run(dlr_evaluator *e, const dlr_steps *steps, const dlr_state *at, bool whole,
                       double *mean, bool *stopped, dl_error *err);
/* Records the untrained model on the first batch of either data set. Errors: as above. */
bool dlr_evaluator_record_untrained(dlr_evaluator *e, const dlr_steps *steps, const dlr_state *at,
                                    dl_error *err);
#endif
