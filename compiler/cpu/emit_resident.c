/* Resident reductions: at each point of the outer axes, several passes go over the whole row
 * while it is in cache; between passes the reductions over the row are complete. Values of one
 * pass that a later one needs stay in the thread's scratch, unless they are recomputed. No
 * partial results go through memory.
 *
 * Vectors lie along an axis of the row, whose reductions then end in a sum over lanes; or along
 * an outer axis, so that each lane has a row of its own. */
#include <string.h>

#include "compiler/codegen/loops.h"
#include "compiler/cpu/emit_resident.h"
#include "compiler/cpu/partials.h"

enum { UNIT_POINTS = 16384 /* points of a work item */ };

static const dl_kinstr *instr_of(const dl_cpu_resident *r, int i) { return &r->e->k->instrs.at[i]; }
static const dl_step *step_of(const dl_cpu_resident *r, int i) { return &r->e->steps[i]; }
static bool is_reduction_of_row(const dl_cpu_resident *r, int i) {
    return dl_emit_reduces_row(r->e, r->nest, i);
}

/* ---- choice of the vector axis ---- */

static const dl_type *touched(const dl_cpu_resident *r, int i) {
    const dl_kinstr *in = instr_of(r, i);
    return in->kind == DL_K_LOAD || in->kind == DL_K_STORE ? &r->e->k->params.at[in->param].type
                                                           : NULL;
}

/* The axis along which an access is contiguous in memory, or -1. */
static int neighbours(const dl_cpu_resident *r, int i) {
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
static int choose_lanes(const dl_cpu_resident *r) {
    const dl_kernel *k = r->e->k;
    unsigned mine = r->nest->axes | r->nest->row;
    int64_t most = 0;
    int best = -1;
    for (int a = 0; a < k->nspace; a++) {
        int64_t points = 0;
        for (int i = 0; i < r->nest->run.n; i++)
            if (neighbours(r, r->nest->run.at[i]) == a)
                points += dl_axes_points(k->nspace, k->space, step_of(r, r->nest->run.at[i])->axes);
        if (k->space[a].size < r->e->t->lanes) points = points / r->e->t->lanes * k->space[a].size;
        if (mine >> a & 1 && points > most) most = points, best = a;
    }
    return best;
}

static bool can_have_lanes(const dl_cpu_resident *r) {
    if (!dl_emit_has_lanes(r->e, r->nest)) return false;
    for (int i = 0; i < r->nest->run.n; i++) {
        int number = r->nest->run.at[i];
        const dl_kinstr *in = instr_of(r, number);
        bool sum = in->op == DL_OP_sum && dl_emit_is_float(in->type);
        if (touched(r, number) && touched(r, number)->layout.kind == DL_PANEL) return false;
        if (step_of(r, number)->kind == DL_K_REDUCE &&
            !(is_reduction_of_row(r, number) ? dl_emit_is_float(in->type) : sum))
            return false;
    }
    return true;
}

/* Orders the axes: the vector axis last, the others unchanged. */
static void order_axes(dl_cpu_resident *r) {
    const dl_kernel *k = r->e->k;
    for (int last = 0; last < 2; last++)
        for (int i = 0; i < k->nspace; i++) {
            if ((i == r->lane_axis) != last) continue;
            if (r->nest->row >> i & 1)
                r->inner[r->ninner++] = i;
            else if (r->nest->axes >> i & 1)
                r->outer[r->nouter++] = i;
        }
}

static void find_scratch(dl_cpu_resident *r, dl_emitted *code) {
    const dl_kernel *k = r->e->k;
    int64_t points = 1, bytes = 0;
    for (int i = 0; i < r->ninner; i++) {
        int64_t size = k->space[r->inner[i]].size, lanes = r->lanes ? r->e->t->lanes : 1;
        points *= i + 1 < r->ninner || r->outer_lanes ? size : dl_ceil_div(size, lanes) * lanes;
    }
    if (r->outer_lanes) points *= r->e->t->lanes;
    for (int i = 0; i < k->instrs.n; i++) {
        if (!r->passes.saved[i]) continue;
        r->at[i] = bytes;
        bytes += dl_plan_round(points * (r->lanes ? 4 : 8));
    }
    if (bytes > code->scratch) code->scratch = bytes;
}

/* ---- the loop over rows ---- */

static void put_row_call(const dl_cpu_resident *r, const char *n) {
    dl_putf(r->e->out, "%s_row(arg, ", r->e->name);
    dl_emit_row_coordinates(r, false, false);
    dl_putf(r->e->out, "%s, sums, scratch, workspace);\n", n);
}

/* Writes work items of `each` rows. With vectors along an outer axis, `group` rows count as one. */
static void put_items(const dl_cpu_resident *r, int64_t each, int64_t count, int64_t group) {
    dl_emitter *e = r->e;
    dl_putf(e->out,
            "    for (long row = item * %lldL; row < (item + 1) * %lldL && row < %lldL; row++) {\n",
            (long long)each, (long long)each, (long long)count);
    dl_axis_list outer = {.n = r->nouter - r->outer_lanes, .points = count};
    memcpy(outer.axis, r->outer, sizeof outer.axis);
    dl_loop_put_coordinates(e, "row", &outer);
    if (!r->outer_lanes) {
        dl_puts(e->out, "        "), put_row_call(r, "1");
    } else {
        int64_t size = e->k->space[r->lane_axis].size;
        int x = r->lane_axis;
        dl_putf(e->out,
                "        long x%d = row %% %lldL * %lldL;\n        const long to = x%d + %lldL < "
                "%lldL ? x%d + "
                "%lldL : %lldL;\n",
                x, (long long)dl_ceil_div(size, group), (long long)group, x, (long long)group,
                (long long)size, x, (long long)group, (long long)size);
        dl_putf(e->out, "        for (; x%d + LANES <= to; x%d += LANES) ", x, x);
        put_row_call(r, "LANES");
        if (size % e->t->lanes) {
            dl_buf n = {0};
            dl_putf(&n, "to - x%d", x);
            dl_putf(e->out, "        if (x%d < to) ", x);
            put_row_call(r, n.at);
            dl_buf_free(&n);
        }
    }
    dl_puts(e->out, "    }\n}\n");
}

int64_t dl_emit_resident(dl_emitter *e, dl_emitted *code) {
    const dl_kernel *k = e->k;
    dl_cpu_resident r = {
        .e = e, .nest = e->now, .lane_axis = -1, .at = DL_NEWS(e->arena, int64_t, k->instrs.n + 1)};
    r.passes = dl_emit_find_passes(e, e->now, true, true);
    for (int i = 0; i < k->nspace; i++) r.wide |= k->space[i].size != 1 ? 1u << i : 0;
    e->flat = false;
    if (can_have_lanes(&r)) {
        r.lane_axis = choose_lanes(&r);
        r.lanes = r.lane_axis >= 0;
        r.outer_lanes = r.lanes && e->now->axes >> r.lane_axis & 1;
    }
    order_axes(&r);
    int64_t points = dl_axes_points(k->nspace, k->space, e->now->row),
            count = dl_axes_points(k->nspace, k->space, e->now->axes);
    r.chains = r.outer_lanes && points <= DL_CHAIN;
    int64_t group = 1;
    if (r.outer_lanes) {
        int64_t size = k->space[r.lane_axis].size,
                vectors = UNIT_POINTS / (points ? points : 1) / e->t->lanes;
        group = vectors > 1 ? vectors * e->t->lanes : e->t->lanes;
        if (group > size) group = dl_ceil_div(size, e->t->lanes) * e->t->lanes;
        count = count / size * dl_ceil_div(size, group), points *= group;
    }
    find_scratch(&r, code);

    int order[DL_MAX_RANK], norder = 0;
    for (int i = 0; i < r.nouter - r.outer_lanes; i++) order[norder++] = r.outer[i];
    for (int i = 0; i < r.ninner; i++) order[norder++] = r.inner[i];
    if (r.outer_lanes) order[norder++] = r.lane_axis;
    dl_emit_row_mode(&r, true);
    int64_t partial = dl_emit_find_partial(e, norder, order),
            each = points < UNIT_POINTS ? UNIT_POINTS / (points ? points : 1) : 1,
            items = dl_ceil_div(count, each), most = partial ? (1 << 20) / partial : items;
    if (most < 16) most = 16;
    if (items > most) items = most;
    if (items < 1) items = 1;
    each = dl_ceil_div(count, items);
    dl_emit_row(&r);
    dl_emit_row_mode(&r, true);
    dl_emit_nest_head(e);
    dl_emit_item_sums(e, items, code);
    put_items(&r, each, count, group);
    return items;
}
