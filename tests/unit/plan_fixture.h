/* Plans made by hand for tests: a few lines of C compiled by `cc -shared`, and the tables around
 * them. */
#ifndef DL_PLAN_FIXTURE_H
#define DL_PLAN_FIXTURE_H
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ir/base/input.h"
#include "ir/base/output.h"
#include "ir/plan/plan.h"

/* Runs cc on `source` in `directory`; false without a compiler. */
static inline bool compile_object(dl_arena *arena, const char *directory, const char *source,
                                  const char *flag, dl_plan_object *out) {
    dl_error err = {0};
    char *c = dl_format(arena, "%s/k.c", directory), *so = dl_format(arena, "%s/k.so", directory);
    if (!dl_write_file(c, source, strlen(source), &err)) return false;
    pid_t child = fork();
    if (child == 0) {
        execlp("cc", "cc", "-shared", "-fPIC", flag, "-o", so, c, (char *)NULL);
        _exit(127);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return false;
    *out = (dl_plan_object){.key = 7, .source = source};
    out->image = (const unsigned char *)dl_read_file(arena, so, 1 << 26, &out->bytes, &err);
    unlink(c), unlink(so);
    return out->image != NULL;
}

static inline dl_plan *new_plan(int64_t arena_bytes) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_plan *p = DL_NEW(arena, dl_plan);
    *p = (dl_plan){.arena = arena,
                   .model = "M",
                   .target = "cpu:generic",
                   .key = 42,
                   .batch = 2,
                   .arena_bytes = arena_bytes};
    return p;
}

static inline dl_type type_of(dl_dtype d, dl_layout layout, int rank, const int64_t *size) {
    static const char *const names[] = {"N", "C", "D", "H", "W", "I", "J", "K"};
    dl_type t = dl_scalar(d);
    t.layout = layout;
    for (int i = 0; i < rank; i++) dl_type_push(&t, names[i], size[i]);
    return t;
}

static inline dl_type vector(int64_t n) {
    return type_of(DL_F32, (dl_layout){0}, 1, (int64_t[]){n});
}

static inline void add_var(dl_plan *p, dl_var_role role, const char *name, dl_type type,
                           dl_init init, int64_t offset) {
    dl_push(p->arena, &p->vars,
            (dl_plan_var){.name = dl_strdup(p->arena, name),
                          .role = role,
                          .type = type,
                          .init = init,
                          .offset = offset});
}

static inline void add_kernel(dl_plan *p, const char *symbol, int phases, int64_t items0,
                              int64_t items1, int64_t workspace, int64_t scratch, int nargs,
                              const int64_t *arg_bytes) {
    int64_t *bytes = DL_NEWS(p->arena, int64_t, nargs);
    if (nargs) memcpy(bytes, arg_bytes, (size_t)nargs * sizeof *bytes);
    if (workspace > p->workspace_bytes) p->workspace_bytes = workspace;
    if (scratch > p->scratch_bytes) p->scratch_bytes = scratch;
    dl_push(p->arena, &p->kernels,
            (dl_plan_kernel){.name = symbol,
                             .symbol = symbol,
                             .where = "m.dl:1",
                             .variant = "tall",
                             .phases = phases,
                             .items = {items0, items1},
                             .nargs = nargs,
                             .arg_bytes = bytes,
                             .workspace = workspace,
                             .scratch = scratch,
                             .flops = 10,
                             .bytes = 20,
                             .predicted_us = 1.5});
}

static inline dl_plan_program *add_program(dl_plan *p, const char *name) {
    dl_push(p->arena, &p->programs, (dl_plan_program){.name = name});
    return &p->programs.at[p->programs.n - 1];
}

static inline void add_launch(dl_plan *p, dl_plan_program *g, int kernel, const int64_t *args) {
    int nargs = p->kernels.at[kernel].nargs;
    dl_plan_launch l = {
        .kernel = kernel, .nargs = nargs, .args = DL_NEWS(p->arena, int64_t, nargs)};
    if (nargs) memcpy(l.args, args, (size_t)nargs * sizeof *args);
    dl_push(p->arena, &g->launches, l);
}

/* A test's arguments, and the files that it removes at its end. */
static inline char *temp_directory(dl_arena *arena) {
    const char *root = getenv("TMPDIR");
    return mkdtemp(dl_format(arena, "%s/dlc-test-XXXXXX", root && *root ? root : "/tmp"));
}

/* A new plan whose object is what cc makes of `source`. NULL, and said to be skipped, without a
 * compiler. */
static inline dl_plan *new_plan_of(int64_t arena_bytes, const char *source) {
    dl_plan *p = new_plan(arena_bytes);
    dl_plan_object o;
    char *directory = temp_directory(p->arena);
    bool compiled = directory && compile_object(p->arena, directory, source, "-O1", &o);
    if (directory) rmdir(directory);
    if (compiled) {
        dl_push(p->arena, &p->objects, o);
        return p;
    }
    printf("SKIP: no C compiler 'cc'\n");
    dl_arena_free(p->arena);
    return NULL;
}
#endif
