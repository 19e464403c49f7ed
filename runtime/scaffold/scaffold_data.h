/* The arrays of a file as samples of an input and a target, guessed from shapes, types and names.
 */
#ifndef DL_SCAFFOLD_DATA_H
#define DL_SCAFFOLD_DATA_H
#include "ir/base/arena.h"
#include "runtime/data/array_file.h"

typedef enum {
    DL_TASK_REGRESSION,     /* numbers, or fields, from numbers or fields */
    DL_TASK_SEGMENTATION,   /* a class for each point of a field */
    DL_TASK_CLASSIFICATION, /* a class for each sample */
    DL_TASK_FORECAST,       /* the next sample */
    DL_TASK_AUTOENCODER,    /* the sample itself, through a narrow layer */
    DL_NTASKS
} dl_task;
extern const char *const dl_task_names[DL_NTASKS];

enum { DL_SCAFFOLD_SPATIAL = 3 };

/* An array with samples along its first axis. */
typedef struct {
    const dlr_array_facts *array;
    int spatial;                       /* axes of space: 0 to DL_SCAFFOLD_SPATIAL */
    int64_t size[DL_SCAFFOLD_SPATIAL]; /* along them */
    int64_t channels;                  /* 1 where the array has no such axis */
    bool channels_last, has_channels;
    /* of a table: its columns, which are the channels; `array` is the first */
    const dlr_array_facts *const *columns;
    int n_columns; /* 0: not of a table */
} dl_scaffold_array;

typedef struct {
    dl_task task;
    const char *path; /* of the file, as it was given */
    int64_t samples;
    dl_scaffold_array input, target;   /* target: the input's for forecast and autoencoder */
    int64_t classes;                   /* of a target of classes; else 0 */
    const char *train_dir, *valid_dir; /* of pictures, which have no arrays; NULL: arrays */
} dl_scaffold_data;

/* The names of axes of an array with so many of space, after N and C: {"H", "W"}. */
const char *const *dl_scaffold_axes(int spatial);

/* Chooses input, target and task. task: NULL to go by the arrays; input, target: their names,
 * or NULL to choose by name and shape; of a table, whose arrays are columns, all columns but the
 * target go in. Reads all labels. Errors (DL_INPUT, DL_USAGE): no array can
 * be the input or target, shapes do not fit, labels are negative, or the task is in doubt; those of
 * the file. */
bool dl_scaffold_find(dl_arena *arena, const dlr_array_file *file, const char *task,
                      const char *input, const char *target, dl_scaffold_data *out, dl_error *err);

/* ---- scaffold_pictures.c ---- */

/* Whether a directory has a folder `train`, as pictures have. */
bool dl_scaffold_is_pictures(dl_arena *arena, const char *path);
/* The same of a folder of pictures, PATH/train/CLASS/NAME.jpg and PATH/val/CLASS/NAME.jpg, for
 * classification. Errors (DL_INPUT, DL_USAGE): another task; no folder to validate on; fewer than
 * two classes; no pictures. */
bool dl_scaffold_find_pictures(dl_arena *arena, const char *path, const char *task,
                               dl_scaffold_data *out, dl_error *err);
#endif
