/* Resident reductions: at each point of the outer axes, several passes go over the whole row
 * while it is in cache; between passes the reductions over the row are complete. Values of one
 * pass that a later one needs stay in the thread's scratch, unless they are recomputed. No
 * partial results go through memory.
 *
 * Vectors lie along an axis of the row, whose reductions then end in a sum over lanes; or along
 * an outer axis, so that each lane has a row of its own. */
#include "compiler/codegen/emit_passes.h"
#include "compiler/cpu/emit_cpu.h"
#include "compiler/cpu/partials.h"

typedef struct {
    dl_rows rows; /* first */
    dl_emitter *e;
    dl_axis_list outer, inner; /* outer: without the axis of outer_lanes */
    bool lanes, outer_lanes;   /* in vectors; along an outer axis */
    bool chains;               /* sums are short: one chain of floats a lane */
    int lane_axis;
    unsigned wide; /* axes of more than one point */
} resident;

static const resident *resident_of(dl_rows *r) { return (const resident *)r; }

/* Switches between vectors and scalars: for the row's points, or for the row's own values. */
static void choose_mode(const resident *r, bool points) {
    r->e->mode = r->lanes && (points || r->outer_lanes) ? DL_LANES : DL_SINGLE;
    r->e->lane_axis = r->e->mode == DL_LANES ? r->lane_axis : -1;
}

static const dl_kinstr *instr_of(const resident *r, int i) { return &r->e->k->instrs.at[i]; }
static const dl_step *step_of(const resident *r, int i) { return &r->e->steps[i]; }
static bool is_reduction_of_row(const resident *r, int i) {
    return dl_emit_reduces_row(r->e, r->rows.nest, i);
}

/* ---- choice of the vector axis ---- */

static const dl_type *touched(const resident *r, int i) {
    const dl_kinstr *in = instr_of(r, i);
    return dl_emit_is_access(in) ? &r->e->k->params.at[in->param].type : NULL;
}

/* The axis along which an access is contiguous in memory, or -1. */
static int neighbours(const resident *r, int i) {
    const dl_kinstr *in = instr_of(r, i);
    const dl_type *t = touched(r, i);
    int64_t stride[DL_MAX_RANK];
    if (!t || t->layout.kind == DL_PANEL) return -1;
    dl_type_strides(t, stride);
    for (int a = 0; a < t->rank; a++) {
        int axis = in->index[a].axis;
        for (int k = 0; k < in->index[a].nterms; k++)
            if (in->index[a].term[k].div == 1 && in->index[a].term[k].mul == 1)
                axis = in->index[a].term[k].axis;
        if (axis >= 0 && r->wide >> axis & 1 && stride[a] == 1) return axis;
    }
    return -1;
}

/* The axis along which most accesses are contiguous, weighted by points; a short one leaves
 * lanes idle. */
static int choose_lanes(const resident *r) {
    const dl_kernel *k = r->e->k;
    unsigned mine = r->rows.nest->axes | r->rows.nest->row;
    int64_t most = 0;
    int best = -1;
    for (int a = 0; a < k->nspace; a++) {
        int64_t points = 0;
        for (int i = 0; i < r->rows.nest->run.n; i++)
            if (neighbours(r, r->rows.nest->run.at[i]) == a)
                points +=
                    dl_axes_points(k->nspace, k->space, step_of(r, r->rows.nest->run.at[i])->axes);
        if (k->space[a].size < r->e->t->lanes) points = points / r->e->t->lanes * k->space[a].size;
        if (mine >> a & 1 && points > most) most = points, best = a;
    }
    return best;
}

static bool can_have_lanes(const resident *r) {
    if (!dl_emit_has_lanes(r->e, r->rows.nest)) return false;
    for (int i = 0; i < r->rows.nest->run.n; i++) {
        int number = r->rows.nest->run.at[i];
        const dl_kinstr *in = instr_of(r, number);
        bool sum = in->op == DL_OP_sum && dl_emit_is_float(in->type);
        if (touched(r, number) && touched(r, number)->layout.kind == DL_PANEL) return false;
        if (step_of(r, number)->kind == DL_K_REDUCE &&
            !(is_reduction_of_row(r, number) ? dl_emit_is_float(in->type) : sum))
            return false;
    }
    return true;
}

/* The axes of the space with the vector axis last, the others unchanged. */
static dl_axis_list order_axes(const resident *r) {
    unsigned last = r->lane_axis >= 0 ? 1u << r->lane_axis : 0;
    dl_axis_list order = dl_emit_space_axes(r->e, ~last);
    if (last) order.axis[order.n++] = r->lane_axis;
    return order;
}

static void find_scratch(resident *r, dl_emitted *code) {
    const dl_kernel *k = r->e->k;
    int64_t points = 1, bytes = 0;
    for (int i = 0; i < r->inner.n; i++) {
        int64_t size = k->space[r->inner.axis[i]].size, lanes = r->lanes ? r->e->t->lanes : 1;
        points *= i + 1 < r->inner.n || r->outer_lanes ? size : dl_round_up(size, lanes);
    }
    if (r->outer_lanes) points *= r->e->t->lanes;
    for (int i = 0; i < k->instrs.n; i++) {
        if (!r->rows.passes.saved[i]) continue;
        r->rows.at[i] = bytes;
        bytes += dl_plan_round(points * (r->lanes ? 4 : 8));
    }
    if (bytes > code->scratch) code->scratch = bytes;
}

/* ---- one row ---- */

static dl_expr start(dl_rows *rows, int i) {
    const resident *r = resident_of(rows);
    dl_loops *l = &rows->l;
    const dl_kinstr *in = instr_of(r, i);
    dl_loop_type type = !r->lanes                           ? dl_loop_partial_type(in)
                        : in->op == DL_OP_sum && !r->chains ? DL_LOOP_SUMS
                                                            : DL_LOOP_LANES;
    dl_expr first = dl_loop_start(l, in);
    if (type == DL_LOOP_LANES) first = dl_loop_call(l, type, "splat", 1, &first);
    return dl_loop_var(l, type, dl_format(r->e->arena, "$a%d$", i), first);
}

/* Lanes that are not in use take no part in a reduction over lanes. */
static void grow(dl_rows *rows, int i) {
    const resident *r = resident_of(rows);
    dl_loops *l = &rows->l;
    const dl_kinstr *in = instr_of(r, i);
    bool whole = r->outer_lanes || dl_emit_fills_vectors(r->e), max = in->op == DL_OP_reduce_max;
    dl_expr own = rows->own[i];
    if (!r->lanes) {
        dl_loop_grow(l, i, own, NULL);
        return;
    }
    const dl_expr n = dl_loop_name(l, DL_LOOP_INDEX, false, "n"),
                  lanes = dl_loop_name(l, DL_LOOP_INDEX, false, "LANES"),
                  first = dl_loop_name(l, DL_LOOP_LANES, false, "lane_numbers() < (int)n"),
                  value = dl_loop_value(l, in->args[0]), kept[] = {value, n},
                  picked[] = {first, value, own};
    dl_expr some = in->op == DL_OP_sum ? dl_loop_call(l, DL_LOOP_LANES, "keep", 2, kept)
                                       : dl_loop_call(l, DL_LOOP_LANES, "v_pick", 3, picked);
    some = whole ? value : dl_loop_select(l, dl_loop_op(l, n, '<', lanes), some, value);
    if (in->op == DL_OP_sum && !r->chains) {
        const char *name = dl_format(r->e->arena, "&$a%d$", i);
        const dl_expr sums[] = {dl_loop_name(l, DL_LOOP_SUMS, false, name), some};
        dl_loop_do(l, dl_loop_call(l, DL_LOOP_SUMS, "sum_in", 2, sums));
    } else if (in->op == DL_OP_sum) {
        dl_loop_set(l, own, dl_loop_op(l, own, '+', value));
    } else {
        const dl_expr both[] = {own, some};
        dl_loop_set(l, own, dl_loop_call(l, DL_LOOP_LANES, max ? "v_max" : "v_min", 2, both));
    }
}

static void reduce(dl_rows *rows, int n, const int *numbers) {
    const resident *r = resident_of(rows);
    for (int i = 0; i < n; i++) {
        const dl_kinstr *in = instr_of(r, numbers[i]);
        const dl_expr own = rows->own[numbers[i]];
        bool sums = in->op == DL_OP_sum && !r->chains;
        const char *of = sums                         ? r->outer_lanes ? "narrow" : "total"
                         : in->op == DL_OP_reduce_max ? "largest"
                                                      : "smallest";
        dl_loop_type type = r->outer_lanes ? DL_LOOP_LANES : sums ? DL_LOOP_DOUBLE : DL_LOOP_FLOAT;
        bool itself = !r->lanes || (r->outer_lanes && !sums);
        rows->reduced[numbers[i]] = itself ? own : dl_loop_call(&rows->l, type, of, 1, &own);
    }
}

/* Does the pass use the row's value i in lanes, which has one lane? */
static bool splats(const resident *r, int i) {
    const dl_row_passes *p = &r->rows.passes;
    const dl_kinstr *in = instr_of(r, i);
    return r->lanes && !r->outer_lanes && p->shared[i] && p->taken[r->rows.pass][i] &&
           in->kind != DL_K_CONST && in->kind != DL_K_STORE && in->type != DL_I64;
}

/* The row's axes that have loops around vectors; is one of them collapsed with the next? */
static int loops_of(const resident *r) { return r->inner.n - (r->lanes && !r->outer_lanes); }
static bool joins_next(const resident *r, int i) {
    return i + 1 < loops_of(r) && dl_emit_collapses(r->e, r->inner.axis[i], r->inner.axis[i + 1]);
}

/* A loop over the row's axes; vectors along the last one have the row's values in all lanes. */
static void open_pass(dl_rows *rows) {
    const resident *r = resident_of(rows);
    dl_loops *l = &rows->l;
    bool along = r->lanes && !r->outer_lanes;
    int n = r->e->k->instrs.n;
    int64_t size = 1;
    dl_expr *values = DL_NEWS(r->e->arena, dl_expr, n + 1);
    dl_loop_block(l);
    rows->place = dl_loop_var(l, DL_LOOP_INDEX, "at", dl_loop_fixed(l, 0));
    for (int i = 0; i < n; i++)
        if (splats(r, i))
            values[i] = dl_loop_let(l, dl_format(r->e->arena, "r%d", i), dl_loop_value(l, i));
    for (int i = 0; i < loops_of(r); i++) {
        size *= r->e->k->space[r->inner.axis[i]].size;
        if (joins_next(r, i)) continue;
        dl_loop_axis(l, r->inner.axis[i], size, 0), size = 1;
    }
    choose_mode(r, true);
    if (!along) return;
    dl_loop_lanes(l, r->lane_axis, dl_loop_fixed(l, 0),
                  dl_loop_number(l, r->e->k->space[r->lane_axis].size),
                  dl_emit_fills_vectors(r->e));
    for (int i = 0; i < n; i++)
        if (values[i]) dl_loop_splat(l, i, values[i]);
}

static void close_pass(dl_rows *rows) {
    const resident *r = resident_of(rows);
    dl_loops *l = &rows->l;
    dl_loop_set(l, rows->place, dl_loop_by(l, rows->place, '+', 1));
    if (r->lanes && !r->outer_lanes) dl_loop_end(l);
    choose_mode(r, false);
    for (int i = 0; i < loops_of(r); i++)
        if (!joins_next(r, i)) dl_loop_end(l);
    dl_loop_end(l);
}

static void put_instr(dl_rows *r, int i) { dl_loop_instr(&r->l, i); }

static const dl_row_target by_lanes = {.start = start,
                                       .open = open_pass,
                                       .close = close_pass,
                                       .grow = grow,
                                       .instr = put_instr,
                                       .reduce = reduce};

/* ---- the loop over rows ---- */

/* Writes work items of `each` rows. With vectors along an outer axis, `group` rows count as one. */
static void put_items(resident *r, int64_t each, int64_t count, int64_t group) {
    dl_emitter *e = r->e;
    int x = r->lane_axis;
    choose_mode(r, false);
    r->rows.l = dl_loop_begin(e), r->rows.by = &by_lanes;
    dl_loops *l = &r->rows.l;
    dl_expr first = dl_loop_let(l, "first", dl_loop_by(l, dl_loop_item(l), '*', each)),
            next = dl_loop_by(l, first, '+', each),
            last = dl_loop_let(l, "last", dl_loop_by(l, next, 'm', count)),
            row = dl_loop_for(l, "row", first, last, NULL, 0);
    r->outer.points = count;
    dl_loop_collapsed(l, row, &r->outer, NULL);
    if (r->outer_lanes) {
        int64_t size = e->k->space[x].size;
        dl_expr from = dl_loop_by(l, dl_loop_by(l, row, '%', dl_ceil_div(size, group)), '*', group);
        from = dl_loop_let(l, "from", from);
        dl_expr to = dl_loop_by(l, dl_loop_by(l, from, '+', group), 'm', size);
        dl_loop_lanes(l, x, from, dl_loop_let(l, "to", to), size % e->t->lanes == 0);
    }
    dl_emit_row(&r->rows);
    if (r->outer_lanes) dl_loop_end(l);
    dl_loop_end(l);
    e->mode = DL_SINGLE, e->lane_axis = -1;
    dl_loop_print(l);
    dl_puts(e->out, "}\n");
}

int64_t dl_emit_resident(dl_emitter *e, dl_emitted *code) {
    const dl_kernel *k = e->k;
    resident r = {.e = e, .lane_axis = -1, .rows = dl_rows_of(e, e->now)};
    r.rows.passes = dl_emit_find_passes(e, e->now, true, true);
    r.wide = dl_kernel_wide_axes(k);
    e->flat = false;
    if (can_have_lanes(&r)) {
        r.lane_axis = choose_lanes(&r);
        r.lanes = r.lane_axis >= 0;
        r.outer_lanes = r.lanes && e->now->axes >> r.lane_axis & 1;
    }
    dl_axis_list order = order_axes(&r);
    r.inner = dl_emit_list_axes(e, &order, e->now->row);
    r.outer = dl_emit_list_axes(e, &order, e->now->axes & ~(r.outer_lanes ? 1u << r.lane_axis : 0));
    int64_t points = dl_axes_points(k->nspace, k->space, e->now->row),
            count = dl_axes_points(k->nspace, k->space, e->now->axes);
    r.chains = r.outer_lanes && points <= DL_CHAIN;
    int64_t group = 1;
    if (r.outer_lanes) {
        int64_t size = k->space[r.lane_axis].size,
                vectors = dl_at_least(1, DL_ITEM_POINTS / dl_at_least(1, points) / e->t->lanes);
        group = dl_at_most(vectors * e->t->lanes, dl_round_up(size, e->t->lanes));
        count = count / size * dl_ceil_div(size, group), points *= group;
    }
    find_scratch(&r, code);

    order = r.outer;
    for (int i = 0; i < r.inner.n; i++) order.axis[order.n++] = r.inner.axis[i];
    if (r.outer_lanes) order.axis[order.n++] = r.lane_axis;
    choose_mode(&r, true);
    int64_t each = dl_at_least(1, DL_ITEM_POINTS / dl_at_least(1, points)),
            items = dl_emit_limit_items(dl_ceil_div(count, each), dl_emit_find_partial(e, &order));
    each = dl_ceil_div(count, items);
    dl_emit_nest_head(e);
    dl_emit_item_sums(e, items, code);
    put_items(&r, each, count, group);
    return items;
}
