/* Shared by the files of `dlrun predict`. */
#ifndef DLC_PREDICT_JOB_H
#define DLC_PREDICT_JOB_H
#include "compiler/session.h"
#include "ir/base/console.h"
#include "runtime/data/dataset.h"
#include "runtime/formats/hdf5_write.h"
#include "runtime/predict/field.h"
#include "runtime/predict/score.h"
#include "runtime/setup/device_choice.h"
#include "runtime/setup/saved_model.h"

/* How a sample larger than the model's input is predicted (--tiles). */
typedef enum {
    DL_TILES_AUTO,  /* the first of the next three that can be had; of weather files, crop */
    DL_TILES_WHOLE, /* at once, by a plan of its size */
    DL_TILES_EXACT, /* in pieces without what sees beyond their edges: the same numbers */
    DL_TILES_BLEND, /* in pieces that overlap by half, weighted */
    DL_TILES_CROP, /* only the part of the model's size at the origin, as the weather loader does */
    DL_N_TILES
} dl_tiles_mode;
extern const char *const dl_tiles_modes[DL_N_TILES];

/* An array of one axis next to the input, which goes along with its prediction. */
typedef struct {
    const dlr_array_facts *of;
    int64_t n;
    const double *at;
} dl_coordinate;

typedef struct {
    const char *name, *spec; /* FILE or FILE:ARRAY */
} dl_named_file;

/* An input of the model, and the arrays that it is given. */
typedef struct {
    const char *name;
    dl_type type;                  /* at the model's own size: [1, channels, spatial...] */
    bool whole;                    /* has none of the leading input's spatial axes */
    const dl_array_record *record; /* how the run read its data, or NULL */
    dlr_scale scale;               /* by the record's statistics */
    dlr_field *data;               /* as many as the job has files */
} dl_predict_input_data;

/* The model's own loss and metrics over the samples (--metrics), where every target has data. */
typedef struct {
    const char *name; /* "loss", ... */
    double sum;
} dl_model_metric;
typedef struct {
    DL_ARRAY(dl_model_metric) metrics; /* the loss first; none: they are not computed, because */
    const char *why;
    int64_t samples;
} dl_model_metrics;
typedef struct {
    dl_arena *arena;
    const dl_console *console; /* where text goes */
    dl_saved_model net;        /* the session of which is gone once there is a plan */
    dl_predict_input_data input[DLR_MAX_INPUTS]; /* the first leads: it has most spatial axes */
    int n_inputs;
    /* an input with some of the leading one's spatial axes, so that samples have the model's own
     * size; NULL: none */
    const dl_predict_input_data *fixed;
    bool flat; /* statistics differ along an axis other than the first: no axis is spatial */
    int space; /* the leading input's last so many axes are spatial: 0 to 3 */
    const char *plan_file; /* of a plan that has the programs, which is: */
    dl_plan *given;        /* NULL: they are compiled */
    dl_plan *plan;
    bool plan_cached;
    dl_device_choice device;
    dlr_exec *exec;
    /* the data */
    int n;         /* files of each input */
    bool unpacks;  /* the run's loader takes NetCDF's packed numbers for what they stand for */
    bool pictures; /* the run's loader reads these, scaled by: */
    dlr_scaling scaling;
    bool crops; /* the run's loader takes the part at the origin of what is larger */
    const dl_array_record *paired[DLR_MAX_OUTPUTS]; /* the target of each output, or NULL */
    dlr_scale out[DLR_MAX_OUTPUTS];                 /* what each output is undone by */
    DL_ARRAY(dl_named_file) others;                 /* files of inputs that only the loss reads */
    dlr_field target;
    dl_array_record truth;   /* how the run read its targets */
    bool evaluates;          /* the plan has the program "eval", and it is asked for */
    bool tests;              /* the model's own loss and metrics alone: nothing is written */
    const char *truths;      /* as --target, of the data's names; NULL: what that option says */
    bool measured;           /* --metrics: the model's own, and: */
    bool scored, has_target; /* target is open; else the truth is in the data, dt steps later */
    dl_error not_scored;     /* why --metrics has no errors by channel */
    DL_ARRAY(dl_coordinate) coordinates;
    int64_t earliest;    /* the least offset of the inputs' data, whose first index is sample 0 */
    int64_t first, last; /* samples of each file: first .. last - 1 */
    int64_t steps;       /* of a rollout; 1 without */
    int64_t dt;          /* a step in samples of the data; 0: inputs and targets are others */
    bool rolls;
    int fed;         /* the input that the first output is the next state of, by its shape; -1: none
                        is */
    bool feeds_back; /* a rollout: the input has the statistics of the output */
    /* the way */
    int64_t batch;    /* samples that the run, or a word, has in a batch */
    bool batch_fixed; /* the model states it */
    dl_tiles_mode mode;
    bool own_size;   /* samples have the model's own size */
    const char *way; /* in words */
    dlr_predict engine;
    /* what came of it */
    dlr_score score;
    dl_model_metrics metrics;
    struct dl_evaluation *evaluation; /* of these; NULL: none */
    int64_t predicted, not_finite;
    double seconds;
} dl_predict_job;

/* The model's inputs, into job->input and space, with their scales. Errors (DL_INPUT): none, too
 * many, one that is no array of floats [N, channels, ...], or one that has but some of the leading
 * input's spatial axes. */
bool dl_predict_input(dl_predict_job *job, dl_error *err);
/* The samples of file number `file` of each input; *in_order: it has an axis of them. */
int64_t dl_predict_samples(const dl_predict_job *job, int file, bool *in_order);
/* How many samples of a file are predicted. */
int64_t dl_predict_count(const dl_predict_job *job, int file);
/* Takes the batch of the session, as it was opened, and makes the session's graph the one of a
 * single sample, where the model does not fix its batch. Errors (DL_INPUT): the model is none
 * for a single sample; it fixes its batch, and relates samples. */
bool dl_predict_open_batch(dl_predict_job *job, dl_error *err);
/* How many samples of the model's own size the program is to take at once, once the data are
 * open: the batch, halved until there are as many samples, or the one of a plan that is given.
 * *why: it is 1 for this reason; NULL: there is none to tell. */
int64_t dl_predict_batch(const dl_predict_job *job, const char **why);
/* Takes from the run's record the statistics of each input, dt, and whether files are
 * cropped; after dl_predict_input. Errors (DL_INPUT): a loader whose work is not done here;
 * statistics of other channels. */
bool dl_predict_scales(dl_predict_job *job, dl_error *err);
/* Finds the target of each output (job->paired); before dl_predict_input. Errors: as of
 * dl_data_record_pair; DL_INPUT for outputs of too many axes. */
bool dl_predict_pair(dl_predict_job *job, dl_error *err);
/* Finds the scale by which each of the engine's outputs is undone. Errors: as of dlr_scale_of. */
bool dl_predict_undo(dl_predict_job *job, dl_error *err);
/* For a test: takes the words NAME=FILE[:ARRAY] of targets for --target; one FILE alone has the
 * arrays by the names that the run's record has of them. Errors (DL_USAGE): the record has none of
 * an input or target. */
bool dl_predict_name_data(dl_predict_job *job, dl_error *err);
/* Opens the files of the command line as the inputs' data, and counts them. Errors: DL_USAGE (an
 * input without a file), DL_INPUT (arrays that do not fit each other); those of dlr_field_open. */
bool dl_predict_open_data(dl_predict_job *job, dl_error *err);
/* Where --target says that the data of this target are: "t=FILE:A,u=FILE:B", or FILE:A for the only
 * one; NULL: nowhere. In the arena. */
const char *dl_predict_target_spec(const dl_predict_job *job, const char *name, int n_targets);
/* Opens the truth, where --metrics asks for it; once there is a plan. Errors: as above. */
bool dl_predict_open_target(dl_predict_job *job, dl_error *err);
/* Chooses how samples of this size are predicted, compiles the plan for it and fills the engine but
 * for the executor; session and module are used up. Errors: sizes that the model cannot have; those
 * of compiling. */
bool dl_predict_plan(dl_predict_job *job, const dlr_extent *sample, dl_error *err);
/* Reads job->coordinates, once there is a plan; before threads are started, since it may fork. */
bool dl_predict_coordinates(dl_predict_job *job, dl_error *err);
/* The set of the output file for one, with its attributes. */
dlr_h5_set dl_predict_coordinate_set(const dl_predict_job *job, const dl_coordinate *c);
/* Gives the first output the attributes of the input that it is the next state of, where it is. */
void dl_predict_describe_state(const dl_predict_job *job, dlr_h5_set *output);
/* The size of a whole sample of an input, after dl_predict_plan. */
dlr_extent dl_predict_whole_input(const dl_predict_job *job, int input);
/* Engine's outputs, once the executor is there. */
bool dl_predict_outputs(dl_predict_job *job, dl_error *err);
/* Opens an array that is compared with, by the run's record of such data (or NULL): `type` with its
 * last `space` axes of any size, less `scale` (or NULL). Its first sample is the one of the
 * inputs'. Errors: those of dlr_field_open. */
bool dl_predict_open_array(const dl_predict_job *job, dlr_field *f, const char *spec,
                           const char *what, const dl_type *type, int space,
                           const dl_array_record *record, const dlr_scale *scale, dl_error *err);
/* Opens the data of the targets for the model's own loss and metrics, by the plan's program "eval".
 * job->metrics.why is set where they are not computed. Errors: those of files; there is nothing
 * that
 * --metrics could say. */
bool dl_predict_open_metrics(dl_predict_job *job, dl_error *err);
/* Computes them, after the predictions. Errors: those of reading and memory. */
bool dl_predict_metrics(dl_predict_job *job, dl_error *err);
void dl_predict_close_metrics(dl_predict_job *job);
/* Predicts every sample into the file. Errors: those of reading, writing and memory. */
bool dl_predict_all(dl_predict_job *job, const char *path, dl_error *err);
#endif
