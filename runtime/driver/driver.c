/* Loads libcuda.so.1 at run time.
 *
 * CUDA renames its functions by version (cuMemAlloc is cuMemAlloc_v2 in the library). Each function
 * is looked up by cuGetProcAddress_v2 (in drivers since 12.0) with its base name and the CUDA
 * version whose prototype driver.h declares. */
#include "runtime/driver/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/search.h"

enum { LEAST_VERSION = 12000 };

typedef dlr_cu_result get_proc_fn(const char *name, void **function, int version, uint64_t flags,
                                  int *status);

static const struct {
    const char *name;
    int version; /* the CUDA version of the prototype, times 1000 */
    size_t at;
    bool optional; /* NULL where the driver lacks it */
} functions[] = {
#define NEEDED(name, version, arguments)   {"cu" #name, version, offsetof(dlr_driver, name), false},
#define OPTIONAL(name, version, arguments) {"cu" #name, version, offsetof(dlr_driver, name), true},
    DLR_DRIVER_FUNCTIONS(NEEDED, OPTIONAL)
#undef NEEDED
#undef OPTIONAL
};

static const char *no_detail(void) { return ""; }

static bool too_old(int version, dl_error *err) {
    return dl_fail(
        err, DL_RESOURCE,
        "the CUDA driver here is of version %d.%d, and 12.0 is needed: install a newer driver, or "
        "run on the CPU with --device=cpu",
        version / 1000, version % 1000 / 10);
}

static void *find(void *library, const char *name) { return dlsym(library, name); }

static bool fill(dlr_driver *d, void *library, dl_error *err) {
    void *address = find(library, "cuGetProcAddress_v2");
    int version;
    if (dl_cuda_version_of(library, &version) == DLR_CU_STUB_LIBRARY)
        return dl_fail(
            err, DL_RESOURCE,
            "the libcuda.so.1 that is found is a toolkit's stub, which programs are linked with, "
            "and no "
            "driver: take its folder out of LD_LIBRARY_PATH, or run on the CPU with --device=cpu");
    if (version && version < LEAST_VERSION) return too_old(version, err);
    if (!address)
        return dl_fail(err, DL_RESOURCE,
                       "libcuda.so.1 has no cuGetProcAddress_v2, which CUDA drivers have since "
                       "12.0: install a "
                       "newer driver, or run on the CPU with --device=cpu");
    get_proc_fn *get;
    memcpy(&get, &address, sizeof get);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *function = NULL;
        int status;
        bool found =
            get(functions[i].name, &function, functions[i].version, 0, &status) == 0 && function;
        if (!found && !functions[i].optional)
            return dl_fail(
                err, DL_RESOURCE,
                "the CUDA driver (version %d.%d) has no %s: install a newer one, or run on the CPU "
                "with --device=cpu",
                version / 1000, version % 1000 / 10, functions[i].name);
        if (!found) function = NULL;
        memcpy((char *)d + functions[i].at, &function, sizeof function);
    }
    d->Detail = no_detail;
    return true;
}

void dlr_driver_say(const dlr_driver *d, dlr_cu_result result, char *text, size_t size) {
    const char *name = NULL, *what = NULL, *detail = d->Detail();
    d->GetErrorName(result, &name), d->GetErrorString(result, &what);
    snprintf(text, size, "%s (%s)%s%s", name ? name : "an unknown error",
             what ? what : "no description", *detail ? ": " : "", detail);
}

dlr_cu_result dlr_driver_urgent_stream(const dlr_driver *d, dlr_cu_stream *stream) {
    int least, greatest;
    dlr_cu_result r = d->CtxGetStreamPriorityRange(&least, &greatest);
    return r ? r : d->StreamCreateWithPriority(stream, DLR_CU_STREAM_NON_BLOCKING, greatest);
}

static bool start(const dlr_driver *d, dl_error *err) {
    int count = 0;
    dlr_cu_result result = d->Init(0);
    if (result == 0) result = d->DeviceGetCount(&count);
    if (result == DLR_CU_NO_DEVICE || (result == 0 && count == 0))
        return dl_fail(
            err, DL_RESOURCE,
            "the CUDA driver finds no device (is CUDA_VISIBLE_DEVICES empty?): run on the CPU with "
            "--device=cpu");
    if (result == 0) return true;
    char text[512];
    dlr_driver_say(d, result, text, sizeof text);
    return dl_fail(err, DL_RESOURCE,
                   "the CUDA driver does not start: %s; run on the CPU with --device=cpu", text);
}

static bool load(dlr_driver *d, void *library, const char *name, const char *why, dl_error *err) {
    if (!library)
        return dl_fail(
            err, DL_RESOURCE,
            "there is no CUDA driver: cannot load %s (%s); install one, or run on the CPU with "
            "--device=cpu",
            name, why);
    return fill(d, library, err) && start(d, err);
}

const dlr_driver *dlr_driver_load(const char *path, dl_error *err) {
    static dlr_driver driver;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return load(&driver, library, path, library ? "" : dlerror(), err) ? &driver : NULL;
}

const dlr_driver *dlr_driver_emulated(dl_error *err) {
    const char *path = getenv(DLR_CUDA_EMULATOR);
    if (!path || !*path) {
        dl_fail(err, DL_RESOURCE,
                "an emulated CUDA device needs the library that the build of the tests makes: "
                "set " DLR_CUDA_EMULATOR
                "=BUILD/tests/emulator/libcuda_emulator.so (docs/guide/gpu.md), or use "
                "--device=cpu");
        return NULL;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *address = library ? find(library, "dlr_emulated_driver") : NULL;
    if (!address) {
        dl_fail(err, DL_RESOURCE, DLR_CUDA_EMULATOR " names no CUDA emulator: %s", dlerror());
        return NULL;
    }
    const dlr_driver *(*get)(void);
    memcpy(&get, &address, sizeof get);
    return get();
}

static dlr_driver the_driver;
static dl_error the_fault;
static void open_once(void) {
    const char *why;
    void *library = dl_cuda_driver(&why);
    load(&the_driver, library, "libcuda.so.1", why, &the_fault);
}

const dlr_driver *dlr_driver_open(dl_error *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_once);
    if (the_fault.code == DL_OK) return &the_driver;
    dl_fail(err, the_fault.code, "%s", the_fault.message);
    return NULL;
}
