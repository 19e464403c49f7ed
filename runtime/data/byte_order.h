/* Numbers in the bytes of a file, in either byte order. */
#ifndef DLR_BYTE_ORDER_H
#define DLR_BYTE_ORDER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Whether numbers of that order and size need a swap on this machine. */
static inline bool dlr_is_swapped(bool big, size_t bytes) {
    return bytes > 1 && big == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
}

/* An unsigned number of 1 to 8 bytes. */
static inline uint64_t dlr_load(const void *at, size_t bytes, bool big) {
    const unsigned char *p = at;
    uint64_t v = 0;
    for (size_t i = 0; i < bytes; i++) v = v << 8 | p[big ? i : bytes - 1 - i];
    return v;
}

static inline void dlr_store(void *at, uint64_t v, size_t bytes, bool big) {
    unsigned char *p = at;
    for (size_t i = 0; i < bytes; i++, v >>= 8) p[big ? bytes - 1 - i : i] = (unsigned char)v;
}

static inline int64_t dlr_load_signed(const void *at, size_t bytes, bool big) {
    const int unused = 64 - 8 * (int)bytes;
    return (int64_t)(dlr_load(at, bytes, big) << unused) >> unused;
}

/* Makes a bool that another process wrote, whatever its byte is, true or false. */
static inline void dlr_check_bool(bool *at) {
    unsigned char byte;
    memcpy(&byte, at, sizeof byte);
    *at = byte != 0;
}

/* A float of 4 or 8 bytes. */
static inline double dlr_load_float(const void *at, size_t bytes, bool big) {
    const uint64_t v = dlr_load(at, bytes, big);
    const uint32_t low = (uint32_t)v;
    double d;
    float f;
    memcpy(&d, &v, sizeof d), memcpy(&f, &low, sizeof f);
    return bytes == sizeof f ? (double)f : d;
}
#endif
