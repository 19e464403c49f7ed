/* Kernels in all the ways in which their target can make them, as a plan: what a tuner runs. */
#ifndef DL_TRIAL_H
#define DL_TRIAL_H
#include "compiler/backend.h"

typedef struct {
    const dl_kernel *kernel;
    int nvariants;
    const char *variants[DL_MOST_VARIANTS]; /* dl_backend.variants */
    int first;                              /* the program that runs number 0; the others' follow it */
    int64_t *args;                          /* offset of each parameter, in all of them */
} dl_trial;

/* Fills trials, which have their kernels, and makes a plan of them: a program of one launch for each variant.
 * Programs of different kernels lie in the same memory; those of one find their inputs where the ones before
 * have left them: no output shares its memory with an input. The plan lives in a new arena under `parent`.
 * NULL: what `emit` and `build` say. */
dl_plan *dl_trial_plan(dl_arena *parent, const dl_target *t, int n, dl_trial *trials,
                       void (*warn)(const char *text), dl_error *err);
#endif
