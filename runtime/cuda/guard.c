/* DLR_DEBUG=guard on a CUDA device: one launch at a time, on copies with canaries around them
 * (runtime/device/guard.h). */
#include <stdio.h>
#include <string.h>

#include "runtime/cuda/cuda.h"
#include "runtime/device/guard.h"

enum { PIECE = 1 << 20 };

/* Allocates the guard's memory, at the first launch. */
static dlr_cu_result prepare(dlr_cuda *c) {
    dlr_cuda_guard *g = &c->guard;
    if (g->memory) return 0;
    size_t bytes = (size_t)dlr_guard_most(c->base.plan);
    c->all.allocations++;
    dlr_cu_result r = c->driver->MemAlloc(&g->memory, bytes);
    if (r == DLR_CU_OUT_OF_MEMORY)
        dl_fail(&c->base.fault, DL_RESOURCE,
                "DLR_DEBUG=guard needs another %.1f MiB of memory on %s, for copies of what a "
                "kernel touches, "
                "and there is none",
                (double)bytes / 0x1p20, c->name);
    if (r || !dlr_cuda_pin(c, &g->canary, PIECE) || !dlr_cuda_pin(c, &g->seen, PIECE) ||
        !dlr_cuda_pin(c, &g->kept, PIECE))
        return r ? r : DLR_CU_INVALID_VALUE;
    dlr_guard_fill(g->canary.at, PIECE);
    return 0;
}

static dlr_cu_result put_canaries(dlr_cuda *c, const dlr_guard *g) {
    dlr_cu_result r = 0;
    for (int i = 0; r == 0 && i <= g->n; i++) {
        int64_t from, to;
        dlr_guard_canary(g, i, &from, &to);
        r = c->driver->MemcpyHtoDAsync(c->guard.memory + (uint64_t)from, c->guard.canary.at,
                                       (size_t)(to - from), c->stream);
    }
    return r;
}

/* Copies the parts from the arena, or the written parts back to it. No kernel may read the
 * workspace's old contents: it is filled with NaN. */
static dlr_cu_result copy_parts(dlr_cuda *c, const dlr_guard *g, bool back) {
    dlr_cu_result r = 0;
    for (int i = 0; r == 0 && i < g->n; i++) {
        const dlr_guard_part *p = &g->parts[i];
        uint64_t arena = c->memory + (uint64_t)p->offset,
                 guarded = c->guard.memory + (uint64_t)p->place;
        if (p->bytes == 0 || (back && (!p->written || p->offset < 0))) continue;
        r = p->offset < 0
                ? c->driver->MemsetD8Async(guarded, 0xff, (size_t)p->bytes, c->stream)
                : c->driver->MemcpyDtoDAsync(back ? arena : guarded, back ? guarded : arena,
                                             (size_t)p->bytes, c->stream);
    }
    return r;
}

/* Copies bytes of the device to the host; they are there when this returns. */
static dlr_cu_result fetch(dlr_cuda *c, dlr_pinned *to, uint64_t from, int64_t bytes) {
    dlr_cu_result r = c->driver->MemcpyDtoHAsync(to->at, from, (size_t)bytes, c->stream);
    return r ? r : c->driver->StreamSynchronize(c->stream);
}

static dlr_cu_result look_at_canaries(dlr_cuda *c, const dlr_guard *g, char *found, size_t size) {
    dlr_cu_result r = 0;
    for (int i = 0; r == 0 && !*found && i <= g->n; i++) {
        int64_t from, to;
        dlr_guard_canary(g, i, &from, &to);
        r = fetch(c, &c->guard.seen, c->guard.memory + (uint64_t)from, to - from);
        int64_t at = r ? -1 : dlr_guard_differs(c->guard.seen.at, to - from);
        if (at >= 0) dlr_guard_say_canary(g, i, at, found, size);
    }
    return r;
}

/* Checks that parts that a kernel may only read are unchanged. */
static dlr_cu_result look_at_inputs(dlr_cuda *c, const dlr_guard *g, char *found, size_t size) {
    dlr_cu_result r = 0;
    for (int i = 0; r == 0 && !*found && i < g->n; i++) {
        const dlr_guard_part *p = &g->parts[i];
        for (int64_t at = 0; r == 0 && !p->written && !*found && at < p->bytes; at += PIECE) {
            int64_t n = p->bytes - at < PIECE ? p->bytes - at : PIECE, k = 0;
            r = fetch(c, &c->guard.kept, c->memory + (uint64_t)(p->offset + at), n);
            if (r == 0)
                r = fetch(c, &c->guard.seen, c->guard.memory + (uint64_t)(p->place + at), n);
            if (r || memcmp(c->guard.kept.at, c->guard.seen.at, (size_t)n) == 0) continue;
            while (c->guard.kept.at[k] == c->guard.seen.at[k]) k++;
            dlr_guard_say_input(g, i, at + k, found, size);
        }
    }
    return r;
}

dlr_cu_result dlr_cuda_guarded(dlr_cuda *c, int program, int number) {
    dl_arena *arena = dl_arena_new(NULL);
    const dl_plan_launch *from = &c->base.plan->programs.at[program].launches.at[number];
    dlr_cuda_launch launch = c->programs[program].launches[number];
    dlr_guard g = dlr_guard_of(arena, c->base.plan, from);
    char found[700] = "";
    dlr_cu_result r = prepare(c);
    if (r == 0)
        r = dlr_cuda_bind(c, arena, &launch, c->guard.memory, g.places,
                          c->guard.memory + (uint64_t)g.places[from->nargs]);
    if (r == 0) r = put_canaries(c, &g);
    if (r == 0) r = copy_parts(c, &g, false);
    if (r == 0) r = dlr_cuda_put_launch(c, &launch);
    if (r == 0) r = c->driver->StreamSynchronize(c->stream);
    if (r == 0) r = look_at_canaries(c, &g, found, sizeof found);
    if (r == 0) r = look_at_inputs(c, &g, found, sizeof found);
    if (r == 0) r = copy_parts(c, &g, true);
    c->base.zones += g.n + 1;
    if (r == 0 && *found && dlr_cuda_alive(c))
        dl_fail(&c->base.fault, DL_INTERNAL, "DLR_DEBUG=guard, %s: %s", c->name, found);
    dl_arena_free(arena);
    return r;
}
