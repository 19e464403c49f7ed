#include "compiler/cuda/nvrtc.h"

#include <dlfcn.h>
#include <fenv.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "ir/base/hash.h"

#define OVERRIDE "DLC_NVRTC"
#define OWN      "dlc-nvrtc"

/* Major versions that have sm_90a; sm_100 and sm_120 need 12.8, sm_103 needs 12.9. */
static const char *const libraries[] = {"libnvrtc.so.13", "libnvrtc.so.12", NULL};

/* In addition to -arch. Options with default values are explicit, so that results do not depend
 * on a version's defaults. -w: generated text has unused variables. */
static const char *const options[] = {"--std=c++17",       "--device-as-default-execution-space",
                                      "--fmad=true",       "--ftz=false",
                                      "--prec-div=true",   "--prec-sqrt=true",
                                      "--disable-warnings"};
enum { NOPTIONS = sizeof options / sizeof *options, LONGEST_ARCH = 16 };
/* Without CUDA's own headers, which the texts do not need: saves 4 to 8 ms per source. From 12.4
 * on. */
static const char minimal[] = "--minimal";

static const struct {
    const char *name;
    size_t at;
} functions[] = {
    {"nvrtcVersion", offsetof(dl_nvrtc_calls, version)},
    {"nvrtcGetNumSupportedArchs", offsetof(dl_nvrtc_calls, count_archs)},
    {"nvrtcGetSupportedArchs", offsetof(dl_nvrtc_calls, archs)},
    {"nvrtcCreateProgram", offsetof(dl_nvrtc_calls, create)},
    {"nvrtcCompileProgram", offsetof(dl_nvrtc_calls, compile)},
    {"nvrtcGetProgramLogSize", offsetof(dl_nvrtc_calls, log_size)},
    {"nvrtcGetProgramLog", offsetof(dl_nvrtc_calls, log)},
    {"nvrtcGetCUBINSize", offsetof(dl_nvrtc_calls, cubin_size)},
    {"nvrtcGetCUBIN", offsetof(dl_nvrtc_calls, cubin)},
    {"nvrtcDestroyProgram", offsetof(dl_nvrtc_calls, destroy)},
    {"nvrtcGetErrorString", offsetof(dl_nvrtc_calls, error_text)},
};
enum { NFUNCTIONS = sizeof functions / sizeof *functions };

static void reject(dl_nvrtc *n, const char *path, const char *why) {
    n->rejected = dl_format(n->arena, "%s; %s does not load: %s", n->rejected, path, why);
}

static bool none_left(dl_nvrtc *n, dl_error *err) {
    return dl_fail(err, DL_RESOURCE,
                   "no NVRTC (CUDA's compiler, libnvrtc.so.13 or .12) found, looked at: %s%s; run "
                   "scripts/install-nvrtc, or install the CUDA toolkit, or set " OVERRIDE
                   " to the library's path",
                   dl_cuda_places(n->arena, OVERRIDE, OWN), n->rejected);
}

/* Loads foreign code, and preserves the caller's floating-point environment. */
static void *open_library(const char *path) {
    fenv_t before;
    fegetenv(&before);
    void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    fesetenv(&before);
    return handle;
}

static uint64_t key_of(const char *path) {
    struct stat st = {0};
    uint64_t h = dl_hash_str(path, 0);
    if (stat(path, &st) == 0)
        h = dl_hash(&st.st_mtim, sizeof st.st_mtim, dl_hash(&st.st_size, sizeof st.st_size, h));
    for (int i = 0; i < NOPTIONS; i++) h = dl_hash_str(options[i], h);
    return dl_hash_str(minimal, h);
}

/* Takes the candidate, or the first available one after it. Only a bare name must be loaded for
 * that. */
static bool take_candidate(dl_nvrtc *n, int first, dl_error *err) {
    for (n->candidate = first; n->candidate < n->candidates.n; n->candidate++) {
        const char *path = n->candidates.at[n->candidate].path;
        if (!strchr(path, '/')) {
            void *handle = open_library(path);
            path = handle ? dl_cuda_loaded_from(n->arena, handle) : NULL;
        }
        if (!path) continue;
        n->path = path;
        n->key = key_of(path);
        return true;
    }
    return none_left(n, err);
}

bool dl_nvrtc_find(dl_arena *arena, dl_nvrtc *n, dl_error *err) {
    *n = (dl_nvrtc){.arena = arena, .rejected = ""};
    n->candidates = dl_cuda_search(arena, libraries, OVERRIDE, OWN);
    return take_candidate(n, 0, err);
}

static int by_value(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* NULL, or the reason why the library cannot be used. */
static const char *try_load(dl_nvrtc *n) {
    dl_nvrtc_calls calls = {0};
    void *handle = open_library(n->path);
    if (!handle) {
        const char *why = dlerror();
        return why ? why : "for no reason that the loader tells";
    }
    for (int i = 0; i < NFUNCTIONS; i++) {
        void *f = dlsym(handle, functions[i].name);
        if (!f) return dl_format(n->arena, "it has no function %s", functions[i].name);
        memcpy((char *)&calls + functions[i].at, &f, sizeof f);
    }
    int count = 0, *archs = NULL;
    if (calls.version(&n->major, &n->minor) != 0 || calls.count_archs(&count) != 0 || count < 1 ||
        count > DL_NVRTC_ARCHS || calls.archs(archs = n->archs) != 0)
        return "it does not tell its version and architectures";
    n->narchs = count;
    qsort(archs, (size_t)count, sizeof *archs, by_value);
    n->calls = calls;
    return NULL;
}

bool dl_nvrtc_load(dl_nvrtc *n, dl_error *err) {
    while (!n->calls.compile) {
        const char *why = try_load(n);
        if (!why) break;
        reject(n, n->path, why);
        if (!take_candidate(n, n->candidate + 1, err)) return false;
    }
    return true;
}

bool dl_nvrtc_knows(const dl_nvrtc *n, const char *arch, dl_error *err) {
    char list[DL_NVRTC_ARCHS * 8] = "";
    size_t at = 0;
    for (int i = 0; i < n->narchs; i++) {
        char name[LONGEST_ARCH];
        size_t length = (size_t)snprintf(name, sizeof name, "sm_%d", n->archs[i]);
        if (!strncmp(arch, name, length) && (!arch[length] || strchr("af", arch[length])) &&
            (!arch[length] || !arch[length + 1]))
            return true;
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? " " : "", name);
    }
    return dl_fail(
        err, DL_RESOURCE,
        "NVRTC %d.%d (%s) does not compile for %s, only for %s (and their variants a and f): "
        "install a newer one, or name another --target",
        n->major, n->minor, n->path, arch, list);
}

int dl_nvrtc_newest(const dl_nvrtc *n) { return n->narchs ? n->archs[n->narchs - 1] : 0; }

const char *dl_nvrtc_text(dl_arena *arena) {
    dl_nvrtc n;
    dl_error none = {0};
    if (!dl_nvrtc_find(arena, &n, &none) || !dl_nvrtc_load(&n, &none)) return "no NVRTC";
    return dl_format(arena, "NVRTC %d.%d (%s)", n.major, n.minor, n.path);
}

/* The lines of a log that contain errors, as one line; its beginning if there are none. */
static void put_errors(dl_buf *out, const char *log) {
    bool named = false;
    for (int pass = 0; pass < 2 && !named; pass++)
        for (const char *p = log; *p && out->n < 600; p += *p == '\n') {
            size_t length = strcspn(p, "\n");
            const char *line = p, *word = memmem(line, length, pass ? "" : "error", pass ? 0 : 5);
            p += length;
            if (!word || strspn(line, " \t^") == length) continue;
            if (out->n) dl_puts(out, " | ");
            dl_putn(out, line, length);
            named = true;
        }
    if (!out->n) dl_puts(out, "and said nothing");
}

static bool refuse(const dl_nvrtc *n, const char *arch, dl_nvrtc_result why, const char *log,
                   dl_error *err) {
    dl_buf lines = {0};
    put_errors(&lines, log);
    dl_fail(err, DL_RESOURCE, "NVRTC %d.%d cannot compile a kernel for %s (%s): %s", n->major,
            n->minor, arch, n->calls.error_text(why), lines.at);
    dl_buf_free(&lines);
    return false;
}

/* Appends a text of the library, whose size another function returns. */
static dl_nvrtc_result take(void *program, dl_nvrtc_result (*size)(void *, size_t *),
                            dl_nvrtc_result (*get)(void *, char *), dl_buf *to) {
    size_t bytes = 0;
    dl_nvrtc_result why = size(program, &bytes);
    if (why != 0 || bytes == 0) return why;
    char *text = dl_malloc(bytes);
    why = get(program, text);
    if (why == 0) dl_putn(to, text, bytes);
    free(text);
    return why;
}

bool dl_nvrtc_compile(const dl_nvrtc *n, const char *source, const char *arch, dl_buf *cubin,
                      dl_buf *log, dl_error *err) {
    const dl_nvrtc_calls *c = &n->calls;
    char target[sizeof "--gpu-architecture=" + LONGEST_ARCH];
    if (!dl_nvrtc_knows(n, arch, err)) return false;
    snprintf(target, sizeof target, "--gpu-architecture=%s", arch);
    const char *all[NOPTIONS + 2] = {target};
    int n_options = NOPTIONS + 1;
    memcpy(all + 1, options, sizeof options);
    if (n->major > 12 || (n->major == 12 && n->minor >= 4)) all[n_options++] = minimal;
    void *program = NULL;
    size_t before = log->n;
    dl_nvrtc_result why = c->create(&program, source, "kernels.cu", 0, NULL, NULL);
    if (why == 0) {
        why = c->compile(program, n_options, all);
        take(program, c->log_size, c->log, log); /* a missing log is no failure of the kernel */
        if (log->n > before && !log->at[log->n - 1]) log->n--;
        if (why == 0) why = take(program, c->cubin_size, c->cubin, cubin);
        c->destroy(&program);
    }
    return why == 0 || refuse(n, arch, why, log->n > before ? log->at + before : "", err);
}
