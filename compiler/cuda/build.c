#include "compiler/cuda/build.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "compiler/cuda/limits.h"
#include "compiler/cuda/nvrtc.h"
#include "compiler/jit/cache_fill.h"
#include "compiler/jit/cache_prune.h"
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
    const dl_target *target;
    job *const *order;
    int n;
    atomic_int next;
} work;

static void *run_jobs(void *context) {
    work *w = context;
    for (int i; (i = atomic_fetch_add(&w->next, 1)) < w->n;) {
        job *j = w->order[i];
        dl_cuda_compile(w->nvrtc, j->object->source, w->target, &j->cubin, &j->log, &j->err);
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
static void run_all(dl_arena *arena, const dl_nvrtc *nvrtc, const dl_target *t, int n, job *jobs) {
    job **order = DL_NEWS(arena, job *, n);
    for (int i = 0; i < n; i++)
        order[i] = &jobs[i], jobs[i].length = strlen(jobs[i].object->source);
    qsort(order, (size_t)n, sizeof *order, by_length);
    work w = {.nvrtc = nvrtc, .target = t, .order = order, .n = n};
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

/* All that a call builds: the objects of distinct sources. */
typedef struct {
    dl_arena *arena;
    const dl_cache *cache;
    dl_nvrtc nvrtc;
    const dl_target *target;
    const dl_console *out;
    dl_plan_object **objects;
    int n;
    uint64_t *keys;
    bool told; /* of what is damaged */
} build;

/* Moves a job's result to its object and the cache. */
static bool finish(const build *b, job *j, dl_error *err) {
    dl_error why = {0};
    if (j->err.code) return dl_fail(err, j->err.code, "%s", j->err.message);
    unsigned char *image = dl_alloc(b->arena, j->cubin.n + 1);
    if (j->cubin.n) memcpy(image, j->cubin.at, j->cubin.n);
    j->object->image = image;
    j->object->bytes = j->cubin.n;
    if (!is_cubin(j->object, &why))
        return dl_fail(
            err, DL_RESOURCE,
            "%s reported success but made no cubin of a kernel (%s); set DLC_NVRTC to another "
            "libnvrtc.so",
            b->nvrtc.path, why.message);
    return dl_cache_keep(b->cache, j->object->key, image, j->object->bytes, b->out, err);
}

static bool compile_missing(void *of, int n, const int *which, dl_error *err) {
    const build *b = of;
    if (!dl_nvrtc_knows(&b->nvrtc, b->target->arch, err)) return false;
    job *jobs = DL_NEWS(b->arena, job, n);
    for (int i = 0; i < n; i++) jobs[i].object = b->objects[which[i]];
    run_all(b->arena, &b->nvrtc, b->target, n, jobs);
    bool ok = true;
    for (int i = 0; i < n; i++) {
        ok = ok && finish(b, &jobs[i], err);
        dl_buf_free(&jobs[i].cubin);
        dl_buf_free(&jobs[i].log);
    }
    return ok;
}

static bool take(void *of, int i, bool first) {
    const build *b = of;
    dl_plan_object *o = b->objects[i];
    dl_error why = {0};
    o->image = dl_cache_find(b->arena, b->cache, o->key, &o->bytes);
    if (o->image && is_cubin(o, &why)) return true;
    if (o->image && first && !b->told && b->out)
        dl_console_warning(
            b->out, dl_format(b->arena, "kernels in the cache are damaged and compiled anew: %s",
                              why.message));
    o->image = NULL;
    return false;
}

/* Sets keys, and collects the objects of distinct sources. */
static void find_distinct(build *b, uint64_t key, int n, dl_plan_object *objects) {
    b->n = 0;
    for (int i = 0; i < n; i++) {
        bool known = false;
        objects[i].key = dl_hash_str(objects[i].source, key);
        objects[i].image = NULL;
        for (int k = 0; k < b->n && !known; k++) known = b->keys[k] == objects[i].key;
        if (!known) b->keys[b->n] = objects[i].key, b->objects[b->n++] = &objects[i];
    }
}

static bool is_all_there(build *b) {
    bool all = true;
    for (int i = 0; i < b->n; i++) all &= take(b, i, true);
    return all;
}

uint64_t dl_cuda_options_key(uint64_t key) { return dl_hash_str(DL_CUDA_LIMITS, key); }

bool dl_cuda_build(dl_arena *arena, int n, dl_plan_object *objects, const dl_target *t,
                   const dl_console *out, int *compiled, dl_error *err) {
    build b = {.arena = arena, .target = t, .out = out};
    b.cache = dl_cache_open(arena, out, err);
    *compiled = 0;
    if (!b.cache || !dl_nvrtc_find(arena, &b.nvrtc, err)) return false;
    b.objects = DL_NEWS(arena, dl_plan_object *, n + 1), b.keys = DL_NEWS(arena, uint64_t, n + 1);
    for (uint64_t key = 0;
         key != b.nvrtc.key;) { /* again if another library than the one found is loaded */
        key = b.nvrtc.key;
        find_distinct(&b, dl_hash_str(DL_VERSION, dl_hash_str(t->arch, dl_cuda_options_key(key))),
                      n, objects);
        if (!is_all_there(&b) && !dl_nvrtc_load(&b.nvrtc, err)) return false;
    }
    b.told = true;
    const dl_cache_wants wants = {
        .of = &b, .n = b.n, .keys = b.keys, .take = take, .make = compile_missing};
    if (!dl_cache_fill(arena, b.cache, &wants, out, compiled, err)) return false;
    if (*compiled) dl_cache_prune_to_bound(b.cache, out);
    for (int i = 0; i < n; i++) /* equal sources */
        for (int k = 0; k < b.n && !objects[i].image; k++)
            if (b.keys[k] == objects[i].key)
                objects[i].image = b.objects[k]->image, objects[i].bytes = b.objects[k]->bytes;
    return true;
}
