/* What the files of the loader of data of one's own share. */
#ifndef DLR_OWN_PRIVATE_H
#define DLR_OWN_PRIVATE_H
#include "runtime/data/array_file.h"
#include "runtime/data/loader.h"
#include "runtime/data/own.h"
#include "runtime/data/packing.h"

/* What an axis of an array in the files is, where it is no axis of the model's. */
enum { OWN_SAMPLES = -1, OWN_LEFT_OUT = -2 };

typedef struct {
    dlr_source *source;
    const dlr_packing *packing;
    const char *path;
    int64_t dims[DL_MAX_RANK], first, n; /* indices of N: the first, and how many */
} own_file;

/* What a device may hold of an array (own_store.c): `each` numbers of an index of N, in pieces. */
typedef struct {
    int of;         /* the array whose numbers these are, this one or one before it */
    int64_t low, n; /* indices of N */
    int64_t each, start[DL_MAX_RANK], count[DL_MAX_RANK],
        stride[DL_MAX_RANK]; /* of the files' axes */
    int cut;                 /* the axis of which a piece is some rows */
    int64_t rows, pieces;    /* of an index */
    int64_t at, first;       /* its bytes and pieces begin here */
} own_store;

/* A part of what is read of one index: of each axis of the files; of C among the channels that are
 * taken. */
typedef struct {
    int64_t start[DL_MAX_RANK], count[DL_MAX_RANK];
} own_window;

/* One array of the model's, and where it comes from. */
typedef struct {
    dlr_array to;
    dlr_own_source from; /* its names and lists are copies */
    DL_ARRAY(own_file) files;
    int rank, axis[DL_MAX_RANK]; /* of the files; axis of `to`, or one of the above */
    int channel;                 /* which of them is C; -1: none */
    bool has_samples;            /* an axis N */
    bool is_static;              /* the same for all samples */
    int64_t total;               /* indices of N, or files; static: 1 */
    int shared[DL_MAX_RANK]; /* own.axes' number of each axis of `to`; -1: C, or not in the files */
    float *mean, *deviation; /* of each channel that is taken, or of all; NULL: as it is */
    int n_scales;            /* how many of these */
    dlr_element numbers;     /* in which type a device takes them */
    own_store store;
} own_array;

/* An axis by name, for all arrays that have it (but C). */
typedef struct {
    const char *name;
    int64_t size, extent, step; /* the model's; in the files */
    int64_t low, high;          /* the part of the files that samples come from */
    dlr_own_crop crop;
    bool flips, shifts;
} own_axis;

/* Samples first .. first + n - 1 have the indices begin .. of N. */
typedef struct {
    int64_t first, begin, n;
} own_run;

/* A turn: place `a` of the turned axes shows source[a], backwards where flip[a]. */
typedef struct {
    signed char source[3], flip[3];
} own_turn;

/* What is drawn for a sample. */
enum { OWN_MAX_AXES = DLR_MAX_ARRAYS * DL_MAX_RANK };
typedef struct {
    int64_t corner[OWN_MAX_AXES]; /* of each axis that arrays share */
    bool flip[OWN_MAX_AXES];
    own_turn turn;
} own_drawn;

typedef struct {
    dl_arena *arena;
    const dlr_own_options *o; /* while it is being opened */
    own_array at[DLR_MAX_ARRAYS];
    int n;
    bool mapped;
    bool warns; /* of attributes that have no effect */
    DL_ARRAY(own_axis) axes;
    DL_ARRAY(own_run) runs;
    int64_t available; /* samples that the files hold */
    int turned[3], n_turned;
    dlr_store store;
    DL_ARRAY(own_turn) turns;
} own;

/* own_part.c: files, axes and samples of one part of the split of d, in w->arena; closed by
 * own_close. */
bool own_open_part(own *w, const dlr_dataset *d, const dlr_own_options *o, dlr_split part,
                   dl_error *err);
void own_close(own *w);

/* own_files.c: the files of all arrays in one part of the split, in order, and their arrays opened.
 */
bool own_open_files(own *w, dlr_split part, dl_error *err);
/* An error about a number of the block b of a file, `at` places into it, which is `value` as the
 * model would take it: what it is in the file, why it cannot be taken, and the remedy. (own_read.c)
 */
bool own_refuse_value(const own_array *a, const own_file *f, const dlr_block *b, int64_t at,
                      double value, dl_error *err);
/* The file that has index i of N, of an array that is not static. */
const own_file *own_find_file(const own_array *a, int64_t i);
/* An error about an array in a file (NULL: the first): "data.inputs.x: FILE: 'ARRAY' is [10, 3, 5];
 * ...". */
bool own_fail(const own_array *a, const own_file *f, dl_error *err, const char *format, ...)
    DL_PRINTF(4, 5);

/* own_axes.c: what each axis of an array is; the axes that arrays share, their crops, steps and
 * moves. */
bool own_match_axes(own_array *a, dl_error *err);
bool own_share_axes(own *w, dl_error *err);

/* own_split.c: which samples there are. */
bool own_count_samples(own *w, dlr_split part, dl_error *err);
/* The index of N that a sample of 0 .. available - 1 has. */
int64_t own_index(const own *w, int64_t sample);

/* own_sample.c: a sample of one array, of index `index` of N, moved as was drawn, in the model's
 * order of axes; or its numbers as a device takes them, and where its elements lie among these. */
bool own_make_sample(const own *w, const own_array *a, int64_t index, const own_drawn *how,
                     void *out, void *scratch, dl_error *err);
bool own_take_numbers(const own *w, const own_array *a, int64_t index, const own_drawn *how,
                      void *out, void *scratch, dlr_placing *where, dl_error *err);

/* The same numbers of one window, packed. */
bool own_read_window(const own *w, const own_array *a, int64_t index, const own_window *window,
                     void *out, void *scratch, dl_error *err);
/* Where axis m of the files' block goes: to which axis of the sample, and whether backwards. First
 * the turn, then the flips of what it shows. */
typedef struct {
    int axis;
    bool back;
} own_moved;
own_moved own_move(const own *w, const own_array *a, const own_drawn *how, int m);

/* own_store.c: what a device may hold, laid out; piece i of it; where a sample's elements lie in
 * it. */
void own_lay_out(own *w);
bool own_read_piece(const own *w, int64_t i, void *out, void *scratch, int64_t *at, int64_t *bytes,
                    dl_error *err);
void own_locate(const own *w, const own_array *a, int64_t index, const own_drawn *how,
                dlr_placing *where);

/* The elements that a model's type is; DLR_EL_NONE: none that files are read as. */
dlr_element own_element_of(dl_dtype d);
/* own_read.c: a block of a file, packed; `channel`: its first one of C among those that are taken.
 * own_read: in the type of the model's, floats normalised and held to be finite. own_read_numbers:
 * in the array's type `numbers`, for a device that normalises them and replaces what is not finite;
 * where nothing replaces it, they are held to be finite. */
typedef bool own_reader(const own_array *a, const own_file *f, const dlr_block *b, int64_t channel,
                        void *out, dl_error *err);
own_reader own_read, own_read_numbers;
/* That type: the files', where they have one that the device converts, no wider than f32, and
 * nothing of it is packed; else the model's. */
dlr_element own_numbers_of(const own_array *a);

/* own_statistics.c: mean and deviation of an array whose scale asks for them, given or of the
 * training part (kept in a file beside the data). */
bool own_open_scale(own *w, int k, const dlr_dataset *d, const dlr_own_options *o, dl_error *err);
#endif
