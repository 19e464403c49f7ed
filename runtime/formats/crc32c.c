#include "runtime/formats/crc32c.h"

/* The table for four bits at a time: it is small, and event files are small. Entry i is i after
 * four steps of `crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0)`. */
static const uint32_t nibble[16] = {
    0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
    0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};

uint32_t dlr_crc32c(const void *data, size_t n) {
    const unsigned char *p = data;
    uint32_t crc = 0xffffffff;
    for (; n > 0; n--, p++) {
        crc ^= *p;
        crc = crc >> 4 ^ nibble[crc & 15];
        crc = crc >> 4 ^ nibble[crc & 15];
    }
    return ~crc;
}
