/* Loop nests over points: the innermost axis is vectorised where the types allow it. */
#include "compiler/codegen/loops.h"
#include "compiler/cpu/emit_cpu.h"
#include "compiler/cpu/partials.h"

enum {
    PREFETCH_DISTANCE = 512 /* prefetch distance in floats: 2 KiB */
};

/* The order of a nest's loops. Only instructions that the nest runs itself decide it. */
typedef struct {
    const dl_kernel *k;
    const dl_loop_nest *nest;
    const dl_step *steps;
    bool sums, sums_all; /* it has reductions; they keep no axis */
    const dl_type *flat; /* the common layout of all accesses when the loop is one contiguous run
                            over memory, or NULL */
    dl_axis_list order;  /* the loop nest's axes, including those of size 1 */
    int64_t rows, inner; /* product of the outer axes; size of the innermost, or of the whole array
                            when flat */
    int64_t inner_chunk; /* points of the innermost axis per work item, when one row is long */
} nest;

static const dl_kinstr *instr_of(const nest *s, int i) {
    return &s->k->instrs.at[s->nest->run.at[i]];
}

/* The type that instruction `i` of the loop reads or writes. NULL: it does not access memory. */
static const dl_type *touched(const nest *s, int i) {
    const dl_kinstr *in = instr_of(s, i);
    return dl_emit_is_access(in) ? &s->k->params.at[in->param].type : NULL;
}

/* The space axes of an access's subscripts, a bit each. 0 when an axis occurs twice, or one of
 * more than one point does not occur. */
static unsigned used_axes(const nest *s, const dl_type *t, const dl_index *at) {
    unsigned axes = 0;
    for (int a = 0; a < t->rank; a++) {
        unsigned bit = at[a].axis >= 0 ? 1u << at[a].axis : 0;
        if ((axes & bit) || at[a].indirect || at[a].nterms || at[a].div > 1) return 0;
        axes |= bit;
    }
    return s->nest->axes & ~axes ? 0 : axes;
}

/* Are random numbers drawn by the linear index of the point, or once for all points? */
static bool counts_points(const dl_kernel *k, const dl_kinstr *in) {
    bool same = true, counts = true;
    int64_t step = 1;
    for (int i = k->nspace - 1; i >= 0; step *= k->space[i--].size) {
        same = same && !in->along[i];
        counts = counts && (in->along[i] == step || k->space[i].size == 1);
    }
    return same || counts;
}

/* Are a tensor's elements the points of the space, contiguous in row-major order? Either the
 * whole tensor (*all), or a contiguous part: a rank's shard of a weight. */
static bool is_contiguous(const dl_kernel *k, const dl_kinstr *in, const dl_type *t, bool *all) {
    int parts = 0;
    if (t->rank != k->nspace) return false;
    for (int a = 0; a < t->rank; a++) {
        const dl_index *at = &in->index[a];
        int64_t n = k->space[a].size, lanes = a ? 1 : dl_layout_lanes(t->layout);
        bool follows = at->axis == a || (at->axis < 0 && n == 1);
        if (!follows || at->indirect || at->nterms || at->div > 1) return false;
        if (!at->offset && t->axis[a].size == n) continue;
        bool whole_panels =
            at->offset % lanes == 0 && n % lanes == 0 && t->axis[a].size % lanes == 0;
        if (parts++ || dl_type_laid_around(t, a).outer > 1 || !whole_panels ||
            !dl_index_inside(k->space, at, t->axis[a].size))
            return false;
    }
    *all = !parts;
    return !parts || in->kind == DL_K_LOAD;
}

/* Do all accesses of the loop run contiguously through memory, with equal layouts and each point
 * at its own place? Scalars may be read, too. A sum must not include a panel's padding. */
static const dl_type *find_flat(const nest *s) {
    const dl_kernel *k = s->k;
    const dl_type *first = NULL, *any = NULL; /* one with all points */
    bool draws = false, numbered = true;      /* random numbers, by points in row-major order */
    if (s->sums && !s->sums_all) return NULL;
    for (int i = 0; i < k->nspace; i++)
        if (k->space[i].size != 1 && !(s->nest->axes >> i & 1)) return NULL;
    for (int i = 0; i < s->nest->read.n; i++)
        if (s->steps[s->nest->read.at[i]].axes) return NULL;
    for (int i = 0; i < s->nest->run.n; i++) {
        const dl_kinstr *in = instr_of(s, i);
        const dl_type *t = touched(s, i);
        if (in->kind == DL_K_COORD) return NULL;
        if (in->kind == DL_K_RANDOM) numbered = numbered && counts_points(k, in), draws = true;
        if (!t || (!t->rank && in->kind == DL_K_LOAD)) continue;
        bool all;
        if (!is_contiguous(k, in, t, &all)) return NULL;
        if (any && !dl_layout_same(any->layout, t->layout)) return NULL;
        any = t;
        if (all) first = t;
    }
    if (draws && (!numbered || !first || first->layout.kind != DL_ROW)) return NULL;
    return first && s->sums && dl_type_stored(first) != dl_type_count(first) ? NULL : first;
}

/* Vectors need types that have them, stores in bounds, loads that are in bounds with all lanes or
 * with none, strided layouts, and sums of floats as reductions. */
static bool is_vector(const dl_emitter *e, const nest *s) {
    if (!dl_emit_has_lanes(e, s->nest)) return false;
    for (int i = 0; i < s->nest->run.n; i++) {
        const dl_kinstr *in = instr_of(s, i);
        const dl_type *t = touched(s, i);
        if (s->steps[s->nest->run.at[i]].kind == DL_K_REDUCE &&
            (in->op != DL_OP_sum || !dl_emit_is_float(in->type)))
            return false;
        if (!t || s->flat) continue;
        const bool guarded = in->kind == DL_K_LOAD && dl_emit_is_bounded_alike(e, t, in->index);
        if (t->layout.kind == DL_PANEL) return false;
        for (int a = 0; a < t->rank && !guarded; a++) {
            if (!dl_index_inside(s->k->space, &in->index[a], t->axis[a].size)) return false;
        }
    }
    return true;
}

/* The largest access that uses all axes, stores before loads; in panels or not. NULL: there is
 * none. */
static const dl_kinstr *find_lead(const nest *s, bool panels) {
    const dl_kinstr *lead = NULL;
    int64_t most = -1;
    for (int i = s->nest->run.n - 1; i >= 0; i--) {
        const dl_type *t = touched(s, i);
        const dl_kinstr *in = instr_of(s, i);
        if (!t || (t->layout.kind == DL_PANEL) != panels || !used_axes(s, t, in->index)) continue;
        if (dl_type_count(t) > most) lead = in, most = dl_type_count(t);
    }
    return lead;
}

/* Orders the axes by the memory layout of that access, with axes of one point that it does not
 * use outermost. If only panels use an axis, it goes along their lanes. */
static void choose_order(nest *s) {
    const dl_kinstr *lead = find_lead(s, false);
    if (!lead) lead = find_lead(s, true);
    const dl_type *t = lead ? &s->k->params.at[lead->param].type : NULL;
    unsigned axes = lead ? used_axes(s, t, lead->index) : 0,
             mine = s->nest->axes | ~dl_kernel_wide_axes(s->k);
    int inner[2] = {-1, -1}; /* axes of `t` that lie inside the others */
    if (t && t->layout.kind != DL_ROW) inner[0] = dl_layout_channels(t->layout);
    if (t && t->layout.kind == DL_PANEL) inner[1] = 0;
    dl_axis_list *order = &s->order;
    for (int i = 0; i < s->k->nspace; i++)
        if (mine & ~axes & 1u << i) order->axis[order->n++] = i;
    for (int i = 0; lead && i < t->rank; i++)
        if (lead->index[i].axis >= 0 && i != inner[0] && i != inner[1])
            order->axis[order->n++] = lead->index[i].axis;
    for (int k = 0; k < 2; k++)
        if (inner[k] >= 0 && lead->index[inner[k]].axis >= 0)
            order->axis[order->n++] = lead->index[inner[k]].axis;
}

static int64_t plan_items(nest *s) {
    s->inner_chunk = s->rows == 1 ? DL_ITEM_POINTS : s->inner;
    int64_t each = dl_at_least(1, s->inner ? DL_ITEM_POINTS / s->inner : 1);
    return s->rows == 1 ? dl_ceil_div(s->inner, s->inner_chunk) : dl_ceil_div(s->rows, each);
}

static nest plan_nest(dl_emitter *e) {
    const dl_kernel *k = e->k;
    nest s = {.k = k, .nest = e->now, .steps = e->steps, .sums_all = true};
    for (int i = 0; i < e->now->run.n; i++)
        if (e->steps[e->now->run.at[i]].kind == DL_K_REDUCE)
            s.sums = true, s.sums_all = s.sums_all && !e->steps[e->now->run.at[i]].axes;
    s.flat = k->nspace ? find_flat(&s) : NULL;
    s.rows = s.inner = 1;
    choose_order(&s);
    e->flat = s.flat != NULL;
    int last = s.order.n - 1;
    e->lane_axis = e->flat || last < 0 ? -1 : s.order.axis[last];
    e->mode = (e->flat || last >= 0) && is_vector(e, &s) ? DL_LANES : DL_SINGLE;
    if (e->flat) {
        s.inner = dl_type_stored(s.flat);
        return s;
    }
    for (int i = 0; i < last; i++) s.rows *= k->space[s.order.axis[i]].size;
    if (last >= 0) s.inner = k->space[s.order.axis[last]].size;
    if (!s.inner) s.rows = s.rows > 0; /* empty rows: one row stands for all */
    return s;
}

/* Work items of `each` rows, or of a part of the only row. */
static void put_nest(dl_emitter *e, const nest *s, int64_t each) {
    bool one = s->rows == 1;
    dl_axis_list outer = s->order;
    outer.n -= outer.n > 0, outer.points = s->rows;
    dl_loops l = dl_loop_begin(e);
    dl_expr size = dl_loop_number(&l, one ? s->inner_chunk : each),
            first = dl_loop_let(&l, "first", dl_loop_op(&l, dl_loop_item(&l), '*', size)),
            next = dl_loop_op(&l, first, '+', size), inner = dl_loop_number(&l, s->inner),
            all = one ? inner : dl_loop_number(&l, s->rows),
            last = dl_loop_let(&l, "last", dl_loop_op(&l, next, 'm', all));
    if (!one) dl_loop_collapsed(&l, dl_loop_for(&l, "row", first, last, NULL, 0), &outer, NULL);
    dl_loop_lanes(&l, e->flat ? 0 : e->lane_axis, one ? first : dl_loop_fixed(&l, 0),
                  one ? last : inner, s->inner % e->t->lanes == 0);
    for (int i = 0; i < e->now->read.n; i++) dl_loop_read(&l, e->now->read.at[i]);
    for (int i = 0; i < e->now->run.n; i++) dl_loop_instr(&l, e->now->run.at[i]);
    dl_loop_end(&l);
    if (!one) dl_loop_end(&l);
    dl_loop_print(&l);
}

int64_t dl_emit_points(dl_emitter *e, dl_emitted *code) {
    nest s = plan_nest(e);
    int64_t items = dl_emit_limit_items(plan_items(&s), dl_emit_find_partial(e, &s.order)),
            each = dl_ceil_div(s.rows, items);
    if (s.rows == 1) s.inner_chunk = (dl_ceil_div(s.inner, items) + 63) / 64 * 64;

    dl_emit_nest_head(e);
    dl_emit_item_sums(e, items, code);
    e->prefetch = s.sums ? PREFETCH_DISTANCE : 0;
    put_nest(e, &s, each);
    e->prefetch = 0;
    dl_puts(e->out, "}\n");
    return items;
}
