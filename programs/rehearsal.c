#include "programs/rehearsal.h"

#include <math.h>
#include <stdlib.h>

#include "ir/base/philox.h"
#include "programs/fill.h"
#include "runtime/scaler.h"
#include "runtime/state.h"
#include "runtime/tensors.h"

enum { STEPS = 3 };

/* One process of the job. */
typedef struct {
    dlr_comm *comm;
    dlr_group groups[1];
    dlr_exec *exec;
} member;

typedef struct {
    dl_arena *arena;
    dlr_exec *one;
    int n, train; /* ranks; the program of theirs, which is also the number of `one`'s */
    member *members;
    dlr_comm **comms;
} stage;

/* ---- pieces ---- */

/* What a rank has of a tensor: elements [first, first + n) along an axis; axis -1: all of it. */
typedef struct {
    int axis;
    int64_t first, n;
} piece;

/* Samples are dealt out in order. */
static piece piece_of(const stage *s, const dl_plan_var *v, const dl_type *whole, int rank) {
    bool fed = v->role == DL_VAR_INPUT || v->role == DL_VAR_TARGET;
    if (!fed || !whole->rank || whole->axis[0].size == v->type.axis[0].size) return (piece){.axis = -1};
    int64_t n = v->type.axis[0].size;
    return (piece){0, n * (s->members[rank].groups[0].rank), n};
}

/* Copies the piece out of a whole tensor, row by row. */
static void cut(const dl_type *whole, piece p, const float *from, float *to) {
    int64_t outer = 1, inner = 1;
    for (int i = 0; i < p.axis; i++) outer *= whole->axis[i].size;
    for (int i = p.axis + 1; i < whole->rank; i++) inner *= whole->axis[i].size;
    for (int64_t o = 0; o < outer; o++)
        memcpy(to + o * p.n * inner, from + (o * whole->axis[p.axis].size + p.first) * inner,
               sizeof *to * (size_t)(p.n * inner));
}

/* Gives every variable of a rank what the one rank has there. Whole numbers are counts, far below 2^24. */
static bool share(const stage *s, int rank, dl_error *err) {
    const member *m = &s->members[rank];
    const dl_plan *plan = dlr_exec_plan(m->exec);
    for (int i = 0; i < plan->vars.n; i++) {
        const dl_plan_var *v = &plan->vars.at[i];
        dlr_view from = dlr_exec_variable(s->one, v->name), to = dlr_exec_variable(m->exec, v->name);
        if (v->role == DL_VAR_TABLE || !from.type) continue;
        size_t n = (size_t)dl_type_count(from.type);
        float *whole = malloc(2 * (n + 1) * sizeof *whole), *own = whole ? whole + n : NULL;
        if (!whole) return dl_fail(err, DL_RESOURCE, "no memory for %s", v->name);
        piece p = piece_of(s, v, from.type, rank);
        dlr_state_read(s->one, from, DL_F32, whole);
        if (p.axis >= 0) cut(from.type, p, whole, own);
        dlr_state_write(m->exec, to, DL_F32, p.axis >= 0 ? own : whole);
        free(whole);
    }
    dlr_view seed = dlr_exec_variable(m->exec, DL_RANDOM_SEED), /* which is no count */
        number = dlr_exec_variable(m->exec, DL_RANDOM_RANK);
    int64_t of_all, of_rank = m->groups[0].rank;
    if (seed.type) {
        dlr_state_read(s->one, dlr_exec_variable(s->one, DL_RANDOM_SEED), DL_I64, &of_all);
        dlr_state_write(m->exec, seed, DL_I64, &of_all);
    }
    if (number.type) dlr_state_write(m->exec, number, DL_I64, &of_rank);
    return true;
}

/* ---- a step ---- */

/* One step of all ranks, abreast. */
static bool step(const stage *s, dl_error *err) {
    int steps = dl_plan_nsteps(&dlr_exec_plan(s->members[0].exec)->programs.at[s->train]);
    for (int r = 0; r < s->n; r++) dlr_exec_renew(s->members[r].exec);
    for (int i = 0; i < steps; i++)
        for (int r = 0; r < s->n; r++) dlr_exec_run_step(s->members[r].exec, s->train, i);
    for (int r = 0; r < s->n; r++)
        if (!dlr_exec_check(s->members[r].exec, err)) return false;
    return true;
}

static void note_losses(const stage *s, dl_rehearsal *found) {
    double want = dlr_scalar(s->one, dlr_exec_result(s->one, s->train, DL_RESULT_LOSS, NULL));
    for (int r = 0; r < s->n; r++) {
        dlr_exec *e = s->members[r].exec;
        double have = dlr_scalar(e, dlr_exec_result(e, s->train, DL_RESULT_LOSS, NULL));
        double off = fabs(have - want) / fabs(want);
        if (!(off <= found->worst_loss)) found->worst_loss = off;
    }
}

/* Squares of a gradient's elements, and of their distances from the one rank's, summed. */
typedef struct {
    const char *name;
    double all, off;
} compared;

/* Of the first rank, whose gradients are the average of all. */
static bool compare_gradient(const stage *s, const char *name, compared *to, dl_error *err) {
    dlr_view want = dlr_exec_result(s->one, s->train, DL_RESULT_GRAD, name),
             have = dlr_exec_result(s->members[0].exec, s->train, DL_RESULT_GRAD, name);
    size_t n = (size_t)dl_type_count(want.type);
    float *a = malloc(2 * (n + 1) * sizeof *a), *b = a ? a + n : NULL;
    if (!a) return dl_fail(err, DL_RESOURCE, "no memory for the gradient of %s", name);
    dlr_state_read(s->one, want, DL_F32, a);
    dlr_state_read(s->members[0].exec, have, DL_F32, b);
    *to = (compared){.name = name};
    for (size_t k = 0; k < n; k++) {
        double d = (double)a[k] - (double)b[k];
        to->off += d * d, to->all += (double)a[k] * (double)a[k];
    }
    free(a);
    return true;
}

/* Each gradient against its own size, but at least against LEAST of all gradients together: one that is zero
 * but for rounding, as that of attention's keys' bias or of a bias in front of a batch norm, has no digits of
 * its own, and two orders of adding make two different ones. */
static bool note_gradients(const stage *s, dl_rehearsal *found, dl_error *err) {
    static const double least = 1e-4;
    const dl_plan_program *p = &dlr_exec_plan(s->one)->programs.at[s->train];
    compared *of = DL_NEWS(s->arena, compared, p->results.n + 1);
    double together = 0;
    int n = 0;
    for (int i = 0; i < p->results.n; i++) {
        const dl_plan_result *r = &p->results.at[i];
        if (r->role != DL_RESULT_GRAD) continue;
        if (!compare_gradient(s, r->name, &of[n], err)) return false;
        together += of[n++].all;
    }
    for (int i = 0; i < n; i++) {
        double off = of[i].off > 0 ? sqrt(of[i].off / fmax(of[i].all, least * least * together)) : of[i].off;
        if (!(off <= found->worst_gradient)) found->worst_gradient = off, found->gradient = of[i].name;
    }
    return true;
}

/* ---- the stage ---- */

/* Sums of float32 in another order stay far below 1e-4. In fp16 a weight's gradient is rounded to 11 digits
 * before it is tested for overflow: with ranks each one's share of it, else the whole. */
static double most_apart(dl_dtype low) { return low == DL_F16 ? 1e-3 : 1e-4; }

static dl_plan *compile(dl_session *s, double *most, dl_error *err) {
    dl_compile_options opt;
    if (!dl_session_options(s, NULL, &opt, err)) return NULL;
    opt.keep_gradients = true;
    *most = most_apart(opt.recipe.low);
    return dl_session_compile(s, &opt, err);
}

static bool open_members(stage *s, const dl_plan *plan, dl_error *err) {
    s->comms = dlr_comm_local(s->n, false);
    s->members = DL_NEWS(s->arena, member, s->n);
    for (int r = 0; r < s->n; r++) {
        member *m = &s->members[r];
        m->comm = s->comms[r];
        m->groups[0] = (dlr_group){"dp", 0, r, s->n};
        m->exec =
            dlr_exec_open(plan, (dlr_exec_options){.threads = 1, .ranks = {m->comm, 1, m->groups}}, err);
        if (!m->exec) return false;
    }
    return true;
}

static void close_stage(stage *s) {
    for (int r = 0; r < s->n && s->members; r++) dlr_exec_close(s->members[r].exec);
    for (int r = 0; r < s->n && s->comms; r++) dlr_comm_close(s->comms[r]);
    free(s->comms);
    dlr_exec_close(s->one);
}

static bool play(stage *s, const dl_config *c, dl_rehearsal *found, dl_error *err) {
    if (!dlc_fill(s->one, (uint64_t)dl_config_int(c, DL_KEY_seed), err)) return false;
    dlr_scaler_start(s->one, dl_config_float(c, DL_KEY_loss_scale_init));
    for (int r = 0; r < s->n; r++)
        if (!share(s, r, err)) return false;
    for (; found->steps < STEPS; found->steps++) {
        dlr_exec_run(s->one, s->train, NULL);
        if (!dlr_exec_check(s->one, err) || !step(s, err)) return false;
        note_losses(s, found);
        if (found->steps == 0 && !note_gradients(s, found, err)) return false;
    }
    return true;
}

bool dl_rehearse(dl_arena *arena, dl_session *one, dl_session *each, dl_rehearsal *found, dl_error *err) {
    stage s = {.arena = arena, .n = each->parallel.dp};
    double most = 0;
    dl_plan *whole = compile(one, &most, err), *plan = whole ? compile(each, &most, err) : NULL;
    if (!plan) return false;
    *found = (dl_rehearsal){.ranks = s.n, .most = most};
    s.one = dlr_exec_open(whole, (dlr_exec_options){.threads = 1}, err);
    bool ok = s.one && open_members(&s, plan, err);
    s.train = ok ? dlr_exec_program(s.one, "train") : -1;
    if (ok && s.train < 0) ok = dl_fail(err, DL_INPUT, "the model has nothing to train");
    for (int i = 0; ok && i < plan->programs.at[s.train].collectives.n; i++) {
        const dl_plan_collective *c = &plan->programs.at[s.train].collectives.at[i];
        found->collectives++, found->bytes += dl_plan_elements_from(c) * dl_dtype_bytes(c->dtype);
    }
    ok = ok && play(&s, one->config, found, err);
    close_stage(&s);
    return ok;
}
