/* The parts of a training run that are marked as ranges, and their names: in our own profile
 * (profile.h), and for NVIDIA's profilers (ranges.h), under the names that recipe weather's program
 * gives them. */
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
/* The name for NVIDIA's profilers: recipe weather's, or ours where it has none. */
void dlr_part_name_nvtx(dlr_part part, int64_t number, char name[64]);
#endif
