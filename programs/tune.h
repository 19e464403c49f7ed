/* The key `tune`: kernels that a target can make in several ways are tried on the device itself, and the
 * fastest way is taken that computes what the cost model's choice does. What was found is kept in the cache,
 * an entry for each device, driver, target, compiler and kernel. */
#ifndef DL_TUNE_H
#define DL_TUNE_H
#include "compiler/compile.h"
#include "compiler/trial.h"
#include "frontends/yaml/config.h"
#include "runtime/exec.h"

typedef struct {
    dl_tuner tuner;
    const dl_target *target;
    const char *device;
    int threads;
    uint64_t seed;
    void (*warn)(const char *text); /* of a variant that is not used, and why; NULL: nobody is told */
    /* found */
    int kernels, tried, changed, rejected; /* with several variants; of these not in the cache; of those made
                                              otherwise than the cost model says; variants */
    double us_before, us; /* of those tried, a launch each: as the cost model says, and now */
} dl_tuning;

/* Where the key is set and the target has choices, opt->tuner becomes t's. `device`: as it was chosen.
 * Errors: DL_RESOURCE (no device, or no compiler for it). */
bool dl_tune(dl_arena *arena, const dl_config *c, const char *device, dl_compile_options *opt, dl_tuning *t,
             dl_error *err);
/* "tuned 12 kernels, 3 of them now: ...", or NULL: nothing was tried. */
const char *dl_tuning_text(dl_arena *arena, const dl_tuning *t);

/* ---- trials.c ---- */

/* Runs all variants of a kernel, of a plan of trials that is open in `exec`, and returns the fastest; counts
 * in t. -1: the device has failed. */
int dl_try(dl_tuning *t, dlr_exec *exec, const dl_trial *trial);
#endif
