#include "runtime/report/ranges.h"

#include <dlfcn.h>
#include <string.h>

#include "runtime/report/profile.h"

/* Finds a function in the first of the libraries that has it; NULL ends the list. */
static void find(const char *const *libraries, const char *symbol, void *function) {
    for (int i = 0; libraries[i]; i++) {
        void *library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL),
             *address = library ? dlsym(library, symbol) : NULL;
        if (!address) continue;
        memcpy(function, &address, sizeof address); /* C has no cast from object to function */
        return;
    }
}

/* NVTX as a library: toolkits to 12.8 and from 12.9 on. The profiler's switch is the runtime's, or
 * the driver's own. */
void dlr_ranges_find(dlr_ranges *r) {
    static const char *const nvtx[] = {"libnvToolsExt.so.1",
                                       "libnvtx3interop.so.1",
                                       "libnvtx3interop.so",
                                       "/usr/local/cuda/lib64/libnvToolsExt.so.1",
                                       "/usr/local/cuda/lib64/libnvtx3interop.so",
                                       NULL};
    static const char *const cudart[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so",
                                         "/usr/local/cuda/lib64/libcudart.so", NULL};
    static const char *const driver[] = {"libcuda.so.1", NULL};
    find(nvtx, "nvtxRangePushA", &r->push), find(nvtx, "nvtxRangePop", &r->pop);
    find(cudart, "cudaProfilerStart", &r->start), find(cudart, "cudaProfilerStop", &r->stop);
    if (!r->start || !r->stop)
        find(driver, "cuProfilerStart", &r->start), find(driver, "cuProfilerStop", &r->stop);
    if (!r->push || !r->pop) r->push = NULL, r->pop = NULL;
    if (!r->start || !r->stop) r->start = NULL, r->stop = NULL;
}

void dlr_range_begin(const dlr_ranges *r, dlr_part part, int64_t number) {
    if (r->profile) dlr_profile_begin(r->profile, part, number);
    if (!r->push) return;
    char name[64];
    dlr_part_name_nvtx(part, number, name);
    r->push(name);
}

void dlr_range_end(const dlr_ranges *r) {
    if (r->pop) r->pop();
    if (r->profile) dlr_profile_end(r->profile);
}
