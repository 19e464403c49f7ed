/* Finds and loads libcudnn. */
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

static const char *refuse(dl_arena *arena, void *table) {
    dlr_cudnn *l = table;
    l->version = (int64_t)l->GetVersion();
    return dlr_library_too_old(arena, l->version, DLR_DNN_LEAST);
}

static void load_once(void) {
    const dlr_functions from = {.name = dl_library_names[DL_LIBRARY_CUDNN],
                                .override = DLR_CUDNN_OVERRIDE,
                                .files = files,
                                .called = "libcudnn.so.9",
                                .package = "nvidia-cudnn-cu13",
                                .n = sizeof functions / sizeof *functions,
                                .functions = functions,
                                .table = &the_library,
                                .refuse = refuse};
    the_library.path = dlr_functions_find(&from, &the_fault);
}

const dlr_cudnn *dlr_cudnn_load(dl_error *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_once);
    if (!the_fault.code) return &the_library;
    dl_fail(err, the_fault.code, "%s", the_fault.message);
    return NULL;
}
