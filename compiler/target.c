#include "compiler/target/target.h"

#include <string.h>

#include "compiler/target/backend.h"

static const dl_backend *const backends[] = {&dl_backend_cpu, &dl_backend_cuda};
enum { NBACKENDS = sizeof backends / sizeof *backends };

const dl_target *dl_target_find(const char *name, dl_error *err) {
    if (!name || !*name) name = backends[0]->name;
    for (int i = 0; i < NBACKENDS; i++) {
        size_t n = strlen(backends[i]->name);
        if (strncmp(name, backends[i]->name, n) != 0 || (name[n] && name[n] != ':')) continue;
        dl_error unknown = {0};
        const dl_target *t = backends[i]->find(name, &unknown);
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
