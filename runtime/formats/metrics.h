/* metrics.jsonl: one line of JSON per point, {"epoch": 1, "iteration": 24, "Loss/train": 0.052,
 * ...}.
 *
 * Doubles are printed with the fewest digits that read back exactly: equal bits print equal, so
 * that two runs can be compared with diff. NaN and the infinities become null, which every reader
 * of JSON accepts. Each line is appended by one write. */
#ifndef DLR_METRICS_H
#define DLR_METRICS_H
#include "runtime/formats/json.h"
#include <stdint.h>

typedef struct dlr_metrics dlr_metrics;

/* Repairs of an earlier run's file at opening. */
typedef struct {
    int kept;
    int later; /* points after the checkpoint that were dropped: the resumed run writes them again
                */
    int torn;  /* lines that a crash left incomplete, dropped */
} dlr_metrics_repair;

/* Opens `path` for a run resumed at `iteration`. It keeps points up to it and drops later ones and
 * incomplete lines, so that the final file equals that of an uninterrupted run. For a new run,
 * `iteration` is -1, and the file must not exist. `repair` may be NULL. Errors: DL_IO, DL_INPUT
 * (over 1 GiB); NULL. */
dlr_metrics *dlr_metrics_open(const char *path, int64_t iteration, dlr_metrics_repair *repair,
                              dl_error *err);

typedef struct {
    const char *tag;
    double value;
} dlr_metric;

/* Appends one point. A checkpoint of this iteration must be written after its points. Errors:
 * DL_IO; the file is then unchanged. */
bool dlr_metrics_put(dlr_metrics *metrics, int64_t epoch, int64_t iteration,
                     const dlr_metric *values, int n, dl_error *err);
/* Makes all points so far durable; call it before each checkpoint. Errors: DL_IO. */
bool dlr_metrics_flush(dlr_metrics *metrics, dl_error *err);
void dlr_metrics_close(dlr_metrics *metrics); /* NULL is fine */

/* A point of a file: an object with epoch, iteration and the values by their tags. */
typedef void dlr_metrics_each(void *ctx, const dlr_json *point);
/* Reads all points of a file in order, one in memory at a time; a missing file has none. Lines that
 * are no JSON are skipped. Errors: DL_IO, DL_INPUT (over 1 GiB). */
bool dlr_metrics_read(const char *path, dlr_metrics_each *each, void *ctx, dl_error *err);
/* The value of a tag; false: the point lacks it, or it is no number. */
bool dlr_metrics_value(const dlr_json *point, const char *tag, double *value);
#endif
