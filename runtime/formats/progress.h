/* The progress of an epoch. On a terminal it is a bar, redrawn at most ten times a second:
 *
 *   epoch 1/2  45% [===========>              ] 54/120  8.3 samples/s  loss 0.0521  0:12 left
 *
 * Elsewhere it is a plain line every 10 seconds, or every tenth of the epoch where that is longer:
 *
 *   epoch 1/2: 54/120 batches, 8.3 samples/s, loss 0.0521, 0:12 left
 *
 * Log lines (log.h) appear above the bar. NO_COLOR is honoured. */
#ifndef DLR_PROGRESS_H
#define DLR_PROGRESS_H
#include <stdbool.h>
#include <stdint.h>

/* The caller owns the memory; the fields belong to this module. */
typedef struct {
    char label[64];
    int64_t total, done, samples; /* batches, batches, samples */
    double loss;
    double started, drawn; /* seconds, monotonic */
    int64_t drawn_at;      /* `done` at the last redraw */
    bool live;
} dlr_progress;

/* Starts a bar of `total` batches (0: unknown). There is one at a time. */
void dlr_progress_start(dlr_progress *p, const char *label, int64_t total);
/* Counts one batch of `samples` samples; `loss` is shown (NaN: not shown). It is cheap: call it at
 * every step. */
void dlr_progress_step(dlr_progress *p, int64_t samples, double loss);
/* Removes the bar. */
void dlr_progress_finish(dlr_progress *p);
#endif
