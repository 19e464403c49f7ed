/* HDF5: libhdf5 reads files in a child, whose answers are as untrusted as they are. Facts of a data
 * set, and the boxes of virtual ones. */
#include <string.h>

#include "ir/base/input.h"
#include "runtime/data/hdf5_virtual.h"
#include "tests/fuzz/fuzz.h"

static bool is_text(const char *text, size_t room) { return memchr(text, 0, room) != NULL; }

static void check_set(const uint8_t *data, size_t n) {
    dlr_hdf5_set set = {0};
    dl_error err = {0};
    memcpy(&set, data, n < sizeof set ? n : sizeof set);
    const int64_t size = (int64_t)(n * 997 % 100000);
    const bool ok = dlr_hdf5_check_set(&set, "folder/main.h5", size, &err);
    FUZZ_CHECK(ok || err.code == DL_INPUT || err.code == DL_IO);
    FUZZ_CHECK(is_text(set.name, sizeof set.name) && is_text(set.path, sizeof set.path) &&
               is_text(set.file, sizeof set.file) && is_text(set.type, sizeof set.type) &&
               is_text(set.why, sizeof set.why));
    if (!ok) return;
    FUZZ_CHECK(set.rank >= 0 && set.filter_count >= 0 && set.element <= DLR_EL_NONE);
    FUZZ_CHECK(set.file[0] != '/' && strncmp(set.file, "../", 3) != 0 && !strstr(set.file, "/../"));
    if (set.layout == DLR_HDF5_CONTIGUOUS && set.plain && !set.file[0] &&
        set.rank <= DLR_ARRAY_RANK)
        FUZZ_CHECK(set.offset > 0 && set.offset <= size);
}

/* The common indices of two blocks, next to those that are found one by one. */
static void check_common(const uint8_t *at) {
    const dlr_block a = {.start = {at[0]}, .count = {1 + at[1] % 40}, .stride = {1 + at[2] % 30}},
                    b = {.start = {at[3]}, .count = {1 + at[4] % 40}, .stride = {1 + at[5] % 30}};
    dlr_common c = {0};
    const bool any = dlr_find_common(&a, &b, 0, &c);
    int64_t seen = 0;
    for (int64_t i = 0; i < a.count[0]; i++)
        for (int64_t k = 0; k < b.count[0]; k++) {
            if (a.start[0] + i * a.stride[0] != b.start[0] + k * b.stride[0]) continue;
            FUZZ_CHECK(any && i == c.first + seen * c.step &&
                       k == c.in_other + seen * c.other_step);
            seen++;
        }
    FUZZ_CHECK(any == (seen > 0) && (!any || seen == c.count));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    check_set(data, n);
    for (size_t i = 0; i + 6 <= n && i < 60; i += 6) check_common(data + i);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed) {
    fuzz_random r = {seed};
    return fuzz_mutate_bytes(data, n, max, &r);
}
