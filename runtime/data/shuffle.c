#include "runtime/data/shuffle.h"

enum { ROUNDS = 8 };

int64_t dlr_shuffle(dlr_rng_place place, int64_t n, int64_t i) {
    int half = 1;
    while ((int64_t)1 << 2 * half < n) half++;
    const uint32_t mask = (uint32_t)(((uint64_t)1 << half) - 1);
    uint64_t x = (uint64_t)i;
    do {
        uint32_t left = (uint32_t)(x >> half), right = (uint32_t)x & mask;
        for (uint32_t round = 0; round < ROUNDS; round++) {
            place.item = round << 16 | right; /* halves have 16 bits at most */
            dlr_rng rng = dlr_rng_at(place);
            uint32_t next = left ^ (dlr_rng_u32(&rng) & mask);
            left = right, right = next;
        }
        x = (uint64_t)left << half | right;
    } while (x >= (uint64_t)n);
    return (int64_t)x;
}
