/* The head of every entry of a cache but plans: identifies it, and detects damage. The bytes
 * follow. */
#ifndef DL_CACHE_HEAD_H
#define DL_CACHE_HEAD_H
#include <stdint.h>

typedef struct {
    char magic[8];
    uint64_t key, bytes, hash;
} dl_cache_head;
#endif
