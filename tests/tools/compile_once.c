/* compile_once COMPILER ARGS... -o OBJECT: runs the compiler, unless it has made that object of the
 * same inputs before (DLC_TEST_CACHE): then that object is written. As CC="compile_once gcc" it is
 * for tests that begin with an empty cache of kernels, and in which the compiler's own work is not
 * what is looked at. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/jit/cache.h"
#include "ir/base/hash.h"
#include "ir/base/input.h"

enum { LARGEST = 1 << 28, CANNOT_RUN = 127 };

/* The compiler itself, by its file. */
static uint64_t hash_compiler(const char *name) {
    char path[4096];
    struct stat st = {0};
    if (strchr(name, '/'))
        snprintf(path, sizeof path, "%s", name);
    else
        for (const char *p = getenv("PATH"); p && *p; p += strcspn(p, ":"), p += *p == ':') {
            snprintf(path, sizeof path, "%.*s/%s", (int)strcspn(p, ":"), p, name);
            if (access(path, X_OK) == 0) break;
        }
    if (stat(path, &st) != 0) return 0; /* which is not kept, as no compiler runs */
    const uint64_t h = dl_hash(&st.st_mtim, sizeof st.st_mtim, dl_hash_str(name, 0));
    return dl_hash(&st.st_size, sizeof st.st_size, h);
}

/* The contents of files, the text of other arguments; not where the object is written. */
static uint64_t hash_inputs(dl_arena *arena, char **argv, const char **object) {
    uint64_t h = hash_compiler(argv[1]);
    for (int i = 2; argv[i]; i++) {
        struct stat st;
        dl_error ignored = {0};
        size_t n;
        if (strcmp(argv[i], "-o") == 0 && argv[i + 1])
            *object = argv[++i];
        else if (*argv[i] == '-' || stat(argv[i], &st) != 0)
            h = dl_hash_str(argv[i], h);
        else {
            const char *text = dl_read_file(arena, argv[i], LARGEST, &n, &ignored);
            h = text ? dl_hash(text, n, dl_hash_str(strrchr(argv[i], '.'), h)) : h;
        }
    }
    return h;
}

static bool write_object(const char *path, const unsigned char *bytes, size_t n) {
    FILE *f = fopen(path, "wb");
    const bool ok = f && fwrite(bytes, 1, n, f) == n;
    return f && fclose(f) == 0 && ok;
}

/* The compiler's status, as a shell gives it. */
static int run(char *const *argv) {
    int status;
    const pid_t pid = fork();
    if (pid == 0) {
        execvp(argv[0], argv);
        perror(argv[0]);
        _exit(CANNOT_RUN);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid) return CANNOT_RUN;
    if (WIFSIGNALED(status)) raise(WTERMSIG(status));
    return WEXITSTATUS(status);
}

int main(int argc, char **argv) {
    const char *dir = getenv("DLC_TEST_CACHE"), *object = NULL;
    if (argc < 2) return fprintf(stderr, "usage: compile_once COMPILER ARGS...\n"), 2;
    dl_arena *arena = dl_arena_new(NULL);
    const uint64_t key = dl_hash_str("compile_once", hash_inputs(arena, argv, &object));
    if (!dir || !*dir || !object) return execvp(argv[1], argv + 1), CANNOT_RUN;
    size_t n;
    dl_error err = {0};
    const unsigned char *bytes = dl_cache_get(arena, dir, key, &n);
    if (bytes) {
        const bool written = write_object(object, bytes, n);
        dl_arena_free(arena);
        return written ? 0 : CANNOT_RUN;
    }
    const int status = run(argv + 1);
    bytes = status ? NULL : (unsigned char *)dl_read_file(arena, object, LARGEST, &n, &err);
    if (bytes && !dl_cache_put(dir, key, bytes, n, &err))
        fprintf(stderr, "compile_once: %s\n", err.message); /* the object is there all the same */
    dl_arena_free(arena);
    return status;
}
