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
#include "tests/emulator/emulator.h"

/* ---- the device ---- */

static dlr_cu_result init(unsigned flags) {
    return gpu.running = true, flags ? DLR_CU_INVALID_VALUE : 0;
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
    return *count = 1, gpu.running ? 0 : DLR_CU_NOT_INITIALIZED;
}
static dlr_cu_result device_get(dlr_cu_device *device, int ordinal) {
    if (!gpu.running) return DLR_CU_NOT_INITIALIZED;
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
    if (gpu.options.memory) return gpu.options.memory;
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
    case DLR_CU_COMPUTE_MAJOR: return *value = gpu.options.major, 0;
    case DLR_CU_COMPUTE_MINOR: return *value = gpu.options.minor, 0;
    case DLR_CU_SHARED_OPTIN: return *value = emulator_shared(), 0;
    default: return DLR_CU_INVALID_VALUE;
    }
}

static dlr_cu_result context_retain(dlr_cu_context *context, dlr_cu_device device) {
    if (device) return DLR_CU_INVALID_DEVICE;
    if (gpu.contexts == 0 && gpu.fault) return gpu.fault; /* a fault outlasts its context */
    *context = (dlr_cu_context)&gpu;
    if (gpu.contexts++ == 0) gpu.lives++;
    return 0;
}
static dlr_cu_result context_set(dlr_cu_context context) {
    if (context && context != (dlr_cu_context)&gpu) return DLR_CU_INVALID_CONTEXT;
    return emulator_take_context(context != NULL), 0;
}
static const char *detail(void) { return gpu.detail; }

/* ---- memory ---- */

static char *take(size_t bytes) {
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* MiB that other programs hold, for whole programs whose tests cannot call `set`. */
static size_t others(void) {
    const char *text = getenv("CUDA_EMULATOR_OTHERS");
    return gpu.options.others ? gpu.options.others : text ? (size_t)atoll(text) << 20 : 0;
}

/* The free memory. A context takes its share, and so do its code and graphs, as with a real driver,
 * but of a size that a test has set. */
static size_t unused(void) {
    if (gpu.options.memory) return memory() - gpu.used;
    enum { CONTEXT = 256 << 20 };
    size_t taken = others() + gpu.used + gpu.code + (gpu.contexts > 0 ? CONTEXT : 0);
    return taken < memory() ? memory() - taken : 0;
}

static dlr_cu_result memory_info(size_t *free, size_t *total) {
    *total = memory(), *free = unused();
    return emulator_ready();
}

static dlr_cu_result allocate(dlr_cu_memory *to, size_t bytes) {
    dlr_cu_result r = emulator_outside(false);
    if (r) return r;
    if (bytes == 0) return DLR_CU_INVALID_VALUE;
    if (bytes > unused()) return DLR_CU_OUT_OF_MEMORY;
    block b = {take(bytes), bytes, false};
    if (!b.at) return DLR_CU_OUT_OF_MEMORY;
    memset(b.at, 0xff, bytes);
    PUSH(&gpu.device, b);
    gpu.used += bytes;
    *to = (uint64_t)(uintptr_t)b.at + bias;
    return 0;
}

static dlr_cu_result allocate_host(void **to, size_t bytes) {
    dlr_cu_result r = emulator_outside(false);
    if (r) return r;
    if (bytes == 0) return DLR_CU_INVALID_VALUE;
    block b = {take(bytes), bytes, false};
    if (!b.at) return DLR_CU_OUT_OF_MEMORY;
    PUSH(&gpu.pinned, b);
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
    dlr_cu_result r = emulator_outside(true);
    if (r) return r;
    emulator_drain_all();
    if (!give(gpu.device.at, &gpu.device.n, (char *)(uintptr_t)(at - bias), false, &bytes))
        return DLR_CU_INVALID_VALUE;
    gpu.used -= bytes;
    return gpu.fault;
}
static dlr_cu_result release_host(void *at) {
    size_t bytes;
    dlr_cu_result r = emulator_outside(true);
    if (r) return r;
    emulator_drain_all();
    return give(gpu.pinned.at, &gpu.pinned.n, at, false, &bytes) ? gpu.fault : DLR_CU_INVALID_VALUE;
}

static dlr_cu_result register_host(void *at, size_t bytes, unsigned flags) {
    dlr_cu_result r = emulator_outside(false);
    if (r) return r;
    if (gpu.options.no_register) return DLR_CU_OUT_OF_MEMORY;
    if (bytes == 0 || flags) return DLR_CU_INVALID_VALUE;
    for (int i = 0; i < gpu.pinned.n; i++)
        if (gpu.pinned.at[i].at < (char *)at + bytes &&
            (char *)at < gpu.pinned.at[i].at + gpu.pinned.at[i].bytes)
            return DLR_CU_ALREADY_REGISTERED;
    block b = {at, bytes, true};
    PUSH(&gpu.pinned, b);
    return 0;
}
/* Work under way is lost with the memory: the caller must have waited for it. */
static dlr_cu_result unregister_host(void *at) {
    size_t bytes;
    dlr_cu_result r = emulator_outside(true);
    if (r) return r;
    return give(gpu.pinned.at, &gpu.pinned.n, at, true, &bytes) ? gpu.fault : DLR_CU_NOT_REGISTERED;
}

/* Ends the context and frees all that it held. */
static void context_end(void) {
    emulator_drop_streams();
    emulator_drop_code();
    for (int i = 0; i < gpu.device.n; i++) drop(&gpu.device.at[i]);
    for (int i = 0; i < gpu.pinned.n; i++) drop(&gpu.pinned.at[i]);
    gpu.device.n = gpu.pinned.n = 0, gpu.used = 0;
    gpu.lives++; /* no thread has the new context */
}
static dlr_cu_result context_release(dlr_cu_device device) {
    if (device) return DLR_CU_INVALID_DEVICE;
    if (gpu.contexts == 0) return DLR_CU_INVALID_CONTEXT;
    if (gpu.contexts == 1 && !gpu.fault)
        gpu.lost += gpu.streams.n + gpu.events.n + gpu.modules.n + gpu.execs.n + gpu.device.n +
                    gpu.pinned.n;
    if (--gpu.contexts == 0) context_end();
    return 0;
}
static int lost(void) { return gpu.lost; }

static void set_options(cuda_emulator_options options) {
    gpu.options = options, gpu.copies = 0;
    if (gpu.contexts == 0) gpu.fault = 0, *gpu.detail = 0; /* as in another process */
    gpu.told = 0, *gpu.journal = 0;
}
static const char *journal(void) { return gpu.journal; }

const dlr_driver *dlr_emulated_driver(void);
const dlr_driver *dlr_emulated_driver(void) {
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
    emulator_streams(&table);
    emulator_code(&table);
    if (gpu.options.no_maps) table.TensorMapEncodeTiled = NULL;
    if (gpu.options.no_images) table.TensorMapEncodeIm2col = NULL;
    init(0);
    return &table;
}

extern const cuda_emulator cuda_emulator_table;
const cuda_emulator cuda_emulator_table = {.driver = dlr_emulated_driver,
                                           .memory = emulator_memory,
                                           .set = set_options,
                                           .lost = lost,
                                           .priority = emulator_priority,
                                           .journal = journal};
