#include "ir/kernel/loop_nest.h"

enum {
    NOWHERE = -1,
    MIXED = -2
}; /* in addition to a mask: after no reduction; after reductions of other axes */

typedef struct {
    dl_arena *arena;
    int n;
    const dl_step *steps;
    unsigned row;
    int *of; /* by step: the axes of the reductions of its own stage that it depends on, NOWHERE or
                MIXED */
    bool *rows;   /* by loop nest: reduces rows */
    bool *inside; /* by step: waits for a reduction of the row in its own loop nest */
    bool *small;  /* by step: computed from reductions of its own axes alone, and can be kept */
    int *nest;    /* by step: the loop nest of a root, or -1 */
    bool *need;   /* of the loop nest that is being filled */
    dl_loop_nests s;
} finder;

dl_step *dl_kernel_steps(const dl_kernel *k, dl_arena *arena) {
    dl_step *steps = DL_NEWS(arena, dl_step, k->instrs.n + 1);
    const unsigned *axes = dl_kernel_axes(k, arena);
    for (int i = 0; i < k->instrs.n; i++) {
        const dl_kinstr *in = &k->instrs.at[i];
        steps[i] =
            (dl_step){.kind = in->kind, .axes = axes[i], .over = in->over, .nargs = in->nargs};
        for (int a = 0; a < k->nspace; a++)
            if (k->space[a].size == 1) steps[i].over &= ~(1u << a);
        memcpy(steps[i].args, in->args, sizeof in->args);
        bool places = in->kind == DL_K_LOAD || in->kind == DL_K_STORE;
        int by = places ? dl_kinstr_indirect(k, in) : -1;
        if (by >= 0) steps[i].args[steps[i].nargs++] = by;
        if (in->kind == DL_K_REDUCE && !steps[i].over)
            steps[i].kind = DL_K_ELEM; /* a reduction over one point: the value itself */
    }
    return steps;
}

static bool of_row(const finder *f, const dl_step *s) {
    return s->kind == DL_K_REDUCE && f->row && s->over == f->row;
}

/* Reduces over all points of a loop nest, of which it is a root. */
static bool is_global(const finder *f, int i) {
    return f->steps[i].kind == DL_K_REDUCE && !of_row(f, &f->steps[i]);
}

static void find_stage(finder *f, int i) {
    const dl_step *s = &f->steps[i];
    int stage = 0, level = 0, of = NOWHERE;
    bool inside = false;
    for (int a = 0; a < s->nargs; a++) {
        if (f->s.stage[s->args[a]] > stage) stage = f->s.stage[s->args[a]];
        if (f->s.level[s->args[a]] > level) level = f->s.level[s->args[a]];
        inside |= f->inside[s->args[a]];
    }
    for (int a = 0; a < s->nargs; a++) {
        int other = f->of[s->args[a]];
        if (f->s.stage[s->args[a]] != stage || other == NOWHERE || other == of) continue;
        of = of == NOWHERE ? other : MIXED;
    }
    if (of_row(f, s)) level++, inside = true;
    if (is_global(f, i)) stage++, level = 0, inside = false, of = (int)s->axes;
    f->s.stage[i] = stage, f->s.level[i] = level, f->of[i] = of, f->inside[i] = inside;
    f->small[i] =
        is_global(f, i) || (s->kind == DL_K_ELEM && stage && !inside && of == (int)s->axes);
}

static int find_nest(finder *f, int stage, bool finalize, unsigned axes, unsigned row) {
    for (int i = 0; i < f->s.n; i++) {
        const dl_loop_nest *w = &f->s.at[i];
        if (w->stage == stage && w->finalize == finalize && w->axes == axes && w->row == row)
            return i;
    }
    f->s.at[f->s.n] =
        (dl_loop_nest){.stage = stage, .finalize = finalize, .axes = axes, .row = row};
    return f->s.n++;
}

/* Is there a finalize step of first reductions that keep these axes? */
static bool has_finalize(const finder *f, unsigned axes) {
    for (int i = 0; i < f->s.n; i++)
        if (f->s.at[i].finalize && f->s.at[i].stage == 1 && f->s.at[i].axes == axes) return true;
    return false;
}

/* Is there a loop nest at the points of these axes over resident rows? */
static bool has_rows(const finder *f, int stage, unsigned axes) {
    for (int i = 0; i < f->s.n; i++)
        if (f->rows[i] && f->s.at[i].stage == stage && f->s.at[i].axes == axes) return true;
    return false;
}

/* Where a store or a reduction runs. */
static void place_root(finder *f, int i) {
    const dl_step *s = &f->steps[i];
    bool store = s->kind == DL_K_STORE;
    int arg = s->args[0], stage = f->s.stage[arg];
    unsigned axes = store ? s->axes : f->steps[arg].axes | s->over;
    if (!store) {
        dl_loop_nest *w = &f->s.at[find_nest(f, stage + 1, true, s->axes, 0)];
        dl_push(f->arena, &w->combined, i);
    }
    if (store && stage && f->small[arg] && f->of[arg] == (int)axes)
        f->nest[i] = find_nest(f, stage, true, axes, 0);
    else if (store && !stage && !f->inside[arg] && has_finalize(f, axes))
        f->nest[i] =
            find_nest(f, 1, true, axes, 0); /* it could run earlier, in a loop nest of its own */
    else if (f->row && (axes & f->row) == f->row)
        f->nest[i] = find_nest(f, stage, false, axes & ~f->row, f->row);
    else if (f->inside[arg] || has_rows(f, stage, axes)) {
        f->nest[i] = find_nest(f, stage, false, axes, f->row);
        if (axes & f->row) f->s.valid = false; /* the axes are a part of the row */
    } else
        f->nest[i] = find_nest(f, stage, false, axes, 0);
    f->rows[f->nest[i]] |= f->inside[arg];
}

/* Lists the instructions that a loop nest computes and reads, from its roots down. */
static void fill(finder *f, int number) {
    dl_loop_nest *w = &f->s.at[number];
    bool *need = f->need, rows = false;
    memset(need, 0, sizeof *need * (size_t)f->n);
    for (int i = f->n - 1; i >= 0; i--) {
        bool root = f->nest[i] == number;
        need[i] |= root;
        if (!need[i]) continue;
        bool before = w->finalize ? f->s.stage[i] < w->stage : true;
        if (!root && (is_global(f, i) || (f->small[i] && before))) {
            bool own = w->finalize && is_global(f, i) && f->s.stage[i] == w->stage;
            f->s.kept[i] |= !own;
            /* computed where the partial results that it depends on are combined */
            if (!is_global(f, i))
                f->nest[i] = find_nest(f, f->s.stage[i], true, f->steps[i].axes, 0);
            dl_push(f->arena, &w->read, i);
            continue;
        }
        dl_push(f->arena, &w->run, i);
        rows |= of_row(f, &f->steps[i]);
        for (int a = 0; a < f->steps[i].nargs; a++) need[f->steps[i].args[a]] = true;
    }
    for (int i = 0, j = w->run.n - 1; i < j; i++, j--) {
        int t = w->run.at[i];
        w->run.at[i] = w->run.at[j], w->run.at[j] = t;
    }
    if (!rows) w->axes |= w->row, w->row = 0; /* a plain loop */
}

/* A stage's finalize steps come first, then its other loop nests. */
static int compare(const dl_loop_nest *a, const dl_loop_nest *b) {
    if (a->stage != b->stage) return a->stage - b->stage;
    return (int)b->finalize - (int)a->finalize;
}

static void sort(finder *f) {
    for (int i = 1; i < f->s.n; i++)
        for (int j = i; j > 0 && compare(&f->s.at[j - 1], &f->s.at[j]) > 0; j--) {
            dl_loop_nest t = f->s.at[j];
            f->s.at[j] = f->s.at[j - 1], f->s.at[j - 1] = t;
        }
}

dl_loop_nests dl_find_loop_nests(dl_arena *arena, int n, const dl_step *steps, unsigned row) {
    finder f = {.arena = arena, .n = n, .steps = steps, .row = row, .s.valid = true};
    f.s.stage = DL_NEWS(arena, int, n + 1), f.s.level = DL_NEWS(arena, int, n + 1);
    f.s.kept = DL_NEWS(arena, bool, n + 1), f.s.at = DL_NEWS(arena, dl_loop_nest, 2 * n + 1);
    f.of = DL_NEWS(arena, int, n + 1), f.inside = DL_NEWS(arena, bool, n + 1);
    f.need = DL_NEWS(arena, bool, n + 1), f.rows = DL_NEWS(arena, bool, 2 * n + 1);
    f.small = DL_NEWS(arena, bool, n + 1), f.nest = DL_NEWS(arena, int, n + 1);
    for (int i = 0; i < n; i++) f.nest[i] = -1, find_stage(&f, i);
    for (int last = 0; last < 4; last++) /* roots without a choice first */
        for (int i = 0; i < n; i++)
            if ((is_global(&f, i) || steps[i].kind == DL_K_STORE) &&
                (steps[i].kind == DL_K_STORE) + 2 * !f.inside[steps[i].args[0]] == last)
                place_root(&f, i);
    int last = 0;
    for (int i = 0; i < f.s.n; i++) {
        if (f.s.at[i].stage > last) last = f.s.at[i].stage;
        if (!f.s.at[i].finalize) fill(&f, i);
    }
    for (int stage = last; stage >= 0; stage--) {
        bool swept = false;
        for (int i = 0; i < f.s.n; i++) {
            swept |= f.s.at[i].stage == stage && !f.s.at[i].finalize;
            if (f.s.at[i].stage == stage && f.s.at[i].finalize) fill(&f, i);
        }
        f.s.times += swept;
    }
    sort(&f);
    return f.s;
}

int dl_loop_nests_independent(const dl_loop_nests *s, int from) {
    int to = from;
    while (to < s->n && s->at[to].stage == s->at[from].stage &&
           s->at[to].finalize == s->at[from].finalize)
        to++;
    return to;
}

int dl_kernel_inner(const dl_kernel *k) {
    int64_t most = 0;
    int inner = -1;
    for (int i = 0; i < k->instrs.n; i++) {
        const dl_kinstr *in = &k->instrs.at[i];
        if (in->kind != DL_K_LOAD && in->kind != DL_K_STORE) continue;
        const dl_type *t = &k->params.at[in->param].type;
        if (t->layout.kind == DL_PANEL || dl_type_count(t) <= most) continue;
        int64_t stride[DL_MAX_RANK];
        dl_type_strides(t, stride);
        for (int a = 0; a < t->rank; a++)
            if (in->index[a].axis >= 0 && t->axis[a].size != 1 && stride[a] == 1)
                inner = in->index[a].axis, most = dl_type_count(t);
    }
    return inner;
}
