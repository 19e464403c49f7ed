/* Passes may reorder sums and fold constants, and fold them in float32: what that does to a result depends on
 * how it is conditioned, which is measured. Every value of the graph as written is moved up or down by SHAKE
 * of its size, four times float32's unit roundoff, in up to RUNS runs; what the results move by is what
 * folding may do to them. A further run can only allow more: none is made when everything already is allowed.
 */
#include <math.h>
#include <stdlib.h>

#include "ir/interp.h"
#include "runtime/state.h"
#include "verify/verify.h"

static const double SHAKE = 0x1p-22;
enum { RUNS = 3, ALLOWED = 4 /* times the largest that was seen: few runs may see little */ };

/* The results of a run of g from the executor's variables, in g's order; nothing else of the run is kept. */
static double **interpret(dl_arena *arena, const dl_graph *g, dlr_exec *exec, double shake, uint64_t seed,
                          dl_error *err) {
    dl_interp *in = dl_interp_new(g, false);
    if (shake != 0) dl_interp_shake(in, shake, seed);
    dl_interp_release(in);
    bool ok = true;
    for (int i = 0; ok && i < g->vars.n; i++) {
        const dl_var *var = g->vars.at[i]; /* nothing is rounded here: a copy is what it is made of */
        dlr_view v = dlr_exec_variable(exec, var->role == DL_VAR_COPY ? var->of : var->name);
        double *to = dl_interp_data(in, &var->value);
        ok = to || dl_fail(err, DL_RESOURCE, "no memory for the interpreter; verify a smaller --data_size");
        if (ok && v.type) dlr_state_read(exec, v, DL_F64, to);
    }
    ok = ok && dl_interp_run(in, err);
    double **results = DL_NEWS(arena, double *, g->results.n + 1);
    for (int i = 0; ok && i < g->results.n; i++) {
        const dl_value *v = g->results.at[i].value;
        int64_t n = dl_type_count(&v->type);
        results[i] = DL_NEWS(arena, double, n + 1);
        memcpy(results[i], dl_interp_data(in, v), sizeof(double) * (size_t)n);
    }
    dl_interp_free(in);
    return ok ? results : NULL;
}

/* ||a - b||; what is infinite or not a number in both the same way does not count. */
static double distance(const double *a, const double *b, int64_t n) {
    double d = 0;
    for (int64_t i = 0; i < n; i++)
        if (a[i] != b[i] && !(isnan(a[i]) && isnan(b[i]))) d += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(d);
}

static bool is_judged(const dl_result *r) { return r->role != DL_RESULT_UPDATE && r->role != DL_RESULT_GRAD; }

/* The part that `off` is of what a result that moved by that much may be off. */
static double part_of(double off, double moved) { return off == 0 ? 0 : off / (ALLOWED * moved); }

static bool is_anywhere_finite(const double *a, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (isfinite(a[i])) return true;
    return n == 0;
}

static void judge(dl_arena *arena, const dl_result *r, const double *want, const double *got, double moved,
                  dl_verdict *v) {
    int64_t n = dl_type_count(&r->value->type);
    double off = distance(want, got, n), size = 0;
    for (int64_t i = 0; i < n; i++) size += isfinite(want[i]) ? want[i] * want[i] : 0;
    double part = part_of(off, moved);
    v->compared++;
    if (!is_anywhere_finite(want, n) && !is_anywhere_finite(got, n)) {
        char *nothing = dl_format(arena, "%s '%s' is nowhere finite: nothing to compare",
                                  dl_result_roles[r->role], r->name);
        dl_push(arena, &v->faults, nothing);
        return;
    }
    if (part > v->worst) v->worst = part, v->worst_of = r->name;
    if (part <= 1) return;
    char *fault =
        dl_format(arena,
                  "%s '%s' of the kernels is not that of the model as written: relative distance %.2e in "
                  "double precision, where rounding explains %.2e",
                  dl_result_roles[r->role], r->name, off / sqrt(size), ALLOWED * moved / sqrt(size));
    dl_push(arena, &v->faults, fault);
}

/* Relative error of the compiled program's result. */
static double float32_error(dl_arena *arena, dlr_exec *exec, int program, const dl_result *r,
                            const double *want) {
    dlr_view view = dlr_exec_result(exec, program, r->role, r->name);
    int64_t n = dl_type_count(&r->value->type);
    if (!view.type || dl_type_count(view.type) != n) return NAN;
    double *got = DL_NEWS(arena, double, n), size = 0;
    dlr_state_read(exec, view, DL_F64, got);
    for (int64_t i = 0; i < n; i++) size += isfinite(want[i]) ? want[i] * want[i] : 0;
    double d = distance(got, want, n);
    if (!is_anywhere_finite(want, n)) return NAN;
    return d == 0 ? 0 : d / sqrt(size);
}

/* By result of `written`: the one of g that it must agree with, NULL where nothing is judged. */
static const dl_result **pair(dl_arena *arena, const dl_graph *written, const dl_graph *g, dl_error *err) {
    const dl_result **of = DL_NEWS(arena, const dl_result *, written->results.n + 1);
    for (int i = 0; i < written->results.n; i++) {
        const dl_result *r = &written->results.at[i];
        if (!is_judged(r)) continue;
        of[i] = dl_graph_find_result(g, r->role, r->name);
        if (of[i] && dl_type_count(&of[i]->value->type) == dl_type_count(&r->value->type)) continue;
        return dl_fail(err, DL_INPUT, "graph '%s' has no result '%s' of that size", g->name, r->name), NULL;
    }
    return of;
}

/* By result: how far it moves when every value of the graph as written is shaken. */
static double *shake(dl_arena *arena, const dl_graph *written, const dl_graph *g, dlr_exec *exec,
                     const dl_result *const *of, double *const *want, double *const *got, dl_error *err) {
    double *moved = DL_NEWS(arena, double, written->results.n + 1);
    for (int run = 0; run <= RUNS; run++) {
        bool open = false;
        for (int i = 0; i < written->results.n; i++) {
            const dl_value *v = written->results.at[i].value;
            if (!of[i]) continue;
            double off = distance(want[i], got[of[i] - g->results.at], dl_type_count(&v->type));
            open |= !(part_of(off, moved[i]) <= 1);
        }
        if (!open || run == RUNS) break;
        double **shaken = interpret(arena, written, exec, SHAKE, (uint64_t)run + 1, err);
        if (!shaken) return NULL;
        for (int i = 0; i < written->results.n; i++)
            if (of[i])
                moved[i] = fmax(moved[i], distance(want[i], shaken[i],
                                                   dl_type_count(&written->results.at[i].value->type)));
    }
    return moved;
}

bool dl_verify_meaning(dl_arena *arena, const dl_graph *written, const dl_graph *g, const dl_plan *plan,
                       const dl_verify_run *run, dl_verdict *v, double *float32, dl_error *err) {
    dlr_exec *exec = dlr_exec_open(plan, run->exec, err);
    if (!exec || !run->fill(exec, run->user, err)) return dlr_exec_close(exec), false;
    dlr_exec_renew(exec);
    dl_arena *scratch = dl_arena_new(arena);
    const dl_result **of = pair(scratch, written, g, err);
    double **want = of ? interpret(scratch, written, exec, 0, 0, err) : NULL;
    double **got = want ? interpret(scratch, g, exec, 0, 0, err) : NULL;
    double *moved = got ? shake(scratch, written, g, exec, of, want, got, err) : NULL;
    int program = dlr_exec_program(exec, written->name);
    bool ok =
        moved && (program >= 0 || dl_fail(err, DL_INPUT, "the plan has no program '%s'", written->name));
    if (ok) dlr_exec_run(exec, program, NULL);
    for (int i = 0; ok && i < written->results.n; i++) {
        const dl_result *r = &written->results.at[i];
        float32[i] = NAN;
        if (!of[i]) continue;
        judge(arena, r, want[i], got[of[i] - g->results.at], moved[i], v);
        float32[i] = float32_error(scratch, exec, program, r, want[i]);
    }
    ok = ok && dlr_exec_check(exec, err);
    dl_arena_free(scratch);
    dlr_exec_close(exec);
    return ok;
}
