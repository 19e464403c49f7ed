#include "runtime/analyze/simulate_ranks.h"

#include <math.h>
#include <stdlib.h>

#include "ir/base/philox.h"
#include "runtime/analyze/synthetic_inputs.h"
#include "runtime/checkpoint/tensors.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/state.h"
#include "runtime/setup/rank_groups.h"
#include "runtime/train/scaler.h"

enum { STEPS = 3 };

/* One process of the job. */
typedef struct {
    dl_plan *plan;
    dlr_comm *comm;
    dlr_group groups[DL_NRANK_GROUPS];
    int place[DL_NRANK_PARTS];
    dlr_exec *exec;
    int step; /* of the plan's, that comes next */
} member;

typedef struct {
    dl_arena *arena;
    dlr_exec *one;
    const dl_ranks *ranks;
    int n, train; /* ranks; the program of theirs, which is also the number of `one`'s */
    member *members;
    dlr_comm **comms;
} stage;

/* ---- pieces ---- */

/* A rank's part of a tensor: elements [first, first + n) along an axis; axis -1: all of it. */
typedef struct {
    int axis;
    int64_t first, n;
} piece;

/* Samples are dealt out in order. */
static piece piece_of(const stage *s, const dl_plan_var *v, const dl_type *whole, int rank) {
    if (!dl_plan_is_fed(v) || !whole->rank || whole->axis[0].size == v->type.axis[0].size)
        return (piece){.axis = -1};
    int64_t n = v->type.axis[0].size;
    return (piece){0, n * s->members[rank].place[DL_RANKS_DP], n};
}

/* Copies the piece out of a whole tensor, row by row. */
static void cut(const dl_type *whole, piece p, const float *from, float *to) {
    const dl_around w = dl_type_around(whole, p.axis);
    for (int64_t o = 0; o < w.outer; o++)
        memcpy(to + o * p.n * w.inner, from + (o * w.size + p.first) * w.inner,
               sizeof *to * (size_t)(p.n * w.inner));
}

/* Gives every variable of a rank what the one rank has there. Whole numbers are counts, far below
 * 2^24. */
static bool share(const stage *s, int rank, dl_error *err) {
    const member *m = &s->members[rank];
    const dl_plan *plan = dlr_exec_plan(m->exec);
    for (int i = 0; i < plan->vars.n; i++) {
        const dl_plan_var *v = &plan->vars.at[i];
        dlr_view from = dlr_exec_variable(s->one, v->name),
                 to = dlr_exec_variable(m->exec, v->name);
        if (v->role == DL_VAR_TABLE || !from.type) continue;
        size_t n = (size_t)dl_type_count(from.type);
        float *whole = malloc(2 * (n + 1) * sizeof *whole), *own = whole ? whole + n : NULL;
        if (!whole) return dl_fail(err, DL_RESOURCE, "no memory for %s", v->name);
        piece p = piece_of(s, v, from.type, rank);
        dlr_state_read(s->one, from, DL_F32, whole);
        if (p.axis >= 0) cut(from.type, p, whole, own);
        if (p.axis >= 0)
            dlr_state_write(m->exec, to, DL_F32, own);
        else
            dlr_state_write_whole(m->exec, to, (dlr_range){0, (int64_t)n}, DL_F32, whole);
        free(whole);
    }
    dlr_view seed = dlr_exec_variable(m->exec, DL_RANDOM_SEED), /* which is no count */
        number = dlr_exec_variable(m->exec, DL_RANDOM_RANK);
    int64_t of_all, of_rank = m->place[DL_RANKS_DP];
    if (seed.type) {
        dlr_state_read(s->one, dlr_exec_variable(s->one, DL_RANDOM_SEED), DL_I64, &of_all);
        dlr_state_write(m->exec, seed, DL_I64, &of_all);
    }
    if (number.type) dlr_state_write(m->exec, number, DL_I64, &of_rank);
    return true;
}

/* ---- a step ---- */

/* Runs a rank as far as it comes without another; or, with `force`, to what it waits for, for ever.
 */
static bool advance(const stage *s, member *m, bool force, dl_error *err) {
    int steps = dl_plan_nsteps(&m->plan->programs.at[s->train]);
    while (m->step < steps && (force || dlr_exec_can_step(m->exec, s->train, m->step)))
        dlr_exec_run_step(m->exec, s->train, m->step++), force = false;
    return dlr_exec_check(m->exec, err);
}

/* One training step of all ranks, in turn. */
static bool step(const stage *s, dl_error *err) {
    for (int r = 0; r < s->n; r++)
        s->members[r].step = 0, dlr_exec_refresh_copies(s->members[r].exec);
    for (bool done = false, moved = true; !done;) {
        bool stuck = !moved;
        done = true, moved = false;
        for (int r = 0; r < s->n; r++) {
            member *m = &s->members[r];
            int before = m->step, steps = dl_plan_nsteps(&m->plan->programs.at[s->train]);
            if (before < steps && !advance(s, m, stuck, err)) return false;
            moved |= m->step > before, done &= m->step == steps;
        }
    }
    return true;
}

static void note_losses(const stage *s, dl_rank_simulation *found) {
    double want = dlr_scalar(s->one, dlr_exec_result(s->one, s->train, DL_RESULT_LOSS, NULL));
    for (int r = 0; r < s->n; r++) {
        dlr_exec *e = s->members[r].exec;
        double have = dlr_scalar(e, dlr_exec_result(e, s->train, DL_RESULT_LOSS, NULL));
        double off = fabs(have - want) / fabs(want);
        if (!(off <= found->worst_loss)) found->worst_loss = off;
    }
}

/* A gradient as the ranks have it: whole, or each its piece. */
static void read_pieces(const stage *s, const char *name, int64_t n, float *to) {
    for (int r = 0; r < s->n; r++) {
        dlr_exec *e = s->members[r].exec;
        dlr_view v = dlr_exec_result(e, s->train, DL_RESULT_GRAD, name);
        if (r && !v.piece) return;
        dlr_state_read_whole(e, v, (dlr_range){0, n}, DL_F32, to);
    }
}

/* The error of a parameter's gradient, and its norm, squared. */
static bool compare(const stage *s, const dl_plan_result *r, double *off, double *all,
                    dl_error *err) {
    dlr_view want = dlr_exec_result(s->one, s->train, DL_RESULT_GRAD, r->name);
    size_t n = (size_t)dl_type_count(want.type);
    float *a = malloc(2 * (n + 1) * sizeof *a), *b = a ? a + n : NULL;
    if (!a) return dl_fail(err, DL_RESOURCE, "no memory for the gradient of %s", r->name);
    dlr_state_read(s->one, want, DL_F32, a);
    read_pieces(s, r->name, (int64_t)n, b);
    *off = *all = 0;
    for (size_t k = 0; k < n; k++) {
        double d = (double)a[k] - (double)b[k];
        *off += d * d, *all += (double)a[k] * (double)a[k];
    }
    free(a);
    return true;
}

/* Compared with those of the one rank. A gradient that is zero but for rounding (a bias of
 * attention's keys, or in front of a batch norm) has no digits of its own: it is held against all
 * gradients together, to 1e-7 of them: what cancels in it is of their size, and float32's roundoff
 * is 6e-8.
 */
static bool note_gradients(const stage *s, dl_rank_simulation *found, dl_error *err) {
    const dl_plan_program *p = &dlr_exec_plan(s->one)->programs.at[s->train];
    double *off = DL_NEWS(s->arena, double, p->results.n + 1),
           *all = DL_NEWS(s->arena, double, p->results.n + 1), whole = 0;
    for (int i = 0; i < p->results.n; i++) {
        if (p->results.at[i].role != DL_RESULT_GRAD) continue;
        if (!compare(s, &p->results.at[i], &off[i], &all[i], err)) return false;
        whole += all[i];
    }
    for (int i = 0; i < p->results.n; i++) {
        if (p->results.at[i].role != DL_RESULT_GRAD || off[i] == 0) continue;
        double relative = sqrt(off[i]) / fmax(sqrt(all[i]), 1e-3 * sqrt(whole));
        if (!(relative <= found->worst_gradient))
            found->worst_gradient = relative, found->gradient = p->results.at[i].name;
    }
    return true;
}

/* ---- the stage ---- */

/* Sums of float32 in another order stay far below 1e-4. In fp16 a weight's gradient is rounded to
 * 11 digits before it is tested for overflow: with ranks each one's share of it, else the whole. */
static double most_apart(dl_dtype low) { return low == DL_F16 ? 1e-3 : 1e-4; }

static dl_plan *compile(dl_session *s, dl_rank_simulation *found, dl_error *err) {
    dl_compile_options opt;
    if (!dl_session_check_one_batch(s, "dlc simulate-ranks", err) ||
        !dl_session_options(s, NULL, &opt, err))
        return NULL;
    opt.keep_gradients = true;
    found->most = most_apart(opt.step_options.low);
    return dl_session_compile(s, &opt, err);
}

/* Do two ranks differ in their samples alone? */
static bool share_plan(const member *a, const member *b, bool zero) {
    return a->place[DL_RANKS_TP] == b->place[DL_RANKS_TP] &&
           a->place[DL_RANKS_CP] == b->place[DL_RANKS_CP] &&
           (!zero || a->place[DL_RANKS_DP] == b->place[DL_RANKS_DP]);
}

/* The plans of all ranks: those that differ in their samples alone share one, each other but the
 * first has the model read anew. */
static bool compile_all(stage *s, bool zero, const dl_sessions *each, dl_rank_simulation *found,
                        dl_error *err) {
    for (int r = 0; r < s->n; r++) {
        member *m = &s->members[r];
        dl_ranks_place(s->ranks, r, m->place);
        for (int k = 0; k < r && !m->plan; k++)
            if (share_plan(&s->members[k], m, zero)) m->plan = s->members[k].plan;
        if (m->plan) continue;
        dl_session *session = r ? each->again(each->context, err) : each->first;
        if (!session) return false;
        dl_session_take_rank(session, r);
        m->plan = compile(session, found, err);
        if (r) dl_session_close(session);
        if (!m->plan) return false;
    }
    return true;
}

static bool open_members(stage *s, dl_error *err) {
    s->comms = dlr_comm_local(s->n, false);
    for (int r = 0; r < s->n; r++) {
        member *m = &s->members[r];
        m->comm = s->comms[r];
        if (!dl_groups_make(s->arena, m->comm, s->ranks, r, m->groups, err)) return false;
    }
    for (int r = 0; r < s->n; r++) {
        member *m = &s->members[r];
        m->exec = dlr_exec_open(
            m->plan,
            (dlr_exec_options){.threads = 1, .ranks = {m->comm, DL_NRANK_GROUPS, m->groups}}, err);
        if (!m->exec) return false;
    }
    return true;
}

static void close_stage(stage *s) {
    for (int r = 0; r < s->n && s->members; r++) dlr_exec_close(s->members[r].exec);
    for (int r = 0; r < s->n && s->comms; r++) dlr_comm_close(s->comms[r], NULL);
    free(s->comms);
    dlr_exec_close(s->one);
}

static bool play(stage *s, const dl_config *c, const dl_classes *classes, dl_rank_simulation *found,
                 dl_error *err) {
    if (!dl_fill_synthetic(s->one, classes, (uint64_t)dl_config_int(c, DL_KEY_seed), err))
        return false;
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

bool dl_simulate_ranks(dl_arena *arena, dl_session *one, const dl_sessions *each,
                       dl_rank_simulation *found, dl_error *err) {
    const dl_ranks *ranks = &each->first->ranks;
    stage s = {.arena = arena, .ranks = ranks, .n = dl_ranks_world(ranks)};
    s.members = DL_NEWS(arena, member, s.n);
    *found = (dl_rank_simulation){0};
    const dl_classes classes = dl_classes_find(arena, one->module);
    dl_plan *whole = compile(one, found, err);
    found->ranks = s.n;
    bool ok =
        whole && compile_all(&s, dl_config_int(one->config, DL_KEY_zero) == 1, each, found, err);
    s.one = ok ? dlr_exec_open(whole, (dlr_exec_options){.threads = 1}, err) : NULL;
    ok = s.one && open_members(&s, err);
    s.train = ok ? dlr_exec_program(s.one, "train") : -1;
    if (ok && s.train < 0) ok = dl_fail(err, DL_INPUT, "the model has nothing to train");
    const dl_plan_program *program = ok ? &s.members[0].plan->programs.at[s.train] : NULL;
    for (int i = 0; ok && i < program->collectives.n; i++) {
        const dl_plan_collective *c = &program->collectives.at[i];
        found->collectives++, found->bytes += dl_plan_elements_from(c) * dl_dtype_bytes(c->dtype);
    }
    ok = ok && play(&s, one->config, &classes, found, err);
    close_stage(&s);
    return ok;
}
