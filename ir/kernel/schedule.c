/* The choice of a kernel's schedule. */
#include "ir/kernel/schedule.h"

enum {
    ROW_POINTS = 16384, /* the most points of a row, whose values stay in a core's own cache; */
    ROW_STRIDED = 512,  /* the most where memory's neighbours belong to other rows, which run
                          together, */
    ROW_LANES = 16,     /* this many at a time; */
    ROW_KEPT = 1 << 17, /* the most values that are kept for later passes. */
    ROW_SHARED = 16,    /* The fewest rows, or vectors of rows, that threads share, */
    ROW_SMALL = 65536,  /* if there are more points in all than these */
    ROW_ENOUGH = 4096   /* with fewer rows, partial results use more threads than a row a thread
                           does */
};

static unsigned all_axes(const dl_loop_problem *p) {
    unsigned all = 0;
    for (int i = 0; i < p->nspace; i++) all |= 1u << i;
    return all;
}

static int64_t count_points(const dl_loop_problem *p, unsigned axes) {
    return dl_axes_points(p->nspace, p->space, axes);
}

/* Do memory's neighbours belong to other rows? */
static bool is_strided(const dl_loop_problem *p, unsigned row) {
    return p->inner >= 0 && !(row >> p->inner & 1);
}

/* Points' values that a later pass over the row reads. */
static int count_kept(int n, const dl_step *steps, const dl_loop_nests *s, unsigned row) {
    int kept = 0;
    for (int i = 0; i < n; i++) {
        bool later = false;
        for (int j = i + 1; j < n && !later && steps[i].kind == DL_K_ELEM && steps[i].axes & row;
             j++)
            for (int a = 0; a < steps[j].nargs; a++)
                later |= steps[j].args[a] == i && s->level[j] > s->level[i] &&
                         steps[j].kind != DL_K_REDUCE;
        kept += later;
    }
    return kept;
}

/* The row that leaves the fewest loop nests over points; 0 where none helps or none fits. */
static unsigned find_saving_row(dl_arena *arena, const dl_loop_problem *p) {
    int best = dl_schedule_nests(arena, p->n, p->steps, (dl_loop_schedule){0}).times;
    unsigned row = 0;
    for (int i = 0; i < p->n && best > 1; i++) {
        unsigned over = p->steps[i].kind == DL_K_REDUCE ? p->steps[i].over : 0;
        bool strided = is_strided(p, over);
        int64_t points = count_points(p, over), rows = count_points(p, all_axes(p) & ~over);
        if (!over || points > (strided ? ROW_STRIDED : ROW_POINTS)) continue;
        if (rows / (strided ? ROW_LANES : 1) < ROW_SHARED && rows * points > ROW_SMALL) continue;
        dl_loop_nests s = dl_schedule_nests(arena, p->n, p->steps,
                                            (dl_loop_schedule){.kind = DL_BY_ROWS, .axes = over});
        if (!s.valid || s.times >= best || count_kept(p->n, p->steps, &s, over) * points > ROW_KEPT)
            continue;
        best = s.times, row = over;
    }
    return row;
}

/* The axes of all reductions, where kept points reduce over rows by themselves, in one loop nest;
 * 0: there are few such points, or rows are long. */
static unsigned find_only_row(dl_arena *arena, const dl_loop_problem *p,
                              const dl_loop_rules *rules) {
    unsigned row = 0;
    if (rules->floats && !p->floats) return 0;
    for (int i = 0; p->k && i < p->k->params.n; i++)
        if (p->k->params.at[i].alias >= 0) return 0; /* whose old values other points may read */
    for (int i = 0; i < p->n; i++) {
        if (p->steps[i].kind != DL_K_REDUCE) continue;
        if (row && p->steps[i].over != row) return 0;
        row = p->steps[i].over;
    }
    int64_t most = is_strided(p, row) ? rules->strided_terms : rules->contiguous_terms;
    int64_t enough = rules->maxima && !p->sums ? 1 : ROW_ENOUGH;
    if (!row || count_points(p, row) > most || count_points(p, all_axes(p) & ~row) < enough)
        return 0;
    dl_loop_nests s = dl_schedule_nests(arena, p->n, p->steps,
                                        (dl_loop_schedule){.kind = DL_BY_ROWS, .axes = row});
    return s.valid && s.n == 1 ? row : 0;
}

/* Do all values along these axes end in reductions over exactly them? */
static bool ends_there(const dl_loop_problem *p, unsigned axes) {
    for (int i = 0; i < p->n; i++) {
        const dl_step *s = &p->steps[i];
        bool reduces = s->kind == DL_K_REDUCE;
        if (reduces && s->over == axes) continue;
        if (reduces && (p->steps[s->args[0]].axes | s->over) & axes) return false;
        if (s->kind == DL_K_STORE && s->axes & axes) return false;
    }
    return true;
}

/* The axes of a reduction of few terms, which are not contiguous in memory, at many points; 0:
 * none. */
static unsigned find_thread_axes(const dl_loop_problem *p, const dl_loop_rules *rules) {
    for (int i = 0; i < p->n && p->inner >= 0 && rules->thread_terms; i++) {
        unsigned over = p->steps[i].kind == DL_K_REDUCE ? p->steps[i].over : 0;
        if (!over || over >> p->inner & 1 || !ends_there(p, over)) continue;
        if (count_points(p, over) <= rules->thread_terms &&
            count_points(p, all_axes(p) & ~over) >= rules->thread_points)
            return over;
    }
    return 0;
}

static bool suits_threads(dl_arena *arena, const dl_loop_problem *p, dl_loop_schedule by) {
    dl_loop_nests s = dl_schedule_nests(arena, p->n, p->steps, by);
    dl_loop_problem rest = *p;
    rest.steps = dl_schedule_steps(arena, p->n, p->steps, by);
    return dl_schedule_suits(p->k, p->steps, &s, by) && !find_saving_row(arena, &rest);
}

static bool suits_rows(const dl_loop_problem *p, const dl_loop_rules *rules, dl_loop_schedule by) {
    if (!p->k || !rules->runs_rows) return true;
    dl_kernel trial = *p->k;
    trial.schedule = by;
    return rules->runs_rows(&trial);
}

dl_loop_schedule dl_schedule_choose(dl_arena *arena, const dl_loop_problem *p,
                                    const dl_loop_rules *rules) {
    static const dl_loop_rules none = {0};
    if (!rules) rules = &none;
    dl_loop_schedule by = {.kind = DL_BY_THREAD, .axes = find_thread_axes(p, rules)};
    if (by.axes && suits_threads(arena, p, by)) return by;
    by.kind = DL_BY_ROWS, by.axes = find_only_row(arena, p, rules);
    if (by.axes && suits_rows(p, rules, by)) return by;
    by.axes = find_saving_row(arena, p);
    if (by.axes && suits_rows(p, rules, by)) return by;
    return (dl_loop_schedule){.kind = DL_BY_POINTS};
}

static bool are_floats(const dl_kernel *k, const dl_step *steps) {
    for (int i = 0; i < k->instrs.n; i++)
        if (steps[i].kind == DL_K_REDUCE && dl_kernel_type(k->instrs.at[i].type) != DL_F32)
            return false;
    return true;
}

static bool has_sums(const dl_kernel *k, const dl_step *steps) {
    bool any = false;
    for (int i = 0; i < k->instrs.n; i++)
        any |= steps[i].kind == DL_K_REDUCE && k->instrs.at[i].op == DL_OP_sum;
    return any;
}

void dl_kernel_schedule(dl_kernel *k, const dl_loop_rules *rules) {
    dl_arena *arena = dl_arena_new(NULL);
    k->schedule = (dl_loop_schedule){.kind = dl_schedule_forced(k)};
    if (k->schedule.kind == DL_BY_NOTHING) {
        const dl_step *steps = dl_kernel_steps(k, arena);
        dl_loop_problem p = {.k = k,
                             .n = k->instrs.n,
                             .steps = steps,
                             .nspace = k->nspace,
                             .space = k->space,
                             .inner = dl_kernel_inner(k),
                             .floats = are_floats(k, steps),
                             .sums = has_sums(k, steps)};
        k->schedule = dl_schedule_choose(arena, &p, rules);
    }
    dl_scheduled s = dl_kernel_scheduled(arena, k);
    if (dl_schedule_has_phases(k->schedule.kind)) k->schedule.phases = dl_count_phases(&s.nests);
    dl_kernel_count_scheduled(k, &s);
    dl_arena_free(arena);
}
