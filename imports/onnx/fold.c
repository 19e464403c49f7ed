/* Arithmetic on constants and on sizes: it is done now, so that shapes are numbers. */
#include <math.h>

#include "imports/onnx/fold.h"

/* ---- element by element ---- */

typedef double (*function)(double a, double b);
static double add(double a, double b) { return a + b; }
static double sub(double a, double b) { return a - b; }
static double mul(double a, double b) { return a * b; }
static double divide(double a, double b) { return a / b; }
static double modulo(double a, double b) { return b == 0 ? 0 : a - b * floor(a / b); }
static double larger(double a, double b) { return a > b ? a : b; }
static double smaller(double a, double b) { return a < b ? a : b; }
static double equal(double a, double b) { return a == b; }
static double less(double a, double b) { return a < b; }
static double less_equal(double a, double b) { return a <= b; }
static double greater(double a, double b) { return a > b; }
static double greater_equal(double a, double b) { return a >= b; }
static double both(double a, double b) { return a != 0 && b != 0; }
static double either(double a, double b) { return a != 0 || b != 0; }
static double negate(double a, double b) { return (void)b, -a; }
static double invert(double a, double b) { return (void)b, a == 0; }
static double root(double a, double b) { return (void)b, sqrt(a); }
static double reciprocal(double a, double b) { return (void)b, 1 / a; }
static double down(double a, double b) { return (void)b, floor(a); }
static double up(double a, double b) { return (void)b, ceil(a); }
static double magnitude(double a, double b) { return (void)b, fabs(a); }
static double exponential(double a, double b) { return (void)b, exp(a); }
static double logarithm(double a, double b) { return (void)b, log(a); }
static double sine(double a, double b) { return (void)b, sin(a); }
static double cosine(double a, double b) { return (void)b, cos(a); }

static const struct {
    const char *op;
    function f;
    bool two, truth; /* two operands; the result is a truth value */
} functions[] = {{"Add", add, true, false},
                 {"Sub", sub, true, false},
                 {"Mul", mul, true, false},
                 {"Div", divide, true, false},
                 {"Mod", modulo, true, false},
                 {"Pow", pow, true, false},
                 {"Max", larger, true, false},
                 {"Min", smaller, true, false},
                 {"Equal", equal, true, true},
                 {"Less", less, true, true},
                 {"LessOrEqual", less_equal, true, true},
                 {"Greater", greater, true, true},
                 {"GreaterOrEqual", greater_equal, true, true},
                 {"And", both, true, true},
                 {"Or", either, true, true},
                 {"Not", invert, false, true},
                 {"Neg", negate, false, false},
                 {"Sqrt", root, false, false},
                 {"Reciprocal", reciprocal, false, false},
                 {"Floor", down, false, false},
                 {"Ceil", up, false, false},
                 {"Abs", magnitude, false, false},
                 {"Exp", exponential, false, false},
                 {"Log", logarithm, false, false},
                 {"Sin", sine, false, false},
                 {"Cos", cosine, false, false}};

/* The place in a tensor of shape s, broadcast to `to`, of element i of `to`. */
static int64_t place(int64_t i, const dl_ox_shape *to, const dl_ox_shape *s) {
    int64_t at = 0, step = 1;
    for (int d = to->rank - 1; d >= 0; d--) {
        int k = d - (to->rank - s->rank);
        int64_t index = i % to->size[d];
        i /= to->size[d];
        if (k >= 0) at += (s->size[k] == 1 ? 0 : index) * step, step *= s->size[k];
    }
    return at;
}

static bool by_element(dl_ox_folding *f, function of, bool two, bool truth) {
    dl_ox_shape s = f->s[0];
    if (f->count != (two ? 2 : 1) || (two && !dl_ox_broadcast(&f->s[0], &f->s[1], &s)))
        return false;
    double *y = dl_ox_fold_room(f, &s);
    if (!y) return false;
    bool whole = f->in[0]->t->class == DL_FOREIGN_INT && !truth;
    for (int64_t i = 0, n = dl_ox_count(&s); i < n; i++) {
        y[i] = of(f->x[0][place(i, &s, &f->s[0])], two ? f->x[1][place(i, &s, &f->s[1])] : 0);
        if (whole) y[i] = trunc(y[i]);
    }
    return truth ? dl_ox_fold_hold(f, &s, y, DL_FOREIGN_BOOL, DLR_ST_BOOL)
                 : dl_ox_fold_hold_like(f, &s, y, 0);
}

static bool choose(dl_ox_folding *f) {
    dl_ox_shape s;
    if (f->count != 3 || !dl_ox_broadcast(&f->s[0], &f->s[1], &s) ||
        !dl_ox_broadcast(&s, &f->s[2], &s))
        return false;
    double *y = dl_ox_fold_room(f, &s);
    for (int64_t i = 0, n = dl_ox_count(&s); y && i < n; i++)
        y[i] = f->x[0][place(i, &s, &f->s[0])] != 0 ? f->x[1][place(i, &s, &f->s[1])]
                                                    : f->x[2][place(i, &s, &f->s[2])];
    return y && dl_ox_fold_hold_like(f, &s, y, 1);
}

/* ---- made numbers ---- */

static bool range(dl_ox_folding *f) {
    if (f->count != 3 || f->x[2][0] == 0) return false;
    double n = ceil((f->x[1][0] - f->x[0][0]) / f->x[2][0]);
    dl_ox_shape s = {.rank = 1,
                     .size = {n > 0 && n < 1e9 ? (int64_t)n
                              : n > 0          ? DL_OX_FOLD_COUNT + 1
                                               : 0}};
    double *y = dl_ox_fold_room(f, &s);
    for (int64_t i = 0; y && i < s.size[0]; i++) y[i] = f->x[0][0] + (double)i * f->x[2][0];
    return y && dl_ox_fold_hold_like(f, &s, y, 0);
}

static dl_ox_shape shape_from(const double *x, int64_t n) {
    dl_ox_shape s = {0};
    for (int64_t i = 0; i < n && i < DL_FOREIGN_RANK; i++)
        s.size[s.rank++] = x[i] >= -1 && x[i] < 1e15 ? (int64_t)x[i] : -2;
    return s;
}

static bool expand(dl_ox_folding *f) {
    if (f->count != 2 || dl_ox_count(&f->s[1]) > DL_FOREIGN_RANK) return false;
    dl_ox_shape s = f->batch < DL_OX_FOR_FIRST ? shape_from(f->x[1], dl_ox_count(&f->s[1]))
                                               : dl_ox_fold_shape(f, f->n->out[0]);
    if (!dl_ox_broadcast(&f->s[0], &s, &s)) return false;
    double *y = dl_ox_fold_room(f, &s);
    for (int64_t i = 0, n = dl_ox_count(&s); y && i < n; i++)
        y[i] = f->x[0][place(i, &s, &f->s[0])];
    return y && dl_ox_fold_hold_like(f, &s, y, 0);
}

static bool constant_of_shape(dl_ox_folding *f) {
    const dl_ox_attr *value = dl_ox_attribute(f->n, "value");
    double number = 0;
    if (dl_ox_count(&f->s[0]) > DL_FOREIGN_RANK) return false;
    if (value && (!value->tensor || !dl_ox_number(f->r, value->tensor, &number))) return false;
    dl_ox_shape s = shape_from(f->x[0], dl_ox_count(&f->s[0]));
    double *y = dl_ox_fold_room(f, &s);
    for (int64_t i = 0, n = dl_ox_count(&s); y && i < n; i++) y[i] = number;
    return y && dl_ox_fold_hold(f, &s, y, value ? value->tensor->t->class : DL_FOREIGN_FLOAT,
                                value ? value->tensor->t->dtype : DLR_ST_F32);
}

/* All elements become one, as where code computes sizes. */
static bool reduce(dl_ox_folding *f) {
    const char *how = f->n->op + strlen("Reduce");
    int64_t n = dl_ox_count(&f->s[0]);
    if (n < 1 || (f->s[0].rank > 1)) return false;
    double y = f->x[0][0];
    for (int64_t i = 1; i < n; i++) {
        double v = f->x[0][i];
        y = !strcmp(how, "Prod")  ? y * v
            : !strcmp(how, "Sum") ? y + v
            : !strcmp(how, "Max") ? larger(y, v)
                                  : smaller(y, v);
    }
    dl_ox_shape s = {.rank = dl_ox_int(f->n, "keepdims", 1) ? f->s[0].rank : 0, .size = {1}};
    double *to = dl_ox_fold_room(f, &s);
    to[0] = y;
    return dl_ox_fold_hold_like(f, &s, to, 0);
}

static bool sizes_of(dl_ox_folding *f) {
    dl_ox_value *v = f->n->in[0];
    dl_ox_shape s = {.rank = 1};
    int64_t from = dl_ox_int(f->n, "start", 0), to = dl_ox_int(f->n, "end", v->t->rank);
    bool all = !strcmp(f->n->op, "Size");
    double *y = dl_ox_fold_room(f, &(dl_ox_shape){.rank = 1, .size = {DL_FOREIGN_RANK}}), count = 1;
    if (v->t->class == DL_FOREIGN_UNKNOWN) return false;
    if (from < 0) from += v->t->rank;
    if (to < 0) to += v->t->rank;
    for (int64_t d = 0; d < v->t->rank; d++) {
        int64_t size = v->t->shape[d], parts = size / DL_OX_BATCH;
        if (f->batch == DL_OX_FOR_OTHER && size % DL_OX_BATCH == 0)
            size = parts * DL_OX_OTHER_BATCH;
        count *= (double)size;
        if (!all && (d < from || d >= to)) continue;
        y[s.size[0]++] = (double)size;
    }
    if (all) s.rank = 0, y[0] = count;
    return dl_ox_fold_hold(f, &s, y, DL_FOREIGN_INT, DLR_ST_I64);
}

/* ---- other shapes ---- */

/* The result has the same numbers in the same order. */
static bool same(dl_ox_folding *f, const dl_ox_shape *s, dl_foreign_class class,
                 dlr_st_dtype dtype) {
    double *y = dl_ox_fold_room(f, s);
    if (!y || dl_ox_count(s) != dl_ox_count(&f->s[0])) return false;
    for (int64_t i = 0, n = dl_ox_count(s); i < n; i++) {
        double v = f->x[0][i];
        y[i] = class == DL_FOREIGN_INT ? trunc(v) : class == DL_FOREIGN_BOOL ? v != 0 : v;
    }
    return dl_ox_fold_hold(f, s, y, class, dtype);
}

static bool with_shape(dl_ox_folding *f, const dl_ox_shape *s) {
    return same(f, s, f->in[0]->t->class, f->in[0]->t->dtype);
}

static bool reshape(dl_ox_folding *f) {
    if (f->batch >= DL_OX_FOR_FIRST) {
        dl_ox_shape own = dl_ox_fold_shape(f, f->n->out[0]);
        return with_shape(f, &own);
    }
    dl_ox_op o = {.r = f->r, .n = f->n};
    int64_t sizes[DL_FOREIGN_RANK], left = dl_ox_count(&f->s[0]);
    int n = dl_ox_ints(&o, 1, NULL, DL_FOREIGN_RANK, sizes);
    dl_ox_shape s = {.rank = n};
    if (n < 0) return false;
    for (int d = 0; d < n; d++) {
        s.size[d] = sizes[d] == 0 && d < f->s[0].rank ? f->s[0].size[d] : sizes[d];
        if (s.size[d] > 0) left /= s.size[d];
    }
    for (int d = 0; d < n; d++)
        if (s.size[d] == -1) s.size[d] = left;
    return with_shape(f, &s);
}

static bool unsqueeze(dl_ox_folding *f) {
    dl_ox_op o = {.r = f->r, .n = f->n};
    dl_ox_shape s;
    return dl_ox_unsqueezed(&o, &f->s[0], &s) && with_shape(f, &s);
}

static bool squeeze(dl_ox_folding *f) {
    dl_ox_op o = {.r = f->r, .n = f->n};
    dl_ox_shape s;
    return dl_ox_squeezed(&o, &f->s[0], &s) && with_shape(f, &s);
}

static bool cast(dl_ox_folding *f) {
    dl_foreign_tensor t;
    return dl_ox_set_type(&t, (uint64_t)dl_ox_int(f->n, "to", 0)) &&
           same(f, &f->s[0], t.class, t.dtype);
}

/* ---- which op ---- */

static const struct {
    const char *op;
    dl_ox_fold_rule *fold;
} folds[] = {{"Where", choose},
             {"ScatterND", dl_ox_fold_scatter},
             {"ScatterElements", dl_ox_fold_scatter_elements},
             {"Gather", dl_ox_fold_gather},
             {"GatherND", dl_ox_fold_gather_rows},
             {"Transpose", dl_ox_fold_transpose},
             {"Concat", dl_ox_fold_concat},
             {"Slice", dl_ox_fold_slice},
             {"CumSum", dl_ox_fold_cumsum},
             {"Range", range},
             {"Expand", expand},
             {"ConstantOfShape", constant_of_shape},
             {"ReduceProd", reduce},
             {"ReduceSum", reduce},
             {"ReduceMax", reduce},
             {"ReduceMin", reduce},
             {"Reshape", reshape},
             {"Unsqueeze", unsqueeze},
             {"Squeeze", squeeze},
             {"Cast", cast},
             {"Shape", sizes_of},
             {"Size", sizes_of}};

bool dl_ox_fold_by_rule(dl_ox_folding *f) {
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!strcmp(f->n->op, functions[i].op))
            return by_element(f, functions[i].f, functions[i].two, functions[i].truth);
    for (size_t i = 0; i < sizeof folds / sizeof *folds; i++)
        if (!strcmp(f->n->op, folds[i].op)) return folds[i].fold(f);
    return false;
}

bool dl_ox_fold(dl_ox *r, const dl_ox_node *n) {
    dl_ox_folding f = {.r = r, .n = n, .count = n->n_in};
    if (!n->n_in || !n->in[0] || n->n_out < 1 || !n->out[0]) return false;
    bool shape = !strcmp(n->op, "Shape") || !strcmp(n->op, "Size"), open = shape;
    for (int i = 0; i < n->n_in && !shape; i++) {
        if (n->in[i] && !dl_ox_known(r, n->in[i])) return false;
        if (!n->in[i] && strcmp(n->op, "Slice") != 0) return false;
        open = open || (n->in[i] && n->in[i]->other);
        if (i > 0 && n->in[i] && n->in[i]->other && !strcmp(n->op, "Slice")) return false;
        if (i < 4 && n->in[i]) f.in[i] = n->in[i], f.s[i] = dl_ox_shape_of(n->in[i]);
    }
    bool ok = n->n_in <= 5 || !strcmp(n->op, "Concat");
    for (int pass = 0; ok && pass < 1 + open; pass++) {
        f.batch = pass ? DL_OX_FOR_OTHER : DL_OX_FOR_BATCH;
        for (int i = 0; i < 4; i++) f.x[i] = f.in[i] ? dl_ox_fold_numbers(&f, f.in[i]) : NULL;
        ok = dl_ox_fold_by_rule(&f);
    }
    if (!ok) n->out[0]->t = NULL, n->out[0]->known = n->out[0]->other = NULL;
    return ok;
}
