/* Messages of GRIB: where their fields lie, and messages of one field. ecCodes, which decodes them,
 * is in a process of its own. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/base/input.h"
#include "runtime/data/byte_order.h"
#include "runtime/data/grib_fields.h"
#include "tests/fuzz/fuzz.h"

static void check_field(int fd, const dlr_grib_field *f, int64_t size) {
    FUZZ_CHECK(f->at >= 0 && f->bytes > 0 && f->at + f->bytes <= size);
    for (int i = 1; i < DLR_GRIB_SECTIONS; i++)
        FUZZ_CHECK(f->length[i] == 0 || (f->section[i] > f->at && f->length[i] >= 3 &&
                                         f->section[i] + f->length[i] < f->at + f->bytes));
    for (int head = 0; head < 2; head++) {
        dl_error err = {0};
        size_t n;
        unsigned char *message = dlr_grib_message(fd, "x.grib", f, head, &n, &err);
        FUZZ_CHECK(message && n <= (size_t)size + 16 && memcmp(message, "GRIB", 4) == 0);
        FUZZ_CHECK(memcmp(message + n - 4, "7777", 4) == 0);
        FUZZ_CHECK(f->edition != 2 || dlr_load(message + 8, 8, true) == n);
        free(message);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    dl_error err = {0};
    dl_arena *arena = dl_arena_new(NULL);
    int fd = dl_file_open(fuzz_file(data, n), &err);
    FUZZ_CHECK(fd >= 0);
    dlr_grib_fields found = {0};
    bool ok = dlr_grib_find(arena, fd, "x.grib", (int64_t)n, &found, &err);
    FUZZ_CHECK(ok ? found.n > 0 : err.code == DL_INPUT);
    for (int i = 0; ok && i < found.n && i < 64; i++) check_field(fd, &found.at[i], (int64_t)n);
    close(fd);
    dl_arena_free(arena);
    return 0;
}

/* Lengths fit again, mostly: of the first message, which then ends with the file. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed) {
    fuzz_random r = {seed};
    n = fuzz_mutate_bytes(data, n, max, &r);
    if (n < 24 || fuzz_below(&r, 4) == 0) return n;
    memcpy(data, "GRIB", 4), memcpy(data + n - 4, "7777", 4);
    if (fuzz_below(&r, 16)) data[7] = (uint8_t)(1 + fuzz_below(&r, 16) / 8);
    if (data[7] == 2)
        dlr_store(data + 8, n, 8, true);
    else if (data[7] == 1 && fuzz_below(&r, 8))
        dlr_store(data + 4, n, 3, true);
    return n;
}
