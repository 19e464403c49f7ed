/* The arrays of a file that are one input or target of a model, read sample by sample; or pictures,
 * which have the model's size (picture_files.h). Usually it is one array; where a run took the
 * channels from several arrays, they are found by name. The arrays' axes are those of the run's
 * record (dl_array_record), or the model's axes in their order, where axes of size 1 may be
 * missing; the axis N, if any, counts samples. */
#ifndef DLR_FIELD_H
#define DLR_FIELD_H
#include "runtime/data/packing.h"
#include "runtime/data/picture_files.h"
#include "runtime/predict/predict.h"
#include "runtime/predict/scale.h"

/* An axis of a file's array that is none of the model's: samples (of simulations: their times), one
 * of size 1, simulations. */
enum { DLR_FIELD_SAMPLES = -1, DLR_FIELD_LEFT_OUT = -2, DLR_FIELD_SIMULATIONS = -3 };

/* An array that has some of the channels, or all. */
typedef struct {
    const dlr_array_facts *array;
    dlr_source *source;
    int axis[DLR_ARRAY_RANK]; /* of each of the array's axes, the type's, or one of the above */
    int64_t first, n;         /* its channels along the type's axis `channels` */
    const int64_t *picks;     /* those of the array that are taken; NULL: all */
    bool packed; /* its axes are in the model's order, so that blocks need no transposition */
    dlr_packing packing; /* undone first; of one that is not unpacked: no rules */
} dlr_field_part;

typedef struct {
    dlr_picture_files *pictures; /* NULL: arrays of: */
    dlr_array_file *file;
    const char *spec;    /* FILE:ARRAY, or FILE where several arrays are taken */
    const dl_type *type; /* of the model: [N, channels..., spatial...] */
    dlr_field_part *parts;
    int n_parts;
    int channels;           /* the type's axis along which the parts follow each other; -1: none */
    bool in_order;          /* there is an axis of samples */
    int64_t first, samples; /* the index of the first sample, and their number */
    int64_t times;          /* a sample is simulation * times + time; 0: there are no simulations */
    dlr_extent size;        /* of a sample */
    int space;
    dlr_scale scale;               /* which reading takes off */
    const dl_array_record *record; /* replaced values; NULL: none */
} dlr_field;

/* Whether axis m of the type is spatial, and which of the engine's it is then. */
static inline bool dlr_field_is_spatial(const dlr_field *f, int m) {
    return m >= f->type->rank - f->space;
}
static inline int dlr_field_engine_axis(const dlr_field *f, int m) {
    return DLR_SPACE - (f->type->rank - m);
}

/* The required shape of a sample: `rank` axes without N, of which the last `space` may have any
 * size. */
typedef struct {
    const char *what;    /* "the model's input 'x'" */
    const dl_type *type; /* with N in front */
    int space;
    const dl_array_record *record; /* how the run read such arrays; NULL: in the model's order */
    dlr_scale scale;
    bool unpacks; /* packed numbers of NetCDF stand for others, as the loader of data of one's own
                     has it */
    const dlr_scaling *pictures; /* of a run on pictures: how they are scaled; NULL: arrays */
    /* names of arrays that are preferred where several fit; ends with NULL */
    const char *const *usual;
} dlr_field_want;

/* `spec` is FILE or FILE:ARRAY; without ARRAY it is the one that fits. A file whose name has a
 * colon needs another colon after it. Pictures: FILE or FOLDER. Errors: those of array_file.h and
 * picture_files.h; DL_INPUT: no array fits, or
 * several do, with a list of the file's arrays. */
bool dlr_field_open(dlr_field *f, dl_arena *arena, const char *spec, const dlr_field_want *want,
                    dl_error *err);
void dlr_field_close(dlr_field *f);              /* zeroed is fine */
const char *dlr_field_label(const dlr_field *f); /* "path: 'Nbody'", for messages */
/* The numbers that hold every value of a model's type: DL_F64 for whole numbers, else DL_F32. */
dl_dtype dlr_field_numbers(const dl_type *type);
/* A block of a sample, packed [channels, count...], as numbers of type `to`, DL_F32 or, for whole
 * numbers, DL_F64; floats less their mean and divided by their deviation. For many threads. Errors:
 * dlr_source_read's; DL_INPUT for a number that is not finite, or, where the model wants whole
 * ones, none of these or beyond what `to` holds, with its place. */
bool dlr_field_read(const dlr_field *f, int64_t sample, const int64_t start[DLR_SPACE],
                    const int64_t count[DLR_SPACE], dl_dtype to, void *out, dl_error *err);
#endif
