/* Resident reductions: a lane group takes one row at a time and loops over it in several passes,
 * between which the reductions over the row are complete. Values that a later pass needs are
 * stored in the CTA's shared memory, interleaved by thread, unless they are recomputed.
 *
 * Sums over more than the row: a CTA has several rows, one for each lane group in turn, and
 * stores a partial result. A sum that keeps the row's axes has one accumulator for each point of
 * the row, in shared memory, each thread's own. */
#include "compiler/codegen/emit_passes.h"
#include "compiler/cuda/emit_loops.h"

enum {
    FEW_ROWS = 1024,        /* each has a whole CTA, if they are long */
    WARP_VECTORS = 512,     /* vectors of a row: too many for a warp */
    MANY_ROWS = 1 << 15,    /* one thread for each is enough */
    SAVED_BYTES = 32 << 10, /* of shared memory, for saved values */
    SUMS_BYTES = 64 << 10,  /* and for sums */
    PASS_UNROLLED = 4,      /* unroll factor of a pass over the row */
    FEW_POINTS = 1 << 15 /* of all rows: vectors would leave threads idle where these are short */
};

typedef struct {
    dl_rows rows; /* first; with the bytes of sums in shared memory, too */
    dl_emitter *e;
    dl_axis_list order, kept, outer,
        row; /* kept: axes around the row that sums keep; outer: the others */
    dl_thread_layout layout;
    dl_vectors vectors;
    int nmore, *more;          /* reductions over more than the row */
    bool vectors_row, few;     /* along the row; of so few points that unrolling is not needed */
    int64_t points, each_lane; /* vectors of the row; maximum per thread */
    int64_t parts, each;       /* CTAs that share the rows of a kept point, and their rows */
    int64_t shared;            /* bytes */
    dl_expr lane, group, part, at_kept, live; /* names */
} resident;

static resident *resident_of(dl_rows *r) { return (resident *)r; }

static const dl_kinstr *instr_of(const resident *r, int i) { return &r->e->k->instrs.at[i]; }
static bool reduces_row(const resident *r, int i) {
    return dl_emit_reduces_row(r->e, r->rows.nest, i);
}
/* Does one over more than the row keep the row's axes? */
static bool keeps_row(const resident *r, int i) {
    return (r->e->steps[i].axes & r->rows.nest->row) != 0;
}

/* Its accumulator type in shared memory, by the terms that a thread sums. */
static dl_loop_type sum_type(const resident *r, int i) {
    return dl_cuda_accumulator_type(instr_of(r, i), dl_ceil_div(r->each, r->layout.groups));
}

/* The accumulator type of a thread's own reduction, where it has none in shared memory. */
static dl_loop_type thread_type(const resident *r, int i) {
    const dl_kinstr *in = instr_of(r, i);
    return reduces_row(r, i) ? dl_cuda_accumulator_type(in, r->each_lane * r->vectors.width)
                             : dl_loop_partial_type(in);
}

static int value_bytes(dl_dtype d) { return d == DL_F64 || d == DL_I64 ? 8 : 4; }

static void choose_layout(resident *r, int64_t count) {
    int64_t n = r->points;
    int lanes;
    if (!r->vectors_row) {
        r->layout.strided = true;
        lanes = count >= MANY_ROWS || n <= 4 ? 1 : 8;
        while (lanes > 1 && lanes / 2 >= n) lanes /= 2;
    } else {
        lanes = dl_cuda_power_of_two(dl_at_most(n, DL_WARP));
        if (n > WARP_VECTORS || (n >= 4 * DL_WARP && count < FEW_ROWS)) lanes = DL_BLOCK;
    }
    r->layout.lanes = lanes, r->layout.groups = DL_BLOCK / lanes, r->layout.unrolled = true;
}

/* Allocates shared memory. False: there is not enough. */
static bool find_room(resident *r) {
    int64_t slots = r->each_lane * (r->vectors_row ? r->vectors.width : 1) * DL_BLOCK, sums = 0;
    r->shared = 0;
    for (int i = 0; i < r->e->k->instrs.n; i++) {
        if (!r->rows.passes.saved[i]) continue;
        r->rows.at[i] = r->shared;
        r->shared += slots * value_bytes(instr_of(r, i)->type);
    }
    if (r->shared > SAVED_BYTES) return false;
    for (int i = 0; i < r->nmore; i++) {
        int number = r->more[i];
        if (!keeps_row(r, number)) continue;
        r->rows.at[number] = r->shared + sums;
        sums += slots * (sum_type(r, number) == DL_LOOP_FLOAT ? 4 : 8);
    }
    r->shared += sums;
    return sums <= SUMS_BYTES;
}

static bool plan_rows(dl_emitter *e, const dl_loop_nest *s, resident *r) {
    static const dl_axis_list nothing = {.points = 1};
    unsigned kept = 0, mine = s->axes | s->row;
    *r = (resident){.e = e, .parts = 1, .rows = dl_rows_of(e, s)};
    r->more = DL_NEWS(e->arena, int, s->run.n + 1);
    e->now = s;
    for (int i = 0; i < s->run.n; i++) {
        int number = s->run.at[i];
        unsigned axes = e->steps[number].axes;
        if (!dl_emit_reduces_more(e, s, number)) continue;
        if ((axes & s->row) && (axes & s->row) != s->row) return false; /* a part of the row */
        r->more[r->nmore++] = number, kept |= axes & s->axes;
    }
    r->order = dl_cuda_order_axes(e, mine);
    r->kept = dl_emit_list_axes(e, &r->order, kept);
    r->outer = dl_emit_list_axes(e, &r->order, s->axes & ~kept);
    r->row = dl_emit_list_axes(e, &r->order, s->row);
    int last = r->order.axis[r->order.n - 1];
    r->vectors_row = s->row >> last & 1;
    if (!r->vectors_row && kept >> last & 1) return false;
    r->few = r->order.points <= FEW_POINTS;
    bool scalar = !r->vectors_row || (r->few && r->row.points <= WARP_VECTORS);
    r->vectors = dl_cuda_find_vectors(e, scalar ? &nothing : &r->row, ~0u);
    r->points = r->row.points / r->vectors.width;
    choose_layout(r, r->kept.points * r->outer.points);
    r->each_lane = dl_ceil_div(r->points, r->layout.lanes);
    int64_t parts = r->nmore ? DL_BLOCKS_ENOUGH / dl_at_least(1, r->kept.points) : r->outer.points;
    r->parts = dl_cuda_share(r->outer.points, r->layout.groups, parts, &r->each);
    for (int saves = 1; saves >= 0; saves--) {
        r->rows.passes = dl_emit_find_passes(e, s, saves, false);
        if (find_room(r)) return true;
    }
    return false;
}

bool dl_cuda_can_be_resident(dl_emitter *e, const dl_loop_nest *s) {
    resident r;
    return plan_rows(e, s, &r);
}

/* ---- the tree ---- */

/* The place in shared memory of vector n of a thread and point j in it; and a sum there. */
static dl_expr place_of(resident *r, dl_expr n, dl_expr j, dl_expr thread) {
    dl_loops *l = &r->rows.l;
    dl_expr point = dl_loop_op(l, dl_loop_by(l, n, '*', r->vectors.width), '+', j);
    return dl_loop_op(l, dl_loop_by(l, point, '*', DL_BLOCK), '+', thread);
}
static dl_expr sum_at(resident *r, int number, dl_expr place) {
    dl_loops *l = &r->rows.l;
    return dl_loop_at(l, dl_loop_memory(l, sum_type(r, number), r->rows.at[number]), place);
}

/* A thread's own accumulator. */
static dl_expr start(dl_rows *rows, int number) {
    const resident *r = resident_of(rows);
    return dl_loop_var(&rows->l, thread_type(r, number), dl_format(r->e->arena, "$a%d$", number),
                       dl_loop_start(&rows->l, instr_of(r, number)));
}

static void grow(dl_rows *r, int number) { dl_loop_grow(&r->l, number, r->own[number], NULL); }

/* Takes one more value into a sum over more than the row, or runs another instruction. A row that
 * there is not stores nothing. */
static void put_instr(dl_rows *rows, int i) {
    resident *r = resident_of(rows);
    dl_loops *l = &rows->l;
    bool end = rows->pass < 0, sums = dl_emit_reduces_more(r->e, rows->nest, i),
         keeps = sums && keeps_row(r, i),
         store = instr_of(r, i)->kind == DL_K_STORE && (end || !r->vectors.has[i]);
    dl_expr first = dl_loop_op(l, r->live, '&', dl_loop_by(l, r->lane, '=', 0));
    if (store || sums) dl_loop_if(l, end && !keeps ? first : r->live);
    if (sums)
        dl_loop_grow(l, i, keeps ? sum_at(r, i, rows->place) : rows->own[i], NULL);
    else
        dl_loop_instr(l, i);
    if (store || sums) dl_loop_end(l);
}

/* Bytes that a thread loads for a vector. */
static int64_t count_bytes(const resident *r, const bool *made) {
    const dl_emitter *e = r->e;
    int64_t bytes = 0;
    for (int i = 0; i < e->k->instrs.n; i++)
        if (made[i] && instr_of(r, i)->kind == DL_K_LOAD)
            bytes += dl_dtype_bytes(e->k->params.at[instr_of(r, i)->param].type.dtype) *
                     r->vectors.width;
    return bytes;
}

static bool fills_lanes(const resident *r) { return r->points % r->layout.lanes == 0; }

/* Opens a loop over a thread's vectors of the row, which is unrolled where loads are few and
 * unconditional, so that several are in flight. */
static void open_pass(dl_rows *rows) {
    resident *r = resident_of(rows);
    dl_loops *l = &rows->l;
    const bool *made = rows->passes.made[rows->pass];
    int64_t bytes = count_bytes(r, made);
    bool one =
        r->each_lane > PASS_UNROLLED || !fills_lanes(r) || !bytes || bytes >= DL_ENOUGH_BYTES;
    dl_expr n = dl_loop_for(l, "n", dl_loop_fixed(l, 0), dl_loop_fixed(l, r->each_lane), NULL, one),
            at = dl_loop_op(l, dl_loop_by(l, n, '*', r->layout.lanes), '+', r->lane);
    at = dl_loop_let(l, "place", at);
    if (!fills_lanes(r)) dl_loop_if(l, dl_loop_by(l, at, '<', r->points));
    dl_loop_collapsed(l, at, &r->row, &r->vectors);
    dl_cuda_load_vectors(l, &r->vectors, made, DL_AT_POINT);
    rows->place = place_of(r, n, dl_loop_points(l, &r->vectors), dl_loop_thread(l));
}

static void close_pass(dl_rows *rows) {
    const resident *r = resident_of(rows);
    dl_loop_end(&rows->l);
    dl_cuda_store_vectors(&rows->l, &r->vectors, rows->passes.made[rows->pass], r->live);
    if (!fills_lanes(r)) dl_loop_end(&rows->l);
    dl_loop_end(&rows->l);
}

static void reduce(dl_rows *rows, int n, const int *numbers) {
    const resident *r = resident_of(rows);
    if (r->few && !r->layout.strided)
        dl_cuda_reduce_few(&rows->l, n, numbers, rows->own, r->layout.lanes, rows->reduced);
    for (int i = 0; i < n; i++)
        if (!rows->reduced[numbers[i]])
            rows->reduced[numbers[i]] = dl_loop_reduce(&rows->l, instr_of(r, numbers[i]),
                                                       rows->own[numbers[i]], &r->layout);
}

static const dl_row_target by_threads = {.start = start,
                                         .open = open_pass,
                                         .close = close_pass,
                                         .grow = grow,
                                         .instr = put_instr,
                                         .reduce = reduce};

/* Before the first row: sums over more than the row. */
static void put_starts(resident *r) {
    dl_loops *l = &r->rows.l;
    for (int i = 0; i < r->nmore; i++) {
        int number = r->more[i];
        if (!keeps_row(r, number)) {
            r->rows.own[number] = start(&r->rows, number);
            continue;
        }
        dl_expr zero = dl_loop_fixed(l, 0),
                n = dl_loop_for(l, "n", zero, dl_loop_fixed(l, r->each_lane), NULL, 1),
                j = dl_loop_for(l, "j", zero, dl_loop_fixed(l, r->vectors.width), NULL, 0);
        dl_loop_set(l, sum_at(r, number, place_of(r, n, j, dl_loop_thread(l))),
                    dl_loop_start(l, instr_of(r, number)));
        dl_loop_end(l), dl_loop_end(l);
    }
}

/* Stores the partial results of sums in shared memory: those of all groups as one. */
static void put_shared_result(resident *r, int number, const dl_axis_list *by) {
    dl_loops *l = &r->rows.l;
    const dl_kinstr *in = instr_of(r, number);
    const dl_thread_layout *t = &r->layout;
    dl_expr point = dl_loop_for(l, "point", dl_loop_thread(l), dl_loop_number(l, r->row.points),
                                dl_loop_number(l, DL_BLOCK), 1),
            place = dl_loop_let(l, "place", dl_loop_by(l, point, '/', r->vectors.width)),
            lane = dl_loop_let(l, "lane_of", dl_loop_by(l, place, '%', t->lanes)),
            all = dl_loop_var(l, dl_loop_partial_type(in), "all", dl_loop_start(l, in)),
            g = dl_loop_for(l, "g", dl_loop_fixed(l, 0), dl_loop_fixed(l, t->groups), NULL, 0),
            thread = t->strided ? dl_loop_op(l, dl_loop_by(l, lane, '*', t->groups), '+', g)
                                : dl_loop_op(l, dl_loop_by(l, g, '*', t->lanes), '+', lane),
            one = sum_at(r, number,
                         place_of(r, dl_loop_by(l, place, '/', t->lanes),
                                  dl_loop_by(l, point, '%', r->vectors.width), thread));
    dl_loop_set(l, all,
                dl_loop_combine(l, in, all, dl_loop_convert(l, dl_loop_partial_type(in), one)));
    dl_loop_end(l);
    dl_expr first = dl_loop_op(l, dl_loop_by(l, r->part, '*', by->points), '+',
                               dl_loop_by(l, r->at_kept, '*', r->row.points));
    dl_cuda_put_partial(l, number, dl_loop_op(l, first, '+', point), all, NULL);
    dl_loop_end(l);
}

/* After the last row: the CTA's partial results. */
static void put_results(resident *r, dl_emitted *code) {
    dl_loops *l = &r->rows.l;
    bool waits = false;
    int n = 0, *over = DL_NEWS(r->e->arena, int, r->nmore + 1);
    for (int i = 0; i < r->nmore; i++)
        if (!keeps_row(r, r->more[i])) over[n++] = r->more[i];
    dl_cuda_reduce_few(l, n, over, r->rows.own, DL_BLOCK, r->rows.reduced);
    for (int i = 0; i < r->nmore; i++) {
        int number = r->more[i];
        dl_axis_list by = r->kept;
        if (keeps_row(r, number)) {
            for (int a = 0; a < r->row.n; a++) by.axis[by.n++] = r->row.axis[a];
            by.points *= r->row.points;
        }
        dl_cuda_add_partial(r->e, number, &by, r->parts, code);
        if (keeps_row(r, number)) {
            if (!waits) dl_loop_barrier(l);
            waits = true;
            put_shared_result(r, number, &by);
            continue;
        }
        dl_expr first = dl_loop_by(l, r->part, '*', by.points);
        dl_cuda_put_partial(l, number, dl_loop_op(l, first, '+', r->at_kept),
                            r->rows.reduced[number], dl_loop_by(l, dl_loop_thread(l), '=', 0));
    }
}

int64_t dl_cuda_resident(dl_emitter *e, dl_emitted *code, int64_t *shared) {
    resident r;
    bool ok = plan_rows(e, e->now, &r);
    DL_CHECK(ok);
    r.rows.l = dl_loop_begin(e), r.rows.by = &by_threads;
    dl_loops *l = &r.rows.l;
    dl_expr item = dl_loop_item(l), first;
    dl_loop_threads(l, &r.layout, &r.lane, &r.group);
    const dl_expr memory[] = {dl_loop_name(l, DL_LOOP_INDEX, true, "char"),
                              dl_loop_name(l, DL_LOOP_INDEX, true, e->dialect->memory)};
    if (r.shared) dl_loop_do(l, dl_loop_call(l, DL_LOOP_INDEX, "KD_SHARED", 2, memory));
    r.part = dl_loop_let(l, "part", dl_loop_by(l, item, '%', r.parts));
    r.at_kept = dl_loop_let(l, "at", dl_loop_by(l, item, '/', r.parts));
    dl_loop_collapsed(l, r.at_kept, &r.kept, NULL);
    put_starts(&r);
    dl_expr from = dl_loop_let(l, "from", dl_loop_by(l, r.part, '*', r.each)),
            next = dl_loop_by(l, from, '+', r.each),
            end = dl_loop_let(l, "end", dl_loop_by(l, next, 'm', r.outer.points));
    if (r.each > r.layout.groups)
        first = dl_loop_for(l, "first", from, end, dl_loop_number(l, r.layout.groups), 1);
    else
        first = from, dl_loop_if(l, dl_loop_op(l, first, '<', end));
    dl_expr own = dl_loop_op(l, first, '+', r.group);
    r.live = dl_loop_let(l, "live", dl_loop_op(l, own, '<', end));
    dl_loop_collapsed(l, dl_loop_let(l, "row", dl_loop_select(l, r.live, own, first)), &r.outer,
                      NULL);
    dl_emit_row(&r.rows);
    dl_loop_end(l);
    put_results(&r, code);
    dl_loop_print(l);
    *shared = r.shared;
    return dl_at_least(1, r.kept.points) * r.parts;
}
