#include "compiler/jit_cc.h"

#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/cache.h"
#include "compiler/process.h"
#include "ir/base/hash.h"
#include "ir/base/input.h"
#include "ir/base/object.h"
#include "ir/base/output.h"
#include "ir/base/str.h"

enum { PATIENCE = 60 }; /* seconds before the user is told what takes so long */

/* -ffp-contract=fast: a * b + c is one rounding wherever the target has FMA, which the tile is built on. */
static const char *const common_flags[] = {"-std=gnu17",
                                           "-Og",
                                           "-fPIC",
                                           "-shared",
                                           "-fno-math-errno",
                                           "-fno-trapping-math",
                                           "-ffp-contract=fast",
                                           "-fno-semantic-interposition",
                                           "-w"};
enum { NCOMMON = sizeof common_flags / sizeof *common_flags };

/* The compiler's path: $CC or the first of the usual names on PATH. */
static const char *find_compiler(dl_arena *arena, dl_error *err) {
    const char *own = getenv("CC"),
               *names[] = {own && *own && !strchr(own, ' ') ? own : "cc", "gcc", "clang"};
    const char *path = getenv("PATH");
    for (int i = 0; i < 3; i++) {
        if (strchr(names[i], '/') && access(names[i], X_OK) == 0) return names[i];
        for (const char *p = path ? path : "/usr/bin:/bin"; *p;) {
            size_t n = strcspn(p, ":");
            const char *file = dl_format(arena, "%.*s/%s", (int)n, p, names[i]);
            struct stat st;
            if (n && stat(file, &st) == 0 && S_ISREG(st.st_mode) && access(file, X_OK) == 0) return file;
            p += n + (p[n] == ':');
        }
    }
    dl_fail(err, DL_RESOURCE,
            "no C compiler found (tried $CC, cc, gcc and clang on PATH); install gcc, or run a plan that was "
            "compiled elsewhere with `dlc compile -o`");
    return NULL;
}

/* What compilers, and those who stand in for them, read beside their arguments. */
static const char *const read_by_compilers[] = {
    "CPATH",           "C_INCLUDE_PATH",       "LIBRARY_PATH",    "COMPILER_PATH", "GCC_EXEC_PREFIX",
    "LD_LIBRARY_PATH", "CCC_OVERRIDE_OPTIONS", "CCACHE_COMPILER", "CCACHE_PREFIX", "SOURCE_DATE_EPOCH"};

static uint64_t hash_file(const char *path, uint64_t h) {
    struct stat st = {0};
    if (stat(path, &st) != 0) return dl_hash_str("missing", h);
    h = dl_hash(&st.st_size, sizeof st.st_size, dl_hash_str(path, h));
    return dl_hash(&st.st_mtim, sizeof st.st_mtim, h);
}

bool dl_jit_find(dl_arena *arena, const dl_target *t, dl_jit_cc *cc, dl_error *err) {
    char real[PATH_MAX];
    cc->path = find_compiler(arena, err);
    if (!cc->path) return false;
    uint64_t h = dl_hash_str(cc->path, 0);
    h = hash_file(realpath(cc->path, real) ? real : cc->path, h);
    for (int i = 0; i < NCOMMON; i++) h = dl_hash_str(common_flags[i], h);
    for (int i = 0; t->flags[i]; i++) h = dl_hash_str(t->flags[i], h);
    for (size_t i = 0; i < sizeof read_by_compilers / sizeof *read_by_compilers; i++) {
        const char *value = getenv(read_by_compilers[i]);
        h = value ? dl_hash_str(value, dl_hash_str(read_by_compilers[i], h)) : h;
    }
    cc->key = dl_hash_str(DL_VERSION, dl_hash_str(t->name, h));
    return true;
}

/* One source on its way through the compiler. */
typedef struct {
    dl_plan_object *object;
    const char *base; /* BASE.c, BASE.so and BASE.log in the work folder */
} job;

static char *const *command_line(dl_arena *arena, const char *cc, const char *base, const dl_target *t) {
    char **argv = DL_NEWS(arena, char *, 32);
    int n = 0;
    argv[n++] = (char *)(uintptr_t)cc;
    for (int i = 0; i < NCOMMON; i++) argv[n++] = (char *)(uintptr_t)common_flags[i];
    for (int i = 0; t->flags[i]; i++) argv[n++] = (char *)(uintptr_t)t->flags[i];
    argv[n++] = "-o", argv[n++] = dl_format(arena, "%s.so", base), argv[n++] = dl_format(arena, "%s.c", base);
    argv[n++] = "-lm";
    return argv;
}

/* What the compiler printed, its lines in one. */
static const char *printed(dl_arena *arena, const char *base) {
    dl_error ignored = {0};
    char *log = dl_read_file(arena, dl_format(arena, "%s.log", base), 1 << 20, NULL, &ignored);
    size_t n = log ? strlen(log) : 0;
    while (n && (log[n - 1] == '\n' || log[n - 1] == ' ')) log[--n] = 0;
    if (!n) return "and printed nothing";
    dl_buf b = {0};
    for (const char *p = log; *p && b.n < 600; p++) dl_putn(&b, *p == '\n' ? " | " : p, *p == '\n' ? 3 : 1);
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

/* The object that a compiler left, if it did what it says. */
static bool take_object(dl_arena *arena, const char *cc, const job *j, int status, dl_error *err) {
    const char *file = dl_format(arena, "%s.so", j->base);
    dl_error why = {0};
    struct stat st;
    if (status != -1 && WIFSIGNALED(status))
        return dl_fail(err, DL_RESOURCE, "%s was killed on a kernel (%s) %s", cc, strsignal(WTERMSIG(status)),
                       printed(arena, j->base));
    if (status != -1 && WEXITSTATUS(status))
        return dl_fail(err, DL_RESOURCE, "%s failed on a kernel (exit status %d) %s", cc, WEXITSTATUS(status),
                       printed(arena, j->base));
    if (lstat(file, &st) != 0 || !S_ISREG(st.st_mode))
        return dl_fail(err, DL_RESOURCE,
                       "%s reported success but made no object of a kernel, %s; set CC to a C compiler", cc,
                       printed(arena, j->base));
    j->object->image = (unsigned char *)dl_read_file(arena, file, 64 << 20, &j->object->bytes, err);
    if (!j->object->image) return false;
    return loads(j->object, &why) ||
           dl_fail(
               err, DL_RESOURCE,
               "%s reported success but made an object that does not load, %s; set CC to a C compiler (%s)",
               cc, printed(arena, j->base), why.message);
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at) {
    (void)st, (void)kind, (void)at;
    return remove(path) != 0 && 0; /* what cannot be removed stays, the rest goes */
}

/* Runs the compiler over all jobs; *stopped is the signal that ended that. */
static bool run_jobs(dl_arena *arena, const dl_jit_cc *cc, int n, job *jobs, const dl_target *t,
                     const char *work, void (*warn)(const char *text), int *stopped, dl_error *err) {
    dl_command *commands = DL_NEWS(arena, dl_command, n);
    for (int i = 0; i < n; i++) {
        const char *source = jobs[i].object->source;
        if (!dl_write_file(dl_format(arena, "%s.c", jobs[i].base), source, strlen(source), err)) return false;
        commands[i] = (dl_command){.argv = command_line(arena, cc->path, jobs[i].base, t),
                                   .log = dl_format(arena, "%s.log", jobs[i].base)};
    }
    int ended = dl_run_all(n, commands, work, PATIENCE, warn, err);
    if (ended > 0) *stopped = ended;
    bool ok = ended == 0;
    for (int i = 0; i < n && ok; i++) ok = take_object(arena, cc->path, &jobs[i], commands[i].status, err);
    return ok;
}

static bool compile_missing(dl_arena *arena, const char *dir, const dl_jit_cc *cc, int n, job *jobs,
                            const dl_target *t, void (*warn)(const char *text), dl_error *err) {
    char *work = dl_format(arena, "%s/work-XXXXXX", dir);
    if (!mkdtemp(work)) return dl_fail_errno(err, DL_IO, "cannot write in cache directory %s", dir);
    for (int i = 0; i < n; i++) jobs[i].base = dl_format(arena, "%s/%d", work, i);
    int stopped = 0;
    bool ok = run_jobs(arena, cc, n, jobs, t, work, warn, &stopped, err);
    nftw(work, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    if (stopped) {
        raise(stopped); /* ends us as the sender expects, unless somebody handles it */
        return dl_fail(err, DL_REQUEUE,
                       "stopped by a signal (%s) while kernels were compiled: nothing was trained",
                       strsignal(stopped));
    }
    for (int i = 0; i < n && ok; i++)
        ok = dl_cache_put(dir, jobs[i].object->key, jobs[i].object->image, jobs[i].object->bytes, err);
    return ok;
}

bool dl_jit_compile(dl_arena *arena, int n, dl_plan_object *sources, const dl_target *t,
                    void (*warn)(const char *text), int *compiled, dl_error *err) {
    dl_jit_cc cc;
    const char *dir = dl_cache_dir(arena, err);
    if (!dir || !dl_jit_find(arena, t, &cc, err)) return false;
    job *jobs = DL_NEWS(arena, job, n + 1);
    *compiled = 0;
    for (int i = 0; i < n; i++) {
        dl_plan_object *o = &sources[i];
        dl_error why = {0};
        o->key = dl_hash_str(o->source, cc.key);
        if ((o->image = dl_cache_get(arena, dir, o->key, &o->bytes)) && loads(o, &why)) continue;
        if (o->image && warn)
            warn(dl_format(arena, "a kernel in the cache does not load and is compiled anew: %s",
                           why.message));
        jobs[(*compiled)++].object = o;
    }
    return *compiled == 0 || compile_missing(arena, dir, &cc, *compiled, jobs, t, warn, err);
}
