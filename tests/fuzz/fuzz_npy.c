/* NumPy's .npy: the header, and a block of the data; the same file as means of channels. */
#include <stdlib.h>
#include <string.h>

#include "dldata/array.h"
#include "ir/base/input.h"
#include "runtime/data/statistics.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (n < 6 || memcmp(data, "\x93NUMPY", 6) != 0)
        return 0; /* HDF5 is libhdf5's, in a process of its own */
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    array_file f = {0};
    bool ok = array_file_open(arena, fuzz_file(data, n), &f, &err);
    FUZZ_CHECK(ok || err.code == DL_INPUT || err.code == DL_IO);
    for (int i = 0; i < f.arrays.n; i++) {
        const array *a = &f.arrays.at[i];
        if (ok && a->numeric && !a->unreadable && a->count <= 4096) {
            double *out = malloc((a->count + 1) * sizeof *out);
            uint64_t start[ARRAY_MAX_RANK] = {0};
            FUZZ_CHECK(out && a->read(a, start, a->dims, out, &err));
            free(out);
        }
    }
    array_file_close(&f);
    float means[6];
    dl_error fault = {0};
    ok = dlr_statistics_read(fuzz_file(data, n), "means", 6, true, means, &fault);
    FUZZ_CHECK(ok || fault.code == DL_INPUT || fault.code == DL_IO);
    dl_input_forget();
    dl_arena_free(arena);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed) {
    static const char *const words[] = {"'descr':",
                                        "'fortran_order':",
                                        "'shape':",
                                        "True",
                                        "False",
                                        "'<f4'",
                                        "'>f4'",
                                        "'|b1'",
                                        "(2, 3)",
                                        "(0,)",
                                        "()",
                                        "(3L,)",
                                        "[('a', '<f4')]",
                                        "{",
                                        "}",
                                        ",",
                                        NULL};
    fuzz_random r = {seed};
    size_t header = n > 10 ? (size_t)(data[8] | data[9] << 8) : 0;
    if (n <= 10 || data[6] != 1 || header > n - 10 || fuzz_below(&r, 4) == 0)
        return n > 6 ? 6 + fuzz_mutate_bytes(data + 6, n - 6, max - 6, &r) : n;
    uint8_t *after = malloc(n - 10 - header + 1);
    if (!after) return n;
    size_t rest = n - 10 - header, most = max - 10 - rest < 65535 ? max - 10 - rest : 65535;
    memcpy(after, data + 10 + header, rest);
    header = fuzz_mutate_text((char *)data + 10, header, most, words, &r);
    data[8] = (uint8_t)header, data[9] = (uint8_t)(header >> 8);
    memcpy(data + 10 + header, after, rest);
    free(after);
    return 10 + header + rest;
}
