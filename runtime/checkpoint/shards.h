/* The shard plan of a checkpoint: which rank of a run writes which tensors.
 *
 * A rank writes the shards that it alone holds. Replicated tensors are written once, so that all
 * ranks write about as many bytes. Weights stay whole, so that other programs find each in one
 * file; the largest goes first, to the rank with the fewest bytes. The optimizer's state then fills
 * the ranks up to a common level, and is split between two rows of its first axis where a rank is
 * full. Running statistics differ between ranks; those of the lowest rank are written. */
#ifndef DLR_SHARDS_H
#define DLR_SHARDS_H
#include "runtime/checkpoint/tensors.h"

/* A file that this rank writes: its name within the checkpoint's part, and its tensors. Each is a
 * box of the whole tensor (with `first`, and shapes of the boxes). If one of them is not a whole
 * tensor, the metadata has their offsets (DLR_ST_BOXES). Where a rank has several boxes of a
 * tensor, as of merged queries, keys and values, each is in a file of its own. */
typedef struct {
    const char *name;
    dlr_tensors tensors;
    dlr_st_meta boxes; /* key NULL: all tensors are whole */
} dlr_shard;

enum { DLR_SHARD_PARTS = 4 /* model, optimizer, loss scaler, and the mean of the weights */ };
typedef struct {
    dlr_shard *own;
    int n_own;
    const char **names; /* file names of all ranks, by rank, part and box */
    int *counts;        /* by rank: how many of these files are its own */
    int n_files, n_ranks;
    const char *index; /* the text of model.safetensors.index.json; NULL: some weight is split */
} dlr_shards;

/* Builds the plan for all variables that persist between runs; ranks->comm NULL: this process
 * writes all. All ranks compute the same plan. Errors: DL_INTERNAL (a shard of a group that the run
 * does not have). */
dlr_shards *dlr_shards_plan(dl_arena *arena, const dl_plan *plan, const dlr_ranks *ranks,
                            dl_error *err);
/* The number of elements of a box. */
int64_t dlr_shard_count(const dlr_tensors *tensors, int i);
#endif
