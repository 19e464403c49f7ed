/* The parts of a training run by name, for who looks at it as it goes: NVIDIA's profilers, by NVTX,
 * under the names that recipe weather's program gives them, and our own profile (profile.h).
 *
 * On a thread, ranges lie within each other: a step holds the wait for its batch, the batch's way
 * to the device, the start of its program, and the look at its results (on a device that works
 * ahead those of the step before). Without a profiler nothing here does anything. */
#ifndef DLR_RANGES_H
#define DLR_RANGES_H
#include "runtime/report/range_parts.h"

/* cudaProfilerStart and cudaProfilerStop are called around the epoch of this index, as recipe
 * weather does. */
enum { DLR_PROFILED_EPOCH = 3 };

struct dlr_profile;
/* Zero: nothing looks. */
typedef struct {
    int (*push)(const char *name); /* NVTX; NULL: it is not there */
    int (*pop)(void);
    int (*start)(void), (*stop)(void); /* the profiler's; NULL: likewise */
    struct dlr_profile *profile;       /* or NULL */
} dlr_ranges;

/* Finds NVTX and the profiler's switch in the libraries that the system has, which stay loaded. */
void dlr_ranges_find(dlr_ranges *ranges);

/* number: of the step in its epoch, from 0; used by ranges that have one. */
void dlr_range_begin(const dlr_ranges *ranges, dlr_part part, int64_t number);
void dlr_range_end(const dlr_ranges *ranges);
#endif
