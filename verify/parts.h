/* Private to this folder; the interface is verify.h. */
#ifndef DL_VERIFY_PARTS_H
#define DL_VERIFY_PARTS_H
#include "verify/reference.h"
#include "verify/verify.h"

/* ---- numbers ---- */

/* |a - b||. Elements that are infinite or NaN in both in the same way are ignored; in one alone,
 * the distance is infinite. */
double dl_verify_distance(const double *a, const double *b, int64_t n);
/* |a||, without elements that are not finite. */
double dl_verify_norm(const double *a, int64_t n);
/* A copy in the arena; for n = 0, `a` may be NULL. */
double *dl_verify_copy(dl_arena *arena, const double *a, int64_t n);

/* A central difference of a function along a direction, by two step sizes that must agree. f(user,
 * h) is the function's value at h minus that at -h. True where the function is smooth: *slope is
 * the derivative. `size`: its expected magnitude; steps: sizes to try, up to a 0. */
typedef bool dl_verify_line(void *user, double h, double *difference, dl_error *err);
bool dl_verify_slope(dl_verify_line *f, void *user, double size, const double *steps, double *slope,
                     bool *smooth, dl_error *err);
/* The allowed relative error of a slope. */
static const double dl_verify_slope_off = 1e-5;

/* ---- written graphs, by the ops' reference ---- */

/* A run of a graph before any pass, each op by its reference where it has one. */
typedef struct {
    const dl_graph *g;
    dl_interp *in;
    dl_reference_draw draw;
    const dl_node **nodes; /* by value: the node that makes it. A scan's body has others */
    int *numbers;          /* by value: the number of the random op among those of the step */
    /* Called after each node, or NULL. False: the run ends with the error in *err. */
    void (*look)(void *user, const dl_node *n, double *const *data);
    void *user;
    bool holds; /* fixes branches: from its next run on, each op with a kink stays on that run's
                   side */
    float **held;
    double **kept; /* both by value: the fixed branches */
} dl_written;
dl_written *dl_written_new(dl_arena *arena, const dl_graph *g, const dl_reference_draw *draw);
bool dl_written_run(dl_written *w, dl_error *err);
/* The node's result by its reference, which must exist. */
void dl_written_meaning(const dl_written *w, const dl_node *n, double *const *data);
/* branches.c: the node's result on the fixed side; false: the op has no fixed branch. */
bool dl_written_hold(dl_written *w, const dl_node *n, double *const *data);
void dl_written_free(dl_written *w);

/* ---- each op by itself (rules.c) ---- */

dl_rules *dl_rules_new(dl_arena *arena, const dl_verify_run *run, dl_verdict *v);
/* The number of products and elements that a run of the graph computes, roughly. */
double dl_verify_run_cost(const dl_graph *g);
/* Chooses the nodes of a graph to test. */
void dl_rules_take(dl_rules *r, const dl_graph *written);
/* Tests one of them on its operands in the run: the `look` of a dl_written. */
void dl_rules_look(void *rules, const dl_node *n, double *const *data);

/* ---- variables ---- */

/* The plan's variables as `fill` made them. They stay in the executor, which runs nothing
 * meanwhile: a copy of all in double precision would be several times as large as the model. */
typedef struct {
    const dl_plan *plan;
    dlr_exec *exec;
} dl_verify_state;
dl_verify_state dl_verify_state_of(dlr_exec *exec);
/* False: a variable of the graph has another size than the plan's. Errors: DL_INPUT. */
bool dl_verify_state_fits(const dl_verify_state *s, const dl_graph *g, dl_error *err);
/* Elements [first, first + n) in double precision, in the arena. NULL: the plan has no such
 * variable. */
const double *dl_verify_state_find(const dl_verify_state *s, dl_arena *arena, const char *name,
                                   int64_t first, int64_t n);
/* Reads a variable of a graph into `to`; a COPY has the parameter's values. A variable that the
 * plan lacks is left unchanged. */
void dl_verify_state_read(const dl_verify_state *s, const dl_var *var, double *to);

/* Runs g from there. `take` gets the chosen results (by result; NULL: all) one by one, as they are
 * computed. `shake`, `seed`: dl_interp_shake. */
typedef void dl_verify_take(void *user, int result, const double *data);
bool dl_verify_interpret(const dl_graph *g, const bool *chosen, const dl_verify_state *s,
                         double shake, uint64_t seed, dl_verify_take *take, void *user,
                         dl_error *err);

/* ---- gradients of the whole model (gradients.c) ---- */

/* grads: by result of `derived`; NULL where it is no gradient. */
bool dl_verify_gradients(dl_arena *arena, dl_written *w, const dl_graph *derived,
                         double *const *grads, const dl_verify_state *s, dl_verdict *v,
                         dl_error *err);

/* ---- updates (step.c) ---- */

/* A parameter of a step, with its gradient. */
typedef struct {
    const char *name;
    int64_t count;
    int rank;
    const double *grad;
    int64_t columns, rows; /* sizes of the last axis, and of the one before it */
} dl_step_param;

/* One step by the definitions of torch.optim and of the schedules. `old` gives elements [first,
 * first + n) of a variable before the step, possibly in the arena, or NULL. `next` gets their
 * values after it, and what the step reports under a metric's name (n 1). */
typedef struct {
    const dl_step_options *step_options;
    int n;
    const dl_step_param *params;
    const double *(*old)(void *user, dl_arena *arena, const char *name, int64_t first, int64_t n);
    void (*next)(void *user, dl_result_role role, const char *name, const double *value, int64_t n);
    void *user;
    /* Gets the default of each hyperparameter that the definition takes, under the variable's
     * name, possibly many times; or NULL. */
    void (*asked)(void *user, const char *name, double fallback);
} dl_step_of;
void dl_verify_step(dl_arena *arena, const dl_step_of *s);
/* The hyperparameter "optimizer.NAME", or its default. */
double dl_verify_hyper(const dl_step_of *s, dl_arena *arena, const char *name, double fallback);
/* The number with which all elements of a state begin, under its name in torch.optim; NAN: its
 * first step overwrites it. */
double dl_verify_state_start(const dl_step_options *o, const char *name);
/* The same in parts, since a model's parameters do not all fit in memory, nor does a large one as
 * a whole: the shared values; elements [first, first + n) of a parameter, in any order, possibly
 * several times; and the values reported for all. `counts`: the elements are part of the norm of
 * all parameters; true once for each. */
typedef struct dl_step dl_step;
/* The learning rate of step `at`, from 1 (rates.c). */
double dl_verify_rate(const dl_step_of *of, dl_arena *arena, double at);
/* Whether an element's step depends on the whole parameter: then the part is all of it. */
bool dl_verify_step_whole(const dl_step_options *step_options);
dl_step *dl_verify_step_begin(dl_arena *arena, const dl_step_of *s);
void dl_verify_step_param(dl_step *w, int i, int64_t first, int64_t n, bool counts);
void dl_verify_step_end(dl_step *w);

/* updates.c: compares the optimiser's results in `made` with its definition on the gradients of
 * `derived` (grads: as above), which must stay valid. Results are taken one by one from a run of
 * `made`; `wanted` says which. */
typedef struct dl_model_updates dl_model_updates;
dl_model_updates *dl_verify_updates_of(dl_arena *arena, const dl_verify_graphs *graphs,
                                       double *const *grads, const dl_verify_state *s,
                                       const dl_step_options *step_options);
bool dl_verify_updates_want(const dl_model_updates *u, int result);
void dl_verify_updates_take(dl_model_updates *u, int result, const double *data);
bool dl_verify_updates_judge(dl_arena *arena, dl_model_updates *u, dl_verdict *v, dl_error *err);
#endif
