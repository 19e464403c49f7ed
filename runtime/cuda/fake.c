/* The emulated CUDA driver: the table of driver.h over this machine's CPU.
 *
 * It is stricter than a real driver. Work on a stream is queued, and done in order when somebody
 * waits for it. Data that are read too early are therefore not there yet, and a copy from memory
 * that was changed too early copies the change. Between streams the order is the worst that events
 * allow: other streams do nothing that is not waited for, or (`hasty`) all that no event holds
 * back.
 *
 * Device memory begins as NaN and lies at addresses that the host cannot use; every argument of a
 * launch must point into it. Copies must use pinned memory. While a stream captures, calls that
 * allocate, wait or copy are refused; calls of a thread without the context are always refused. The
 * first fault stays, as on a device. It must not be used by several threads at a time. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "ir/base/memory.h"
#include "runtime/cuda/fake.h"

/* ---- the device ---- */

static dlr_cu_result init(unsigned flags) {
    return fake.running = true, flags ? DLR_CU_INVALID_VALUE : 0;
}
static dlr_cu_result driver_version(int *version) { return *version = 12040, 0; }

static const struct {
    dlr_cu_result result;
    const char *name, *text;
} results[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {DLR_CU_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {DLR_CU_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {DLR_CU_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {DLR_CU_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {DLR_CU_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {DLR_CU_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {DLR_CU_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error"},
    {DLR_CU_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {DLR_CU_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {DLR_CU_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access"},
    {DLR_CU_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part of the memory is registered"},
    {DLR_CU_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "the memory is not registered"},
    {DLR_CU_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {DLR_CU_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "not permitted when a stream is capturing"},
    {DLR_CU_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "the capture was invalidated by an error before"},
    {DLR_CU_STREAM_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "a stream that the capture went into has not come back to the one that began it"},
    {DLR_CU_STREAM_CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "the capture would wait for what is outside of it"},
    {DLR_CU_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT", "the event is part of a capture"}};
enum { NRESULTS = sizeof results / sizeof *results };

static dlr_cu_result error_name(dlr_cu_result result, const char **name) {
    for (int i = 0; i < NRESULTS; i++)
        if (results[i].result == result) return *name = results[i].name, 0;
    return *name = NULL, DLR_CU_INVALID_VALUE;
}
static dlr_cu_result error_string(dlr_cu_result result, const char **text) {
    for (int i = 0; i < NRESULTS; i++)
        if (results[i].result == result) return *text = results[i].text, 0;
    return *text = NULL, DLR_CU_INVALID_VALUE;
}

static dlr_cu_result device_count(int *count) {
    return *count = 1, fake.running ? 0 : DLR_CU_NOT_INITIALIZED;
}
static dlr_cu_result device_get(dlr_cu_device *device, int ordinal) {
    if (!fake.running) return DLR_CU_NOT_INITIALIZED;
    return *device = 0, ordinal ? DLR_CU_INVALID_DEVICE : 0;
}
static dlr_cu_result device_name(char *name, int size, dlr_cu_device device) {
    snprintf(name, (size_t)size, "emulated device");
    return device ? DLR_CU_INVALID_DEVICE : 0;
}
/* 64 GiB, or three quarters of this machine's free memory: device memory is host memory here, and
 * the system kills processes that take more. */
static size_t memory(void) {
    static size_t most;
    if (fake.options.memory) return fake.options.memory;
    if (!most) {
        int64_t left = dl_memory_available();
        most = (size_t)1 << 36;
        if (left > 0 && (size_t)left / 4 * 3 < most) most = (size_t)left / 4 * 3;
    }
    return most;
}
static dlr_cu_result device_memory(size_t *bytes, dlr_cu_device device) {
    return *bytes = memory(), device ? DLR_CU_INVALID_DEVICE : 0;
}
static dlr_cu_result device_attribute(int *value, int attribute, dlr_cu_device device) {
    if (device) return DLR_CU_INVALID_DEVICE;
    switch (attribute) {
    case DLR_CU_COMPUTE_MAJOR: return *value = fake.options.major, 0;
    case DLR_CU_COMPUTE_MINOR: return *value = fake.options.minor, 0;
    case DLR_CU_SHARED_OPTIN: return *value = 227 << 10, 0;
    default: return DLR_CU_INVALID_VALUE;
    }
}

static dlr_cu_result context_retain(dlr_cu_context *context, dlr_cu_device device) {
    if (device) return DLR_CU_INVALID_DEVICE;
    if (fake.contexts == 0 && fake.fault) return fake.fault; /* a fault outlasts its context */
    *context = (dlr_cu_context)&fake;
    if (fake.contexts++ == 0) fake.lives++;
    return 0;
}
static dlr_cu_result context_set(dlr_cu_context context) {
    if (context && context != (dlr_cu_context)&fake) return DLR_CU_INVALID_CONTEXT;
    return dlr_fake_take_context(context != NULL), 0;
}
static const char *detail(void) { return fake.detail; }

/* ---- memory ---- */

static char *take(size_t bytes) {
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* The free memory. A context takes its share, and so do its code and graphs, as with a real driver,
 * but of a size that a test has set. */
static size_t unused(void) {
    if (fake.options.memory) return memory() - fake.used;
    enum { CONTEXT = 256 << 20 };
    size_t taken = fake.used + fake.code + (fake.contexts > 0 ? CONTEXT : 0);
    return taken < memory() ? memory() - taken : 0;
}

static dlr_cu_result memory_info(size_t *free, size_t *total) {
    *total = memory(), *free = unused();
    return dlr_fake_ready();
}

static dlr_cu_result allocate(dlr_cu_memory *to, size_t bytes) {
    dlr_cu_result r = dlr_fake_outside(false);
    if (r) return r;
    if (bytes == 0) return DLR_CU_INVALID_VALUE;
    if (bytes > unused()) return DLR_CU_OUT_OF_MEMORY;
    block b = {take(bytes), bytes, false};
    if (!b.at) return DLR_CU_OUT_OF_MEMORY;
    memset(b.at, 0xff, bytes);
    PUSH(&fake.device, b);
    fake.used += bytes;
    *to = (uint64_t)(uintptr_t)b.at + bias;
    return 0;
}

static dlr_cu_result allocate_host(void **to, size_t bytes) {
    dlr_cu_result r = dlr_fake_outside(false);
    if (r) return r;
    if (bytes == 0) return DLR_CU_INVALID_VALUE;
    block b = {take(bytes), bytes, false};
    if (!b.at) return DLR_CU_OUT_OF_MEMORY;
    PUSH(&fake.pinned, b);
    *to = b.at;
    return 0;
}

static void drop(const block *b) {
    if (!b->theirs) munmap(b->at, b->bytes);
}

static bool give(block *list, int *n, const char *at, bool theirs, size_t *bytes) {
    for (int i = 0; i < *n; i++) {
        if (list[i].at != at || list[i].theirs != theirs) continue;
        *bytes = list[i].bytes;
        drop(&list[i]);
        list[i] = list[--*n];
        return true;
    }
    return false;
}

/* Freeing waits for all work, as with a real driver. */
static dlr_cu_result release(dlr_cu_memory at) {
    size_t bytes;
    dlr_cu_result r = dlr_fake_outside(true);
    if (r) return r;
    dlr_fake_drain_all();
    if (!give(fake.device.at, &fake.device.n, (char *)(uintptr_t)(at - bias), false, &bytes))
        return DLR_CU_INVALID_VALUE;
    fake.used -= bytes;
    return fake.fault;
}
static dlr_cu_result release_host(void *at) {
    size_t bytes;
    dlr_cu_result r = dlr_fake_outside(true);
    if (r) return r;
    dlr_fake_drain_all();
    return give(fake.pinned.at, &fake.pinned.n, at, false, &bytes) ? fake.fault
                                                                   : DLR_CU_INVALID_VALUE;
}

static dlr_cu_result register_host(void *at, size_t bytes, unsigned flags) {
    dlr_cu_result r = dlr_fake_outside(false);
    if (r) return r;
    if (fake.options.no_register) return DLR_CU_OUT_OF_MEMORY;
    if (bytes == 0 || flags) return DLR_CU_INVALID_VALUE;
    for (int i = 0; i < fake.pinned.n; i++)
        if (fake.pinned.at[i].at < (char *)at + bytes &&
            (char *)at < fake.pinned.at[i].at + fake.pinned.at[i].bytes)
            return DLR_CU_ALREADY_REGISTERED;
    block b = {at, bytes, true};
    PUSH(&fake.pinned, b);
    return 0;
}
/* Work under way is lost with the memory: the caller must have waited for it. */
static dlr_cu_result unregister_host(void *at) {
    size_t bytes;
    dlr_cu_result r = dlr_fake_outside(true);
    if (r) return r;
    return give(fake.pinned.at, &fake.pinned.n, at, true, &bytes) ? fake.fault
                                                                  : DLR_CU_NOT_REGISTERED;
}

/* Ends the context and frees all that it held. */
static void context_end(void) {
    dlr_fake_drop_streams();
    dlr_fake_drop_code();
    for (int i = 0; i < fake.device.n; i++) drop(&fake.device.at[i]);
    for (int i = 0; i < fake.pinned.n; i++) drop(&fake.pinned.at[i]);
    fake.device.n = fake.pinned.n = 0, fake.used = 0;
    fake.lives++; /* no thread has the new context */
}
static dlr_cu_result context_release(dlr_cu_device device) {
    if (device) return DLR_CU_INVALID_DEVICE;
    if (fake.contexts == 0) return DLR_CU_INVALID_CONTEXT;
    if (fake.contexts == 1 && !fake.fault)
        fake.lost += fake.streams.n + fake.events.n + fake.modules.n + fake.execs.n +
                     fake.device.n + fake.pinned.n;
    if (--fake.contexts == 0) context_end();
    return 0;
}
int dlr_fake_lost(void) { return fake.lost; }

void dlr_fake_set(dlr_fake_options options) {
    fake.options = options, fake.copies = 0;
    if (fake.contexts == 0) fake.fault = 0, *fake.detail = 0; /* as in another process */
    fake.told = 0, *fake.journal = 0;
}
const char *dlr_fake_journal(void) { return fake.journal; }

const dlr_driver *dlr_driver_fake(void) {
    static dlr_driver table = {.Init = init,
                               .DriverGetVersion = driver_version,
                               .GetErrorName = error_name,
                               .GetErrorString = error_string,
                               .DeviceGetCount = device_count,
                               .DeviceGet = device_get,
                               .DeviceGetName = device_name,
                               .DeviceTotalMem = device_memory,
                               .DeviceGetAttribute = device_attribute,
                               .DevicePrimaryCtxRetain = context_retain,
                               .DevicePrimaryCtxRelease = context_release,
                               .CtxSetCurrent = context_set,
                               .MemGetInfo = memory_info,
                               .MemAlloc = allocate,
                               .MemFree = release,
                               .MemAllocHost = allocate_host,
                               .MemFreeHost = release_host,
                               .MemHostRegister = register_host,
                               .MemHostUnregister = unregister_host,
                               .Detail = detail};
    dlr_fake_streams(&table);
    dlr_fake_code(&table);
    if (fake.options.no_maps) table.TensorMapEncodeTiled = NULL;
    if (fake.options.no_images) table.TensorMapEncodeIm2col = NULL;
    init(0);
    return &table;
}
