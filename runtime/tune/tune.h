/* The key `tune`: runs the variants of kernels on the device and chooses the fastest one whose
 * result agrees with that of the cost model's choice. Variants are those of the target and, for
 * products, calls of the device's libraries. Results are kept in the cache, an entry for each
 * device, driver, target, compiler, libraries and kernel. */
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
    dl_arena *arena;
    const dl_target *target;
    const char *device;
    int threads;
    uint64_t seed;
    const dlr_driver *driver;
    int ordinal;                      /* of its devices */
    int64_t libraries[DL_NLIBRARIES]; /* versions of those that are there; 0: not */
    const dl_console *out; /* gets a warning for each rejected variant, and for each entry of the
                              cache that names none; NULL: no warnings */
    /* results: counts of kernels, and of variants */
    int kernels, tried, changed, called,
        rejected;         /* with several ways; of these not in the cache; of those made
                             otherwise than the cost model says, and by libraries; ways */
    double us_before, us; /* of those tried, a launch each: as the cost model says, and now */
} dl_tuning;

/* Sets opt->tuner to t's tuner where the key is set and the target has variants. device: as
 * dl_device_choose returned it. Errors: DL_RESOURCE (no device, or no compiler for it). */
bool dl_tune(dl_arena *arena, const dl_config *c, const char *device, dl_compile_options *opt,
             dl_tuning *t, dl_error *err);
/* A line for the log, "tuned 12 kernels, 3 of them now: ..."; NULL where no kernel has variants. In
 * the arena. */
const char *dl_tuning_text(dl_arena *arena, const dl_tuning *t);

/* ---- trials.c ---- */

/* Runs all variants of one kernel in a trial plan that is open in `exec`, and returns the index of
 * the fastest; adds to t's counts. -1: the device has failed. */
int dl_try(dl_tuning *t, dlr_exec *exec, const dl_trial *trial);
#endif
