/* A GPU by itself, with kernels of a few lines: numbers, faults and who is told of them, memory,
 * what DLR_DEBUG=guard finds.
 *
 *     test_gpu             on the first GPU, compiled by NVRTC (77: there is no driver, device or
 * NVRTC) test_gpu emulated    the same text on the emulated device (77: no C++ compiler), so that
 * this works when it meets a GPU test_gpu fault       what it runs of itself with
 * DLR_DEBUG=launches: a kernel that fails, by name */
#include "tests/check.h"

#include <math.h>

#include "compiler/cuda/cuda.h"
#include "compiler/target/backend.h"
#include "runtime/checkpoint/tensors.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/state.h"
#include "tests/unit/plan_fixture.h"

enum { N = 1024, BYTES = 4 * N, X = BYTES, Y = 3 * BYTES, ARENA = 5 * BYTES };
/* Every kernel: x (read), y (stored), N numbers each, 64 a block; and what else it does. */
enum { RIGHT, AFTER, BEFORE, INPUT, BEYOND, MEAN, ILLEGAL, NKERNELS };
static const struct {
    const char *name, *also;
} kernels[NKERNELS] = {
    [RIGHT] = {"right", ""},
    [AFTER] = {"after", "if (i == 1023) y[1024] = 7;"},
    [BEFORE] = {"before", "if (i == 0) y[-2] = 7;"},
    [INPUT] = {"input", "if (i == 70) x[70] = 7;"},
    [BEYOND] = {"beyond_workspace", "if (i == 5) w[1024] = 7;"},
    [MEAN] =
        {"mean",
         "if (i == 0) { float s = 0; for (int k = 0; k < 1024; k++) s += x[k]; y[0] = s / 1024; }"},
    [ILLEGAL] = {"illegal", "if (i == 9) *(volatile float *)16 = 7;"},
};
static bool emulated;
static const char *device;

static bool build(dl_plan *p, const dl_target *t, dl_error *err) {
    dl_buf source = {0};
    int compiled;
    t->backend->open(&source, t, &(dl_emitted){0});
    for (int i = 0; i < NKERNELS; i++)
        dl_putf(&source,
                "extern \"C\" __global__ void __launch_bounds__(64) %s_0(float *x, float *y, char "
                "*workspace) {\n"
                "    int i = (int)(blockIdx.x * 64 + threadIdx.x);\n    float *w = (float "
                "*)workspace;\n"
                "    y[i] = 2 * x[i] + 1;\n    w[i] = y[i];\n    %s\n}\n",
                kernels[i].name, kernels[i].also);
    dl_push(p->arena, &p->objects, (dl_plan_object){.source = dl_strdup(p->arena, source.at)});
    dl_buf_free(&source);
    return t->backend->build(p->arena, 1, p->objects.at, t, NULL, &compiled, err);
}

static const dl_target *find_target(dl_error *err) {
    int major, minor;
    if (emulated) return dl_target_find(NULL, "cuda:sm_90a:emulated", err);
    if (!dlr_cuda_capability(device, &major, &minor, err)) return NULL;
    return dl_target_of_gpu(major, minor, err);
}

static dl_plan *make_plan(const dl_target *t) {
    dl_error err = {0};
    dl_plan *p = new_plan(ARENA);
    bool built = build(p, t, &err);
    CHECK(built, "%s", err.message);
    if (!built) return NULL;
    p->target = t->name;
    add_var(p, DL_VAR_INPUT, "x", vector(N), (dl_init){0}, X);
    add_var(p, DL_VAR_STATE, "y", vector(N), (dl_init){0}, Y);
    for (int i = 0; i < NKERNELS; i++) {
        add_kernel(p, kernels[i].name, 1, N / 64, 0, BYTES, 0, 2, (int64_t[]){BYTES, BYTES});
        p->kernels.at[i].threads[0] = 64;
        dl_push(p->arena, &p->kernels.at[i].stores,
                ((dl_plan_store){1, vector(N), "add", "m.dl:3"}));
        dl_plan_program *program = add_program(p, kernels[i].name);
        if (i == ILLEGAL) add_launch(p, program, RIGHT, (int64_t[]){X, Y});
        add_launch(p, program, i, (int64_t[]){X, Y});
        dl_plan_result loss = {.role = DL_RESULT_LOSS,
                               .name = "loss",
                               .type = dl_scalar(DL_F32),
                               .offset = Y,
                               .var = -1};
        dl_push(p->arena, &program->results, loss);
    }
    return p;
}

static dlr_exec *open_exec(const dl_plan *p, dl_error *err) {
    return dlr_exec_open(p, (dlr_exec_options){.threads = 1, .device = device}, err);
}

static void put(dlr_exec *e, float first) {
    float x[N];
    for (int i = 0; i < N; i++) x[i] = first + (float)i;
    dlr_state_write(e, dlr_exec_variable(e, "x"), DL_F32, x);
}

static bool is_right(dlr_exec *e, float first) {
    float y[N];
    int wrong = 0;
    dlr_state_read(e, dlr_exec_variable(e, "y"), DL_F32, y);
    for (int i = 0; i < N; i++) wrong += y[i] != 2 * (first + (float)i) + 1;
    return wrong == 0;
}

/* By itself, as a graph, and several runs before the first is read. */
static void test_steps(const dl_plan *p) {
    dl_error err = {0};
    dlr_exec *e = open_exec(p, &err);
    CHECK(e, "%s", err.message);
    if (!e) return;
    put(e, 0), dlr_exec_run_launch(e, RIGHT, 0);
    CHECK(is_right(e, 0), "one launch");
    put(e, 5), dlr_exec_run(e, RIGHT, NULL);
    CHECK(is_right(e, 5), "a graph");
    int64_t ns = 0;
    put(e, 7), dlr_exec_run(e, RIGHT, &ns);
    CHECK(is_right(e, 7) && ns > 0 && ns < 1000000000, "timed: %lld ns", (long long)ns);
    dlr_view loss = dlr_exec_result(e, MEAN, DL_RESULT_LOSS, NULL);
    int ahead = dlr_exec_ahead(e), started = 0;
    for (int taken = 0; taken < 20; taken++) {
        for (; started < 20 && started - taken < ahead; started++)
            put(e, (float)started), dlr_exec_start(e, MEAN);
        dlr_exec_wait_oldest(e);
        CHECK(dlr_scalar(e, loss) == taken + 511.5, "run %d: %g", taken, dlr_scalar(e, loss));
    }
    CHECK(dlr_exec_check(e, &err), "%s", err.message);
    dlr_exec_close(e);
}

static void expect_found(const dl_plan *p, int program, const char *text) {
    dl_error err = {0};
    setenv("DLR_DEBUG", "guard", 1);
    dlr_exec *e = open_exec(p, &err);
    unsetenv("DLR_DEBUG");
    CHECK(e, "%s", err.message);
    if (!e) return;
    put(e, 3), dlr_exec_run(e, program, NULL);
    bool right = is_right(e, 3), well = dlr_exec_check(e, &err);
    CHECK(well == !text && (!text || strstr(err.message, text)), "want '%s', got '%s'",
          text ? text : "nothing", err.message);
    CHECK(text || right, "what a guarded kernel made");
    dlr_exec_close(e);
}

static void test_guard(const dl_plan *p) {
    expect_found(p, RIGHT, NULL);
    expect_found(p, AFTER,
                 "kernel 'after' (m.dl:1) wrote outside of its arguments, first at byte 4096 of "
                 "argument 1, "
                 "what 'add'");
    expect_found(
        p, BEFORE,
        "kernel 'before' (m.dl:1) wrote outside of its arguments, first at byte -8 of argument 1");
    expect_found(p, INPUT,
                 "kernel 'input' (m.dl:1) wrote what it may only read, first at byte 282 of "
                 "argument 0, 'x'");
    expect_found(p, BEYOND, "wrote outside of its arguments, first at byte 4096 of its workspace");
}

/* A kernel that faults: nothing that is read then is a number, and a driver lets the process have
 * no other context. Which kernel it was is told by a run without graphs, another process. */
static void test_fault(const dl_plan *p, const char *where) {
    dl_error err = {0};
    dlr_exec *e = open_exec(p, &err);
    CHECK(e, "%s", err.message);
    if (!e) return;
    put(e, 1), dlr_exec_run(e, ILLEGAL, NULL);
    CHECK(isnan(dlr_scalar(e, dlr_exec_result(e, ILLEGAL, DL_RESULT_LOSS, NULL))),
          "a number of a device that failed");
    CHECK(!dlr_exec_check(e, &err) && strstr(err.message, where), "%s", err.message);
    dlr_exec_close(e);
    err = (dl_error){0};
    e = open_exec(p, &err);
    CHECK(!e && err.code == DL_RESOURCE, "a context after a fault: %s", err.message);
    dlr_exec_close(e);
}

static void test_faults(const dl_plan *p, const char *program) {
    dl_buf again = {0};
    dl_putf(&again, "DLR_DEBUG=launches '%s' fault", program);
    CHECK(system(again.at) == 0, "%s", again.at);
    dl_buf_free(&again);
    test_fault(p, "in the program 'illegal'; run again with DLR_DEBUG=launches");
}

static void test_memory(dl_plan *p) {
    dlr_device_memory before, now;
    dl_error err = {0};
    p->arena_bytes = emulated ? (int64_t)384 << 20 : (int64_t)8 << 30;
    CHECK(dlr_device_predict(p, device, &before, &err), "%s", err.message);
    dlr_exec *e = open_exec(p, &err);
    CHECK(e, "%s", err.message);
    if (e) {
        put(e, 1), dlr_exec_run(e, RIGHT, NULL);
        int64_t predicted = before.before + before.plan + before.code + before.graphs;
        CHECK(dlr_exec_memory(e, &now) && llabs(now.seen - predicted) * 100 <= now.seen,
              "%lld bytes predicted, %lld seen", (long long)predicted, (long long)now.seen);
        printf("memory: %.1f MiB predicted, %.1f seen, %.1f before\n", (double)predicted / 0x1p20,
               (double)now.seen / 0x1p20, (double)before.before / 0x1p20);
    }
    dlr_exec_close(e);
    err = (dl_error){0};
    p->arena_bytes = 2 * before.total;
    e = open_exec(p, &err);
    CHECK(!e && err.code == DL_RESOURCE && strstr(err.message, "this run needs") &&
              strstr(err.message, "MiB are free") &&
              strstr(err.message, "most at once touches kernel"),
          "%s", err.message);
    dlr_exec_close(e);
    p->arena_bytes = ARENA;
}

static void test_arguments(dl_plan *p) {
    dl_error err = {0};
    p->kernels.at[MEAN].symbol = "nowhere";
    dlr_exec *e = open_exec(p, &err);
    CHECK(!e && err.code == DL_INPUT &&
              strstr(err.message, "no function nowhere_0 for kernel 'mean'"),
          "%s", err.message);
    dlr_exec_close(e);
    p->kernels.at[MEAN].symbol = "mean";
}

int main(int argc, char **argv) {
    dl_error err = {0};
    emulated = argc > 1 && strcmp(argv[1], "emulated") == 0;
    device = emulated ? "cuda:emulated" : "cuda";
    uint64_t key;
    dl_arena *arena = dl_arena_new(NULL);
    const dl_target *t = find_target(&err);
    if (!t || !t->backend->toolchain(arena, t, &key, &err)) {
        dl_test_skip("%s", err.message);
        return 77;
    }
    dl_plan *p = make_plan(t);
    dl_arena_free(arena);
    if (!p) return dl_test_end();
    if (argc > 1 && strcmp(argv[1], "fault") == 0) {
        test_fault(p, "kernel 'illegal' (m.dl:1)");
        return dl_test_end();
    }
    test_steps(p);
    test_arguments(p);
    test_memory(p);
    test_guard(p);
    if (!emulated) test_faults(p, argv[0]); /* there, the address would be this process's */
    dl_arena_free(p->arena);
    return dl_test_end();
}
