/* Variables and results in double precision. */
#include "runtime/exec/state.h"
#include "runtime/exec/exec.h"

#include "verify/parts.h"

dl_verify_state dl_verify_state_of(dlr_exec *exec) {
    dlr_exec_refresh_copies(exec);
    return (dl_verify_state){dlr_exec_plan(exec), exec};
}

/* A COPY has the parameter's values, without rounding. */
static const char *name_of(const dl_var *var) {
    return var->role == DL_VAR_COPY ? var->of : var->name;
}

bool dl_verify_state_fits(const dl_verify_state *s, const dl_graph *g, dl_error *err) {
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *var = g->vars.at[i];
        dlr_view v = dlr_exec_variable(s->exec, name_of(var));
        if (v.type && dl_type_count(v.type) != dl_type_count(&var->value.type))
            return dl_fail(err, DL_INPUT, "variable '%s' has another size in graph '%s'", var->name,
                           g->name);
    }
    return true;
}

const double *dl_verify_state_find(const dl_verify_state *s, dl_arena *arena, const char *name,
                                   int64_t first, int64_t n) {
    dlr_view v = dlr_exec_variable(s->exec, name);
    if (!v.type || first + n > dl_type_count(v.type)) return NULL;
    double *data = DL_NEWS(arena, double, n + 1);
    dlr_state_read_range(s->exec, v, (dlr_range){first, n}, DL_F64, data);
    return data;
}

void dl_verify_state_read(const dl_verify_state *s, const dl_var *var, double *to) {
    dlr_view v = dlr_exec_variable(s->exec, name_of(var));
    if (v.type) dlr_state_read(s->exec, v, DL_F64, to);
}

typedef struct {
    const dl_graph *g;
    const bool *chosen;
    const dl_verify_state *s;
    dl_verify_take *take;
    void *user;
} taker;

static void read_variable(void *user, const dl_value *v, double *to) {
    dl_verify_state_read(((const taker *)user)->s, v->var, to);
}

static void take_value(void *user, const dl_value *v, const double *data) {
    const taker *t = user;
    for (int i = 0; i < t->g->results.n; i++)
        if (t->g->results.at[i].value == v && (!t->chosen || t->chosen[i]))
            t->take(t->user, i, data);
}

bool dl_verify_interpret(const dl_graph *g, const bool *chosen, const dl_verify_state *s,
                         double shake, uint64_t seed, dl_verify_take *take, void *user,
                         dl_error *err) {
    dl_arena *scratch = dl_arena_new(NULL);
    dl_graph part = *g; /* with the chosen results, so that nothing else runs */
    memset(&part.results, 0, sizeof part.results);
    for (int i = 0; i < g->results.n; i++)
        if (!chosen || chosen[i]) dl_push(scratch, &part.results, g->results.at[i]);
    taker t = {g, chosen, s, take, user};
    dl_interp *in = dl_interp_new(&part, false);
    if (shake != 0) dl_interp_shake(in, shake, seed);
    dl_interp_stream(in, read_variable, take_value, &t);
    bool ok = dl_verify_state_fits(s, g, err) && dl_interp_run(in, err);
    dl_interp_free(in);
    dl_arena_free(scratch);
    return ok;
}
