/* A model that a caller of the library holds; private to library/. */
#ifndef DLC_MODEL_H
#define DLC_MODEL_H
#include <fenv.h>
#include <locale.h>

#include "include/dlc.h"
#include "runtime/checkpoint/tensors.h"
#include "runtime/comm/comm.h"
#include "runtime/setup/device_choice.h"
#include "runtime/setup/rank_groups.h"
#include "runtime/setup/saved_model.h"
#include "runtime/train/scaler.h"
#include "runtime/train/train.h"

enum { DLC_MAX_ARRAYS = DLR_MAX_ARRAYS };

/* An input, target or output, and its place in the plan. */
typedef struct {
    const char *name;
    dl_type type;       /* [N, ...], row-major */
    int64_t per_sample; /* elements */
    dlr_view view;      /* of the variable, where a program reads it, or of the predicted result */
    bool predicts;      /* input: the outputs depend on it */
    /* (x - mean[c]) / deviation[c] for inputs and targets, undone for outputs; element i of a
     * sample has channel c = i / inner % n. n 0: none. */
    const float *mean, *deviation;
    int64_t n, inner;
    bool replaces_nan;
    double nan;
    void *room; /* a batch that is normalised before it is copied; NULL: none is */
} library_array;

typedef struct {
    const char *name;
    dlr_view view;
    double sum;
} library_metric;

struct dlc_model {
    dl_arena *arena;
    const char *path; /* within dlc_open */
    dl_console console;
    void (*log)(void *context, int level, const char *text);
    void *log_context;
    bool raw, refuses_nan;
    dl_saved_model net;  /* of a run; zero: of a model file */
    dl_session *session; /* until there is a plan */
    dl_config *config;
    int64_t batch;
    bool relates; /* an output of a sample depends on others of the batch, too */
    dlr_world world;
    dlr_comm *comm; /* of several ranks; NULL: this process alone */
    dlr_group groups[DL_NRANK_GROUPS];
    dl_device_choice device;
    const char *plan_path; /* dlc_options.plan, which is: */
    const dl_plan *given;  /* NULL: there is none */
    dl_plan *plan;
    dlr_exec *exec;
    int predict, train, eval; /* programs; -1: there is none */
    int accumulate;           /* of a step's batches before its last one; -1: there is none */
    library_array input[DLC_MAX_ARRAYS], target[DLC_MAX_ARRAYS], output[DLC_MAX_ARRAYS];
    int n_inputs, n_targets, n_outputs;
    DL_ARRAY(library_metric) metrics;
    dlr_tensors tensors;
    /* training */
    dlr_run_model identity;
    dlr_schedule schedule;
    dlr_view loss, valid_loss;
    dlr_scaler scaler;
    dlr_state at;
    int64_t in_step; /* batches of a step */
    int64_t epoch_steps;
};

/* ---- programs.c ---- */

/* Reads the plan of the options as m->given, where they have one. Errors: those of
 * dl_plan_choice_read; DL_USAGE: m->path is a plan, or the model is opened for training. */
bool library_take_plan(dlc_model *m, const dlc_options *o, dl_error *err);
/* From the session to m->plan and its arrays, with the session used up: compiled, of the given
 * plan, or kept by the run (`options`: dlc_options). Errors: those of dl_session_plan,
 * dl_origin_check and library_find_arrays. */
bool library_compile(dlc_model *m, const void *options, dl_error *err);

/* ---- arrays.c ---- */

/* Finds inputs, targets, outputs and metrics of the session's graphs, with what the run's record
 * does to them. Errors: more than DLC_MAX_ARRAYS; statistics of other channels. */
bool library_find_arrays(dlc_model *m, dl_error *err);
/* Their places in the executor, and rooms. Errors: DL_RESOURCE. */
bool library_place_arrays(dlc_model *m, dl_error *err);
/* Errors (DL_NUMERIC): one of n samples is not finite, where that is refused. */
bool library_check_finite(const dlc_model *m, const library_array *a, const void *from, int64_t n,
                          dl_error *err);
/* Copies `n` samples from sample `first` of the caller's array into the plan; the rest of the batch
 * is zero. */
void library_feed(dlc_model *m, library_array *a, const void *from, int64_t first, int64_t n);
/* Copies n samples of a result to sample `first` of the caller's array. */
void library_fetch(dlc_model *m, const library_array *a, void *to, int64_t first, int64_t n);

/* ---- ranks.c ---- */

/* The world of options.mpi_comm or mpi_fint; without either, this process alone. */
bool library_join(dlc_model *m, const dlc_options *o, dl_error *err);
/* Whether all ranks are well; collective. A rank that is gets DL_PEER where another is not. */
bool library_agree(dlc_model *m, bool ok, const char *what, dl_error *err);
/* Makes the session this rank's, and the groups of its collectives. */
bool library_take_rank(dlc_model *m, dl_error *err);
/* Refuses plans in which a rank depends on others beyond sums. */
bool library_check_plan(const dlc_model *m, dl_error *err);
/* This rank's threads: a machine's ranks share its CPUs unless each was given its own. */
int library_threads(const dlc_model *m);

/* ---- training.c ---- */

/* Weights, optimiser state and rates at the start. Errors: those of the checkpoint's files. */
bool library_start_training(dlc_model *m, dl_error *err);

/* ---- status.c ---- */

/* First in a function that computes: the caller's floating-point environment comes back when the
 * function returns. Meanwhile it is the default one, of which the pool's threads get a copy: where
 * the caller traps divisions by zero or flushes subnormals, kernels must do neither. */
#define LIBRARY_OWN_FLOATS                                                                         \
    __attribute__((cleanup(library_restore_floats), unused)) fenv_t caller =                       \
        library_default_floats()
fenv_t library_default_floats(void);
void library_restore_floats(const fenv_t *caller);

/* Runs it; without memory it ends with DL_RESOURCE, and the process goes on. */
bool library_guard(bool (*run)(dlc_model *m, const void *of, dl_error *err), dlc_model *m,
                   const void *of, dl_error *err);
/* Numbers are written and read as in C's locale, whatever the host chose; to be put back. */
locale_t library_enter_locale(void);
void library_leave_locale(locale_t before);

/* The outcome as the caller sees it: 1 or 0. `status` may be NULL. */
int library_end(bool ok, const dl_error *err, dlc_status *status);
#endif
