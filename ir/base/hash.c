#include "ir/base/hash.h"

#include <string.h>

/* FNV-1a over bytes with a final avalanche (the finaliser of MurmurHash3), so that low bits index
 * tables well. */
uint64_t dl_hash(const void *data, size_t n, uint64_t seed) {
    const unsigned char *p = data;
    uint64_t h = 0xcbf29ce484222325u ^ (seed * 0x9e3779b97f4a7c15u);
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001b3u;
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdu;
    h ^= h >> 33;
    h *= 0xc4ceb9fe1a85ec53u;
    return h ^ (h >> 33);
}

uint64_t dl_hash_str(const char *s, uint64_t seed) { return dl_hash(s, strlen(s) + 1, seed); }
