/* CRC-32C (Castagnoli, reflected polynomial 0x82F63B78), as TFRecord files use it. */
#ifndef DLR_CRC32C_H
#define DLR_CRC32C_H
#include <stddef.h>
#include <stdint.h>

uint32_t dlr_crc32c(const void *data, size_t n);
#endif
