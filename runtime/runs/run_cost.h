/* The cost of a run's training step, computed from the run's own copy of the model: its kernels
 * with the model's lines, and memory over the step. */
#ifndef DL_RUN_COST_H
#define DL_RUN_COST_H
#include "ir/base/console.h"
#include "ir/plan/plan.h"
#include "runtime/runs/run_facts.h"
#include "runtime/setup/data_record.h"

/* A kernel of the step; `measured` is of the run's profile, NAN without one. */
typedef struct {
    const char *name, *where;
    int calls;
    double flops, bytes;              /* of a call */
    double predicted_us, measured_us; /* of all calls */
} dl_run_kernel;

typedef struct {
    const char *target, *model;
    const char *text; /* the model's */
    DL_ARRAY(dl_run_kernel) kernels;
    double peak_gflops, peak_gbytes; /* the profile's ceilings; 0: unknown */
    const double *memory;            /* bytes in use at each node of the step, variables included */
    int n;
    int64_t variables; /* bytes of those */
    dl_data_record data;
} dl_run_cost;

/* Plans the step, without machine code. Errors: those of dl_saved_model_open (a run without a
 * checkpoint has none) and of compiling. */
bool dl_run_cost_find(dl_arena *arena, const dl_run_facts *r, const dl_console *out,
                      dl_run_cost *cost, dl_error *err);
#endif
