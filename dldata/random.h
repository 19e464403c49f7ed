/* Random numbers as a function of (seed, stream, index): no state, so any thread may draw any number.
 * Philox4x32-10, Salmon et al. (2011), "Parallel random numbers: as easy as 1, 2, 3". */
#ifndef DLDATA_RANDOM_H
#define DLDATA_RANDOM_H
#include <stdint.h>

void random_bits(uint64_t seed, uint64_t stream, uint64_t index, uint32_t out[4]);
/* A standard normal number (Box & Muller, in double). */
float random_normal(uint64_t seed, uint64_t stream, uint64_t index);
#endif
