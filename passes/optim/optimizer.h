/* What the optimiser pass shares with the rows of its two tables. Private to it. */
#ifndef DL_OPTIMIZER_H
#define DL_OPTIMIZER_H
#include "ir/builder.h"
#include "passes/pass.h"

/* A parameter in its step. Where ranks keep shares of its state (pass ranks), all here is of this
 * rank's share, and what it becomes is gathered. */
typedef struct {
    dl_var *var;
    dl_value *own;      /* the old value */
    dl_value *grad;     /* as the rule takes it */
    dl_value *next;     /* the new value, once it is built */
    dl_var_piece share; /* of the variable, which may itself be a piece */
} dl_trained;

/* A scalar summed over all parameters, by between whom what the rank has of them is dealt out:
 * nobody, tensor parallel ranks, those whose gradients are summed, or both; with a cut of each
 * kind. */
enum { DL_O_TENSORS = 1, DL_O_SUMMED = 2, DL_O_BOTH = 3 };
typedef struct {
    dl_value *sum[DL_O_BOTH + 1];
    const dl_var_cut *cut[DL_O_BOTH];
} dl_o_total;

/* One step being built. Numbers that all parameters share are f64 scalars, worked out once a step.
 */
typedef struct {
    dl_builder *b;
    const dl_recipe *recipe;
    dl_arena *arena;
    dl_var_set model; /* variables that were there before */
    DL_ARRAY(dl_trained) trained;
    DL_ARRAY(dl_var *) hypers; /* those made so far */
    dl_error *err;
    dl_value *step;  /* the number of this step, from 1 */
    dl_value *at;    /* where this step stands in the course of the rate (schedules.c) */
    dl_value *taken; /* the same among the steps that were not skipped (scaler.h): step without a
                        scaler */
    dl_value *sound; /* true where this step is not skipped; NULL: none ever is */
    dl_value *rate;  /* the learning rate, once the schedule has built it */
} dl_optimization;

/* A number that the host may set: the variable "optimizer.NAME" of role HYPER, which is worth
 * `fallback` until then. What a model declares has no dot in its name, and may be called `eps` or
 * `momentum`. */
dl_value *dl_optimizer_hyper(dl_optimization *o, const char *name, double fallback);

/* What the optimiser keeps for a parameter from step to step: a variable WHAT.NAME like it, or like
 * its share, which starts at `first`. */
dl_var *dl_optimizer_state(const dl_optimization *o, const char *what, const dl_trained *t,
                           double first);

/* A number that the optimiser keeps for all parameters: the variable "optimizer.NAME", f64, made
 * anew. All three set o->err where the model has a variable of that name. */
dl_var *dl_optimizer_scalar(const dl_optimization *o, const char *name, double first);

/* Builds the learning rate of this step. */
typedef dl_value *dl_schedule_rule(dl_optimization *o);
#define SCHEDULE(id, help) dl_schedule_rule dl_schedule_##id;
#include "ir/base/schedules.def"
#undef SCHEDULE

/* Builds one parameter's step: its next value and those of its state, as results of role UPDATE.
 * `decays`: weight decay is for this parameter. */
typedef void dl_optimizer_rule(dl_optimization *o, dl_trained *t, bool decays);
#define OPTIMIZER(id, ...) dl_optimizer_rule dl_optimize_##id;
#include "ir/base/optimizers.def"

/* The whole of v, which is of this rank's share of the parameter; v where there are no shares. */
dl_value *dl_o_whole(const dl_optimization *o, const dl_trained *t, dl_value *v);

/* Short names for what the rules write. */
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
/* The total of all ranks' pieces and shares; of: in words, what it says. */
dl_value *dl_o_total_sum(dl_optimization *o, const dl_o_total *total, const char *of);
static inline dl_value *dl_o_k(const dl_optimization *o, double k) {
    return dl_build_const(o->b, DL_F64, k);
}
#endif
