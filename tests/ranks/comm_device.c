/* comm_check over NCCL: what holds between devices alone, then the suite of every backend. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/parts.h"
#include "tests/emulator/cuda_emulator.h"
#include "tests/ranks/comm_check.h"

/* A collective captured into a graph, as a step's are, which is launched twice: of one rank it
 * copies. */
static void check_captured(dlr_comm *comm, const dlr_driver *v) {
    enum { N = 1000, BYTES = N * sizeof(float) };
    dlr_cu_memory memory = 0;
    dlr_cu_stream stream = NULL;
    dlr_cu_graph graph = NULL;
    dlr_cu_graph_exec exec = NULL;
    dl_error err = {0};
    void *pinned = NULL;
    bool ok = v->MemAlloc(&memory, 2 * BYTES) == 0 && v->MemAllocHost(&pinned, 2 * BYTES) == 0 &&
              dlr_driver_urgent_stream(v, &stream) == 0;
    char *place = (char *)(uintptr_t)memory;
    dlr_collective c = {.type = DL_F32,
                        .count = N,
                        .from = place,
                        .to = place + BYTES,
                        .what = "all_reduce of what is captured"};
    ok = ok && dlr_comm_reserve(comm, &c, &err) &&
         dlr_comm_enqueue(comm, &c, stream, &err) /* ranks connect outside of a capture */ &&
         v->StreamSynchronize(stream) == 0 &&
         v->StreamBeginCapture(stream, DLR_CU_CAPTURE_THREAD_LOCAL) == 0 &&
         dlr_comm_enqueue(comm, &c, stream, &err) && v->StreamEndCapture(stream, &graph) == 0 &&
         v->GraphInstantiateWithFlags(&exec, graph, 0) == 0;
    EXPECT(ok, "%s", err.message);
    float *from = pinned, *to = from + N;
    for (int run = 0; ok && run < 2; run++) {
        for (int i = 0; i < N; i++) from[i] = (float)(run * N + i);
        ok = v->MemcpyHtoDAsync(memory, from, BYTES, stream) == 0 &&
             v->GraphLaunch(exec, stream) == 0 &&
             v->MemcpyDtoHAsync(to, memory + BYTES, BYTES, stream) == 0 &&
             v->StreamSynchronize(stream) == 0;
        EXPECT(ok && !memcmp(from, to, BYTES), "launch %d: %g, not %g", run, (double)to[1],
               (double)from[1]);
    }
    if (ok) printf("captured: two launches of one graph\n");
    if (exec) v->GraphExecDestroy(exec);
    if (graph) v->GraphDestroy(graph);
    if (stream) v->StreamDestroy(stream);
    if (pinned) v->MemFreeHost(pinned);
    if (memory) v->MemFree(memory);
}

/* A group of calls of which one is refused is closed: what is enqueued after it is done. Only the
 * stand-in looks at addresses. */
static void check_refused_group(dlr_comm *comm, const dlr_driver *v) {
    enum { N = 100, BYTES = N * sizeof(float), RANKS = 64 };
    dlr_cu_memory memory = 0;
    dlr_cu_stream stream = NULL;
    dl_error err = {0}, later = {0};
    dlr_world w = dlr_comm_world(comm);
    void *pinned = NULL;
    int64_t counts[RANKS];
    for (int r = 0; r < w.size; r++) counts[r] = N;
    bool ok = v->MemAlloc(&memory, 2 * BYTES) == 0 && v->MemAllocHost(&pinned, 2 * BYTES) == 0 &&
              dlr_driver_urgent_stream(v, &stream) == 0;
    EXPECT(ok);
    char *place = (char *)(uintptr_t)memory;
    float *from = pinned, *to = from + N;
    dlr_collective c = {.kind = DLR_SHIFT,
                        .type = DL_F32,
                        .outer = 1,
                        .counts = counts,
                        .from = place,
                        .to = pinned,
                        .what = "a shift to nowhere"};
    EXPECT(!dlr_comm_enqueue(comm, &c, stream, &err) && err.code == DL_RESOURCE &&
               strstr(err.message, "a shift to nowhere") &&
               strstr(err.message, "an address that there is not"),
           "%s", err.message);
    c.to = place + BYTES, c.what = "a shift";
    for (int i = 0; i < N; i++) from[i] = (float)(w.rank * N + i);
    ok = ok && v->MemcpyHtoDAsync(memory, from, BYTES, stream) == 0;
    EXPECT(ok && dlr_comm_enqueue(comm, &c, stream, &later), "%s", later.message);
    ok = ok && v->MemcpyDtoHAsync(to, memory + BYTES, BYTES, stream) == 0 &&
         v->StreamSynchronize(stream) == 0;
    float want = (float)((w.rank + w.size - 1) % w.size * N + 1);
    EXPECT(ok && to[1] == want, "%g, not %g", (double)to[1], (double)want);
    if (stream) v->StreamDestroy(stream);
    if (pinned) v->MemFreeHost(pinned);
    if (memory) v->MemFree(memory);
}

typedef struct {
    dlr_comm *host;
    const atomic_int *calls; /* the stand-in's count of calls that have begun */
    int before;
} loser;

/* A rank is lost, as the hosts' watchdog says from its thread, when another call has begun. */
static void *lose(void *of) {
    const dl_error why = {.code = DL_PEER, .message = "rank 7 is lost"};
    const loser *l = of;
    while (*l->calls == l->before) sched_yield();
    dlr_hooks_lost(l->host, &why);
    return NULL;
}

bool run_lost(dlr_comm *host) {
    enum { N = 100 };
    const dlr_driver *v = emulator()->driver();
    dl_error err = {0};
    dlr_comm *comm = dlr_comm_nccl(host, v, 0, &err);
    dlr_cu_memory memory = 0;
    dlr_cu_stream stream = NULL;
    pthread_t thread;
    void *library = dlopen(getenv("DLR_NCCL"), RTLD_NOW);
    loser l = {.host = host, .calls = library ? dlsym(library, "standin_calls") : NULL};
    bool ok = comm && l.calls && v->MemAlloc(&memory, N * sizeof(float)) == 0 &&
              dlr_driver_urgent_stream(v, &stream) == 0;
    EXPECT(ok, "%s", err.message);
    char *place = (char *)(uintptr_t)memory;
    dlr_collective c = {
        .type = DL_F32, .count = N, .from = place, .to = place, .what = "all_reduce of x"};
    /* the loss comes in the middle of a call, which does not end before */
    setenv("NCCL_STANDIN_STUCK", "1", 1), setenv("NCCL_STANDIN_SLOW", "20000", 1);
    l.before = ok ? *l.calls : 0;
    ok = ok && pthread_create(&thread, NULL, lose, &l) == 0;
    EXPECT(ok && !dlr_comm_enqueue(comm, &c, stream, &err) && err.code == DL_PEER &&
               strstr(err.message, "rank 7 is lost"),
           "%s", err.message);
    if (ok) pthread_join(thread, NULL);
    EXPECT(ok && !dlr_comm_enqueue(comm, &c, stream, &err));
    err = (dl_error){0};
    EXPECT(ok && !dlr_comm_close(comm, &err) && err.code == DL_PEER, "%s", err.message);
    return ok;
}

bool run_nccl(dlr_comm *host, bool emulated) {
    dl_error err = {0};
    int rank = dlr_comm_world(host).rank;
    EXPECT(dlr_comm_group(host, 1, &rank, &err) == 1);
    const dlr_driver *driver = emulated ? emulator()->driver() : dlr_driver_open(&err);
    dlr_comm *comm =
        driver ? dlr_comm_nccl(host, driver, emulated ? 0 : dlr_comm_world(host).local_rank, &err)
               : NULL;
    if (!comm) {
        printf("SKIP: %s\n", err.message);
        EXPECT(!emulated);
        return emulated;
    }
    float x = 3, y = 0;
    dlr_collective c = {
        .group = 1, .type = DL_F32, .count = 1, .from = &x, .to = &y, .what = "all_reduce of x"};
    EXPECT(dlr_comm_all(comm, &c, &err) && y == 3, "%s", err.message);
    if (dlr_comm_world(host).size == 1) check_captured(comm, driver);
    if (emulated) check_refused_group(comm, driver);
    run_rank(comm);
    EXPECT(dlr_comm_close(comm, NULL));
    return true;
}
