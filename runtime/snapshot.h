/* A copy in memory of all that a checkpoint holds, as it was between two steps: training goes on while the
 * copy is written. */
#ifndef DLR_SNAPSHOT_H
#define DLR_SNAPSHOT_H
#include "runtime/memory.h"
#include "runtime/tensors.h"

typedef struct {
    dlr_exec *exec;
    dlr_memory memory;
} dlr_snapshot;

/* Bytes that a checkpoint takes in memory: of weights, buffers and the optimiser's state; of what ranks hold
 * in pieces those of the whole, which is gathered for it (dlr_tensors_gather) and not copied once more. */
int64_t dlr_snapshot_bytes(const dl_plan *plan);
/* Takes the memory. Errors: DL_RESOURCE. */
bool dlr_snapshot_open(dlr_snapshot *s, dlr_exec *exec, dl_error *err);
void dlr_snapshot_close(dlr_snapshot *s); /* a zeroed one is fine */

/* Copies the tensors as they stand, by the executor's threads. Errors: those of dlr_exec_check. */
bool dlr_snapshot_take(dlr_snapshot *s, dl_error *err);
/* Gives tensors their copies as data: what is written of them is the snapshot's. */
void dlr_snapshot_lend(const dlr_snapshot *s, dlr_tensors *tensors);
#endif
