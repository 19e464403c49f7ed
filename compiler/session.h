/* From a model file and a configuration to a plan: shared by `dlc` and `dlrun`.
 *
 *     dl_config *c = dl_config_open(arena, argc, argv, options, &err);
 *     dl_session *s = dl_session_open(arena, c, &err);
 *     dl_plan *p = dl_session_compile(s, &opt, &err);
 *
 * dl_session_open reads YAML and model and builds the graphs; dl_session_compile lowers them, and
 * the cache makes the second time fast. Model faults are caret diagnostics: their text (with
 * colours on request) is in s->diagnostics, and err has their number. */
#ifndef DL_SESSION_H
#define DL_SESSION_H
#include "compiler/compile.h"
#include "frontends/dl/front.h"
#include "frontends/yaml/config.h"
#include "ir/ranks.h"
#include "passes/core/prediction.h"

typedef struct {
    dl_arena *arena;
    dl_config *config;
    const char *model_path; /* as found */
    const char *model_name; /* "UNet" */
    dl_source *source;
    dl_model *model;
    dl_module
        *module;   /* graphs train and eval, or predict; lowered in place by dl_session_compile */
    int64_t batch; /* samples a rank and step: axis N */
    int64_t global_batch;   /* over all ranks */
    dl_ranks ranks;         /* how the ranks share the work */
    dl_parallel parallel;   /* this rank's part of it */
    int64_t parameters;     /* trained elements */
    dl_buf diagnostics;     /* warnings and errors as text, ready to print; may be empty */
    const dl_diags *diags;  /* the same as they were found */
    dl_compile_times times; /* of the last compile */
    double front_ms;
} dl_session;

/* Loads configuration and model (config key `model`), declares the model's arguments as
 * configuration keys, finishes the configuration (unknown keys are errors), and builds the
 * graphs. The batch is local_batch_size where it is set, unless a stronger source sets
 * global_batch_size. Otherwise it is global_batch_size (batch_size_of: rank), or
 * global_batch_size / world, which must divide evenly. NULL: DL_USAGE, DL_INPUT (the diagnostics
 * are copied to *diagnostics unless it is NULL), DL_IO. */
dl_session *dl_session_open(dl_arena *arena, dl_config *config, int world, dl_buf *diagnostics,
                            dl_error *err);
/* The same for a model whose text is in memory (a checkpoint's, a plan's): its file is not read.
 * `name` stands for its path in messages. `name` NULL: what the configuration
 * names. `given` NULL: the file that it names. */
typedef struct {
    const char *name, *text;
    size_t n;
} dl_model_text;
dl_session *dl_session_open_text(dl_arena *arena, dl_config *config, const dl_model_text *given,
                                 int world, dl_buf *diagnostics, dl_error *err);
/* The same, with the model's diagnostics as they were found in *found, also where there is no
 * session; NULL there: no model was read. */
dl_session *dl_session_open_found(dl_arena *arena, dl_config *config, int world,
                                  const dl_diags **found, dl_error *err);
/* Makes later compilations those of this rank (0 to the world's size - 1). The session starts
 * with rank 0. */
void dl_session_take_rank(dl_session *s, int rank);
/* Frees what is not in the arena. NULL is fine. */
void dl_session_close(dl_session *s);

/* Replaces the session's module by one for prediction, with the single graph "predict"
 * (passes/core/prediction.h). The sizes are those of axes that the model's inputs leave open;
 * without any, the configuration's hold. Errors (DL_INPUT): the model does not fit these sizes,
 * or has other parameters with them; or an output depends on a target. The module is then
 * unchanged. */
bool dl_session_predict(dl_session *s, int nsizes, const dl_axis_size *sizes, dl_error *err);
/* Adds that graph, at the configuration's sizes, to the module's "train" and "eval". Errors: as
 * above. */
bool dl_session_add_prediction(dl_session *s, dl_error *err);
/* Adds the graph "eval", with the model's loss and metrics of each sample
 * (passes/parallel/per_sample.h), to that of dl_session_predict; nothing where the batch has
 * several samples and they relate them. Errors: a fault of the model. */
bool dl_session_add_evaluation(dl_session *s, dl_error *err);
/* The graph "predict" at the configuration's sizes as the pass `lower` leaves it, for
 * dl_find_reach. NULL: as above. */
const dl_graph *dl_session_seen(const dl_session *s, dl_error *err);

/* Whether the model, at this batch, computes each sample's outputs from that sample alone, so that
 * they are those of the sample by itself. False, too, where the model has no such batch. */
bool dl_session_treats_alone(const dl_session *s, int64_t batch);

/* Whether losses and metrics of this batch can be those of each sample by itself, for
 * dl_session_add_evaluation. False, too, where the model has no such batch. */
bool dl_session_measures_alone(const dl_session *s, int64_t batch);

/* Options with the session's model, batch, Adam's constants and the environment's DLC_SKIP.
 * Target NULL: the best one of this machine. False: unknown target. */
bool dl_session_options(const dl_session *s, const char *target, dl_compile_options *opt,
                        dl_error *err);
/* Refuses a configuration whose steps have several batches, for a program, `who`, that runs one.
 * Errors: DL_INPUT or DL_USAGE, at the key accumulate. */
bool dl_session_check_one_batch(const dl_session *s, const char *who, dl_error *err);
/* The same of one that keeps a mean of the weights, at the keys ema and swa. */
bool dl_session_check_no_average(const dl_session *s, const char *who, dl_error *err);
/* Adds the graph "accumulate" where the options say that a step has several batches. */
dl_plan *dl_session_compile(dl_session *s, const dl_compile_options *opt, dl_error *err);
/* dl_session_compile through the cache of plans. It reads and checks the file that an earlier
 * run of this build left for this model text, arguments, sizes and target; otherwise it compiles
 * the plan and stores it. *cached reports which. */
dl_plan *dl_session_plan(dl_session *s, const dl_compile_options *opt, bool *cached, dl_error *err);
/* Compiles the plan, and stores it where dl_session_plan finds it, here or on another machine. */
dl_plan *dl_session_prepare(dl_session *s, const dl_compile_options *opt, dl_error *err);
#endif
