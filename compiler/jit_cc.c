#include "compiler/jit_cc.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/cache.h"
#include "ir/base/hash.h"
#include "ir/base/input.h"
#include "ir/base/output.h"

extern char **environ;

/* -ffp-contract=fast: a * b + c is one rounding wherever the target has FMA, which the tile is built on. */
static const char *const common_flags[] = {"-std=gnu17",
                                           "-O1",
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

/* Everything that the object depends on beside its source. */
static uint64_t environment_key(const char *cc, const dl_target *t) {
    struct stat st = {0};
    stat(cc, &st);
    uint64_t h = dl_hash_str(cc, 0);
    h = dl_hash(&st.st_size, sizeof st.st_size, h);
    h = dl_hash(&st.st_mtim, sizeof st.st_mtim, h);
    for (int i = 0; i < NCOMMON; i++) h = dl_hash_str(common_flags[i], h);
    for (int i = 0; t->flags[i]; i++) h = dl_hash_str(t->flags[i], h);
    return dl_hash_str(DL_VERSION, dl_hash_str(t->name, h));
}

static bool spawn_compiler(const char *cc, const char *base, const dl_target *t, dl_arena *arena, pid_t *pid,
                           dl_error *err) {
    char *argv[32];
    int n = 0;
    argv[n++] = (char *)cc;
    for (int i = 0; i < NCOMMON; i++) argv[n++] = (char *)common_flags[i];
    for (int i = 0; t->flags[i]; i++) argv[n++] = (char *)t->flags[i];
    argv[n++] = "-o", argv[n++] = dl_format(arena, "%s.so", base), argv[n++] = dl_format(arena, "%s.c", base);
    argv[n++] = "-lm", argv[n] = NULL;
    posix_spawn_file_actions_t io;
    posix_spawn_file_actions_init(&io);
    posix_spawn_file_actions_addopen(&io, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&io, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&io, 2, dl_format(arena, "%s.log", base), O_WRONLY | O_CREAT | O_TRUNC,
                                     0600);
    int rc = posix_spawn(pid, cc, &io, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&io);
    return rc == 0 || dl_fail(err, DL_RESOURCE, "cannot run %s: %s", cc, strerror(rc));
}

static bool collect(const char *cc, const char *base, pid_t pid, dl_plan_object *o, dl_arena *arena,
                    dl_error *err) {
    int status;
    while (waitpid(pid, &status, 0) < 0) {
    }
    dl_error ignored = {0};
    if (!WIFEXITED(status) || WEXITSTATUS(status)) {
        char *log = dl_read_file(arena, dl_format(arena, "%s.log", base), 1 << 20, NULL, &ignored);
        return dl_fail(err, DL_RESOURCE, "%s failed on a kernel: %.600s", cc, log ? log : "(no message)");
    }
    o->image =
        (unsigned char *)dl_read_file(arena, dl_format(arena, "%s.so", base), 64 << 20, &o->bytes, err);
    return o->image != NULL;
}

bool dl_jit_compile(dl_arena *arena, int n, dl_plan_object *sources, const dl_target *t, int *compiled,
                    dl_error *err) {
    const char *dir = dl_cache_dir(arena, err), *cc = dir ? find_compiler(arena, err) : NULL;
    if (!cc) return false;
    uint64_t environment = environment_key(cc, t);
    char *work = NULL;
    pid_t *pid = DL_NEWS(arena, pid_t, n + 1);
    bool ok = true;
    *compiled = 0;
    for (int i = 0; i < n; i++) {
        dl_plan_object *o = &sources[i];
        o->key = dl_hash_str(o->source, environment);
        if ((o->image = dl_cache_get(arena, dir, o->key, &o->bytes))) continue;
        if (!work) {
            work = dl_format(arena, "%s/work-XXXXXX", dir);
            if (!mkdtemp(work)) return dl_fail_errno(err, DL_IO, "cannot write in cache directory %s", dir);
        }
        const char *base = dl_format(arena, "%s/%d", work, i);
        ok = ok && dl_write_file(dl_format(arena, "%s.c", base), o->source, strlen(o->source), err) &&
             spawn_compiler(cc, base, t, arena, &pid[i], err);
    }
    for (int i = 0; i < n; i++) {
        if (!pid[i]) continue;
        const char *base = dl_format(arena, "%s/%d", work, i);
        bool got = collect(cc, base, pid[i], &sources[i], arena, err);
        ok = ok && got && dl_cache_put(dir, sources[i].key, sources[i].image, sources[i].bytes, err);
        *compiled += got;
    }
    for (int i = 0; work && i < n; i++)
        for (int k = 0; k < 3; k++)
            unlink(dl_format(arena, "%s/%d.%s", work, i, k == 0 ? "c" : k == 1 ? "so" : "log"));
    if (work) rmdir(work);
    return ok;
}
