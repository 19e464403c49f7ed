/* The tuner over the emulated driver, whose events say what the test wants: which variant of a
 * kernel is taken, that the table is read again, that a variant which computes something else is
 * rejected, and that a plan made by choices computes what the cost model's plan does. */
#include "tests/check.h"
#include "tests/emulator/cuda_emulator.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "compiler/codegen/holes.h"
#include "compiler/cuda/cuda.h"
#include "compiler/jit/cache.h"
#include "compiler/session.h"
#include "ir/base/hash.h"
#include "ir/text/text.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/state.h"
#include "runtime/tune/tune.h"

/* In which type the product is made: bf16, or f32, in TF32. */
static const char *type = "bf16";
/* The product's axes. */
enum { M = 40, N = 24, K = 64 };

static dl_arena *arena;
static dl_config *config;
static dl_target target;
static dl_buf told;
static bool no_maps, no_images; /* the driver makes no tensor maps, none of images */

static void hear(void *to, const char *what) { (void)to, dl_puts(&told, what); }
static const dl_console listener = {.warning = hear};

static dl_module *parse(dl_error *err) {
    const char *text = dl_format(arena,
                                 "graph @train {\n"
                                 "  input $a = %%0 : %s[M=%d, K=%d]\n"
                                 "  input $b = %%1 : %s[N=%d, K=%d]\n"
                                 "  %%2 = contract $a, $b {over=[K]} : %s[M=%d, N=%d]\n"
                                 "  %%3 = leaky_relu %%2 {slope=0.5} : %s[M=%d, N=%d]\n"
                                 "  output \"y\" = %%3\n"
                                 "}\n",
                                 type, M, K, type, N, K, type, M, N, type, M, N);
    dl_module *m = dl_parse_module(arena, text, strlen(text), "text", err);
    CHECK(m, "%s", err->message);
    return m;
}

static dl_compile_options options_of(void) {
    return (dl_compile_options){.target = &target,
                                .step_options.optimizer = DL_OPT_NONE,
                                .tf32 = true,
                                .model = "M",
                                .batch = 1,
                                .out = &listener,
                                .validate = DL_VALIDATE_PASSES,
                                .link = true};
}

/* ---- times ---- */

static int64_t few(const char *function, unsigned grid) {
    return (void)function, 1000 + 100 * (int64_t)grid;
}
static int64_t many(const char *function, unsigned grid) {
    return (void)function, 1000000 / (int64_t)grid;
}
/* The first variant, of 6 blocks and then 3, takes 100 us; others 1% less, or more. */
static int64_t hardly(const char *function, unsigned grid) {
    return (void)function, grid == 3 ? 99000 : grid == 6 ? 1000 : 100000;
}

/* The variant that these times favour, of those of a kernel but one. */
static int expect(const dl_plan *trials, const dl_trial *t, int64_t (*ns)(const char *, unsigned),
                  int but) {
    int best = 0;
    int64_t least = 0;
    for (int v = 0; v < t->nvariants; v++) {
        const dl_plan_kernel *k = &trials->kernels.at[t->first + v];
        int64_t all = 0;
        for (int p = 0; p < k->phases; p++) all += ns("", (unsigned)k->items[p]);
        if (v != but && (!least || all < least)) best = v, least = all;
    }
    return best;
}

/* ---- choices ---- */

/* The text's plan, by the choice of a tuner whose table has only what was found under the same
 * number. */
static dl_plan *compile(dl_tuning *t, uint64_t table, int64_t (*ns)(const char *, unsigned)) {
    dl_error err = {0};
    dl_compile_times times;
    dl_compile_options opt = options_of();
    told.n = 0;
    emulator()->set(
        (cuda_emulator_options){.launch_ns = ns, .no_maps = no_maps, .no_images = no_images});
    bool ok = dl_tune(arena, config, NULL, &opt, t, &err);
    CHECK(ok && opt.tuner == &t->tuner, "%s", err.message);
    t->tuner.key += table;
    dl_module *m = parse(&err);
    dl_plan *p = ok && m ? dl_compile(arena, m, &opt, &times, &err) : NULL;
    CHECK(p && p->kernels.n == 1, "%s", err.message);
    emulator()->set((cuda_emulator_options){0});
    return p;
}

/* The tuner's findings, and what has become of them. */
static void expect_choice(const char *what, const dl_tuning *t, const dl_plan *p,
                          const dl_trial *trial, int best, bool from_table) {
    if (!p) return;
    CHECK(strcmp(p->kernels.at[0].variant, trial->names[best]) == 0, "%s: %s, not %s", what,
          p->kernels.at[0].variant, trial->names[best]);
    CHECK(t->kernels == 1 && t->tried == !from_table, "%s: %d kernels, %d tried", what, t->kernels,
          t->tried);
    CHECK(from_table || t->changed == (best != 0), "%s: %d changed", what, t->changed);
}

static void test_choices(const dl_plan *trials, const dl_trial *trial) {
    static int64_t (*const times[])(const char *, unsigned) = {few, many, hardly};
    dl_tuning t;
    int best[3];
    for (int i = 0; i < 3; i++) {
        best[i] =
            i < 2 ? expect(trials, trial, times[i], -1) : 0; /* the last: within what is noise */
        expect_choice("tried", &t, compile(&t, (uint64_t)i, times[i]), trial, best[i], false);
        CHECK(t.rejected == 0 && told.n == 0, "%s", told.at);
    }
    CHECK(best[0] != best[1], "both times favour %s", trial->names[best[0]]);
    expect_choice("read again", &t, compile(&t, 0, times[1]), trial, best[0], true);
    CHECK(!dl_tuning_text(arena, &t), "%s", dl_tuning_text(arena, &t));
}

/* An entry that names no variant of the kernel, as one of another version may, is refused by that
 * name, and the kernel is tuned; what is found takes its place. */
static void test_earlier_table(const dl_plan *trials, const dl_trial *trial) {
    static const char *const earlier[] = {"999x999, terms in 3", "cuBLASLt 1: 64x64"};
    enum { TABLE = 20 };
    dl_error err = {0};
    dl_tuning t;
    int best = expect(trials, trial, few, -1);
    expect_choice("this version's", &t, compile(&t, 0, many), trial, best, true);
    const dl_cache *cache = dl_cache_open(arena, NULL, &err);
    CHECK(cache, "%s", err.message);
    for (uint64_t i = 0, first = t.tuner.key; i < 2 && cache; i++) {
        uint64_t table = first + TABLE + i,
                 key = dl_hash(&table, sizeof table, dl_kernel_hash(trial->kernel));
        CHECK(dl_cache_keep(cache, key, earlier[i], strlen(earlier[i]), NULL, &err), "%s",
              err.message);
        const char *says = dl_format(arena, "was tuned to '%s', which it has no more", earlier[i]);
        expect_choice(earlier[i], &t, compile(&t, TABLE + i, few), trial, best, false);
        CHECK(told.n && strstr(told.at, says), "no '%s' in %s", says, told.n ? told.at : "nothing");
    }
    expect_choice("replaced", &t, compile(&t, TABLE, many), trial, best, true);
    CHECK(told.n == 0, "%s", told.at);
}

/* ---- a variant that is wrong ---- */

static const char *wrong; /* its name */

/* It sums too few terms. */
static bool emit_wrong(dl_arena *texts, dl_buf *out, const dl_kernel *k, const dl_target *t,
                       dl_emitted *code, dl_error *err) {
    if (!dl_cuda_emit(texts, out, k, t, code, err)) return false;
    const char *body = code->texts.n ? code->texts.at[0]->body : "";
    bool is = k->schedule.variant && strcmp(k->schedule.variant, wrong) == 0;
    char *at = is ? strstr(body, "all = u.terms()") : NULL;
    CHECK(at || !is, "nothing to break in %s", body);
    if (at) memcpy(at, "all = u.rows() ", strlen("all = u.rows() "));
    return true;
}

static void test_wrong(const dl_plan *trials, const dl_trial *trial) {
    dl_backend backend = dl_backend_cuda;
    const dl_backend *real = target.backend;
    dl_tuning t;
    int number = expect(trials, trial, few, -1);
    CHECK(number != 0, "the first is what others are held against");
    wrong = trial->variants[number];
    backend.emit = emit_wrong;
    target.backend = &backend;
    const dl_plan *p = compile(&t, 10, few);
    target.backend = real;
    expect_choice("a wrong one", &t, p, trial, expect(trials, trial, few, number), false);
    CHECK(t.rejected == 1 && told.at &&
              strstr(told.at, dl_format(arena, "made as %s differs", wrong)) &&
              strstr(told.at, "is not used"),
          "%d rejected: %s", t.rejected, told.at);
}

/* ---- variants are schedules by name ---- */

/* The first phase of a kernel's code; "": it is refused. */
static const char *body_of(dl_arena *texts, const dl_kernel *k, dl_error *err) {
    dl_emitted code;
    dl_buf out = {0};
    bool ok = dl_cuda_emit(texts, &out, k, &target, &code, err);
    return ok && code.texts.n ? code.texts.at[0]->body : "";
}

/* The cost model's time of a kernel with much more arithmetic than traffic. */
static double time_of(const dl_kernel *k) {
    dl_kernel large = *k;
    large.flops *= 1000000;
    return dl_cuda_predict(&large, &target);
}

/* A compilation names the variant; every variant is printed and parsed, and then makes the same
 * code; a name that the target does not have is refused. */
static void test_text(const dl_trial *trial) {
    dl_error err = {0};
    dl_compile_times times;
    dl_compile_options opt = options_of();
    opt.link = false;
    dl_module *m = parse(&err);
    const dl_plan *p = m ? dl_compile(arena, m, &opt, &times, &err) : NULL;
    CHECK(p && m->graphs.at[0]->kernels.n == 1, "%s", err.message);
    if (!p) return;
    dl_kernel *k = m->graphs.at[0]->kernels.at[0];
    CHECK(k->schedule.variant && strcmp(k->schedule.variant, trial->names[0]) == 0 &&
              strcmp(p->kernels.at[0].variant, trial->names[0]) == 0,
          "%s: not %s", k->schedule.variant ? k->schedule.variant : "none", trial->names[0]);
    double first = time_of(k), last = first;
    for (int v = 0; v < trial->nvariants; v++) {
        dl_buf text = {0}, again = {0};
        k->schedule.variant = trial->variants[v];
        CHECK(time_of(k) >= last, "%s: %g us, and the one before %g us", trial->names[v],
              time_of(k), last);
        last = time_of(k);
        dl_print_module(&text, m, (dl_print_options){0});
        dl_module *parsed = dl_parse_module(arena, text.at, text.n, "text", &err);
        CHECK(parsed && strstr(text.at, dl_format(arena, "variant=\"%s\"}", trial->names[v])),
              "%s: %s%s", trial->names[v], err.message, text.at);
        if (!parsed) break;
        dl_print_module(&again, parsed, (dl_print_options){0});
        CHECK(strcmp(text.at, again.at) == 0, "%s: %s", trial->names[v], again.at);
        const char *one = body_of(arena, k, &err),
                   *two = body_of(arena, parsed->graphs.at[0]->kernels.at[0], &err);
        CHECK(*one && strcmp(one, two) == 0, "%s: other code %s", trial->names[v], err.message);
        dl_buf_free(&text), dl_buf_free(&again);
    }
    CHECK(last > 1.5 * first, "the slowest variant takes %g us, the fastest %g", last, first);
    k->schedule.variant = dl_intern("999x999");
    CHECK(!*body_of(arena, k, &err) && err.code == DL_INPUT &&
              strstr(err.message, "has no variant '999x999' of it"),
          "%s", err.message);
}

/* ---- numbers ---- */

static void run(const dl_plan *p, float *y) {
    dl_error err = {0};
    static float numbers[M * K];
    dlr_exec *e = p ? dlr_exec_open(p, (dlr_exec_options){.threads = 1}, &err) : NULL;
    CHECK(e, "%s", err.message);
    if (!e) return;
    for (int i = 0; i < M * K; i++) numbers[i] = (float)(i * 37 % 101 - 50) / 64;
    dlr_state_write(e, dlr_exec_variable(e, "a"), DL_F32, numbers);
    dlr_state_write(e, dlr_exec_variable(e, "b"), DL_F32, numbers);
    dlr_exec_run(e, 0, NULL);
    dlr_state_read(e, dlr_exec_result(e, 0, DL_RESULT_OUTPUT, "y"), DL_F32, y);
    CHECK(dlr_exec_check(e, &err), "%s", err.message);
    dlr_exec_close(e);
}

static void test_numbers(void) {
    static float y[2][M * N];
    dl_error err = {0};
    dl_compile_times times;
    dl_compile_options opt = options_of();
    dl_module *m = parse(&err);
    dl_tuning t;
    const dl_plan *tuned = compile(&t, 0, few),
                  *plain = m ? dl_compile(arena, m, &opt, &times, &err) : NULL;
    CHECK(plain && tuned && strcmp(plain->kernels.at[0].variant, tuned->kernels.at[0].variant) != 0,
          "%s", err.message);
    run(plain, y[0]), run(tuned, y[1]);
    double off = 0, all = 0;
    for (int i = 0; i < M * N; i++) {
        off += ((double)y[0][i] - (double)y[1][i]) * ((double)y[0][i] - (double)y[1][i]);
        all += (double)y[0][i] * (double)y[0][i];
    }
    CHECK(all > 1 && sqrt(off / all) < 2e-3, "%g of %g", sqrt(off), sqrt(all));
}

/* ---- a library ---- */

/* On the emulator, what a library does takes no time; the rest of the kernel after it is 2 blocks.
 */
static int64_t rest(const char *function, unsigned grid) {
    return (void)function, grid == 2 ? 1000 : 10000;
}

static void test_library(void) {
    const char *standin = getenv("DL_TEST_CUBLASLT");
    dl_tuning t;
    CHECK(standin, "DL_TEST_CUBLASLT names no library");
    if (!standin) return;
    const dl_plan *without = compile(&t, 20, rest);
    setenv("DLR_CUBLASLT", standin, 1);
    const dl_plan *with = compile(&t, 20, rest); /* of another key: the table has nothing for it */
    if (!with || !without) return;
    const dl_plan_kernel *k = &with->kernels.at[0];
    CHECK(t.tried == 1 && t.called == 1 && k->calls.n == 1 && !without->kernels.at[0].calls.n &&
              strncmp(k->variant, "cuBLASLt 13.1.0, algorithm ", 27) == 0,
          "%d tried, %d called: %s", t.tried, t.called, k->variant);
    CHECK(with->key != without->key, "plans of one key");
    const char *says = dl_tuning_text(arena, &t);
    CHECK(says && strstr(says, "; 1 by libraries"), "%s", says);
    const dl_plan *again = compile(&t, 20, many);
    CHECK(again && t.tried == 0 && again->kernels.at[0].calls.n == 1 &&
              dl_algorithm_is_same(&again->kernels.at[0].calls.at[0].algorithm,
                                   &k->calls.at[0].algorithm) &&
              again->key == with->key,
          "%d tried", t.tried);
    static float y[2][M * N];
    run(with, y[0]), run(without, y[1]);
    double off = 0, all = 0;
    for (int i = 0; i < M * N; i++)
        off += ((double)y[0][i] - (double)y[1][i]) * ((double)y[0][i] - (double)y[1][i]),
            all += (double)y[0][i] * (double)y[0][i];
    CHECK(all > 1 && sqrt(off / all) < 2e-3, "%g of %g", sqrt(off), sqrt(all));

    setenv("CUBLASLT_STANDIN_WRONG", "1", 1);
    const dl_plan *wrong_one = compile(&t, 21, rest);
    unsetenv("CUBLASLT_STANDIN_WRONG");
    CHECK(wrong_one && !wrong_one->kernels.at[0].calls.n && t.rejected == 2 && told.at &&
              strstr(told.at, "made as cuBLASLt 13.1.0, algorithm ") &&
              strstr(told.at, "is not used"),
          "%d rejected: %s", t.rejected, told.at);

    unsetenv("DLR_CUBLASLT");
    again = compile(&t, 20, rest);
    CHECK(again && !again->kernels.at[0].calls.n && again->key == without->key && t.tried == 0,
          "without the library: %s", again ? again->kernels.at[0].variant : "");
}

/* The candidates, as a plan of their own. */
static dl_plan *try_all(dl_trial *trial, dl_error *err) {
    dl_compile_options opt = options_of();
    dl_module *m = parse(err);
    dl_pass_ctx ctx = {.arena = arena,
                       .weights = target.weights,
                       .loops = target.loops,
                       .half_gemms = target.half_gemms,
                       .tf32 = opt.tf32,
                       .step_options = opt.step_options,
                       .err = err};
    if (!m || !dl_run_passes(m, dl_pipeline, &ctx, (dl_pass_options){0})) return NULL;
    *trial = (dl_trial){.kernel = m->graphs.at[0]->kernels.at[0]};
    return dl_trial_plan(arena, &target, 1, trial, NULL, err);
}

/* Are there ways by wgmma, to be tried and no more? */
static bool has_groups(const dl_plan *trials, const dl_trial *t) {
    bool any = false;
    for (int i = 0; trials && i < t->nvariants; i++) any |= strstr(t->names[i], "wgmma") != NULL;
    return any && !strstr(t->names[0], "wgmma");
}

/* In TF32 ways by wgmma are held against those by mma.sync, which rounds its operands. */
static void test_floats(void) {
    dl_error err = {0};
    dl_trial trial;
    dl_tuning t;
    type = "f32";
    CHECK(has_groups(try_all(&trial, &err), &trial), "%s", err.message);
    const dl_plan *p = compile(&t, 30, few);
    CHECK(p && t.tried == 1 && t.rejected == 0 && told.n == 0, "%d rejected: %s", t.rejected,
          told.at);
    type = "bf16";
}

/* Where the driver makes no tensor maps, ways that need them are not tried. */
static void test_old_driver(const dl_trial *trial) {
    const char *names[DL_MOST_VARIANTS];
    dl_tuning t;
    int by_maps = 0, left = 0;
    for (int i = 0; i < trial->nvariants; i++) by_maps += strstr(trial->names[i], "TMA") != NULL;
    for (int i = 0; i < 2; i++) {
        no_maps = i == 0, no_images = i == 1;
        const dl_plan *p = compile(&t, 40 + i, few);
        no_maps = no_images = false;
        int n = dl_cuda_variants(trial->kernel, t.target, names);
        for (int v = 0; v < n; v++) left += strstr(names[v], "TMA") != NULL;
        CHECK(p && t.tried == 1 && by_maps > 0 && left == 0 &&
                  !strstr(p->kernels.at[0].variant, "TMA"),
              "%d ways by maps, then %d: %s", by_maps, left, p ? p->kernels.at[0].variant : "");
    }
}

/* ---- a variant that is named ---- */

static unsigned named_grid;
static int64_t favour_named(const char *function, unsigned grid) {
    return (void)function, grid == named_grid ? 1000 : 1000000;
}

/* The tuner takes this variant where it is the fastest, and the plan computes what others do. */
static void test_named(const dl_plan *trials, const dl_trial *trial, const char *name) {
    int of = -1;
    dl_tuning t;
    for (int v = 0; v < trial->nvariants; v++)
        if (strcmp(trial->names[v], name) == 0) of = v;
    CHECK(of > 0, "'%s' is no variant, or the first one", name);
    if (of < 0) return;
    named_grid = (unsigned)trials->kernels.at[trial->first + of].items[0];
    CHECK(expect(trials, trial, favour_named, -1) == of, "others have %u blocks, too", named_grid);
    expect_choice(name, &t, compile(&t, 50, favour_named), trial, of, false);
    CHECK(t.rejected == 0, "%s", told.at);
}

int main(int argc, char **names) {
    char dir[] = "/tmp/dl_tune_XXXXXX"; /* its own: the table of another run would be read */
    dl_error err = {0};
    uint64_t key;
    arena = dl_arena_new(NULL);
    const dl_target *t = dl_target_find(NULL, "cuda:sm_90a:emulated", &err);
    if (!t || !t->backend->toolchain(arena, t, &key, &err)) {
        dl_test_skip("%s", err.message);
        return 77;
    }
    if (!mkdtemp(dir)) return 1;
    setenv("DLR_CACHE_DIR", dir, 1);
    target = *t;
    char *argv[] = {"test", "--model=tests/data/small.dl", "--tune=true", "--threads=1", NULL};
    config = dl_config_open(arena, 4, argv, NULL, &err);
    dl_session *s = config ? dl_session_open(arena, config, 1, NULL, &err) : NULL;
    dl_trial trial = {0};
    dl_plan *trials = s ? try_all(&trial, &err) : NULL;
    CHECK(has_groups(trials, &trial), "%s", err.message);
    if (trials && argc == 2) {
        test_named(trials, &trial, names[1]);
    } else if (trials) {
        test_choices(trials, &trial);
        test_earlier_table(trials, &trial);
        test_wrong(trials, &trial);
        test_text(&trial);
        test_numbers();
        test_library();
        test_old_driver(&trial);
        test_floats();
    }
    dl_session_close(s);
    dl_buf_free(&told);
    CHECK(system(dl_format(arena, "rm -rf '%s'", dir)) == 0);
    dl_arena_free(arena);
    return dl_test_end();
}
