/* Tests the model as a whole. Passes may reorder sums and fold constants in float32. The effect on
 * a result depends on its conditioning, which is measured: every value of the written graph is
 * perturbed by SHAKE of its size, four times float32's unit roundoff, in up to RUNS runs. The
 * changes of the results are the allowed error. Further runs can only increase it: none is made
 * when all results are within it. */
#include <math.h>
#include <stdlib.h>

#include "ir/base/philox.h"
#include "ir/base/tags.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/state.h"
#include "verify/parts.h"

static const double SHAKE = 0x1p-22;
static const double ULPS = 0x1p-43; /* relative error of sums of doubles in another order */
enum { RUNS = 3, ALLOWED = 4 /* times the largest change seen: a few runs may miss larger ones */ };

typedef struct {
    dl_arena *arena, *scratch;
    const dl_verify_graphs *graphs;
    const dl_result *
        *of; /* by result of `written`: the result of `made` that must agree; NULL: none */
    dl_written *written;
    dl_verify_state state;
    double **want, **got; /* by result of `written`, of `made` */
    double **taken;       /* by result of `written`: of the current run */
    double **grads;       /* by result of `derived`; NULL: training is not tested */
    dl_model_updates *updates;
    double *moved; /* by result of `written` */
    dl_verdict *v;
} whole;

static double *copy_of(const whole *w, const dl_result *r, const double *data) {
    return dl_verify_copy(w->scratch, data, dl_type_count(&r->value->type));
}

static void read_variable(void *user, const dl_value *v, double *to) {
    dl_verify_state_read(&((const whole *)user)->state, v->var, to);
}

static void take_written(void *user, const dl_value *v, const double *data) {
    const whole *w = user;
    const dl_graph *g = w->graphs->written;
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].value == v) w->taken[i] = copy_of(w, &g->results.at[i], data);
}

/* The results of a run of the written graph, each op by its reference. */
static double **run_written(whole *w, double shake, uint64_t seed, dl_error *err) {
    const dl_graph *g = w->graphs->written;
    dl_interp *in = w->written->in;
    w->taken = DL_NEWS(w->scratch, double *, g->results.n + 1);
    dl_interp_shake(in, shake, seed);
    dl_interp_stream(in, read_variable, take_written, w);
    bool ok = dl_verify_state_fits(&w->state, g, err) && dl_written_run(w->written, err);
    dl_interp_shake(in, 0, 0);
    return ok ? w->taken : NULL;
}

/* The error of result i, relative to what is allowed. */
static double part_of(const whole *w, int i) {
    int64_t n = dl_type_count(&w->graphs->written->results.at[i].value->type);
    double off = dl_verify_distance(w->want[i], w->got[w->of[i] - w->graphs->made->results.at], n);
    return off == 0 ? 0 : off / (ALLOWED * w->moved[i] + ULPS * dl_verify_norm(w->want[i], n));
}

static bool is_anywhere_finite(const double *a, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (isfinite(a[i])) return true;
    return n == 0;
}

/* The mean of no samples is NaN, correctly. */
static bool is_fed_nothing(const dl_graph *g) {
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *v = g->vars.at[i];
        bool fed = v->role == DL_VAR_INPUT || v->role == DL_VAR_TARGET;
        if (fed && dl_type_count(&v->value.type) == 0) return true;
    }
    return false;
}

static void judge(whole *w, int i) {
    const dl_result *r = &w->graphs->written->results.at[i];
    const double *want = w->want[i], *got = w->got[w->of[i] - w->graphs->made->results.at];
    int64_t n = dl_type_count(&r->value->type);
    double off = dl_verify_distance(want, got, n), size = dl_verify_norm(want, n),
           part = part_of(w, i);
    dl_verdict *v = w->v;
    v->compared++;
    if (!is_anywhere_finite(want, n) && !is_anywhere_finite(got, n)) {
        char *nothing = dl_format(w->arena, "%s '%s' is nowhere finite: nothing to compare",
                                  dl_result_roles[r->role], r->name);
        if (is_fed_nothing(w->graphs->written))
            dl_push(w->arena, &v->skipped, nothing);
        else
            dl_push(w->arena, &v->faults, nothing);
        return;
    }
    if (part > v->worst) v->worst = part, v->worst_of = r->name;
    if (part <= 1) return;
    char *fault = dl_format(
        w->arena,
        "%s '%s' of the kernels is not that of the model as written: relative distance %.2e in "
        "double precision, where rounding explains %.2e",
        dl_result_roles[r->role], r->name, off / size, ALLOWED * w->moved[i] / size);
    dl_push(w->arena, &v->faults, fault);
}

/* The relative error of the compiled program's result. */
static double float32_error(whole *w, dlr_exec *exec, int program, int i) {
    const dl_result *r = &w->graphs->written->results.at[i];
    dlr_view view = dlr_exec_result(exec, program, r->role, r->name);
    int64_t n = dl_type_count(&r->value->type);
    if (r->role == DL_RESULT_UPDATE || !view.type || dl_type_count(view.type) != n) return NAN;
    double *got = DL_NEWS(w->scratch, double, n + 1);
    dlr_state_read(exec, view, DL_F64, got);
    for (int64_t k = 0; k < n; k++)
        if (!isfinite(w->want[i][k]) && !isfinite(got[k])) got[k] = w->want[i][k];
    double d = dl_verify_distance(got, w->want[i], n);
    if (!is_anywhere_finite(w->want[i], n)) return NAN;
    return d == 0 ? 0 : d / dl_verify_norm(w->want[i], n);
}

/* Is the result the metric of an objective, which the compiled step may compute with parameters
 * that have been updated already? */
static bool is_of_objective(const dl_graph *g, const dl_result *r) {
    bool own = false;
    for (int i = 0; i < g->results.n; i++) {
        const dl_result *o = &g->results.at[i];
        own |= o->role == DL_RESULT_OBJECTIVE && r->role == DL_RESULT_METRIC &&
               r->name == dl_internf(DL_OBJECTIVE_METRIC "%s", o->name);
    }
    return own;
}

static bool has_objectives(const dl_graph *g) {
    return dl_graph_find_result(g, DL_RESULT_OBJECTIVE, NULL) != NULL;
}

/* Pairs the results that must agree: all except gradients, which the written graph has not, and
 * objectives, whose gradients are tested. */
static bool pair(whole *w, dl_error *err) {
    const dl_graph *written = w->graphs->written, *made = w->graphs->made;
    w->of = DL_NEWS(w->scratch, const dl_result *, written->results.n + 1);
    for (int i = 0; i < written->results.n; i++) {
        const dl_result *r = &written->results.at[i];
        if (r->role == DL_RESULT_GRAD || r->role == DL_RESULT_OBJECTIVE ||
            is_of_objective(written, r))
            continue;
        w->of[i] = dl_graph_find_result(made, r->role, r->name);
        if (w->of[i] && dl_type_count(&w->of[i]->value->type) == dl_type_count(&r->value->type))
            continue;
        return dl_fail(err, DL_INPUT, "graph '%s' has no %s '%s' of that size", made->name,
                       dl_result_roles[r->role], r->name);
    }
    return true;
}

/* By result: its change when every value of the written graph is perturbed. */
static bool shake(whole *w, dl_error *err) {
    const dl_graph *g = w->graphs->written;
    w->moved = DL_NEWS(w->scratch, double, g->results.n + 1);
    for (int run = 0; run < RUNS; run++) {
        bool open = false;
        for (int i = 0; i < g->results.n; i++) open = open || (w->of[i] && !(part_of(w, i) <= 1));
        if (!open) return true;
        double **shaken = run_written(w, SHAKE, (uint64_t)run + 1, err);
        if (!shaken) return false;
        for (int i = 0; i < g->results.n; i++) {
            double d = dl_verify_distance(w->want[i], shaken[i],
                                          dl_type_count(&g->results.at[i].value->type));
            if (isfinite(d)) w->moved[i] = fmax(w->moved[i], d);
        }
    }
    return true;
}

/* Tests each op of the graph by itself, on its operands in the first run. */
static bool run_first(whole *w, const dl_verify_run *run, dl_error *err) {
    if (run->passes) {
        if (!w->v->rules) w->v->rules = dl_rules_new(w->arena, run, w->v);
        dl_rules_take(w->v->rules, w->graphs->written);
        w->written->look = dl_rules_look, w->written->user = w->v->rules;
    }
    w->want = run_written(w, 0, 0, err);
    w->written->look = NULL;
    return w->want != NULL;
}

/* Some twenty runs of the model in double precision on one thread would take too long. */
static bool is_too_large(whole *w) {
    static const double MOST = 1e9;
    double cost = dl_verify_run_cost(w->graphs->written);
    if (cost <= MOST) return false;
    char *why =
        dl_format(w->arena,
                  "gradients and updates of the whole model, of which a run computes %.0e products "
                  "(each op's gradient is, and the optimiser on a small model): verify a smaller "
                  "batch or --data_size",
                  cost);
    dl_push(w->arena, &w->v->skipped, why);
    return true;
}

static void take_grad(void *user, int i, const double *data) {
    whole *w = user;
    w->grads[i] = copy_of(w, &w->graphs->derived->results.at[i], data);
}

/* The gradients of the model, if training is judged. */
static bool run_derived(whole *w, const dl_step_options *step_options, dl_error *err) {
    const dl_graph *g = w->graphs->derived;
    if (!g || is_too_large(w)) return true;
    w->grads = DL_NEWS(w->scratch, double *, g->results.n + 1);
    bool *chosen = DL_NEWS(w->scratch, bool, g->results.n + 1);
    for (int i = 0; i < g->results.n; i++) chosen[i] = g->results.at[i].role == DL_RESULT_GRAD;
    if (!dl_verify_interpret(g, chosen, &w->state, 0, 0, take_grad, w, err)) return false;
    if (has_objectives(w->graphs->written)) {
        char *why = dl_format(w->arena, "updates of the whole model, which has several optimizers: "
                                        "each is judged on a small model");
        dl_push(w->arena, &w->v->skipped, why);
    } else if (step_options && step_options->optimizer != DL_OPT_NONE)
        w->updates = dl_verify_updates_of(w->scratch, w->graphs, w->grads, &w->state, step_options);
    return true;
}

static void take_made(void *user, int i, const double *data) {
    whole *w = user;
    bool compared = false;
    for (int k = 0; k < w->graphs->written->results.n; k++)
        compared = compared || w->of[k] == &w->graphs->made->results.at[i];
    if (compared) w->got[i] = copy_of(w, &w->graphs->made->results.at[i], data);
    if (w->updates && dl_verify_updates_want(w->updates, i))
        dl_verify_updates_take(w->updates, i, data);
}

/* Runs the compiled graph's nodes as far as compared results depend on them. */
static bool run_made(whole *w, dl_error *err) {
    const dl_graph *g = w->graphs->made;
    bool *chosen = DL_NEWS(w->scratch, bool, g->results.n + 1), *compared = NULL;
    compared = DL_NEWS(w->scratch, bool, g->results.n + 1);
    w->got = DL_NEWS(w->scratch, double *, g->results.n + 1);
    for (int i = 0; i < w->graphs->written->results.n; i++)
        if (w->of[i]) compared[w->of[i] - g->results.at] = true;
    for (int i = 0; i < g->results.n; i++)
        chosen[i] = compared[i] || (w->updates && dl_verify_updates_want(w->updates, i));
    return dl_verify_interpret(g, chosen, &w->state, 0, 0, take_made, w, err);
}

static bool judge_all(whole *w, dl_error *err) {
    for (int i = 0; i < w->graphs->written->results.n; i++)
        if (w->of[i]) judge(w, i);
    if (!w->grads) return true;
    return dl_verify_gradients(w->arena, w->written, w->graphs->derived, w->grads, &w->state, w->v,
                               err) &&
           (!w->updates || dl_verify_updates_judge(w->arena, w->updates, w->v, err));
}

/* The last test: the step changes the variables. */
static bool run_program(whole *w, dlr_exec *exec, double *float32, dl_error *err) {
    const dl_graph *g = w->graphs->written;
    int program = dlr_exec_program(exec, g->name);
    if (program < 0) return dl_fail(err, DL_INPUT, "the plan has no program '%s'", g->name);
    dlr_exec_run(exec, program, NULL);
    for (int i = 0; i < g->results.n; i++)
        float32[i] = w->of[i] ? float32_error(w, exec, program, i) : NAN;
    return dlr_exec_check(exec, err);
}

static dl_reference_draw draw_of(dl_arena *arena, const dl_verify_state *s) {
    const double *seed = dl_verify_state_find(s, arena, DL_RANDOM_SEED, 0, 1),
                 *step = dl_verify_state_find(s, arena, DL_RANDOM_STEP, 0, 1);
    return (dl_reference_draw){seed ? (uint64_t)(int64_t)*seed : 0,
                               step ? (uint64_t)(int64_t)*step : 0, 0};
}

bool dl_verify_meaning(dl_arena *arena, const dl_verify_graphs *graphs, const dl_plan *plan,
                       const dl_verify_run *run, const dl_step_options *step_options, dl_verdict *v,
                       double *float32, dl_error *err) {
    dlr_exec *exec = dlr_exec_open(plan, run->exec, err);
    if (!exec || !run->fill(exec, run->user, err)) return dlr_exec_close(exec), false;
    whole w = {.arena = arena, .scratch = dl_arena_new(arena), .graphs = graphs, .v = v};
    w.state = dl_verify_state_of(exec);
    dl_reference_draw draw = draw_of(w.scratch, &w.state);
    w.written = dl_written_new(w.scratch, graphs->written, &draw);
    bool ok = pair(&w, err) && run_first(&w, run, err) && run_derived(&w, step_options, err) &&
              run_made(&w, err) && shake(&w, err) && judge_all(&w, err) &&
              run_program(&w, exec, float32, err);
    dl_written_free(w.written);
    dl_arena_free(w.scratch);
    dlr_exec_close(exec);
    return ok;
}
