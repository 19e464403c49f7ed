/* Kernels in all the variants that their target has, as a plan: a tuner runs it. */
#ifndef DL_TRIAL_H
#define DL_TRIAL_H
#include "compiler/target/backend.h"
#include "ir/base/console.h"

/* The most offers of a library for one form, and of all libraries. */
enum {
    DL_EACH_OFFERS = 3,
    DL_MOST_OFFERS = DL_EACH_OFFERS * (int)DL_NFORMS * (int)DL_NLIBRARIES,
    DL_MOST_TRIAL_VARIANTS = DL_MOST_VARIANTS + DL_MOST_OFFERS
};

typedef struct {
    const dl_kernel *kernel;
    int noffers;
    const dl_algorithm
        *offers; /* library algorithms for the backend's calls; at most DL_MOST_OFFERS */
    int nvariants;
    /* number 0 is the cost model's choice, offers are last */
    const char *variants[DL_MOST_TRIAL_VARIANTS]; /* as schedules name them; NULL: there is one */
    const char *names[DL_MOST_TRIAL_VARIANTS];    /* for people */
    int first;     /* the program that runs variant 0; the others follow */
    int64_t *args; /* offset of each parameter, in all of them */
} dl_trial;

/* Takes trials with their kernels and offers, fills in the rest, and makes a plan of them: one
 * program of one launch for each variant. Programs of different kernels use the same memory.
 * Programs of one kernel find their inputs unchanged: no output shares memory with an input. The
 * plan lives in a new arena under `parent`. NULL: an error of `emit` or `build`. */
dl_plan *dl_trial_plan(dl_arena *parent, const dl_target *t, int n, dl_trial *trials,
                       const dl_console *out, dl_error *err);
#endif
