/* Samples of a data set by number: one interface for every loader.
 *
 * A sample is the tensors that a model takes, inputs before targets, each in the model's own shape;
 * a loader (loader.h) writes them. A sample depends on (seed, split, epoch, number) alone. Any
 * number of workers or ranks, and a resumed run, therefore see the same samples. */
#ifndef DLR_DATASET_H
#define DLR_DATASET_H
#include "ir/type.h"
#include "runtime/data/element.h"

#include <stddef.h>
#include <stdint.h>

typedef enum { DLR_TRAIN, DLR_VALID } dlr_split;

/* One tensor of a sample. */
typedef struct {
    const char *name; /* the model's name; must live as long as its owner */
    bool is_target;
    dl_type type;   /* without the batch; f32 for a model's floats of any width (f64 where the data
                       set says so), its own type for whole numbers */
    bool per_batch; /* one for all samples of a batch, which each sample repeats */
} dlr_array;
enum { DLR_MAX_ARRAYS = 256 };

typedef struct {
    dlr_array at[DLR_MAX_ARRAYS];
    int n;
} dlr_arrays;

/* Adds a tensor that a model takes as `name`: `type` is a batch's, [N, ...]. Call it for the
 * inputs, then for the targets. Errors (DL_INPUT): N is not its first axis, or there are more than
 * DLR_MAX_ARRAYS. */
bool dlr_arrays_add(dlr_arrays *arrays, const char *name, bool is_target, const dl_type *type,
                    dl_error *err);
/* Bytes of one array of a sample. */
size_t dlr_array_bytes(const dlr_array *array);

typedef enum {
    DLR_OPEN_FOR_USE,
    DLR_OPEN_PROBE, /* only check whether it can be opened: no sample may be requested, unless
                       dlr_dataset_whole */
    /* As a probe, and count what opening it for use would read in addition (ir/base/file_calls.h),
     * without reading it. Samples of a data set that is not in memory (dlr_dataset_in_memory) may
     * be requested, to count their reads: their values are undefined. */
    DLR_OPEN_ON_PAPER
} dlr_opening;

typedef struct {
    dlr_split split;
    uint64_t seed;
    const dlr_arrays *arrays; /* the arrays of a sample */
    bool mapped;              /* see dlr_array_file */
    dlr_opening opening;
} dlr_dataset_options;

typedef struct dlr_dataset dlr_dataset;
typedef struct dlr_loader dlr_loader;

/* Opens a data set; `options` are the loader's own (noise.h, crops.h, weather.h). Errors name the
 * file and a remedy: DL_IO (missing, unreadable), DL_INPUT (damaged, or not what the model takes,
 * with what it holds), DL_RESOURCE (memory), DL_USAGE (options). It forks where it reads HDF5
 * (hdf5_facts.h). */
dlr_dataset *dlr_dataset_open(const dlr_loader *loader, const void *options,
                              const dlr_dataset_options *common, dl_error *err);
void dlr_dataset_close(dlr_dataset *d); /* NULL is fine */

/* Writes the arrays of one sample into the caller's memory. `scratch` has dlr_dataset_scratch(d)
 * bytes, aligned to 64, one buffer per thread; any number of threads may call at once. */
bool dlr_dataset_sample(const dlr_dataset *d, int64_t epoch, int64_t sample, void *const *out,
                        void *scratch, dl_error *err);

/* A raw sample, for a device that crops, transforms, scales and converts it itself
 * (ir/plan/feed.h). Each array has as many numbers as it has elements, in the file's order. The
 * part of an array's description that is the same for all samples: */
typedef struct {
    dlr_element type; /* type of the numbers: f32 unless the loader says otherwise, at most as wide
                         as the array's */
    /* one per index of `axis`; axis -1: one for all; NULL: no scaling */
    const float *mean, *deviation;
    int axis;
    /* offset in bytes of its numbers in the device-resident data set (dlr_dataset_store) */
    int64_t at;
    bool replaces; /* values that are not finite become `other`, and are not scaled */
    float other;
} dlr_raw;
/* The part that differs by sample: where element [i0, i1, ...] lies among the numbers. Its offset
 * is the sum over the axes of first + i step, less `round` where that is not below it. Along two
 * axes at most an element may instead be interpolated between two of `points` points, by `zoom` and
 * `shift`, as dl_feed_axis defines. */
typedef struct {
    int64_t first, step, round;
    int64_t points; /* 0: no interpolation */
    double zoom, shift;
} dlr_layout_axis;
typedef struct {
    int64_t base; /* for a sample of the device-resident data set: where its numbers begin;
                     otherwise 0 */
    dlr_layout_axis axis[DL_MAX_RANK];
} dlr_layout_map;
/* All `size` elements of an axis, `step` apart, or backwards. */
static inline dlr_layout_axis dlr_along(int64_t size, int64_t step, bool backwards) {
    return (dlr_layout_axis){.first = backwards ? (size - 1) * step : 0,
                             .step = backwards ? -step : step,
                             .round = INT64_MAX};
}
/* The description of the raw samples, valid as long as the data set is open; false: its loader has
 * none. */
bool dlr_dataset_raw(const dlr_dataset *d, dlr_raw raw[DLR_MAX_ARRAYS]);
/* The host's remaining work on raw samples, for messages: "reads them". */
const char *dlr_dataset_host(const dlr_dataset *d);
/* Writes the numbers of one sample, and into `how` where its elements lie. It is the same sample,
 * with the same errors and scratch, as that of dlr_dataset_sample. */
bool dlr_dataset_numbers(const dlr_dataset *d, int64_t epoch, int64_t sample, void *const *out,
                         void *scratch, dlr_layout_map *how, dl_error *err);

/* All numbers that the samples are made of, for a device-resident data set: their size in bytes,
 * and the pieces in which they are read, each of at most `most` bytes. */
typedef struct {
    int64_t bytes, pieces, most;
} dlr_store;
/* False: the loader cannot provide them. */
bool dlr_dataset_store(const dlr_dataset *d, dlr_store *store);
/* Reads piece i, which has `bytes` bytes and begins at byte `at` of the whole. `scratch`: at least
 * `most` bytes. Errors: those of its samples, also for numbers that no sample has used yet. */
bool dlr_dataset_piece(const dlr_dataset *d, int64_t i, void *out, void *scratch, int64_t *at,
                       int64_t *bytes, dl_error *err);
/* Where the elements of a sample lie in these numbers; the same sample as dlr_dataset_numbers. */
void dlr_dataset_locate(const dlr_dataset *d, int64_t epoch, int64_t sample, dlr_layout_map *how);

const dlr_arrays *dlr_dataset_arrays(const dlr_dataset *d);
int64_t dlr_dataset_samples(const dlr_dataset *d); /* samples in an epoch */
dlr_split dlr_dataset_split(const dlr_dataset *d);
size_t dlr_dataset_scratch(const dlr_dataset *d);
/* the probe has opened everything: the data set can be used */
bool dlr_dataset_whole(const dlr_dataset *d);
/* samples read no file when the data set is open for use */
bool dlr_dataset_in_memory(const dlr_dataset *d);
/* most bytes of memory that it takes, without samples */
int64_t dlr_dataset_held(const dlr_dataset *d);
#endif
