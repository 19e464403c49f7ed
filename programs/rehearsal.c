#include "programs/rehearsal.h"

#include <math.h>
#include <stdlib.h>

#include "ir/collective.h"
#include "programs/fill.h"
#include "runtime/state.h"
#include "runtime/tensors.h"

enum { STEPS = 3 };

/* One process of the job. */
typedef struct {
    dlr_comm *comm;
    dlr_group groups[DL_NRANK_GROUPS];
    int place[DL_NRANK_PARTS]; /* its coordinates */
    dlr_exec *exec;
    int at;                           /* the step of the plan that comes next */
    int64_t started[DL_NRANK_GROUPS]; /* collectives of this step, by group */
    int64_t *ordinal;                 /* by collective: which of its group it was, from 0 */
} member;

typedef struct {
    dl_arena *arena;
    dlr_exec *one;
    dl_ranks ranks;
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
    if (v->piece.group && *v->piece.group) {
        dl_share own = dl_share_of(v->piece.size, v->piece.ranks, v->piece.rank);
        return (piece){v->piece.axis, own.first, own.n};
    }
    if (!fed || !whole->rank || whole->axis[0].size == v->type.axis[0].size) return (piece){.axis = -1};
    int64_t n = v->type.axis[0].size;
    return (piece){0, n * s->members[rank].place[DL_RANKS_DP], n};
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

static int find_group(const char *name) {
    int g = 0;
    while (strcmp(dl_rank_groups[g], name) != 0) g++;
    return g;
}

/* Have all members of a collective's group begun it, each the how manieth of the group it was? */
static bool may_wait(const stage *s, int rank, const dl_plan_collective *c, int64_t ordinal) {
    int g = find_group(c->group), *members = DL_NEWS(s->arena, int, s->n);
    dl_ranks_members(&s->ranks, c->group, rank, members);
    for (int i = 0; i < dl_ranks_count(&s->ranks, c->group); i++)
        if (s->members[members[i]].started[g] <= ordinal) return false;
    return true;
}

/* A rank's steps, up to one that waits for somebody; one step at least where it is `forced`, which tells whom
 * it waits for. Whether it came further. */
static bool advance(const stage *s, int rank, bool forced) {
    member *m = &s->members[rank];
    const dl_plan_program *p = &dlr_exec_plan(m->exec)->programs.at[s->train];
    int from = m->at;
    for (; m->at < dl_plan_nsteps(p); m->at++) {
        dl_plan_step step = dl_plan_step_at(p, m->at);
        const dl_plan_collective *c = step.kind == DL_STEP_LAUNCH ? NULL : &p->collectives.at[step.number];
        if (step.kind == DL_STEP_START) m->ordinal[step.number] = m->started[find_group(c->group)]++;
        if (step.kind == DL_STEP_WAIT && !forced && !may_wait(s, rank, c, m->ordinal[step.number])) break;
        dlr_exec_run_step(m->exec, s->train, m->at);
        forced = false;
    }
    return m->at > from;
}

/* One step of all ranks, side by side. */
static bool step(const stage *s, dl_error *err) {
    bool further = true;
    for (int r = 0; r < s->n; r++) {
        dlr_exec_renew(s->members[r].exec);
        s->members[r].at = 0;
        memset(s->members[r].started, 0, sizeof s->members[r].started);
    }
    while (further) {
        further = false;
        for (int r = 0; r < s->n; r++) further = advance(s, r, false) || further;
    }
    for (int r = 0; r < s->n; r++) advance(s, r, true); /* of those that nobody meets, the fault */
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

/* The norm of all gradients of the one rank; negative without memory. */
static double norm_of_all(const stage *s) {
    const dl_plan_program *p = &dlr_exec_plan(s->one)->programs.at[s->train];
    double all = 0;
    for (int i = 0; i < p->results.n; i++) {
        const dl_plan_result *r = &p->results.at[i];
        if (r->role != DL_RESULT_GRAD) continue;
        size_t n = (size_t)dl_type_count(&r->type);
        float *a = malloc((n + 1) * sizeof *a);
        if (!a) return -1;
        dlr_state_read(s->one, dlr_exec_result(s->one, s->train, DL_RESULT_GRAD, r->name), DL_F32, a);
        for (size_t k = 0; k < n; k++) all += (double)a[k] * (double)a[k];
        free(a);
    }
    return sqrt(all);
}

/* Of every rank, each beside its piece of the whole. One that is zero but for rounding (the bias of keys:
 * attention does not see it) is held against the whole model's. */
static bool note_gradients(const stage *s, dl_rehearsal *found, dl_error *err) {
    const dl_plan_program *p = &dlr_exec_plan(s->one)->programs.at[s->train];
    double least = 1e-4 * norm_of_all(s);
    if (least < 0) return dl_fail(err, DL_RESOURCE, "no memory for the gradients of one rank");
    for (int i = 0; i < p->results.n * s->n; i++) {
        const dl_plan_result *r = &p->results.at[i / s->n];
        dlr_exec *own = s->members[i % s->n].exec;
        if (r->role != DL_RESULT_GRAD) continue;
        dlr_view want = dlr_exec_result(s->one, s->train, DL_RESULT_GRAD, r->name),
                 have = dlr_exec_result(own, s->train, DL_RESULT_GRAD, r->name);
        size_t n = (size_t)dl_type_count(want.type), count = (size_t)dl_type_count(have.type);
        float *a = malloc(3 * (n + 1) * sizeof *a), *b = a ? a + n : NULL, *c = a ? a + 2 * n : NULL;
        if (!a) return dl_fail(err, DL_RESOURCE, "no memory for the gradient of %s", r->name);
        dlr_state_read(s->one, want, DL_F32, a);
        dlr_state_read(own, have, DL_F32, b);
        if (have.piece) {
            dl_share share = dl_share_of(have.piece->size, have.piece->ranks, have.piece->rank);
            cut(want.type, (piece){have.piece->axis, share.first, share.n}, a, c);
            memcpy(a, c, count * sizeof *a);
        }
        double off = 0, all = 0;
        for (size_t k = 0; k < count; k++) {
            double d = (double)a[k] - (double)b[k];
            off += d * d, all += (double)a[k] * (double)a[k];
        }
        free(a);
        off = off > 0 ? sqrt(off) / fmax(sqrt(all), least) : 0;
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

/* The groups that rank r is in. */
static bool join(stage *s, int r, dl_error *err) {
    member *m = &s->members[r];
    int *members = DL_NEWS(s->arena, int, s->n);
    m->comm = s->comms[r];
    dl_ranks_place(&s->ranks, r, m->place);
    for (int g = 0; g < DL_NRANK_GROUPS; g++) {
        const char *name = dl_rank_groups[g];
        int n = dl_ranks_count(&s->ranks, name), own = 0;
        dl_ranks_members(&s->ranks, name, r, members);
        while (members[own] != r) own++;
        m->groups[g] = (dlr_group){name, dlr_comm_group(m->comm, n, members, err), own, n};
        if (m->groups[g].number < 0) return false;
    }
    return true;
}

static bool open_members(stage *s, dl_plan *const *plans, dl_error *err) {
    s->comms = dlr_comm_local(s->n, false);
    s->members = DL_NEWS(s->arena, member, s->n);
    for (int r = 0; r < s->n; r++) {
        member *m = &s->members[r];
        if (!join(s, r, err)) return false;
        const dl_plan *plan =
            plans[m->place[DL_RANKS_CP] * s->ranks.size[DL_RANKS_TP] + m->place[DL_RANKS_TP]];
        dlr_ranks ranks = {m->comm, DL_NRANK_GROUPS, m->groups};
        m->exec = dlr_exec_open(plan, (dlr_exec_options){.threads = 1, .ranks = ranks}, err);
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

/* The plans of the ranks of one sample: those of others are alike. */
static bool compile_each(const stage *s, dl_session *const *each, dl_plan **plans, dl_error *err) {
    int at[DL_NRANK_PARTS] = {0}, tp = s->ranks.size[DL_RANKS_TP];
    for (int i = 0; i < tp * s->ranks.size[DL_RANKS_CP]; i++) {
        at[DL_RANKS_TP] = i % tp, at[DL_RANKS_CP] = i / tp;
        dl_session_take_rank(each[i], dl_ranks_at(&s->ranks, at));
        plans[i] = compile(each[i], err);
        if (!plans[i]) return false;
    }
    return true;
}

bool dl_rehearse(dl_arena *arena, dl_session *one, dl_session *const *each, dl_rehearsal *found,
                 dl_error *err) {
    stage s = {.arena = arena, .ranks = each[0]->ranks, .n = dl_ranks_world(&each[0]->ranks)};
    dl_plan *whole = compile(one, err), **plans = DL_NEWS(arena, dl_plan *, s.n);
    if (!whole || !compile_each(&s, each, plans, err)) return false;
    *found = (dl_rehearsal){.ranks = s.n};
    s.one = dlr_exec_open(whole, (dlr_exec_options){.threads = 1}, err);
    bool ok = s.one && open_members(&s, plans, err);
    s.train = ok ? dlr_exec_program(s.one, "train") : -1;
    if (ok && s.train < 0) ok = dl_fail(err, DL_INPUT, "the model has nothing to train");
    int n = ok ? plans[0]->programs.at[s.train].collectives.n : 0;
    for (int i = 0; i < n; i++) {
        const dl_plan_collective *c = &plans[0]->programs.at[s.train].collectives.at[i];
        found->collectives++, found->bytes += dl_plan_elements_from(c) * dl_dtype_bytes(c->dtype);
    }
    for (int r = 0; r < s.n && ok; r++)
        s.members[r].ordinal =
            DL_NEWS(arena, int64_t, dlr_exec_plan(s.members[r].exec)->programs.at[s.train].collectives.n + 1);
    ok = ok && play(&s, (uint64_t)dl_config_int(one->config, DL_KEY_seed), found, err);
    close_stage(&s);
    return ok;
}
