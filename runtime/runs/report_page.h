/* A report of runs as one page of HTML that loads nothing: curves, pictures, configuration,
 * environment, data, kernels, memory. */
#ifndef DL_REPORT_PAGE_H
#define DL_REPORT_PAGE_H
#include "runtime/runs/report_sweep.h"
#include "runtime/runs/run_cost.h"

typedef struct {
    dl_run_facts facts;
    dl_run_cost cost;
    const char *no_cost; /* why the step could not be planned; NULL: it is */
    const char *picture; /* prediction.png as base64; NULL: there is none */
} dl_reported_run;

/* sweep: comes first; NULL: there is none. */
void dl_put_report(dl_buf *b, dl_arena *arena, const dl_reported_sweep *sweep, int n,
                   const dl_reported_run *runs);
#endif
