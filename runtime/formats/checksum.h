/* A 64-bit checksum for files of gigabytes: four lanes of 8-byte words, so that it runs at memory
 * speed.
 *
 * Each step is a bijection of the lane for a fixed word and of the word for a fixed lane, and so is
 * the final join. Damage confined to one aligned 8-byte word, every flip of a single bit among it,
 * therefore always changes the sum; other damage goes unseen with a chance of about 2^-64. It is no
 * defence against an adversary. */
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
/* Adds n bytes; how a stream is cut into calls does not matter. */
void dlr_checksum_add(dlr_checksum *sum, const void *data, size_t n);
/* The checksum of all bytes so far; more may follow. The same on every machine. */
uint64_t dlr_checksum_value(const dlr_checksum *sum);
#endif
