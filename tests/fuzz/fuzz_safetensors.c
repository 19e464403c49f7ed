/* Safetensors: opening, finding, loading with conversion. */
#include <stdlib.h>
#include <string.h>

#include "runtime/formats/stored.h"
#include "tests/fuzz/fuzz.h"

static void load(const dlr_st_file *f, const dlr_st_tensor *t) {
    dl_error err = {0};
    FUZZ_CHECK(dlr_st_find(f, t->name));
    if (t->bytes > 1 << 16) return;
    uint64_t elements = t->bytes / dlr_st_dtype_size(t->dtype);
    void *raw = malloc(t->bytes + 1);
    float *wide = malloc(elements * sizeof *wide + 1);
    FUZZ_CHECK(raw && wide);
    FUZZ_CHECK(dlr_st_load(f, t, raw, &err)); /* the file is whole: an open file has what it says */
    dlr_st_load_f32(f, t, wide, &err);
    free(raw), free(wide);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    for (int flags = DLR_ST_PLAIN; flags <= DLR_ST_STRIP; flags++) {
        dl_error err = {0};
        const char *path = fuzz_file(data, n);
        dlr_st_file *joined = dlr_st_open_joined(&path, 1, "joined", (dlr_st_flags)flags, &err);
        FUZZ_CHECK(joined || err.code == DL_INPUT || err.code == DL_IO);
        for (int i = 0; joined && i < joined->n; i++) load(joined, &joined->tensors[i]);
        dlr_st_close(joined);
        err = (dl_error){0};
        dlr_st_file *f = dlr_st_open(path, (dlr_st_flags)flags, &err);
        FUZZ_CHECK(f || err.code == DL_INPUT || err.code == DL_IO);
        if (!f) continue;
        for (int i = 0; i < f->n; i++) load(f, &f->tensors[i]);
        dlr_st_check(f, f->tensors, f->n / 2, &err);
        dlr_st_metadata(f, "format");
        dlr_st_close(f);
    }
    return 0;
}

/* The header's text, then its length put right; or bytes anywhere. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed) {
    static const char *const words[] = {
        "\"dtype\":",
        "\"F32\"",
        "\"F64\"",
        "\"BF16\"",
        "\"BOOL\"",
        "\"shape\":",
        "[0]",
        "[2,3]",
        "\"data_offsets\":",
        "[0,0]",
        "[0,8]",
        "\"__metadata__\":",
        "\"DCP_SHARDING_INFO\":\"{\\\"module.w\\\":{\\\"saved_offsets\\\":[0]}}\"",
        "\\\"saved_offsets\\\":[0,0]",
        "{",
        "}",
        ",",
        "\"module.w\"",
        "\"_orig_mod.w\"",
        "\"\\ud800\"",
        "1e3",
        "-0",
        "null",
        NULL};
    fuzz_random r = {seed};
    uint64_t header;
    if (n < 9 || (memcpy(&header, data, 8), header > n - 8) || fuzz_below(&r, 4) == 0)
        return fuzz_mutate_bytes(data, n, max, &r);
    size_t rest = n - 8 - header;
    uint8_t *after = malloc(rest + 1);
    if (!after) return n;
    memcpy(after, data + 8 + header, rest);
    header = fuzz_mutate_text((char *)data + 8, header, max - 8 - rest, words, &r);
    memcpy(data, &header, 8);
    memcpy(data + 8 + header, after, rest);
    free(after);
    return 8 + header + rest;
}
