/* What the reader and the writer of safetensors share. */
#ifndef DLR_SAFETENSORS_INTERNAL_H
#define DLR_SAFETENSORS_INTERNAL_H
#include "runtime/io/safetensors.h"

enum { DLR_ST_MAX_HEADER = 100 * 1000 * 1000, DLR_ST_ALIGN = 64 };

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "safetensors are little-endian and copied as they are");

/* Bytes of the data by shape and type; false for a negative size or more than 2^63 bytes. */
bool dlr_st_size(const dlr_st_tensor *tensor, uint64_t *bytes);
/* The first of n values that is not finite, or -1; always -1 for integers. *nan tells NaN from infinity. */
int64_t dlr_st_find_not_finite(dlr_st_dtype dtype, const void *data, int64_t n, bool *nan);
#endif
