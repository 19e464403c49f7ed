/* Shared functions of this folder: whether the device works, checks of the driver's results, waits,
 * and pinned host memory. */
#include <stdio.h>

#include "runtime/cuda/cuda.h"

bool dlr_cuda_fails(dlr_cuda *c, dlr_cu_result result, const char *what, dl_error *err) {
    char said[700];
    if (result == 0) return false;
    dlr_driver_say(c->driver, result, said, sizeof said);
    return !dl_fail(err, DL_RESOURCE, "%s: %s: %s", c->name, what, said);
}

bool dlr_cuda_alive(const dlr_cuda *c) { return c->base.fault.code == DL_OK; }

/* Whether the error is caused by a kernel, and not by a driver call. */
static bool is_of_kernels(dlr_cu_result r) {
    return (r >= DLR_CU_ILLEGAL_ADDRESS && r <= DLR_CU_LAUNCH_TIMEOUT) || r == DLR_CU_ASSERT ||
           (r >= DLR_CU_HARDWARE_STACK && r <= DLR_CU_LAUNCH_FAILED);
}

bool dlr_cuda_together(dlr_cuda *c) {
    dl_error lost = {0};
    if (!c->nccl || dlr_comm_check(c->nccl, &lost)) return true;
    if (dlr_cuda_alive(c)) c->base.fault = lost;
    return false;
}

bool dlr_cuda_ok(dlr_cuda *c, dlr_cu_result result, const char *what) {
    if (result == 0) return true;
    if (!dlr_cuda_alive(c) || !dlr_cuda_together(c)) return false;
    char said[700], where[700] = "";
    dlr_driver_say(c->driver, result, said, sizeof said);
    dl_fail(&c->base.fault, DL_RESOURCE, "%s failed: %s", c->name, said);
    if (is_of_kernels(result) && c->runs > 0) {
        int program = c->ring[(c->runs - 1) % DLR_RING].program;
        if (!c->slow) /* there is no retry: the driver lets a process have no other context */
            snprintf(
                where, sizeof where,
                "in the program '%s'; run again with DLR_DEBUG=launches to learn in which kernel",
                c->base.plan->programs.at[program].name);
    }
    c->base.fault = (dl_error){0};
    return dl_fail(&c->base.fault, DL_RESOURCE, "the device (%s) failed in %s: %s%s%s", c->name,
                   what, said, *where ? "; " : "", where);
}

/* ---- waiting ---- */

/* The program's thread waits in the driver; this includes other ranks' work where there are
 * several. */
static void wait_for(dlr_cuda *c, dlr_cu_event event) {
    if (c->nccl) dlr_comm_waits(c->nccl, true);
    dlr_cu_result r =
        event ? c->driver->EventSynchronize(event) : c->driver->StreamSynchronize(c->stream);
    if (c->nccl) dlr_comm_waits(c->nccl, false);
    dlr_cuda_ok(c, r, "a wait");
    if (r == 0) dlr_cuda_together(c);
}

void dlr_cuda_wait(dlr_device *d) {
    dlr_cuda *c = (dlr_cuda *)d;
    if (!dlr_cuda_alive(c)) return;
    c->all.syncs++;
    wait_for(c, NULL);
    c->flying = -1;
}

void dlr_cuda_wait_pinned(dlr_cuda *c, dlr_pinned *p) {
    if (!p->busy || !dlr_cuda_alive(c)) return;
    p->busy = false;
    *(p->run < c->runs ? &c->all.waits : &c->all.syncs) += 1;
    wait_for(c, p->event);
    if (p->run >= c->runs) c->flying = -1;
}

/* ---- host memory ---- */

bool dlr_cuda_pin(dlr_cuda *c, dlr_pinned *p, int64_t bytes) {
    if (p->bytes >= bytes) return true;
    if (p->at) {
        dlr_cuda_wait_pinned(c, p);
        c->driver->MemFreeHost(p->at);
    }
    void *at = NULL;
    p->at = NULL, p->bytes = 0, c->all.allocations++;
    if (!dlr_cuda_ok(c, c->driver->MemAllocHost(&at, (size_t)bytes),
                     "memory of the host for copies"))
        return false;
    if (!p->event &&
        !dlr_cuda_ok(c, c->driver->EventCreate(&p->event, DLR_CU_EVENT_DISABLE_TIMING), "an event"))
        return false;
    p->at = at, p->bytes = bytes;
    return true;
}
