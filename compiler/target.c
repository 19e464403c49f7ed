#include "compiler/target/target.h"

#include <string.h>

#include "compiler/target/backend.h"

static const dl_backend *const backends[] = {&dl_backend_cpu, &dl_backend_cuda};
enum { NBACKENDS = sizeof backends / sizeof *backends };

const dl_target *dl_target_find(dl_arena *arena, const char *name, dl_error *err) {
    if (!name || !*name) name = backends[0]->name;
    for (int i = 0; i < NBACKENDS; i++) {
        size_t n = strlen(backends[i]->name);
        if (strncmp(name, backends[i]->name, n) != 0 || (name[n] && name[n] != ':')) continue;
        dl_error unknown = {0};
        const dl_target *t = backends[i]->find(arena, name, &unknown);
        if (!t && unknown.code != DL_USAGE) *err = unknown;
        if (t || unknown.code != DL_USAGE) return t;
    }
    dl_buf known = {0};
    for (int i = 0; i < NBACKENDS; i++) {
        dl_puts(&known, i ? ", " : "");
        backends[i]->list(&known);
    }
    dl_fail(err, DL_USAGE, "unknown target '%s' (known: %s)", name, known.at);
    dl_buf_free(&known);
    return NULL;
}

const char dl_target_names[] = "cpu (the best here), cpu:avx512, cpu:avx2, cpu:generic, cuda:ARCH: "
#define GPU(arch, ...) #arch ", "
#include "compiler/target/gpus.def"
                               "each with /N for a device of N multiprocessors, and :emulated";

const dl_target *dl_target_without_winograd(dl_arena *arena, const dl_target *t) {
    dl_target *without = DL_NEW(arena, dl_target);
    *without = *t, without->winograd = false;
    return without;
}

/* "8.0 to 8.9, 9.0, ...", of all GPUs. */
static void put_capabilities(dl_buf *to) {
    static const struct {
        int major, least, most;
    } rows[] = {
#define GPU(arch, major, least, most, ...) {major, least, most},
#include "compiler/target/gpus.def"
    };
    const char *between = "";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!rows[i].major) continue;
        dl_putf(to, "%s%d.%d", between, rows[i].major, rows[i].least);
        if (rows[i].most > rows[i].least) dl_putf(to, " to %d.%d", rows[i].major, rows[i].most);
        between = ", ";
    }
}

const dl_target *dl_target_of_gpu(int major, int minor, dl_error *err) {
    for (int i = 0; i < NBACKENDS; i++) {
        const dl_target *t = backends[i]->runs_on ? backends[i]->runs_on(major, minor) : NULL;
        if (t) return t;
    }
    dl_buf known = {0};
    put_capabilities(&known);
    dl_fail(err, DL_RESOURCE, "there is no target for compute capability %d.%d (%s have one)",
            major, minor, known.at);
    dl_buf_free(&known);
    return NULL;
}
