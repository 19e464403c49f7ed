/* Whole runs through the CUDA device: a model compiled for this CPU, its objects made into emulated
 * ones, so that a launch on the emulated driver runs the CPU's items. What a run writes must be, to
 * the bit, what the CPU's writes: weights, points, checkpoints, a run that went on; the same of
 * `dlc verify`'s parts; and a step must be one graph, that nobody waits for. */
#include "tests/check.h"

#include <stdlib.h>
#include <unistd.h>

#include "compiler/jit/jit_cc.h"
#include "compiler/session.h"
#include "compiler/target/backend.h"
#include "ir/base/dirs.h"
#include "ir/base/input.h"
#include "runtime/checkpoint/tensors.h"
#include "runtime/data/noise.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/state.h"
#include "runtime/formats/log.h"
#include "runtime/train/feed.h"
#include "runtime/train/rundir.h"
#include "runtime/train/train.h"
#include "tests/unit/plan_fixture.h"
#include "verify/verify.h"

static char folder[] = "/tmp/dl_cuda_train_XXXXXX";
static dl_arena *arena;
static dl_session *session;

static dl_plan *compile_small(const dl_target **target, dl_error *err) {
    char *argv[] = {"test", "--model=tests/data/small.dl", "--data_size=8", "--local_batch_size=2",
                    NULL};
    dl_config *c = dl_config_open(arena, 4, argv, NULL, err);
    session = c ? dl_session_open(arena, c, 1, NULL, err) : NULL;
    dl_compile_options opt;
    if (!session || !dl_session_options(session, "cpu", &opt, err)) return NULL;
    *target = opt.target;
    return dl_session_compile(session, &opt, err);
}

/* The symbols that emulated objects export, over the CPU's kernels: a block is an item. */
static const char launcher[] =
    "\nint strcmp(const char *, const char *);\n"
    "int dl_emulated_launch(const char *kernel, int nargs, void *const *args, unsigned grid, "
    "unsigned "
    "block,\n"
    "                       unsigned shared, unsigned seed, char *error, unsigned long size);\n"
    "int dl_emulated_launch(const char *kernel, int nargs, void *const *args, unsigned grid, "
    "unsigned "
    "block,\n"
    "                       unsigned shared, unsigned seed, char *error, unsigned long size) {\n"
    "    static char scratch[%lld] __attribute__((aligned(64)));\n"
    "    typedef void fn(char *const *, long, char *, char *);\n"
    "    static const struct { const char *name; fn *run; } kernels[] = {%s{0, 0}};\n"
    "    char *arg[512]; int k = 0;\n"
    "    (void)block, (void)shared, (void)seed, (void)error, (void)size;\n"
    "    while (kernels[k].name && strcmp(kernels[k].name, kernel)) k++;\n"
    "    for (int i = 0; grid && i < nargs; i++) arg[i] = *(char **)args[i];\n"
    "    for (unsigned item = 0; kernels[k].name && item < grid; item++)\n"
    "        kernels[k].run(arg, item, scratch, arg[nargs - 1]);\n"
    "    return !kernels[k].name;\n"
    "}\n";

static const char *names_of(const dl_plan *p, int object) {
    dl_buf b = {0};
    for (int i = 0; i < p->kernels.n; i++)
        for (int j = 0; p->kernels.at[i].object == object && j < p->kernels.at[i].phases; j++)
            dl_putf(&b, "{\"%s_%d\", (fn *)%s_%d}, ", p->kernels.at[i].symbol, j,
                    p->kernels.at[i].symbol, j);
    const char *names = dl_strdup(arena, b.at ? b.at : "");
    dl_buf_free(&b);
    return names;
}

static dl_plan *for_device(const dl_plan *p, const dl_target *target, dl_error *err) {
    dl_plan *q = DL_NEW(arena, dl_plan);
    *q = *p;
    q->target = "cuda:sm_90a:emulated", q->scratch_bytes = 0;
    q->kernels.at = DL_NEWS(arena, dl_plan_kernel, p->kernels.n);
    for (int i = 0; i < p->kernels.n; i++) {
        dl_plan_kernel *k = &q->kernels.at[i];
        *k = p->kernels.at[i], k->scratch = 0;
        for (int j = 0; j < k->phases; j++) k->threads[j] = 32;
    }
    q->objects.at = DL_NEWS(arena, dl_plan_object, p->objects.n);
    for (int i = 0; i < p->objects.n; i++) {
        const char *more =
            dl_format(arena, launcher, (long long)p->scratch_bytes + 64, names_of(p, i));
        q->objects.at[i] = p->objects.at[i]; /* with its libraries */
        q->objects.at[i].source = dl_format(arena, "%s%s", p->objects.at[i].source, more);
        q->objects.at[i].texts.n = 0;
    }
    int compiled;
    return dl_jit_compile(arena, q->objects.n, q->objects.at, target, NULL, &compiled, err) ? q
                                                                                            : NULL;
}

/* ---- runs ---- */

static dlr_dataset *open_noise(const dlr_exec *e, dlr_split split, int64_t samples, dl_error *err) {
    dlr_arrays *arrays = DL_NEW(arena, dlr_arrays);
    dlr_noise_options noise = {.samples = samples};
    if (!dlr_feed_arrays(e, arrays, err)) return NULL;
    dlr_dataset_options common = {.split = split, .seed = 5, .arrays = arrays};
    return dlr_dataset_open(&dlr_noise_loader, &noise, &common, err);
}

/* Trains for `epochs` of 7 steps, from the start or going on; false: it failed. */
static bool train(dlr_exec *e, const char *name, int64_t epochs, bool resume, dl_error *err) {
    dlr_rundir dir;
    if (!dlr_rundir_open(arena, dl_format(arena, "%s/%s", folder, name), &dir, err)) return false;
    dlr_dataset *train = open_noise(e, DLR_TRAIN, 14, err),
                *valid = open_noise(e, DLR_VALID, 4, err);
    dlr_hyper hypers[] = {
        {"optimizer.beta1", 0.9}, {"optimizer.beta2", 0.999}, {"optimizer.eps", 1e-8}};
    dlr_train_options o = {
        .exec = e,
        .dir = &dir,
        .model = {.graph = "g", .source = "s"},
        .start = {.seed = 5, .loss_scale = 65536, .hypers = hypers, .n_hypers = 3},
        .rate = {.schedule = {.start_lr = 1e-2,
                              .end_lr = 0,
                              .scaling = "none",
                              .global_batch = 2,
                              .base_batch = 2}},
        .data = {.train = train, .valid = valid, .workers = 1},
        .stop = {.epochs = epochs},
        .resume = {.wanted = resume},
        .checkpoints = {.keep = 2},
        .log = {.style = dlr_record_find("iters"), .hyperparams = ""},
        .save_weights = dl_format(arena, "%s/%s.safetensors", folder, name)};
    bool ok = train && valid && dlr_train(&o, err);
    dlr_dataset_close(train), dlr_dataset_close(valid);
    dlr_rundir_close(&dir);
    return ok;
}

static dlr_exec *open_exec(const dl_plan *p) {
    dl_error err = {0};
    dlr_exec *e = dlr_exec_open(p, (dlr_exec_options){.threads = 2}, &err);
    CHECK(e, "%s", err.message);
    return e;
}

static void expect_same(const char *a, const char *b) {
    dl_error err = {0};
    size_t n = 0, m = 0;
    char *x = dl_read_file(arena, dl_format(arena, "%s/%s.safetensors", folder, a), 1 << 24, &n,
                           &err),
         *y = dl_read_file(arena, dl_format(arena, "%s/%s.safetensors", folder, b), 1 << 24, &m,
                           &err);
    CHECK(x && y && n == m && memcmp(x, y, n) == 0, "%s and %s differ: %s", a, b, err.message);
}

/* The curves' values, those of time and memory apart. */
static void expect_same_losses(const char *a, const char *b) {
    dl_error err = {0};
    size_t n = 0, m = 0;
    const char *x = dl_read_file(arena, dl_format(arena, "%s/%s/metrics.jsonl", folder, a), 1 << 20,
                                 &n, &err),
               *y = dl_read_file(arena, dl_format(arena, "%s/%s/metrics.jsonl", folder, b), 1 << 20,
                                 &m, &err);
    int seen = 0;
    for (const char *at = x, *other = y; x && y && (at = strstr(at, "Loss/"));
         at++, other++, seen++) {
        other = strstr(other, "Loss/");
        size_t length = strcspn(at, ",}");
        CHECK(other && strncmp(at, other, length) == 0, "'%.*s' and '%.*s'", (int)length, at,
              (int)length, other ? other : "");
        if (!other) return;
    }
    CHECK(seen >= 6, "%d losses: %s", seen, err.message);
}

static void test_runs(const dl_plan *cpu, const dl_plan *device) {
    dl_error err = {0};
    dlr_exec *a = open_exec(cpu), *b = open_exec(device);
    CHECK(a && train(a, "cpu", 3, false, &err), "%s", err.message);
    CHECK(b && train(b, "device", 3, false, &err), "%s", err.message);
    expect_same("cpu", "device");
    expect_same_losses("cpu", "device");
    CHECK(b && train(b, "half", 1, false, &err), "%s",
          err.message); /* the same device, another run */
    dlr_exec_close(b);
    dlr_exec_close(a);
    b = open_exec(device);
    CHECK(b && train(b, "short", 2, false, &err) && train(b, "short", 3, true, &err), "%s",
          err.message);
    dlr_exec_close(b);
}

/* ---- what `dlc verify` does ---- */

static bool fill(dlr_exec *e, void *seed, dl_error *err) {
    const dl_plan *p = dlr_exec_plan(e);
    double rate = 1e-3;
    if (!dlr_state_init(e, *(uint64_t *)seed, err)) return false;
    for (int i = 0; i < p->vars.n; i++) {
        const dl_plan_var *v = &p->vars.at[i];
        dlr_view view = dlr_exec_variable(e, v->name);
        if (strncmp(v->name, "optimizer.lr.", 13) == 0) dlr_state_write(e, view, DL_F64, &rate);
        if (v->role != DL_VAR_INPUT && v->role != DL_VAR_TARGET) continue;
        int64_t n = dl_type_count(&v->type);
        float *noise = DL_NEWS(arena, float, n);
        for (int64_t k = 0; k < n; k++) noise[k] = (float)(k * 37 % 101 - 50) / 50;
        dlr_state_write(e, view, DL_F32, noise);
    }
    return true;
}

static void test_verify(const dl_plan *device) {
    dl_error err = {0};
    uint64_t seed = 3;
    dl_verify_run run = {{.threads = 2, .device = "cuda:emulated"}, fill, NULL, &seed};
    for (int i = 0; i < session->module->graphs.n; i++) {
        dl_verdict v = {0};
        CHECK(dl_verify_kernels(arena, session->module->graphs.at[i], device, &run, &v, &err), "%s",
              err.message);
        CHECK(v.compared > 0 && v.faults.n == 0, "%s",
              v.faults.n ? v.faults.at[0] : "nothing was compared");
    }
}

/* ---- what a step is to the driver ---- */

static void test_graph(const dl_plan *device) {
    fflush(stderr);
    int kept = dup(2);
    FILE *f = tmpfile();
    char text[20000] = "";
    dl_error err = {0};
    dup2(fileno(f), 2);
    setenv("DLR_DEBUG", "driver", 1);
    dlr_exec *e = open_exec(device);
    unsetenv("DLR_DEBUG");
    bool ok = e && train(e, "graph", 2, false, &err);
    dlr_exec_close(e);
    fflush(stderr), dup2(kept, 2), close(kept);
    rewind(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    CHECK(ok, "%s", err.message);
    CHECK(
        strstr(
            text,
            "driver: graph launches a step 1, synchronisations a step 0, allocations a step 0 (12 "
            "steps in a row; a step launches 0 kernels outside of graphs"),
        "%s", text);
}

/* ---- CUDA's own text ---- */

static const char text[] =
    "\n/* @sums m.dl:4 */\n"
    "extern \"C\" __global__ void __launch_bounds__(64) sums_0(const float "
    "*__restrict__ p0, float *__restrict__ p1,\n"
    "                                                        char *workspace) {\n"
    "    KD_SHARED(float, part);\n"
    "    int t = threadIdx.x;\n"
    "    part[t] = p0[blockIdx.x * 64 + t];\n"
    "    __syncthreads();\n"
    "    for (int n = 32; n > 0; n /= 2) {\n"
    "        if (t < n) part[t] += part[t + n];\n"
    "        __syncthreads();\n"
    "    }\n"
    "    if (t == 0) ((float *)workspace)[blockIdx.x] = part[0];\n"
    "}\n"
    "extern \"C\" __global__ void __launch_bounds__(32) sums_1(const float "
    "*__restrict__ p0, float *__restrict__ p1,\n"
    "                                                        char *workspace) {\n"
    "    float sum = 0;\n"
    "    for (int i = 0; i < 4; i++) sum += ((float *)workspace)[i];\n"
    "    if (threadIdx.x == 0) *p1 = sum;\n"
    "}\n";

/* The emulation's prelude and such a kernel, compiled as the backend does it, and launched by the
 * device. */
static void test_text(void) {
    enum { N = 256, X = 0, Y = 1024 };
    dl_error err = {0};
    const dl_target *t = dl_target_find(NULL, "cuda:sm_90a:emulated", &err);
    CHECK(t, "%s", err.message);
    if (!t) return;
    dl_emitted needs = {0};
    dl_buf b = {0};
    t->backend->open(&b, t, &needs);
    dl_puts(&b, text);
    dl_plan_object o = {.source = dl_strdup(arena, b.at)};
    dl_buf_free(&b);
    int compiled;
    if (!t->backend->build(arena, 1, &o, t, NULL, &compiled, &err)) {
        dl_test_skip("CUDA's text: %s", err.message);
        return;
    }
    dl_plan *p = new_plan(Y + 64);
    p->target = t->name;
    dl_push(p->arena, &p->objects, o);
    add_var(p, DL_VAR_INPUT, "x", vector(N), (dl_init){0}, X);
    add_kernel(p, "sums", 2, 4, 1, 16, 0, 2, (int64_t[]){N * 4, 4});
    p->kernels.at[0].threads[0] = 64, p->kernels.at[0].shared[0] = 256,
    p->kernels.at[0].threads[1] = 32;
    add_launch(p, add_program(p, "eval"), 0, (int64_t[]){X, Y});
    dl_plan_result loss = {
        .role = DL_RESULT_LOSS, .name = "loss", .type = dl_scalar(DL_F32), .offset = Y, .var = -1};
    dl_push(p->arena, &p->programs.at[0].results, loss);
    CHECK(t->backend->check(p, &err), "%s", err.message);
    dlr_exec *e = open_exec(p);
    float x[N];
    for (int i = 0; i < N; i++) x[i] = (float)i;
    for (int run = 0; e && run < 2; run++) {
        dlr_state_write(e, dlr_exec_variable(e, "x"), DL_F32, x);
        dlr_exec_run(e, 0, NULL);
        double got = dlr_scalar(e, dlr_exec_result(e, 0, DL_RESULT_LOSS, NULL));
        CHECK(got == N * (N - 1) / 2 + run && dlr_exec_check(e, &err), "%g %s", got, err.message);
        x[0]++;
    }
    dlr_exec_close(e);
    dl_arena_free(p->arena);
}

int main(void) {
    dl_error err = {0};
    arena = dl_arena_new(NULL);
    CHECK(mkdtemp(folder) != NULL);
    setenv("DLR_CACHE_DIR", dl_format(arena, "%s/cache", folder), 1);
    dlr_log_set_stderr(false);
    const dl_target *target = NULL;
    dl_plan *cpu = compile_small(&target, &err),
            *device = cpu ? for_device(cpu, target, &err) : NULL;
    int code = 0;
    if (device) {
        test_runs(cpu, device);
        test_verify(device);
        test_graph(device);
        test_text();
        code = dl_test_end();
    } else if (strstr(err.message, "compiler")) {
        dl_test_skip("%s", err.message);
        code = 77;
    } else {
        CHECK(false, "%s", err.message);
        code = dl_test_end();
    }
    dl_session_close(session);
    CHECK(dl_remove_tree(folder, &err), "%s", err.message);
    dl_arena_free(arena);
    return code;
}
