/* The log format of a run: the tags of its recorded values, and the lines of its log, a row for
 * each system that has its own. Users' scripts search for both, word by word. */
#ifndef DLR_RECORD_H
#define DLR_RECORD_H
#include <stdbool.h>
#include <stdint.h>

#include "ir/base/str.h"

/* Values of the loop's own, one a point. */
typedef enum {
    DLR_VALUE_TRAIN_LOSS,      /* mean over the epoch's steps */
    DLR_VALUE_VALID_LOSS,      /* mean over the validation's batches */
    DLR_VALUE_RATE,            /* of the last step, or the one that a scheduler has set after it:
                                  rate_at_end */
    DLR_VALUE_ITERS_PER_SEC,   /* steps */
    DLR_VALUE_SAMPLES_PER_SEC, /* samples, over all ranks */
    DLR_VALUE_SECONDS,         /* of the epoch's steps */
    DLR_VALUE_WAIT,            /* those of them that the loop waited for batches */
    DLR_VALUE_ALL_SECONDS,     /* and of its validation */
    DLR_VALUE_BEST_LOSS,       /* lowest validation loss so far */
    DLR_VALUE_BEST_EPOCH,      /* where that was, from 0 */
    DLR_VALUE_GRAD_NORM,       /* mean over the epoch's steps */
    DLR_VALUE_WEIGHT_NORM,     /* mean likewise, or that of the last step: weights_at_end */
    DLR_VALUE_LOSS_SCALE,      /* of the last step, where the loss is scaled */
    DLR_N_VALUES
} dlr_value_name;

enum { DLR_RECORD_BEST = 2, DLR_RECORD_RENAMED = 2 };

/* Numbers that log lines name in braces: {epoch} from 1, {epochs} of the run, {seconds} of the
 * epoch's steps and {wait}, those of them that the loop waited for batches, {samples_per_sec},
 * {train} and {valid} losses, {valid_seconds}, {all_seconds} of steps and validation; {memory} of
 * the process that is resident, and {most_memory} that was, GiB; {rank} of {ranks}; {metrics} of
 * training and {valid_metrics}, as text. */
typedef struct {
    int64_t epoch, epochs; /* this one, and those of the run */
    int rank, ranks;       /* 0 ranks as 1 */
    double seconds, wait, samples_per_sec, train, valid, valid_seconds, all_seconds, memory,
        most_memory;
    const char *metrics, *valid_metrics;
} dlr_record_numbers;

typedef struct {
    const char *name;
    const char *tags[DLR_N_VALUES]; /* NULL: not recorded */
    bool untrained;                 /* a first point at step 0: losses before any training */
    bool weights_at_end;
    bool rate_at_end;     /* records the rate that the scheduler has set by then: the script steps
                             it before it records */
    bool plain_log;       /* lines without the logger's name */
    bool metrics_in_line; /* the model's, where `finished` names them; else a line each after
                             `validated` */
    /* Log lines, '\n' between two; NULL: none. */
    const char *begin;   /* before the first step */
    const char *stepped; /* after the second step of each epoch */
    const char *trained; /* after an epoch's steps */
    const char *validated,
        *finished; /* after its validation, before and after the lines of the model's metrics */
    /* At the end, of all points, where there is a `history`: the largest of a value by its tag, and
     * the words before it in the log; then the mean of all_seconds likewise. */
    const struct { const char *tag, *words; } best[DLR_RECORD_BEST];
    const char *mean_seconds, *end; /* the run's last lines */
    /* And all of them in a .npz of this name in the run's directory, as Keras' History has them
     * (loss, val_loss, lr, NAME and val_NAME of metrics); metrics with another name there. */
    const char *history;
    const struct { const char *name, *kept; } renamed[DLR_RECORD_RENAMED];
} dlr_log_format;

/* NULL: there is none of that name. */
const dlr_log_format *dlr_record_find(const char *name);
/* The style's name of a metric of the model. */
const char *dlr_record_metric(const dlr_log_format *style, const char *name);
/* Appends the n-th line (from 0) of `lines` with its numbers, without a line's end. False: there is
 * none. */
bool dlr_record_line(dl_buf *b, const char *lines, int n, const dlr_record_numbers *numbers);
#endif
