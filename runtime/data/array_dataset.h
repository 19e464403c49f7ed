/* Array datasets: for each input and target of a model an array in some files, described by options
 * alone (docs/guide/data.md).
 *
 * A sample takes one index of the axis N of each array, or one file of an array without N. An array
 * without N in one file is the same for all samples; where all arrays are like this, samples are
 * crops of them. Of the other axes it takes all indices, every step-th, or a crop, as the model's
 * shape requires; arrays that share an axis share its corner. Values are converted to the model's
 * type, normalized, augmented in training, and transposed to the model's axis order.
 *
 * A sample depends on (seed, split, epoch, number) alone. Training takes the samples of an epoch in
 * the order of shuffle.h, and draws crops and augmentations anew for each epoch. Validation keeps
 * the files' order, draws a crop for each sample once, and augments nothing. */
#ifndef DLR_ARRAY_DATASET_H
#define DLR_ARRAY_DATASET_H
#include "runtime/data/dataset.h"

enum { DLR_OWN_MAX_FILES = 100000 };

typedef struct {
    const char *const *at;
    int n;
} dlr_array_dataset_names;

typedef enum {
    DLR_SCALE_NONE,
    DLR_SCALE_GIVEN,       /* (x - mean) / std, both given */
    DLR_SCALE_STANDARDIZE, /* the same, with mean and std computed over the training part
                              (dataset_statistics.h) */
    DLR_SCALE_MINMAX       /* (x - min) / (max - min), computed over the training part */
} dlr_array_dataset_scale;

/* Numbers, one or one per channel, or the .npy file that has them; neither: not given. */
typedef struct {
    const double *at;
    int n;
    const char *path;
} dlr_array_dataset_numbers;

/* An array of the files that gives all channels of an input or target, or some of them. */
typedef struct {
    dlr_array_dataset_names files; /* paths and patterns of glob(3); none: the files of the split */
    /* NULL: the only one of the file; a pattern of fnmatch(3): each array that fits it is taken as
     * if it were in a file of its own */
    const char *array;
    /* the model's name of each axis of the array, N, or "1"; none: the model's order */
    dlr_array_dataset_names axes;
    /* the channels (indices of axis C) to take, in this order; NULL: all */
    const int64_t *channels;
    int n_channels;
    /* Instead: the axis of that name in the file is that of the channels, and those are taken whose
     * coordinate (the file's 1-D array of the same name) is one of `levels`; without a coordinate,
     * levels are indices. NULL: the axes say it. */
    const char *level_axis;
    dlr_array_dataset_numbers levels;
} dlr_array_dataset_variable;

/* The source of an input or target: variables whose channels follow each other along axis C, or
 * along the first axis of a sample where the model has no C. Mostly it is one variable. */
typedef struct {
    const char *key; /* the configuration key that begins messages: "data.inputs.x" */
    const dlr_array_dataset_variable *variables;
    int n_variables;
    int64_t offset; /* added to the sample's index of N (negative: an earlier index) */
    dlr_array_dataset_scale scale;
    dlr_array_dataset_numbers mean, std;
    bool replaces_nan; /* values that are not finite become `nan` after normalization; otherwise
                          they are an error */
    double nan;
} dlr_array_dataset_source;

typedef enum {
    DLR_CROP_NONE,
    DLR_CROP_ORIGIN,
    DLR_CROP_CENTER,
    DLR_CROP_RANDOM
} dlr_array_dataset_crop;
typedef enum { DLR_SPLIT_FRACTION, DLR_SPLIT_RANGE, DLR_SPLIT_FILES } dlr_array_dataset_split_kind;

/* How data are split. Arrays of two are indexed by dlr_split. Fractions and ranges are of axis N,
 * or of an axis of the crops: `axis`, or (NULL) the first one that is longer than the model's.
 * Fractions of N may be of samples in random order, or of groups of samples. */
typedef struct {
    dlr_array_dataset_split_kind kind;
    double fraction[2];  /* training takes the first indices, validation the last ones */
    int64_t range[2][2]; /* first index, and end (exclusive) */
    dlr_array_dataset_names files[2]; /* patterns of fnmatch(3) on path or name */
    const char *axis;
    bool shuffle;  /* the parts are drawn, by the data set's seed or by */
    bool has_seed; /* one of their own, */
    uint64_t seed;
    int64_t gap; /* so many indices of training next to validation are left out */
    dlr_array_dataset_variable group; /* an array with a number for each sample: those of one number
                                         are in one part. No files: none */
} dlr_array_dataset_split;

/* Samples are times of simulations. An array has an axis of simulations, or a file (or an array
 * that fits a pattern) for each, and an axis of times; arrays without times are the same for all
 * times of a simulation. An input is at times t - (history - 1) stride, ..., t, along the model's
 * axis T, or one after the other along its channels; a target at t + lead stride and, along its
 * axis T, at the times after that. All times of a sample are of one simulation. */
typedef struct {
    bool given;
    int sim, time; /* the axes of arrays without `axes`, which may name them "sim" and "time"; sim:
                      -1, there is none */
    int64_t lead, history, stride;
} dlr_array_dataset_trajectory;

typedef struct {
    dlr_array_dataset_trajectory trajectory;
    dlr_array_dataset_source
        source[DLR_MAX_ARRAYS]; /* one per array of the data set, in its order */
    dlr_array_dataset_crop crop;
    dlr_array_dataset_names step_axes; /* take every steps[i]-th element */
    const int64_t *steps;
    dlr_array_dataset_names flip, rotate, shift; /* axes to flip at random; axes to rotate among
                                          each other; axes to shift cyclically */
    dlr_array_dataset_split split;
    int64_t samples; /* samples in an epoch; 0: as many as the files hold */
    int64_t limit;   /* upper bound of the number of samples; 0: none */
} dlr_array_dataset_options;

extern const dlr_loader dlr_array_dataset_loader;

/* How array k of an open array dataset (not a probe) normalizes: (x - mean[c]) / deviation[c] of
 * channel c. There are n of them, or 1 for all channels; n is 0 without normalization. Valid as
 * long as the data set. The variables' `channels` are those that are taken by `levels`, too. */
typedef struct {
    const dlr_array_dataset_source *from;
    const float *mean, *deviation;
    int n;
    int times; /* so many times of the source are one sample: a trajectory's history */
} dlr_array_dataset_facts;
dlr_array_dataset_facts dlr_array_dataset_facts_of(const dlr_dataset *d, int k);
#endif
