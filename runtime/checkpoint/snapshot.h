/* A copy in memory of what is written of a checkpoint, as it was between two steps: training goes
 * on while the copy is written. */
#ifndef DLR_SNAPSHOT_H
#define DLR_SNAPSHOT_H
#include "runtime/base/memory.h"
#include "runtime/checkpoint/shards.h"
#include "runtime/checkpoint/tensors.h"
#include "runtime/exec/state.h"

/* Elements of a tensor that are copied, row-major, and where in the copy they lie. */
typedef struct {
    dlr_view view;
    dlr_range range;
    int64_t place; /* bytes */
} dlr_extent;

typedef struct {
    dlr_exec *exec;
    dl_arena *arena;
    DL_ARRAY(dlr_extent) extents;
    dlr_memory memory;
} dlr_snapshot;

/* Bytes that a checkpoint takes in memory on this rank. `shards` NULL: of weights, buffers and the
 * optimiser's state, and of what ranks hold in pieces those of the whole, which is gathered for it
 * (dlr_tensors_gather) and not copied once more. Else of what the rank itself writes. */
int64_t dlr_snapshot_bytes(const dl_plan *plan, const dlr_shards *shards);
/* Takes the memory, for either. Errors: DL_RESOURCE. */
bool dlr_snapshot_open(dlr_snapshot *s, dlr_exec *exec, const dlr_shards *shards, dl_error *err);
void dlr_snapshot_close(dlr_snapshot *s); /* a zeroed one is fine */

/* Copies the tensors as they stand, by the executor's threads. Errors: those of dlr_exec_check. */
bool dlr_snapshot_take(dlr_snapshot *s, dl_error *err);
/* Gives tensors their copies as data: what is written of them is the snapshot's. */
void dlr_snapshot_lend(const dlr_snapshot *s, dlr_tensors *tensors);
#endif
