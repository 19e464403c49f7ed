/* Shared by the optimiser pass and the rules of its two tables. Private to the pass. */
#ifndef DL_OPTIMIZER_H
#define DL_OPTIMIZER_H
#include "ir/builder.h"
#include "passes/pass.h"

/* A parameter in its step. Where ranks keep shards of its state (pass data_parallel), all values
 * here are of this rank's shard, and the next value is all-gathered. */
typedef struct {
    dl_var *var;
    dl_value *own;               /* the old value */
    dl_value *grad;              /* the gradient, as the rule reads it */
    dl_value *next;              /* the new value, once it is built, */
    dl_value *whole;             /* and all-gathered */
    const dl_param_group *group; /* with a rate or a weight decay of its own; NULL: none */
    int number;                  /* of the group */
    dl_var_piece share; /* this rank's shard of the variable, which may itself be a shard */
} dl_trained;

/* A scalar sum over all parameters. The terms are kept apart by the ranks among which a parameter
 * is sharded: none, tensor parallel ranks, the ranks whose gradients are summed, or both; each
 * with an example of its cut. */
enum { DL_O_TENSORS = 1, DL_O_SUMMED = 2, DL_O_BOTH = 3 };
typedef struct {
    dl_value *sum[DL_O_BOTH + 1];
    const dl_var_cut *cut[DL_O_BOTH];
} dl_o_total;

/* The parameters of one optimiser: of an objective, or all of the graph's. */
typedef struct {
    const dl_step_options *step_options;
    const dl_objective_options *own; /* or NULL: those of the step hold */
    const char *name;                /* the objective's; NULL: the graph has none */
    int first, n;                    /* of the trained parameters */
    dl_value *norm;                  /* of its gradients, where it is computed */
    dl_value *taken, *sound;         /* as in dl_optimization */
} dl_trained_set;

/* A step while it is built. Numbers that all parameters share are f64 scalars, computed once a
 * step. */
typedef struct {
    dl_builder *b;
    const dl_step_options *step_options;
    dl_arena *arena;
    dl_var_set model;             /* the variables of the model */
    DL_ARRAY(dl_trained) trained; /* set after set */
    DL_ARRAY(dl_trained_set) sets;
    const dl_trained_set *set; /* that rules are applied to now; NULL: numbers are the step's */
    DL_ARRAY(dl_var *) hypers; /* the hyperparameters created so far */
    dl_error *err;
    int data_ranks; /* ranks with samples of their own */
    dl_value *step; /* the number of this step, from 1 */
    dl_value *at;   /* the position of this step in the schedule (schedules.c) */
    dl_value *
        taken; /* the number among steps that were not skipped (scaler.h); without a scaler: step */
    dl_value *sound; /* true where this step is not skipped; NULL: no step is */
    dl_value *rate;  /* the learning rate, once the schedule has built it; within a rule that of
                        the parameter */
} dl_optimization;

/* "optimizer.OBJECTIVE.NAME" while rules are applied to an objective's set, else "optimizer.NAME".
 */
const char *dl_optimizer_own_name(const dl_optimization *o, const char *name);

/* A number that the host may set: the variable "optimizer.NAME" of role HYPER, `fallback` until it
 * is set; where NAME is an optimiser's option, that of the set's objective is
 * "optimizer.OBJECTIVE.NAME". Names of a model's variables have no dot, so a model may have
 * variables `eps` or `momentum`. */
dl_value *dl_optimizer_hyper(dl_optimization *o, const char *name, double fallback);

/* The same by the variable's whole name, interned. */
dl_value *dl_optimizer_number(dl_optimization *o, const char *name, double fallback);

/* State of a parameter that is kept from step to step: a variable WHAT.NAME with the type of the
 * parameter, or of its shard; it starts at `first`. */
dl_var *dl_optimizer_state(const dl_optimization *o, const char *what, const dl_trained *t,
                           double first);

/* The same with another type, of a parameter that no rank has a shard of. */
dl_var *dl_optimizer_summary(const dl_optimization *o, const char *what, const dl_trained *t,
                             dl_type type);

/* A number that is kept for all parameters of the set: a new variable of its own name in f64. All
 * these functions set o->err where the model has a variable of that name. */
dl_var *dl_optimizer_scalar(const dl_optimization *o, const char *name, double first);

/* Builds the learning rate of this step. */
typedef dl_value *dl_schedule_rule(dl_optimization *o);
#define SCHEDULE(id, help) dl_schedule_rule dl_schedule_##id;
#include "ir/base/schedules.def"
#undef SCHEDULE

/* Steps before this one, as an f64; a rate times the warm-up min(1, it / lr.warmup). */
dl_value *dl_rate_before(dl_optimization *o);
dl_value *dl_rate_warmed(dl_optimization *o, dl_value *rate);

/* Builds one parameter's step: its next value and those of its state, as results of role UPDATE.
 * `decays`: weight decay applies to this parameter. */
typedef void dl_optimizer_rule(dl_optimization *o, dl_trained *t, bool decays);
#define OPTIMIZER(id, ...) dl_optimizer_rule dl_optimize_##id;
#include "ir/base/optimizers.def"

/* The whole tensor, all-gathered from v, which is this rank's shard; v itself where there are no
 * shards. */
dl_value *dl_o_whole(const dl_optimization *o, const dl_trained *t, dl_value *v);

/* norms.c: the Euclidean norm of a set's gradients, before clipping, or of its weights after the
 * step. Whether the metrics need that of the gradients. */
dl_value *dl_norm_of_set(dl_optimization *o, const dl_trained_set *set, bool weights);
bool dl_norms_need_gradients(const dl_optimization *o);
/* Keeps the norms of the layers' gradients, which clipping changes; where they are metrics. */
void dl_layer_norms_begin(dl_optimization *o);
/* Adds the metrics of log_norms, log_layer_norms and log_noise_scale, after all steps are built. */
void dl_norms_report(dl_optimization *o);

/* Short names for the rules. */
static inline dl_value *dl_o_add(const dl_optimization *o, dl_value *x, dl_value *y) {
    return dl_build2(o->b, DL_OP_add, x, y);
}
static inline dl_value *dl_o_sub(const dl_optimization *o, dl_value *x, dl_value *y) {
    return dl_build2(o->b, DL_OP_sub, x, y);
}
static inline dl_value *dl_o_mul(const dl_optimization *o, dl_value *x, dl_value *y) {
    return dl_build2(o->b, DL_OP_mul, x, y);
}
static inline dl_value *dl_o_div(const dl_optimization *o, dl_value *x, dl_value *y) {
    return dl_build2(o->b, DL_OP_div, x, y);
}
/* Adds a parameter's term. */
void dl_o_total_add(dl_optimization *o, dl_o_total *total, const dl_trained *t, dl_value *term);
/* The total over the shards of all ranks; of: its name in messages. */
dl_value *dl_o_total_sum(dl_optimization *o, const dl_o_total *total, const char *of);
static inline dl_value *dl_o_k(const dl_optimization *o, double k) {
    return dl_build_const(o->b, DL_F64, k);
}
#endif
