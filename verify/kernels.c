#include <math.h>
#include <stdlib.h>

#include "ir/interp.h"
#include "runtime/state.h"
#include "verify/verify.h"

/* ---- one tensor ---- */

static bool is_whole(double low, double high) { return low == -INFINITY && high == INFINITY; }

/* How far outside, in widths of what is allowed on that side; at most 1 is inside. */
static double excess(double got, double want, double low, double high) {
    if (isnan(got)) return isnan(want) || is_whole(low, high) ? 0 : INFINITY;
    if (got == want) return 0;
    if (!(got >= low && got <= high)) {
        double part = got < low ? (want - got) / (want - low) : (got - want) / (high - want);
        return part > 1 ? part : INFINITY; /* no width, or no number */
    }
    double part = got < want ? (want - got) / (want - low) : (got - want) / (high - want);
    return part <= 1 ? part : 0; /* infinite ends */
}

static const char *place_of(dl_arena *arena, const dl_type *t, int64_t number) {
    dl_buf b = {0};
    int64_t at[DL_MAX_RANK];
    for (int i = t->rank - 1; i >= 0; i--) at[i] = number % t->axis[i].size, number /= t->axis[i].size;
    for (int i = 0; i < t->rank; i++)
        dl_putf(&b, "%s%s=%lld", i ? ", " : " at [", t->axis[i].name, (long long)at[i]);
    if (t->rank) dl_puts(&b, "]");
    const char *s = dl_strdup(arena, b.at ? b.at : "");
    dl_buf_free(&b);
    return s;
}

void dl_verify_tensor(dl_arena *arena, dl_verdict *v, const char *what, const char *where,
                      const dl_type *type, const double *got, const double *want, const double *low,
                      const double *high) {
    int64_t count = dl_type_count(type), worst = 0, outside = 0;
    double most = -1;
    for (int64_t i = 0; i < count; i++) {
        double e = excess(got[i], want[i], low[i], high[i]);
        outside += e > 1;
        if (e > most) most = e, worst = i;
    }
    v->compared++;
    if (most > v->worst) v->worst = most, v->worst_of = dl_strdup(arena, what);
    if (!outside) return;
    char *fault = dl_format(arena,
                            "%s: %.9g%s, where %.9g was expected, between %.9g and %.9g; %lld of %lld "
                            "elements are off%s",
                            what, got[worst], place_of(arena, type, worst), want[worst], low[worst],
                            high[worst], (long long)outside, (long long)count, where);
    dl_push(arena, &v->faults, fault);
}

/* ---- one program, launch by launch ---- */

typedef struct {
    dl_arena *arena;
    const dl_graph *g;
    dlr_exec *exec;
    dl_interp *in;
    dl_verdict *v;
    dl_error *err;
    bool overrun; /* a kernel wrote where it may not: nothing behind it is judged */
} session;

static double *doubles(session *s, int64_t count) {
    double *d = calloc(count ? (size_t)count : 1, sizeof *d);
    if (!d)
        dl_fail(s->err, DL_RESOURCE, "no memory for a tensor of %lld elements; verify a smaller --data_size",
                (long long)count);
    return d;
}

static double *data_of(session *s, const dl_value *v) {
    double *d = dl_interp_data(s->in, v);
    if (!d)
        dl_fail(s->err, DL_RESOURCE, "no memory for %s in the interpreter; verify a smaller --data_size",
                dl_type_text(&v->type));
    return d;
}

static void read_at(const session *s, const dl_type *type, int64_t offset, double *to) {
    dlr_state_read(s->exec, (dlr_view){.type = type, .offset = offset}, DL_F64, to);
}

/* The same plan with every launch of one program as a program of its own. */
static dl_plan *split(dl_arena *arena, const dl_plan *p, const dl_plan_program *from) {
    dl_plan *q = DL_NEW(arena, dl_plan);
    *q = *p;
    memset(&q->programs, 0, sizeof q->programs);
    for (int i = 0; i < from->launches.n; i++) {
        dl_plan_program one = {.name = dl_format(arena, "%s.%d", from->name, i)};
        dl_push(arena, &one.launches, from->launches.at[i]);
        dl_push(arena, &q->programs, one);
    }
    return q;
}

/* What lies at `offset` must be, to the bit, what the interpreter was told of `v`; takes it over when it is
 * not. */
static bool check_unchanged(session *s, const dl_value *v, int64_t offset, const char *what,
                            const char *where) {
    int64_t count = dl_type_count(&v->type);
    double *known = data_of(s, v), *now = known ? doubles(s, count) : NULL;
    if (!now) return false;
    read_at(s, &v->type, offset, now);
    if (memcmp(known, now, sizeof *now * (size_t)count) != 0) {
        char *fault = dl_format(s->arena, "%s is no longer what was stored there%s", what, where);
        dl_push(s->arena, &s->v->faults, fault);
        memcpy(known, now, sizeof *now * (size_t)count);
    }
    free(now);
    return true;
}

/* What one launch stored, and the ends of what it may store. */
typedef struct {
    double **got, **low, **high;
} outcome;

static bool is_inside(session *s, const dl_node *n, const outcome *o) {
    for (int k = 0; k < n->nout; k++) {
        int64_t count = dl_type_count(&n->out[k].type);
        const double *want = data_of(s, &n->out[k]);
        for (int64_t i = 0; i < count; i++)
            if (excess(o->got[k][i], want[i], o->low[k][i], o->high[k][i]) > 1) return false;
    }
    return true;
}

/* The interpreter's results and their ranges. Contractions are summed once more in float32, which costs most,
 * only where the narrower ranges without it do not suffice. */
static bool find_ranges(session *s, const dl_node *n, const outcome *o) {
    dl_interp_ranges to = {o->low, o->high, false};
    if (!dl_interp_node_ranges(s->in, n, &to, s->err)) return false;
    bool contracts = false;
    for (int i = 0; i < n->kernel->instrs.n; i++) contracts |= n->kernel->instrs.at[i].kind == DL_K_CONTRACT;
    if (!contracts || is_inside(s, n, o)) return true;
    to.chain = true;
    return dl_interp_node_ranges(s->in, n, &to, s->err);
}

static bool compare_results(session *s, const dl_node *n, const outcome *o, const char *where) {
    if (!find_ranges(s, n, o)) return false;
    for (int k = 0; k < n->nout; k++) {
        const dl_type *type = &n->out[k].type;
        double *want = data_of(s, &n->out[k]);
        const char *what = dl_format(s->arena, "@%s result %d %s", n->kernel->name, k, dl_type_text(type));
        dl_verify_tensor(s->arena, s->v, what, where, type, o->got[k], want, o->low[k], o->high[k]);
        /* The launches behind it start from there. */
        memcpy(want, o->got[k], sizeof *want * (size_t)dl_type_count(type));
    }
    return true;
}

/* Has the device failed? A kernel that wrote where it may not is a fault of the plan. */
static bool is_sound(session *s) {
    dl_error err = {0};
    if (dlr_exec_check(s->exec, &err)) return true;
    const char *kernel = strstr(err.message, "kernel '");
    if (err.code != DL_INTERNAL || !kernel || !strstr(kernel, " wrote "))
        return dl_fail(s->err, err.code, "%s", err.message);
    char *fault = dl_format(s->arena, "%s", kernel);
    dl_push(s->arena, &s->v->faults, fault);
    s->overrun = true;
    return false;
}

static bool verify_launch(session *s, int number) {
    const dl_node *n = s->g->nodes.at[number];
    const char *where = n->loc.file ? dl_format(s->arena, " (%s:%d)", n->loc.file, n->loc.line) : "";
    bool ok = true;
    for (int k = 0; ok && k < n->nin; k++)
        ok = check_unchanged(s, n->in[k], n->in[k]->offset,
                             dl_format(s->arena, "@%s operand %d", n->kernel->name, k), where);
    if (!ok) return false;
    dlr_exec_run(s->exec, number, NULL);
    outcome o = {DL_NEWS(s->arena, double *, n->nout), DL_NEWS(s->arena, double *, n->nout),
                 DL_NEWS(s->arena, double *, n->nout)};
    for (int k = 0; ok && k < n->nout; k++) {
        const dl_type *type = &n->out[k].type;
        int64_t count = dl_type_count(type);
        ok = (o.got[k] = doubles(s, count)) && (o.low[k] = doubles(s, count)) &&
             (o.high[k] = doubles(s, count));
        if (ok) read_at(s, type, n->out[k].offset, o.got[k]);
    }
    ok = ok && is_sound(s) && compare_results(s, n, &o, where);
    for (int k = 0; k < n->nout; k++) free(o.got[k]), free(o.low[k]), free(o.high[k]);
    s->v->judged.kernels += ok;
    return ok;
}

static bool load_variables(session *s) {
    dlr_exec_renew(s->exec); /* parameters that are kept in 16 bits, too */
    for (int i = 0; i < s->g->vars.n; i++) {
        const dl_value *v = &s->g->vars.at[i]->value;
        dlr_view view = dlr_exec_variable(s->exec, s->g->vars.at[i]->name);
        double *to = data_of(s, v);
        if (!to) return false;
        if (view.type) dlr_state_read(s->exec, view, DL_F64, to);
    }
    return true;
}

static bool check_results(session *s, const dl_plan_program *program) {
    for (int i = 0; i < program->results.n; i++) {
        const dl_plan_result *r = &program->results.at[i];
        const dl_result *of = dl_graph_find_result(s->g, r->role, r->name);
        if (!of) return dl_fail(s->err, DL_INPUT, "graph '%s' has no result '%s'", s->g->name, r->name);
        const char *what = dl_format(s->arena, "%s '%s'", dl_result_roles[r->role], r->name);
        if (!check_unchanged(s, of->value, r->offset, what, " (at the program's end)")) return false;
    }
    return true;
}

bool dl_verify_kernels(dl_arena *arena, const dl_graph *g, const dl_plan *plan, const dl_verify_run *run,
                       dl_verdict *v, dl_error *err) {
    const dl_plan_program *program = dl_plan_program_find(plan, g->name);
    if (!program || program->launches.n != g->nodes.n)
        return dl_fail(err, DL_INPUT, "the plan has no program of the launches of graph '%s'", g->name);
    session s = {.arena = arena, .g = g, .v = v, .err = err};
    dlr_exec_options guarded = run->exec;
    guarded.guards = true;
    s.exec = dlr_exec_open(split(arena, plan, program), guarded, err);
    s.in = s.exec ? dl_interp_new(g, true) : NULL;
    bool ok = s.in && run->fill(s.exec, run->user, err) && load_variables(&s);
    for (int i = 0; ok && i < g->nodes.n; i++) ok = verify_launch(&s, i);
    ok = ok && check_results(&s, program);
    if (s.exec) v->judged.guards += (int)dlr_exec_zones(s.exec);
    if (s.overrun) {
        char *why = dl_format(arena, "kernels of '%s' behind the one that wrote where it may not", g->name);
        dl_push(arena, &v->skipped, why);
        ok = true;
    }
    dl_interp_free(s.in);
    dlr_exec_close(s.exec);
    return ok;
}
