/* Kernels in all the ways in which their target can make them, as a plan: what a tuner runs. */
#ifndef DL_TRIAL_H
#define DL_TRIAL_H
#include "compiler/target/backend.h"
#include "ir/base/console.h"

/* Of each library for each form; of all of them. */
enum {
    DL_EACH_OFFERS = 3,
    DL_MOST_OFFERS = DL_EACH_OFFERS * (int)DL_NFORMS * (int)DL_NLIBRARIES,
    DL_MOST_WAYS = DL_MOST_VARIANTS + DL_MOST_OFFERS
};

typedef struct {
    const dl_kernel *kernel;
    int noffers;
    const dl_algorithm
        *offers; /* of libraries, for calls that the backend has; at most DL_MOST_OFFERS */
    int nways;
    dl_way ways[DL_MOST_WAYS]; /* number 0 is the cost model's, offers stand last */
    const char *names[DL_MOST_WAYS];
    int first;     /* the program that runs number 0; the others' follow it */
    int64_t *args; /* offset of each parameter, in all of them */
} dl_trial;

/* Fills trials, which have their kernels and offers, and makes a plan of them: a program of one
 * launch for each way. Programs of different kernels lie in the same memory; those of one find
 * their inputs where the ones before have left them: no output shares its memory with an input. The
 * plan lives in a new arena under `parent`. NULL: what `emit` and `build` say. */
dl_plan *dl_trial_plan(dl_arena *parent, const dl_target *t, int n, dl_trial *trials,
                       const dl_console *out, dl_error *err);
#endif
