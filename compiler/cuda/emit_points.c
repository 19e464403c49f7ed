/* Loop nests over points. Without reductions a thread takes one point, or a vector of contiguous
 * ones. With reductions a lane group has a kept point and loops over its terms, a part of which
 * is a CTA's; its result is a partial result. */
#include "compiler/cuda/emit_loops.h"

enum {
    LEAST_TERMS = 8,         /* terms per thread, at least, before more CTAs share a sum */
    FEW_POINTS = 2048,       /* kept points: with fewer, each has a whole CTA */
    WARP_TERMS = 2048,       /* terms: too many for a warp */
    MOST_ROWS = 8,           /* that a thread loops over, without sums */
    SCALAR_POINTS = 1 << 13, /* without sums: with so few points, one thread for each is better */
    MOST_UNROLLED = 4,       /* unroll factor of a loop over terms, for overlapping loads, */
    UNROLL_REGISTERS = 24    /* as long as they fit into so many registers */
};

typedef struct {
    dl_emitter *e;
    dl_axis_list order, kept, summed;
    dl_thread_layout layout;
    dl_vectors vectors;
    bool vectors_kept;          /* along a kept axis: each of a vector's points has its own sums */
    int nsums, *sum;            /* its reductions */
    int64_t points, terms;      /* in vectors */
    dl_axis_list around, along; /* without sums: the axes of a vector, and the axes around them; */
    int64_t rows,
        step;   /* a thread has several vectors, each so many points after the one before; 0: one */
    int unroll; /* terms that a thread takes at once */
    int64_t tiles, parts,
        each; /* CTAs by kept points, and by parts of the sums, `each` terms long */
} nest;

static const dl_kinstr *instr_of(const nest *s, int i) { return &s->e->k->instrs.at[i]; }
/* Does it keep no axis while others do? Then it is reduced over all threads of the CTA. */
static bool is_of_block(const nest *s, int i) { return !s->e->steps[i].axes && s->kept.n; }

static void choose_layout(nest *s) {
    int lanes;
    if (s->vectors_kept || !s->summed.n) {
        s->layout.strided = true;
        int groups = dl_cuda_power_of_two(dl_at_most(s->points, DL_WARP));
        lanes = DL_BLOCK / groups;
        while (lanes > 1 && lanes / 2 >= s->terms) lanes /= 2;
        if (s->points >= (int64_t)DL_BLOCK * DL_BLOCKS_ENOUGH) lanes = 1;
    } else {
        bool block = s->points <= FEW_POINTS || s->terms > WARP_TERMS;
        lanes = block && s->terms > DL_WARP ? DL_BLOCK
                                            : dl_cuda_power_of_two(dl_at_most(s->terms, DL_WARP));
    }
    s->layout.lanes = lanes, s->layout.groups = DL_BLOCK / lanes, s->layout.unrolled = true;
}

/* Without sums: a thread takes several rows, so that loop-invariant values, such as a norm's
 * weight, are loaded and computed once; as many as leave enough CTAs. */
static void choose_rows(nest *s) {
    dl_emitter *e = s->e;
    bool invariant = false;
    int n = s->kept.n, first = n - 1;
    s->step = DL_BLOCK * s->vectors.width;
    if (s->nsums || e->per_thread || s->vectors.other_axis || n < 2 || s->vectors.width == 1)
        return;
    while (first > 0 && dl_emit_collapses(e, s->kept.axis[first - 1], s->kept.axis[first])) first--;
    unsigned own = 0;
    for (int i = first; i < n; i++) own |= 1u << s->kept.axis[i];
    s->along = dl_emit_list_axes(e, &s->kept, own),
    s->around = dl_emit_list_axes(e, &s->kept, ~own);
    dl_vectors vectors = dl_cuda_find_vectors(e, &s->kept, e->now->axes & ~own);
    for (int i = 0; i < e->k->instrs.n; i++) invariant |= vectors.invariant[i];
    int64_t step = s->along.points / dl_gcd(s->along.points, s->step) * s->step,
            rows = s->kept.points / s->step / (2 * DL_BLOCKS_ENOUGH);
    rows = dl_at_least(1, dl_at_most(rows, MOST_ROWS));
    if (!invariant || !s->around.n || !s->kept.points || step > s->kept.points / rows) return;
    s->vectors = vectors, s->rows = rows, s->step = step;
}

/* The number of terms whose loads a thread can have in flight. */
static int choose_unroll(const nest *s) {
    int64_t registers = 0, most = s->each / s->layout.lanes;
    int unroll = MOST_UNROLLED;
    for (int i = 0; i < s->e->now->run.n; i++) {
        int number = s->e->now->run.at[i];
        const dl_kinstr *in = instr_of(s, number);
        if (in->kind != DL_K_LOAD || s->vectors.invariant[number]) continue;
        int bytes =
            s->vectors.has[number] ? dl_dtype_bytes(s->e->k->params.at[in->param].type.dtype) : 4;
        registers += dl_ceil_div(bytes * s->vectors.width, 4);
    }
    while (unroll > 1 && (unroll * registers > UNROLL_REGISTERS || unroll > most)) unroll /= 2;
    return s->nsums && !s->e->per_thread ? unroll : 1;
}

static nest plan_nest(dl_emitter *e) {
    static const dl_axis_list nothing = {.points = 1};
    nest s = {.e = e, .parts = 1, .sum = DL_NEWS(e->arena, int, e->now->run.n + 1)};
    unsigned kept = 0;
    for (int i = 0; i < e->now->run.n; i++)
        if (e->steps[e->now->run.at[i]].kind == DL_K_REDUCE)
            s.sum[s.nsums++] = e->now->run.at[i], kept |= e->steps[e->now->run.at[i]].axes;
    if (!s.nsums) kept = e->now->axes;
    s.order = dl_cuda_order_axes(e, e->now->axes);
    s.kept = dl_emit_list_axes(e, &s.order, kept);
    s.summed = dl_emit_list_axes(e, &s.order, e->now->axes & ~kept);
    int last = s.order.n ? s.order.axis[s.order.n - 1] : -1;
    s.vectors_kept = last >= 0 && kept >> last & 1;
    unsigned moving = s.nsums && s.kept.points ? e->now->axes & ~kept : ~0u;
    bool scalar = !s.nsums && s.kept.points <= SCALAR_POINTS;
    s.vectors = dl_cuda_find_vectors(e,
                                     scalar           ? &nothing
                                     : s.vectors_kept ? &s.kept
                                                      : &s.summed,
                                     moving);
    if (!scalar && (!s.nsums || !s.vectors_kept))
        dl_cuda_choose_vector_axis(e, s.vectors_kept ? &s.kept : &s.summed, moving, &s.vectors);
    s.points = s.kept.points / (s.vectors_kept ? s.vectors.width : 1);
    s.terms = s.summed.points / (s.vectors_kept ? 1 : s.vectors.width);
    choose_rows(&s);
    choose_layout(&s);
    s.tiles = dl_at_least(1, dl_ceil_div(s.points, s.layout.groups));
    int64_t most = dl_ceil_div(s.terms, s.layout.lanes * LEAST_TERMS);
    s.parts = dl_cuda_share(s.terms, s.layout.lanes, dl_at_most(most, DL_BLOCKS_ENOUGH / s.tiles),
                            &s.each);
    s.unroll = choose_unroll(&s);
    return s;
}

/* Without reductions. */
static void put_points(nest *s) {
    dl_loops l = dl_loop_begin(s->e);
    dl_expr first = dl_loop_by(&l, dl_loop_item(&l), '*', DL_BLOCK),
            at = dl_loop_let(&l, "at", dl_loop_op(&l, first, '+', dl_loop_thread(&l)));
    dl_loop_if(&l, dl_loop_by(&l, at, '<', s->points));
    dl_loop_collapsed(&l, at, &s->kept, &s->vectors);
    dl_cuda_put_points(&l, &s->vectors, NULL, NULL);
    dl_loop_end(&l);
    dl_loop_print(&l);
}

/* The same for several rows, with CTAs of the same part of a row adjacent. */
static void put_rows(nest *s) {
    int64_t block = (int64_t)DL_BLOCK * s->vectors.width, row_parts = s->step / block,
            each = s->step * s->rows;
    dl_loops l = dl_loop_begin(s->e);
    dl_expr item = dl_loop_item(&l),
            rows = dl_loop_by(&l, dl_loop_by(&l, item, '/', row_parts), '*', each),
            part = dl_loop_by(&l, dl_loop_by(&l, item, '%', row_parts), '*', block),
            own = dl_loop_by(&l, dl_loop_thread(&l), '*', s->vectors.width),
            first =
                dl_loop_let(&l, "first", dl_loop_op(&l, dl_loop_op(&l, rows, '+', part), '+', own));
    own = dl_loop_let(&l, "own", dl_loop_by(&l, first, '%', s->along.points));
    dl_loop_collapsed(&l, own, &s->along, NULL);
    dl_cuda_load_vectors(&l, &s->vectors, dl_cuda_find_runs(s->e), DL_HOISTED);
    dl_expr next = dl_loop_by(&l, first, '+', each),
            end = dl_loop_let(&l, "end", dl_loop_by(&l, next, 'm', s->kept.points)),
            at = dl_loop_for(&l, "at", first, end, dl_loop_number(&l, s->step), 1);
    dl_loop_collapsed(&l, dl_loop_let(&l, "line", dl_loop_by(&l, at, '/', s->along.points)),
                      &s->around, NULL);
    dl_cuda_put_points(&l, &s->vectors, NULL, NULL);
    dl_loop_end(&l);
    dl_loop_print(&l);
}

/* ---- with reductions ---- */

/* The tree of a loop nest with reductions, and its names. */
typedef struct {
    nest *s;
    dl_loops l;
    dl_expr thread, lane, part, first, at, live;
    dl_expr *sums; /* by instruction: a thread's accumulator, or one of each of a vector's points */
} sums;

static const char *name_of(const sums *t, const char *prefix, int number) {
    return dl_format(t->s->e->arena, "$%s%d$", prefix, number);
}

/* Opens a loop over a vector's accumulators. */
static dl_expr open_width(sums *t) {
    dl_loops *l = &t->l;
    return dl_loop_for(l, "j", dl_loop_fixed(l, 0), dl_loop_fixed(l, t->s->vectors.width), NULL,
                       DL_UNROLLED);
}

/* A thread's accumulators, or those of the terms that are taken at once. */
static dl_expr *put_starts(sums *t, bool at_once) {
    const nest *s = t->s;
    dl_expr *made = DL_NEWS(s->e->arena, dl_expr, s->e->k->instrs.n + 1);
    int width = s->vectors_kept ? s->vectors.width : 1;
    for (int i = 0; i < s->nsums; i++) {
        int number = s->sum[i];
        const dl_kinstr *in = instr_of(s, number);
        dl_loop_type type =
            at_once ? dl_cuda_accumulator_type(in, s->unroll) : dl_loop_partial_type(in);
        const char *name = name_of(t, at_once ? "t" : "a", number);
        made[number] = dl_loop_vars(&t->l, type, name, width, dl_loop_start(&t->l, in));
    }
    return made;
}

/* One or several unrolled steps of the loop over terms, whose sums are separate floats first. A
 * missing term is masked without a branch, since each unrolled copy would have one. */
static void put_terms(sums *t, dl_expr term, dl_expr end) {
    nest *s = t->s;
    dl_loops *l = &t->l;
    bool at_once = s->unroll > 1;
    dl_expr *own = at_once ? put_starts(t, true) : t->sums, in = NULL;
    if (at_once) {
        dl_expr turn = dl_loop_for(l, "turn", dl_loop_fixed(l, 0), dl_loop_fixed(l, s->unroll),
                                   NULL, DL_UNROLLED),
                here = dl_loop_op(l, term, '+', dl_loop_by(l, turn, '*', s->layout.lanes));
        here = dl_loop_let(l, "own", here);
        in = dl_loop_let(l, "in", dl_loop_op(l, here, '<', end));
        term = dl_loop_let(l, "here", dl_loop_select(l, in, here, term));
    }
    dl_loop_collapsed(l, term, &s->summed, s->vectors_kept ? NULL : &s->vectors);
    dl_cuda_put_points(l, &s->vectors, own, in);
    if (!at_once) return;
    dl_loop_end(l);
    for (int i = 0; i < s->nsums; i++) {
        int number = s->sum[i];
        bool vector = s->vectors_kept && s->vectors.width > 1;
        dl_expr j = vector ? open_width(t) : NULL, all = dl_loop_slot(l, t->sums[number], j),
                more = dl_loop_slot(l, own[number], j);
        more = dl_loop_convert(l, dl_loop_expr_type(all), more);
        dl_loop_set(l, all, dl_loop_combine(l, instr_of(s, number), all, more));
        if (vector) dl_loop_end(l);
    }
}

/* The place of the partial results of kept point `at`. */
static dl_expr place_of(sums *t, dl_expr at) {
    return dl_loop_op(&t->l, dl_loop_by(&t->l, t->part, '*', t->s->kept.points), '+', at);
}

static dl_expr is_writer(sums *t) {
    return dl_loop_op(&t->l, t->live, '&', dl_loop_by(&t->l, t->lane, '=', 0));
}

/* Are its vector values reduced over the CTA's threads, and stored contiguously? */
static bool is_left(const nest *s, int number) {
    return !is_of_block(s, number) && s->vectors_kept && s->vectors.width > 1 &&
           s->layout.groups > 1 && s->layout.lanes > 1;
}

static bool are_alike(const dl_kinstr *a, const dl_kinstr *b) {
    return a->op == b->op && dl_dtype_is_float(a->type) == dl_dtype_is_float(b->type);
}

/* Reductions of one kind, the first of them `number`, are stored as partial results in a loop,
 * so that their text exists once. In the workspace they have a constant distance. */
static void put_left(sums *t, int number, bool *left, dl_emitted *code) {
    nest *s = t->s;
    dl_emitter *e = s->e;
    dl_loops *l = &t->l;
    const dl_kinstr *in = instr_of(s, number);
    int n = 0, *alike = DL_NEWS(e->arena, int, s->nsums);
    for (int i = 0; i < s->nsums; i++) {
        int other = s->sum[i];
        if (left[other] || !is_left(s, other) || !are_alike(in, instr_of(s, other))) continue;
        dl_cuda_add_partial(e, other, &s->kept, s->parts, code);
        left[other] = true, alike[n++] = other;
    }
    dl_expr all = t->sums[number], place = place_of(t, t->first);
    if (n > 1) {
        dl_expr i = dl_loop_for(l, "i", dl_loop_fixed(l, 0), dl_loop_fixed(l, n), NULL, 1);
        all =
            dl_loop_array(l, dl_loop_partial_type(in), DL_IN_THREAD, "all", s->vectors.width, NULL);
        dl_expr j = open_width(t), chosen = dl_loop_at(l, t->sums[number], j);
        for (int k = n - 1; k > 0; k--)
            chosen = dl_loop_select(l, dl_loop_by(l, i, '=', k),
                                    dl_loop_at(l, t->sums[alike[k]], j), chosen);
        dl_loop_set(l, dl_loop_at(l, all, j), chosen);
        dl_loop_end(l);
        int64_t apart = e->partial[alike[1]].base - e->partial[number].base;
        place = dl_loop_op(l, dl_loop_by(l, i, '*', apart / (int64_t)sizeof(double)), '+', place);
    }
    dl_expr array = dl_loop_workspace(l, dl_loop_partial_type(in), e->partial[number].base),
            kept = dl_loop_number(l, s->kept.points);
    const dl_expr args[] = {all, dl_loop_number(l, s->layout.groups), dl_loop_from(l, array, place),
                            dl_loop_op(l, kept, '-', t->first)};
    dl_loop_do(l, dl_loop_call(l, DL_LOOP_INDEX, dl_cuda_of_block(e, "group_store", in), 4, args));
    if (n > 1) dl_loop_end(l);
}

/* Stores the vector sums of a thread, or of the CTA. */
static void put_vector(sums *t, int number) {
    dl_loops *l = &t->l;
    const char *reduce = dl_cuda_of_block(t->s->e, "block_reduce", instr_of(t->s, number));
    if (t->s->layout.groups == 1)
        dl_loop_do(l, dl_loop_call(l, DL_LOOP_INDEX, reduce, 1, &t->sums[number]));
    dl_expr j = open_width(t);
    dl_cuda_put_partial(l, number, dl_loop_op(l, place_of(t, t->at), '+', j),
                        dl_loop_at(l, t->sums[number], j), is_writer(t));
    dl_loop_end(l);
}

/* Stores the CTA's sum. */
static void put_block(sums *t, int number) {
    dl_loops *l = &t->l;
    const dl_kinstr *in = instr_of(t->s, number);
    dl_expr all = dl_loop_slot(l, t->sums[number], dl_loop_fixed(l, 0));
    for (int j = 1; t->s->vectors_kept && j < t->s->vectors.width; j++)
        all = dl_loop_combine(l, in, all, dl_loop_at(l, t->sums[number], dl_loop_fixed(l, j)));
    const char *reduce = dl_cuda_of_block(t->s->e, "block_reduce_one", in);
    all = dl_loop_let(l, name_of(t, "all", number),
                      dl_loop_call(l, dl_loop_partial_type(in), reduce, 1, &all));
    dl_cuda_put_partial(l, number, dl_loop_item(l), all, dl_loop_by(l, t->thread, '=', 0));
}

/* Stores a thread's sum as a partial result; `reduced`: the CTA's sum, or NULL. */
static void put_result(sums *t, int number, dl_expr reduced) {
    dl_loops *l = &t->l;
    if (!reduced)
        reduced = dl_loop_reduce(l, instr_of(t->s, number), t->sums[number], &t->s->layout);
    dl_expr all = dl_loop_let(l, name_of(t, "all", number), reduced);
    dl_cuda_put_partial(l, number, place_of(t, t->at), all, is_writer(t));
}

/* By instruction, the CTA's result of each sum that is reduced over the whole CTA. */
static dl_expr *reduce_blocks(sums *t) {
    const nest *s = t->s;
    dl_expr *reduced = DL_NEWS(s->e->arena, dl_expr, s->e->k->instrs.n + 1);
    int n = 0, *numbers = DL_NEWS(s->e->arena, int, s->nsums);
    for (int i = 0; i < s->nsums; i++)
        if (!is_of_block(s, s->sum[i])) numbers[n++] = s->sum[i];
    if (!s->vectors_kept && s->layout.lanes == DL_BLOCK)
        dl_cuda_reduce_few(&t->l, n, numbers, t->sums, DL_BLOCK, reduced);
    return reduced;
}

static void put_results(sums *t, dl_emitted *code) {
    static const dl_axis_list nothing = {.points = 1};
    nest *s = t->s;
    dl_expr *reduced = reduce_blocks(t);
    bool *left = DL_NEWS(s->e->arena, bool, s->e->k->instrs.n + 1);
    for (int i = 0; i < s->nsums; i++) {
        int number = s->sum[i];
        if (is_left(s, number) && !left[number]) put_left(t, number, left, code);
        if (left[number]) continue;
        bool block = is_of_block(s, number);
        dl_cuda_add_partial(s->e, number, block ? &nothing : &s->kept,
                            block ? s->tiles * s->parts : s->parts, code);
        if (block)
            put_block(t, number);
        else if (s->vectors_kept && s->vectors.width > 1)
            put_vector(t, number);
        else
            put_result(t, number, reduced[number]);
    }
}

static void put_sums(nest *s, dl_emitted *code) {
    sums t = {.s = s, .l = dl_loop_begin(s->e)};
    dl_loops *l = &t.l;
    dl_expr group, item = dl_loop_item(l), zero = dl_loop_fixed(l, 0);
    int width = s->vectors_kept ? s->vectors.width : 1;
    dl_loop_threads(l, &s->layout, &t.lane, &group);
    t.thread = dl_loop_thread(l);
    t.part = dl_loop_let(l, "part", dl_loop_by(l, item, '%', s->parts));
    dl_expr tile = dl_loop_by(l, item, '/', s->parts);
    t.first = dl_loop_let(l, "first", dl_loop_by(l, tile, '*', s->layout.groups * width));
    t.at = dl_loop_op(l, t.first, '+', dl_loop_op(l, group, '*', dl_loop_fixed(l, width)));
    t.at = dl_loop_let(l, "at", t.at);
    t.live = dl_loop_let(l, "live", dl_loop_by(l, t.at, '<', s->kept.points));
    dl_expr point = dl_loop_let(l, "point", dl_loop_select(l, t.live, t.at, zero));
    dl_loop_collapsed(l, point, &s->kept, NULL);
    t.sums = put_starts(&t, false);
    dl_cuda_load_vectors(l, &s->vectors, dl_cuda_find_runs(s->e), DL_HOISTED);
    dl_expr from = dl_loop_let(l, "from", dl_loop_by(l, t.part, '*', s->each)),
            next = dl_loop_by(l, dl_loop_by(l, from, '+', s->each), 'm', s->terms),
            end = dl_loop_let(l, "end", dl_loop_select(l, t.live, next, from)),
            step = dl_loop_number(l, s->layout.lanes * s->unroll),
            term = dl_loop_for(l, "term", dl_loop_op(l, from, '+', t.lane), end, step, 1);
    put_terms(&t, term, end);
    dl_loop_end(l);
    put_results(&t, code);
    dl_loop_print(l);
}

int64_t dl_cuda_points(dl_emitter *e, dl_emitted *code) {
    nest s = plan_nest(e);
    if (s.nsums)
        put_sums(&s, code);
    else if (s.rows)
        put_rows(&s);
    else
        put_points(&s);
    if (s.nsums) return s.tiles * s.parts;
    return s.rows ? dl_ceil_div(s.kept.points, s.step * s.rows) *
                        (s.step / (DL_BLOCK * s.vectors.width))
                  : dl_ceil_div(dl_at_least(1, s.points), DL_BLOCK);
}
