/* The ranges of a training run and their names in dlc's profile (profile.h) and in NVIDIA's
 * profilers (ranges.h). The latter are the names that preset weather's program uses. */
#ifndef DLR_RANGE_PARTS_H
#define DLR_RANGE_PARTS_H
#include <stdint.h>

typedef enum {
    DLR_PART_STEP,
    DLR_PART_WAIT,       /* for a batch */
    DLR_PART_COPY_IN,    /* the batch to the plan's inputs */
    DLR_PART_PROGRAM,    /* forward, backward and optimiser, which are one; on a device only their
                            start */
    DLR_PART_RESULTS,    /* waits for loss and metrics, and takes them */
    DLR_PART_VALIDATION, /* of an epoch */
    DLR_PART_CHECKPOINT,
    DLR_PARTS
} dlr_part;

/* The name in our own profile: "program"; with `number` where it has one: "step 5". */
void dlr_part_name(dlr_part part, int64_t number, char name[64]);
/* The name for NVIDIA's profilers: preset weather's, or dlc's where it has none. */
void dlr_part_name_nvtx(dlr_part part, int64_t number, char name[64]);
#endif
