/* Kernels whose product a library makes: which kernels those are and in which forms, each form and
 * each algorithm compared with the interpreter, over the emulated driver and stand-ins of cuBLASLt
 * and cuDNN; what a plan with such calls is refused for. */
#include "tests/unit/calls.h"

#include "tests/cache.h"
#include "tests/check.h"
#include "tests/emulator/cuda_emulator.h"
#include "tests/unit/call_cases.h"

#include "ir/text/text.h"
#include "runtime/base/rng.h"
#include "runtime/cuda/library.h"
#include "runtime/exec/state.h"
#include "verify/verify.h"

dl_arena *test_arena;
const dl_target *target;
static dlr_libraries_here here;

enum { OFFERS = 4 };

/* The library's algorithms for a call. */
static int ask(dl_library l, const dl_call *call, dl_algorithm *to) {
    return call->what == dl_library_makes[l]
               ? dlr_libraries[l]->offer(here.opened[l], call, OFFERS, to)
               : 0;
}

static void look_at(const wish *w, int kernel, int n, const dl_call *forms) {
    int all = 0, offered = 0;
    dl_algorithm some[OFFERS];
    for (int i = 0; i < n; i++) {
        all |= BIT(forms[i].what, forms[i].algorithm.form);
        for (int l = 0; l < DL_NLIBRARIES; l++) offered += ask((dl_library)l, &forms[i], some);
    }
    CHECK(all == cases[w->number].forms[kernel], "%s, contraction %d: forms %d",
          cases[w->number].what, kernel, all);
    if (kernel || !n) return;
    const dl_matmul *m = &forms[0].matmul;
    const dl_convolution *c = &forms[0].convolution;
    int64_t matmul[] = {m->batch, m->rows, m->columns, m->terms},
            convolution[] = {c->size.samples, c->size.groups, c->size.c, c->size.o},
            *own = forms[0].what == DL_CALLED_MATMUL ? matmul : convolution;
    CHECK(memcmp(own, &cases[w->number].batch, sizeof matmul) == 0 &&
              offered == cases[w->number].offered,
          "%s: %lld, %lld, %lld, %lld, %d offered", cases[w->number].what, (long long)own[0],
          (long long)own[1], (long long)own[2], (long long)own[3], offered);
}

static bool choose(void *user, int n, dl_kernel *const *kernels, dl_error *err) {
    wish *w = user;
    (void)err;
    for (int i = 0; i < n; i++) {
        dl_call forms[DL_MOST_CALLS];
        if (dl_kernel_anchor(kernels[i]) < 0) continue;
        int count = target->backend->calls(kernels[i], target, forms);
        if (w->looks && w->kernels < 4) look_at(w, w->kernels, count, forms);
        w->kernels++;
        for (int f = 0; f < count; f++) {
            dl_algorithm *offers = DL_NEWS(test_arena, dl_algorithm, OFFERS);
            int offered = ask(w->library, &forms[f], offers);
            if (forms[f].algorithm.form != w->form || w->algorithm >= offered) continue;
            kernels[i]->schedule.variant =
                dl_intern(dl_algorithm_text(test_arena, &offers[w->algorithm]));
            w->calls++;
        }
    }
    return true;
}

dl_plan *compile(wish *w, bool tf32, dl_module **m, dl_error *err) {
    dl_compile_times times;
    dl_tuner tuner = {.choose = choose, .user = w};
    dl_compile_options opt = {.target = target,
                              .tuner = &tuner,
                              .tf32 = tf32,
                              .keep_gradients = true,
                              .step_options.optimizer = DL_OPT_NONE,
                              .model = "M",
                              .batch = 1,
                              .skip = "recompute",
                              .validate = DL_VALIDATE_PASSES,
                              .link = true};
    const char *text = dl_format(test_arena, "graph @train {\n  %s}\n", cases[w->number].text);
    *m = dl_parse_module(test_arena, text, strlen(text), cases[w->number].what, err);
    return *m ? dl_compile(test_arena, *m, &opt, &times, err) : NULL;
}

/* ---- numbers ---- */

static bool fill(dlr_exec *exec, void *user, dl_error *err) {
    const dl_plan *p = user;
    (void)err;
    for (int i = 0; i < p->vars.n; i++) {
        const dl_plan_var *v = &p->vars.at[i];
        int64_t n = dl_type_count(&v->type);
        float *numbers = DL_NEWS(test_arena, float, n + 1);
        dlr_normals((dlr_rng_place){.seed = 3, .item = (uint32_t)i}, 0, (size_t)n, 0, 1, numbers);
        dlr_state_write(exec, dlr_exec_variable(exec, v->name), DL_F32, numbers);
    }
    return true;
}

void verify(const char *what, const dl_module *m, const dl_plan *p) {
    dl_error err = {0};
    dl_verdict v = {0};
    dl_verify_run run = {
        {.threads = 1, .device = "cuda:emulated"}, fill, NULL, (void *)(uintptr_t)p};
    CHECK(dl_plan_check(p, &err), "%s: %s", what, err.message);
    CHECK(dl_verify_kernels(test_arena, m->graphs.at[0], p, &run, &v, &err), "%s: %s", what,
          err.message);
    CHECK(v.compared && !v.faults.n, "%s: %s", what,
          v.faults.n ? v.faults.at[0] : "nothing compared");
}

static bool has(int number, dl_library l, dl_form form) {
    bool any = false;
    for (int i = 0; i < 4; i++)
        any |= (cases[number].forms[i] & BIT(dl_library_makes[l], form)) != 0;
    return any;
}

/* By the algorithm of that number; how many kernels were. */
static int test_one(wish w, bool tf32) {
    dl_error err = {0};
    dl_module *m;
    dl_plan *p = compile(&w, tf32, &m, &err);
    const char *what =
        dl_format(test_arena, "%s, %s, form %d, algorithm %d%s", cases[w.number].what,
                  dl_library_names[w.library], (int)w.form, w.algorithm, tf32 ? ", tf32" : "");
    CHECK(p, "%s: %s", what, err.message);
    CHECK(w.kernels && w.kernels <= 4, "%s: %d contractions", what, w.kernels);
    if (p && w.calls) verify(what, m, p);
    return w.calls;
}

static void test_case(int number) {
    test_one((wish){.number = number, .algorithm = OFFERS, .looks = true}, false);
    for (int tf32 = 0; tf32 < (strstr(cases[number].text, "f16") ? 1 : 2); tf32++)
        for (int l = 0; l < DL_NLIBRARIES; l++)
            for (int form = 0; form < DL_NFORMS; form++) {
                wish w = {.number = number, .library = (dl_library)l, .form = (dl_form)form};
                if (!has(number, w.library, w.form)) continue;
                while (w.algorithm < OFFERS && test_one(w, tf32)) w.algorithm++;
                CHECK((w.algorithm > 0) == (cases[number].offered > 0), "%s: %d by %s",
                      cases[number].what, w.algorithm, dl_library_names[l]);
            }
}

int main(void) {
    char dir[] = "/tmp/dl_calls_XXXXXX";
    dl_error err = {0};
    uint64_t key;
    test_arena = dl_arena_new(NULL);
    target = dl_target_find(NULL, "cuda:sm_90a:emulated", &err);
    if (!target || !target->backend->toolchain(test_arena, target, &key, &err)) {
        dl_test_skip("%s", err.message);
        return 77;
    }
    if (!test_cache(dir)) return 1;
    CHECK(dlr_library_find(DL_LIBRARY_CUBLASLT, true, &err) == 130100 &&
              dlr_library_find(DL_LIBRARY_CUDNN, true, &err) == 92600 &&
              dlr_libraries_begin(&here, emulator()->driver(), 0, 3, &err) && here.opened[0] &&
              here.opened[1],
          "%s %s %s", err.message, here.why[0].message, here.why[1].message);
    test_text();
    bool both = here.opened[0] && here.opened[1];
    for (int i = 0; both && i < NCASES; i++)
        if (dl_test_takes((unsigned)i)) test_case(i);
    if (both) test_matmul_refused(dir), test_convolution_refused(dir);
    dlr_libraries_end(&here);
    CHECK(system(dl_format(test_arena, "rm -rf '%s'", dir)) == 0);
    dl_arena_free(test_arena);
    return dl_test_end();
}
