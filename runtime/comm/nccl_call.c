/* Checks a call of NCCL or of the CUDA driver: waits while NCCL has it in progress, and describes a
 * failure in words. */
#include <stdio.h>
#include <time.h>

#include "ir/base/clock.h"
#include "runtime/comm/nccl.h"

bool dlr_nccl_well(const dlr_nccl_backend *b, dl_error *err) {
    return !b->failed.code || dl_fail(err, b->failed.code, "%s", b->failed.message);
}

/* Where CUDA has failed, a lack of memory is likely: ranks' buffers take some hundred MiB. */
static const char *put_free(const dlr_nccl_backend *b, int result, char *text, size_t size) {
    size_t free = 0, total = 0;
    if (result != DLR_NCCL_CUDA_ERROR || b->v->MemGetInfo(&free, &total)) return "";
    snprintf(text, size, "; %.1f MiB of the device's %.1f are free", (double)free / 0x1p20,
             (double)total / 0x1p20);
    return text;
}

bool dlr_nccl_ok(dlr_nccl_backend *b, dlr_nccl_comm c, int result, const char *what,
                 dl_error *err) {
    char free[100];
    int64_t pause = 20000;
    bool waits = result == DLR_NCCL_IN_PROGRESS;
    if (waits) b->waiting = dl_clock_ns(), b->waiting_what = what;
    while (result == DLR_NCCL_IN_PROGRESS && c && !b->failed.code) {
        pthread_mutex_unlock(&b->lock);
        nanosleep(&(struct timespec){.tv_nsec = pause}, NULL);
        pthread_mutex_lock(&b->lock);
        if (pause < 1000000) pause *= 2;
        if (b->failed.code) break;
        int called = b->n->CommGetAsyncError(c, &result);
        if (called) result = called;
    }
    if (waits) b->waiting = 0, b->waiting_what = NULL;
    if (!dlr_nccl_well(b, err)) return false;
    if (result == DLR_NCCL_SUCCESS) return true;
    const char *more = b->n->GetLastError(c);
    return dl_fail(err, DL_RESOURCE, "NCCL fails in %s: %s%s%s%s%s", what,
                   b->n->GetErrorString(result), more && *more ? " (" : "",
                   more && *more ? more : "", more && *more ? ")" : "",
                   put_free(b, result, free, sizeof free));
}

bool dlr_nccl_cu_ok(dlr_nccl_backend *b, dlr_cu_result result, const char *what, dl_error *err) {
    char said[700];
    if (result == 0) return true;
    dlr_driver_say(b->v, result, said, sizeof said);
    return dl_fail(err, DL_RESOURCE, "%s: %s", what, said);
}
