/* Compiled kernels compared with the interpreter: every family of contraction over odd shapes, and
 * reductions next to which something else is read, on every target that this machine can run, with
 * one thread and with three. Random graphs: tests/tools/pass_fuzz.c. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "ir/interp/interp.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/state.h"
#include "tests/cache.h"
#include "tests/check.h"
#include "tests/targets.h"
#include "tests/unit/contraction_cases.h"
#include "tests/unit/random_numbers.h"

/* The same numbers, rounded to their type, for interpreter and both executors. */
static void feed(const dl_graph *g, dl_interp *in, dlr_exec *const exec[2], uint64_t seed) {
    rng r = {seed};
    for (int i = 0; i < g->vars.n; i++) {
        const dl_value *v = &g->vars.at[i]->value;
        double *data = dl_interp_data(in, v);
        for (int64_t k = 0; k < dl_type_count(&v->type); k++) {
            data[k] = uniform(&r, -1, 1);
            if (dl_dtype_is_float(v->type.dtype))
                data[k] = dl_interp_convert(v->type.dtype, data[k], true);
            if (!dl_dtype_is_float(v->type.dtype)) data[k] = floor(2 * data[k]);
            if (v->type.dtype == DL_BOOL) data[k] = data[k] > 0;
        }
        for (int t = 0; t < 2; t++) {
            dlr_view view = dlr_exec_variable(exec[t], g->vars.at[i]->name);
            if (view.type) dlr_state_write(exec[t], view, DL_F64, data);
        }
    }
}

/* Relative L2 distance of a result; not-a-numbers must agree. */
static double distance(const dlr_exec *exec, dlr_view view, const double *want) {
    int64_t n = dl_type_count(view.type);
    double off = 0, all = 1e-30, *got = malloc((size_t)(n ? n : 1) * sizeof *got);
    dlr_state_read(exec, view, DL_F64, got);
    for (int64_t i = 0; i < n; i++) {
        double x = got[i], y = want[i];
        if ((isnan(x) && isnan(y)) || (isinf(x) && (x == y || fabs(y) > 3e38))) continue;
        off += (x - y) * (x - y), all += y * y;
    }
    free(got);
    return off == 0 ? 0 : sqrt(off / all);
}

/* The bound of f32 sums of some thousand terms against double ones. Of 16 bits, some of n elements
 * then fall on the other side of a tie, here or in what was read, and are off by a last digit: a
 * few in a small result, a share of a large one, which is less of bf16, whose ties lie farther
 * apart. */
static double most_distance(dl_dtype dtype, int64_t n) {
    enum { FEW = 16 };
    if (dtype == DL_F32) return 1e-5;
    double share = fmax(dtype == DL_F16 ? 1.0 / 64 : 1.0 / 256, (double)FEW / (double)n);
    return (dtype == DL_F16 ? 0x1p-10 : 0x1p-7) * sqrt(fmin(share, 1));
}

/* In one type; or `mixed`: in f32 and, after fusion, in that one. */
static void test_target(const char *target, dl_dtype dtype, bool mixed,
                        const contraction_set *set) {
    dl_error err = {0};
    dl_compile_options opt = {.target = dl_target_find(NULL, target, &err),
                              .step_options.optimizer = DL_OPT_NONE,
                              .keep_gradients = true,
                              .model = "kernels",
                              .batch = 1,
                              .validate = DL_VALIDATE_PASSES,
                              .link = true};
    if (!opt.target) {
        dl_test_skip("%s: %s", target, err.message);
        return;
    }
    dl_module *written = build_set(set, mixed ? DL_F32 : dtype, &err),
              *m = build_set(set, mixed ? DL_F32 : dtype, &err);
    dl_compile_times times = {0};
    if (mixed) {
        opt.observe = narrow, opt.user = &dtype;
        opt.skip = "recompute"; /* which takes a value as it was before it was rounded */
    }
    if (dtype != DL_F32) { /* kernels round where they store: the same ones are interpreted */
        opt.link = false;
        CHECK(dl_compile(written->arena, written, &opt, &times, &err), "%s: %s", target,
              err.message);
        opt.link = true;
    }
    dl_plan *p = err.code ? NULL : dl_compile(m->arena, m, &opt, &times, &err);
    CHECK(p != NULL && dl_plan_check(p, &err), "%s: %s", target, err.message);
    static const int threads[] = {1, 3};
    dlr_exec *exec[2] = {0};
    for (int t = 0; p && t < 2; t++) {
        exec[t] = dlr_exec_open(p, (dlr_exec_options){.threads = threads[t]}, &err);
        CHECK(exec[t] != NULL, "%s", err.message);
    }
    for (int i = 0; exec[1] && i < written->graphs.n; i++) {
        const dl_graph *g = written->graphs.at[i];
        dl_interp *in = dl_interp_new(g, true);
        feed(g, in, exec, (uint64_t)i + 100);
        CHECK(dl_interp_run(in, &err), "%s", err.message);
        for (int t = 0; t < 2; t++) {
            int program = dlr_exec_program(exec[t], g->name);
            dlr_exec_run(exec[t], program, NULL);
            for (int r = 0; r < g->results.n; r++) {
                dlr_view v =
                    dlr_exec_result(exec[t], program, g->results.at[r].role, g->results.at[r].name);
                double d = v.type ? distance(exec[t], v, dl_interp_data(in, g->results.at[r].value))
                                  : INFINITY;
                double most = v.type ? most_distance(dtype, dl_type_count(v.type)) : 0;
                CHECK(d <= most, "%s, %s%s, %d threads, %s (%s), result %s: %.2e", target,
                      dl_dtype_name(dtype), mixed ? " next to f32" : "", threads[t], g->name,
                      set->of[i] < NCASES ? cases[set->of[i]].what : "sums", g->results.at[r].name,
                      d);
            }
        }
        dl_interp_free(in);
    }
    for (int t = 0; t < 2; t++) dlr_exec_close(exec[t]);
    dl_arena_free(m->arena), dl_arena_free(written->arena);
}

enum { TARGETS = 7, FIRST_OF_BF16 = 4 }; /* from that one on they multiply bf16 */

/* Emulated vectors take the compiler three times as long: a share of the cases has f32 once, and
 * bf16 where it is multiplied, alone or next to f32. */
static bool drawn_emulated(dl_dtype dtype, int target, bool mixed) {
    if (dl_test_share() == 1) return true;
    return target < FIRST_OF_BF16 ? dtype == DL_F32
                                  : mixed == (dl_test_draw() + (unsigned)target) % 2;
}

int main(void) {
    char dir[] = "/tmp/dl_kernels_XXXXXX";
    if (!test_cache(dir)) return 1;
    static const dl_dtype types[] = {DL_F32, DL_BF16, DL_F16};
    /* the last three multiply bf16: to any other type they are as one before them */
    static const char *const targets[TARGETS] = {"cpu:generic",  "cpu:avx2",        "cpu:avx512",
                                                 "cpu:neon",     "cpu:avx512_bf16", "cpu:amx_bf16",
                                                 "cpu:neon_bf16"};
    unsigned cell = 0;
    for (int i = 0; i < 3; i++)
        for (int t = 0; t < (types[i] == DL_BF16 ? TARGETS : FIRST_OF_BF16); t++)
            for (int mixed = 0; mixed <= (types[i] != DL_F32); mixed++) {
                const char *here = test_target_here(targets[t]);
                bool emulated = here != targets[t];
                bool fine = !emulated && (types[i] == DL_F32 || t >= FIRST_OF_BF16);
                const contraction_set set = drawn_contractions(cell++, fine);
                if (!emulated || drawn_emulated(types[i], t, mixed))
                    test_target(here, types[i], mixed, &set);
            }
    setenv("CC", "clang", 1); /* the other compiler that users have */
    bool clang = system("clang --version > /dev/null 2>&1") == 0;
    if (!clang) dl_test_skip("kernels by clang: there is none");
    for (unsigned i = 0; clang && i < 3; i++) {
        const contraction_set set = drawn_contractions(cell++, true);
        if (dl_test_takes_of(0, i, 3, i)) test_target("cpu", types[i], types[i] != DL_F32, &set);
    }
    return dl_test_end();
}
