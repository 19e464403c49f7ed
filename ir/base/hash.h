/* 64-bit hashing for tables and cache keys (not against an adversary). */
#ifndef DL_HASH_H
#define DL_HASH_H
#include <stddef.h>
#include <stdint.h>

/* Hash of n bytes, chained through `seed` (0 to start). The same on every machine. */
uint64_t dl_hash(const void *data, size_t n, uint64_t seed);
uint64_t dl_hash_str(const char *s, uint64_t seed);
#endif
