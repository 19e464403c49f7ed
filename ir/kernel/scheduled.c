/* A kernel with its schedule: the loop nests that run, the memory that outputs may share, and
 * whether the schedule fits its kernel. */
#include "ir/kernel/schedule.h"

/* Does a loop nest compute the contraction, which is instruction 0? */
static bool contracts(const dl_loop_nest *s) { return s->run.n && s->run.at[0] == 0; }

dl_scheduled dl_kernel_scheduled(dl_arena *arena, const dl_kernel *k) {
    dl_scheduled s = {.k = k};
    dl_loop_kind kind = k->schedule.kind;
    if (kind == DL_BY_NOTHING || kind == DL_BY_POINTS) s.k = dl_kernel_read_back(arena, k);
    int n = s.k->instrs.n;
    const dl_step *steps = dl_kernel_steps(s.k, arena);
    s.steps = dl_schedule_steps(arena, n, steps, k->schedule);
    s.nests = dl_schedule_nests(arena, n, steps, k->schedule);
    for (int i = s.nests.n - 1; i > 0 && kind == DL_BY_TILES; i--)
        if (contracts(&s.nests.at[i])) {
            dl_loop_nest t = s.nests.at[i];
            s.nests.at[i] = s.nests.at[i - 1], s.nests.at[i - 1] = t;
        }
    return s;
}

int dl_count_phases(const dl_loop_nests *s) {
    int n = 0;
    for (int from = 0; from < s->n; n++) from = dl_loop_nests_independent(s, from);
    return n;
}

/* ---- aliasing ---- */

static bool reads(const dl_kinstr *in, int param) {
    if (in->kind == DL_K_LOAD) return in->param == param;
    for (int side = 0; side < 2 && in->kind == DL_K_CONTRACT; side++)
        for (int i = 0; i < in->nparts[side]; i++)
            if (in->parts[side][i] == param) return true;
    return false;
}

/* The last pass over the row in which the loop nest computes something of what it reads here. Each
 * pass loads anew what it needs, but for the results of reductions. */
static int last_pass(int n, const dl_step *steps, const dl_loop_nests *s, const dl_loop_nest *nest,
                     int read) {
    dl_arena *scratch = dl_arena_new(NULL);
    bool *of_read = DL_NEWS(scratch, bool, n);
    int last = s->level[read];
    of_read[read] = true;
    for (int j = 0; j < nest->run.n; j++) {
        int i = nest->run.at[j];
        bool uses = false, reduces = steps[i].kind == DL_K_REDUCE;
        for (int a = 0; a < steps[i].nargs; a++) uses |= of_read[steps[i].args[a]];
        if (!uses) continue;
        of_read[i] = !reduces;
        /* a reduction's own level is that of its readers */
        int pass = s->level[reduces ? steps[i].args[0] : i];
        if (pass > last) last = pass;
    }
    dl_arena_free(scratch);
    return last;
}

/* A loop nest's read is over, if the nest runs in an earlier phase than the store; or if it is the
 * store's own, reads no other point, comes before it, and no later pass over a row repeats it. */
static bool is_over(const dl_kernel *k, const dl_step *steps, const dl_loop_nests *s,
                    const dl_loop_nest *reader, int read, const dl_loop_nest *writer, int store) {
    const dl_kinstr *in = &k->instrs.at[read], *to = &k->instrs.at[store];
    int phase = 2 * reader->stage + !reader->finalize,
        limit = 2 * writer->stage + !writer->finalize;
    if (phase < limit) return true;
    return reader == writer && in->kind == DL_K_LOAD && read < store &&
           dl_index_same(to->index, in->index, k->params.at[in->param].type.rank) &&
           last_pass(k->instrs.n, steps, s, reader, read) <= s->level[store];
}

static const dl_loop_nest *nest_of(const dl_loop_nests *s, int instr) {
    for (int i = 0; i < s->n; i++)
        for (int j = 0; j < s->at[i].run.n; j++)
            if (s->at[i].run.at[j] == instr) return &s->at[i];
    return NULL;
}

static bool may_alias(const dl_kernel *k, const dl_step *steps, const dl_loop_nests *s, int out,
                      int in) {
    if (k->schedule.kind == DL_BY_SCATTER || k->schedule.kind == DL_BY_CALL)
        return false; /* they read in their own order */
    for (int store = 0; store < k->instrs.n; store++) {
        if (k->instrs.at[store].kind != DL_K_STORE || k->instrs.at[store].param != out) continue;
        const dl_loop_nest *writer = nest_of(s, store);
        for (int i = 0; i < s->n; i++)
            for (int j = 0; j < s->at[i].run.n; j++) {
                int read = s->at[i].run.at[j];
                if (reads(&k->instrs.at[read], in) &&
                    (!writer || !is_over(k, steps, s, &s->at[i], read, writer, store)))
                    return false;
            }
    }
    return true;
}

/* The output that may not share the memory that it shares, or -1. */
static int find_misplaced(const dl_kernel *k, const dl_step *steps, const dl_loop_nests *s) {
    for (int i = k->nin; i < k->params.n; i++)
        if (k->params.at[i].alias >= 0 && !may_alias(k, steps, s, i, k->params.at[i].alias))
            return i;
    return -1;
}

bool dl_schedule_unshare(dl_arena *arena, dl_kernel *k, dl_loop_schedule schedule) {
    bool any = false, found = false;
    for (int i = k->nin; i < k->params.n; i++) any |= k->params.at[i].alias >= 0;
    if (!any) return false;
    const dl_step *steps = dl_kernel_steps(k, arena);
    dl_loop_nests s = dl_schedule_nests(arena, k->instrs.n, steps, schedule);
    for (int i = k->nin; i < k->params.n; i++) {
        int *alias = &k->params.at[i].alias;
        if (*alias < 0 || may_alias(k, steps, &s, i, *alias)) continue;
        *alias = -1, found = true;
    }
    return found;
}

/* ---- whether a schedule fits its kernel ---- */

static bool scatters(const dl_kernel *k) {
    for (int i = 0; i < k->instrs.n; i++)
        if (k->instrs.at[i].kind == DL_K_STORE && dl_kinstr_indirect(k, &k->instrs.at[i]) >= 0)
            return true;
    return false;
}

dl_loop_kind dl_schedule_forced(const dl_kernel *k) {
    if (dl_kernel_call(k)) return DL_BY_CALL;
    if (scatters(k)) return DL_BY_SCATTER;
    return dl_kernel_anchor(k) >= 0 ? DL_BY_TILES : DL_BY_NOTHING;
}

/* A finalize step has no loop of its own, in which a thread could reduce. */
static bool finalizes_in_own_loop(const dl_loop_nests *s, const dl_step *steps, unsigned axes) {
    for (int i = 0; i < s->n; i++)
        for (int j = 0; s->at[i].finalize && j < s->at[i].run.n; j++) {
            const dl_step *step = &steps[s->at[i].run.at[j]];
            if (step->axes & axes || (step->kind == DL_K_REDUCE && step->over == axes))
                return false;
        }
    return true;
}

#define FAULT(...) dl_format(arena, __VA_ARGS__)

static bool reduces_over(const dl_kernel *k, const dl_step *steps, unsigned axes) {
    for (int i = 0; i < k->instrs.n; i++)
        if (steps[i].kind == DL_K_REDUCE && steps[i].over == axes) return true;
    return false;
}

bool dl_schedule_suits(const dl_kernel *k, const dl_step *steps, const dl_loop_nests *s,
                       dl_loop_schedule by) {
    return s->valid && (by.kind != DL_BY_THREAD || finalizes_in_own_loop(s, steps, by.axes)) &&
           (!k || find_misplaced(k, steps, s) < 0);
}

const char *dl_schedule_fault(const dl_kernel *k, dl_arena *arena) {
    const dl_loop_schedule by = k->schedule;
    dl_loop_kind forced = dl_schedule_forced(k);
    bool axes = dl_schedule_has_axes(by.kind);
    if (by.kind == DL_BY_NOTHING) return NULL;
    if ((unsigned)by.kind >= DL_NBYS) return FAULT("no kind of schedule");
    if (by.variant && !dl_schedule_has_variants(by.kind))
        return FAULT("a schedule %s has no variants", dl_schedule_name(by.kind));
    bool free = axes || by.kind == DL_BY_POINTS;
    if (forced ? by.kind != forced : !free)
        return FAULT("a kernel of this kind does not run by schedule %s",
                     dl_schedule_name(by.kind));
    for (int i = k->nin; i < k->params.n && by.kind == DL_BY_SCATTER; i++)
        if (k->params.at[i].alias >= 0)
            return FAULT("a scatter reads in its own order, and %%%s shares memory",
                         k->params.at[i].name);
    if (!dl_schedule_has_phases(by.kind)) return NULL;
    dl_scheduled s = dl_kernel_scheduled(arena, k);
    const dl_step *steps = dl_kernel_steps(k, arena);
    if (axes && !reduces_over(k, steps, by.axes))
        return FAULT("its schedule's axes are not those of a reduction");
    if (!s.nests.valid ||
        (by.kind == DL_BY_THREAD && !finalizes_in_own_loop(&s.nests, steps, by.axes)))
        return FAULT("its loops cannot run by schedule %s", dl_schedule_name(by.kind));
    if (dl_count_phases(&s.nests) != by.phases)
        return FAULT("its schedule has %d phases, not %d", dl_count_phases(&s.nests), by.phases);
    dl_loop_nests own = dl_schedule_nests(arena, k->instrs.n, steps, by);
    int out = find_misplaced(k, steps, &own);
    if (out >= 0)
        return FAULT("its schedule reads %%%s after %%%s has overwritten it",
                     k->params.at[k->params.at[out].alias].name, k->params.at[out].name);
    return NULL;
}
