/* The emulator is strict, and drivers that will not do are refused. */
#include "tests/unit/cuda_device.h"

#include "tests/check.h"

#include "tests/emulator/cuda_emulator.h"
#include "tests/unit/plan_fixture.h"

/* ---- the emulator is strict ---- */

/* A thread that has not made the context its own. */
static void *use_foreign(void *of) {
    const dlr_driver *v = emulator()->driver();
    dlr_cu_memory at;
    dlr_cu_result *r = of;
    *r = v->MemAlloc(&at, 64);
    return NULL;
}

void test_contexts(void) {
    const dlr_driver *v = emulator()->driver();
    dlr_cu_context context, again = NULL;
    dlr_cu_memory at;
    dlr_cu_result elsewhere = 0;
    pthread_t thread;
    CHECK(v->MemAlloc(&at, 64) == DLR_CU_INVALID_CONTEXT, "what was closed has left its context");
    CHECK(v->DevicePrimaryCtxRetain(&context, 0) == 0 &&
          v->MemAlloc(&at, 64) == DLR_CU_INVALID_CONTEXT && v->CtxSetCurrent(context) == 0 &&
          v->MemAlloc(&at, 64) == 0 && v->MemFree(at) == 0);
    bool ran = pthread_create(&thread, NULL, use_foreign, &elsewhere) == 0 &&
               pthread_join(thread, NULL) == 0;
    CHECK(ran && elsewhere == DLR_CU_INVALID_CONTEXT);
    CHECK(v->DevicePrimaryCtxRelease(0) == 0 && v->DevicePrimaryCtxRetain(&again, 0) == 0 &&
              v->MemAlloc(&at, 64) == DLR_CU_INVALID_CONTEXT,
          "a new context is not the thread's");
    CHECK(v->DevicePrimaryCtxRelease(0) == 0 &&
          v->DevicePrimaryCtxRelease(0) == DLR_CU_INVALID_CONTEXT);
}

/* The device's context, this thread's. */
static const dlr_driver *begin_driver(void) {
    const dlr_driver *v = emulator()->driver();
    dlr_cu_context context;
    return v->DevicePrimaryCtxRetain(&context, 0) == 0 && v->CtxSetCurrent(context) == 0 ? v : NULL;
}

void test_emulator(void) {
    const dlr_driver *v = begin_driver();
    CHECK(v);
    if (!v) return;
    dlr_cu_stream s = NULL;
    dlr_cu_memory at = 0;
    dlr_cu_event event = NULL;
    dlr_cu_graph graph;
    void *pinned = NULL;
    char mine[16];
    bool there = v->StreamCreate(&s, 0) == 0 && v->MemAlloc(&at, 64) == 0 &&
                 v->MemAllocHost(&pinned, 64) == 0 && v->EventCreate(&event, 0) == 0;
    CHECK(there);
    if (!there) return;
    memset(pinned, 5, 64);
    CHECK(v->MemcpyHtoDAsync(at, pinned, 64, s) == 0 && v->MemcpyHtoDAsync(at, mine, 16, s) != 0 &&
          v->MemcpyHtoDAsync(at + 32, pinned, 64, s) != 0);
    CHECK(v->EventRecord(event, s) == 0);
    memset(pinned, 6, 64); /* before the copy has been made */
    CHECK(v->EventSynchronize(event) == 0);
    memset(pinned, 0, 64);
    CHECK(v->MemcpyDtoHAsync(pinned, at, 64, s) == 0 && ((char *)pinned)[0] == 0);
    CHECK(v->StreamSynchronize(s) == 0 && ((char *)pinned)[63] == 6);
    CHECK(v->StreamBeginCapture(s, DLR_CU_CAPTURE_THREAD_LOCAL) == 0 &&
          v->StreamSynchronize(s) != 0 &&
          v->StreamEndCapture(s, &graph) == DLR_CU_STREAM_CAPTURE_INVALIDATED);
    CHECK(v->StreamBeginCapture(s, DLR_CU_CAPTURE_THREAD_LOCAL) == 0 &&
          v->EventRecord(event, s) == 0 && v->StreamEndCapture(s, &graph) == 0 &&
          v->EventQuery(event) == DLR_CU_CAPTURED_EVENT &&
          v->EventSynchronize(event) == DLR_CU_CAPTURED_EVENT && v->GraphDestroy(graph) == 0 &&
          v->EventRecord(event, s) == 0 && v->EventSynchronize(event) == 0);
    CHECK(v->MemHostRegister(mine, 16, 0) == 0 &&
          v->MemHostRegister(mine + 8, 4, 0) == DLR_CU_ALREADY_REGISTERED &&
          v->MemHostUnregister(mine) == 0 && v->MemHostUnregister(mine) == DLR_CU_NOT_REGISTERED);
    CHECK(v->EventDestroy(event) == 0 && v->MemFreeHost(pinned) == 0 && v->MemFree(at) == 0 &&
          v->MemFree(at) != 0 && v->StreamDestroy(s) == 0 && v->DevicePrimaryCtxRelease(0) == 0);
}

void test_neighbours(void) {
    enum { BLOCKS = 64, PAGE = 4096 };
    const dlr_driver *v = begin_driver();
    dlr_cu_stream s = NULL;
    dlr_cu_memory device[BLOCKS];
    void *pinned[BLOCKS];
    int wrong = 0, touching = 0;
    CHECK(v);
    bool ok = v && v->StreamCreate(&s, 0) == 0;
    for (int i = 0; i < BLOCKS; i++) ok = ok && v->MemAlloc(&device[i], PAGE) == 0;
    for (int i = 0; i < BLOCKS; i++) ok = ok && v->MemAllocHost(&pinned[i], PAGE) == 0;
    /* the emulator's lists are no longer in the order of addresses, whichever that was */
    ok = ok && v->MemFree(device[0]) == 0 && v->MemAlloc(&device[0], PAGE) == 0;
    ok = ok && v->MemFreeHost(pinned[0]) == 0 && v->MemAllocHost(&pinned[0], PAGE) == 0;
    CHECK(ok, "memory of the emulator's");
    if (!ok) return;
    for (int i = 0; i < BLOCKS; i++) {
        for (int k = 0; k < BLOCKS; k++) touching += pinned[i] == (char *)pinned[k] + PAGE;
        for (int k = 0; k < BLOCKS; k++) touching += device[i] == device[k] + PAGE;
        wrong += v->MemcpyHtoDAsync(device[i], pinned[i], PAGE, s) != 0;
        wrong += v->MemcpyHtoDAsync(device[i] + PAGE - 8, pinned[i], 16, s) == 0;
    }
    CHECK(wrong == 0, "%d of %d copies, with %d blocks that touch", wrong, 2 * BLOCKS, touching);
    for (int i = 0; i < BLOCKS; i++)
        wrong += v->MemFree(device[i]) != 0 || v->MemFreeHost(pinned[i]) != 0;
    CHECK(wrong == 0 && v->StreamDestroy(s) == 0 && v->DevicePrimaryCtxRelease(0) == 0);
}

/* ---- drivers that will not do ---- */
static void expect_driver(dl_arena *arena, const char *text, const char *want) {
    dl_error err = {0};
    dl_plan_object o;
    char *directory = temp_directory(arena), *path = dl_format(arena, "%s/libcuda.so.1", directory);
    if (compile_object(arena, directory, text, "-O1", &o) &&
        dl_write_file(path, (const char *)o.image, o.bytes, &err)) {
        CHECK(!dlr_driver_load(path, &err) && err.code == DL_RESOURCE &&
                  strstr(err.message, want) && strstr(err.message, "--device=cpu"),
              "want '%s', got '%s'", want, err.message);
    }
    unlink(path), rmdir(directory);
}

void test_drivers(dl_arena *arena) {
    dl_error err = {0};
    CHECK(!dlr_driver_load("/nonexistent/libcuda.so.1", &err) && err.code == DL_RESOURCE &&
              strstr(err.message, "libcuda.so.1") && strstr(err.message, "--device=cpu"),
          "%s", err.message);
    expect_driver(arena, "int cuDriverGetVersion(int *v) { *v = 11040; return 0; }\n",
                  "version 11.4, and 12.0 is needed");
    expect_driver(arena, "int cuDriverGetVersion(int *v) { return 34; }\n", "is a toolkit's stub");
    expect_driver(arena, "int cuDriverGetVersion(int *v) { *v = 12020; return 0; }\n",
                  "cuGetProcAddress_v2");
    expect_driver(
        arena,
        "int cuDriverGetVersion(int *v) { *v = 12020; return 0; }\n"
        "int cuGetProcAddress_v2(const char *n, void **f, int v, unsigned long g, int *s)\n"
        "{ *f = 0; return 0; }\n",
        "no cuInit");
    expect_driver(
        arena,
        "#include <string.h>\n"
        "int cuDriverGetVersion(int *v) { *v = 12020; return 0; }\n"
        "static int count(int *n) { *n = 0; return 0; }\n"
        "static int any(void) { return 0; }\n"
        "int cuGetProcAddress_v2(const char *n, void **f, int v, unsigned long g, int *s) {\n"
        "    *f = strcmp(n, \"cuDeviceGetCount\") ? (void *)any : (void *)count; return 0;\n"
        "}\n",
        "finds no device");
}
