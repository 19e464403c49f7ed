/* A checkpoint's state.json: everything after its checksum, which the mutator puts right. */
#include <stdio.h>
#include <string.h>

#include "runtime/formats/checkpoint_internal.h"
#include "runtime/formats/checksum.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    dlr_state state;
    dlr_state_part *parts;
    int n_parts;
    uint64_t sum = 0;
    if (dlr_checkpoint_state_read(arena, fuzz_file(data, n), &state, &parts, &n_parts, &sum,
                                  &err)) {
        dl_buf b = {0}; /* what was read can be written, and read again */
        dlr_checkpoint_state_print(&b, &state, parts, n_parts);
        FUZZ_CHECK(dlr_checkpoint_state_read(arena, fuzz_file(b.at, b.n), &state, &parts, &n_parts,
                                             &sum, &err));
        dl_buf_free(&b);
    } else {
        FUZZ_CHECK(err.code == DL_INPUT || err.code == DL_IO);
    }
    dl_arena_free(arena);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed) {
    static const char *const words[] = {"\"version\": 1,",
                                        "\"values\": {",
                                        "\"files\": {",
                                        "\"bytes\":",
                                        "\"checksum\":",
                                        "\"epoch\":",
                                        "\"seed\": \"1\",",
                                        "[NaN]",
                                        "Infinity",
                                        "{}",
                                        "[]",
                                        "\"..\"",
                                        "\"model-00001-of-00002\":",
                                        NULL};
    static const char tail[] =
        ",\n  \"checksum\": \"%016llx\"\n}\n"; /* checkpoint_state.c's, 37 bytes when written */
    enum { TAIL = 37 };
    fuzz_random r = {seed};
    if (n < TAIL || max < n + TAIL || fuzz_below(&r, 16) == 0)
        return fuzz_mutate_bytes(data, n, max, &r);
    n = fuzz_mutate_text((char *)data, n - TAIL, max - TAIL - 1, words, &r);
    dlr_checksum sum;
    dlr_checksum_start(&sum);
    dlr_checksum_add(&sum, data, n);
    snprintf((char *)data + n, TAIL + 1, tail, (unsigned long long)dlr_checksum_value(&sum));
    return n + TAIL;
}
