/* libcudnn: which one, and its functions. */
#include <pthread.h>

#include "runtime/cuda/cudnn.h"

static const char *const files[] = {"libcudnn.so.9", NULL};
static const dlr_function functions[] = {
#define ROW(name, result, arguments) {"cudnn" #name, offsetof(dlr_cudnn, name)},
    DLR_CUDNN_FUNCTIONS(ROW)
#undef ROW
};

static dlr_cudnn the_library;
static dl_error the_fault;

static int64_t version_of(void *table) { return (int64_t)((dlr_cudnn *)table)->GetVersion(); }

static void load_once(void) {
    const dlr_library_source from = {.library = DL_LIBRARY_CUDNN,
                                     .files = files,
                                     .called = "libcudnn.so.9",
                                     .package = "nvidia-cudnn-cu13",
                                     .n = sizeof functions / sizeof *functions,
                                     .functions = functions,
                                     .table = &the_library,
                                     .version = version_of,
                                     .least = DLR_DNN_LEAST};
    the_library.version = dlr_library_load(&from, &the_library.path, &the_fault);
}

const dlr_cudnn *dlr_cudnn_load(dl_error *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_once);
    if (!the_fault.code) return &the_library;
    dl_fail(err, the_fault.code, "%s", the_fault.message);
    return NULL;
}
