#include "programs/tune.h"

#include <string.h>

#include "compiler/cache.h"
#include "ir/base/hash.h"
#include "programs/device.h"

/* Its number among the kernel's variants, or -1. */
static int find(const char *name, size_t length, int n, const char **names) {
    for (int i = 0; i < n; i++)
        if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0) return i;
    return -1;
}

/* The table's entry of a kernel: the name of its variant. -1: there is none that says one of these. */
static int look_up(dl_arena *arena, const char *dir, uint64_t key, int n, const char **names) {
    size_t length;
    const char *name = (const char *)dl_cache_get(arena, dir, key, &length);
    return name ? find(name, length, n, names) : -1;
}

static bool try_all(dl_tuning *t, dl_arena *arena, const char *dir, int n, dl_trial *trials, int *best,
                    dl_error *err) {
    dl_plan *plan = dl_trial_plan(arena, t->target, n, trials, t->warn, err);
    dlr_exec *exec =
        plan ? dlr_exec_open(plan, (dlr_exec_options){.threads = t->threads, .device = t->device}, err)
             : NULL;
    bool ok = exec != NULL;
    for (int i = 0; i < n && ok; i++) {
        best[i] = dl_try(t, exec, &trials[i]);
        ok = best[i] >= 0 || dlr_exec_check(exec, err);
        const char *name = ok ? trials[i].variants[best[i]] : "";
        ok = ok &&
             dl_cache_put(dir, dl_hash(&t->tuner.key, sizeof t->tuner.key, dl_kernel_hash(trials[i].kernel)),
                          name, strlen(name), err);
    }
    dlr_exec_close(exec);
    return ok;
}

static bool choose(void *user, int n, dl_coded *kernels, dl_error *err) {
    dl_tuning *t = user;
    dl_arena *arena = dl_arena_new(NULL);
    const char *dir = dl_cache_dir(arena, err), *names[DL_MOST_VARIANTS];
    uint64_t *hashes = DL_NEWS(arena, uint64_t, n + 1);
    dl_trial *trials = DL_NEWS(arena, dl_trial, n + 1);
    int *of = DL_NEWS(arena, int, n + 1), *best = DL_NEWS(arena, int, n + 1), ntrials = 0;
    for (int i = 0; i < n && dir; i++) {
        const dl_kernel *k = kernels[i].kernel;
        int twin = 0, variants = t->target->backend->variants(k, t->target, names);
        hashes[i] = dl_kernel_hash(k);
        while (hashes[twin] != hashes[i]) twin++;
        of[i] = twin < i ? of[twin] : -1;
        if (twin < i) kernels[i].variant = kernels[twin].variant;
        if (twin < i || variants == 1) continue;
        t->kernels++;
        int known =
            look_up(arena, dir, dl_hash(&t->tuner.key, sizeof t->tuner.key, hashes[i]), variants, names);
        if (known >= 0)
            kernels[i].variant = known;
        else
            of[i] = ntrials, trials[ntrials++].kernel = k;
    }
    bool ok = dir && (!ntrials || try_all(t, arena, dir, ntrials, trials, best, err));
    for (int i = 0; i < n && ok; i++)
        if (of[i] >= 0) kernels[i].variant = best[of[i]];
    dl_arena_free(arena);
    return ok;
}

/* Device, driver, target and compiler: what a kernel's time depends on beside itself. */
static bool find_key(dl_arena *arena, dl_tuning *t, dl_error *err) {
    int ordinal, version = 0;
    uint64_t toolchain;
    char name[256] = "";
    const dlr_driver *driver = dl_device_driver(t->device, &ordinal, err);
    dlr_cu_device device = 0;
    if (!driver || !t->target->backend->toolchain(arena, t->target, &toolchain, err)) return false;
    dlr_cu_result r = driver->DriverGetVersion(&version);
    if (r == 0) r = driver->DeviceGet(&device, ordinal);
    if (r == 0) r = driver->DeviceGetName(name, (int)sizeof name, device);
    if (r != 0)
        return dl_fail(err, DL_RESOURCE, "the driver does not say what the device '%s' is", t->device);
    uint64_t h = dl_hash(&version, sizeof version, dl_hash_str(name, dl_hash_str("tuned", toolchain)));
    t->tuner.key = dl_hash_str(DL_VERSION, dl_hash_str(t->target->name, h));
    return true;
}

bool dl_tune(dl_arena *arena, const dl_config *c, const char *device, dl_compile_options *opt, dl_tuning *t,
             dl_error *err) {
    *t = (dl_tuning){.target = opt->target,
                     .device = device                  ? device
                               : opt->target->emulated ? "cuda:emulated"
                                                       : "cuda",
                     .threads = (int)dl_config_int(c, DL_KEY_threads),
                     .seed = (uint64_t)dl_config_int(c, DL_KEY_seed),
                     .warn = opt->warn};
    if (!dl_config_bool(c, DL_KEY_tune) || !opt->target->backend->variants) return true;
    t->tuner = (dl_tuner){.choose = choose, .user = t};
    opt->tuner = &t->tuner;
    return find_key(arena, t, err);
}

const char *dl_tuning_text(dl_arena *arena, const dl_tuning *t) {
    if (!t->tried) return NULL;
    return dl_format(
        arena,
        "tuned %d of %d kernels that can be made in several ways: %d otherwise than the cost model would, "
        "%.1f us a launch of each for %.1f%s",
        t->tried, t->kernels, t->changed, t->us, t->us_before,
        t->rejected ? dl_format(arena, "; %d ways rejected", t->rejected) : "");
}
