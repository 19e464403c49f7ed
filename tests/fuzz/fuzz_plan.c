/* Plan files: everything after the checksum, which the mutator puts right. */
#include <string.h>

#include "ir/base/hash.h"
#include "ir/plan/plan.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    dl_plan *p = dl_plan_read(arena, fuzz_file(data, n), &err);
    FUZZ_CHECK(p || err.code == DL_INPUT || err.code == DL_IO);
    if (p)
        FUZZ_CHECK(dl_plan_check(p, &err) && dl_plan_peak(p, 2) >= p->arena_bytes &&
                   dl_plan_parameters(p) >= 0);
    dl_arena_free(arena);
    return 0;
}

/* magic[8] version:u32 sections:u32 bytes:u64 checksum:u64, then {id:u32 zero:u32 offset:u64
 * bytes:u64} a section. */
enum { HEAD = 32, SECTION = 24 };

static uint64_t get(const uint8_t *at) {
    uint64_t v;
    memcpy(&v, at, sizeof v);
    return v;
}

static void put(uint8_t *at, uint64_t v) { memcpy(at, &v, sizeof v); }

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed) {
    fuzz_random r = {seed};
    uint32_t sections = 0;
    if (n > HEAD) memcpy(&sections, data + 12, sizeof sections);
    if (sections == 0 || sections > 16 || n < HEAD + sections * SECTION || fuzz_below(&r, 16) == 0)
        return fuzz_mutate_bytes(data, n, max, &r);
    /* Inside one section, the lengths of the table kept true, so that the records after it are
     * read. */
    uint32_t which = (uint32_t)fuzz_below(&r, sections);
    uint8_t *entry = data + HEAD + which * SECTION;
    uint64_t at = get(entry + 8), bytes = get(entry + 16);
    if (at <= n && bytes <= n - at && bytes > 0) {
        static uint8_t part[1 << 16];
        if (bytes <= sizeof part / 2) {
            memcpy(part, data + at, bytes);
            size_t now = fuzz_mutate_bytes(part, bytes, sizeof part, &r);
            if (n - bytes + now <= max) {
                memmove(data + at + now, data + at + bytes, n - at - bytes);
                memcpy(data + at, part, now);
                n = n - bytes + now;
                put(entry + 16, now);
                for (uint32_t i = which + 1; i < sections; i++)
                    put(data + HEAD + i * SECTION + 8,
                        get(data + HEAD + i * SECTION + 8) + now - bytes);
            }
        }
    }
    put(data + 16, n);
    put(data + 24, dl_hash(data + HEAD, n - HEAD, 0));
    return n;
}
