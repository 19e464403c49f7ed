/* Per-thread reductions over a few terms, at a thread's point or vector of points: windows of a
 * pool, forward and backward. They are not reductions of a loop nest: a loop over their axes
 * computes their operands before the point's other statements, and nothing of it goes through
 * memory. */
#include <math.h>

#include "compiler/cuda/emit_loops.h"

enum {
    MAX_UNROLLED = 1024 /* statements of the unrolled loop */
};

static const dl_kinstr *instr_of(const dl_emitter *e, int i) { return &e->k->instrs.at[i]; }
/* By instruction, the depth of its chain of such reductions. */
static int *find_levels(const dl_emitter *e) {
    int *level = DL_NEWS(e->arena, int, e->k->instrs.n + 1);
    for (int i = 0; i < e->k->instrs.n; i++) {
        for (int a = 0; a < e->steps[i].nargs; a++)
            if (level[e->steps[i].args[a]] > level[i]) level[i] = level[e->steps[i].args[a]];
        level[i] += dl_cuda_is_per_thread(e, i);
    }
    return level;
}

/* Does the present loop nest read it from an earlier one? */
static bool is_read(const dl_emitter *e, int number) {
    for (int i = 0; i < e->now->read.n; i++)
        if (e->now->read.at[i] == number) return true;
    return false;
}

/* The operands of a level's reductions, down to reads and reductions of lower levels. */
static bool *find_made(const dl_emitter *e, const bool *runs, const int *level, int now) {
    bool *made = DL_NEWS(e->arena, bool, e->k->instrs.n + 1);
    for (int i = e->k->instrs.n - 1; i >= 0; i--) {
        bool per_thread = dl_cuda_is_per_thread(e, i),
             root = per_thread && runs[i] && level[i] == now;
        made[i] |= root;
        if (!made[i] || (per_thread && !root) || is_read(e, i)) continue;
        for (int a = 0; a < e->steps[i].nargs; a++) made[e->steps[i].args[a]] = true;
    }
    return made;
}

/* Is load `in` out of bounds wherever load `of` is? */
static bool lies_with(const dl_emitter *e, const dl_kinstr *of, const dl_kinstr *in) {
    const dl_type *t = &e->k->params.at[of->param].type, *own = &e->k->params.at[in->param].type;
    for (int i = 0; i < t->rank; i++) {
        const dl_index *at = &of->index[i];
        bool found =
            dl_index_inside(e->k->space, at, t->axis[i].size) || !dl_outside_fills(at->outside);
        for (int a = 0; a < own->rank && !found; a++)
            found =
                own->axis[a].size == t->axis[i].size && memcmp(&in->index[a], at, sizeof *at) == 0;
        if (!found) return false;
    }
    return true;
}

/* Is an instruction's value known where the load `of` is out of bounds? */
static bool is_known(const dl_emitter *e, int number, const dl_kinstr *of, double *value) {
    const dl_kinstr *in = instr_of(e, number);
    const dl_type *t = in->kind == DL_K_LOAD ? &e->k->params.at[in->param].type : NULL;
    double other;
    if (in->kind == DL_K_CONST) {
        *value = in->p;
        return true;
    }
    if (t) {
        *value = dl_kinstr_outside(in, e->k->space, t);
        return lies_with(e, of, in);
    }
    if (in->kind != DL_K_ELEM || (in->op != DL_OP_select && in->op != DL_OP_cast)) return false;
    if (!is_known(e, in->args[in->nargs - 1], of, value)) return false;
    return in->op == DL_OP_cast || (is_known(e, in->args[1], of, &other) && other == *value);
}

/* A load that guards the loop: where it is out of bounds, no reduction of the level takes in
 * anything. The guard uses those of its coordinates that are out of bounds at half of the points
 * or more, and that do not depend on the innermost loop. NULL: there is none. */
static const dl_kinstr *find_guard(const dl_emitter *e, const bool *made, const int *level, int now,
                                   int innermost) {
    for (int i = 0; i < e->k->instrs.n; i++) {
        dl_kinstr *load = DL_NEW(e->arena, dl_kinstr);
        bool all = false;
        *load = *instr_of(e, i);
        if (!made[i] || load->kind != DL_K_LOAD || !(e->steps[i].axes & e->per_thread)) continue;
        int rank = e->k->params.at[load->param].type.rank;
        load->index = DL_NEWS(e->arena, dl_index, rank);
        for (int a = 0; a < rank; a++) {
            const dl_index *at = &instr_of(e, i)->index[a];
            bool asks =
                at->outside == DL_OUT_EXACT && at->div > 1 && (at->nterms || at->axis != innermost);
            for (int t = 0; t < at->nterms; t++) asks &= at->term[t].axis != innermost;
            load->index[a] = asks ? *at : (dl_index){.axis = -1};
            all |= asks;
        }
        for (int r = 0; r < e->k->instrs.n && all; r++) {
            const dl_kinstr *in = instr_of(e, r);
            double value, start = in->op == DL_OP_sum          ? 0
                                  : in->op == DL_OP_reduce_max ? -INFINITY
                                                               : INFINITY;
            if (!made[r] || !dl_cuda_is_per_thread(e, r) || level[r] != now) continue;
            all = dl_emit_is_float(in->type) && is_known(e, in->args[0], load, &value) &&
                  value == start;
        }
        if (all) return load;
    }
    return NULL;
}

/* Bytes that a thread loads in one iteration of the loop around the innermost one. */
static int64_t count_bytes(const dl_emitter *e, const dl_vectors *l, const bool *made,
                           int innermost) {
    int64_t bytes = 0;
    for (int i = 0; i < e->k->instrs.n; i++) {
        const dl_kinstr *in = instr_of(e, i);
        if (!made[i] || in->kind != DL_K_LOAD || !(e->steps[i].axes & e->per_thread)) continue;
        int each = dl_dtype_bytes(e->k->params.at[in->param].type.dtype) * l->width;
        bytes += e->steps[i].axes >> innermost & 1 ? each * e->k->space[innermost].size : each;
    }
    return bytes;
}

static void put_level(dl_loops *l, const dl_vectors *v, const bool *made, const int *level, int now,
                      const dl_expr *own) {
    dl_emitter *e = l->e;
    dl_axis_list axes = dl_cuda_order_axes(e, e->per_thread);
    int64_t statements = 0;
    int innermost = axes.axis[axes.n - 1];
    const dl_kinstr *guard = find_guard(e, made, level, now, innermost);
    for (int i = 0; i < e->k->instrs.n; i++)
        statements += made[i] && instr_of(e, i)->kind != DL_K_CONST;
    bool unrolled = !guard && statements * v->width * axes.points <= MAX_UNROLLED &&
                    count_bytes(e, v, made, innermost) < DL_ENOUGH_BYTES;
    for (int i = 0; i < axes.n - 1; i++)
        dl_loop_axis(l, axes.axis[i], e->k->space[axes.axis[i]].size, unrolled ? DL_UNROLLED : 1);
    if (guard) dl_loop_if(l, dl_loop_inside(l, guard));
    dl_loop_axis(l, innermost, e->k->space[innermost].size, DL_UNROLLED);
    dl_cuda_load_vectors(l, v, made, DL_PER_THREAD);
    dl_expr j = dl_loop_points(l, v);
    for (int i = 0; i < e->k->instrs.n; i++) {
        if (!made[i]) continue;
        if (dl_cuda_is_per_thread(e, i) && level[i] == now)
            dl_loop_grow(l, i, dl_loop_slot(l, own[i], j), NULL);
        else if (dl_cuda_is_per_thread(e, i))
            dl_loop_define(l, i, dl_loop_slot(l, own[i], j));
        else if (is_read(e, i))
            dl_loop_read(l, i);
        else
            dl_loop_instr(l, i);
    }
    for (int i = 0; i < axes.n + !!guard + 1; i++) dl_loop_end(l);
}

/* The reductions in `runs`, of all points of a vector: by instruction, a variable or an array;
 * NULL: there is none. */
static const dl_expr *put_reductions(dl_loops *l, const dl_vectors *v, const bool *runs) {
    const dl_emitter *e = l->e;
    int *level = find_levels(e), most = 0;
    dl_expr *own = DL_NEWS(e->arena, dl_expr, e->k->instrs.n + 1);
    int64_t terms = dl_axes_points(e->k->nspace, e->k->space, e->per_thread);
    for (int i = 0; i < e->k->instrs.n; i++) {
        if (!runs[i] || !dl_cuda_is_per_thread(e, i)) continue;
        if (level[i] > most) most = level[i];
        dl_loop_type type = dl_cuda_accumulator_type(instr_of(e, i), terms);
        own[i] = dl_loop_vars(l, type, dl_format(e->arena, "$a%d$", i), v->width,
                              dl_loop_start(l, instr_of(e, i)));
    }
    for (int now = 1; now <= most; now++)
        put_level(l, v, find_made(e, runs, level, now), level, now, own);
    return own;
}

void dl_cuda_put_points(dl_loops *l, const dl_vectors *v, const dl_expr *sums, dl_expr test) {
    const dl_emitter *e = l->e;
    const bool *runs = dl_cuda_find_runs(e);
    dl_cuda_load_vectors(l, v, runs, DL_AT_POINT);
    const dl_expr *own = put_reductions(l, v, runs);
    dl_expr j = dl_loop_points(l, v);
    for (int i = 0; i < e->now->read.n; i++)
        if (!(e->steps[e->now->read.at[i]].axes & e->per_thread))
            dl_loop_read(l, e->now->read.at[i]);
    for (int i = 0; i < e->now->run.n; i++) {
        int number = e->now->run.at[i];
        bool guarded = test && e->k->instrs.at[number].kind == DL_K_STORE && !v->has[number];
        if (e->steps[number].axes & e->per_thread) continue;
        if (guarded) dl_loop_if(l, test);
        if (own && own[number])
            dl_loop_define(l, number, dl_loop_slot(l, own[number], j));
        else if (sums && sums[number])
            dl_loop_grow(l, number, dl_loop_slot(l, sums[number], j), test);
        else
            dl_loop_instr(l, number);
        if (guarded) dl_loop_end(l);
    }
    dl_loop_end(l);
    dl_cuda_store_vectors(l, v, runs, test);
}
