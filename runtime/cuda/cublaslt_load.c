/* libcublasLt: which one, and its functions. */
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

static int64_t version_of(void *table) { return (int64_t)((dlr_cublaslt *)table)->GetVersion(); }

static void load_once(void) {
    const dlr_library_source from = {.library = DL_LIBRARY_CUBLASLT,
                                     .files = files,
                                     .called = "libcublasLt.so.13 or .12",
                                     .package = "nvidia-cublas",
                                     .n = sizeof functions / sizeof *functions,
                                     .functions = functions,
                                     .table = &the_library,
                                     .version = version_of,
                                     .least = DLR_LT_LEAST};
    the_library.version = dlr_library_load(&from, &the_library.path, &the_fault);
}

const dlr_cublaslt *dlr_cublaslt_load(dl_error *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_once);
    if (!the_fault.code) return &the_library;
    dl_fail(err, the_fault.code, "%s", the_fault.message);
    return NULL;
}
