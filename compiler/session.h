/* From a model file and a configuration to a plan: what `dlc` and `dlrun` share.
 *
 *     dl_config *c = dl_config_open(arena, argc, argv, options, &err);
 *     dl_session *s = dl_session_open(arena, c, &err);     // reads YAML and model, builds the
 * graphs dl_plan *p = dl_session_compile(s, &opt, &err);      // lowers them; the cache makes the
 * second time fast
 *
 * Model faults are caret diagnostics: they are in s->diagnostics as text (colours if asked for),
 * and err says how many. */
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
    dl_parallel parallel;   /* the same, as this rank sees it */
    int64_t parameters;     /* trained elements */
    dl_buf diagnostics;     /* warnings and errors as text, ready to print; may be empty */
    dl_compile_times times; /* of the last compile */
    double front_ms;
} dl_session;

/* Loads configuration and model (config key `model`), declares the model's arguments as
 * configuration keys, finishes the configuration (unknown keys are errors), and builds the graphs.
 * The batch is local_batch_size where it is set, unless a stronger source sets global_batch_size;
 * else that (batch_size_of: rank), or that / world, which must come out whole. NULL: DL_USAGE,
 * DL_INPUT (s->diagnostics is lost: it is copied into *diagnostics when that is not NULL), DL_IO.
 */
dl_session *dl_session_open(dl_arena *arena, dl_config *config, int world, dl_buf *diagnostics,
                            dl_error *err);
/* From now on what is compiled is this rank's (0 to the world's size - 1); at first it is rank 0's.
 */
void dl_session_take_rank(dl_session *s, int rank);
/* Frees what is not in the arena. NULL is fine. */
void dl_session_close(dl_session *s);

/* Makes the session's module that of prediction alone, with the one graph "predict"
 * (passes/core/prediction.h), at these sizes of axes that the model's inputs leave open; none: at
 * the configuration's. Errors (DL_INPUT): a model that does not fit them, or has other parameters
 * there; an output made of a target. The module is then as it was. */
bool dl_session_predict(dl_session *s, int nsizes, const dl_axis_size *sizes, dl_error *err);
/* The graph "predict" at the configuration's sizes as the pass `lower` leaves it, for
 * dl_find_reach; NULL: as above. */
const dl_graph *dl_session_seen(const dl_session *s, dl_error *err);

/* Options with the session's model, batch, Adam's constants and this environment's DLC_SKIP; the
 * best target of this machine, or `target`. NULL target name: best. False: unknown target. */
bool dl_session_options(const dl_session *s, const char *target, dl_compile_options *opt,
                        dl_error *err);
dl_plan *dl_session_compile(dl_session *s, const dl_compile_options *opt, dl_error *err);
/* The same through the cache of plans: the file that an earlier run of this build left there for
 * this model text, arguments, sizes and target is read and checked; otherwise the plan is compiled
 * and left there. *cached says which. */
dl_plan *dl_session_plan(dl_session *s, const dl_compile_options *opt, bool *cached, dl_error *err);
#endif
