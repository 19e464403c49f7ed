/* NVRTC for tests that look at its results: machine code and messages. Where DLC_TEST_CACHE names a
 * folder, they are kept there by text, architecture and compiler, so that NVRTC compiles each text
 * once for all runs of the tests. */
#ifndef DL_TEST_NVRTC_KEPT_H
#define DL_TEST_NVRTC_KEPT_H
#include <stdlib.h>
#include <string.h>

#include "compiler/cuda/nvrtc.h"
#include "compiler/jit/cache.h"
#include "ir/base/hash.h"
#include "ir/base/str.h"

/* An entry: the bytes of the machine code, which stand first, and the text of the messages. */
static inline bool nvrtc_read_kept(const char *dir, uint64_t key, dl_buf *cubin, dl_buf *log) {
    dl_arena *scratch = dl_arena_new(NULL);
    size_t n = 0;
    uint64_t bytes = 0;
    const unsigned char *kept = dl_cache_get(scratch, dir, key, &n);
    if (kept && n >= sizeof bytes) memcpy(&bytes, kept, sizeof bytes);
    const bool found = bytes && bytes <= n - sizeof bytes;
    if (found) {
        const char *code = (const char *)kept + sizeof bytes;
        dl_putn(cubin, code, bytes), dl_putn(log, code + bytes, n - sizeof bytes - bytes);
    }
    dl_arena_free(scratch);
    return found;
}

static inline void nvrtc_keep(const char *dir, uint64_t key, const dl_buf *cubin,
                              const dl_buf *log) {
    dl_error ignored = {0}; /* it is compiled again then */
    dl_buf entry = {0};
    const uint64_t bytes = cubin->n;
    dl_putn(&entry, (const char *)&bytes, sizeof bytes), dl_putn(&entry, cubin->at, cubin->n);
    if (log->n) dl_putn(&entry, log->at, log->n);
    dl_cache_put(dir, key, entry.at, entry.n, &ignored);
    dl_buf_free(&entry);
}

/* As dl_nvrtc_compile. What fails is not kept. */
static inline bool nvrtc_compile_kept(const dl_nvrtc *n, const char *source, const char *arch,
                                      dl_buf *cubin, dl_buf *log, dl_error *err) {
    const char *dir = getenv("DLC_TEST_CACHE");
    const uint64_t key = dl_hash_str(source, dl_hash_str(arch, dl_hash_str("kept", n->key)));
    if (dir && *dir && nvrtc_read_kept(dir, key, cubin, log)) return true;
    dl_buf code = {0}, said = {0};
    const bool ok = dl_nvrtc_compile(n, source, arch, &code, &said, err);
    if (ok && dir && *dir) nvrtc_keep(dir, key, &code, &said);
    if (code.n) dl_putn(cubin, code.at, code.n);
    if (said.n) dl_putn(log, said.at, said.n);
    dl_buf_free(&code), dl_buf_free(&said);
    return ok;
}
#endif
