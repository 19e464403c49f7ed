/* libcublasLt: which one, and its functions. */
#include <pthread.h>
#include <string.h>

#include "ir/base/search.h"
#include "runtime/cuda/cublaslt.h"
#include "runtime/functions.h"

static const char *const libraries[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
static const dlr_function functions[] = {
#define ROW(name, result, arguments) {"cublasLt" #name, offsetof(dlr_cublaslt, name)},
    DLR_CUBLASLT_FUNCTIONS(ROW)
#undef ROW
};

/* NULL, or why it will not do. */
static const char *try_load(dl_arena *arena, const char *path, dlr_cublaslt *l) {
    const char *why =
        dlr_functions_load(arena, path, sizeof functions / sizeof *functions, functions, l, &l->path);
    if (why) return why;
    l->version = (int64_t)l->GetVersion();
    return l->version >= DLR_LT_LEAST ? NULL
                                      : dl_format(arena, "%s: its version is %s, and 12.0 is needed", path,
                                                  dl_library_version(arena, l->version));
}

static dlr_cublaslt the_library;
static dl_error the_fault;

static void load_once(void) {
    dl_arena *arena = dl_arena_new(NULL); /* kept with the library */
    const char *override = dlr_library_cublaslt.override;
    dl_candidates c = dl_cuda_search(arena, libraries, override, NULL);
    const char *rejected = "";
    for (int i = 0; i < c.n; i++) {
        const char *why = try_load(arena, c.at[i].path, &the_library);
        if (!why) return;
        if (strchr(c.at[i].path, '/')) rejected = dl_format(arena, "%s; %s", rejected, why);
    }
    dl_fail(&the_fault, DL_RESOURCE,
            "no cuBLASLt (libcublasLt.so.13 or .12) found, looked at: %s%s; install it (pip install "
            "nvidia-cublas), or set %s to the library's path",
            dl_cuda_places(arena, override, NULL), rejected, override);
}

const dlr_cublaslt *dlr_cublaslt_load(dl_error *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_once);
    if (!the_fault.code) return &the_library;
    dl_fail(err, the_fault.code, "%s", the_fault.message);
    return NULL;
}
