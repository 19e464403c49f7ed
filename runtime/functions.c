#include "runtime/functions.h"

#include <dlfcn.h>
#include <fenv.h>
#include <string.h>

#include "ir/base/search.h"

const char *dlr_functions_load(dl_arena *arena, const char *library, size_t n, const dlr_function *functions,
                               void *table, const char **path) {
    fenv_t before; /* code of others: the caller's floating-point environment stays as it is */
    fegetenv(&before);
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    fesetenv(&before);
    if (!handle) return dlerror();
    for (size_t i = 0; i < n; i++) {
        void *f = dlsym(handle, functions[i].name);
        if (!f) return dl_format(arena, "%s: it has no function %s", library, functions[i].name);
        memcpy((char *)table + functions[i].at, &f, sizeof f);
    }
    const char *from = dl_cuda_loaded_from(arena, handle);
    *path = from ? from : library;
    return NULL;
}
