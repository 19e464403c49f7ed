/* Compares every launch of a program with the interpreter on the same operands. */
#include <math.h>
#include <stdlib.h>

#include "ir/body.h"
#include "ir/interp/interp.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/state.h"
#include "verify/verify.h"

/* ---- one tensor ---- */

static bool is_whole(double low, double high) { return low == -INFINITY && high == INFINITY; }

/* The distance outside the range, in widths of what is allowed on that side; at most 1 is inside.
 */
static double excess(double got, double want, double low, double high) {
    if (isnan(got)) return isnan(want) || is_whole(low, high) ? 0 : INFINITY;
    if (got == want) return 0;
    if (!(got >= low && got <= high)) {
        double part = got < low ? (want - got) / (want - low) : (got - want) / (high - want);
        return part > 1 ? part : INFINITY; /* without a width, or NaN */
    }
    double part = got < want ? (want - got) / (want - low) : (got - want) / (high - want);
    return part <= 1 ? part : 0; /* infinite ends */
}

static const char *place_of(dl_arena *arena, const dl_type *t, int64_t number) {
    dl_buf b = {0};
    int64_t at[DL_MAX_RANK];
    for (int i = t->rank - 1; i >= 0; i--)
        at[i] = number % t->axis[i].size, number /= t->axis[i].size;
    for (int i = 0; i < t->rank; i++)
        dl_putf(&b, "%s%s=%lld", i ? ", " : " at [", t->axis[i].name, (long long)at[i]);
    if (t->rank) dl_puts(&b, "]");
    const char *s = dl_strdup(arena, b.at ? b.at : "");
    dl_buf_free(&b);
    return s;
}

/* The judged elements of one tensor, and the one furthest outside. */
typedef struct {
    double most, got, want, low, high;
    int64_t worst, outside;
} tally;
static const tally no_tally = {.most = -1};

static void judge_element(tally *t, int64_t element, double got, double want, double low,
                          double high) {
    double e = excess(got, want, low, high);
    t->outside += e > 1;
    if (e <= t->most) return;
    t->most = e, t->worst = element;
    t->got = got, t->want = want, t->low = low, t->high = high;
}

static void report(dl_arena *arena, dl_verdict *v, const char *what, const char *where,
                   const dl_type *type, const tally *t) {
    v->compared++;
    if (t->most > v->worst) v->worst = t->most, v->worst_of = dl_strdup(arena, what);
    if (!t->outside) return;
    char *fault =
        dl_format(arena,
                  "%s: %.9g%s, where %.9g was expected, between %.9g and %.9g; %lld of %lld "
                  "elements are off%s",
                  what, t->got, place_of(arena, type, t->worst), t->want, t->low, t->high,
                  (long long)t->outside, (long long)dl_type_count(type), where);
    dl_push(arena, &v->faults, fault);
}

void dl_verify_tensor(dl_arena *arena, dl_verdict *v, const char *what, const char *where,
                      const dl_type *type, const double *got, const double *want, const double *low,
                      const double *high) {
    tally t = no_tally;
    for (int64_t i = 0; i < dl_type_count(type); i++)
        judge_element(&t, i, got[i], want[i], low[i], high[i]);
    report(arena, v, what, where, type, &t);
}

/* ---- one program, launch by launch ---- */

/* Only a hash of each stored value is kept. A launch's operands and results are read from the
 * executor's memory during that launch. */
typedef struct {
    dl_arena *arena;
    const dl_graph *g;
    dlr_exec *exec;
    dl_interp *in;
    dl_verdict *v;
    dl_error *err;
    uint64_t *stored; /* by value: the hash of its elements as doubles */
    double *block;    /* BLOCK of them */
    const dl_plan_program *program;
    bool inner;   /* g is a scan's body, whose variables differ from step to step */
    bool overrun; /* a kernel wrote outside its memory: later launches are not judged */
} session;
enum { BLOCK = 1 << 20 };

static double *data_of(session *s, const dl_value *v) {
    double *d = dl_interp_data(s->in, v);
    if (!d)
        dl_fail(s->err, DL_RESOURCE,
                "no memory for %s in the interpreter; verify a smaller --data_size",
                dl_type_text(&v->type));
    return d;
}

/* Adds the bits of a number to the hash. */
static uint64_t hash_on(uint64_t hash, double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    hash = (hash ^ bits) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static uint64_t hash_of(const double *data, int64_t count) {
    uint64_t hash = 0;
    for (int64_t i = 0; i < count; i++) hash = hash_on(hash, data[i]);
    return hash;
}

/* The hash of a tensor in memory, block by block. */
static uint64_t hash_at(session *s, const dl_type *type, int64_t offset) {
    dlr_view view = {.type = type, .offset = offset};
    uint64_t hash = 0;
    for (int64_t i = 0, count = dl_type_count(type); i < count; i += BLOCK) {
        dlr_range range = {i, count - i < BLOCK ? count - i : BLOCK};
        dlr_state_read_range(s->exec, view, range, DL_F64, s->block);
        for (int64_t k = 0; k < range.n; k++) hash = hash_on(hash, s->block[k]);
    }
    return hash;
}

static void read_at(const session *s, const dl_type *type, int64_t offset, double *to) {
    dlr_state_read(s->exec, (dlr_view){.type = type, .offset = offset}, DL_F64, to);
}

/* A copy of the plan in which every launch of one program is a program of its own. */
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

/* Checks that a value's memory has exactly the bits that were stored; takes the new value over
 * when it has not. */
static void check_unchanged(session *s, const dl_value *v, uint64_t now, const char *what,
                            const char *where) {
    if (now == s->stored[v->id]) return;
    char *fault = dl_format(s->arena, "%s is no longer what was stored there%s", what, where);
    dl_push(s->arena, &s->v->faults, fault);
    s->stored[v->id] = now;
}

static bool load_operands(session *s, const dl_node *n, const int64_t *args, const char *where) {
    for (int k = 0; k < n->nin; k++) {
        double *x = data_of(s, n->in[k]);
        if (!x) return false;
        read_at(s, &n->in[k]->type, args[k], x);
        if (s->inner && (n->in[k]->var || n->in[k]->def->body)) continue;
        const char *what = dl_format(s->arena, "@%s operand %d", n->kernel->name, k);
        check_unchanged(s, n->in[k], hash_of(x, dl_type_count(&n->in[k]->type)), what, where);
    }
    return true;
}

/* Results of a launch: as float32 where all numbers fit, otherwise in double precision. */
typedef struct {
    float **narrow;
    double **wide;
    tally *tallies;
} stored;

static stored new_stored(dl_arena *arena, const dl_node *n) {
    return (stored){DL_NEWS(arena, float *, n->nout + 1), DL_NEWS(arena, double *, n->nout + 1),
                    DL_NEWS(arena, tally, n->nout + 1)};
}

static void free_stored(const stored *o, const dl_node *n) {
    for (int k = 0; k < n->nout; k++) free(o->narrow[k]), free(o->wide[k]);
}

static bool load_results(session *s, const dl_node *n, const int64_t *args, stored *o) {
    for (int k = 0; k < n->nout; k++) {
        const dl_type *t = &n->out[k].type;
        int64_t count = dl_type_count(t);
        bool narrow = t->dtype == DL_F32 || dl_dtype_is_half(t->dtype);
        void *to = malloc((narrow ? sizeof **o->narrow : sizeof **o->wide) * (size_t)(count + 1));
        if (!to)
            return dl_fail(s->err, DL_RESOURCE, "no memory for %s; verify a smaller --data_size",
                           dl_type_text(t));
        if (narrow)
            o->narrow[k] = to;
        else
            o->wide[k] = to;
        dlr_view view = {.type = t, .offset = args[n->nin + k]};
        dlr_state_read(s->exec, view, narrow ? DL_F32 : DL_F64, to);
        uint64_t hash = 0;
        for (int64_t i = 0; i < count; i++)
            hash = hash_on(hash, narrow ? (double)o->narrow[k][i] : o->wide[k][i]);
        s->stored[n->out[k].id] = hash;
    }
    return true;
}

static void judge_stored(void *user, int k, int64_t element, double at, double low, double high) {
    stored *o = user;
    double got = o->narrow[k] ? (double)o->narrow[k][element] : o->wide[k][element];
    judge_element(&o->tallies[k], element, got, at, low, high);
}

/* Compares each element with its range. The sums of contractions in float32, which are expensive,
 * are only computed where the narrower ranges without them do not suffice. */
static bool compare_results(session *s, const dl_node *n, stored *o, const char *where) {
    bool contracts = false, outside = true;
    for (int i = 0; i < n->kernel->instrs.n; i++)
        contracts |= n->kernel->instrs.at[i].kind == DL_K_CONTRACT;
    for (int chain = 0; chain <= contracts && outside; chain++) {
        for (int k = 0; k < n->nout; k++) o->tallies[k] = no_tally;
        if (!dl_interp_node_ranges(s->in, n, &(dl_interp_ranges){judge_stored, o, chain}, s->err))
            return false;
        outside = false;
        for (int k = 0; k < n->nout; k++) outside |= o->tallies[k].outside > 0;
    }
    for (int k = 0; k < n->nout; k++) {
        const dl_type *type = &n->out[k].type;
        const char *what =
            dl_format(s->arena, "@%s result %d %s", n->kernel->name, k, dl_type_text(type));
        report(s->arena, s->v, what, where, type, &o->tallies[k]);
    }
    return true;
}

/* Is the device still working? A kernel that wrote outside its memory is a fault of the plan. */
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

static bool verify_launch(session *s, const dl_node *n, int number) {
    const int64_t *args = s->program->launches.at[number].args;
    const char *where =
        n->loc.file ? dl_format(s->arena, " (%s:%d)", n->loc.file, n->loc.line) : "";
    if (!load_operands(s, n, args, where)) return false;
    dlr_exec_run(s->exec, number, NULL);
    stored o = new_stored(s->arena, n);
    bool ok = load_results(s, n, args, &o) && is_sound(s) && compare_results(s, n, &o, where);
    free_stored(&o, n);
    for (int k = 0; k < n->nin; k++) dl_interp_drop(s->in, n->in[k]);
    s->v->judged.kernels += ok;
    return ok;
}

/* Steps of a scan that are compared with the interpreter; the others only run. */
enum { JUDGED_STEPS = 2 };

static bool verify_node(session *s, const dl_node *n, int *number);

/* The launches of a scan: the kernels of its body at the first steps and at the last one. */
static bool verify_scan(session *s, const dl_node *n, int *number) {
    const dl_steps steps = dl_steps_of(n);
    session in = *s;
    in.g = n->body, in.inner = true, in.in = dl_interp_new(n->body, true);
    in.stored = DL_NEWS(s->arena, uint64_t, n->body->next_id + 1);
    for (int k = 0; k < n->nin && !s->inner; k++)
        check_unchanged(s, n->in[k], hash_at(s, &n->in[k]->type, n->in[k]->offset),
                        dl_format(s->arena, "@%s operand %d", n->body->name, k), "");
    bool ok = true;
    for (int64_t i = 0; i < steps.steps && ok; i++) {
        bool judged = i < JUDGED_STEPS || i + 1 == steps.steps;
        for (int k = 0; k < n->body->nodes.n && ok; k++) {
            const dl_node *of = n->body->nodes.at[k];
            if (judged || of->body)
                ok = verify_node(&in, of, number);
            else
                dlr_exec_run(s->exec, (*number)++, NULL), ok = is_sound(&in);
        }
    }
    s->overrun = in.overrun;
    for (int k = 0; k < n->nout && ok && !s->inner; k++)
        s->stored[n->out[k].id] = hash_at(s, &n->out[k].type, n->out[k].offset);
    dl_interp_free(in.in);
    return ok;
}

static bool verify_node(session *s, const dl_node *n, int *number) {
    return n->body ? verify_scan(s, n, number) : verify_launch(s, n, (*number)++);
}

static int64_t count_launches(const dl_graph *g) {
    int64_t launches = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        launches += n->body ? dl_steps_of(n).steps * count_launches(n->body) : 1;
    }
    return launches;
}

/* Records the variables before the first launch. */
static bool note_variables(session *s) {
    dlr_exec_refresh_copies(s->exec); /* parameters that are kept in 16 bits, too */
    for (int i = 0; i < s->g->vars.n; i++) {
        const dl_value *v = &s->g->vars.at[i]->value;
        dlr_view view = dlr_exec_variable(s->exec, s->g->vars.at[i]->name);
        if (view.type) {
            s->stored[v->id] = hash_at(s, view.type, view.offset);
            continue;
        }
        double *known = data_of(s, v); /* not in the plan: a table's numbers, or zeros */
        if (!known) return false;
        s->stored[v->id] = hash_of(known, dl_type_count(&v->type));
        dl_interp_drop(s->in, v);
    }
    return true;
}

static bool check_results(session *s, const dl_plan_program *program) {
    for (int i = 0; i < program->results.n; i++) {
        const dl_plan_result *r = &program->results.at[i];
        const dl_result *of = dl_graph_find_result(s->g, r->role, r->name);
        if (!of)
            return dl_fail(s->err, DL_INPUT, "graph '%s' has no result '%s'", s->g->name, r->name);
        const char *what = dl_format(s->arena, "%s '%s'", dl_result_roles[r->role], r->name);
        check_unchanged(s, of->value, hash_at(s, &of->value->type, r->offset), what,
                        " (at the program's end)");
    }
    return true;
}

bool dl_verify_kernels(dl_arena *arena, const dl_graph *g, const dl_plan *plan,
                       const dl_verify_run *run, dl_verdict *v, dl_error *err) {
    const dl_plan_program *program = dl_plan_program_find(plan, g->name);
    if (!program || program->launches.n != count_launches(g))
        return dl_fail(err, DL_INPUT, "the plan has no program of the launches of graph '%s'",
                       g->name);
    session s = {.arena = arena, .g = g, .program = program, .v = v, .err = err};
    int number = 0;
    s.stored = DL_NEWS(arena, uint64_t, g->next_id + 1), s.block = malloc(sizeof *s.block * BLOCK);
    if (!s.block) return dl_fail(err, DL_RESOURCE, "no memory for a block of numbers");
    dlr_exec_options guarded = run->exec;
    guarded.guards = true;
    s.exec = dlr_exec_open(split(arena, plan, program), guarded, err);
    s.in = s.exec ? dl_interp_new(g, true) : NULL;
    bool ok = s.in && run->fill(s.exec, run->user, err) && note_variables(&s);
    for (int i = 0; ok && i < g->nodes.n; i++) ok = verify_node(&s, g->nodes.at[i], &number);
    ok = ok && check_results(&s, program);
    if (s.exec) v->judged.guards += (int)dlr_exec_zones(s.exec);
    if (s.overrun) {
        char *why =
            dl_format(arena, "kernels of '%s' after the one that wrote where it may not", g->name);
        dl_push(arena, &v->skipped, why);
        ok = true;
    }
    dl_interp_free(s.in), free(s.block);
    dlr_exec_close(s.exec);
    return ok;
}
