/* Variables and results in double precision. */
#include "runtime/state.h"

#include "verify/parts.h"

dl_verify_state dl_verify_state_of(dl_arena *arena, dlr_exec *exec) {
    const dl_plan *p = dlr_exec_plan(exec);
    dl_verify_state s = {p, DL_NEWS(arena, double *, p->vars.n + 1)};
    dlr_exec_renew(exec);
    for (int i = 0; i < p->vars.n; i++) {
        dlr_view v = dlr_exec_variable(exec, p->vars.at[i].name);
        if (!v.type) continue;
        s.data[i] = DL_NEWS(arena, double, dl_type_count(v.type) + 1);
        dlr_state_read(exec, v, DL_F64, s.data[i]);
    }
    return s;
}

static int find(const dl_verify_state *s, const char *name) {
    for (int i = 0; i < s->plan->vars.n; i++)
        if (strcmp(s->plan->vars.at[i].name, name) == 0) return s->data[i] ? i : -1;
    return -1;
}

const double *dl_verify_state_find(const dl_verify_state *s, const char *name) {
    int i = find(s, name);
    return i < 0 ? NULL : s->data[i];
}

bool dl_verify_state_put(const dl_verify_state *s, dl_interp *in, const dl_graph *g, dl_error *err) {
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *var = g->vars.at[i]; /* nothing is rounded here: a copy is what it is made of */
        int at = find(s, var->role == DL_VAR_COPY ? var->of : var->name);
        double *to = dl_interp_data(in, &var->value);
        int64_t n = dl_type_count(&var->value.type);
        if (!to)
            return dl_fail(err, DL_RESOURCE, "no memory for the interpreter; verify a smaller --data_size");
        if (at < 0) continue;
        if (dl_type_count(&s->plan->vars.at[at].type) != n)
            return dl_fail(err, DL_INPUT, "variable '%s' has another size in graph '%s'", var->name, g->name);
        memcpy(to, s->data[at], sizeof *to * (size_t)n);
    }
    return true;
}

double **dl_verify_interpret(dl_arena *arena, const dl_graph *g, const dl_verify_state *s, double shake,
                             uint64_t seed, dl_error *err) {
    dl_interp *in = dl_interp_new(g, false);
    if (shake != 0) dl_interp_shake(in, shake, seed);
    dl_interp_release(in);
    bool ok = dl_verify_state_put(s, in, g, err) && dl_interp_run(in, err);
    double **results = ok ? DL_NEWS(arena, double *, g->results.n + 1) : NULL;
    for (int i = 0; ok && i < g->results.n; i++) {
        const dl_value *v = g->results.at[i].value;
        int64_t n = dl_type_count(&v->type);
        results[i] = DL_NEWS(arena, double, n + 1);
        memcpy(results[i], dl_interp_data(in, v), sizeof(double) * (size_t)n);
    }
    dl_interp_free(in);
    return results;
}
