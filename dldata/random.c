#include "dldata/random.h"

#include <math.h>

void random_bits(uint64_t seed, uint64_t stream, uint64_t index, uint32_t out[4]) {
    uint32_t x[4] = {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53 * x[0], b = (uint64_t)0xCD9E8D57 * x[2];
        uint32_t next[4] = {(uint32_t)(b >> 32) ^ x[1] ^ key[0], (uint32_t)b,
                            (uint32_t)(a >> 32) ^ x[3] ^ key[1], (uint32_t)a};
        for (int i = 0; i < 4; i++) x[i] = next[i];
        key[0] += 0x9E3779B9, key[1] += 0xBB67AE85;
    }
    for (int i = 0; i < 4; i++) out[i] = x[i];
}

float random_normal(uint64_t seed, uint64_t stream, uint64_t index) {
    uint32_t r[4];
    random_bits(seed, stream, index, r);
    double u = (r[0] + 0.5) / 4294967296.0, v = r[1] / 4294967296.0; /* u is never 0 */
    return (float)(sqrt(-2 * log(u)) * cos(2 * M_PI * v));
}
