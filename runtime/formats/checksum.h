/* A 64-bit checksum for files of gigabytes: four lanes of 8-byte words, so that it runs at memory
 * speed.
 *
 * Each step is a bijection of the lane for a fixed word and of the word for a fixed lane, and so is
 * the final join. Damage within one aligned 8-byte word, such as a flip of a single bit, therefore
 * always changes the sum. Other damage stays undetected with a probability of about 2^-64. The
 * checksum is not cryptographic. */
#ifndef DLR_CHECKSUM_H
#define DLR_CHECKSUM_H
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t lane[4];
    uint64_t n;             /* bytes added */
    unsigned char tail[32]; /* the last n % 32 of them */
} dlr_checksum;

void dlr_checksum_start(dlr_checksum *sum);
/* Adds n bytes; the sum does not depend on how a stream is divided into calls. */
void dlr_checksum_add(dlr_checksum *sum, const void *data, size_t n);
/* The checksum of all bytes so far; more may follow. The same on every machine. */
uint64_t dlr_checksum_value(const dlr_checksum *sum);
#endif
