#include "runtime/ranges.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "runtime/profile.h"

/* theirs: system D's name, NULL where it has none. %lld: the number. */
static const struct {
    const char *ours, *theirs;
} names[DLR_PARTS] = {
    [DLR_PART_STEP] = {"step %lld", "step %lld"},
    [DLR_PART_WAIT] = {"data wait", NULL},
    [DLR_PART_COPY_IN] = {"data copy in %lld", "data copy in %lld"},
    [DLR_PART_PROGRAM] = {"program", "forward"},
    [DLR_PART_RESULTS] = {"results", "optimizer"},
    [DLR_PART_VALIDATION] = {"validation", NULL},
    [DLR_PART_CHECKPOINT] = {"checkpoint", NULL},
};

static void put_name(const char *form, int64_t number, char name[64]) {
    const char *at = strstr(form, "%lld");
    if (at)
        snprintf(name, 64, "%.*s%lld%s", (int)(at - form), form, (long long)number, at + 4);
    else
        snprintf(name, 64, "%s", form);
}

void dlr_part_name(dlr_part part, int64_t number, char name[64]) { put_name(names[part].ours, number, name); }

/* The first of the libraries, NULL behind the last, that has the function. */
static void find(const char *const *libraries, const char *symbol, void *function) {
    for (int i = 0; libraries[i]; i++) {
        void *library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL),
             *address = library ? dlsym(library, symbol) : NULL;
        if (!address) continue;
        memcpy(function, &address, sizeof address); /* C has no cast from object to function */
        return;
    }
}

/* NVTX as a library: toolkits to 12.8 and from 12.9 on. The profiler's switch is the runtime's, or the
 * driver's own. */
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
    put_name(names[part].theirs ? names[part].theirs : names[part].ours, number, name);
    r->push(name);
}

void dlr_range_end(const dlr_ranges *r) {
    if (r->pop) r->pop();
    if (r->profile) dlr_profile_end(r->profile);
}
