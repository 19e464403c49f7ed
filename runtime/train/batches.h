/* The batches of a run: a ring that prefetches them, and the feed that copies them to the plan's
 * inputs. One ring serves training and validation, which never run at the same time. */
#ifndef DLR_BATCHES_H
#define DLR_BATCHES_H
#include "runtime/train/feed.h"
#include "runtime/train/train_ranks.h"

typedef struct {
    const dlr_dataset *train, *valid; /* valid NULL: none */
    int workers;                      /* data threads of each */
    int64_t in_step;                  /* batches of one rank in a training step; 0 as 1 */
    bool device_holds;   /* device-resident data sets, where they fit in addition to the plan */
    bool device_samples; /* a device crops, rotates, scales and converts samples itself, where it
                            can */
} dlr_batches_options;

typedef struct {
    const dlr_batches_options *o;
    dlr_feed feed;
    dlr_prefetch *ring;
    dlr_prefetch_raw raw;  /* of files' numbers: the device does the rest, */
    bool gathers;          /* where it does */
    int batch;             /* samples of one rank in a run of a program, */
    int ranks;             /* that have other samples, */
    int64_t in_step;       /* and batches of a rank in a training step: */
    int64_t global_batch;  /* samples of a step */
    int64_t epoch_batches; /* steps in an epoch of o->train; batches that fill no step are left
                              out */
} dlr_batches;

/* A run's memory in addition to the plan's: a ring of batches that are read ahead. */
typedef struct {
    int batches;
    int64_t bytes; /* of one */
} dlr_train_ring;
dlr_train_ring dlr_train_ring_of(const dl_plan *plan, int workers);

/* Finds the plan's inputs, and the batch sizes. Errors: those of dlr_feed_open. */
bool dlr_batches_open(dlr_batches *b, const dlr_batches_options *o, dlr_exec *exec,
                      const dlr_run_ranks *ranks, dl_error *err);
/* Starts to read o->train; the log says whether the device or the host makes its samples. With
 * `validates` the ring is turned to o->valid after each epoch. Errors: those of
 * dlr_prefetch_start. */
bool dlr_batches_start(dlr_batches *b, dlr_exec *exec, const dlr_run_ranks *ranks, bool validates,
                       dl_error *err);
/* Goes on in o->train after `steps` steps of that epoch. */
void dlr_batches_seek(dlr_batches *b, int64_t epoch, int64_t steps);
/* The same after o->valid was read. Errors: those of dlr_prefetch_switch. */
bool dlr_batches_switch(dlr_batches *b, int64_t epoch, int64_t steps, dl_error *err);
/* The next batch, into the plan's inputs. Errors: those of dlr_prefetch_next. */
bool dlr_batches_next(dlr_batches *b, dlr_batch *batch, dl_error *err);
void dlr_batches_close(dlr_batches *b);
#endif
