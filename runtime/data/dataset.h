/* Samples of a data set by number: one interface for every loader.
 *
 * A sample is the tensors that a model takes, inputs before targets, each in the model's own shape;
 * a loader (loader.h) writes them. Which sample it is depends on (seed, split, epoch, number) and
 * nothing else, so that any number of workers or ranks, and a resumed run, see the same ones. */
#ifndef DLR_DATASET_H
#define DLR_DATASET_H
#include "ir/type.h"
#include "runtime/data/element.h"

#include <stddef.h>
#include <stdint.h>

typedef enum { DLR_TRAIN, DLR_VALID } dlr_split;

/* One tensor of a sample. */
typedef struct {
    const char *name; /* the model's; as long-lived as what states it */
    bool is_target;
    dl_type type; /* without the batch; f32 for a model's floats of any width, its own type for
                     whole numbers */
} dlr_array;
enum { DLR_MAX_ARRAYS = 16 };

typedef struct {
    dlr_array at[DLR_MAX_ARRAYS];
    int n;
} dlr_arrays;

/* Adds what a model takes as `name`: `type` is of a batch, [N, ...]. Call it for the inputs, then
 * for the targets. Errors (DL_INPUT): N is not its first axis, or there are more than
 * DLR_MAX_ARRAYS. */
bool dlr_arrays_add(dlr_arrays *arrays, const char *name, bool is_target, const dl_type *type,
                    dl_error *err);
/* Bytes of one array of a sample. */
size_t dlr_array_bytes(const dlr_array *array);

typedef enum {
    DLR_OPEN_FOR_USE,
    DLR_OPEN_PROBE, /* only look whether it can be opened: no sample will be asked for, unless it is
                       whole */
    /* A probe that counts what opening it for use would read besides (ir/base/file_calls.h) and
     * reads nothing of it. Of what is not in memory then (dlr_dataset_in_memory) samples may be
     * asked for, to count their reads: their numbers need not be right. */
    DLR_OPEN_ON_PAPER
} dlr_opening;

typedef struct {
    dlr_split split;
    uint64_t seed;
    const dlr_arrays *arrays; /* what a sample consists of */
    bool mapped;              /* array_file.h */
    dlr_opening opening;
} dlr_dataset_options;

typedef struct dlr_dataset dlr_dataset;
typedef struct dlr_loader dlr_loader;

/* Opens a data set; `options` are the loader's own (noise.h, crops.h, weather.h). Errors name the
 * file and what to do: DL_IO (missing, unreadable), DL_INPUT (damaged, or not what the model takes:
 * then also what it holds), DL_RESOURCE (memory), DL_USAGE (options). Forks, where it reads HDF5
 * (hdf5_facts.h). */
dlr_dataset *dlr_dataset_open(const dlr_loader *loader, const void *options,
                              const dlr_dataset_options *common, dl_error *err);
void dlr_dataset_close(dlr_dataset *d); /* NULL is fine */

/* Writes the arrays of one sample into the caller's memory. `scratch` has dlr_dataset_scratch(d)
 * bytes, on a boundary of 64, for each thread; any number of threads may call at once. */
bool dlr_dataset_sample(const dlr_dataset *d, int64_t epoch, int64_t sample, void *const *out,
                        void *scratch, dl_error *err);

/* A sample for a device that cuts, turns, scales and converts it itself (ir/plan/feed.h): of each
 * array as many numbers as it has elements, as they lie in the file. Of an array: what of that is
 * the same for all samples, */
typedef struct {
    dlr_element type; /* of the numbers: f32 unless the loader says otherwise, at most as wide as
                         the array's */
    const float *mean,
        *deviation; /* of each index of `axis`, -1: one for all; NULL: nothing is scaled */
    int axis;
    int64_t at; /* where its numbers begin in what a device holds (dlr_dataset_store), in bytes */
    bool replaces; /* what is not finite becomes `other`, and is not scaled */
    float other;
} dlr_raw;
/* and where a sample's element [i0, i1, ...] lies among them: the sum of what each axis says, of
 * its element i first + i step, less `round` where that is not below it. Or it lies between two of
 * `points` points, which lie there, by `zoom` and `shift`, as dl_feed_axis says, along two axes at
 * most. */
typedef struct {
    int64_t first, step, round;
    int64_t points; /* 0: between none */
    double zoom, shift;
} dlr_placed_axis;
typedef struct {
    int64_t base; /* of a sample whose numbers are held: where they begin; else 0 */
    dlr_placed_axis axis[DL_MAX_RANK];
} dlr_placing;
/* All `size` elements of an axis, `step` apart; backwards. */
static inline dlr_placed_axis dlr_along(int64_t size, int64_t step, bool backwards) {
    return (dlr_placed_axis){.first = backwards ? (size - 1) * step : 0,
                             .step = backwards ? -step : step,
                             .round = INT64_MAX};
}
/* What the arrays are like, as long as the data set is open; false: its loader has no such samples.
 */
bool dlr_dataset_raw(const dlr_dataset *d, dlr_raw raw[DLR_MAX_ARRAYS]);
/* What the host does to them, which the device does not: "reads them". */
const char *dlr_dataset_host(const dlr_dataset *d);
/* Writes the numbers of one sample, and into `how` where elements lie: the same sample, with the
 * same errors and scratch, as dlr_dataset_sample. */
bool dlr_dataset_numbers(const dlr_dataset *d, int64_t epoch, int64_t sample, void *const *out,
                         void *scratch, dlr_placing *how, dl_error *err);

/* All numbers that its samples are made of, for a device that holds them: their bytes, and the
 * pieces that they are read in, of at most `most` bytes. */
typedef struct {
    int64_t bytes, pieces, most;
} dlr_store;
/* False: it has none, or its loader reads no such samples. */
bool dlr_dataset_store(const dlr_dataset *d, dlr_store *store);
/* Reads piece i, which is `bytes` bytes and begins at byte `at` of all. `scratch`: as large as
 * `most`. Errors: those of its samples, also of numbers that no sample has taken yet. */
bool dlr_dataset_piece(const dlr_dataset *d, int64_t i, void *out, void *scratch, int64_t *at,
                       int64_t *bytes, dl_error *err);
/* Where elements of a sample lie in it, the same sample as dlr_dataset_numbers. */
void dlr_dataset_locate(const dlr_dataset *d, int64_t epoch, int64_t sample, dlr_placing *how);

const dlr_arrays *dlr_dataset_arrays(const dlr_dataset *d);
int64_t dlr_dataset_samples(const dlr_dataset *d); /* in an epoch */
size_t dlr_dataset_scratch(const dlr_dataset *d);
bool dlr_dataset_whole(
    const dlr_dataset *d); /* a probe that left nothing out: it is as if opened for use */
bool dlr_dataset_in_memory(
    const dlr_dataset *d); /* once it is open for use, samples read no file */
int64_t
dlr_dataset_held(const dlr_dataset *d); /* bytes of memory that it takes at most, samples apart */
#endif
