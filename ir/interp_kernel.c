/* Fused kernels: the program of kernel.h at every point of the space. */
#include "ir/interp_parts.h"

typedef struct {
    const dl_kernel *k;
    double *const *data;
    bool round;
    int first;        /* first reduction */
    unsigned reduced; /* axes it removes */
    dl_arena *scratch;
    double *anchor;   /* the contraction at every point, row-major; NULL without one */
    double **partial; /* by instruction: a reduction's value at every reduced point */
    double *value;    /* by instruction, at the present point */
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
        double sum = 0;
        for (int64_t t = 0; t < terms; t++) {
            int64_t place[2] = {at[0], at[1]}, left = t;
            for (int i = in->nsums - 1; i >= 0; left /= in->sum[i--].size)
                for (int side = 0; side < 2; side++)
                    place[side] += left % in->sum[i].size * stride[side][DL_MAX_RANK + i];
            sum += r->data[in->parts[0][0]][place[0]] * r->data[in->parts[1][0]][place[1]];
        }
        r->anchor[p] = sum;
    }
}

static void run_anchor(run *r, const dl_kinstr *in, int64_t points) {
    if (in->op == DL_OP_contract) {
        r->anchor = DL_NEWS(r->scratch, double, points);
        run_names(r, in, points);
        return;
    }
    dl_extents e = dl_kernel_extents(r->k, in);
    const double *a = gather(r, in, 0), *b = gather(r, in, 1);
    b += in->w_start * e.c * e.taps[0] * e.taps[1] * e.taps[2]; /* 0 but for conv */
    r->anchor = DL_NEWS(r->scratch, double, points);
    dl_interp_conv(&e, a, b, r->anchor);
}

/* The element of its parameter that a load or store means, or NULL outside. */
static double *find_place(const run *r, const dl_kinstr *in) {
    const dl_type *t = &r->k->params.at[in->param].type;
    int64_t offset = 0;
    for (int i = 0; i < t->rank; i++) {
        int64_t x = in->index[i].offset + (in->index[i].axis >= 0 ? r->at[in->index[i].axis] : 0);
        if (x < 0 || x >= t->axis[i].size) return NULL;
        offset = offset * t->axis[i].size + x;
    }
    return r->data[in->param] + offset;
}

static void run_instr(run *r, int number) {
    const dl_kinstr *in = &r->k->instrs.at[number];
    double arg[3] = {0}, v = 0, *place;
    for (int i = 0; i < in->nargs; i++) arg[i] = r->value[in->args[i]];
    switch (in->kind) {
    case DL_K_CONTRACT: v = r->anchor[r->point]; break;
    case DL_K_LOAD: place = find_place(r, in), v = place ? *place : 0; break;
    case DL_K_CONST: v = in->p; break;
    case DL_K_COORD: v = (double)r->at[in->axis]; break;
    case DL_K_ELEM: v = dl_interp_scalar(in->op, arg[0], arg[1], arg[2], in->p); break;
    case DL_K_REDUCE: v = r->partial[number][r->reduced_point]; break;
    case DL_K_STORE:
        place = find_place(r, in);
        if (place) *place = dl_interp_convert(r->k->params.at[in->param].type.dtype, arg[0], r->round);
        return;
    default: return;
    }
    r->value[number] = dl_interp_convert(in->type, v, r->round);
}

/* Adds the present point to a reduction. */
static void run_reduction(run *r, int number) {
    const dl_kinstr *in = &r->k->instrs.at[number];
    double *to = &r->partial[number][r->reduced_point];
    *to = dl_interp_scalar(in->op, *to, r->value[in->args[0]], 0, 0);
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

void dl_interp_kernel(const dl_kernel *k, double *const *data, bool round) {
    run r = {.k = k, .data = data, .round = round};
    r.first = dl_kernel_first_reduction(k), r.reduced = dl_kernel_reduced(k);
    r.scratch = dl_arena_new(NULL);
    r.value = DL_NEWS(r.scratch, double, k->instrs.n);
    r.partial = DL_NEWS(r.scratch, double *, k->instrs.n);
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
        r.partial[i] = DL_NEWS(r.scratch, double, reduced_points);
        for (int64_t j = 0; j < reduced_points; j++) r.partial[i][j] = dl_interp_identity(in->op);
    }
    walk(&r, 0, run_point);
    if (r.first < k->instrs.n) walk(&r, r.reduced, run_reduced_point);
    dl_arena_free(r.scratch);
}
