/* IR text compiled for each target that this machine runs, and executed: what tests of emitted code
 * share. */
#ifndef DL_TEST_COMPILED_H
#define DL_TEST_COMPILED_H
#include <stdlib.h>

#include "compiler/compile.h"
#include "ir/text/text.h"
#include "ir/validate/validate.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/state.h"
#include "tests/cache.h"
#include "tests/check.h"
#include "tests/targets.h"

static const char *const compiled_targets[] = {
    "cpu:amx_bf16", "cpu:avx512_bf16", "cpu:neon_bf16",       "cpu:avx512",
    "cpu:avx2",     "cpu:generic",     "cuda:sm_90a:emulated"};
enum {
    COMPILED_TARGETS = 7,
    COMPILED_CPUS = 6, /* of them, first */
    COMPILED_LOW = 3   /* of these, first: those that multiply bf16 */
};

/* Which way kernels are made, where a test chooses. */
static const dl_tuner *compiled_by;

/* The target, or, where this CPU is of another kind, the same emulated. Of these a run that takes a
 * share of the cases takes one in four: NULL for the others. */
static inline const char *compiled_target(const char *name) {
    enum { EMULATED = 4 };
    const char *here = test_target_here(name);
    bool drawn = here == name || dl_test_share() == 1;
    for (unsigned t = 0; t < EMULATED && !drawn; t++)
        drawn = strcmp(name, compiled_targets[t]) == 0 && dl_test_draw() % EMULATED == t;
    return drawn ? here : NULL;
}

/* Whether a run has case number `cell` of a test on target t: a run of a share has every second of
 * the pairs, so that each case meets half of the targets, and each target half of the cases; under
 * sanitizers, which do not see into kernels, every fourth. */
static inline bool takes_on_target(int t, unsigned cell) {
    unsigned every = dl_test_share() == 1 ? 1 : dl_test_fast() ? 2 : 4;
    return (dl_test_draw() + cell + (unsigned)t) % every == 0;
}

/* The text's plan under `arena`, with passes but those in `skip`; NULL where the machine has not
 * the target, and, failing the test, where it does not compile. *m is what it was made of. */
static inline dl_plan *compile_text_module(dl_arena *arena, const char *text, const char *target,
                                           const char *skip, dl_module **m) {
    const char *here = compiled_target(target);
    if (!here) return NULL;
    dl_error err = {0};
    dl_compile_times times = {0};
    dl_compile_options opt = {.target = dl_target_find(NULL, here, &err),
                              .tuner = compiled_by,
                              .step_options.optimizer = DL_OPT_NONE,
                              .keep_gradients = true,
                              .model = "text",
                              .batch = 1,
                              .skip = skip,
                              .validate = DL_VALIDATE_PASSES,
                              .link = true};
    if (!opt.target) {
        dl_test_skip("%s: %s", target, err.message);
        return NULL;
    }
    *m = dl_parse_module(arena, text, strlen(text), "text", &err);
    dl_plan *p = *m ? dl_compile(arena, *m, &opt, &times, &err) : NULL;
    CHECK(p && dl_plan_check(p, &err), "%s: %s", target, err.message);
    return p;
}

static inline dl_plan *compile_text(dl_arena *arena, const char *text, const char *target,
                                    const char *skip) {
    dl_module *m;
    return compile_text_module(arena, text, target, skip, &m);
}

/* A text that must not compile, a part of what is said of it, and by whom: DL_INPUT, or DL_INTERNAL
 * by what checks the IR. */
typedef struct {
    const char *text, *want;
    dl_code code;
} compiled_refusal;
static inline void check_refusals(const compiled_refusal *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        dl_arena *arena = dl_arena_new(NULL);
        dl_error err = {0};
        dl_compile_times times = {0};
        dl_compile_options opt = {
            .target = dl_target_find(NULL, "cpu", &err), .model = "text", .batch = 1};
        opt.step_options.optimizer = DL_OPT_NONE;
        dl_module *m = dl_parse_module(arena, rows[i].text, strlen(rows[i].text), "text", &err);
        bool valid = m && dl_validate_module(m, DL_STAGE_TENSOR, &err);
        dl_plan *p = valid ? dl_compile(arena, m, &opt, &times, &err) : NULL;
        CHECK(!p && err.code == rows[i].code && strstr(err.message, rows[i].want), "row %zu: %s", i,
              err.message);
        dl_arena_free(arena);
    }
}

static inline dlr_exec *open_plan(const dl_plan *p, int threads) {
    dl_error err = {0};
    dlr_exec *exec = p ? dlr_exec_open(p, (dlr_exec_options){.threads = threads}, &err) : NULL;
    CHECK(!p || exec, "%s", err.message);
    return exec;
}

/* Writes all elements of a variable, which lies row by row. */
static inline void write_input(dlr_exec *exec, const char *name, const void *from) {
    dlr_view v = dlr_exec_variable(exec, name);
    memcpy(dlr_exec_host(exec, v, DLR_WRITE), from, (size_t)dl_type_bytes(v.type));
}

/* Output `name` of program `program`, as elements of `type`: allocated here. */
static inline void *read_output(dlr_exec *exec, int program, const char *name, dl_dtype type) {
    dlr_view v = dlr_exec_result(exec, program, DL_RESULT_OUTPUT, name);
    CHECK(v.type != NULL, "no output '%s'", name);
    if (!v.type) return NULL;
    int64_t n = dl_type_count(v.type);
    void *to = calloc((size_t)(n ? n : 1), (size_t)dl_dtype_bytes(type));
    dlr_state_read(exec, v, type, to);
    return to;
}
#endif
