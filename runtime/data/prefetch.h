/* Prefetches batches: worker threads fill a bounded ring sample by sample, and batches are handed
 * out in order.
 *
 * Batch b of an epoch, over all ranks, holds samples b G .. (b+1) G - 1 with G = batch x world. The
 * i-th of this rank is sample (b batch + i) world + rank, as with torch's DistributedSampler
 * without shuffling: a loader shuffles by its own numbering. A plan's batch size is fixed. An epoch
 * of training has samples / G batches, and remaining samples are dropped; where the ring is
 * `partial`, they are a last batch, filled up with copies of the last sample. */
#ifndef DLR_PREFETCH_H
#define DLR_PREFETCH_H
#include "runtime/data/dataset.h"

/* Raw batches (dlr_dataset_numbers) for a device, which reads them in place. */
typedef struct {
    size_t front[DLR_MAX_ARRAYS]; /* bytes reserved before each array of a batch for the device's
                                     use, a multiple of 64 */
    bool held; /* the data set is device-resident (dlr_dataset_store): nothing is read, and only
                  places are computed */
    void *user;
    /* called with the ring's memory, before it is used */
    void (*pin)(void *user, void *memory, size_t bytes);
    void (*unpin)(void *user, void *memory);
    void (*back)(void *user); /* called when the caller's batch returns to the workers: it must wait
                                 until the device has read it */
} dlr_prefetch_raw;

typedef struct {
    int batch;       /* samples in a batch of this rank: local_batch_size */
    int rank, world; /* 0 and 1 for one process */
    int workers; /* num_data_workers; 0: the calling thread fills each batch when it is requested */
    int depth;   /* batches in the ring, including the one in use; 0: 3 (1 without workers) */
    const dlr_prefetch_raw *raw; /* raw samples, for data sets that have them; must live as long as
                                    the ring. NULL: finished samples */
    bool switched_between; /* the ring is switched to another data set at the end of each epoch:
                            nothing is prefetched beyond it */
    bool partial;          /* the last batch of an epoch need not be full */
} dlr_prefetch_options;

typedef struct {
    const dlr_arrays *arrays; /* the data set's */
    /* of each array [batch, ...] of type arrays->at[k].type, aligned to 64 bytes */
    void *const *data;
    bool held; /* the data set is device-resident, and `data` has only the reserved bytes */
    const dlr_raw *raw; /* `data` are raw numbers: to be placed as `how` says, and scaled; NULL:
                           they are finished samples */
    dlr_layout_map *const *how; /* of each [batch] */
    int64_t epoch, index;       /* index: the batch's number in its epoch */
    int64_t samples, of_all;    /* those that count, the first ones, and all ranks' together */
} dlr_batch;

typedef struct dlr_prefetch dlr_prefetch;

/* Allocates the ring and starts the workers at epoch 0, batch 0; the data set must outlive the
 * ring, or its use. The workers block all signals. Errors: DL_USAGE (options, fewer samples than
 * one batch), DL_RESOURCE (memory, threads). */
dlr_prefetch *dlr_prefetch_start(const dlr_dataset *d, const dlr_prefetch_options *options,
                                 dl_error *err);
/* Ends the workers, after at most one sample each, and frees the ring; allowed at any time. NULL is
 * fine. */
void dlr_prefetch_stop(dlr_prefetch *p);

int64_t dlr_prefetch_batches(const dlr_prefetch *p); /* batches in an epoch */

/* `next`, `fill`, `seek` and `stop` must be called by one thread. */
/* Returns the next batch, epoch after epoch without end; the caller owns its memory until the next
 * call. A batch with a sample that could not be read fails, each time it is requested. */
bool dlr_prefetch_next(dlr_prefetch *p, dlr_batch *batch, dl_error *err);
/* Waits until the workers have prefetched as far as they may; returns at once without workers. */
void dlr_prefetch_fill(dlr_prefetch *p);
/* Continues at that batch, without reading the ones before it: for a resumed run. index is below
 * dlr_prefetch_batches. */
void dlr_prefetch_seek(dlr_prefetch *p, int64_t epoch, int64_t index);
/* The same in another data set, of the same arrays, which is read from here on: one ring serves
 * training and validation, which never run at once. partial: as in the options. Errors: DL_USAGE
 * (fewer samples than one batch, unless partial), DL_RESOURCE; the ring is then unchanged. */
bool dlr_prefetch_switch(dlr_prefetch *p, const dlr_dataset *d, bool partial, int64_t epoch,
                         int64_t index, dl_error *err);
#endif
