/* Tests of compiled code against the interpreter and the ops' references. */
#ifndef DL_VERIFY_H
#define DL_VERIFY_H
#include "ir/graph.h"
#include "ir/step_options.h"
#include "runtime/exec/exec.h"

/* How plans are run, and the function that fills the variables of a new executor. `passes` runs
 * the compiler's passes of these names on a module: "lower,autodiff"; if "optimizer" is among
 * them, with the options' optimiser. NULL: tests that need passes are left out. */
typedef struct {
    dlr_exec_options exec;
    bool (*fill)(dlr_exec *exec, void *user, dl_error *err);
    bool (*passes)(dl_module *m, const char *names, void *user, dl_error *err);
    void *user;
} dl_verify_run;

/* The numbers of comparisons with a reference. */
typedef struct {
    int kernels;   /* launches of compiled kernels, compared with the interpreter */
    int gradients; /* rules of ops, and parameters of the whole model, compared with central
                      differences */
    int updates; /* next values of parameters and states, compared with the optimisers' definitions
                  */
    int composites; /* composite ops, compared with their references */
    int guards; /* guard zones around arguments, workspaces and scratch that no kernel wrote to */
} dl_judged;

/* The kinds of ops that were tested (verify/rules.c). */
typedef struct dl_rules dl_rules;

/* The findings. Faults are sentences: the wrong value, its error, its position in the tensor and
 * in the model. */
typedef struct {
    int compared;         /* tensors */
    double worst;         /* the largest distance from a reference, relative to what is allowed */
    const char *worst_of; /* its name; NULL: everything was exact */
    DL_ARRAY(char *) faults;
    dl_judged judged;
    DL_ARRAY(char *) skipped; /* tests that were left out, and why */
    dl_rules *rules;          /* the ops tested so far */
} dl_verdict;

/* Uniform in [-1, 1), from a seed and an index (splitmix64). */
double dl_verify_uniform(uint64_t seed, uint64_t number);
/* Normally distributed, from a seed and an index. */
double dl_verify_normal(uint64_t seed, uint64_t number);

/* Tests one tensor: got[i] must be in [low[i], high[i]], which includes want[i]; NaN is allowed
 * only where want is NaN or the range is that of all numbers. Arrays have dl_type_count(type)
 * elements, row-major. Adds at most one fault, about the element that is furthest outside, which
 * begins with `what` and ends with `where`. */
void dl_verify_tensor(dl_arena *arena, dl_verdict *v, const char *what, const char *where,
                      const dl_type *type, const double *got, const double *want, const double *low,
                      const double *high);

/* Runs the launches of graph g's program one after the other, and compares each with the
 * interpreter on the operands in memory; `plan` was compiled from g. Faults: a result outside the
 * range of float32 rounding; an operand or a result of the program that differs from what its
 * kernel stored; a byte that a kernel wrote outside of its arguments, workspace and scratch.
 * Errors: DL_RESOURCE, DL_INPUT (g is not the plan's graph), and errors of the executor. */
bool dl_verify_kernels(dl_arena *arena, const dl_graph *g, const dl_plan *plan,
                       const dl_verify_run *run, dl_verdict *v, dl_error *err);

/* A model's graphs of one name, "train" or "eval". */
typedef struct {
    const dl_graph *written; /* as the front end built it, before any pass; but without ops `grad`,
                                which have no value by themselves (dl_verify_derivatives) */
    const dl_graph *
        derived; /* train: the result of the passes up to autodiff on another such graph; or NULL */
    const dl_graph *made; /* the compiled graph, of which the plan was made */
} dl_verify_graphs;

/* Runs the graphs with the interpreter in double precision, from the variables that `fill` makes;
 * `written` with each op's reference (verify/reference.h). Each disagreement is a fault:
 *
 *   each kind of op of `written`, once, and its gradient: the passes' result against the reference
 *   and its central differences;
 *   outputs, losses, metrics, figures, statistics: `made` against `written`, except for the effect
 *   of rounding constants to float32; some elements must be finite, so that there is something to
 *   compare;
 *   train, gradients: those of `derived` against central differences of the loss of `written`,
 *   along directions in which all parameters move;
 *   train, updates: those of `made` against the optimiser's definition on these gradients.
 *
 * `float32`: by result of `written`, the relative error of the compiled program compared with the
 * written model (not tested); NAN for updates, gradients and results without finite elements.
 * step_options: of train; NULL otherwise. Errors: DL_RESOURCE, DL_INPUT, and errors of the
 * executor. */
bool dl_verify_meaning(dl_arena *arena, const dl_verify_graphs *graphs, const dl_plan *plan,
                       const dl_verify_run *run, const dl_step_options *step_options, dl_verdict *v,
                       double *float32, dl_error *err);

/* Tests each op `grad` of one graph, "train" or "eval", of a module as the front end built it, by
 * central differences of its operand y; the module is for this alone, and is changed. `plan`: of
 * the model, for its variables. Errors: as above. */
bool dl_verify_derivatives(dl_arena *arena, dl_module *written, const char *graph,
                           const dl_plan *plan, const dl_verify_run *run, dl_verdict *v,
                           dl_error *err);

/* Tests the updates without a model. A small graph that the pass `optimizer` completes
 * runs some thirty steps, through warm-up, epochs, clipping and, where the loss is scaled, a
 * skipped step. They are compared with the definition of the optimiser and the schedule in plain
 * C. */
bool dl_verify_updates(dl_arena *arena, const dl_step_options *step_options,
                       const dl_verify_run *run, dl_verdict *v, dl_error *err);
#endif
