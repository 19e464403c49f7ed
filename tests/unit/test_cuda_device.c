/* The CUDA device over the emulated driver, on a plan made by hand whose object is what the
 * emulation makes of a source: kernels that run when they are launched (ir/plan/plan.h); and the
 * errors of finding a driver. */
#include "tests/unit/cuda_device.h"

#include "tests/check.h"

#include "runtime/checkpoint/tensors.h"
#include "tests/emulator/cuda_emulator.h"
#include "tests/unit/plan_fixture.h"

/* Kernels here take where they run from globals of the object, and fail by setting a text. */
static const char source[] =
    "#include <stdio.h>\n"
    "static unsigned block, threads, dynamic; static const char *wrong;\n"
    /* scale: x, y. y = 2 x + 1: a block of 64 threads an element each. */
    "void scale_0(const float *x, float *y, char *workspace) {\n"
    "    for (unsigned t = 0; t < threads; t++) y[block * 64 + t] = 2 * x[block * 64 + t] + 1;\n"
    "}\n"
    /* loss: x, out. Partial sums into the workspace, then one block adds them. */
    "void loss_0(const float *x, float *out, char *workspace) {\n"
    "    float s = 0; for (int i = 0; i < 64; i++) s += x[block * 64 + i];\n"
    "    ((float *)workspace)[block] = s;\n"
    "}\n"
    "void loss_1(const float *x, float *out, char *workspace) {\n"
    "    float s = 0; for (int i = 0; i < 16; i++) s += ((float *)workspace)[i];\n"
    "    if (dynamic != 60000) wrong = \"dynamic shared memory is not what was asked for\";\n"
    "    *out = s / 1024;\n"
    "}\n"
    /* check: x. Fails where the first element is above 1000; a list of no blocks is never run. */
    "void check_0(const float *x, char *workspace) {\n"
    "    if (x[0] > 1000) wrong = \"an address outside of x\";\n"
    "}\n"
    "void broken_0(const float *x, char *workspace) { wrong = \"a barrier that not all threads "
    "reach\"; }\n"
    "void check_1(const float *x, char *workspace) { wrong = \"ran without blocks\"; }\n"
    "int strcmp(const char *, const char *);\n"
    "static const struct { const char *name; void *run; int nargs; } kernels[] = {{\"scale_0\", "
    "scale_0, "
    "3},\n"
    "    {\"loss_0\", loss_0, 3}, {\"loss_1\", loss_1, 3}, {\"check_0\", check_0, 2}, "
    "{\"check_1\", check_1, "
    "2},\n"
    "    {\"broken_0\", broken_0, 2}};\n"
    "int dl_emulated_launch(const char *name, int nargs, void *const *args, unsigned grid, "
    "unsigned n,\n"
    "                       unsigned shared, unsigned seed, char *error, unsigned long size) {\n"
    "    int k = 0; while (k < 6 && strcmp(kernels[k].name, name)) k++;\n"
    "    threads = n, dynamic = shared, wrong = k < 6 ? 0 : \"no such kernel\";\n"
    "    if (k < 6 && nargs >= 0 && nargs != kernels[k].nargs) wrong = \"another number of "
    "arguments\";\n"
    "    for (block = 0; k < 6 && block < grid; block++)\n"
    "        if (nargs == 3)\n"
    "            ((void (*)(void *, void *, void *))kernels[k].run)(*(void **)args[0], *(void "
    "**)args[1],\n"
    "                                                               *(void **)args[2]);\n"
    "        else ((void (*)(void *, void *))kernels[k].run)(*(void **)args[0], *(void "
    "**)args[1]);\n"
    "    if (wrong) snprintf(error, size, \"%s: %s\", name, wrong);\n"
    "    return wrong != 0;\n"
    "}\n";

static void set_blocks(dl_plan_kernel *k, int threads0, int threads1, int shared1) {
    k->threads[0] = threads0, k->threads[1] = threads1, k->shared[1] = shared1;
}

static bool make_plan(dl_plan **out) {
    dl_plan *p = *out = new_plan_of(ARENA, source);
    if (!p) return false;
    p->target = "cuda:sm_90a:emulated";
    add_var(p, DL_VAR_INPUT, "x", vector(N), (dl_init){0}, X);
    add_var(p, DL_VAR_PARAM, "y", vector(N), (dl_init){.kind = DL_INIT_NORMAL, .b = 1}, Y);
    add_var(p, DL_VAR_HYPER, "rate", dl_scalar(DL_F32), (dl_init){0}, RATE);
    add_var(p, DL_VAR_COPY, "low", type_of(DL_BF16, (dl_layout){0}, 1, (int64_t[]){N}),
            (dl_init){0}, COPY);
    p->vars.at[3].of = "y";
    add_kernel(p, "scale", 1, N / 64, 0, 0, 0, 2, (int64_t[]){N * 4, N * 4});
    add_kernel(p, "loss", 2, N / 64, 1, N / 64 * 4, 0, 2, (int64_t[]){N * 4, 4});
    add_kernel(p, "check", 2, 1, 0, 0, 0, 1, (int64_t[]){N * 4});
    add_kernel(p, "broken", 1, 1, 0, 0, 0, 1, (int64_t[]){N * 4});
    set_blocks(&p->kernels.at[3], 32, 0, 0);
    dl_push(p->arena, &p->kernels.at[0].stores, ((dl_plan_store){1, vector(N), "add", "m.dl:1"}));
    dl_push(p->arena, &p->kernels.at[1].stores,
            ((dl_plan_store){1, dl_scalar(DL_F32), "sum", "m.dl:2"}));
    set_blocks(&p->kernels.at[0], 64, 0, 0);
    set_blocks(&p->kernels.at[1], 32, 96, 60000);
    set_blocks(&p->kernels.at[2], 32, 32, 0);
    add_program(p, "train"), add_program(p, "eval"), add_program(p, "broken");
    dl_plan_program *train = &p->programs.at[0], *eval = &p->programs.at[1];
    add_launch(p, train, 0, (int64_t[]){X, Y});
    add_launch(p, train, 2, (int64_t[]){Y});
    add_launch(p, train, 1, (int64_t[]){Y, LOSS});
    add_launch(p, eval, 1, (int64_t[]){X, LOSS});
    add_launch(p, &p->programs.at[2], 0, (int64_t[]){X, Y}),
        add_launch(p, &p->programs.at[2], 3, (int64_t[]){X});
    dl_plan_result loss = {.role = DL_RESULT_LOSS,
                           .name = "loss",
                           .type = dl_scalar(DL_F32),
                           .offset = LOSS,
                           .var = -1};
    dl_push(p->arena, &train->results, loss);
    dl_push(p->arena, &eval->results, loss);
    return true;
}

dlr_exec *open_exec(const dl_plan *p) {
    dl_error err = {0};
    dlr_exec *e =
        dlr_exec_open(p, (dlr_exec_options){.threads = 2, .device = "cuda:emulated"}, &err);
    CHECK(e, "%s", err.message);
    return e;
}

void put(dlr_exec *e, float value) {
    float x[N];
    for (int i = 0; i < N; i++) x[i] = value + (float)(i % 2);
    dlr_state_write(e, dlr_exec_variable(e, "x"), DL_F32, x);
}

/* The loss of a step on `value`: the mean of 2 x + 1. */
static double wanted(double value) { return 2 * (value + 0.5) + 1; }

static void test_steps(const dl_plan *p) {
    dlr_exec *e = open_exec(p);
    if (!e) return;
    dl_error err = {0};
    CHECK(!dlr_exec_arena(e) && !dlr_exec_data(e, dlr_exec_variable(e, "x")), "no host pointer");
    dlr_view y = dlr_exec_variable(e, "y"), loss = dlr_exec_result(e, 0, DL_RESULT_LOSS, NULL);
    float got[N];
    for (int step = 0; step < 3; step++) {
        put(e, (float)step);
        dlr_exec_run(e, 0, NULL);
        CHECK(dlr_scalar(e, loss) == wanted(step), "step %d: %g", step, dlr_scalar(e, loss));
        dlr_state_read(e, y, DL_F32, got);
        CHECK(got[0] == 2 * (float)step + 1 && got[N - 1] == 2 * (float)step + 3);
    }
    dlr_exec_run(e, 1, NULL); /* the same variables, another program */
    CHECK(dlr_scalar(e, loss) == 2.5, "%g", dlr_scalar(e, loss));
    for (int i = 0; i < p->programs.at[0].launches.n; i++) dlr_exec_run_launch(e, 0, i);
    double now;
    dlr_state_read(e, loss, DL_F64, &now);
    CHECK(now == wanted(2), "launch by launch: %g", now);
    int64_t ns[3] = {-1, -1, -1};
    dlr_exec_run(e, 0, ns);
    CHECK(ns[0] > 0 && ns[1] > 0 && ns[2] > 0);
    CHECK(dlr_exec_check(e, &err), "%s", err.message);
    dlr_exec_close(e);
}

/* Runs ahead of what is read: each result is its own run's, though later ones have been started. */
static void test_ahead(const dl_plan *p) {
    dlr_exec *e = open_exec(p);
    if (!e) return;
    dlr_view loss = dlr_exec_result(e, 0, DL_RESULT_LOSS, NULL);
    int ahead = dlr_exec_ahead(e), started = 0, taken = 0;
    CHECK(ahead > 1);
    for (; taken < 9; taken++) {
        for (; started < 9 && started - taken < ahead; started++)
            put(e, (float)started), dlr_exec_start(e, 0);
        dlr_exec_wait_oldest(e);
        CHECK(dlr_scalar(e, loss) == wanted(taken), "run %d: %g", taken, dlr_scalar(e, loss));
    }
    dlr_exec_close(e);
}

/* Parts of tensors, written and read in pieces and in turn; a parameter's copy in another type is
 * renewed. */
static void test_host(const dl_plan *p) {
    dlr_exec *e = open_exec(p);
    if (!e) return;
    dl_error err = {0};
    dlr_view x = dlr_exec_variable(e, "x"), y = dlr_exec_variable(e, "y"),
             low = dlr_exec_variable(e, "low"), rate = dlr_exec_variable(e, "rate");
    float from[N], got[N], all[N];
    double wide[100], tenth = 0.1;
    for (int i = 0; i < N; i++) from[i] = (float)i;
    for (int at = 0; at < N; at += 100) {
        int64_t n = N - at < 100 ? N - at : 100;
        dlr_state_write_range(e, y, (dlr_range){at, n}, DL_F32, from + at);
        dlr_state_write_range(e, x, (dlr_range){at, n}, DL_F32, from + N - at - n);
        dlr_state_write(e, rate, DL_F64, &tenth);
        dlr_state_read_range(e, y, (dlr_range){at, n}, DL_F64, wide);
        CHECK(wide[0] == at && wide[n - 1] == at + n - 1);
    }
    dlr_state_read(e, low, DL_F32, got);
    CHECK(got[255] == 0, "the copy is stale, and %g", (double)got[255]);
    dlr_exec_refresh_copies(e);
    dlr_state_read(e, low, DL_F32, got);
    CHECK(got[255] == 255, "%g", (double)got[255]);
    dlr_exec_run(e, 1, NULL); /* reads x alone */
    CHECK(dlr_scalar(e, dlr_exec_result(e, 1, DL_RESULT_LOSS, NULL)) == 511.5);
    dlr_state_read(e, y, DL_F32, got);
    CHECK(memcmp(got, from, sizeof got) == 0);
    dlr_state_read(e, low, DL_F32, got);
    CHECK(got[1] == 1 && got[255] == 255 && got[1023] == 1024, "%g %g %g", (double)got[1],
          (double)got[255], (double)got[1023]);
    CHECK(dlr_scalar(e, rate) == (double)0.1f);
    CHECK(dlr_state_init(e, 7, &err), "%s", err.message);
    dlr_state_read(e, y, DL_F32, all);
    dlr_exec_close(e);
    dl_plan cpu = *p; /* the same numbers begin on every device */
    cpu.target = "cpu:generic", cpu.kernels.n = cpu.objects.n = cpu.programs.n = 0;
    dlr_exec *other = dlr_exec_open(&cpu, (dlr_exec_options){.threads = 1}, &err);
    CHECK(other && dlr_state_init(other, 7, &err), "%s", err.message);
    if (other) dlr_state_read(other, dlr_exec_variable(other, "y"), DL_F32, got);
    CHECK(memcmp(got, all, sizeof got) == 0);
    dlr_exec_close(other);
}

/* The prediction of the device's memory is what is in use, within a hundredth; and no step takes
 * more. The emulated one's is the machine's. */
static void test_memory(dl_plan *p) {
    dlr_device_memory before, now, later;
    dl_error err = {0};
    int64_t machine = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    p->arena_bytes = (int64_t)384 << 20;
    CHECK(dlr_device_predict(p, "cuda:emulated", &before, &err), "%s", err.message);
    CHECK(before.seen == before.before && before.before > 0 && before.plan >= p->arena_bytes &&
              before.code > 0,
          "%lld", (long long)before.seen);
    CHECK(before.total < machine, "%lld bytes on a machine of %lld", (long long)before.total,
          (long long)machine);
    dlr_exec *e = open_exec(p);
    if (e)
        put(e, 1), dlr_exec_run(e, 0, NULL),
            dlr_scalar(e, dlr_exec_result(e, 0, DL_RESULT_LOSS, NULL));
    CHECK(e && dlr_exec_memory(e, &now) && now.before == before.before &&
          now.total == before.total);
    int64_t predicted = before.before + before.plan + before.code + before.graphs;
    CHECK(llabs(now.seen - predicted) * 100 <= now.seen && now.seen > now.before + p->arena_bytes,
          "%lld bytes predicted, %lld seen", (long long)predicted, (long long)now.seen);
    for (int i = 0; e && i < 3; i++) put(e, 1), dlr_exec_run(e, 0, NULL);
    CHECK(e && dlr_exec_memory(e, &later) && later.seen == now.seen, "%lld", (long long)later.seen);
    dlr_exec_close(e);
    const size_t others = (size_t)1 << 30;
    emulator()->set((cuda_emulator_options){.others = others});
    CHECK(dlr_device_predict(p, NULL, &later, &err) &&
              later.before == before.before + (int64_t)others && later.total == before.total,
          "%lld before, with others %lld", (long long)before.before, (long long)later.before);
    emulator()->set((cuda_emulator_options){.others = (size_t)before.total});
    CHECK(!dlr_exec_open(p, (dlr_exec_options){.threads = 1, .device = "cuda:emulated"}, &err) &&
              err.code == DL_RESOURCE && strstr(err.message, "this run needs 384.") &&
              strstr(err.message, " and 0.0 of its ") &&
              strstr(err.message, "other programs and the driver's context hold"),
          "%s", err.message);
    err = (dl_error){0};
    emulator()->set((cuda_emulator_options){0});
    CHECK(dlr_device_predict(p, NULL, &later, &err) && later.before == before.before,
          "all was given back");
    p->arena_bytes = ARENA;
    p->target = "cpu:generic";
    CHECK(!dlr_device_predict(p, NULL, &before, &err) && !err.code && before.total == 0);
    p->target = "cuda:sm_90a:emulated";
}

/* The lines that DLR_DEBUG=driver prints of steps in a row. */
static void test_counts(const dl_plan *p) {
    fflush(stderr);
    int kept = dup(2);
    FILE *f = tmpfile();
    char text[2000] = "";
    dup2(fileno(f), 2);
    setenv("DLR_DEBUG", "other,driver", 1);
    dlr_exec *e = open_exec(p);
    unsetenv("DLR_DEBUG");
    for (int i = 0; e && i < 6; i++) {
        put(e, (float)i);
        dlr_exec_start(e, 0);
        if (i >= 1)
            dlr_exec_wait_oldest(e), dlr_scalar(e, dlr_exec_result(e, 0, DL_RESULT_LOSS, NULL));
    }
    if (e) dlr_exec_wait_oldest(e);
    for (int i = 0; e && i < 3; i++) { /* loops that wait for each step say so */
        dlr_exec_start(e, 0), dlr_exec_start(e, 0);
        dlr_exec_wait_oldest(e);
        float loss;
        dlr_state_read(e, dlr_exec_result(e, 0, DL_RESULT_LOSS, NULL), DL_F32, &loss);
        dlr_exec_start(e, 0);
        dlr_exec_wait_oldest(e), dlr_exec_wait_oldest(e);
    }
    dlr_exec_close(e);
    fflush(stderr), dup2(kept, 2), close(kept);
    rewind(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    CHECK(strstr(text, "driver: graph launches a step 1, synchronisations a step 0.27"), "%s",
          text);
    CHECK(strstr(text, "allocations a step 0."), "%s", text);
    CHECK(strstr(text, "15 runs, 15 graph launches"), "%s", text);
}

int main(void) {
    dl_plan *p;
    if (!make_plan(&p)) return 77;
    test_steps(p);
    test_ahead(p);
    test_host(p);
    test_counts(p);
    test_memory(p);
    test_opening(p);
    test_fault(p);
    test_asked_wrongly(p);
    test_not_finite(p);
    test_late(p);
    test_contexts();
    test_emulator();
    test_neighbours();
    test_drivers(p->arena);
    dl_arena_free(p->arena);
    CHECK(emulator()->lost() == 0, "%d things not given back", emulator()->lost());
    return dl_test_end();
}
