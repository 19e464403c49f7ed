/* A checkpoint dealt out to the ranks of a run: what each of them writes.
 *
 * What one rank alone holds (its piece of a tensor) it writes. What several hold alike is written
 * once, and all write about as many bytes: weights stay whole, so that other programs find each in
 * one file, the largest first to the rank that has least; the optimiser's state then fills the
 * ranks up to one level, cut between two rows of its first axis where one is full. Running
 * statistics, of which each rank has its own, are those of the first. */
#ifndef DLR_SHARDS_H
#define DLR_SHARDS_H
#include "runtime/checkpoint/tensors.h"

/* A file that this rank writes: its name as of a checkpoint's part, its tensors, each a box of the
 * whole (with `first`, and shapes of the boxes), and, if one of them is not a whole, where they lie
 * (DLR_ST_BOXES). Where a rank has several boxes of a tensor, as of queries, keys and values that
 * are one, each is in a file of its own. */
typedef struct {
    const char *name;
    dlr_tensors tensors;
    dlr_st_meta boxes; /* key NULL: all are whole */
} dlr_shard;

enum { DLR_SHARD_PARTS = 3 /* of the model, the optimiser and the loss scaler */ };
typedef struct {
    dlr_shard *own;
    int n_own;
    const char **names; /* of all ranks' files, by rank, part and box */
    int *counts;        /* by rank: how many are its */
    int n_files, n_ranks;
    const char *index; /* the text of model.safetensors.index.json; NULL: a weight is in pieces */
} dlr_shards;

/* Deals out what outlives a run of the plan; ranks->comm NULL: this process writes all. All ranks
 * come to the same. Errors: DL_INTERNAL (pieces of a group that the run has not). */
dlr_shards *dlr_shards_deal(dl_arena *arena, const dl_plan *plan, const dlr_ranks *ranks,
                            dl_error *err);
/* Elements of a box. */
int64_t dlr_shard_count(const dlr_tensors *tensors, int i);
#endif
