/* Private to own*.c: the state of an array dataset's loader. */
#ifndef DLR_OWN_PRIVATE_H
#define DLR_OWN_PRIVATE_H
#include "runtime/data/array_file.h"
#include "runtime/data/loader.h"
#include "runtime/data/own.h"
#include "runtime/data/packing.h"

/* Values of `axis` for an axis of the files that is none of the model's axes. */
enum { OWN_SAMPLES = -1, OWN_LEFT_OUT = -2 };

typedef struct {
    dlr_source *source;
    const dlr_packing *packing;
    const char *path;
    int64_t dims[DL_MAX_RANK], first, n; /* indices of N: the first, and their number */
} own_file;

/* The layout of an array in a device-resident data set (own_store.c): `each` numbers per index of
 * N, in pieces. */
typedef struct {
    int of; /* the array that has these numbers: this one or an earlier one with the same numbers */
    int64_t low, n; /* the first index of N, and their number */
    int64_t each, start[DL_MAX_RANK], count[DL_MAX_RANK],
        stride[DL_MAX_RANK]; /* by axis of the files */
    int cut;                 /* the axis whose rows are distributed over pieces */
    int64_t rows, pieces;    /* rows of a piece; pieces of an index */
    int64_t at, first;       /* offset in bytes and number of its first piece */
} own_store;

/* A window to read at one index of N: start and count for each axis of the files; C counts among
 * the selected channels. */
typedef struct {
    int64_t start[DL_MAX_RANK], count[DL_MAX_RANK];
} own_window;

/* One of the model's arrays, and its source. */
typedef struct {
    dlr_array to;
    dlr_own_source from; /* its names and lists are copies */
    DL_ARRAY(own_file) files;
    int rank, axis[DL_MAX_RANK]; /* rank in the files; of each of their axes the axis of `to`, or
                                    one of the above */
    int channel;                 /* the axis of C in the files; -1: none */
    bool has_samples;            /* the files have an axis N */
    bool is_static;              /* the same for all samples */
    int64_t total;               /* number of indices of N, or of files; static: 1 */
    int shared[DL_MAX_RANK]; /* for each axis of `to` its number in own.axes; -1: C, or not in the
                                files */
    float *mean, *deviation; /* one per selected channel, or one for all; NULL: no normalization */
    int n_scales;            /* the number of these */
    dlr_element numbers;     /* the type of the numbers that a device takes */
    own_store store;
} own_array;

/* An axis by name, shared by all arrays that have it (except C). */
typedef struct {
    const char *name;
    int64_t size, extent, step; /* the model's size; the size in the files; the step */
    int64_t low, high;          /* the range in the files that samples come from */
    dlr_own_crop crop;
    bool flips, shifts;
} own_axis;

/* A run: samples first .. first + n - 1 have the indices begin .. of N. */
typedef struct {
    int64_t first, begin, n;
} own_run;

/* A rotation: axis `a` of the result shows source[a], reversed where flip[a]. */
typedef struct {
    signed char source[3], flip[3];
} own_turn;

/* The random draws of a sample. */
enum { OWN_MAX_AXES = DLR_MAX_ARRAYS * DL_MAX_RANK };
typedef struct {
    int64_t corner[OWN_MAX_AXES]; /* by shared axis */
    bool flip[OWN_MAX_AXES];
    own_turn turn;
} own_drawn;

typedef struct {
    dl_arena *arena;
    const dlr_own_options *o; /* valid while it is being opened */
    own_array at[DLR_MAX_ARRAYS];
    int n;
    bool mapped;
    bool warns; /* print warnings about attributes without effect */
    DL_ARRAY(own_axis) axes;
    DL_ARRAY(own_run) runs;
    int64_t available; /* number of samples in the files */
    int turned[3], n_turned;
    dlr_store store;
    DL_ARRAY(own_turn) turns;
} own;

/* own_part.c: files, axes and samples of one part of the split of d, in w->arena; closed by
 * own_close. */
bool own_open_part(own *w, const dlr_dataset *d, const dlr_own_options *o, dlr_split part,
                   dl_error *err);
void own_close(own *w);

/* own_files.c: finds the files of all arrays in one part of the split, in order, and opens their
 * arrays. */
bool own_open_files(own *w, dlr_split part, dl_error *err);
/* own_read.c: an error about a number of a file. It lies `at` elements into block b, and is `value`
 * after unpacking. The message has the stored number, the reason, and a remedy. */
bool own_refuse_value(const own_array *a, const own_file *f, const dlr_block *b, int64_t at,
                      double value, dl_error *err);
/* The file that contains index i of N, of an array that is not static. */
const own_file *own_find_file(const own_array *a, int64_t i);
/* An error about an array in a file (NULL: the first): "data.inputs.x: FILE: 'ARRAY' is [10, 3, 5];
 * ...". */
bool own_fail(const own_array *a, const own_file *f, dl_error *err, const char *format, ...)
    DL_PRINTF(4, 5);

/* own_axes.c: matches an array's axes; the axes that arrays share, with crops, steps and
 * augmentation. */
bool own_match_axes(own_array *a, dl_error *err);
bool own_share_axes(own *w, dl_error *err);

/* own_split.c: counts the samples. */
bool own_count_samples(own *w, dlr_split part, dl_error *err);
/* The index of N of a sample 0 .. available - 1. */
int64_t own_index(const own *w, int64_t sample);

/* own_sample.c: a sample of one array, at index `index` of N, augmented as drawn, in the model's
 * axis order; or its raw numbers for a device, and where its elements lie among them. */
bool own_make_sample(const own *w, const own_array *a, int64_t index, const own_drawn *how,
                     void *out, void *scratch, dl_error *err);
bool own_take_numbers(const own *w, const own_array *a, int64_t index, const own_drawn *how,
                      void *out, void *scratch, dlr_placing *where, dl_error *err);

/* The same raw numbers of one window, packed. */
bool own_read_window(const own *w, const own_array *a, int64_t index, const own_window *window,
                     void *out, void *scratch, dl_error *err);
/* The destination of axis m of the files' block: the axis of the sample, and whether it is
 * reversed. The rotation comes first, then the flips of its result. */
typedef struct {
    int axis;
    bool back;
} own_moved;
own_moved own_move(const own *w, const own_array *a, const own_drawn *how, int m);

/* own_store.c: lays out a device-resident data set; reads piece i of it; locates a sample's
 * elements in it. */
void own_lay_out(own *w);
bool own_read_piece(const own *w, int64_t i, void *out, void *scratch, int64_t *at, int64_t *bytes,
                    dl_error *err);
void own_locate(const own *w, const own_array *a, int64_t index, const own_drawn *how,
                dlr_placing *where);

/* The element type of a model's type; DLR_EL_NONE: files are not read as that type. */
dlr_element own_element_of(dl_dtype d);
/* own_read.c: reads a block of a file, packed; `channel`: its first index of C among the selected
 * ones. own_read: in the model's type, floats normalized and checked to be finite.
 * own_read_numbers: in the array's type `numbers`, for a device that normalizes them and replaces
 * those that are not finite. Where nothing replaces them, they are checked to be finite. */
typedef bool own_reader(const own_array *a, const own_file *f, const dlr_block *b, int64_t channel,
                        void *out, dl_error *err);
own_reader own_read, own_read_numbers;
/* The type `numbers` of an array: the files' type, if the device converts it, it is no wider than
 * f32, and nothing of it is packed; otherwise the model's. */
dlr_element own_numbers_of(const own_array *a);

/* own_statistics.c: mean and deviation of an array whose scale needs them, given or of the training
 * part (stored in a file next to the data). */
bool own_open_scale(own *w, int k, const dlr_dataset *d, const dlr_own_options *o, dl_error *err);
#endif
