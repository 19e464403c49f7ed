/* Finds and loads libnccl.so.2. */
#include <pthread.h>

#include "runtime/base/functions.h"
#include "runtime/comm/comm_device.h"
#include "runtime/comm/nccl.h"

static const char *const libraries[] = {"libnccl.so.2", NULL};
static const dlr_function functions[] = {
#define ROW(name, result, arguments) {"nccl" #name, offsetof(dlr_nccl, name)},
    DLR_NCCL_FUNCTIONS(ROW)
#undef ROW
};

static const char *refuse(dl_arena *arena, void *table) {
    dlr_nccl *n = table;
    if (n->GetVersion(&n->version) != 0) return "it tells no version";
    if (n->version >= DLR_NCCL_LEAST) return NULL;
    return dl_format(arena, "its version is %d.%d.%d, and 2.18 is needed", n->version / 10000,
                     n->version / 100 % 100, n->version % 100);
}

static dlr_nccl the_library;
static dl_error the_fault;

static void load_once(void) {
    const dlr_functions from = {.name = "NCCL",
                                .override = "DLR_NCCL",
                                .files = libraries,
                                .called = "libnccl.so.2, 2.18 or newer",
                                .package = "nvidia-nccl-cu13",
                                .n = sizeof functions / sizeof *functions,
                                .functions = functions,
                                .table = &the_library,
                                .refuse = refuse};
    the_library.path = dlr_functions_find(&from, &the_fault);
}

const dlr_nccl *dlr_nccl_load(dl_error *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_once);
    if (!the_fault.code) return &the_library;
    dl_fail(err, the_fault.code, "%s", the_fault.message);
    return NULL;
}

const char *dlr_nccl_text(dl_arena *arena) {
    dl_error why = {0};
    const dlr_nccl *n = dlr_nccl_load(&why);
    if (!n) return "no NCCL (libnccl.so.2)";
    return dl_format(arena, "NCCL %d.%d.%d (%s)", n->version / 10000, n->version / 100 % 100,
                     n->version % 100, n->path);
}
