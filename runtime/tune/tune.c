#include "runtime/tune/tune.h"

#include <string.h>
#include <unistd.h>

#include "compiler/jit/cache.h"
#include "ir/base/cpus.h"
#include "ir/base/hash.h"
#include "runtime/setup/device_choice.h"

/* ---- the table: by kernel the variant that its schedule names ---- */

static uint64_t key_of(const dl_tuning *t, uint64_t kernel) {
    return dl_hash(&t->tuner.key, sizeof t->tuner.key, kernel);
}

/* An entry of another version, whose variants had other names or libraries: it is not guessed which
 * of today's it meant. */
static bool refuse(const dl_tuning *t, const dl_kernel *k, const char *said, size_t length) {
    if (t->out)
        dl_console_warning(t->out, dl_format(t->arena,
                                             "kernel @%s was tuned to '%.*s', which it has no more "
                                             "here: its variants are timed again",
                                             k->name, (int)length, said));
    return false;
}

/* False: the table has no entry, or none that says a way which there is. */
static bool look_up(const dl_tuning *t, dl_arena *arena, const dl_cache *cache, const dl_kernel *k,
                    int n, const char **names, const char **variant) {
    size_t length;
    dl_algorithm by;
    const char *said =
        (const char *)dl_cache_find(arena, cache, key_of(t, dl_kernel_hash(k)), &length);
    if (!said) return false;
    for (int i = 0; i < n; i++)
        if (strlen(names[i]) == length && memcmp(names[i], said, length) == 0)
            return *variant = n > 1 ? names[i] : NULL, true;
    if (!dl_algorithm_parse(said, length, &by) || by.version != t->libraries[by.library])
        return refuse(t, k, said, length);
    *variant = dl_intern(dl_algorithm_text(arena, &by));
    return true;
}

static bool note(const dl_tuning *t, const dl_cache *cache, const dl_trial *trial, int best,
                 dl_error *err) {
    const char *text = trial->variants[best] ? trial->variants[best] : trial->names[best];
    return dl_cache_keep(cache, key_of(t, dl_kernel_hash(trial->kernel)), text, strlen(text),
                         t->out, err);
}

/* ---- trials ---- */

/* The libraries' offers for the kernel's GEMM, some algorithms for each form. */
static void ask(dl_tuning *t, const dlr_libraries_here *here, dl_trial *trial) {
    dl_call forms[DL_MOST_CALLS];
    dl_algorithm *offers = DL_NEWS(t->arena, dl_algorithm, DL_MOST_OFFERS);
    int n = t->target->backend->calls(trial->kernel, t->target, forms);
    trial->offers = offers;
    for (int l = 0; l < DL_NLIBRARIES; l++)
        for (int f = 0; f < n && here->opened[l]; f++)
            if (forms[f].what == dl_library_makes[l])
                trial->noffers += dlr_libraries[l]->offer(here->opened[l], &forms[f],
                                                          DL_EACH_OFFERS, offers + trial->noffers);
}

static unsigned there(const dl_tuning *t) {
    unsigned which = 0;
    for (int i = 0; i < DL_NLIBRARIES; i++) which |= t->libraries[i] ? 1u << i : 0;
    return which;
}

static bool ask_all(dl_tuning *t, int n, dl_trial *trials, dl_error *err) {
    dlr_libraries_here here;
    if (!there(t)) return true;
    bool ok = dlr_libraries_begin(&here, t->driver, t->ordinal, there(t), err);
    for (int l = 0; ok && l < DL_NLIBRARIES; l++)
        if (here.why[l].code && t->out)
            dl_console_warning(t->out,
                               dl_format(t->arena, "%s: it is not tried", here.why[l].message));
    for (int i = 0; ok && i < n; i++) ask(t, &here, &trials[i]);
    dlr_libraries_end(&here);
    return ok;
}

static bool try_all(dl_tuning *t, dl_arena *arena, const dl_cache *cache, int n, dl_trial *trials,
                    int *best, dl_error *err) {
    if (!ask_all(t, n, trials, err)) return false;
    dl_plan *plan = dl_trial_plan(arena, t->target, n, trials, t->out, err);
    dlr_exec *exec =
        plan ? dlr_exec_open(plan, (dlr_exec_options){.threads = t->threads, .device = t->device},
                             err)
             : NULL;
    bool ok = exec != NULL;
    for (int i = 0; i < n && ok; i++) {
        best[i] = dl_try(t, exec, &trials[i]);
        ok = best[i] >= 0 || dlr_exec_check(exec, err);
        ok = ok && note(t, cache, &trials[i], best[i], err);
    }
    dlr_exec_close(exec);
    return ok;
}

/* Could a library that is there make the kernel's product? */
static bool can_call(const dl_tuning *t, const dl_kernel *k) {
    dl_call forms[DL_MOST_CALLS];
    bool can = false;
    int n =
        there(t) && t->target->backend->calls ? t->target->backend->calls(k, t->target, forms) : 0;
    for (int l = 0; l < DL_NLIBRARIES; l++)
        for (int f = 0; f < n; f++) can |= t->libraries[l] && forms[f].what == dl_library_makes[l];
    return can;
}

static bool choose(void *user, int n, dl_kernel *const *kernels, dl_error *err) {
    dl_tuning *t = user;
    dl_arena *arena = dl_arena_new(NULL);
    const dl_cache *cache = dl_cache_open(arena, t->out, err);
    const char *names[DL_MOST_VARIANTS], **chosen = DL_NEWS(arena, const char *, n + 1);
    uint64_t *hashes = DL_NEWS(arena, uint64_t, n + 1);
    dl_trial *trials = DL_NEWS(arena, dl_trial, n + 1);
    int *of = DL_NEWS(arena, int, n + 1), *best = DL_NEWS(arena, int, n + 1), ntrials = 0;
    for (int i = 0; i < n && cache; i++) {
        const dl_kernel *k = kernels[i];
        int twin = 0, variants = t->target->backend->variants(k, t->target, names);
        hashes[i] = dl_kernel_hash(k);
        while (hashes[twin] != hashes[i]) twin++;
        of[i] = twin < i ? of[twin] : -1;
        if (twin < i) chosen[i] = chosen[twin];
        if (twin < i || (variants == 1 && !can_call(t, k))) continue;
        t->kernels++;
        if (!look_up(t, arena, cache, k, variants, names, &chosen[i]))
            of[i] = ntrials, trials[ntrials++].kernel = k;
    }
    bool ok = cache && (!ntrials || try_all(t, arena, cache, ntrials, trials, best, err));
    for (int i = 0; i < n && ok; i++)
        kernels[i]->schedule.variant = of[i] >= 0 ? trials[of[i]].variants[best[of[i]]] : chosen[i];
    dl_arena_free(arena);
    return ok;
}

/* Do the target's kernels run on the host's threads? */
static bool on_host(const dl_target *t) { return t->backend->serial != NULL; }

/* Machine, threads, target and compiler: that a kernel's time on the host depends on. */
static bool find_host_key(dl_arena *arena, dl_tuning *t, dl_error *err) {
    uint64_t toolchain;
    char host[256] = "";
    if (!t->target->backend->toolchain(arena, t->target, &toolchain, err)) return false;
    gethostname(host, sizeof host - 1);
    const int threads[] = {t->threads, dl_cpus_allowed()};
    uint64_t h = dl_hash(threads, sizeof threads, dl_hash_str(host, toolchain));
    t->tuner.key = dl_hash_str(DL_VERSION, dl_hash_str(t->target->name, h));
    return true;
}

/* Device, driver, target, compiler and libraries: that a kernel's time depends on, besides itself.
 */
static bool find_key(dl_arena *arena, dl_tuning *t, dl_error *err) {
    int version = 0;
    uint64_t toolchain;
    char name[256] = "";
    const dlr_driver *driver = t->driver = dl_device_driver(t->device, &t->ordinal, err);
    dlr_cu_device device = 0;
    if (!driver || !t->target->backend->toolchain(arena, t->target, &toolchain, err)) return false;
    dlr_cu_result r = driver->DriverGetVersion(&version);
    if (r == 0) r = driver->DeviceGet(&device, t->ordinal);
    if (r == 0) r = driver->DeviceGetName(name, (int)sizeof name, device);
    if (r != 0)
        return dl_fail(err, DL_RESOURCE, "the driver does not say what the device '%s' is",
                       t->device);
    uint64_t h =
        dl_hash(&version, sizeof version, dl_hash_str(name, dl_hash_str("tuned", toolchain)));
    for (int i = 0; i < DL_NLIBRARIES; i++) {
        dl_error why = {0};
        t->libraries[i] = dlr_library_find((dl_library)i, t->target->emulated, &why);
        if (why.code) return dl_fail(err, why.code, "%s", why.message);
    }
    h = dl_hash(t->libraries, sizeof t->libraries, h);
    bool has_maps = driver->TensorMapEncodeTiled && driver->TensorMapEncodeIm2col;
    if (!has_maps && t->target->has_maps) { /* kernels that would need it are no ways */
        dl_target *without = DL_NEW(t->arena, dl_target);
        *without = *t->target, without->has_maps = false;
        t->target = without;
    }
    t->tuner.key = dl_hash_str(DL_VERSION, dl_hash_str(t->target->name, h));
    return true;
}

bool dl_tune(dl_arena *arena, const dl_config *c, const char *device, dl_compile_options *opt,
             dl_tuning *t, dl_error *err) {
    *t = (dl_tuning){.arena = arena,
                     .target = opt->target,
                     .device = device || on_host(opt->target)
                                   ? device
                                   : dl_device_of_target(arena, opt->target->name),
                     .threads = (int)dl_config_int(c, DL_KEY_threads),
                     .seed = (uint64_t)dl_config_int(c, DL_KEY_seed),
                     .out = opt->out};
    if (!dl_config_bool(c, DL_KEY_tune) || !opt->target->backend->variants) return true;
    t->tuner = (dl_tuner){.choose = choose, .user = t};
    opt->tuner = &t->tuner;
    if (!(on_host(opt->target) ? find_host_key : find_key)(arena, t, err)) return false;
    opt->target = t->target;
    return true;
}

const char *dl_tuning_text(dl_arena *arena, const dl_tuning *t) {
    if (!t->tried) return NULL;
    return dl_format(arena,
                     "tuned %d of %d kernels that can be made in several ways: %d otherwise than "
                     "the cost model would, "
                     "%.1f us a launch of each for %.1f%s%s",
                     t->tried, t->kernels, t->changed, t->us, t->us_before,
                     t->called ? dl_format(arena, "; %d by libraries", t->called) : "",
                     t->rejected ? dl_format(arena, "; %d ways rejected", t->rejected) : "");
}
