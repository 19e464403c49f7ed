#include "runtime/base/functions.h"

#include <dlfcn.h>
#include <fenv.h>
#include <string.h>

#include "ir/base/search.h"
#include "ir/base/str.h"

/* Returns NULL, or the reason for which the library is refused; *path: the file that it was loaded
 * from. */
static const char *try_load(dl_arena *arena, const dlr_functions *from, const char *library,
                            const char **path) {
    fenv_t before; /* code of other libraries: the caller's floating-point environment is restored
                      after it */
    fegetenv(&before);
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    fesetenv(&before);
    if (!handle) return dlerror();
    for (size_t i = 0; i < from->n; i++) {
        void *f = dlsym(handle, from->functions[i].name);
        if (!f)
            return dl_format(arena, "%s: it has no function %s", library, from->functions[i].name);
        memcpy((char *)from->table + from->functions[i].at, &f, sizeof f);
    }
    const char *why = from->refuse(arena, from->table), *file = dl_cuda_loaded_from(arena, handle);
    if (why) return dl_format(arena, "%s: %s", library, why);
    *path = dl_intern(file ? file : library);
    return NULL;
}

const char *dlr_functions_find(const dlr_functions *from, dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    const char *rejected = "", *path = NULL;
    dl_candidates c = dl_cuda_search(arena, from->files, from->override, NULL);
    for (int i = 0; i < c.n && !path; i++) {
        const char *why = try_load(arena, from, c.at[i].path, &path);
        if (why && strchr(c.at[i].path, '/')) rejected = dl_format(arena, "%s; %s", rejected, why);
    }
    if (!path)
        dl_fail(err, DL_RESOURCE,
                "no %s (%s) found, looked at: %s%s; install it (pip install %s), or set %s to the "
                "library's "
                "path",
                from->name, from->called, dl_cuda_places(arena, from->override, NULL), rejected,
                from->package, from->override);
    dl_arena_free(arena);
    return path;
}
