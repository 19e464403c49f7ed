/* Named ranges of a training run, for profilers that observe it: NVIDIA's by NVTX, under the names
 * that preset weather's program uses, and dlc's own profile (profile.h).
 *
 * Ranges of one thread are nested: a step contains the wait for its batch, the copy to the device,
 * the start of its program, and the reading of its results (on a device that runs one step ahead,
 * those of the step before). Without a profiler the functions do nothing. */
#ifndef DLR_RANGES_H
#define DLR_RANGES_H
#include "runtime/report/range_parts.h"

/* cudaProfilerStart and cudaProfilerStop are called around the epoch with this index, as in preset
 * weather's program. */
enum { DLR_PROFILED_EPOCH = 3 };

struct dlr_profile;
/* Zero-initialised: no profiler. */
typedef struct {
    int (*push)(const char *name); /* NVTX; NULL: it is not there */
    int (*pop)(void);
    int (*start)(void), (*stop)(void); /* the profiler's; NULL: likewise */
    struct dlr_profile *profile;       /* or NULL */
} dlr_ranges;

/* Finds NVTX and the functions of the CUDA profiler in the system's libraries, which stay loaded.
 */
void dlr_ranges_find(dlr_ranges *ranges);

/* number: the step's index in its epoch, from 0; used by the ranges that have a number. */
void dlr_range_begin(const dlr_ranges *ranges, dlr_part part, int64_t number);
void dlr_range_end(const dlr_ranges *ranges);
#endif
