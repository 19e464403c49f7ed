/* Fused kernels: the program of kernel.h at every point of the space. */
#include <math.h>

#include "ir/interp_parts.h"

typedef struct {
    const dl_kernel *k;
    double *const *data;
    double *const *low, *const *high; /* one array an output; NULL: no ranges are asked for */
    bool round;
    int first;        /* first reduction */
    unsigned reduced; /* axes it removes */
    dl_arena *scratch;
    double *anchor;         /* the contraction at every point, row-major; NULL without one */
    double *anchor_slack;   /* with ranges: how far it may be off */
    dl_range_sum **partial; /* by instruction: a reduction's value at every reduced point */
    dl_range *value;        /* by instruction, at the present point; without ranges only `at` */
    int64_t at[DL_MAX_RANK], point, reduced_point;
} run;

/* An operand of a contraction: its parts side by side along axis 1, row-major. */
static const double *gather(run *r, const dl_kinstr *in, int side) {
    const dl_kparam *params = r->k->params.at;
    if (in->nparts[side] == 1) return r->data[in->parts[side][0]];
    int64_t all = 0, done = 0;
    for (int i = 0; i < in->nparts[side]; i++) all += dl_type_count(&params[in->parts[side][i]].type);
    int64_t outer = params[in->parts[side][0]].type.axis[0].size, row = outer ? all / outer : 0;
    double *to = DL_NEWS(r->scratch, double, all);
    for (int i = 0; i < in->nparts[side]; i++) {
        int64_t count = dl_type_count(&params[in->parts[side][i]].type), inner = outer ? count / outer : 0;
        const double *from = r->data[in->parts[side][i]];
        for (int64_t n = 0; n < outer; n++)
            memcpy(to + n * row + done, from + n * inner, sizeof *to * (size_t)inner);
        done += inner;
    }
    return to;
}

/* A contraction by names: at every point of the space, the sum over all terms. */
static void run_names(run *r, const dl_kinstr *in, int64_t points) {
    const dl_kernel *k = r->k;
    int64_t stride[2][2 * DL_MAX_RANK] = {0}, terms = dl_kinstr_terms(in);
    for (int side = 0; side < 2; side++) {
        dl_type row = k->params.at[in->parts[side][0]].type;
        int64_t own[DL_MAX_RANK];
        row.layout = (dl_layout){0};
        dl_type_strides(&row, own);
        for (int i = 0; i < row.rank; i++) stride[side][in->follow[side][i]] += own[i];
    }
    for (int64_t p = 0; p < points; p++) {
        int64_t at[2] = {0}, rest = p;
        for (int i = k->nspace - 1; i >= 0; rest /= k->space[i--].size)
            for (int side = 0; side < 2; side++) at[side] += rest % k->space[i].size * stride[side][i];
        double sum = 0, chain = 0, size = 0;
        for (int64_t t = 0; t < terms; t++) {
            int64_t place[2] = {at[0], at[1]}, left = t;
            for (int i = in->nsums - 1; i >= 0; left /= in->sum[i--].size)
                for (int side = 0; side < 2; side++)
                    place[side] += left % in->sum[i].size * stride[side][DL_MAX_RANK + i];
            double product = r->data[in->parts[0][0]][place[0]] * r->data[in->parts[1][0]][place[1]];
            sum += product, size += fabs(product), chain = (double)(float)(chain + product);
        }
        r->anchor[p] = sum;
        if (r->anchor_slack) r->anchor_slack[p] = dl_sum_slack(in->type, terms, size, sum, chain);
    }
}

static void run_anchor(run *r, const dl_kinstr *in, int64_t points) {
    if (in->op == DL_OP_contract) {
        r->anchor = DL_NEWS(r->scratch, double, points);
        if (r->low) r->anchor_slack = DL_NEWS(r->scratch, double, points);
        run_names(r, in, points);
        return;
    }
    dl_extents e = dl_kernel_extents(r->k, in);
    const double *a = gather(r, in, 0), *b = gather(r, in, 1);
    b += in->w_start * e.c * e.taps[0] * e.taps[1] * e.taps[2]; /* 0 but for conv */
    r->anchor = DL_NEWS(r->scratch, double, points);
    dl_interp_conv(&e, a, b, r->anchor, false);
    if (!r->low) return;
    int64_t taps = e.taps[0] * e.taps[1] * e.taps[2], places = e.out[0] * e.out[1] * e.out[2];
    int64_t terms = in->op == DL_OP_conv              ? e.c * taps
                    : in->op == DL_OP_conv_grad_input ? e.o * taps
                                                      : e.n * places;
    double *chain = DL_NEWS(r->scratch, double, points), *slack = DL_NEWS(r->scratch, double, points);
    dl_interp_conv(&e, a, b, chain, true);
    dl_interp_conv_size(&e, a, b, slack);
    for (int64_t i = 0; i < points; i++)
        slack[i] = dl_sum_slack(in->type, terms, slack[i], r->anchor[i], chain[i]);
    r->anchor_slack = slack;
}

/* The element of its parameter that a load or store means, or -1 outside. */
static int64_t find_place(const run *r, const dl_kinstr *in) {
    const dl_type *t = &r->k->params.at[in->param].type;
    int64_t offset = 0;
    for (int i = 0; i < t->rank; i++) {
        const dl_index *at = &in->index[i];
        int64_t x = at->offset + (at->axis >= 0 ? r->at[at->axis] : 0);
        for (int j = 0; j < at->nterms; j++) {
            int64_t part = r->at[at->term[j].axis] / at->term[j].div;
            x += (at->term[j].mod ? part % at->term[j].mod : part) * at->term[j].mul;
        }
        if (x < 0 || x >= t->axis[i].size) return -1;
        offset = offset * t->axis[i].size + x;
    }
    return offset;
}

static dl_range anchor_range(const run *r, const dl_kinstr *in) {
    double at = r->anchor[r->point], slack = r->anchor_slack[r->point];
    return dl_range_widen(in->type, (dl_range){at, at - slack, at + slack}, 1);
}

static dl_range reduced_range(const run *r, int number) {
    const dl_kinstr *in = &r->k->instrs.at[number];
    const dl_range_sum *s = &r->partial[number][r->reduced_point];
    return in->op == DL_OP_sum ? dl_range_of_sum(in->type, s) : s->sum;
}

static dl_range instr_range(const run *r, int number) {
    const dl_kinstr *in = &r->k->instrs.at[number];
    dl_range arg[3] = {0};
    int64_t place;
    for (int i = 0; i < in->nargs; i++) arg[i] = r->value[in->args[i]];
    switch (in->kind) {
    case DL_K_CONTRACT: return anchor_range(r, in);
    case DL_K_LOAD:
        return place = find_place(r, in), dl_range_exact(place < 0 ? 0 : r->data[in->param][place]);
    case DL_K_CONST: return dl_range_widen(in->type, dl_range_exact(in->p), (double)(float)in->p != in->p);
    case DL_K_COORD: return dl_range_exact((double)r->at[in->axis]);
    case DL_K_REDUCE: return reduced_range(r, number);
    default: return dl_range_elem(in, arg);
    }
}

static void store(run *r, const dl_kinstr *in, int64_t place) {
    const dl_range v = r->value[in->args[0]];
    dl_dtype type = r->k->params.at[in->param].type.dtype;
    r->data[in->param][place] = dl_interp_convert(type, v.at, r->round);
    if (!r->low) return;
    r->low[in->param - r->k->nin][place] = dl_interp_convert(type, v.low, false);
    r->high[in->param - r->k->nin][place] = dl_interp_convert(type, v.high, false);
}

static void run_instr(run *r, int number) {
    const dl_kinstr *in = &r->k->instrs.at[number];
    double arg[3] = {0}, v = 0;
    int64_t place;
    if (r->low && in->kind != DL_K_STORE) {
        r->value[number] = instr_range(r, number);
        r->value[number].at = dl_interp_convert(in->type, r->value[number].at, r->round);
        return;
    }
    for (int i = 0; i < in->nargs; i++) arg[i] = r->value[in->args[i]].at;
    switch (in->kind) {
    case DL_K_CONTRACT: v = r->anchor[r->point]; break;
    case DL_K_LOAD: place = find_place(r, in), v = place < 0 ? 0 : r->data[in->param][place]; break;
    case DL_K_CONST: v = in->p; break;
    case DL_K_COORD: v = (double)r->at[in->axis]; break;
    case DL_K_ELEM: v = dl_interp_scalar(in->op, arg[0], arg[1], arg[2], in->p); break;
    case DL_K_REDUCE: v = r->partial[number][r->reduced_point].sum.at; break;
    case DL_K_STORE:
        place = find_place(r, in);
        if (place >= 0) store(r, in, place);
        return;
    default: return;
    }
    r->value[number].at = dl_interp_convert(in->type, v, r->round);
}

/* Adds the present point to a reduction. */
static void run_reduction(run *r, int number) {
    const dl_kinstr *in = &r->k->instrs.at[number];
    dl_range_sum *to = &r->partial[number][r->reduced_point];
    dl_range v = r->value[in->args[0]];
    if (r->low && in->op == DL_OP_sum) {
        dl_range_add(to, v);
        return;
    }
    to->sum.at = dl_interp_scalar(in->op, to->sum.at, v.at, 0, 0);
    if (!r->low) return;
    to->sum.low = dl_interp_scalar(in->op, to->sum.low, v.low, 0, 0);
    to->sum.high = dl_interp_scalar(in->op, to->sum.high, v.high, 0, 0);
}

/* Calls `body` at every point of the space without the axes in `skip`, which stay at 0. */
static void walk(run *r, unsigned skip, void body(run *r)) {
    const dl_kernel *k = r->k;
    memset(r->at, 0, sizeof r->at);
    for (int i = 0; i < k->nspace; i++)
        if (!(skip >> i & 1) && k->space[i].size == 0) return;
    for (r->point = 0;; r->point++) {
        r->reduced_point = 0;
        for (int i = 0; i < k->nspace; i++)
            if (!(r->reduced >> i & 1)) r->reduced_point = r->reduced_point * k->space[i].size + r->at[i];
        body(r);
        int i = k->nspace - 1;
        for (; i >= 0; i--) {
            if (!(skip >> i & 1) && ++r->at[i] < k->space[i].size) break;
            r->at[i] = 0;
        }
        if (i < 0) return;
    }
}

static void run_point(run *r) {
    for (int i = 0; i < r->first; i++) run_instr(r, i);
    for (int i = r->first; i < r->k->instrs.n; i++)
        if (r->k->instrs.at[i].kind == DL_K_REDUCE) run_reduction(r, i);
}

static void run_reduced_point(run *r) {
    for (int i = r->first; i < r->k->instrs.n; i++) run_instr(r, i);
}

void dl_interp_kernel(const dl_kernel *k, double *const *data, bool round, double *const *low,
                      double *const *high) {
    run r = {.k = k, .data = data, .low = low, .high = high, .round = round};
    r.first = dl_kernel_first_reduction(k), r.reduced = dl_kernel_reduced(k);
    r.scratch = dl_arena_new(NULL);
    r.value = DL_NEWS(r.scratch, dl_range, k->instrs.n);
    r.partial = DL_NEWS(r.scratch, dl_range_sum *, k->instrs.n);
    int64_t points = 1, reduced_points = 1;
    for (int i = 0; i < k->nspace; i++) {
        points *= k->space[i].size;
        if (!(r.reduced >> i & 1)) reduced_points *= k->space[i].size;
    }
    for (int i = k->nin; i < k->params.n; i++)
        memset(data[i], 0, sizeof **data * (size_t)dl_type_count(&k->params.at[i].type));
    for (int i = 0; i < k->instrs.n; i++) {
        const dl_kinstr *in = &k->instrs.at[i];
        if (in->kind == DL_K_CONTRACT) run_anchor(&r, in, points);
        if (in->kind == DL_K_CONST) run_instr(&r, i); /* the point part may name one behind a reduction */
        if (in->kind != DL_K_REDUCE) continue;
        r.partial[i] = DL_NEWS(r.scratch, dl_range_sum, reduced_points);
        for (int64_t j = 0; j < reduced_points; j++)
            r.partial[i][j].sum = dl_range_exact(dl_interp_identity(in->op));
    }
    walk(&r, 0, run_point);
    if (r.first < k->instrs.n) walk(&r, r.reduced, run_reduced_point);
    dl_arena_free(r.scratch);
}
