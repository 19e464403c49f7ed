/* Finds and loads libcublasLt. */
#include <pthread.h>

#include "runtime/cuda/cublaslt.h"

static const char *const files[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
static const dlr_function functions[] = {
#define ROW(name, result, arguments) {"cublasLt" #name, offsetof(dlr_cublaslt, name)},
    DLR_CUBLASLT_FUNCTIONS(ROW)
#undef ROW
};

static dlr_cublaslt the_library;
static dl_error the_fault;

static const char *refuse(dl_arena *arena, void *table) {
    dlr_cublaslt *l = table;
    l->version = (int64_t)l->GetVersion();
    return dlr_library_too_old(arena, l->version, DLR_LT_LEAST);
}

static void load_once(void) {
    const dlr_functions from = {.name = dl_library_names[DL_LIBRARY_CUBLASLT],
                                .override = DLR_CUBLASLT_OVERRIDE,
                                .files = files,
                                .called = "libcublasLt.so.13 or .12",
                                .package = "nvidia-cublas",
                                .n = sizeof functions / sizeof *functions,
                                .functions = functions,
                                .table = &the_library,
                                .refuse = refuse};
    the_library.path = dlr_functions_find(&from, &the_fault);
}

const dlr_cublaslt *dlr_cublaslt_load(dl_error *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_once);
    if (!the_fault.code) return &the_library;
    dl_fail(err, the_fault.code, "%s", the_fault.message);
    return NULL;
}
