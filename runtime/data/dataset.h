/* Samples of a data set by number: one interface for every loader.
 *
 * A synthetic sample is noise of the model's own types, drawn from (seed, split, sample): the same at each
 * epoch, as a file's would be. Any other is a crop of data_size^3 from a simulated box, the same region of
 * the model's input [C,L,L,L] and target [K,L,L,L], turned by one of 24 rotations. Corner and rotation are
 * drawn from (seed, split, epoch, sample) and nothing else, so that any number of workers or ranks, and a
 * resumed run, see the same samples.
 *
 * Validation draws without the epoch: each epoch is validated on the same crops, so that its losses compare.
 * (System A draws anew.) As there, a corner is uniform in [0, L - size) on each axis: the last position is
 * never drawn, and only when L = size is there a choice of one. */
#ifndef DLR_DATASET_H
#define DLR_DATASET_H
#include "ir/base/status.h"
#include "runtime/data/noise.h"

#include <stddef.h>
#include <stdint.h>

typedef enum { DLR_TRAIN, DLR_VALID } dlr_split;

typedef struct {
    const char *loader; /* "synthetic", "inmem", "lowmem", or "dali-lowmem": see README.md */
    dlr_split split;
    const char *path;                     /* HDF5; unused by synthetic */
    const char *input_name, *target_name; /* the data sets; NULL: "Nbody", "Hydro" */
    dlr_noise input_noise, target_noise;  /* synthetic: what a sample consists of; the rest is for crops */
    int input_channels, target_channels;  /* what the model takes and gives */
    int64_t box_size;                     /* crops stay within [0, box_size)^3; 0: the file's whole box */
    int data_size;                        /* S */
    int64_t samples;                      /* in an epoch: Nsamples or Nsamples_val */
    uint64_t seed;
} dlr_dataset_options;

typedef struct dlr_dataset dlr_dataset;

/* Errors name the file and what to do: DL_IO (missing, unreadable), DL_INPUT (damaged, or not what the model
 * takes: then also what it holds), DL_RESOURCE (memory), DL_USAGE (options). Forks (hdf5_facts.h). */
dlr_dataset *dlr_dataset_open(const dlr_dataset_options *options, dl_error *err);
void dlr_dataset_close(dlr_dataset *d); /* NULL is fine */

typedef struct {
    int64_t corner[3];
    int rotation; /* 1..24, of rotate.h */
} dlr_draw;
/* Of a crop. */
dlr_draw dlr_dataset_draw(const dlr_dataset *d, int64_t epoch, int64_t sample);

/* Writes one sample into the caller's memory: input [C,S,S,S] and target [K,S,S,S], f32; or noise. `scratch`
 * has dlr_dataset_scratch(d) floats, one for each thread; any number of threads may call at once. */
bool dlr_dataset_sample(const dlr_dataset *d, int64_t epoch, int64_t sample, float *input, float *target,
                        float *scratch, dl_error *err);

int64_t dlr_dataset_samples(const dlr_dataset *d);
int64_t dlr_dataset_box(const dlr_dataset *d);          /* L, as crops are drawn; 0: no crops */
size_t dlr_dataset_input_floats(const dlr_dataset *d);  /* of a sample */
size_t dlr_dataset_target_floats(const dlr_dataset *d); /* of a sample */
size_t dlr_dataset_scratch(const dlr_dataset *d);
int64_t dlr_dataset_held(const dlr_dataset *d); /* bytes of memory that it takes at most, samples apart */
#endif
