/* Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC
 * 2011): random numbers as a pure function of a counter and a key. It uses integers alone, so that
 * every machine draws the same numbers. runtime/base/rng.h places the host's numbers, this header a
 * step's; compiler/cpu/kernels/random.c computes the same in vectors. */
#ifndef DL_PHILOX_H
#define DL_PHILOX_H
#include <stdint.h>

/* The bare function: ten rounds on `c` under a key, in place. */
static inline void dl_philox(uint32_t c[4], uint32_t k0, uint32_t k1) {
    enum { ROUNDS = 10 };
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53 * c[0], p1 = (uint64_t)0xCD9E8D57 * c[2];
        uint32_t c1 = c[1], c3 = c[3];
        c[0] = (uint32_t)(p1 >> 32) ^ c1 ^ k0, c[1] = (uint32_t)p1;
        c[2] = (uint32_t)(p0 >> 32) ^ c3 ^ k1, c[3] = (uint32_t)p0;
        k0 += 0x9E3779B9, k1 += 0xBB67AE85;
    }
}

/* The plan's variables of seed and step, both i64: the host sets the seed (DL_VAR_HYPER), and each
 * step counts the step (DL_VAR_STATE). An evaluation has the number of its batch in place of the
 * step, which the host sets (DL_VAR_HYPER, i64). Where several ranks share a batch, the third one
 * has the number of this rank's part (DL_VAR_HYPER, i64), since a draw belongs to a sample, not to
 * the rank that has it. */
#define DL_RANDOM_SEED  "random.seed"
#define DL_RANDOM_STEP  "random.step"
#define DL_RANDOM_BATCH "random.batch"
#define DL_RANDOM_RANK  "random.rank"

/* A step's numbers are a stream of their own, which runtime/base/rng.h does not use: the last word
 * of the counter has this in its lowest byte and the op's number above it. */
enum { DL_STREAM_STEP = 6, DL_RANDOM_NUMBERS = 1 << 24 /* ops a model may have */ };

/* Element `element` of the draw of op `number` in a step: word element % 4 of block element / 4.
 *   key     = seed, low word then high word
 *   counter = {block, low then high word; the low word of `step`; DL_STREAM_STEP + 256 number} */
static inline uint32_t dl_random_word(uint64_t seed, uint64_t step, uint32_t number,
                                      uint64_t element) {
    uint64_t block = element / 4;
    uint32_t c[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)step,
                     DL_STREAM_STEP | number << 8};
    dl_philox(c, (uint32_t)seed, (uint32_t)(seed >> 32));
    return c[element % 4];
}

/* Uniform in [0, 1), a multiple of 2^-24: exact as a float. */
static inline float dl_unit_float(uint32_t word) { return (float)(word >> 8) * 0x1p-24f; }
#endif
