/* Fused kernels: runs the program of kernel.h in loop nests over points, a block of points
 * at a time. */
#include <math.h>

#include "ir/base/philox.h"
#include "ir/interp/interp_parts.h"
#include "ir/kernel/schedule.h"
#include "ir/kernel/winograd.h"

enum { BLOCK = 256 };
typedef struct {
    const dl_kernel *k;
    dl_interp_space s; /* its space, instructions and steps, with joined axes */
    double **data;
    const dl_interp_ranges *ranges; /* NULL: no ranges are wanted */
    uint64_t **stored;    /* with ranges, by output: a bit for each element that was judged */
    double **low, **high; /* with ranges, by output: the sums of elements that are added up; NULL:
                             each element is judged at once */
    bool **some;          /* by output: the elements that a store of the largest value has reached;
                             NULL: there is no such store */
    bool round;
    dl_loop_nests nests;
    dl_arena *scratch;
    double *anchor;       /* the contraction at every point, row-major; NULL without one */
    double *anchor_slack; /* with ranges: its error bound */
    bool by_winograd;     /* which is infinite where the anchor may be anything */
    dl_range_sum *
        *partial;    /* by instruction: a reduction's partial result at every point of its axes */
    dl_ranges *kept; /* by instruction: values that a later loop nest reads, at every point of their
                        axes */
    dl_ranges *value;  /* by instruction, BLOCK points; without ranges only `at` is valid */
    dl_ranges nothing; /* the value of an operand that does not exist */
    /* The current block: n points in sequence along axis `inner` (-1: one point, no axis). */
    int n, inner;
    int64_t at[DL_MAX_RANK]; /* of its first point */
} run;

/* An operand of a contraction: its parts concatenated along axis 1, row-major. */
static const double *gather(run *r, const dl_kinstr *in, int side) {
    const dl_kparam *params = r->k->params.at;
    if (in->nparts[side] == 1) return r->data[in->parts[side][0]];
    int64_t all = 0, done = 0;
    for (int i = 0; i < in->nparts[side]; i++)
        all += dl_type_count(&params[in->parts[side][i]].type);
    int64_t outer = params[in->parts[side][0]].type.axis[0].size, row = outer ? all / outer : 0;
    double *to = DL_NEWS(r->scratch, double, all);
    for (int i = 0; i < in->nparts[side]; i++) {
        int64_t count = dl_type_count(&params[in->parts[side][i]].type),
                inner = outer ? count / outer : 0;
        const double *from = r->data[in->parts[side][i]];
        for (int64_t n = 0; n < outer; n++)
            memcpy(to + n * row + done, from + n * inner, sizeof *to * (size_t)inner);
        done += inner;
    }
    return to;
}

/* The same, rounded as tensor cores do. */
static const double *in_tf32(run *r, const dl_kinstr *in, int side, const double *from) {
    int64_t all = 0;
    if (!in->tf32 || !r->round || r->k->params.at[in->parts[side][0]].type.dtype != DL_F32)
        return from;
    for (int i = 0; i < in->nparts[side]; i++)
        all += dl_type_count(&r->k->params.at[in->parts[side][i]].type);
    double *to = DL_NEWS(r->scratch, double, all);
    for (int64_t i = 0; i < all; i++) to[i] = dl_interp_tf32(from[i]);
    return to;
}

static void run_anchor(run *r, const dl_kinstr *in, int64_t points) {
    dl_relation relation = dl_kernel_relation(r->k, in);
    const double *a = in_tf32(r, in, 0, gather(r, in, 0)), *b = in_tf32(r, in, 1, gather(r, in, 1));
    if (in->w_start) { /* the weight's rows before the slice */
        int place = dl_op_place(in->op, DL_TENSOR_W);
        const dl_type *w = &r->k->params.at[in->parts[place][0]].type;
        *(place ? &b : &a) += in->w_start * (dl_type_count(w) / w->axis[0].size);
    }
    dl_interp_sums to = {.sum = DL_NEWS(r->scratch, double, points)};
    r->by_winograd = r->ranges && dl_winograd_named(r->k) && dl_winograd_suits(r->k);
    if (r->by_winograd) {
        dl_interp_contract(&relation, a, b, &to);
        bool weight = dl_op_makes_weight(in->op),
             image_first = weight ? dl_op_place(in->op, DL_TENSOR_X) == 0
                                  : dl_op_place(in->op, DL_TENSOR_W) == 1;
        r->anchor = to.sum, r->anchor_slack = DL_NEWS(r->scratch, double, points);
        (weight ? dl_interp_winograd_weight : dl_interp_winograd)(
            &relation, image_first ? a : b, image_first ? b : a, r->anchor_slack);
        return;
    }
    if (r->ranges) to.size = DL_NEWS(r->scratch, double, points);
    if (r->ranges && r->ranges->chain) to.chain = DL_NEWS(r->scratch, double, points);
    dl_interp_contract(&relation, a, b, &to);
    r->anchor = to.sum;
    if (!r->ranges) return;
    int64_t terms = dl_relation_k_extent(&relation);
    const double *chain = to.chain ? to.chain : to.sum;
    for (int64_t i = 0; i < points; i++)
        to.size[i] = dl_sum_slack(in->type, terms, to.size[i], to.sum[i], chain[i]);
    r->anchor_slack = to.size;
}

/* The row-major index of the block's first point within some axes; *step: from one point to the
 * next. */
static int64_t number_in(const run *r, unsigned axes, int64_t *step) {
    int64_t n = 0;
    for (int i = 0; i < r->s.nspace; i++)
        if (axes >> i & 1) n = n * r->s.space[i].size + r->at[i];
    *step = r->inner >= 0 &&
            axes >> r->inner &
                1; /* the innermost axis of the loop nest is innermost in any subset of its axes */
    return n;
}

static int64_t coordinate(const run *r, int axis, int k) {
    return r->at[axis] + (axis == r->inner ? k : 0);
}

/* Finds elements at equal distances inside the parameter, the common case. False: each point must
 * be computed by itself. */
static bool find_row(const run *r, int number, int64_t *first, int64_t *step) {
    const dl_type *t = &r->s.shape[number];
    *first = *step = 0;
    for (int i = 0; i < t->rank; i++) {
        const dl_index *at = &r->s.instrs[number].index[i];
        int64_t x = at->offset + (at->axis >= 0 ? r->at[at->axis] : 0), along = 0;
        if (at->nterms || at->indirect || at->div > 1) return false;
        if (at->axis >= 0 && at->axis == r->inner) along = 1;
        if (x < 0 || x + along * (r->n - 1) >= t->axis[i].size) return false;
        *first = *first * t->axis[i].size + x, *step = *step * t->axis[i].size + along;
    }
    return true;
}

/* By point of the block: the element of its parameter that a load or store accesses, or -1
 * outside. */
static void find_places(const run *r, int number, int64_t place[BLOCK]) {
    const dl_type *t = &r->s.shape[number];
    int64_t first, step;
    if (find_row(r, number, &first, &step)) {
        for (int k = 0; k < r->n; k++) place[k] = first + k * step;
        return;
    }
    for (int k = 0; k < r->n; k++) place[k] = 0;
    for (int i = 0; i < t->rank; i++) {
        const dl_index *at = &r->s.instrs[number].index[i];
        int64_t size = t->axis[i].size;
        for (int k = 0; k < r->n; k++) {
            int64_t x = at->offset + (at->axis >= 0 ? coordinate(r, at->axis, k) : 0);
            for (int j = 0; j < at->nterms; j++) {
                int64_t part = coordinate(r, at->term[j].axis, k) / at->term[j].div;
                x += (at->term[j].mod ? part % at->term[j].mod : part) * at->term[j].mul;
            }
            if (at->indirect) {
                double v = r->value[at->indirect - 1].at[k];
                x = v >= 0 && v < (double)size ? (int64_t)v : -1;
            }
            x = dl_affine_place(x, at->div, at->outside, size);
            place[k] = place[k] < 0 || x < 0 ? -1 : place[k] * size + x;
        }
    }
}

static void run_load(const run *r, int number, double *to) {
    int64_t place[BLOCK], first, step;
    const dl_kinstr *in = &r->s.instrs[number];
    const double *from = r->data[in->param];
    if (find_row(r, number, &first, &step)) {
        for (int k = 0; k < r->n; k++) to[k] = from[first + k * step];
        return;
    }
    double outside = dl_kinstr_outside(in, r->s.space, &r->s.shape[number]);
    find_places(r, number, place);
    for (int k = 0; k < r->n; k++) to[k] = place[k] < 0 ? outside : from[place[k]];
}

/* Takes a value into an element: the larger one, of which the first is larger than any; or the sum,
 * which rounds. */
static void take(run *r, const dl_kinstr *in, int number, int64_t place, dl_range v) {
    dl_dtype type = r->k->params.at[in->param].type.dtype;
    double *to = &r->data[in->param][place], none,
           *low = r->ranges ? &r->low[number][place] : &none,
           *high = r->ranges ? &r->high[number][place] : &none;
    if (in->op == DL_OP_reduce_max) {
        const bool more = r->some[number][place];
        if (r->ranges) v = dl_range_store(type, v);
        v.at = dl_interp_convert(type, v.at, r->round);
        *to = more ? dl_interp_scalar(in->op, *to, v.at, 0, 0) : v.at;
        *low = more ? dl_interp_scalar(in->op, *low, v.low, 0, 0) : v.low;
        *high = more ? dl_interp_scalar(in->op, *high, v.high, 0, 0) : v.high;
        r->some[number][place] = true;
        return;
    }
    *to = dl_interp_convert(type, *to + v.at, r->round);
    if (!r->ranges) return;
    dl_range sum = dl_range_widen(type, (dl_range){*to, *low + v.low, *high + v.high}, 1);
    *low = sum.low, *high = sum.high;
}

static void run_store(run *r, int instr) {
    const dl_kinstr *in = &r->s.instrs[instr];
    int64_t place[BLOCK];
    int number = in->param - r->k->nin;
    dl_dtype type = r->k->params.at[in->param].type.dtype;
    const dl_ranges v = r->value[in->args[0]];
    bool takes = dl_kinstr_indirect(r->k, &r->k->instrs.at[instr]) >= 0; /* to the initial zeros */
    find_places(r, instr, place);
    for (int k = 0; k < r->n; k++) {
        if (place[k] < 0) continue;
        if (takes) {
            take(r, in, number, place[k], dl_ranges_get(v, k));
            continue;
        }
        double at = dl_interp_convert(type, v.at[k], r->round);
        if (!r->ranges) {
            r->data[in->param][place[k]] = at;
            continue;
        }
        dl_range stored = dl_range_store(type, dl_ranges_get(v, k));
        r->stored[number][place[k] / 64] |= (uint64_t)1 << place[k] % 64;
        r->ranges->judge(r->ranges->user, number, place[k], at, stored.low, stored.high);
    }
}

static dl_range anchor_range(const run *r, const dl_kinstr *in, int64_t point) {
    double at = r->anchor[point], slack = r->anchor_slack[point];
    if (r->by_winograd && isinf(slack)) return (dl_range){at, -INFINITY, INFINITY};
    return dl_range_widen(in->type, (dl_range){at, at - slack, at + slack}, 1);
}

static dl_range reduced_range(const dl_kinstr *in, const dl_range_sum *s) {
    return in->op == DL_OP_sum ? dl_range_of_sum(in->type, s) : s->sum;
}

static void run_elem(run *r, const dl_kinstr *in, dl_ranges to) {
    dl_ranges arg[3];
    for (int i = 0; i < 3; i++) arg[i] = i < in->nargs ? r->value[in->args[i]] : r->nothing;
    if (r->ranges)
        dl_range_elems(in, arg, to, r->n);
    else
        for (int k = 0; k < r->n; k++)
            to.at[k] = dl_interp_scalar(in->op, arg[0].at[k], arg[1].at[k], arg[2].at[k], in->p);
}

static void run_random(const run *r, const dl_kinstr *in, double *to) {
    const double *seed = r->value[in->args[0]].at, *step = r->value[in->args[1]].at;
    const double *part = in->nargs > 2 ? r->value[in->args[2]].at : NULL;
    for (int k = 0; k < r->n; k++) {
        uint64_t element = (uint64_t)in->first;
        if (part) element += (uint64_t)(int64_t)part[k] * (uint64_t)in->part;
        for (int i = 0; i < r->s.nspace; i++)
            element += (uint64_t)(in->along[i] * coordinate(r, i, k));
        to[k] = (double)dl_unit_float(dl_random_word(
            (uint64_t)(int64_t)seed[k], (uint64_t)(int64_t)step[k], (uint32_t)in->number, element));
    }
}

static void set_ends(const run *r, dl_ranges v) { /* the range of an exact value */
    if (!r->ranges) return;
    memcpy(v.low, v.at, sizeof *v.at * (size_t)r->n);
    memcpy(v.high, v.at, sizeof *v.at * (size_t)r->n);
}

static void round_value(const run *r, const dl_kinstr *in, dl_ranges v) {
    if (!r->round && dl_dtype_is_float(in->type)) return;
    if (in->type == DL_F32 && r->round)
        for (int k = 0; k < r->n; k++) v.at[k] = (double)(float)v.at[k];
    else
        for (int k = 0; k < r->n; k++) v.at[k] = dl_interp_convert(in->type, v.at[k], r->round);
}

static void run_instr(run *r, int number) {
    const dl_kinstr *in = &r->s.instrs[number];
    const dl_ranges v = r->value[number], *arg;
    int64_t step, point;
    switch (in->kind) {
    case DL_K_CONTRACT:
        point = number_in(r, r->s.steps[number].axes, &step);
        for (int k = 0; k < r->n; k++) v.at[k] = r->anchor[point + k * step];
        for (int k = 0; r->ranges && k < r->n; k++)
            dl_ranges_put(v, k, anchor_range(r, in, point + k * step));
        break;
    case DL_K_LOAD: run_load(r, number, v.at), set_ends(r, v); break;
    case DL_K_CONST:
        for (int k = 0; k < r->n; k++) v.at[k] = in->p;
        for (int k = 0; r->ranges && k < r->n; k++)
            dl_ranges_put(
                v, k,
                dl_range_widen(in->type, dl_range_exact(in->p), (double)(float)in->p != in->p));
        break;
    case DL_K_COORD:
        for (int k = 0; k < r->n; k++)
            v.at[k] = (double)(r->at[in->axis] + (in->axis == r->inner ? k : 0));
        set_ends(r, v);
        break;
    case DL_K_RANDOM: run_random(r, in, v.at), set_ends(r, v); break;
    case DL_K_ELEM: run_elem(r, in, v); break;
    case DL_K_REDUCE: /* a reduction over one point */
        arg = &r->value[in->args[0]];
        for (int k = 0; k < r->n; k++) v.at[k] = arg->at[k];
        for (int k = 0; r->ranges && k < r->n; k++) dl_ranges_put(v, k, dl_ranges_get(*arg, k));
        break;
    case DL_K_STORE: run_store(r, number); return;
    default: return;
    }
    round_value(r, in, v);
}

/* Reads a value that an earlier loop nest has computed. */
static void read_kept(run *r, int number) {
    const dl_kinstr *in = &r->s.instrs[number];
    const dl_ranges v = r->value[number], from = r->kept[number];
    int64_t step, point = number_in(r, r->s.steps[number].axes, &step);
    for (int k = 0; k < r->n; k++, point += step) {
        if (r->partial[number]) {
            const dl_range_sum *sum = &r->partial[number][point];
            v.at[k] = sum->sum.at;
            if (r->ranges) dl_ranges_put(v, k, reduced_range(in, sum));
        } else {
            v.at[k] = from.at[point];
            if (r->ranges) dl_ranges_put(v, k, dl_ranges_get(from, (int)point));
        }
    }
    round_value(r, in, v);
}

static void keep(run *r, int number) {
    const dl_ranges v = r->value[number], to = r->kept[number];
    int64_t step, point = number_in(r, r->s.steps[number].axes, &step);
    for (int k = 0; k < r->n; k++, point += step) {
        to.at[point] = v.at[k];
        if (r->ranges) dl_ranges_put(to, (int)point, dl_ranges_get(v, k));
    }
}

/* Adds the block's points to a reduction. */
static void run_reduction(run *r, int number) {
    const dl_kinstr *in = &r->s.instrs[number];
    int64_t step;
    dl_range_sum *to = r->partial[number] + number_in(r, r->s.steps[number].axes, &step);
    const dl_ranges v = r->value[in->args[0]];
    for (int k = 0; k < r->n; k++, to += step) {
        if (r->ranges && in->op == DL_OP_sum) {
            dl_range_add(to, dl_ranges_get(v, k));
            continue;
        }
        to->sum.at = dl_interp_scalar(in->op, to->sum.at, v.at[k], 0, 0);
        if (!r->ranges) continue;
        to->sum.low = dl_interp_scalar(in->op, to->sum.low, v.low[k], 0, 0);
        to->sum.high = dl_interp_scalar(in->op, to->sum.high, v.high[k], 0, 0);
    }
}

static void run_block(run *r, const dl_loop_nest *s) {
    for (int i = 0; i < s->read.n; i++) read_kept(r, s->read.at[i]);
    for (int i = 0; i < s->run.n; i++) {
        int number = s->run.at[i];
        if (r->s.steps[number].kind == DL_K_REDUCE) {
            run_reduction(r, number);
            continue;
        }
        run_instr(r, number);
        if (r->kept[number].at) keep(r, number);
    }
}

/* Runs every block of points of a loop nest; axes that it lacks stay at 0. */
static void walk(run *r, const dl_loop_nest *s) {
    const dl_interp_space *k = &r->s;
    memset(r->at, 0, sizeof r->at);
    r->inner = -1;
    for (int i = 0; i < k->nspace; i++)
        if (s->axes >> i & 1) {
            if (k->space[i].size == 0) return;
            r->inner = i;
        }
    int64_t length = r->inner < 0 ? 1 : k->space[r->inner].size, none = 0;
    int64_t *along = r->inner < 0 ? &none : &r->at[r->inner];
    for (;;) {
        for (*along = 0; *along < length; *along += BLOCK) {
            r->n = (int)(length - *along < BLOCK ? length - *along : BLOCK);
            run_block(r, s);
        }
        *along = 0;
        int i = r->inner - 1;
        for (; i >= 0; i--) {
            if (s->axes >> i & 1 && ++r->at[i] < k->space[i].size) break;
            r->at[i] = 0;
        }
        if (i < 0) return;
    }
}

static dl_ranges new_ranges(dl_arena *arena, int64_t n) {
    double *columns = DL_NEWS(arena, double, 3 * n);
    return (dl_ranges){columns, columns + n, columns + 2 * n};
}

/* Before the run: memory by instruction, the contraction, initial values of reductions. */
static void prepare(run *r) {
    const dl_kernel *k = r->k;
    r->value = DL_NEWS(r->scratch, dl_ranges, k->instrs.n);
    r->kept = DL_NEWS(r->scratch, dl_ranges, k->instrs.n);
    r->nothing = new_ranges(r->scratch, BLOCK);
    for (int i = 0; i < k->instrs.n; i++) r->value[i] = new_ranges(r->scratch, BLOCK);
    r->partial = DL_NEWS(r->scratch, dl_range_sum *, k->instrs.n);
    for (int i = 0; i < k->instrs.n; i++) {
        const dl_kinstr *in = &k->instrs.at[i];
        int64_t points = dl_axes_points(r->s.nspace, r->s.space, r->s.steps[i].axes);
        if (in->kind == DL_K_CONTRACT) run_anchor(r, in, points);
        if (r->s.steps[i].kind != DL_K_REDUCE) {
            if (r->nests.kept[i]) r->kept[i] = new_ranges(r->scratch, points);
            continue;
        }
        r->partial[i] = DL_NEWS(r->scratch, dl_range_sum, points);
        for (int64_t j = 0; j < points; j++)
            r->partial[i][j].sum = dl_range_exact(dl_interp_identity(in->op));
    }
}

/* Memory of the results: their data, initially zeros; with ranges only a bit for each element, and
 * sums where elements are added up. */
static void make_room(run *r, double *const *data) {
    const dl_kernel *k = r->k;
    int outs = k->params.n - k->nin;
    r->data = DL_NEWS(r->scratch, double *, k->params.n + 1);
    r->low = DL_NEWS(r->scratch, double *, outs + 1),
    r->high = DL_NEWS(r->scratch, double *, outs + 1);
    r->stored = DL_NEWS(r->scratch, uint64_t *, outs + 1);
    r->some = DL_NEWS(r->scratch, bool *, outs + 1);
    memcpy(r->data, data, sizeof *data * (size_t)k->params.n);
    for (int i = 0; i < outs; i++) {
        int64_t count = dl_type_count(&k->params.at[k->nin + i].type);
        if (r->ranges)
            r->stored[i] = DL_NEWS(r->scratch, uint64_t, count / 64 + 1);
        else
            memset(data[k->nin + i], 0, sizeof **data * (size_t)count);
    }
    for (int i = 0; i < k->instrs.n; i++) {
        const dl_kinstr *in = &k->instrs.at[i];
        if (in->kind != DL_K_STORE || dl_kinstr_indirect(k, in) < 0) continue;
        int64_t count = dl_type_count(&k->params.at[in->param].type);
        if (in->op == DL_OP_reduce_max)
            r->some[in->param - k->nin] = DL_NEWS(r->scratch, bool, count + 1);
        if (!r->ranges || r->low[in->param - k->nin]) continue;
        r->data[in->param] = DL_NEWS(r->scratch, double, count + 1);
        r->low[in->param - k->nin] = DL_NEWS(r->scratch, double, count + 1);
        r->high[in->param - k->nin] = DL_NEWS(r->scratch, double, count + 1);
    }
}

/* Judges the elements that no store has judged: sums, and elements that nothing was stored to,
 * which are 0. */
static void judge_rest(const run *r) {
    for (int i = 0; i < r->k->params.n - r->k->nin; i++) {
        int64_t count = dl_type_count(&r->k->params.at[r->k->nin + i].type);
        for (int64_t e = 0; e < count; e++) {
            if (r->low[i])
                r->ranges->judge(r->ranges->user, i, e, r->data[r->k->nin + i][e], r->low[i][e],
                                 r->high[i][e]);
            else if (!(r->stored[i][e / 64] >> e % 64 & 1))
                r->ranges->judge(r->ranges->user, i, e, 0, 0, 0);
        }
    }
}

void dl_interp_kernel(const dl_kernel *k, double *const *data, bool round,
                      const dl_interp_ranges *ranges) {
    const dl_node *call = dl_kernel_call(k);
    if (call) {
        dl_interp_run_call(call, data, round, ranges);
        return;
    }
    run r = {.k = k, .ranges = ranges, .round = round, .n = BLOCK, .inner = -1};
    r.scratch = dl_arena_new(NULL);
    r.s = dl_interp_join_axes(r.scratch, k);
    /* by points, whatever the emitters do: the oracle does not share the choice that it judges */
    r.nests = dl_schedule_nests(r.scratch, k->instrs.n, r.s.steps,
                                (dl_loop_schedule){.kind = DL_BY_POINTS});
    make_room(&r, data);
    prepare(&r);
    for (int i = 0; i < r.nests.n; i++) walk(&r, &r.nests.at[i]);
    if (ranges) judge_rest(&r);
    dl_arena_free(r.scratch);
}
