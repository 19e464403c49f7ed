/* The order of samples in an epoch: a permutation as a function, nothing to store or to replay. */
#ifndef DLR_SHUFFLE_H
#define DLR_SHUFFLE_H
#include "runtime/base/rng.h"

/* Where number i of 0..n-1 goes, n at most 2^32: a permutation drawn from (seed, stream, step) of
 * `place`. A Feistel network whose rounds are Philox (Luby, Rackoff: "How to construct pseudorandom
 * permutations", 1988) on the smallest square of a power of two that holds n, walked until the
 * result is below n (Black, Rogaway: "Ciphers with arbitrary finite domains", 2002). */
int64_t dlr_shuffle(dlr_rng_place place, int64_t n, int64_t i);
#endif
