/* The model as a whole. Passes may reorder sums and fold constants, and fold them in float32: what that does
 * to a result depends on how it is conditioned, which is measured. Every value of the graph as written is
 * moved up or down by SHAKE of its size, four times float32's unit roundoff, in up to RUNS runs; what the
 * results move by is what folding may do to them. A further run can only allow more: none is made when
 * everything already is allowed. */
#include <math.h>
#include <stdlib.h>

#include "ir/base/philox.h"
#include "runtime/state.h"
#include "verify/parts.h"

static const double SHAKE = 0x1p-22;
static const double ULPS = 0x1p-43; /* of a result's size: sums of doubles in another order */
enum { RUNS = 3, ALLOWED = 4 /* times the largest that was seen: few runs may see little */ };

typedef struct {
    dl_arena *arena, *scratch;
    const dl_verify_graphs *graphs;
    const dl_result **of; /* by result of `written`: the one of `made` that must agree; NULL: none */
    dl_written *written;
    dl_verify_state state;
    double **want, **got; /* by result of `written`, of `made` */
    double *moved;        /* by result of `written` */
    dl_verdict *v;
} whole;

/* The results of a run of the graph as written, each op by its own meaning. */
static double **run_written(whole *w, double shake, uint64_t seed, dl_error *err) {
    const dl_graph *g = w->graphs->written;
    dl_interp *in = w->written->in;
    dl_interp_shake(in, shake, seed);
    bool ok = dl_verify_state_put(&w->state, in, g, err) && dl_written_run(w->written, err);
    dl_interp_shake(in, 0, 0);
    double **results = ok ? DL_NEWS(w->scratch, double *, g->results.n + 1) : NULL;
    for (int i = 0; ok && i < g->results.n; i++) {
        const dl_value *v = g->results.at[i].value;
        int64_t n = dl_type_count(&v->type);
        results[i] = DL_NEWS(w->scratch, double, n + 1);
        memcpy(results[i], dl_interp_data(in, v), sizeof(double) * (size_t)n);
    }
    return results;
}

/* The part that result i may be off of what it is off. */
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

/* The mean of no samples is no number, rightly. */
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
    double off = dl_verify_distance(want, got, n), size = dl_verify_norm(want, n), part = part_of(w, i);
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
    char *fault =
        dl_format(w->arena,
                  "%s '%s' of the kernels is not that of the model as written: relative distance %.2e in "
                  "double precision, where rounding explains %.2e",
                  dl_result_roles[r->role], r->name, off / size, ALLOWED * w->moved[i] / size);
    dl_push(w->arena, &v->faults, fault);
}

/* Relative error of the compiled program's result. */
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

/* What must agree: all but gradients, which the graph as written has not. */
static bool pair(whole *w, dl_error *err) {
    const dl_graph *written = w->graphs->written, *made = w->graphs->made;
    w->of = DL_NEWS(w->scratch, const dl_result *, written->results.n + 1);
    for (int i = 0; i < written->results.n; i++) {
        const dl_result *r = &written->results.at[i];
        if (r->role == DL_RESULT_GRAD) continue;
        w->of[i] = dl_graph_find_result(made, r->role, r->name);
        if (w->of[i] && dl_type_count(&w->of[i]->value->type) == dl_type_count(&r->value->type)) continue;
        return dl_fail(err, DL_INPUT, "graph '%s' has no %s '%s' of that size", made->name,
                       dl_result_roles[r->role], r->name);
    }
    return true;
}

/* By result: how far it moves when every value of the graph as written is shaken. */
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
            double d =
                dl_verify_distance(w->want[i], shaken[i], dl_type_count(&g->results.at[i].value->type));
            if (isfinite(d)) w->moved[i] = fmax(w->moved[i], d);
        }
    }
    return true;
}

/* Each op of the graph by itself, on what reaches it in the first run. */
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

/* Some twenty runs of the model, each in double and on one thread. */
static bool is_too_large(whole *w) {
    static const double MOST = 1e9;
    double cost = dl_verify_run_cost(w->graphs->written);
    if (cost <= MOST) return false;
    char *why = dl_format(w->arena,
                          "gradients and updates of the whole model, of which a run computes %.0e products "
                          "(each op's gradient is, and the optimiser on a small model): verify a smaller "
                          "batch or --data_size",
                          cost);
    dl_push(w->arena, &w->v->skipped, why);
    return true;
}

static bool judge_training(whole *w, const dl_recipe *recipe, dl_error *err) {
    const dl_verify_graphs *g = w->graphs;
    if (is_too_large(w)) return true;
    double **grads = dl_verify_interpret(w->scratch, g->derived, &w->state, 0, 0, err);
    if (!grads || !dl_verify_gradients(w->arena, w->written, g->derived, grads, &w->state, w->v, err))
        return false;
    return !recipe || recipe->optimizer == DL_OPT_NONE ||
           dl_verify_model_updates(w->arena, g, w->got, grads, &w->state, recipe, w->v, err);
}

static bool run_program(whole *w, dlr_exec *exec, double *float32, dl_error *err) {
    const dl_graph *g = w->graphs->written;
    int program = dlr_exec_program(exec, g->name);
    if (program < 0) return dl_fail(err, DL_INPUT, "the plan has no program '%s'", g->name);
    dlr_exec_run(exec, program, NULL);
    for (int i = 0; i < g->results.n; i++) {
        float32[i] = NAN;
        if (!w->of[i]) continue;
        judge(w, i);
        float32[i] = float32_error(w, exec, program, i);
    }
    return dlr_exec_check(exec, err);
}

static dl_reference_draw draw_of(const dl_verify_state *s) {
    const double *seed = dl_verify_state_find(s, DL_RANDOM_SEED),
                 *step = dl_verify_state_find(s, DL_RANDOM_STEP);
    return (dl_reference_draw){seed ? (uint64_t)(int64_t)*seed : 0, step ? (uint64_t)(int64_t)*step : 0, 0};
}

bool dl_verify_meaning(dl_arena *arena, const dl_verify_graphs *graphs, const dl_plan *plan,
                       const dl_verify_run *run, const dl_recipe *recipe, dl_verdict *v, double *float32,
                       dl_error *err) {
    dlr_exec *exec = dlr_exec_open(plan, run->exec, err);
    if (!exec || !run->fill(exec, run->user, err)) return dlr_exec_close(exec), false;
    whole w = {.arena = arena, .scratch = dl_arena_new(arena), .graphs = graphs, .v = v};
    w.state = dl_verify_state_of(w.scratch, exec);
    dl_reference_draw draw = draw_of(&w.state);
    w.written = dl_written_new(w.scratch, graphs->written, &draw);
    bool ok = pair(&w, err) && run_first(&w, run, err) &&
              (w.got = dl_verify_interpret(w.scratch, graphs->made, &w.state, 0, 0, err)) && shake(&w, err) &&
              run_program(&w, exec, float32, err) && (!graphs->derived || judge_training(&w, recipe, err));
    dl_written_free(w.written);
    dl_arena_free(w.scratch);
    dlr_exec_close(exec);
    return ok;
}
