/* libnccl.so.2: which one, and its functions. */
#include <pthread.h>
#include <string.h>

#include "ir/base/search.h"
#include "runtime/comm/nccl.h"
#include "runtime/comm_device.h"
#include "runtime/functions.h"

#define OVERRIDE "DLR_NCCL"

static const char *const libraries[] = {"libnccl.so.2", NULL};
static const dlr_function functions[] = {
#define ROW(name, result, arguments) {"nccl" #name, offsetof(dlr_nccl, name)},
    DLR_NCCL_FUNCTIONS(ROW)
#undef ROW
};

/* NULL, or why it will not do. */
static const char *try_load(dl_arena *arena, const char *path, dlr_nccl *n) {
    const char *why =
        dlr_functions_load(arena, path, sizeof functions / sizeof *functions, functions, n, &n->path);
    if (why) return why;
    if (n->GetVersion(&n->version) != 0) return dl_format(arena, "%s: it tells no version", path);
    if (n->version < DLR_NCCL_LEAST)
        return dl_format(arena, "%s: its version is %d.%d.%d, and 2.18 is needed", path, n->version / 10000,
                         n->version / 100 % 100, n->version % 100);
    return NULL;
}

static dlr_nccl the_library;
static dl_error the_fault;

static void load_once(void) {
    dl_arena *arena = dl_arena_new(NULL); /* kept with the library */
    dl_candidates c = dl_cuda_search(arena, libraries, OVERRIDE, NULL);
    const char *rejected = "";
    for (int i = 0; i < c.n; i++) {
        const char *why = try_load(arena, c.at[i].path, &the_library);
        if (!why) return;
        if (strchr(c.at[i].path, '/')) rejected = dl_format(arena, "%s; %s", rejected, why);
    }
    dl_fail(&the_fault, DL_RESOURCE,
            "no NCCL (libnccl.so.2, 2.18 or newer) found, looked at: %s%s; install it (pip install "
            "nvidia-nccl-cu13), or set " OVERRIDE " to the library's path",
            dl_cuda_places(arena, OVERRIDE, NULL), rejected);
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
