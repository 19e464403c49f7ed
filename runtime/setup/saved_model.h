/* A trained network that a path names: its weights, the model's text and settings, and the record
 * of its data. Prediction, export and the library open networks by it.
 *
 *    dl_saved_model t = {0};
 *    ok = dl_saved_model_find(&t, &options, &err) && dl_saved_model_open(&t, &err) && ...;
 *    dl_saved_model_close(&t);
 *
 * A checkpoint contains all of these, so the model's file and the data need not exist any more. A
 * file of weights contains tensors alone; the caller names model and configuration. */
#ifndef DLC_SAVED_MODEL_H
#define DLC_SAVED_MODEL_H
#include "compiler/session.h"
#include "ir/base/console.h"
#include "runtime/exec/exec.h"
#include "runtime/formats/checkpoint.h"
#include "runtime/formats/weights.h"
#include "runtime/setup/data_record.h"

typedef struct {
    dl_arena *arena;
    const char *path;         /* a run's directory, a checkpoint, or a file of weights */
    const char *which;        /* of a run: "best" or "last"; NULL: best, where there is one */
    const dl_plan *plan;      /* has model and configuration, where the path has none; NULL: */
    const char *plan_path;    /* its file */
    const dl_option *options; /* that the words may have in addition to keys; NULL: none */
    int n_words;              /* settings of a command line, without a program's name */
    char *const *words;
    int ranks;       /* that run it, each with samples of its own; 0 as 1 */
    bool as_trained; /* the run's batch size holds; else 1 unless the words say another */
    /* Finds the record of data that the checkpoint does not have, or that the words replace:
     * dl_data_record_open, or NULL: that is refused. (So that a library which never reads data is
     * free of their formats.) */
    bool (*open_data)(dl_arena *arena, const dl_session *s, dl_data_record *out, dl_error *err);
    const dl_console *console; /* for warnings and diagnostics */
} dl_saved_model_options;

typedef struct {
    dl_saved_model_options o;
    dlr_checkpoint *checkpoint; /* NULL: */
    const char *weights;        /* a file of weights */
    dl_config *config;
    int n_warnings; /* of the configuration, as far as the words cause them: those of the run's own
                       settings were told in training; -1: all are told */
    dl_arena *compiler; /* of the session */
    dl_session *session;
    const char *model_path; /* for messages */
    dl_data_record data;
} dl_saved_model;

/* Opens checkpoint and configuration. Errors: DL_USAGE; DL_INPUT for a path that is no run; those
 * of dlr_checkpoint_open (a damaged checkpoint is not replaced by an older one) and
 * dl_config_open. */
bool dl_saved_model_find(dl_saved_model *t, const dl_saved_model_options *o, dl_error *err);
/* Opens the session, whose graphs are as the front end built them, and the record of the data.
 * Where a setting gives other data, theirs is the record. Errors: those of dl_session_open and
 * dl_data_record_open. */
bool dl_saved_model_open(dl_saved_model *t, dl_error *err);
/* Frees the session, once there is a plan in o.arena: not a byte of the compiler's stays. */
void dl_saved_model_close_session(dl_saved_model *t);
/* Loads the weights into an executor's plan of this model. Errors: those of dlr_tensors_load. */
bool dl_saved_model_load(const dl_saved_model *t, dlr_exec *exec, dl_error *err);
/* The tensors of the model by name, PyTorch's; `room` is closed by the caller (dlr_weights_close)
 * after their use. NULL: errors of dlr_weights_open, dlr_checkpoint_part_file. */
const dlr_st_file *dl_saved_model_tensors(const dl_saved_model *t, dlr_weights *room,
                                          dl_error *err);
/* The file or checkpoint that the weights are of, for messages. */
const char *dl_saved_model_name(const dl_saved_model *t);
/* The run's directory, of which it is a checkpoint; NULL: unknown. In the options' arena. */
const char *dl_saved_model_run(const dl_saved_model *t);
void dl_saved_model_close(dl_saved_model *t); /* zeroed is fine */
#endif
