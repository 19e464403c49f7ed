/* Batches ahead of time: a bounded ring that worker threads fill sample by sample, handed out in
 * order.
 *
 * Batch b of an epoch, over all ranks, holds samples b G .. (b+1) G - 1 with G = batch x world; of
 * those this rank's i-th is sample (b batch + i) world + rank, as torch's DistributedSampler deals
 * without shuffling. (Recipe volumes shuffles nothing that matters: the number of a sample only
 * keys its random crop.) An epoch has samples / G batches, which is the count that recipe volumes'
 * schedule uses; the samples left over are dropped, since a plan's batch is fixed. */
#ifndef DLR_PREFETCH_H
#define DLR_PREFETCH_H
#include "runtime/data/dataset.h"

/* Batches of numbers for a device (dlr_dataset_numbers), which reads them where they lie. */
typedef struct {
    size_t front[DLR_MAX_ARRAYS]; /* bytes in front of each array of a batch that are the device's,
                                     a multiple of 64 */
    bool held; /* the device has all numbers (dlr_dataset_store): nothing is read, and only places
                  are told */
    void *user;
    void (*pin)(void *user, void *memory, size_t bytes); /* the ring's memory, before it is used */
    void (*unpin)(void *user, void *memory);
    void (*back)(void *user); /* the caller's batch goes back to the workers: until this returns it
                                 is read */
} dlr_prefetch_raw;

typedef struct {
    int batch;       /* samples in a batch of this rank: local_batch_size */
    int rank, world; /* 0 and 1 for one process */
    int workers;     /* num_data_workers; 0: the calling thread fills each batch when asked */
    int depth;       /* batches in the ring, the one in use included; 0: 3 (1 without workers) */
    const dlr_prefetch_raw *raw; /* samples as dlr_dataset_numbers gives them, of data sets that
                                  * have such; as long-lived as the ring. NULL: samples */
    bool turned_between; /* the ring is turned at the end of each epoch: nothing is read ahead
                            beyond it */
} dlr_prefetch_options;

typedef struct {
    const dlr_arrays *arrays; /* the data set's */
    void *const *data; /* of each [batch, ...], as arrays->at[k].type says, at 64-byte boundaries */
    bool held;         /* the numbers are the device's, and `data` is nothing but room in front */
    const dlr_raw *raw; /* of each: `data` are numbers that are still to be moved, as `how` says,
                         * and scaled; NULL: they are what `arrays` says */
    dlr_placing *const *how; /* of each [batch] */
    int64_t epoch, index;    /* index: in the epoch */
} dlr_batch;

typedef struct dlr_prefetch dlr_prefetch;

/* Allocates the ring and starts the workers at epoch 0, batch 0; the data set must outlive it, or
 * its use. The workers block all signals. Errors: DL_USAGE (options, fewer samples than one batch),
 * DL_RESOURCE (memory, threads). */
dlr_prefetch *dlr_prefetch_start(const dlr_dataset *d, const dlr_prefetch_options *options,
                                 dl_error *err);
/* Ends the workers, after at most one sample each, and frees the ring; at any time. NULL is fine.
 */
void dlr_prefetch_stop(dlr_prefetch *p);

int64_t dlr_prefetch_batches(const dlr_prefetch *p); /* in an epoch */

/* `next`, `fill`, `seek` and `stop` belong to one thread. */
/* The next batch, epoch after epoch without end; its memory is the caller's until the next call. A
 * sample that could not be read makes the batch that it belongs to fail, here, each time it is
 * asked for. */
bool dlr_prefetch_next(dlr_prefetch *p, dlr_batch *batch, dl_error *err);
/* Waits until the workers have read as far ahead as they may; returns at once where there are none.
 */
void dlr_prefetch_fill(dlr_prefetch *p);
/* Makes that batch the next one, at once wherever it lies: for a resumed run. index is below
 * dlr_prefetch_batches. */
void dlr_prefetch_seek(dlr_prefetch *p, int64_t epoch, int64_t index);
/* The same in another data set, of the same arrays, which is read from here on: one ring serves
 * training and validation, which never run at once. Errors: DL_USAGE (fewer samples than one
 * batch), DL_RESOURCE; then the ring is as it was. */
bool dlr_prefetch_turn(dlr_prefetch *p, const dlr_dataset *d, int64_t epoch, int64_t index,
                       dl_error *err);
#endif
