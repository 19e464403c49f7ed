#include "cli/dldata.h"
#include "dldata/parallel.h"
#include "ir/base/memory.h"

bool dldata_read_shared(const dl_config *c, const char *wanted, dldata_shared *out, dl_error *err) {
    *out = (dldata_shared){.path = dl_config_option(c, "output"),
                           .threads = parallel_default(),
                           .quiet = dl_config_option(c, "quiet"),
                           .force = dl_config_option(c, "force")};
    if (!dl_option_int(c, "seed", 0, 9e15, &out->seed, err) ||
        !dl_option_int(c, "threads", 1, PARALLEL_THREADS, &out->threads, err))
        return false;
    return out->path || dl_fail(err, DL_USAGE, "where to? give %s", wanted);
}

bool dldata_check_memory(uint64_t need, const char *what, const char *why, dl_error *err) {
    int64_t have = dl_memory_available();
    if (have < 0 || need < (uint64_t)have) return true;
    return dl_fail(err, DL_RESOURCE, "%s %.1f GiB of memory%s, and %.1f GiB are free", what,
                   (double)need / (1 << 30), why, (double)have / (1 << 30));
}
