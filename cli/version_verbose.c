/* `--version --verbose`: what a report of a fault should say about a program and its machine. */
#include <link.h>
#include <stdio.h>

#include "cli/cli.h"
#include "commit.h"
#include "compiler/jit/jit_cc.h"
#include "ir/base/cpus.h"
#include "runtime/comm/comm.h"

/* A library that programs link: by the build, its version there, and how its file's name begins. */
typedef struct {
    const char *name, *version, *file, *path;
} linked;

static bool is_file_of(const char *name, const char *file) {
    const size_t n = strlen(file);
    return !strncmp(name, file, n) && strchr("._-", name[n]) && name[n];
}

static int find_paths(struct dl_phdr_info *info, size_t size, void *of) {
    (void)size;
    const char *slash = strrchr(info->dlpi_name, '/');
    for (linked *l = of; slash && l->name; l++)
        if (is_file_of(slash + 1, l->file)) l->path = info->dlpi_name;
    return 0;
}

static void print_libraries(void) {
    static linked libraries[] = {DL_LINKED{0}};
    dl_iterate_phdr(find_paths, libraries);
    for (const linked *l = libraries; l->name; l++)
        if (l->path || strcmp(l->file, "libfftw3f") != 0) /* dldata alone links FFTW */
            printf("%s %s (%s)\n", l->name, l->version, l->path ? l->path : "linked statically");
}

/* The value of the first line "NAME : value" of /proc/cpuinfo; "" without one. */
static const char *cpu_fact(dl_arena *arena, const char *text, const char *name) {
    const char *line = text;
    while (line && strncmp(line, name, strlen(name)) != 0)
        line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL;
    const char *colon = line ? strchr(line, ':') : NULL;
    return colon ? dl_strndup(arena, colon + 2, strcspn(colon + 2, "\n")) : "";
}

/* Features that kernels may use: vectors, FMA, numbers of 16 bits. */
static void print_features(const char *features) {
    static const char *const prefixes[] = {"sse4",  "avx", "fma", "f16c", "amx",
                                           "asimd", "sve", "sme", "bf16"};
    for (const char *at = features + strspn(features, " "); *at; at += strspn(at, " ")) {
        const size_t n = strcspn(at, " ");
        for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
            if (!strncmp(at, prefixes[i], strlen(prefixes[i]))) {
                printf(" %.*s", (int)n, at);
                break;
            }
        at += n;
    }
    printf("\n");
}

static void print_cpu(dl_arena *arena) {
    dl_error ignored = {0};
    FILE *f = fopen("/proc/cpuinfo", "re"); /* its size is unknown: it is read as a stream */
    static char text[1 << 16];
    const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[n] = 0;
    const char *model = cpu_fact(arena, text, "model name"),
               *features = cpu_fact(arena, text, "flags");
    if (!*features) features = cpu_fact(arena, text, "Features");
    const dl_target *target = dl_target_find(NULL, "cpu", &ignored);
    printf("CPU: %s, %d usable, target %s\nCPU features:", *model ? model : "unknown",
           dl_cpus_allowed(), target ? target->name : "none");
    print_features(features);
}

static void print_compiler(dl_arena *arena) {
    dl_error err = {0};
    dl_jit_cc cc;
    const dl_target *target = dl_target_find(NULL, "cpu", &err);
    if (target && dl_jit_find(arena, &dl_jit_c, target, &cc, &err))
        printf("kernels are compiled by %s\n", cc.path);
    else
        printf("no kernel can be compiled: %s\n", err.message);
}

void cli_print_verbose_version(void) {
    dl_arena *arena = dl_arena_new(NULL);
    printf("commit %s\nbuilt by %s\n", DL_COMMIT, DL_BUILT_BY);
    print_compiler(arena);
    print_libraries();
    print_cpu(arena);
    printf("%s", dlr_mpi_text(arena));
    dl_arena_free(arena);
}
