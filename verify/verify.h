/* Compiled code beside the interpreter. */
#ifndef DL_VERIFY_H
#define DL_VERIFY_H
#include "ir/graph.h"
#include "runtime/exec.h"

/* How plans are run, and what fills the variables of a fresh executor. */
typedef struct {
    dlr_exec_options exec;
    bool (*fill)(dlr_exec *exec, void *user, dl_error *err);
    void *user;
} dl_verify_run;

/* What was found. Faults are sentences: what is off, by how much, where in the tensor and in the model. */
typedef struct {
    int compared;         /* tensors */
    double worst;         /* largest distance from the reference, as a part of what was allowed there */
    const char *worst_of; /* whose; NULL: everything was exact */
    DL_ARRAY(char *) faults;
} dl_verdict;

/* One tensor: got[i] must lie in [low[i], high[i]], which holds want[i]; NaN only where want is NaN or the
 * range is that of all numbers. Arrays of dl_type_count(type) elements, row-major. Adds at most one fault,
 * about the element that is furthest outside, beginning with `what` and ending with `where`. */
void dl_verify_tensor(dl_arena *arena, dl_verdict *v, const char *what, const char *where,
                      const dl_type *type, const double *got, const double *want, const double *low,
                      const double *high);

/* Runs the launches of graph g's program one after the other, each beside the interpreter on what the
 * launches before it left in memory; g is the graph that `plan` was made of. A result that float32 could not
 * have rounded to, an operand or a result of the program that is no longer what its maker stored, is a fault.
 * Errors: DL_RESOURCE, DL_INPUT (g is not the plan's), and what the executor says. */
bool dl_verify_kernels(dl_arena *arena, const dl_graph *g, const dl_plan *plan, const dl_verify_run *run,
                       dl_verdict *v, dl_error *err);

/* Runs graph g, of which `plan` was made, and `written`, the same program before any pass, both by the
 * interpreter in double precision from the variables that `fill` makes. Outputs, losses, metrics and figures
 * must agree but for what rounding constants to float32 explains, and be finite somewhere: else there is
 * nothing to compare, which is a fault. `float32`: by result of `written`, the relative error of the compiled
 * program beside the model as written (no judgement), NAN for updates, gradients and what is nowhere finite.
 */
bool dl_verify_meaning(dl_arena *arena, const dl_graph *written, const dl_graph *g, const dl_plan *plan,
                       const dl_verify_run *run, dl_verdict *v, double *float32, dl_error *err);
#endif
