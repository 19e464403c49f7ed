/* A sweep in a report: its trials as lines over parallel axes, their curves, and a table. */
#ifndef DL_REPORT_SWEEP_H
#define DL_REPORT_SWEEP_H
#include "ir/base/arena.h"
#include "ir/base/status.h"
#include "ir/base/str.h"

typedef struct dl_reported_sweep dl_reported_sweep;

/* Whether the directory is a sweep's. */
bool dl_is_sweep(dl_arena *arena, const char *dir);
/* Reads a sweep and its trials. *best: the directory of the run with the best value; NULL: there is
 * none. Errors: those of dl_sweep_open and dlr_trials_read; NULL. */
const dl_reported_sweep *dl_report_sweep_read(dl_arena *arena, const char *dir, const char **best,
                                              dl_error *err);
void dl_put_sweep(dl_buf *b, dl_arena *arena, const dl_reported_sweep *s);
#endif
