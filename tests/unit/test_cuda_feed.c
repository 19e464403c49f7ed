/* Batches on their way to a device, over the emulated driver: the order between its streams is what
 * events say and no more, in both of the worst cases; and in both a run ahead of its results sees
 * each batch whole, which is copied while the step before it is still to be made. */
#include "tests/check.h"

#include "runtime/checkpoint/tensors.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/state.h"
#include "tests/emulator/cuda_emulator.h"
#include "tests/unit/plan_fixture.h"

/* ---- the emulator ---- */

enum { PAGE = 4096 };

/* Two streams, a pinned buffer for each of two batches, a stage, and where the stage is copied. */
typedef struct {
    const dlr_driver *v;
    dlr_cu_stream feeder, stream;
    dlr_cu_event arrived, emptied;
    dlr_cu_memory stage, input[2];
    char *pinned[2], *out;
} bench;

static void *pinned(const dlr_driver *v) {
    void *at = NULL;
    CHECK(v->MemAllocHost(&at, PAGE) == 0);
    return at;
}

static bench open_bench(void) {
    bench b = {.v = emulator()->driver()};
    const dlr_driver *v = b.v;
    dlr_cu_context context;
    CHECK(v->DevicePrimaryCtxRetain(&context, 0) == 0 && v->CtxSetCurrent(context) == 0 &&
          v->StreamCreate(&b.feeder, 1) == 0 && v->StreamCreate(&b.stream, 1) == 0 &&
          v->EventCreate(&b.arrived, 2) == 0 && v->EventCreate(&b.emptied, 2) == 0 &&
          v->MemAlloc(&b.stage, PAGE) == 0 && v->MemAlloc(&b.input[0], PAGE) == 0 &&
          v->MemAlloc(&b.input[1], PAGE) == 0);
    for (int i = 0; i < 2; i++) b.pinned[i] = pinned(v), memset(b.pinned[i], 1 + i, PAGE);
    b.out = pinned(v);
    return b;
}

static void close_bench(bench *b) {
    const dlr_driver *v = b->v;
    CHECK(v->EventDestroy(b->arrived) == 0 && v->EventDestroy(b->emptied) == 0 &&
          v->StreamDestroy(b->feeder) == 0 && v->StreamDestroy(b->stream) == 0 &&
          v->MemFree(b->stage) == 0 && v->MemFree(b->input[0]) == 0 &&
          v->MemFree(b->input[1]) == 0 && v->MemFreeHost(b->pinned[0]) == 0 &&
          v->MemFreeHost(b->pinned[1]) == 0 && v->MemFreeHost(b->out) == 0 &&
          v->DevicePrimaryCtxRelease(0) == 0);
}

/* Two batches through one stage, with or without the waits; whether both came through whole. */
static bool passes(bool hasty, bool waits_arrived, bool waits_emptied) {
    emulator()->set((cuda_emulator_options){.hasty = hasty});
    bench b = open_bench();
    const dlr_driver *v = b.v;
    bool ok = true;
    for (int i = 0; i < 2; i++) {
        if (waits_emptied)
            ok = ok && v->StreamWaitEvent(b.feeder, b.emptied, 0) == 0; /* never recorded: none */
        ok = ok && v->MemcpyHtoDAsync(b.stage, b.pinned[i], PAGE, b.feeder) == 0 &&
             v->EventRecord(b.arrived, b.feeder) == 0;
        if (waits_arrived) ok = ok && v->StreamWaitEvent(b.stream, b.arrived, 0) == 0;
        ok = ok && v->MemcpyDtoDAsync(b.input[i], b.stage, PAGE, b.stream) == 0 &&
             v->EventRecord(b.emptied, b.stream) == 0;
    }
    CHECK(ok);
    bool whole = true;
    for (int i = 0; i < 2; i++) {
        ok = v->MemcpyDtoHAsync(b.out, b.input[i], PAGE, b.stream) == 0 &&
             v->StreamSynchronize(b.stream) == 0;
        CHECK(ok);
        whole = whole && b.out[0] == 1 + i && b.out[PAGE - 1] == 1 + i;
    }
    close_bench(&b);
    emulator()->set((cuda_emulator_options){0});
    return whole;
}

static void test_order(void) {
    CHECK(passes(false, true, true) && passes(true, true, true));
    CHECK(!passes(false, false, true), "what has not arrived is not there");
    CHECK(!passes(true, true, false), "what was not copied on is overwritten");
}

/* A wait is for the event as it was recorded when it was asked for; others' errors. */
static void test_waits(void) {
    emulator()->set((cuda_emulator_options){0});
    bench b = open_bench();
    const dlr_driver *v = b.v;
    dlr_cu_graph graph;
    CHECK(v->MemcpyHtoDAsync(b.stage, b.pinned[0], PAGE, b.feeder) == 0 &&
          v->EventRecord(b.arrived, b.feeder) == 0 &&
          v->StreamWaitEvent(b.stream, b.arrived, 0) == 0 &&
          v->MemcpyDtoHAsync(b.out, b.stage, PAGE, b.stream) == 0 &&
          v->MemcpyHtoDAsync(b.stage, b.pinned[1], PAGE, b.feeder) == 0 &&
          v->EventRecord(b.arrived, b.feeder) == 0);
    CHECK(v->StreamSynchronize(b.stream) == 0 && b.out[0] == 1 && b.out[PAGE - 1] == 1);
    CHECK(v->EventSynchronize(b.arrived) == 0 &&
          v->MemcpyDtoHAsync(b.out, b.stage, PAGE, b.stream) == 0 &&
          v->StreamSynchronize(b.stream) == 0 && b.out[0] == 2);
    CHECK(v->EventRecord(b.arrived, b.feeder) == 0 && v->EventRecord(b.arrived, b.stream) != 0,
          "recorded in two streams at once");
    CHECK(v->StreamWaitEvent(b.stream, b.arrived, 1) != 0 &&
          v->MemcpyDtoDAsync(b.input[0], b.stage + 8, PAGE, b.stream) != 0 &&
          v->MemcpyDtoDAsync(b.stage + 8, b.stage, 16, b.stream) != 0);
    CHECK(v->StreamBeginCapture(b.stream, DLR_CU_CAPTURE_THREAD_LOCAL) == 0 &&
          v->StreamWaitEvent(b.stream, b.arrived, 0) != 0 &&
          v->StreamEndCapture(b.stream, &graph) == DLR_CU_STREAM_CAPTURE_INVALIDATED);
    close_bench(&b);
}

/* ---- graphs of several streams ---- */

static void note(void *to) { strcat(to, "h"); }
static void note_beside(void *to) { strcat(to, "s"); }

/* A graph that forks into the feeder and joins it, launched twice: what functions of the host have
 * noted, in the stream one in front of the fork, one after it and one after the join, in the
 * feeder one between. */
static const char *forked(bool hasty, bool joins, dlr_cu_result *ended) {
    static char text[64];
    emulator()->set((cuda_emulator_options){.hasty = hasty});
    bench b = open_bench();
    const dlr_driver *v = b.v;
    dlr_cu_graph graph = NULL;
    dlr_cu_graph_exec exec = NULL;
    text[0] = 0;
    bool ok = v->StreamBeginCapture(b.stream, DLR_CU_CAPTURE_THREAD_LOCAL) == 0 &&
              v->LaunchHostFunc(b.stream, note, text) == 0 &&
              v->EventRecord(b.emptied, b.stream) == 0 &&
              v->StreamWaitEvent(b.feeder, b.emptied, 0) == 0 &&
              v->LaunchHostFunc(b.stream, note, text) == 0 &&
              v->LaunchHostFunc(b.feeder, note_beside, text) == 0 &&
              v->EventRecord(b.arrived, b.feeder) == 0;
    if (joins) ok = ok && v->StreamWaitEvent(b.stream, b.arrived, 0) == 0;
    CHECK(ok && v->LaunchHostFunc(b.stream, note, text) == 0 && !*text);
    *ended = v->StreamEndCapture(b.stream, &graph);
    CHECK(v->StreamWaitEvent(b.stream, b.arrived, 0) == DLR_CU_CAPTURED_EVENT,
          "an event of a graph is an edge");
    if (*ended == 0)
        CHECK(v->GraphInstantiateWithFlags(&exec, graph, 0) == 0 && v->GraphDestroy(graph) == 0 &&
              v->GraphLaunch(exec, b.stream) == 0 && v->GraphLaunch(exec, b.stream) == 0 &&
              !*text && v->StreamSynchronize(b.stream) == 0 && v->GraphExecDestroy(exec) == 0);
    CHECK(v->StreamSynchronize(b.feeder) == 0, "which no longer captures");
    close_bench(&b);
    emulator()->set((cuda_emulator_options){0});
    return text;
}

static void test_forks(void) {
    dlr_cu_result ended;
    const char *text = forked(false, true, &ended);
    CHECK(ended == 0 && !strcmp(text, "hhshhhsh"), "%d %s: nothing is done that is not waited for",
          ended, text);
    text = forked(true, true, &ended);
    CHECK(ended == 0 && !strcmp(text, "hshhhshh"), "%d %s: all is done that nothing holds back",
          ended, text);
    text = forked(false, false, &ended);
    CHECK(ended == DLR_CU_STREAM_CAPTURE_UNJOINED && !*text, "%d %s", ended, text);
}

/* Rows of other lengths on either side. */
static void test_rows(void) {
    bench b = open_bench();
    const dlr_driver *v = b.v;
    for (int i = 0; i < 64; i++) b.pinned[0][i] = (char)i;
    dlr_cu_rows rows = {.from = {.type = DLR_CU_MEMORY_DEVICE, .device = b.stage + 3, .pitch = 10},
                        .to = {.type = DLR_CU_MEMORY_DEVICE, .device = b.input[0], .pitch = 4},
                        .width = 4,
                        .height = 3};
    CHECK(v->MemcpyHtoDAsync(b.stage, b.pinned[0], PAGE, b.stream) == 0 &&
          v->Memcpy2DAsync(&rows, b.stream) == 0 &&
          v->MemcpyDtoHAsync(b.out, b.input[0], PAGE, b.stream) == 0 &&
          v->StreamSynchronize(b.stream) == 0);
    static const char want[] = {3, 4, 5, 6, 13, 14, 15, 16, 23, 24, 25, 26};
    CHECK(memcmp(b.out, want, sizeof want) == 0 && b.out[sizeof want] != 27);
    rows.to.device = b.input[0] + PAGE - 11;
    CHECK(v->Memcpy2DAsync(&rows, b.stream) == DLR_CU_INVALID_VALUE, "a byte after the end");
    CHECK(emulator()->memory(b.stage, PAGE) && !emulator()->memory(b.stage + 1, PAGE) &&
          !emulator()->memory(64, 1));
    close_bench(&b);
}

/* ---- the device ---- */

/* loss = x[0] + 50 x[last] + 2500 t[0] + 125000 t[last], exact in f32, and sum += x[last]. */
static const char source[] =
    "int dl_emulated_launch(const char *name, int nargs, void *const *args, unsigned grid, "
    "unsigned n,\n"
    "                       unsigned shared, unsigned seed, char *error, unsigned long size) {\n"
    "    if (grid == 0) return 0;\n"
    "    const float *x = *(const float **)args[0]; const int *t = *(const int **)args[1];\n"
    "    **(float **)args[2] = x[0] + 50 * x[1023] + 2500.f * t[0] + 125000.f * t[255];\n"
    "    **(float **)args[3] += x[1023];\n"
    "    return 0;\n"
    "}\n";

enum { NX = 1024, NT = 256, X = 0, T = 4096, LOSS = 5120, SUM = 5184, ARENA = 5248 };

static bool make_plan(dl_plan **out) {
    dl_plan *p = *out = new_plan_of(ARENA, source);
    if (!p) return false;
    p->target = "cuda:sm_90a:emulated";
    add_var(p, DL_VAR_INPUT, "x", vector(NX), (dl_init){0}, X);
    add_var(p, DL_VAR_TARGET, "t", type_of(DL_I32, (dl_layout){0}, 1, (int64_t[]){NT}),
            (dl_init){0}, T);
    add_var(p, DL_VAR_PARAM, "sum", vector(1), (dl_init){0}, SUM);
    add_kernel(p, "loss", 1, 1, 0, 0, 0, 4, (int64_t[]){NX * 4, NT * 4, 4, 4});
    p->kernels.at[0].threads[0] = 32;
    add_launch(p, add_program(p, "train"), 0, (int64_t[]){X, T, LOSS, SUM});
    dl_plan_result loss = {.role = DL_RESULT_LOSS,
                           .name = "loss",
                           .type = dl_scalar(DL_F32),
                           .offset = LOSS,
                           .var = -1};
    dl_push(p->arena, &p->programs.at[0].results, loss);
    return true;
}

static void put(dlr_exec *e, int step) {
    float x[NX];
    int32_t t[NT];
    for (int i = 0; i < NX; i++) x[i] = (float)(step + (i == NX - 1));
    for (int i = 0; i < NT; i++) t[i] = (int32_t)(step + 2 + (i == NT - 1));
    dlr_state_write(e, dlr_exec_variable(e, "x"), DL_F32, x);
    dlr_state_write(e, dlr_exec_variable(e, "t"), DL_I32, t);
}

static double wanted(int n) { return n + 50 * (n + 1) + 2500 * (n + 2) + 125000.0 * (n + 3); }

static dlr_exec *open_exec(const dl_plan *p) {
    dl_error err = {0};
    dlr_exec *e = dlr_exec_open(p, (dlr_exec_options){.threads = 2}, &err);
    CHECK(e, "%s", err.message);
    return e;
}

/* Each loss is of its own batch, though the next is on its way. */
static void test_ahead(const dl_plan *p, bool hasty) {
    enum { STEPS = 9 };
    dl_error err = {0};
    emulator()->set((cuda_emulator_options){.hasty = hasty});
    dlr_exec *e = open_exec(p);
    if (!e) return;
    dlr_view loss = dlr_exec_result(e, 0, DL_RESULT_LOSS, NULL);
    int ahead = dlr_exec_ahead(e), started = 0;
    for (int taken = 0; taken < STEPS; taken++) {
        for (; started < STEPS && started - taken < ahead; started++)
            put(e, started), dlr_exec_start(e, 0);
        dlr_exec_wait_oldest(e);
        CHECK(dlr_scalar(e, loss) == wanted(taken), "step %d: %.0f", taken, dlr_scalar(e, loss));
    }
    for (int i = 0; i < 5; i++)
        put(e, 100 * i), dlr_exec_start(e, 0), dlr_exec_wait_oldest(e); /* nobody looks */
    float sum;
    dlr_state_read(e, dlr_exec_variable(e, "sum"), DL_F32, &sum);
    CHECK(sum == STEPS * (STEPS + 1) / 2 + 1005, "%g", (double)sum);
    put(e, 20), put(e, 21); /* the one that was not run on is lost */
    dlr_exec_run(e, 0, NULL);
    CHECK(dlr_scalar(e, loss) == wanted(21), "%.0f", dlr_scalar(e, loss));
    float one = 7, x[NX]; /* a batch changed in place, and looked at */
    put(e, 22);
    dlr_state_write_range(e, dlr_exec_variable(e, "x"), (dlr_range){0, 1}, DL_F32, &one);
    dlr_state_read(e, dlr_exec_variable(e, "x"), DL_F32, x);
    CHECK(x[0] == 7 && x[1] == 22 && x[NX - 1] == 23);
    dlr_exec_run(e, 0, NULL);
    CHECK(dlr_scalar(e, loss) == wanted(22) - 22 + 7, "%.0f", dlr_scalar(e, loss));
    CHECK(dlr_exec_check(e, &err), "%s", err.message);
    dlr_exec_close(e);
}

/* The second batch is on the device when the first step is made: nothing but the first holds its
 * copy back. */
static void test_overlap(const dl_plan *p) {
    emulator()->set((cuda_emulator_options){.hasty = true});
    dlr_exec *e = open_exec(p);
    if (!e) return;
    for (int i = 0; i < 2; i++) put(e, i), dlr_exec_start(e, 0);
    dlr_exec_wait_oldest(e), dlr_scalar(e, dlr_exec_result(e, 0, DL_RESULT_LOSS, NULL));
    const char *done = emulator()->journal(), *first = strchr(done, 'g');
    int copies = 0;
    for (const char *at = done; at < first; at++) copies += *at == 'i';
    CHECK(first && copies == 4, "before the first step: %s", done);
    dlr_exec_close(e);
}

/* One batch more than the arena and the workspace: so much is asked for, and told before. */
static void test_memory(const dl_plan *p) {
    const int64_t stage = dl_plan_staged(p);
    dl_error err = {0};
    dl_plan cpu = *p;
    cpu.target = "cpu:generic";
    int64_t peak = dl_plan_peak(p, 4);
    CHECK(stage >= NX * 4 + NT * 4 && dl_plan_staged(&cpu) == 0 &&
          peak == dl_plan_peak(&cpu, 4) + stage);
    emulator()->set((cuda_emulator_options){.memory = (size_t)peak});
    dlr_exec_close(open_exec(p));
    emulator()->set((cuda_emulator_options){.memory = (size_t)peak - 1});
    dlr_exec *e = dlr_exec_open(p, (dlr_exec_options){.threads = 1}, &err);
    CHECK(!e && strstr(err.message, "for the batch that comes next"), "%s", err.message);
    dlr_exec_close(e);
    emulator()->set((cuda_emulator_options){0});
}

int main(void) {
    dl_plan *p;
    test_order();
    test_waits();
    test_forks();
    test_rows();
    if (!make_plan(&p)) return 77;
    test_ahead(p, false);
    test_ahead(p, true);
    test_overlap(p);
    test_memory(p);
    dl_arena_free(p->arena);
    CHECK(emulator()->lost() == 0, "%d things not given back", emulator()->lost());
    return dl_test_end();
}
