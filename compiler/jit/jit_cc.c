#include "compiler/jit/jit_cc.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/jit/cache_fill.h"
#include "compiler/jit/process.h"
#include "ir/base/cpus.h"
#include "ir/base/dirs.h"
#include "ir/base/hash.h"
#include "ir/base/input.h"
#include "ir/base/object.h"
#include "ir/base/output.h"
#include "ir/base/str.h"
#include "ir/base/temporary.h"

enum { PATIENCE = 60 }; /* seconds before the user is told which command takes so long */

static const char *const c_flags[] = {"-std=gnu17",
                                      "-Og",
                                      "-fPIC",
                                      "-shared",
                                      "-fno-math-errno",
                                      "-fno-trapping-math",
                                      "-fno-semantic-interposition",
                                      "-w",
                                      NULL};
const dl_jit_language dl_jit_c = {.name = "C",
                                  .variable = "CC",
                                  .names = {"cc", "gcc", "clang"},
                                  .package = "gcc",
                                  .suffix = "c",
                                  .include_path = "C_INCLUDE_PATH",
                                  .flags = c_flags};

/* The options for compiling sources, the same for all sources of a call. */
typedef struct {
    const dl_jit_language *in;
    const dl_target *target;
    dl_jit_cc cc;
} way;

/* One source while it is being compiled. */
typedef struct {
    dl_plan_object *object;
    const char *base, *file; /* BASE.so and BASE.log in the work folder; the source file */
} job;

typedef DL_ARRAY(const char *) words;

static char *const *command_line(dl_arena *arena, const way *w, const job *j) {
    const char *const *const parts[] = {(const char *const *)w->cc.first, w->in->flags,
                                        w->target->flags, (const char *const *)w->cc.last};
    const char *const ends[] = {"-o", dl_format(arena, "%s.so", j->base), j->file, "-lm", NULL};
    words argv = {0};
    dl_push(arena, &argv, w->cc.path);
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        for (int i = 0; parts[k][i]; i++) dl_push(arena, &argv, parts[k][i]);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) dl_push(arena, &argv, ends[i]);
    return (char *const *)(uintptr_t)argv.at;
}

/* The compiler's output, joined into one line. */
static const char *printed(dl_arena *arena, const char *base) {
    dl_error ignored = {0};
    char *log = dl_read_file(arena, dl_format(arena, "%s.log", base), 1 << 20, NULL, &ignored);
    size_t n = log ? strlen(log) : 0;
    while (n && (log[n - 1] == '\n' || log[n - 1] == ' ')) log[--n] = 0;
    if (!n) return "and printed nothing";
    dl_buf b = {0};
    for (const char *p = log; *p && b.n < 600; p++)
        dl_putn(&b, *p == '\n' ? " | " : p, *p == '\n' ? 3 : 1);
    const char *text = dl_format(arena, "and printed: %s", b.at);
    dl_buf_free(&b);
    return text;
}

static bool loads(const dl_plan_object *o, dl_error *why) {
    dl_object object;
    if (!dl_object_load(&object, o->image, o->bytes, why)) return false;
    dl_object_unload(&object);
    return true;
}

/* Takes the object that a compiler wrote, if it succeeded. */
static bool take_object(dl_arena *arena, const way *w, const job *j, int status, dl_error *err) {
    const char *cc = w->cc.path, *file = dl_format(arena, "%s.so", j->base);
    dl_error why = {0};
    struct stat st;
    if (status != -1 && WIFSIGNALED(status))
        return dl_fail(err, DL_RESOURCE, "%s was killed on a kernel (%s) %s", cc,
                       strsignal(WTERMSIG(status)), printed(arena, j->base));
    if (status != -1 && WEXITSTATUS(status))
        return dl_fail(err, DL_RESOURCE, "%s failed on a kernel (exit status %d) %s", cc,
                       WEXITSTATUS(status), printed(arena, j->base));
    if (lstat(file, &st) != 0 || !S_ISREG(st.st_mode))
        return dl_fail(
            err, DL_RESOURCE,
            "%s reported success but made no object of a kernel, %s; set %s to a %s compiler", cc,
            printed(arena, j->base), w->in->variable, w->in->name);
    j->object->image = (unsigned char *)dl_read_file(arena, file, 64 << 20, &j->object->bytes, err);
    if (!j->object->image) return false;
    return loads(j->object, &why) ||
           dl_fail(err, DL_RESOURCE,
                   "%s reported success but made an object that does not load, %s; set %s to a %s "
                   "compiler (%s)",
                   cc, printed(arena, j->base), w->in->variable, w->in->name, why.message);
}

static bool write_source(const dl_jit_language *in, const job *j, dl_error *err) {
    dl_buf text = {0};
    dl_puts(&text, j->object->source);
    if (in->end) in->end(&text);
    bool ok = dl_write_file(j->file, text.at, text.n, err);
    dl_buf_free(&text);
    return ok;
}

/* Runs the compiler for all jobs; *stopped is the signal that interrupted them. */
static bool run_jobs(dl_arena *arena, const way *w, int n, job *jobs, const char *work,
                     const dl_console *out, int *stopped, dl_error *err) {
    dl_command *commands = DL_NEWS(arena, dl_command, n);
    for (int i = 0; i < n; i++) {
        if (!write_source(w->in, &jobs[i], err)) return false;
        commands[i] = (dl_command){.argv = command_line(arena, w, &jobs[i]),
                                   .log = dl_format(arena, "%s.log", jobs[i].base)};
    }
    /* as many at a time as there are CPUs, but two even on one: a plan for CPUs has two sources */
    int cpus = dl_cpus_allowed() > 1 ? dl_cpus_allowed() : 2, ended = 0;
    for (int i = 0; i < n && !ended; i += cpus)
        ended = dl_run_all(n - i < cpus ? n - i : cpus, commands + i, work, PATIENCE, out, err);
    if (ended > 0) *stopped = ended;
    bool ok = ended == 0;
    for (int i = 0; i < n && ok; i++) ok = take_object(arena, w, &jobs[i], commands[i].status, err);
    return ok;
}

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

/* All that a call compiles. */
typedef struct {
    dl_arena *arena;
    const dl_cache *cache;
    const way *way;
    dl_plan_object *sources;
    const dl_console *out;
} build;

static bool compile_missing(void *of, int n, const int *which, dl_error *err) {
    const build *b = of;
    dl_arena *arena = b->arena;
    char *work;
    const int lock = open_work(arena, b->cache, b->out, &work, err);
    if (lock < 0) return false;
    job *jobs = DL_NEWS(arena, job, n);
    for (int i = 0; i < n; i++) {
        jobs[i].object = &b->sources[which[i]];
        jobs[i].base = dl_format(arena, "%s/%d", work, i);
        jobs[i].file = dl_format(arena, "%s.%s", jobs[i].base, b->way->in->suffix);
    }
    int stopped = 0;
    dl_console_stoppable(b->out, DL_STOP_CLEANLY);
    bool ok = run_jobs(arena, b->way, n, jobs, work, b->out, &stopped, err);
    dl_error ignored = {0}; /* what cannot be removed stays until the next process looks */
    dl_remove_tree(work, &ignored);
    close(lock), free(work);
    /* the program ends here, unless it goes on */
    dl_console_stoppable(b->out, DL_STOP_AT_ONCE);
    if (stopped)
        return dl_fail(err, DL_REQUEUE,
                       "stopped by a signal (%s) while kernels were compiled: nothing was trained",
                       strsignal(stopped));
    for (int i = 0; i < n && ok; i++) {
        const dl_plan_object *o = jobs[i].object;
        ok = dl_cache_keep(b->cache, o->key, o->image, o->bytes, b->out, err);
    }
    return ok;
}

static bool take(void *of, int i, bool first) {
    const build *b = of;
    dl_plan_object *o = &b->sources[i];
    dl_error why = {0};
    o->image = dl_cache_find(b->arena, b->cache, o->key, &o->bytes);
    if (!o->image || loads(o, &why)) return o->image != NULL;
    if (first && b->out)
        dl_console_warning(b->out,
                           dl_format(b->arena,
                                     "a kernel in the cache does not load and is compiled anew: %s",
                                     why.message));
    return false;
}

bool dl_jit_compile_as(dl_arena *arena, const dl_jit_language *in, int n, dl_plan_object *sources,
                       const dl_target *t, const dl_console *out, int *compiled, dl_error *err) {
    way w = {.in = in, .target = t};
    const dl_cache *cache = dl_cache_open(arena, out, err);
    if (cache && cache->own) dl_temporary_sweep(cache->own);
    if (!cache || !dl_jit_find(arena, in, t, &w.cc, err)) return false;
    uint64_t *keys = DL_NEWS(arena, uint64_t, n + 1);
    for (int i = 0; i < n; i++) keys[i] = sources[i].key = dl_hash_str(sources[i].source, w.cc.key);
    build b = {arena, cache, &w, sources, out};
    const dl_cache_wants wants = {
        .of = &b, .n = n, .keys = keys, .take = take, .make = compile_missing};
    return dl_cache_fill(arena, cache, &wants, out, compiled, err);
}

bool dl_jit_compile(dl_arena *arena, int n, dl_plan_object *sources, const dl_target *t,
                    const dl_console *out, int *compiled, dl_error *err) {
    return dl_jit_compile_as(arena, &dl_jit_c, n, sources, t, out, compiled, err);
}
