/* Compiled code beside the interpreter. */
#ifndef DL_VERIFY_H
#define DL_VERIFY_H
#include "ir/graph.h"
#include "ir/train_recipe.h"
#include "runtime/exec/exec.h"

/* How plans are run, and what fills the variables of a fresh executor. `passes` runs the compiler's
 * passes of these names on a module: "lower,autodiff"; with the optimiser of the recipe, where
 * "optimizer" is among them. NULL: nothing that needs them is judged. */
typedef struct {
    dlr_exec_options exec;
    bool (*fill)(dlr_exec *exec, void *user, dl_error *err);
    bool (*passes)(dl_module *m, const char *names, void *user, dl_error *err);
    void *user;
} dl_verify_run;

/* How many of each were compared with a reference. */
typedef struct {
    int kernels;   /* launches of compiled kernels, beside the interpreter */
    int gradients; /* rules of ops, and parameters of the whole model, beside central differences */
    int updates;   /* next values of parameters and states, beside the optimisers' definitions */
    int composites; /* ops beside their own meaning */
    int guards;     /* zones around arguments, workspaces and scratch, that no kernel wrote */
} dl_judged;

/* Which kinds of ops were judged (verify/rules.c). */
typedef struct dl_rules dl_rules;

/* What was found. Faults are sentences: what is off, by how much, where in the tensor and in the
 * model. */
typedef struct {
    int compared; /* tensors */
    double worst; /* largest distance from the reference, as a part of what was allowed there */
    const char *worst_of; /* whose; NULL: everything was exact */
    DL_ARRAY(char *) faults;
    dl_judged judged;
    DL_ARRAY(char *) skipped; /* what was not judged, and why */
    dl_rules *rules;          /* which ops were judged so far */
} dl_verdict;

/* Uniform in [-1, 1): of a seed and a number (splitmix64). */
double dl_verify_uniform(uint64_t seed, uint64_t number);
/* Normally distributed: of a seed and a number. */
double dl_verify_normal(uint64_t seed, uint64_t number);

/* One tensor: got[i] must lie in [low[i], high[i]], which holds want[i]; NaN only where want is NaN
 * or the range is that of all numbers. Arrays of dl_type_count(type) elements, row-major. Adds at
 * most one fault, about the element that is furthest outside, beginning with `what` and ending with
 * `where`. */
void dl_verify_tensor(dl_arena *arena, dl_verdict *v, const char *what, const char *where,
                      const dl_type *type, const double *got, const double *want, const double *low,
                      const double *high);

/* Runs the launches of graph g's program one after the other, each beside the interpreter on what
 * the launches before it left in memory; g is the graph that `plan` was made of. A result that
 * float32 could not have rounded to, an operand or a result of the program that is no longer what
 * its maker stored, a byte that a kernel wrote outside of its arguments, workspace and scratch, is
 * a fault. Errors: DL_RESOURCE, DL_INPUT (g is not the plan's), and what the executor says. */
bool dl_verify_kernels(dl_arena *arena, const dl_graph *g, const dl_plan *plan,
                       const dl_verify_run *run, dl_verdict *v, dl_error *err);

/* A model's graphs of one name, "train" or "eval". */
typedef struct {
    const dl_graph *written; /* as the front end built it, before any pass */
    const dl_graph
        *derived; /* train: what the passes up to autodiff make of another such graph; or NULL */
    const dl_graph *made; /* what the kernels do, of which the plan was made */
} dl_verify_graphs;

/* Runs the graphs by the interpreter in double precision from the variables that `fill` makes; of
 * `written` each op by its own meaning (verify/reference.h). What must agree, each a fault where it
 * does not: each op of `written`, once a kind, and its gradient: what the passes make of it, with
 * that meaning and its central differences; outputs, losses, metrics, figures, statistics: `made`
 * with `written`, but for what rounding constants to float32 explains, and finite somewhere: else
 * there is nothing to compare, which is a fault; of train, gradients: those of `derived` with
 * central differences of the loss of `written`, along directions in which all parameters move; of
 * train, updates: those of `made` with the optimiser's definition on these gradients. `float32`: by
 * result of `written`, the relative error of the compiled program beside the model as written (no
 * judgement), NAN for updates, gradients and what is nowhere finite. recipe: of train; NULL
 * elsewhere. Errors: DL_RESOURCE, DL_INPUT, and what the executor says. */
bool dl_verify_meaning(dl_arena *arena, const dl_verify_graphs *graphs, const dl_plan *plan,
                       const dl_verify_run *run, const dl_recipe *recipe, dl_verdict *v,
                       double *float32, dl_error *err);

/* The recipe's updates by themselves, which need no model: a small graph that the pass `optimizer`
 * completes takes some thirty steps, through warm-up, epochs, clipping and, where the loss is
 * scaled, a step that is skipped; next to the definition of the optimiser and the schedule in plain
 * C. */
bool dl_verify_updates(dl_arena *arena, const dl_recipe *recipe, const dl_verify_run *run,
                       dl_verdict *v, dl_error *err);
#endif
