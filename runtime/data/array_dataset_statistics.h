/* The file of an array dataset's statistics: text next to the data, with a hash that identifies the
 * data. */
#ifndef DLR_ARRAY_DATASET_STATISTICS_H
#define DLR_ARRAY_DATASET_STATISTICS_H
#include "ir/base/str.h"

#include <stdint.h>

enum { DLR_OWN_STATISTICS_BYTES = 16 << 20 };

typedef struct {
    double mean, std, least, most; /* std: of the whole population, as numpy's */
} dlr_array_dataset_channel;

void dlr_array_dataset_statistics_put(dl_buf *out, uint64_t identity,
                                      const dlr_array_dataset_channel *at, int n);
/* Reads n channels from a text. False: it is no statistics file, or is one of other data. */
bool dlr_array_dataset_statistics_parse(const char *text, uint64_t identity,
                                        dlr_array_dataset_channel *at, int n);
#endif
