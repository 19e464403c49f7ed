/* The file that keeps statistics of data of one's own: text beside the data, with the data's
 * identity. */
#ifndef DLR_OWN_STATISTICS_H
#define DLR_OWN_STATISTICS_H
#include "ir/base/str.h"

#include <stdint.h>

enum { DLR_OWN_STATISTICS_BYTES = 16 << 20 };

typedef struct {
    double mean, std, least, most; /* std: of the whole, as numpy's */
} dlr_own_channel;

void dlr_own_statistics_put(dl_buf *out, uint64_t identity, const dlr_own_channel *at, int n);
/* Reads n channels from a text; false: it is no such file, or of other data. */
bool dlr_own_statistics_parse(const char *text, uint64_t identity, dlr_own_channel *at, int n);
#endif
