/* A copy in memory of the tensors that a checkpoint writes, taken between two steps. Training goes
 * on while the copy is written to files. */
#ifndef DLR_SNAPSHOT_H
#define DLR_SNAPSHOT_H
#include "runtime/base/memory.h"
#include "runtime/checkpoint/shards.h"
#include "runtime/checkpoint/tensors.h"
#include "runtime/exec/state.h"

/* The range of a tensor that is copied, row-major, and its offset in the copy. */
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

/* Bytes that a checkpoint takes in memory on this rank. `shards` NULL: the weights, buffers and
 * optimizer state, with sharded tensors counted as wholes, which are gathered (dlr_tensors_gather)
 * and not copied again. Otherwise: the tensors that the rank itself writes. */
int64_t dlr_snapshot_bytes(const dl_plan *plan, const dlr_shards *shards);
/* Allocates the memory, for either case. Errors: DL_RESOURCE. */
bool dlr_snapshot_open(dlr_snapshot *s, dlr_exec *exec, const dlr_shards *shards, dl_error *err);
void dlr_snapshot_close(dlr_snapshot *s); /* a zeroed one is fine */

/* Copies the current tensors by the executor's threads. Errors: those of dlr_exec_check. */
bool dlr_snapshot_take(dlr_snapshot *s, dl_error *err);
/* Makes `tensors` borrow the copies as their data: writing them writes the snapshot. */
void dlr_tensors_borrow_snapshot(const dlr_snapshot *s, dlr_tensors *tensors);
#endif
