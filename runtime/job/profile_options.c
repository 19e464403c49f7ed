#include "runtime/job/profile_options.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/formats/log.h"
#include "runtime/tune/peak_rates.h"

typedef struct {
    dl_arena *arena;
    const dl_plan *plan;
    const char *device;
    int threads;
} machine;

static bool measure(void *context, dlr_peak_rates *found, dl_error *err) {
    const machine *m = context;
    dl_peak_rates c = {0};
    const dl_target *target = dl_target_find(m->arena, m->plan->target, err);
    bool ok = target &&
              dl_peak_rates_open(m->arena, m->plan, target, m->device, m->threads, &c, err) &&
              dl_peak_rates_measure(&c, err);
    bool cpu = !dl_target_is_gpu(m->plan->target);
    if (ok)
        *found = (dlr_peak_rates){
            c.gflops, c.gbytes,
            cpu ? dl_format(m->arena, "measured here (%s)", dl_peak_rates_counted(m->plan))
                : "measured here (products of bf16 by mma.sync)"};
    dl_peak_rates_close(&c);
    return ok;
}

static bool is_set(const char *variable) {
    const char *value = getenv(variable);
    return value && *value && strcmp(value, "0") != 0;
}

/* Nsight Systems says so to what it runs; NVTX_INJECTION64_PATH is how any tool takes NVTX's
 * ranges. */
static bool is_beneath_profiler(void) {
    return is_set("NSYS_PROFILING_SESSION_ID") || is_set("NVTX_INJECTION64_PATH");
}

static void find_ranges(dlr_ranges *r) {
    dlr_ranges_find(r);
    dlr_log_info("profiling: NVTX is %s, and cudaProfilerStart is %s%s",
                 r->push ? "there" : "not found", r->start ? "there" : "not found",
                 r->start ? ": it is called when epoch 4 begins" : "");
}

static dlr_profile *record(dl_arena *arena, const char *folder, const char *name, int64_t epoch,
                           dlr_exec *exec, const char *device) {
    machine *m = DL_NEW(arena, machine);
    *m = (machine){arena, dlr_exec_plan(exec), device, dlr_pool_threads(dlr_exec_pool(exec))};
    return dlr_profile_new(
        arena, &(dlr_profile_options){.trace = dl_format(arena, "%s/%s.json", folder, name),
                                      .table = dl_format(arena, "%s/%s.txt", folder, name),
                                      .epoch = epoch,
                                      .peak_rates = measure,
                                      .context = m});
}

bool dl_profile_open(dl_arena *arena, bool asked, const dlr_rundir *dir, dlr_exec *exec,
                     const char *device, dlr_ranges *r, dl_error *err) {
    bool enabled = is_set("ENABLE_PROFILING"), beneath = is_beneath_profiler();
    const char *name = enabled ? getenv("PROFILE_OUTPUT") : NULL;
    *r = (dlr_ranges){0};
    if (!name || !*name) name = "profile";
    if (!dl_is_file_name(name))
        return dl_fail(err, DL_USAGE, "PROFILE_OUTPUT=%.80s: it names files in the run's directory",
                       name);
    if (enabled || beneath) find_ranges(r);
    if (asked || (enabled && !beneath))
        r->profile = record(arena, dir->path, name, asked ? -1 : DLR_PROFILED_EPOCH, exec, device);
    return true;
}
