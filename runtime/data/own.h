/* Data of one's own: for each input and target of a model an array of some files, described by
 * options alone (docs/guide/data.md).
 *
 * A sample takes one index of the axis N of each array, or one file of an array without N; an array
 * without N in one file is the same for all samples, and where all are, samples are crops of them.
 * Of the other axes it takes what the model has: all, every step-th, or a crop, with one corner for
 * all arrays that have the axis. Values are converted to the model's type, normalised, moved by the
 * augmentation of training, and put into the model's order of axes.
 *
 * Which sample is which depends on (seed, split, epoch, number) alone: training takes the samples
 * of an epoch in the order of shuffle.h and draws crops and moves anew for each; validation keeps
 * the files' order, draws a crop for each sample once, and moves nothing. */
#ifndef DLR_OWN_H
#define DLR_OWN_H
#include "runtime/data/dataset.h"

enum { DLR_OWN_MAX_FILES = 100000 };

typedef struct {
    const char *const *at;
    int n;
} dlr_own_names;

typedef enum {
    DLR_SCALE_NONE,
    DLR_SCALE_GIVEN,       /* (x - mean) / std, both given */
    DLR_SCALE_STANDARDIZE, /* the same, computed over the training part (own_statistics.h) */
    DLR_SCALE_MINMAX       /* (x - min) / (max - min), likewise */
} dlr_own_scale;

/* Numbers, one or one a channel, or the .npy file that has them; neither: not given. */
typedef struct {
    const double *at;
    int n;
    const char *path;
} dlr_own_numbers;

typedef struct {
    const char *key;     /* "data.inputs.x", opens messages */
    dlr_own_names files; /* paths and patterns of glob(3); none: those of the split */
    const char *array;   /* NULL: the only one of the file */
    dlr_own_names
        axes; /* the model's name of each axis of the array, N, or "1"; none: the model's order */
    const int64_t *channels; /* those of axis C that are taken, in this order; NULL: all */
    int n_channels;
    int64_t offset; /* of the index of N behind the sample's (before it, where negative) */
    dlr_own_scale scale;
    dlr_own_numbers mean, std;
    bool replaces_nan; /* values that are not finite become `nan`, behind the normalisation; else an
                          error */
    double nan;
} dlr_own_source;

typedef enum { DLR_CROP_NONE, DLR_CROP_ORIGIN, DLR_CROP_CENTER, DLR_CROP_RANDOM } dlr_own_crop;
typedef enum { DLR_SPLIT_FRACTION, DLR_SPLIT_RANGE, DLR_SPLIT_FILES } dlr_own_split_kind;

/* Indexed by dlr_split where there are two. Fractions and ranges are of axis N, or of an axis of
 * the crops: `axis`, or (NULL) the first one that is longer than the model's. */
typedef struct {
    dlr_own_split_kind kind;
    double fraction[2];     /* training takes the first, validation the last */
    int64_t range[2][2];    /* first, and one behind the last */
    dlr_own_names files[2]; /* patterns of fnmatch(3) on path or name */
    const char *axis;
} dlr_own_split;

typedef struct {
    dlr_own_source source[DLR_MAX_ARRAYS]; /* of each array of the data set, in its order */
    dlr_own_crop crop;
    dlr_own_names step_axes; /* take every steps[i]-th element */
    const int64_t *steps;
    dlr_own_names flip, rotate,
        shift; /* axes: each to be flipped; turned among each other; moved round */
    dlr_own_split split;
    int64_t samples; /* in an epoch; 0: as many as there are */
    int64_t limit;   /* no more than this; 0: all */
} dlr_own_options;

extern const dlr_loader dlr_own_loader;

/* What such a data set, opened not as a probe, makes of the numbers of array k: (x - mean[c]) /
 * deviation[c] of channel c, n of them, or 1 for all; n is 0 where it takes them as they are. Valid
 * as long as the data set. */
typedef struct {
    const dlr_own_source *from;
    const float *mean, *deviation;
    int n;
} dlr_own_facts;
dlr_own_facts dlr_own_facts_of(const dlr_dataset *d, int k);
#endif
