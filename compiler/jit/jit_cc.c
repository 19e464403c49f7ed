#include "compiler/jit/jit_cc.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/jit/cache_fill.h"
#include "compiler/jit/cache_prune.h"
#include "compiler/jit/jit_kernels.h"
#include "compiler/jit/jit_run.h"
#include "ir/base/dirs.h"
#include "ir/base/hash.h"
#include "ir/base/output.h"
#include "ir/base/str.h"
#include "ir/base/temporary.h"

static const char *const c_flags[] = {"-std=gnu17",
                                      "-Og",
                                      "-fPIC",
                                      "-fno-math-errno",
                                      "-fno-trapping-math",
                                      "-fno-semantic-interposition",
                                      "-ffunction-sections",
                                      "-fdata-sections",
                                      "-w",
                                      NULL};
const dl_jit_language dl_jit_c = {.name = "C",
                                  .variable = "CC",
                                  .names = {"cc", "gcc", "clang"},
                                  .package = "gcc",
                                  .suffix = "c",
                                  .include_path = "C_INCLUDE_PATH",
                                  .flags = c_flags};

/* Where compilers write: a folder in the cache, or, where that cannot be written, of TMPDIR. Its
 * lock, or -1. */
static int open_work(dl_arena *arena, const dl_cache *cache, const dl_console *out, char **work,
                     dl_error *err) {
    dl_error why = {0};
    int lock = -1;
    if (cache->own) {
        const char *dir = cache->own;
        lock = dl_temporary_open(dl_format(arena, "%s/work", dir), S_IFDIR | 0700,
                                 dl_format(arena, "in cache directory %s", dir), work, &why);
        if (lock >= 0) return lock;
        if (!dl_cache_is_kept(&why, out)) return dl_fail(err, why.code, "%s", why.message), -1;
    }
    const char *tmp = getenv("TMPDIR");
    if (!tmp || !*tmp) tmp = "/tmp";
    return dl_temporary_open(dl_format(arena, "%s/work", tmp), S_IFDIR | 0700,
                             dl_format(arena, "in the folder for temporary files, %s", tmp), work,
                             err);
}

/* A library that sources are linked to. */
typedef struct {
    const char *source;
    uint64_t key;
    bool wanted;                /* by a source that is compiled */
    const char *path;           /* of its object, once it is there to be linked */
    const unsigned char *image; /* the same in memory */
    size_t bytes;
} library;
typedef DL_ARRAY(library) libraries;

/* All that a call compiles. */
typedef struct {
    dl_arena *arena;
    const dl_cache *cache;
    const dl_jit_way *way;
    dl_plan_object *sources;
    const dl_console *out;
    libraries libraries; /* of all sources, each once */
    const char *work;    /* the folder where they are */
    int stopped;         /* the signal that interrupted the compiler, or 0 */
} build;

/* A library by its text, whose key is computed once. */
static library *library_of(build *b, const char *source) {
    for (int i = 0; i < b->libraries.n; i++)
        if (strcmp(b->libraries.at[i].source, source) == 0) return &b->libraries.at[i];
    uint64_t key = dl_hash_str(source, dl_hash_str("library", b->way->cc.key));
    dl_push(b->arena, &b->libraries, (library){.source = source, .key = key});
    return &b->libraries.at[b->libraries.n - 1];
}

static bool keep(const build *b, uint64_t key, const dl_jit_job *j, dl_error *err) {
    return dl_cache_keep(b->cache, key, j->image, j->bytes, b->out, err);
}

static void warn_anew(const build *b, const dl_error *why) {
    if (!b->out) return;
    dl_console_warning(b->out, dl_format(b->arena,
                                         "a kernel in the cache does not load and is compiled "
                                         "anew: %s",
                                         why->message));
}

/* ---- libraries ---- */

static bool make_libraries(void *of, int n, const int *which, dl_error *err) {
    build *b = of;
    dl_jit_job *jobs = DL_NEWS(b->arena, dl_jit_job, n + 1);
    for (int i = 0; i < n; i++)
        jobs[i] = (dl_jit_job){.source = b->libraries.at[which[i]].source, .kind = DL_JIT_LIBRARY};
    bool ok = dl_jit_run(b->arena, b->way, n, jobs, b->work, b->out, &b->stopped, err);
    for (int i = 0; i < n && ok; i++) {
        library *l = &b->libraries.at[which[i]];
        l->path = jobs[i].path, l->image = jobs[i].image, l->bytes = jobs[i].bytes;
        ok = keep(b, l->key, &jobs[i], err);
    }
    return ok;
}

/* Writes a library of the cache to where it can be linked; one that is not wanted is no work. */
static bool take_library(void *of, int i, bool first) {
    const build *b = of;
    library *l = &b->libraries.at[i];
    if (!l->wanted) return true;
    dl_jit_job j = {.kind = DL_JIT_LIBRARY};
    dl_error why = {0};
    j.image = dl_cache_find(b->arena, b->cache, l->key, &j.bytes);
    if (!j.image) return false;
    const char *path = dl_format(b->arena, "%s/c%d.o", b->work, i);
    if (dl_jit_loads(&j, &why) && dl_write_file(path, (const char *)j.image, j.bytes, &why)) {
        l->path = path, l->image = j.image, l->bytes = j.bytes;
        return true;
    }
    if (first) warn_anew(b, &why);
    return false;
}

/* Finds or compiles the libraries of these sources. */
static bool fill_libraries(build *b, int n, const int *which, dl_error *err) {
    for (int i = 0; i < b->libraries.n; i++) b->libraries.at[i].wanted = false;
    for (int i = 0; i < n; i++) {
        const dl_plan_object *o = &b->sources[which[i]];
        for (int k = 0; k < o->nlibraries; k++) library_of(b, o->libraries[k])->wanted = true;
    }
    uint64_t *keys = DL_NEWS(b->arena, uint64_t, b->libraries.n + 1);
    for (int i = 0; i < b->libraries.n; i++) keys[i] = b->libraries.at[i].key;
    const dl_cache_wants wants = {
        .of = b, .n = b->libraries.n, .keys = keys, .take = take_library, .make = make_libraries};
    int made;
    return dl_cache_fill(b->arena, b->cache, &wants, b->out, &made, err);
}

/* ---- sources ---- */

/* A shared object: of kernels, or of a source as a whole. */
static dl_jit_job link_object(build *b, const dl_plan_object *o, const dl_jit_linkage *kernels) {
    const char **linked = DL_NEWS(b->arena, const char *, kernels->nfiles + o->nlibraries + 1);
    int n = 0;
    for (int i = 0; i < kernels->nfiles; i++) linked[n++] = kernels->files[i];
    for (int k = 0; k < o->nlibraries; k++) linked[n++] = library_of(b, o->libraries[k])->path;
    return (dl_jit_job){.kind = DL_JIT_SHARED,
                        .source = o->texts.n ? NULL : o->source,
                        .nlinked = n,
                        .linked = linked,
                        .flags = kernels->flags};
}

typedef bool make_jobs(build *b, int n, const int *which, dl_jit_job *jobs, dl_error *err);

static bool make_objects(build *b, int n, const int *which, dl_jit_job *jobs, dl_error *err) {
    if (!fill_libraries(b, n, which, err)) return false;
    const dl_plan_object **of = DL_NEWS(b->arena, const dl_plan_object *, n + 1);
    dl_jit_linkage *kernels = DL_NEWS(b->arena, dl_jit_linkage, n + 1);
    for (int i = 0; i < n; i++) of[i] = &b->sources[which[i]];
    if (!dl_jit_find_kernels(b->arena, b->way, b->cache, n, of, b->work, b->out, &b->stopped,
                             kernels, err))
        return false;
    for (int i = 0; i < n; i++) jobs[i] = link_object(b, of[i], &kernels[i]);
    return b->stopped || dl_jit_run(b->arena, b->way, n, jobs, b->work, b->out, &b->stopped, err);
}

static bool make_libraries_alone(build *b, int n, const int *which, dl_jit_job *jobs,
                                 dl_error *err) {
    (void)jobs;
    return fill_libraries(b, n, which, err);
}

/* Lets `make` compile for these sources, in a folder of which nothing is left. */
static bool make_in_folder(build *b, make_jobs *make, int n, const int *which, dl_jit_job *jobs,
                           dl_error *err) {
    char *work;
    const int lock = open_work(b->arena, b->cache, b->out, &work, err);
    if (lock < 0) return false;
    b->work = work, b->stopped = 0;
    dl_console_stoppable(b->out, DL_STOP_CLEANLY);
    bool ok = make(b, n, which, jobs, err);
    dl_error ignored = {0}; /* what cannot be removed stays until the next process looks */
    dl_remove_tree(work, &ignored);
    close(lock), free(work);
    /* the program ends here, unless it goes on */
    dl_console_stoppable(b->out, DL_STOP_AT_ONCE);
    if (b->stopped)
        return dl_fail(err, DL_REQUEUE,
                       "stopped by a signal (%s) while kernels were compiled: nothing was trained",
                       strsignal(b->stopped));
    return ok;
}

static bool compile_missing(void *of, int n, const int *which, dl_error *err) {
    build *b = of;
    dl_jit_job *jobs = DL_NEWS(b->arena, dl_jit_job, n + 1);
    bool ok = make_in_folder(b, make_objects, n, which, jobs, err);
    for (int i = 0; i < n && ok; i++) {
        dl_plan_object *o = &b->sources[which[i]];
        o->image = jobs[i].image, o->bytes = jobs[i].bytes;
        ok = keep(b, o->key, &jobs[i], err);
    }
    return ok;
}

static bool take(void *of, int i, bool first) {
    const build *b = of;
    dl_plan_object *o = &b->sources[i];
    dl_jit_job j = {.kind = DL_JIT_SHARED};
    dl_error why = {0};
    j.image = dl_cache_find(b->arena, b->cache, o->key, &j.bytes);
    o->image = j.image, o->bytes = j.bytes;
    if (!o->image || dl_jit_loads(&j, &why)) return o->image != NULL;
    if (first) warn_anew(b, &why);
    return false;
}

/* The hash of all that the object is made of: its source, and the libraries' sources. */
static uint64_t object_key(build *b, const dl_plan_object *o) {
    uint64_t key = dl_hash_str(o->source, b->way->cc.key);
    for (int i = 0; i < o->nlibraries; i++) {
        const uint64_t of = library_of(b, o->libraries[i])->key;
        key = dl_hash(&of, sizeof of, key);
    }
    return key;
}

/* Opens the caches, and finds the compiler of this machine. */
static bool open_build(build *b, dl_jit_way *w, dl_error *err) {
    b->cache = dl_cache_open(b->arena, b->out, err);
    if (b->cache && b->cache->own) dl_temporary_sweep(b->cache->own);
    b->way = w;
    return b->cache && dl_jit_find(b->arena, w->in, w->target, &w->cc, err);
}

bool dl_jit_compile_as(dl_arena *arena, const dl_jit_language *in, int n, dl_plan_object *sources,
                       const dl_target *t, const dl_console *out, int *compiled, dl_error *err) {
    dl_jit_way w = {.in = in, .target = t};
    build b = {.arena = arena, .sources = sources, .out = out};
    if (!open_build(&b, &w, err)) return false;
    uint64_t *keys = DL_NEWS(arena, uint64_t, n + 1);
    for (int i = 0; i < n; i++) keys[i] = sources[i].key = object_key(&b, &sources[i]);
    const dl_cache_wants wants = {
        .of = &b, .n = n, .keys = keys, .take = take, .make = compile_missing};
    if (!dl_cache_fill(arena, b.cache, &wants, out, compiled, err)) return false;
    if (*compiled) dl_cache_prune_to_bound(b.cache, out);
    return true;
}

bool dl_jit_compile(dl_arena *arena, int n, dl_plan_object *sources, const dl_target *t,
                    const dl_console *out, int *compiled, dl_error *err) {
    return dl_jit_compile_as(arena, &dl_jit_c, n, sources, t, out, compiled, err);
}

bool dl_jit_put_libraries(dl_arena *arena, int n, dl_plan_object *sources, const dl_target *t,
                          const char *dir, const dl_console *out, dl_error *err) {
    dl_jit_way w = {.in = &dl_jit_c, .target = t};
    build b = {.arena = arena, .sources = sources, .out = out};
    int *all = DL_NEWS(arena, int, n + 1);
    for (int i = 0; i < n; i++) all[i] = i;
    if (!open_build(&b, &w, err) || !make_in_folder(&b, make_libraries_alone, n, all, NULL, err))
        return false;
    bool ok = true;
    for (int i = 0; i < b.libraries.n && ok; i++) {
        const library *l = &b.libraries.at[i];
        ok = dl_cache_put(dir, l->key, l->image, l->bytes, err);
    }
    return ok;
}
