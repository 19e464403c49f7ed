/* The record of a run's data in its checkpoints: the names, axes and statistics of the arrays that
 * a model was trained on. Predictions need neither the training data nor their statistics' files.
 */
#ifndef DLC_DATA_RECORD_H
#define DLC_DATA_RECORD_H
#include "compiler/session.h"
#include "ir/graph.h"
#include "runtime/data/dataset.h"
#include "runtime/data/jpeg_folder.h"

/* An array of the files that gives some of an input's or target's channels, or all. */
typedef struct {
    const char *name;        /* NULL: the only one of the file, or not recorded */
    const char *const *axes; /* the model's name of each of its axes, N, or "1" to leave out; none:
                                the model's order */
    int n_axes;
    const int64_t *channels; /* those of the file that are taken, in this order; none: all */
    int n_channels;
    const char *level_axis; /* the file's name of the channels' axis; NULL: axes say it */
    const double *levels;   /* of each channel its coordinate along it */
} dl_variable_record;

/* One of the model's inputs or targets. A value is (number - mean[c]) / deviation[c] of channel c,
 * the first axis of a sample. */
typedef struct {
    const char *name;
    bool is_target, is_float;
    int rank; /* of a sample */
    int64_t size[DL_MAX_RANK];
    const dl_variable_record *variables; /* whose channels follow each other; none: the loader has
                                            no such options */
    int n_variables;
    int times;      /* of the variables that are one sample; more than 1: a history */
    int64_t offset; /* sample i is the arrays' index i + offset */
    const float *mean, *deviation; /* one a channel, or one for all; none: as it is */
    int n_scales;
    bool replaces_nan; /* values that are not finite become `nan`, after normalisation */
    double nan;
} dl_array_record;

typedef struct {
    const char *loader; /* as dl_samples_loader */
    int64_t dt;         /* the target is the input so many samples later; 0: it is another array */
    dl_array_record at[DLR_MAX_ARRAYS]; /* inputs, then targets */
    int n;
    dlr_names classes; /* of pictures in folders: their names, in the order of their numbers */
} dl_data_record;

/* The record of an open training set (not a probe), in the arena, without reading anything; the
 * session's graphs are as the front end built them. */
void dl_data_record_of(dl_arena *arena, const dl_session *s, const dlr_dataset *train,
                       dl_data_record *out);
/* The same of the configuration's training set, which is opened where its statistics are needed.
 * Errors: those of dl_samples_open in addition. */
bool dl_data_record_open(dl_arena *arena, const dl_session *s, dl_data_record *out, dl_error *err);

/* As text, JSON, and back; `name` begins messages. Errors: DL_INPUT for a text that is no record.
 */
const char *dl_data_record_text(dl_arena *arena, const dl_data_record *r);
bool dl_data_record_parse(dl_arena *arena, const char *text, const char *name, dl_data_record *out,
                          dl_error *err);

/* The array of that name; NULL: there is none. */
const dl_array_record *dl_data_record_find(const dl_data_record *r, const char *name);
/* Whether a type has as many channels as the record's statistics; `what` names it in the message.
 * Errors: DL_INPUT. */
bool dl_record_fits(const dl_array_record *r, const dl_type *type, const char *what, dl_error *err);

/* An output of the model at its own size: [N, ...], or of each sample by itself, without N. */
typedef struct {
    const char *name;
    const dl_type *type;
    const char *undo; /* as of dl_result */
} dl_record_output;
/* A graph's result of role OUTPUT as such. */
dl_record_output dl_record_output_of(const dl_result *r);
/* The targets by whose statistics outputs are undone, NULL for those that are not: the target that
 * the model says; else that of the output's name; else, of the targets of floats that have its
 * shape and belong to no output yet, the one, or the one of its place among the outputs that are in
 * the same case. Errors (DL_INPUT): the record has no such target; targets are normalised, and
 * there are more or fewer of a shape than outputs. */
bool dl_data_record_pair(const dl_data_record *r, int n, const dl_record_output *outputs,
                         const dl_array_record **targets, dl_error *err);
/* Whether some target is normalised. */
bool dl_data_record_scales_targets(const dl_data_record *r);
#endif
