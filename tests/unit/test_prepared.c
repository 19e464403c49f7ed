/* Prepared weights: the phases that prepare one run once, and again when it may have changed; a
 * compiled plan has workspaces of its own where it may, and gives the same bits as one without. */
#include "tests/check.h"

#include "frontends/dl/front.h"
#include "passes/core/prediction.h"
#include "passes/memory/memory.h"
#include "tests/unit/compiled.h"
#include "tests/unit/plan_fixture.h"

/* ---- the executor, on a plan made by hand ---- */

/* scale: arguments w, x, out. Phase 0 doubles w, and counts its runs; phase 1 multiplies, and
 * reports the count. */
static const char source[] =
    "static int runs;\n"
    "void scale_0(char *const *arg, long item, char *scratch, char *workspace) {\n"
    "    ((float *)workspace)[item] = 2 * ((const float *)arg[0])[item];\n"
    "    __atomic_fetch_add(&runs, 1, __ATOMIC_SEQ_CST);\n"
    "}\n"
    "void scale_1(char *const *arg, long item, char *scratch, char *workspace) {\n"
    "    ((float *)arg[2])[item] = ((float *)workspace)[item] * ((const float *)arg[1])[item];\n"
    "    if (!item) ((float *)arg[2])[4] = runs;\n"
    "}\n";

enum { N = 4, W = 64, V = 128, X = 192, OUT = 256, OWN = 320, ARENA = 512 };
enum { PREDICT, OTHER };

/* Two launches in "predict", with weights of their own, and one in "other". */
static dl_plan *make_plan(void) {
    dl_plan *p = new_plan_of(ARENA, source);
    if (!p) return NULL;
    add_var(p, DL_VAR_PARAM, "w", vector(N), (dl_init){DL_INIT_CONST, 1, 0}, W);
    add_var(p, DL_VAR_STATE, "v", vector(N), (dl_init){DL_INIT_CONST, 10, 0}, V);
    add_var(p, DL_VAR_INPUT, "x", vector(N), (dl_init){0}, X);
    add_kernel(p, "scale", 2, N, N, 16, 0, 3, (int64_t[]){16, 16, 20});
    p->kernels.at[0].prepares = 1;
    dl_plan_program *g = add_program(p, "predict");
    add_launch(p, g, 0, (int64_t[]){W, X, OUT});
    add_launch(p, g, 0, (int64_t[]){V, OUT, OUT});
    for (int i = 0; i < 2; i++) g->launches.at[i].own = OWN + 64 * i;
    add_launch(p, add_program(p, "other"), 0, (int64_t[]){W, X, OUT});
    CHECK(dl_plan_check(p, &(dl_error){0}));
    return p;
}

static void set(dlr_exec *e, const char *name, float x) {
    float all[N];
    for (int i = 0; i < N; i++) all[i] = x + (float)i;
    dlr_state_write(e, dlr_exec_variable(e, name), DL_F32, all);
}

/* Runs "predict"; the number of launches whose preparation ran. */
static int run(dlr_exec *e, float w, float x, float v) {
    const float *out = (const float *)(dlr_exec_arena(e) + OUT);
    static float before;
    dlr_exec_run(e, PREDICT, NULL);
    for (int i = 0; i < N; i++) {
        float f = (float)i, want = 2 * (v + f) * (2 * (w + f) * (x + f));
        CHECK(out[i] == want, "w %g, x %g, v %g: number %d is %g", w, x, v, i, out[i]);
    }
    float ran = out[N] - before;
    before = out[N];
    return (int)ran / N;
}

static void test_executor(int threads, bool guards) {
    dl_plan *p = make_plan();
    dl_error err = {0};
    if (!p) return;
    dlr_exec *e = dlr_exec_open(p, (dlr_exec_options){.threads = threads, .guards = guards}, &err);
    CHECK(e && dlr_state_init(e, 1, &err), "%s", err.message);
    if (!e) return;
    const int again = guards ? 2 : 0;
    set(e, "w", 1), set(e, "v", 10), set(e, "x", 3);
    (void)run(e, 1, 3, 10); /* counts of an earlier object are unknown */
    CHECK(run(e, 1, 3, 10) == again, "a second run");
    set(e, "x", 4);
    CHECK(run(e, 1, 4, 10) == again, "another input");
    set(e, "w", 2);
    CHECK(run(e, 2, 4, 10) == 2, "another weight");
    set(e, "v", 20);
    CHECK(run(e, 2, 4, 20) == 2, "another statistic");
    CHECK(run(e, 2, 4, 20) == again, "the same");
    float *w = dlr_exec_host(e, dlr_exec_variable(e, "w"), DLR_UPDATE);
    for (int i = 0; i < N; i++) w[i] += 1;
    CHECK(run(e, 3, 4, 20) == 2, "a weight in place");
    (void)dlr_exec_host(e, dlr_exec_variable(e, "w"), DLR_READ);
    CHECK(run(e, 3, 4, 20) == again, "a weight that was read");
    dlr_exec_run(e, OTHER, NULL);
    memset(dlr_exec_arena(e) + OWN, 0xff, ARENA - OWN); /* as that program might do */
    CHECK(run(e, 3, 4, 20) > 1, "another program");
    CHECK(run(e, 3, 4, 20) == again, "the same as before");
    dlr_exec_run_launch(e, PREDICT, 0);
    (void)run(e, 3, 4, 20);
    dlr_exec_run_launch(e, OTHER, 0);
    memset(dlr_exec_arena(e) + OWN, 0xff, ARENA - OWN);
    CHECK(run(e, 3, 4, 20) > 1, "a launch of another program");
    CHECK(dlr_exec_check(e, &err), "%s", err.message);
    dlr_exec_close(e);
    dl_arena_free(p->arena);
}

/* ---- compiled plans ---- */

/* Kernels that transform, pack and transpose weights; the steps of a scan share theirs. */
static const char model[] =
    "module Cell(n)(x, h):\n"
    "    h = tanh(cat(x, h, over=F) |> linear(n) @all)\n"
    "    return [h, h]\n"
    "model M():\n"
    "    input x: f32[N, C=32, H=12, W=12]\n"
    "    input s: f32[N, T=5, F=24]\n"
    "    target t: f32[N, E=9]\n"
    "    y = x |> conv(64, 3, pad=1) @c |> relu |> conv(64, 3, pad=1, groups=16) @g |> relu\n"
    "    y = y |> conv_transpose(40, 4, stride=2, pad=1) @up |> relu\n"
    "    y = y |> conv_transpose(2, 4, stride=2, pad=1) @few\n"
    "    z = s |> lstm(20) @rnn\n"
    "    z, last = scan(Cell(20) @cell, z, expand(0.1, N=N, F=20), over=T)\n"
    "    y = mean(y, over=[C, H, W]) * (last |> linear(9) @last as [N, E])\n"
    "    loss = mean((y - t)**2)\n"
    "    output y\n";

static dl_module *build(dl_arena *arena) {
    dl_source *s = dl_source_new(arena, "m.dl", model, sizeof model - 1);
    dl_diags *d = dl_diags_new(arena, s);
    dl_model *m = dl_model_parse(arena, s, d);
    dl_axis_size sizes[] = {{"N", 16}};
    dl_module *ir =
        m ? dl_model_build(arena, m, &(dl_model_config){.sizes = sizes, .nsizes = 1}, d) : NULL;
    dl_buf b = {0};
    if (!ir) dl_diags_print(&b, d, false);
    CHECK(ir, "%s", b.at ? b.at : "");
    dl_buf_free(&b);
    return ir;
}

/* Its training and evaluation, or its prediction. *grows: the bytes that own workspaces add to the
 * arena. */
static dl_plan *compile(dl_arena *arena, bool predicts, const dl_target *t, int64_t *grows) {
    dl_error err = {0};
    dl_module *m = build(arena);
    if (m && predicts && !dl_keep_prediction(m, &err)) m = NULL;
    dl_compile_options opt = {
        .target = t, .model = "M", .batch = 16, .validate = DL_VALIDATE_PASSES, .link = true};
    dl_compile_times times = {0};
    dl_plan *p = m ? dl_compile(arena, m, &opt, &times, &err) : NULL;
    CHECK(p && dl_plan_check(p, &err), "%s", err.message);
    *grows = p ? p->arena_bytes - dl_module_arena_bytes(m) : 0;
    return p;
}

/* The launches of a program with own workspaces, none of which another launch's argument or own
 * workspace overlaps, unless it is of the same kernel and weight; *shared: how many share one. */
static int count_own(const dl_plan *p, const dl_plan_program *g, int *shared) {
    int n = 0;
    *shared = 0;
    for (int i = 0; i < g->launches.n; i++) {
        const dl_plan_launch *a = &g->launches.at[i];
        const dl_plan_kernel *k = &p->kernels.at[a->kernel];
        const int64_t end = a->own + k->workspace;
        if (!a->own) continue;
        n++;
        for (int j = 0; j < g->launches.n; j++) {
            const dl_plan_launch *b = &g->launches.at[j];
            const dl_plan_kernel *l = &p->kernels.at[b->kernel];
            for (int at = 0; at < b->nargs; at++)
                CHECK(b->args[at] >= end || b->args[at] + l->arg_bytes[at] <= a->own,
                      "%s: argument %d of %s", g->name, at, l->name);
            if (j == i || !b->own || b->own >= end || b->own + l->workspace <= a->own) continue;
            *shared += j < i;
            CHECK(b->own == a->own && b->kernel == a->kernel &&
                      b->args[l->prepared] == a->args[k->prepared],
                  "%s: %s and %s", g->name, k->name, l->name);
        }
    }
    return n;
}

static void fill(dlr_exec *e, uint64_t seed) {
    dl_error err = {0};
    CHECK(dlr_state_init(e, seed, &err), "%s", err.message);
    for (int i = 0; i < dlr_exec_plan(e)->vars.n; i++) {
        const dl_plan_var *v = &dlr_exec_plan(e)->vars.at[i];
        if (!dl_plan_is_fed(v)) continue;
        int64_t n = dl_type_count(&v->type);
        float *x = malloc((size_t)n * sizeof *x);
        DL_CHECK(x);
        for (int64_t k = 0; k < n; k++)
            x[k] = (float)((uint64_t)(k * 37 + i) * seed % 101) / 50 - 1;
        dlr_state_write(e, dlr_exec_variable(e, v->name), DL_F32, x);
        free(x);
    }
}

/* The bits of "y" of a program's second of two runs, and of one after other weights. */
static void read_runs(const dl_plan *p, const char *program, char *bits, size_t bytes) {
    dlr_exec *e = open_plan(p, 2);
    if (!e) return;
    for (uint64_t seed = 1; seed < 3; seed++, bits += bytes) {
        fill(e, seed);
        for (int i = 0; i < 2; i++) dlr_exec_run(e, dlr_exec_program(e, program), NULL);
        void *y = read_output(e, dlr_exec_program(e, program), "y", DL_F32);
        if (y) memcpy(bits, y, bytes);
        free(y);
    }
    dlr_exec_close(e);
}

/* The same plan without own workspaces. */
static const dl_plan *without_own(dl_arena *arena, const dl_plan *p) {
    dl_plan *bare = DL_NEW(arena, dl_plan);
    *bare = *p;
    memset(&bare->programs, 0, sizeof bare->programs);
    for (int i = 0; i < p->programs.n; i++) {
        dl_plan_program g = p->programs.at[i];
        memset(&g.launches, 0, sizeof g.launches);
        for (int j = 0; j < p->programs.at[i].launches.n; j++) {
            dl_plan_launch l = p->programs.at[i].launches.at[j];
            l.own = 0;
            dl_push(arena, &g.launches, l);
        }
        dl_push(arena, &bare->programs, g);
    }
    return bare;
}

static void test_compiled(const char *name) {
    enum { BYTES = 16 * 9 * 4 };
    char own[2][2 * BYTES], shared[2 * BYTES];
    const char *here = compiled_target(name);
    dl_error err = {0};
    const dl_target *t = here ? dl_target_find(NULL, here, &err) : NULL;
    if (!t) return;
    dl_arena *arena = dl_arena_new(NULL);
    for (int predicts = 0; predicts < 2; predicts++) {
        int64_t grows;
        const dl_plan *p = compile(arena, predicts, t, &grows);
        if (!p) break;
        CHECK(predicts ? grows > 0 : grows == 0, "%s: %lld bytes more", name, (long long)grows);
        const char *program = predicts ? "predict" : "eval";
        const dl_plan_program *g = dl_plan_program_find(p, program);
        int common, n = count_own(p, g, &common), none;
        CHECK(n >= (predicts ? 11 : 6), "%s: %d of %d launches of %s", name, n, g->launches.n,
              program);
        CHECK(common >= 4, "%s: %d steps of %s share a weight", name, common, program);
        const dl_plan_program *train = dl_plan_program_find(p, "train");
        CHECK(!train || count_own(p, train, &none) == 0, "%s: training changes weights", name);
        read_runs(p, program, own[predicts], BYTES);
        read_runs(without_own(arena, p), program, shared, BYTES);
        CHECK(memcmp(own[predicts], shared, sizeof shared) == 0, "%s: other bits of %s", name,
              program);
    }
    dl_arena_free(arena);
}

int main(void) {
    char dir[] = "/tmp/dl_prepared_XXXXXX";
    if (!test_cache(dir)) return 1;
    for (int threads = 1; threads < 3; threads++) test_executor(threads, false);
    test_executor(1, true);
    for (int t = 0; t < COMPILED_CPUS; t++) test_compiled(compiled_targets[t]);
    return dl_test_end();
}
