/* SHA-256 (FIPS 180-4), for digests of files that other programs check. */
#ifndef DLR_SHA256_H
#define DLR_SHA256_H
#include <stddef.h>
#include <stdint.h>

/* Writes the digest in hexadecimal, NUL-terminated. */
void dlr_sha256(const void *data, size_t n, char hex[65]);
#endif
