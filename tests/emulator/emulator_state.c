/* The emulated driver's state, and functions on it that all its files use: faults, contexts,
 * addresses, captures (emulator.h). */
#include <stdio.h>

#include "tests/emulator/emulator.h"

emulated_gpu gpu;

dlr_cu_result emulator_break(dlr_cu_result result, const char *detail) {
    if (gpu.fault) return gpu.fault;
    snprintf(gpu.detail, sizeof gpu.detail, "%s", detail);
    return gpu.fault = result;
}

static _Thread_local int own_life; /* the number of this thread's context */

void emulator_take_context(bool any) { own_life = any ? gpu.lives : 0; }

dlr_cu_result emulator_ready(void) {
    if (gpu.fault) return gpu.fault;
    return gpu.contexts > 0 && own_life == gpu.lives ? 0 : DLR_CU_INVALID_CONTEXT;
}

const block *emulator_find(const block *list, int n, const char *at) {
    for (int i = 0; i < n; i++)
        if (at >= list[i].at && at < list[i].at + list[i].bytes) return &list[i];
    for (int i = 0; i < n; i++) /* an address may be one block's end and the next block's begin: the
                                   latter is found */
        if (at == list[i].at + list[i].bytes) return &list[i];
    return NULL;
}
const block *emulator_find_device(uint64_t address) {
    return emulator_find(gpu.device.at, gpu.device.n, (const char *)(uintptr_t)(address - bias));
}
bool emulator_has(const block *b, const char *at, size_t bytes) {
    return b && bytes <= b->bytes && at <= b->at + (b->bytes - bytes);
}

void *emulator_memory(dlr_cu_memory at, size_t bytes) {
    char *here = (char *)(uintptr_t)(at - bias);
    return emulator_has(emulator_find_device(at), here, bytes) ? here : NULL;
}

/* A call that allocates or waits invalidates a capture. */
bool emulator_captures(void) {
    bool any = false;
    for (int i = 0; i < gpu.streams.n; i++) {
        struct CUstream_st *s = gpu.streams.at[i];
        if (s->capture) any = s->capture->invalid = true;
    }
    return any;
}

dlr_cu_result emulator_outside(bool frees) {
    dlr_cu_result r = emulator_ready();
    if (r && !(frees && gpu.fault)) return r;
    return emulator_captures() ? DLR_CU_STREAM_CAPTURE_UNSUPPORTED : 0;
}

void emulator_unuse(struct CUgraph_st *g) {
    if (--g->users > 0) return;
    for (int i = 0; i < g->list.n; i++) free(g->list.at[i].args);
    free(g->list.at), free(g->ran), free(g->at), free(g);
}
