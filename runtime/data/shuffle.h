/* The order of samples in an epoch: a permutation that is computed, and not stored. */
#ifndef DLR_SHUFFLE_H
#define DLR_SHUFFLE_H
#include "runtime/base/rng.h"

/* The image of i in a permutation of 0..n-1, n at most 2^32, drawn from (seed, stream, step) of
 * `place`. It is a Feistel network whose rounds are Philox (Luby, Rackoff: "How to construct
 * pseudorandom permutations", 1988) on the smallest even power of two that holds n, iterated until
 * the result is below n (Black, Rogaway: "Ciphers with arbitrary finite domains", 2002). */
int64_t dlr_shuffle(dlr_rng_place place, int64_t n, int64_t i);
#endif
