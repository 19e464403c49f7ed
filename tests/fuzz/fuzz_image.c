/* Pictures: JPEG files and CIFAR-10's binary layout. */
#include <stdlib.h>
#include <string.h>

#include "dldata/array.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    array_file f = {.bytes = n};
    bool ok = image_open(arena, fuzz_file(data, n), &f, &err);
    FUZZ_CHECK(ok ? f.arrays.n > 0 : err.code == DL_INPUT);
    for (int i = 0; ok && i < f.arrays.n; i++) {
        const array *a = &f.arrays.at[i];
        double *out = malloc((a->count + 1) * sizeof *out);
        uint64_t start[ARRAY_MAX_RANK] = {0};
        FUZZ_CHECK(out && a->read(a, start, a->dims, out, &err));
        free(out);
    }
    dl_arena_free(arena);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed) {
    fuzz_random r = {seed};
    return n > 3 ? 3 + fuzz_mutate_bytes(data + 3, n - 3, max - 3, &r) : n;
}
