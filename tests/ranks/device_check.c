/* A device's collectives within a step, on a plan made by hand: a rank that is its group's only
 * one, on an emulated device, over the stand-in for NCCL. */
#include <string.h>

#include "runtime/cuda/cuda.h"
#include "runtime/exec/exec_internal.h"
#include "runtime/exec/state.h"
#include "tests/check.h"
#include "tests/emulator/cuda_emulator.h"
#include "tests/unit/plan_fixture.h"

enum { N = 64, BYTES = N * sizeof(float), X = 0, Y = BYTES, ARENA = 2 * BYTES };

/* add: x. x += 1. */
static const char source[] =
    "int dl_emulated_launch(const char *name, int nargs, void *const *args, unsigned grid,\n"
    "                       unsigned n, unsigned shared, unsigned seed, char *error,\n"
    "                       unsigned long size) {\n"
    "    for (int i = 0; grid && i < 64; i++) (*(float *const *)args[0])[i] += 1;\n"
    "    return 0;\n"
    "}\n";

static dl_plan *make_plan(void) {
    dl_plan *p = new_plan_of(ARENA, source);
    if (!p) return NULL;
    p->target = "cuda:sm_90a:emulated";
    add_var(p, DL_VAR_PARAM, "x", vector(N), (dl_init){0}, X);
    add_var(p, DL_VAR_PARAM, "y", vector(N), (dl_init){0}, Y);
    add_kernel(p, "add", 1, 1, 0, 0, 0, 1, (int64_t[]){BYTES});
    p->kernels.at[0].threads[0] = N;
    dl_plan_program *train = add_program(p, "train");
    add_launch(p, train, 0, (int64_t[]){X});
    add_launch(p, train, 0, (int64_t[]){X});
    for (int i = 0; i < 2; i++) {
        dl_plan_collective c = {.op = DL_OP_all_reduce,
                                .group = "dp",
                                .ranks = 1,
                                .dtype = DL_F32,
                                .outer = 1,
                                .inner = 1,
                                .size = N,
                                .own = N,
                                .from = i ? Y : X,
                                .to = Y,
                                .where = "m.dl:1"};
        dl_push(p->arena, &c.members, ((dl_plan_member){"x", 0}));
        dl_push(p->arena, &train->collectives, c);
    }
    static const dl_plan_step steps[] = {{DL_STEP_LAUNCH, 0}, {DL_STEP_START, 0},
                                         {DL_STEP_WAIT, 0},   {DL_STEP_START, 1},
                                         {DL_STEP_WAIT, 1},   {DL_STEP_LAUNCH, 1}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        dl_push(p->arena, &train->steps, steps[i]);
    return p;
}

/* ---- what the device asks of the driver while it captures ---- */

/* The driver, and a letter for each of some calls in the stream of collectives: 'c' a collective,
 * 'o' a copy to the host, 'e' an event. */
static struct {
    dlr_driver table;
    const dlr_driver *real;
    dlr_cu_stream sharer;
    char calls[64];
    int n;
} recorded;

static void record(dlr_cu_stream s, char letter) {
    if (s == recorded.sharer && recorded.n < (int)sizeof recorded.calls - 1)
        recorded.calls[recorded.n++] = letter;
}
static dlr_cu_result to_host(void *to, dlr_cu_memory from, size_t bytes, dlr_cu_stream s) {
    record(s, 'o');
    return recorded.real->MemcpyDtoHAsync(to, from, bytes, s);
}
static dlr_cu_result event(dlr_cu_event e, dlr_cu_stream s) {
    record(s, 'e');
    return recorded.real->EventRecord(e, s);
}
static dlr_cu_result waits(dlr_cu_stream s, dlr_cu_event e, unsigned flags) {
    record(s, 'w');
    return recorded.real->StreamWaitEvent(s, e, flags);
}

/* The computing stream waits for a collective alone, not for the copy by which the host sees how
 * far the device is; but the last event follows all that the stream of collectives does. */
static void test_order(dlr_cuda *c, dlr_exec *e) {
    recorded.real = c->driver, recorded.sharer = c->sharer;
    recorded.table = *c->driver;
    recorded.table.MemcpyDtoHAsync = to_host;
    recorded.table.EventRecord = event;
    recorded.table.StreamWaitEvent = waits;
    c->driver = &recorded.table;
    c->base.table->capture(&c->base, 0);
    c->driver = recorded.real;
    CHECK_STR(recorded.calls, "woeo"
                              "woe");
    CHECK(dlr_exec_check(e, &(dl_error){0}));
}

static void test_steps(dlr_cuda *c, dlr_exec *e) {
    float y[N];
    dl_error err = {0};
    for (int step = 1; step <= 3; step++) {
        dlr_exec_start(e, 0);
        dlr_exec_wait_oldest(e);
        dlr_state_read(e, dlr_exec_variable(e, "y"), DL_F32, y);
        CHECK(y[0] == (float)(2 * step - 1) && y[N - 1] == y[0], "step %d: %g", step, (double)y[0]);
    }
    CHECK(dlr_exec_check(e, &err), "%s", err.message);
    CHECK(*c->progress == 2, "%d collectives done", *c->progress);
}

/* The collectives' streams go before the kernels'. */
static void test_priorities(const dlr_cuda *c) {
    int least, greatest;
    CHECK(c->driver->CtxGetStreamPriorityRange(&least, &greatest) == 0 &&
          emulator()->priority(c->sharer) == greatest && greatest < least &&
          emulator()->priority(c->stream) == least);
}

/* NCCL's buffers, which it has allocated before the first step, are part of the device's memory. */
static void test_memory(const dlr_exec *e) {
    enum { BUFFER = 1 << 20 /* of the stand-in */ };
    dlr_device_memory m;
    CHECK(dlr_exec_memory(e, &m) && m.collectives >= BUFFER && m.collectives < 2 * BUFFER &&
              dlr_device_predicted(&m) >= m.before + m.plan + m.collectives,
          "%lld bytes", (long long)m.collectives);
}

int main(void) {
    dl_error err = {0};
    dl_plan *p = make_plan();
    if (!p) return dl_test_end();
    dlr_comm *comm = dlr_comm_open(&(dlr_world_options){0}, &err);
    const dlr_group group = {.name = "dp", .number = 0, .rank = 0, .size = 1};
    const dlr_exec_options options = {
        .threads = 1, .device = "cuda:emulated", .ranks = {comm, 1, &group}};
    dlr_exec *e = comm ? dlr_exec_open(p, options, &err) : NULL;
    CHECK(e, "%s", err.message);
    if (e) {
        dlr_cuda *c = (dlr_cuda *)e->device;
        test_priorities(c);
        test_memory(e);
        test_order(c, e);
        test_steps(c, e);
        dlr_exec_close(e);
    }
    CHECK(emulator()->lost() == 0, "%d resources are left", emulator()->lost());
    if (comm) dlr_comm_close(comm, NULL);
    dl_arena_free(p->arena);
    return dl_test_end();
}
