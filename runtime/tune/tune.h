/* The key `tune`: kernels that a target can make in several ways, or whose product a library of the
 * device can make, are tried on the device itself, and the fastest way is taken that computes what
 * the cost model's choice does. What was found is kept in the cache, an entry for each device,
 * driver, target, compiler, libraries and kernel. */
#ifndef DL_TUNE_H
#define DL_TUNE_H
#include "compiler/compile.h"
#include "compiler/trial.h"
#include "frontends/yaml/config.h"
#include "ir/base/console.h"
#include "runtime/cuda/library.h"
#include "runtime/exec/exec.h"

typedef struct {
    dl_tuner tuner;
    dl_arena *arena; /* of the algorithms that are taken */
    const dl_target *target;
    const char *device;
    int threads;
    uint64_t seed;
    const dlr_driver *driver;
    int ordinal;                      /* of its devices */
    int64_t libraries[DL_NLIBRARIES]; /* versions of those that are there; 0: not */
    const dl_console *out; /* warned of a variant that is not used, and why; NULL: nobody is */
    /* found */
    int kernels, tried, changed, called,
        rejected;         /* with several ways; of these not in the cache; of those made
                             otherwise than the cost model says, and by libraries; ways */
    double us_before, us; /* of those tried, a launch each: as the cost model says, and now */
} dl_tuning;

/* Where the key is set and the target has choices, opt->tuner becomes t's. `device`: as it was
 * chosen. Errors: DL_RESOURCE (no device, or no compiler for it). */
bool dl_tune(dl_arena *arena, const dl_config *c, const char *device, dl_compile_options *opt,
             dl_tuning *t, dl_error *err);
/* "tuned 12 kernels, 3 of them now: ...", or NULL: nothing was tried. */
const char *dl_tuning_text(dl_arena *arena, const dl_tuning *t);

/* ---- trials.c ---- */

/* Runs all ways of a kernel, of a plan of trials that is open in `exec`, and returns the fastest;
 * counts in t. -1: the device has failed. */
int dl_try(dl_tuning *t, dlr_exec *exec, const dl_trial *trial);
#endif
