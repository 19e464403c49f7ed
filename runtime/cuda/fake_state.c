/* The emulated driver's state, and functions on it that all its files use: faults, contexts,
 * addresses, captures (fake.h). */
#include <stdio.h>

#include "runtime/cuda/fake.h"

dlr_fake dlr_the_fake;

dlr_cu_result dlr_fake_break(dlr_cu_result result, const char *detail) {
    if (fake.fault) return fake.fault;
    snprintf(fake.detail, sizeof fake.detail, "%s", detail);
    return fake.fault = result;
}

static _Thread_local int own_life; /* the number of this thread's context */

void dlr_fake_take_context(bool any) { own_life = any ? fake.lives : 0; }

dlr_cu_result dlr_fake_ready(void) {
    if (fake.fault) return fake.fault;
    return fake.contexts > 0 && own_life == fake.lives ? 0 : DLR_CU_INVALID_CONTEXT;
}

const block *dlr_fake_find(const block *list, int n, const char *at) {
    for (int i = 0; i < n; i++)
        if (at >= list[i].at && at < list[i].at + list[i].bytes) return &list[i];
    for (int i = 0; i < n; i++) /* an address may be one block's end and the next block's begin: the
                                   latter is found */
        if (at == list[i].at + list[i].bytes) return &list[i];
    return NULL;
}
const block *dlr_fake_find_device(uint64_t address) {
    return dlr_fake_find(fake.device.at, fake.device.n, (const char *)(uintptr_t)(address - bias));
}
bool dlr_fake_has(const block *b, const char *at, size_t bytes) {
    return b && bytes <= b->bytes && at <= b->at + (b->bytes - bytes);
}

void *dlr_fake_memory(dlr_cu_memory at, size_t bytes) {
    char *here = (char *)(uintptr_t)(at - bias);
    return dlr_fake_has(dlr_fake_find_device(at), here, bytes) ? here : NULL;
}

/* A call that allocates or waits invalidates a capture. */
bool dlr_fake_captures(void) {
    bool any = false;
    for (int i = 0; i < fake.streams.n; i++) {
        struct CUstream_st *s = fake.streams.at[i];
        if (s->capture) any = s->capture->invalid = true;
    }
    return any;
}

dlr_cu_result dlr_fake_outside(bool frees) {
    dlr_cu_result r = dlr_fake_ready();
    if (r && !(frees && fake.fault)) return r;
    return dlr_fake_captures() ? DLR_CU_STREAM_CAPTURE_UNSUPPORTED : 0;
}

void dlr_fake_unuse(struct CUgraph_st *g) {
    if (--g->users > 0) return;
    for (int i = 0; i < g->list.n; i++) free(g->list.at[i].args);
    free(g->list.at), free(g->ran), free(g->at), free(g);
}
