/* How far an epoch is. On a terminal a bar, redrawn at most ten times a second:
 *
 *   epoch 1/2  45% [===========>              ] 54/120  8.3 samples/s  loss 0.0521  0:12 left
 *
 * Elsewhere a plain line each 10 seconds, or each tenth of the epoch where that is longer:
 *
 *   epoch 1/2: 54/120 batches, 8.3 samples/s, loss 0.0521, 0:12 left
 *
 * Log lines (log.h) written meanwhile stand above the bar. NO_COLOR is honoured. */
#ifndef DLR_PROGRESS_H
#define DLR_PROGRESS_H
#include <stdbool.h>
#include <stdint.h>

/* The caller's to hold; the fields are this module's. */
typedef struct {
    char label[64];
    int64_t total, done, samples; /* batches, batches, samples */
    double loss;
    double started, drawn; /* seconds, monotonic */
    int64_t drawn_at;      /* `done` of the last drawing */
    bool live;
} dlr_progress;

/* Starts one of `total` batches (0: unknown). One is shown at a time. */
void dlr_progress_start(dlr_progress *p, const char *label, int64_t total);
/* One batch of `samples` samples is done; `loss` is shown (NaN: nothing to show). Cheap: call it at
 * every step. */
void dlr_progress_step(dlr_progress *p, int64_t samples, double loss);
/* Removes the bar. */
void dlr_progress_finish(dlr_progress *p);
#endif
