/* Private to array_dataset*.c: the state of an array dataset's loader. */
#ifndef DLR_ARRAY_DATASET_PRIVATE_H
#define DLR_ARRAY_DATASET_PRIVATE_H
#include "runtime/data/array_dataset.h"
#include "runtime/data/array_file.h"
#include "runtime/data/loader.h"
#include "runtime/data/packing.h"

/* Values of `axis` for an axis of the files that is none of the model's axes. */
enum {
    DATASET_SAMPLES = -1, /* N, or the times of trajectories */
    DATASET_LEFT_OUT = -2,
    DATASET_SIMULATIONS = -3
};

typedef struct {
    dlr_source *source;
    const dlr_packing *packing;
    const char *path;
    const char *array;                   /* its name there: of a pattern, one that fits it */
    int64_t dims[DL_MAX_RANK], first, n; /* indices of N: the first, and their number */
    int64_t times;                       /* an index within the file is simulation * times + time */
} dataset_file;

/* The layout of an array in a device-resident data set (dataset_store.c): `each` numbers per index
 * of N, in pieces. */
typedef struct {
    int of; /* the array that has these numbers: this one or an earlier one with the same numbers */
    int64_t low, n; /* the first index of N, and their number */
    int64_t each, start[DL_MAX_RANK], count[DL_MAX_RANK],
        stride[DL_MAX_RANK]; /* by axis of the model */
    int cut;                 /* the place in `order` of the axis whose rows are distributed over
                                pieces */
    int64_t row;             /* numbers of a row */
    int64_t rows, pieces;    /* rows of a piece; pieces of an index */
    int64_t at, first;       /* offset in bytes and number of its first piece */
} dataset_store;

/* A window to read at one index of N: start and count for each axis of the model; channels count
 * among the selected ones. */
typedef struct {
    int64_t start[DL_MAX_RANK], count[DL_MAX_RANK];
} dataset_window;

/* An array of the files that gives some of the channels of one of the model's. */
typedef struct dataset_array dataset_array;
typedef struct {
    const dataset_array *of;
    dlr_array_dataset_variable from; /* its names and lists are copies */
    DL_ARRAY(dataset_file) files;
    int rank, axis[DL_MAX_RANK]; /* rank in the files; of each of their axes the axis of `of->to`,
                                    or one of the above */
    int channel;                 /* the axis of channels in the files; -1: none */
    int64_t first, n;            /* its channels among the array's: the first, and their number */
    bool has_samples;            /* the files have an axis N */
    bool is_static;              /* the same for all samples */
    int64_t total;               /* number of indices of N, or of files; static: 1 */
    bool has_simulations;        /* the files have an axis of them */
    int like;      /* of a copy for another time: the variable whose files and statistics it
                      has; -1: its own */
    int64_t delay; /* added to the index of N, */
    int64_t step;  /* for this element of the array's axis `steps` */
} dataset_variable;

/* One of the model's arrays, and its source. */
struct dataset_array {
    dlr_array to;
    dlr_array_dataset_source from; /* its names and lists are copies */
    DL_ARRAY(dataset_variable) variables;
    int channels;    /* the axis of `to` along which the channels of the variables lie; -1: none */
    int steps;       /* the axis of `to` along which times lie, T; -1: none */
    int64_t history; /* so many times may follow each other along the channels; 1: none do */
    bool is_static;  /* all variables are */
    int order[DL_MAX_RANK], n_order; /* the axes of `to` that the files have, in the order of the
                                        numbers that a device takes */
    int shared[DL_MAX_RANK]; /* for each axis of `to` its number in array_dataset.axes; -1: that of
                                the channels, or not in the files */
    float *mean, *deviation; /* one per selected channel, or one for all; NULL: no normalization */
    int n_scales;            /* the number of these */
    dlr_element numbers;     /* the type of the numbers that a device takes */
    dataset_store store;
};

/* An axis by name, shared by all arrays that have it (except C). */
typedef struct {
    const char *name;
    int64_t size, extent, step; /* the model's size; the size in the files; the step */
    int64_t low, high;          /* the range in the files that samples come from */
    dlr_array_dataset_crop crop;
    bool flips, shifts;
} dataset_axis;

/* A run: samples first .. first + n - 1 have the indices begin .. of N. */
typedef struct {
    int64_t first, begin, n;
} dataset_run;

/* A rotation: axis `a` of the result shows source[a], reversed where flip[a]. */
typedef struct {
    signed char source[3], flip[3];
} dataset_rotation;

/* The random draws of a sample. */
enum { DATASET_MAX_AXES = DLR_MAX_ARRAYS * DL_MAX_RANK };
typedef struct {
    int64_t corner[DATASET_MAX_AXES]; /* by shared axis */
    bool flip[DATASET_MAX_AXES];
    dataset_rotation rotation;
} dataset_drawn;

typedef struct {
    dl_arena *arena;
    const dlr_array_dataset_options *o; /* valid while it is being opened */
    dataset_array at[DLR_MAX_ARRAYS];
    int n;
    bool mapped;
    bool warns; /* print warnings about attributes without effect */
    DL_ARRAY(dataset_axis) axes;
    DL_ARRAY(dataset_run) runs;
    int64_t available; /* number of samples in the files */
    int32_t *group;    /* of each index of N, 0 .. n_groups - 1; NULL: no groups */
    int64_t n_groups;
    int rotated[3], n_rotated;
    dlr_store store;
    DL_ARRAY(dataset_rotation) rotations;
} array_dataset;

/* dataset_part.c: files, axes and samples of one part of the split of d, in w->arena; closed by
 * dataset_close. */
bool dataset_open_part(array_dataset *w, const dlr_dataset *d, const dlr_array_dataset_options *o,
                       dlr_split part, dl_error *err);
void dataset_close(array_dataset *w);

/* dataset_groups.c: reads w->group for `total` indices of N, numbered by rising value. */
bool dataset_read_groups(array_dataset *w, int64_t total, dl_error *err);

/* dataset_files.c: the paths that a list of paths and patterns names, in the order of names; `key`
 * begins messages. */
typedef DL_ARRAY(const char *) dataset_paths;
bool dataset_find_paths(array_dataset *w, const char *key, const dlr_array_dataset_names *words,
                        dataset_paths *out, dl_error *err);
/* dataset_files.c: finds the files of all arrays in one part of the split, in order, and opens
 * their arrays. */
bool dataset_open_files(array_dataset *w, dlr_split part, dl_error *err);
/* dataset_read.c: an error about a number of a file. It lies `at` elements into block b, and is
 * `value` after unpacking. The message has the stored number, the reason, and a remedy. */
bool dataset_refuse_value(const dataset_variable *v, const dataset_file *f, const dlr_block *b,
                          int64_t at, double value, dl_error *err);
/* The file that contains index i of N, of a variable that is not static. */
const dataset_file *dataset_find_file(const dataset_variable *v, int64_t i);
/* An error about a variable in a file (NULL: the first): "data.inputs.x: FILE: 'ARRAY' is [10, 3,
 * 5]; ...". */
bool dataset_fail(const dataset_variable *v, const dataset_file *f, dl_error *err,
                  const char *format, ...) DL_PRINTF(4, 5);

/* dataset_times.c: for trajectories, sets the offset of a target, and copies the variables of an
 * array for each of its times. Then, when all indices are counted, numbers w->group by simulation.
 */
bool dataset_spread_times(array_dataset *w, dataset_array *a, dl_error *err);
void dataset_copy_variables(array_dataset *w, dataset_array *a, int64_t times);
bool dataset_number_simulations(array_dataset *w, int64_t total, dl_error *err);
/* dataset_match.c: matches the axes of an array's variables with the model's. */
bool dataset_match_axes(array_dataset *w, dataset_array *a, dl_error *err);
/* dataset_axes.c: the axes that arrays share, with crops, steps and augmentation. */
bool dataset_share_axes(array_dataset *w, dl_error *err);

/* dataset_split.c: counts the samples. */
bool dataset_count_samples(array_dataset *w, const dlr_dataset *d, dlr_split part, dl_error *err);
/* The index of N of a sample 0 .. available - 1. */
int64_t dataset_index(const array_dataset *w, int64_t sample);

/* dataset_sample.c: a sample of one array, at index `index` of N, augmented as drawn, in the
 * model's axis order; or its raw numbers for a device, and where its elements lie among them. */
bool dataset_make_sample(const array_dataset *w, const dataset_array *a, int64_t index,
                         const dataset_drawn *how, void *out, void *scratch, dl_error *err);
bool dataset_take_numbers(const array_dataset *w, const dataset_array *a, int64_t index,
                          const dataset_drawn *how, void *out, void *scratch, dlr_layout_map *where,
                          dl_error *err);

/* The same raw numbers of one window, packed. */
bool dataset_read_window(const array_dataset *w, const dataset_array *a, int64_t index,
                         const dataset_window *window, void *out, void *scratch, dl_error *err);
/* The destination of axis m of the files' block: the axis of the sample, and whether it is
 * reversed. The rotation comes first, then the flips of its result. */
typedef struct {
    int axis;
    bool back;
} dataset_moved;
dataset_moved dataset_move(const array_dataset *w, const dataset_array *a, const dataset_drawn *how,
                           int m);

/* dataset_store.c: lays out a device-resident data set; reads piece i of it; locates a sample's
 * elements in it. */
void dataset_lay_out(array_dataset *w);
bool dataset_read_piece(const array_dataset *w, int64_t i, void *out, void *scratch, int64_t *at,
                        int64_t *bytes, dl_error *err);
void dataset_locate(const array_dataset *w, const dataset_array *a, int64_t index,
                    const dataset_drawn *how, dlr_layout_map *where);

/* The element type of a model's type; DLR_EL_NONE: files are not read as that type. */
dlr_element dataset_element_of(dl_dtype d);
/* dataset_read.c: reads a block of a file, packed; `channel`: its first channel among the array's
 * selected ones. dataset_read: in the model's type, floats normalized and checked to be finite.
 * dataset_read_numbers: in the array's type `numbers`, for a device that normalizes them and
 * replaces those that are not finite. Where nothing replaces them, they are checked to be finite.
 */
typedef bool dataset_reader(const dataset_variable *v, const dataset_file *f, const dlr_block *b,
                            int64_t channel, void *out, dl_error *err);
dataset_reader dataset_read, dataset_read_numbers;
/* The type `numbers` of an array: the files' type, if the device converts it, it is no wider than
 * f32, and nothing of it is packed; otherwise the model's. */
dlr_element dataset_numbers_of(const dataset_array *a);

/* dataset_statistics.c: mean and deviation of an array whose scale needs them, given or of the
 * training part (stored in a file next to the data). */
bool dataset_open_scale(array_dataset *w, int k, const dlr_dataset *d,
                        const dlr_array_dataset_options *o, dl_error *err);
#endif
