#include "programs/rehearsal.h"

#include <math.h>
#include <stdlib.h>

#include "programs/fill.h"
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

/* Of the first rank, whose gradients are the average of all. */
static bool note_gradients(const stage *s, dl_rehearsal *found, dl_error *err) {
    const dl_plan_program *p = &dlr_exec_plan(s->one)->programs.at[s->train];
    for (int i = 0; i < p->results.n; i++) {
        const dl_plan_result *r = &p->results.at[i];
        if (r->role != DL_RESULT_GRAD) continue;
        dlr_view want = dlr_exec_result(s->one, s->train, DL_RESULT_GRAD, r->name),
                 have = dlr_exec_result(s->members[0].exec, s->train, DL_RESULT_GRAD, r->name);
        size_t n = (size_t)dl_type_count(want.type);
        float *a = malloc(2 * (n + 1) * sizeof *a), *b = a ? a + n : NULL;
        if (!a) return dl_fail(err, DL_RESOURCE, "no memory for the gradient of %s", r->name);
        dlr_state_read(s->one, want, DL_F32, a);
        dlr_state_read(s->members[0].exec, have, DL_F32, b);
        double off = 0, all = 0;
        for (size_t k = 0; k < n; k++) {
            double d = (double)a[k] - (double)b[k];
            off += d * d, all += (double)a[k] * (double)a[k];
        }
        free(a);
        off = off > 0 ? sqrt(off / all) : 0;
        if (!(off <= found->worst_gradient)) found->worst_gradient = off, found->gradient = r->name;
    }
    return true;
}

/* ---- the stage ---- */

static dl_plan *compile(dl_session *s, dl_error *err) {
    dl_compile_options opt;
    if (!dl_session_options(s, NULL, &opt, err)) return NULL;
    opt.keep_gradients = true;
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

static bool play(stage *s, uint64_t seed, dl_rehearsal *found, dl_error *err) {
    if (!dlc_fill(s->one, seed, err)) return false;
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
    dl_plan *whole = compile(one, err), *plan = whole ? compile(each, err) : NULL;
    if (!plan) return false;
    *found = (dl_rehearsal){.ranks = s.n};
    s.one = dlr_exec_open(whole, (dlr_exec_options){.threads = 1}, err);
    bool ok = s.one && open_members(&s, plan, err);
    s.train = ok ? dlr_exec_program(s.one, "train") : -1;
    if (ok && s.train < 0) ok = dl_fail(err, DL_INPUT, "the model has nothing to train");
    for (int i = 0; ok && i < plan->programs.at[s.train].collectives.n; i++) {
        const dl_plan_collective *c = &plan->programs.at[s.train].collectives.at[i];
        found->collectives++, found->bytes += dl_plan_elements_from(c) * dl_dtype_bytes(c->dtype);
    }
    ok = ok && play(&s, (uint64_t)dl_config_int(one->config, DL_KEY_seed), found, err);
    close_stage(&s);
    return ok;
}
