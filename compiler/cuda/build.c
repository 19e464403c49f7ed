#include "compiler/cuda/build.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "compiler/cuda/limits.h"
#include "compiler/cuda/nvrtc.h"
#include "compiler/jit/cache.h"
#include "compiler/jit/thread.h"
#include "ir/base/cpus.h"
#include "ir/base/hash.h"
#include "ir/plan/cubin.h"

/* One source while it is being compiled. */
typedef struct {
    dl_plan_object *object;
    size_t length; /* of its source */
    dl_buf cubin, log;
    dl_error err;
} job;

/* State that the threads share: each takes the next job until there is none. */
typedef struct {
    const dl_nvrtc *nvrtc;
    const char *arch;
    job *const *order;
    int n;
    atomic_int next;
} work;

static void *run_jobs(void *context) {
    work *w = context;
    for (int i; (i = atomic_fetch_add(&w->next, 1)) < w->n;) {
        job *j = w->order[i];
        dl_cuda_compile(w->nvrtc, j->object->source, w->arch, &j->cubin, &j->log, &j->err);
    }
    return NULL;
}

/* Longest source first, so that no thread ends with a long one while the others wait. */
static int by_length(const void *a, const void *b) {
    const job *p = *(job *const *)a, *q = *(job *const *)b;
    return p->length != q->length ? (p->length < q->length) - (p->length > q->length)
                                  : (p > q) - (p < q);
}

/* The calling thread works, too; threads that cannot be started are not needed. */
static void run_all(dl_arena *arena, const dl_nvrtc *nvrtc, const char *arch, int n, job *jobs) {
    job **order = DL_NEWS(arena, job *, n);
    for (int i = 0; i < n; i++)
        order[i] = &jobs[i], jobs[i].length = strlen(jobs[i].object->source);
    qsort(order, (size_t)n, sizeof *order, by_length);
    work w = {.nvrtc = nvrtc, .arch = arch, .order = order, .n = n};
    int cpus = dl_cpus_allowed(), started = 0, most = (cpus < n ? cpus : n) - 1;
    pthread_t *threads = DL_NEWS(arena, pthread_t, most + 1);
    while (started < most && dl_start_compiler(&threads[started], run_jobs, &w)) started++;
    run_jobs(&w);
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
}

static bool is_cubin(const dl_plan_object *o, dl_error *why) {
    dl_arena *scratch = dl_arena_new(NULL);
    dl_cubin ignored;
    bool ok = dl_cubin_read(scratch, o->image, o->bytes, &ignored, why);
    dl_arena_free(scratch);
    return ok;
}

/* Moves a job's result to its object and the cache. */
static bool finish(dl_arena *arena, const char *dir, const dl_nvrtc *nvrtc, job *j, dl_error *err) {
    dl_error why = {0};
    if (j->err.code) return dl_fail(err, j->err.code, "%s", j->err.message);
    unsigned char *image = dl_alloc(arena, j->cubin.n + 1);
    if (j->cubin.n) memcpy(image, j->cubin.at, j->cubin.n);
    j->object->image = image;
    j->object->bytes = j->cubin.n;
    if (!is_cubin(j->object, &why))
        return dl_fail(
            err, DL_RESOURCE,
            "%s reported success but made no cubin of a kernel (%s); set DLC_NVRTC to another "
            "libnvrtc.so",
            nvrtc->path, why.message);
    return dl_cache_put(dir, j->object->key, image, j->object->bytes, err);
}

static bool compile_missing(dl_arena *arena, const char *dir, const dl_nvrtc *nvrtc,
                            const char *arch, int n, job *jobs, dl_error *err) {
    if (!dl_nvrtc_knows(nvrtc, arch, err)) return false;
    run_all(arena, nvrtc, arch, n, jobs);
    bool ok = true;
    for (int i = 0; i < n; i++) {
        ok = ok && finish(arena, dir, nvrtc, &jobs[i], err);
        dl_buf_free(&jobs[i].cubin);
        dl_buf_free(&jobs[i].log);
    }
    return ok;
}

/* Sets keys, takes images from the cache, and makes a job of each distinct source that it lacks;
 * returns the number of jobs. */
static int find_missing(dl_arena *arena, const char *dir, uint64_t key, int n,
                        dl_plan_object *objects, job *jobs, const dl_console *out) {
    int missing = 0;
    for (int i = 0; i < n; i++) {
        dl_plan_object *o = &objects[i];
        dl_error why = {0};
        bool waits = false;
        o->key = dl_hash_str(o->source, key);
        o->image = NULL;
        for (int k = 0; k < missing && !waits; k++) waits = jobs[k].object->key == o->key;
        if (waits ||
            ((o->image = dl_cache_get(arena, dir, o->key, &o->bytes)) && is_cubin(o, &why)))
            continue;
        if (o->image && out)
            dl_console_warning(
                out, dl_format(arena, "kernels in the cache are damaged and compiled anew: %s",
                               why.message));
        o->image = NULL;
        jobs[missing++] = (job){.object = o};
    }
    return missing;
}

uint64_t dl_cuda_options_key(uint64_t key) { return dl_hash_str(DL_CUDA_LIMITS, key); }

bool dl_cuda_build(dl_arena *arena, int n, dl_plan_object *objects, const char *arch,
                   const dl_console *out, int *compiled, dl_error *err) {
    dl_nvrtc nvrtc;
    const char *dir = dl_cache_dir(arena, err);
    *compiled = 0;
    if (!dir || !dl_nvrtc_find(arena, &nvrtc, err)) return false;
    job *jobs = DL_NEWS(arena, job, n + 1);
    for (uint64_t key = 0;
         key != nvrtc.key;) { /* again if another library than the one found is loaded */
        key = nvrtc.key;
        uint64_t h = dl_hash_str(DL_VERSION, dl_hash_str(arch, dl_cuda_options_key(key)));
        *compiled = find_missing(arena, dir, h, n, objects, jobs, out);
        if (*compiled && !dl_nvrtc_load(&nvrtc, err)) return false;
    }
    if (*compiled && !compile_missing(arena, dir, &nvrtc, arch, *compiled, jobs, err)) return false;
    for (int i = 0; i < n; i++) /* equal sources */
        for (int k = 0; k < *compiled && !objects[i].image; k++)
            if (jobs[k].object->key == objects[i].key)
                objects[i].image = jobs[k].object->image, objects[i].bytes = jobs[k].object->bytes;
    return true;
}
