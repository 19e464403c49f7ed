/* SHA-256 (FIPS 180-4): digests by which others know a file. */
#ifndef DLR_SHA256_H
#define DLR_SHA256_H
#include <stddef.h>
#include <stdint.h>

/* In hexadecimal, NUL-terminated. */
void dlr_sha256(const void *data, size_t n, char hex[65]);
#endif
