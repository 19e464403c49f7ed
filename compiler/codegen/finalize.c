/* Finalizing loop nests: finalize.h. */
#include "compiler/codegen/finalize.h"

enum {
    CHUNK = 256,      /* points of a work item of one thread */
    THREAD_TERMS = 4, /* partial results that one thread sums, */
    WARP_TERMS = 256, /* that one warp sums; a CTA takes more */
    WARP = 32,
    LOADS = 4, /* in flight at a time, per thread */
};

/* The axes of partial results that a reduction does not keep: they are summed, too. */
static dl_axis_list rest_of(const dl_emitter *e, int number) {
    return dl_emit_list_axes(e, &e->partial[number].by, ~e->steps[number].axes);
}

/* Results by lane, of one that keeps no axis. */
static int64_t lanes_of(const dl_partial *p) { return p->by.n || !p->count ? 1 : p->count; }

static int64_t count_terms(const dl_emitter *e, int number) {
    const dl_partial *p = &e->partial[number];
    return p->items * rest_of(e, number).points * lanes_of(p);
}

/* The nest's axes in the order of the first reduction's partial results. */
static dl_axis_list point_axes(const dl_emitter *e) {
    const dl_partial *lead = &e->partial[e->now->combined.at[0]];
    dl_axis_list own = dl_emit_list_axes(e, &lead->by, e->now->axes);
    DL_CHECK(own.points == dl_emit_space_axes(e, e->now->axes).points);
    return own;
}

static bool joins(const dl_emitter *e, int a, int b) {
    dl_axis_list p = rest_of(e, a), q = rest_of(e, b);
    return e->partial[a].items == e->partial[b].items &&
           lanes_of(&e->partial[a]) == lanes_of(&e->partial[b]) && p.n == q.n &&
           memcmp(p.axis, q.axis, (size_t)p.n * sizeof *p.axis) == 0;
}

/* Partial result number `term` of a reduction at the present point. */
static dl_expr partial_of(dl_loops *l, int number, dl_expr term) {
    const dl_partial *p = &l->e->partial[number];
    int64_t lanes = lanes_of(p), rest = rest_of(l->e, number).points;
    dl_expr item = dl_loop_by(l, term, '/', (rest ? rest : 1) * lanes),
            place = dl_loop_by(l, item, '*', p->all);
    if (p->at) place = dl_loop_by(l, place, '+', p->at);
    place = dl_loop_op(l, place, '+', dl_loop_linear(l, &p->by));
    if (lanes > 1) place = dl_loop_op(l, place, '+', dl_loop_by(l, term, '%', lanes));
    dl_loop_type type = dl_loop_partial_type(&l->e->k->instrs.at[number]);
    return dl_loop_at(l, dl_loop_workspace(l, type, p->base), place);
}

/* A loop in which a thread combines partial results of `n` reductions; totals: by instruction. */
static void put_terms(dl_loops *l, int n, const int *numbers, int lanes, dl_expr lane,
                      dl_expr *totals) {
    dl_emitter *e = l->e;
    dl_axis_list rest = rest_of(e, numbers[0]);
    for (int i = 0; i < n; i++) {
        const dl_kinstr *in = &e->k->instrs.at[numbers[i]];
        totals[numbers[i]] =
            dl_loop_var(l, dl_loop_partial_type(in), dl_format(e->arena, "$t%d$", numbers[i]),
                        dl_loop_start(l, in));
    }
    dl_expr all = dl_loop_number(l, count_terms(e, numbers[0])),
            term =
                dl_loop_for(l, "n", lane, all, dl_loop_number(l, lanes), n < LOADS ? LOADS / n : 1);
    dl_loop_coordinates(l, dl_loop_by(l, term, '%', rest.points ? rest.points : 1), &rest);
    for (int i = 0; i < n; i++) {
        const dl_kinstr *in = &e->k->instrs.at[numbers[i]];
        dl_expr one = partial_of(l, numbers[i], term), total = totals[numbers[i]];
        dl_loop_set(l, total, dl_loop_combine(l, in, total, one));
    }
    dl_loop_end(l);
}

/* Reductions with equally many partial results share a loop, so that their loads overlap. */
static void put_combinations(dl_loops *l, const dl_thread_layout *t, dl_expr lane) {
    const dl_emitter *e = l->e;
    const dl_loop_nest *s = e->now;
    int *numbers = DL_NEWS(e->arena, int, s->combined.n + 1);
    dl_expr *totals = DL_NEWS(e->arena, dl_expr, e->k->instrs.n + 1);
    for (int i = 0; i < s->combined.n; i++) {
        int n = 0;
        for (int j = i; j < s->combined.n && !totals[s->combined.at[i]]; j++)
            if (!totals[s->combined.at[j]] && joins(e, s->combined.at[i], s->combined.at[j]))
                numbers[n++] = s->combined.at[j];
        if (n) put_terms(l, n, numbers, t->lanes, lane, totals);
    }
    for (int i = 0; i < s->combined.n; i++) {
        int number = s->combined.at[i];
        dl_loop_define(l, number, dl_loop_reduce(l, &e->k->instrs.at[number], totals[number], t));
    }
}

/* The instructions of one point, after its combinations. */
static void put_program(dl_loops *l) {
    const dl_emitter *e = l->e;
    const dl_loop_nest *s = e->now;
    for (int i = 0; i < s->read.n; i++)
        if (!dl_loop_has(l, s->read.at[i])) dl_loop_read(l, s->read.at[i]);
    for (int i = 0; i < s->run.n; i++) dl_loop_instr(l, s->run.at[i]);
    for (int i = 0; i < s->combined.n; i++)
        if (e->nests.kept[s->combined.at[i]]) dl_loop_keep(l, s->combined.at[i]);
    for (int i = 0; i < s->run.n; i++)
        if (e->nests.kept[s->run.at[i]]) dl_loop_keep(l, s->run.at[i]);
}

int64_t dl_emit_finalize(dl_emitter *e, int threads) {
    dl_axis_list axes = point_axes(e);
    int64_t terms = 1, points = axes.points;
    for (int i = 0; i < e->now->combined.n; i++) {
        int64_t n = count_terms(e, e->now->combined.at[i]);
        if (n > terms) terms = n;
    }
    int lanes = threads == 1 || terms <= THREAD_TERMS ? 1 : terms <= WARP_TERMS ? WARP : threads;
    dl_thread_layout t = {.lanes = lanes, .groups = threads / lanes};
    int64_t each = threads == 1 ? CHUNK : t.groups;
    dl_loops l = dl_loop_begin(e);
    dl_expr lane, group, item = dl_loop_item(&l), zero = dl_loop_fixed(&l, 0),
                         all = dl_loop_number(&l, points);
    dl_loop_threads(&l, &t, &lane, &group);
    dl_expr first =
        dl_loop_let(&l, "first", dl_loop_op(&l, dl_loop_by(&l, item, '*', each), '+', group));
    if (threads == 1) {
        dl_expr next = dl_loop_by(&l, first, '+', each),
                last = dl_loop_let(&l, "last", dl_loop_op(&l, next, 'm', all));
        dl_loop_coordinates(&l, dl_loop_for(&l, "at", first, last, NULL, 0), &axes);
        put_combinations(&l, &t, lane);
    } else {
        dl_expr live = dl_loop_let(&l, "live", dl_loop_op(&l, first, '<', all)),
                at = dl_loop_let(&l, "at", dl_loop_select(&l, live, first, zero));
        dl_loop_coordinates(&l, at, &axes);
        put_combinations(&l, &t, lane);
        dl_loop_if(&l, dl_loop_op(&l, live, '&', dl_loop_by(&l, lane, '=', 0)));
    }
    put_program(&l);
    dl_loop_end(&l);
    dl_loop_print(&l);
    return dl_ceil_div(points || threads == 1 ? points : 1, each);
}
