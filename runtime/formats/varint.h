/* Whole numbers of variable length (LEB128), as protobuf, Thrift and Parquet store them: seven bits
 * a byte, the lowest first, and a bit that says whether more follow. */
#ifndef DLR_VARINT_H
#define DLR_VARINT_H
#include <stdbool.h>
#include <stdint.h>

/* Takes the number at *at, which moves after it. False: it does not end before `end`, or is longer
 * than 64 bits. */
static inline bool dlr_take_varint(const unsigned char **at, const unsigned char *end,
                                   uint64_t *v) {
    *v = 0;
    for (int shift = 0; *at < end && shift < 64; shift += 7) {
        const unsigned char byte = *(*at)++;
        *v |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return true;
    }
    return false;
}
#endif
