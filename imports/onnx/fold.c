/* Arithmetic on constants and on sizes: it is done now, so that shapes are numbers. */
#include <math.h>

#include "imports/onnx/parts.h"

enum { FOLD_COUNT = 1 << 20 };

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

/* ---- operands and results ---- */

typedef struct {
    dl_ox *r;
    const dl_ox_node *n;
    dl_ox_value *in[4];
    const double *x[4]; /* NULL: absent */
    dl_ox_shape s[4];
    int count;
    bool again; /* for the other batch */
} folding;

static bool hold(folding *f, int out, const dl_ox_shape *s, double *numbers, dl_foreign_class class,
                 dlr_st_dtype dtype) {
    dl_ox_value *v = out < f->n->n_out ? f->n->out[out] : NULL;
    if (v && f->again) {
        int64_t n = dl_ox_count(s);
        if (v->t->rank != s->rank || memcmp(v->t->shape, s->size, sizeof s->size) != 0)
            return false;
        v->other = memcmp(numbers, v->known, (size_t)n * sizeof *numbers) ? numbers : NULL;
    } else if (v)
        dl_ox_hold(f->r, v, s, class, dtype, numbers);
    return v != NULL;
}

static const double *numbers_of(const folding *f, const dl_ox_value *v) {
    return f->again && v->other ? v->other : v->known;
}

static bool hold_like(folding *f, int out, const dl_ox_shape *s, double *numbers, int like) {
    return hold(f, out, s, numbers, f->in[like]->t->class, f->in[like]->t->dtype);
}

static double *numbers_for(folding *f, const dl_ox_shape *s) {
    int64_t n = 1;
    for (int d = 0; d < s->rank; d++)
        if (s->size[d] < 0 || __builtin_mul_overflow(n, s->size[d], &n) || n > FOLD_COUNT)
            return NULL;
    return DL_NEWS(f->r->arena, double, n + 1);
}

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

static bool by_element(folding *f, function of, bool two, bool truth) {
    dl_ox_shape s = f->s[0];
    if (f->count != (two ? 2 : 1) || (two && !dl_ox_broadcast(&f->s[0], &f->s[1], &s)))
        return false;
    double *y = numbers_for(f, &s);
    if (!y) return false;
    bool whole = f->in[0]->t->class == DL_FOREIGN_INT && !truth;
    for (int64_t i = 0, n = dl_ox_count(&s); i < n; i++) {
        y[i] = of(f->x[0][place(i, &s, &f->s[0])], two ? f->x[1][place(i, &s, &f->s[1])] : 0);
        if (whole) y[i] = trunc(y[i]);
    }
    return truth ? hold(f, 0, &s, y, DL_FOREIGN_BOOL, DLR_ST_BOOL) : hold_like(f, 0, &s, y, 0);
}

static bool choose(folding *f) {
    dl_ox_shape s;
    if (f->count != 3 || !dl_ox_broadcast(&f->s[0], &f->s[1], &s) ||
        !dl_ox_broadcast(&s, &f->s[2], &s))
        return false;
    double *y = numbers_for(f, &s);
    for (int64_t i = 0, n = dl_ox_count(&s); y && i < n; i++)
        y[i] = f->x[0][place(i, &s, &f->s[0])] != 0 ? f->x[1][place(i, &s, &f->s[1])]
                                                    : f->x[2][place(i, &s, &f->s[2])];
    return y && hold_like(f, 0, &s, y, 1);
}

/* ---- moved elements ---- */

/* The result has the same numbers in the same order. */
static bool same(folding *f, const dl_ox_shape *s, dl_foreign_class class, dlr_st_dtype dtype) {
    double *y = numbers_for(f, s);
    if (!y || dl_ox_count(s) != dl_ox_count(&f->s[0])) return false;
    for (int64_t i = 0, n = dl_ox_count(s); i < n; i++) {
        double v = f->x[0][i];
        y[i] = class == DL_FOREIGN_INT ? trunc(v) : class == DL_FOREIGN_BOOL ? v != 0 : v;
    }
    return hold(f, 0, s, y, class, dtype);
}

static bool gather(folding *f) {
    int axis = dl_ox_dim(dl_ox_int(f->n, "axis", 0), f->s[0].rank);
    dl_ox_shape s;
    if (f->count != 2 || !dl_ox_gathered(&f->s[0], axis, &f->s[1], &s)) return false;
    double *y = numbers_for(f, &s);
    if (!y) return false;
    int64_t inner = 1, count = dl_ox_count(&f->s[1]), size = f->s[0].size[axis];
    for (int d = axis + 1; d < f->s[0].rank; d++) inner *= f->s[0].size[d];
    for (int64_t i = 0, n = dl_ox_count(&s); i < n; i++) {
        double at = f->x[1][i / inner % count];
        if (at < 0) at += (double)size;
        if (!(at >= 0 && at < (double)size)) return false;
        y[i] = f->x[0][(i / inner / count * size + (int64_t)at) * inner + i % inner];
    }
    return hold_like(f, 0, &s, y, 0);
}

static bool transpose(folding *f) {
    const dl_ox_attr *perm = dl_ox_attribute(f->n, "perm");
    dl_ox_shape s = f->s[0];
    int64_t step[DL_FOREIGN_RANK], stride[DL_FOREIGN_RANK], at = 1;
    for (int d = s.rank - 1; d >= 0; d--) step[d] = at, at *= s.size[d];
    for (int d = 0; d < s.rank; d++) {
        int64_t from = perm && perm->n_ints == s.rank ? perm->ints[d] : s.rank - 1 - d;
        if (from < 0 || from >= s.rank) return false;
        s.size[d] = f->s[0].size[from], stride[d] = step[from];
    }
    double *y = numbers_for(f, &s);
    for (int64_t i = 0, n = dl_ox_count(&s); y && i < n; i++) {
        int64_t left = i, from = 0;
        for (int d = s.rank - 1; d >= 0; d--)
            from += left % s.size[d] * stride[d], left /= s.size[d];
        y[i] = f->x[0][from];
    }
    return y && dl_ox_count(&s) == dl_ox_count(&f->s[0]) && hold_like(f, 0, &s, y, 0);
}

static bool concat(folding *f) {
    const dl_ox_node *n = f->n;
    dl_ox_shape s = dl_ox_shape_of(n->in[0]);
    int axis = dl_ox_dim(dl_ox_int(n, "axis", 0), s.rank);
    if (axis < 0) return false;
    s.size[axis] = 0;
    for (int i = 0; i < n->n_in; i++) {
        const dl_foreign_tensor *t = n->in[i]->t;
        if (t->rank != s.rank) return false;
        for (int d = 0; d < s.rank; d++)
            if (d != axis && t->shape[d] != s.size[d]) return false;
        s.size[axis] += t->shape[axis];
    }
    double *y = numbers_for(f, &s), *at = y;
    if (!y) return false;
    int64_t outer = 1, inner = 1;
    for (int d = 0; d < s.rank; d++)
        if (d != axis) *(d < axis ? &outer : &inner) *= s.size[d];
    for (int64_t o = 0; o < outer; o++)
        for (int i = 0; i < n->n_in; i++) {
            int64_t part = n->in[i]->t->shape[axis] * inner;
            if (part) memcpy(at, numbers_of(f, n->in[i]) + o * part, (size_t)part * sizeof *at);
            at += part;
        }
    return hold(f, 0, &s, y, n->in[0]->t->class, n->in[0]->t->dtype);
}

/* One axis at a time; the ends as ONNX clamps them. */
static bool slice(folding *f) {
    dl_ox_op o = {.r = f->r, .n = f->n};
    int64_t from[8], to[8], axes[8], steps[8];
    int n = dl_ox_ints(&o, 1, NULL, 8, from), given = dl_ox_ints(&o, 3, NULL, 8, axes),
        strides = dl_ox_ints(&o, 4, NULL, 8, steps);
    if (n < 0 || dl_ox_ints(&o, 2, NULL, 8, to) != n || given < -1 || strides < -1) return false;
    dl_ox_shape s = f->s[0];
    const double *x = f->x[0];
    double *y = NULL;
    for (int k = 0; k < n; k++) {
        int d = dl_ox_dim(given < 0 ? k : axes[k], s.rank);
        int64_t step = strides < 0 ? 1 : steps[k];
        if (d < 0 || step == 0) return false;
        int64_t size = s.size[d], low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
        int64_t a = from[k] < 0 ? from[k] + size : from[k], b = to[k] < -size ? low : to[k];
        if (b < 0 && to[k] >= -size) b += size;
        a = a < 0 ? 0 : a > high ? high : a;
        b = b < low ? low : b > size ? size : b;
        int64_t count = step > 0 ? (b - a + step - 1) / step : (a - b - step - 1) / -step,
                inner = 1;
        if (count < 0 || size == 0) count = 0;
        for (int i = d + 1; i < s.rank; i++) inner *= s.size[i];
        s.size[d] = count;
        if (!(y = numbers_for(f, &s))) return false;
        for (int64_t i = 0, m = dl_ox_count(&s); i < m; i++)
            y[i] = x[(i / inner / count * size + a + i / inner % count * step) * inner + i % inner];
        x = y;
    }
    return y && hold_like(f, 0, &s, y, 0);
}

/* Rows of the first operand become those of the third: as an index of leading axes says. */
static bool scatter(folding *f) {
    int k = f->s[1].rank ? (int)f->s[1].size[f->s[1].rank - 1] : 0;
    if (f->count != 3 || strcmp(dl_ox_word(f->n, "reduction", "none"), "none") != 0 || k < 1 ||
        k > f->s[0].rank)
        return false;
    double *y = numbers_for(f, &f->s[0]);
    if (!y) return false;
    int64_t all = dl_ox_count(&f->s[0]), row = 1, rows = dl_ox_count(&f->s[1]) / k;
    for (int d = k; d < f->s[0].rank; d++) row *= f->s[0].size[d];
    if (dl_ox_count(&f->s[2]) != rows * row) return false;
    memcpy(y, f->x[0], (size_t)all * sizeof *y);
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = 0;
        for (int d = 0; d < k; d++) {
            double index = f->x[1][i * k + d], size = (double)f->s[0].size[d];
            if (index < 0) index += size;
            if (!(index >= 0 && index < size)) return false;
            at = at * f->s[0].size[d] + (int64_t)index;
        }
        if (row) memcpy(y + at * row, f->x[2] + i * row, (size_t)row * sizeof *y);
    }
    return hold_like(f, 0, &f->s[0], y, 0);
}

/* Single elements become those of the third operand, at its places but for one axis. */
static bool scatter_elements(folding *f) {
    int axis = dl_ox_dim(dl_ox_int(f->n, "axis", 0), f->s[0].rank);
    if (f->count != 3 || strcmp(dl_ox_word(f->n, "reduction", "none"), "none") != 0 || axis < 0 ||
        f->s[1].rank != f->s[0].rank || memcmp(&f->s[1], &f->s[2], sizeof f->s[1]) != 0)
        return false;
    double *y = numbers_for(f, &f->s[0]);
    if (!y) return false;
    memcpy(y, f->x[0], (size_t)dl_ox_count(&f->s[0]) * sizeof *y);
    for (int64_t i = 0, n = dl_ox_count(&f->s[1]); i < n; i++) {
        int64_t left = i, at = 0, step = 1;
        for (int d = f->s[0].rank - 1; d >= 0; d--) {
            double size = (double)f->s[0].size[d], index = (double)(left % f->s[1].size[d]);
            left /= f->s[1].size[d];
            if (d == axis) index = f->x[1][i] < 0 ? f->x[1][i] + size : f->x[1][i];
            if (!(index >= 0 && index < size)) return false;
            at += (int64_t)index * step, step *= f->s[0].size[d];
        }
        y[at] = f->x[2][i];
    }
    return hold_like(f, 0, &f->s[0], y, 0);
}

/* ---- made numbers ---- */

static bool range(folding *f) {
    if (f->count != 3 || f->x[2][0] == 0) return false;
    double n = ceil((f->x[1][0] - f->x[0][0]) / f->x[2][0]);
    dl_ox_shape s = {.rank = 1,
                     .size = {n > 0 && n < 1e9 ? (int64_t)n
                              : n > 0          ? FOLD_COUNT + 1
                                               : 0}};
    double *y = numbers_for(f, &s);
    for (int64_t i = 0; y && i < s.size[0]; i++) y[i] = f->x[0][0] + (double)i * f->x[2][0];
    return y && hold_like(f, 0, &s, y, 0);
}

static dl_ox_shape shape_from(const double *x, int64_t n) {
    dl_ox_shape s = {0};
    for (int64_t i = 0; i < n && i < DL_FOREIGN_RANK; i++)
        s.size[s.rank++] = x[i] >= -1 && x[i] < 1e15 ? (int64_t)x[i] : -2;
    return s;
}

static bool expand(folding *f) {
    if (f->count != 2 || dl_ox_count(&f->s[1]) > DL_FOREIGN_RANK) return false;
    dl_ox_shape s = shape_from(f->x[1], dl_ox_count(&f->s[1]));
    if (!dl_ox_broadcast(&f->s[0], &s, &s)) return false;
    double *y = numbers_for(f, &s);
    for (int64_t i = 0, n = dl_ox_count(&s); y && i < n; i++)
        y[i] = f->x[0][place(i, &s, &f->s[0])];
    return y && hold_like(f, 0, &s, y, 0);
}

static bool constant_of_shape(folding *f) {
    const dl_ox_attr *value = dl_ox_attribute(f->n, "value");
    double number = 0;
    if (dl_ox_count(&f->s[0]) > DL_FOREIGN_RANK) return false;
    if (value && (!value->tensor || !dl_ox_number(f->r, value->tensor, &number))) return false;
    dl_ox_shape s = shape_from(f->x[0], dl_ox_count(&f->s[0]));
    double *y = numbers_for(f, &s);
    for (int64_t i = 0, n = dl_ox_count(&s); y && i < n; i++) y[i] = number;
    return y && hold(f, 0, &s, y, value ? value->tensor->t->class : DL_FOREIGN_FLOAT,
                     value ? value->tensor->t->dtype : DLR_ST_F32);
}

/* All elements become one, as where code computes sizes. */
static bool reduce(folding *f) {
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
    double *to = numbers_for(f, &s);
    to[0] = y;
    return hold_like(f, 0, &s, to, 0);
}

static bool sizes_of(folding *f) {
    dl_ox_value *v = f->n->in[0];
    dl_ox_shape s = {.rank = 1};
    int64_t from = dl_ox_int(f->n, "start", 0), to = dl_ox_int(f->n, "end", v->t->rank);
    bool all = !strcmp(f->n->op, "Size");
    double *y = numbers_for(f, &(dl_ox_shape){.rank = 1, .size = {DL_FOREIGN_RANK}}), count = 1;
    if (v->t->class == DL_FOREIGN_UNKNOWN) return false;
    if (from < 0) from += v->t->rank;
    if (to < 0) to += v->t->rank;
    for (int64_t d = 0; d < v->t->rank; d++) {
        int64_t size = v->t->shape[d], parts = size / DL_OX_BATCH;
        if (f->again && size % DL_OX_BATCH == 0) size = parts * DL_OX_OTHER_BATCH;
        count *= (double)size;
        if (!all && (d < from || d >= to)) continue;
        y[s.size[0]++] = (double)size;
    }
    if (all) s.rank = 0, y[0] = count;
    return hold(f, 0, &s, y, DL_FOREIGN_INT, DLR_ST_I64);
}

/* ---- other shapes ---- */

static bool with_shape(folding *f, const dl_ox_shape *s) {
    return same(f, s, f->in[0]->t->class, f->in[0]->t->dtype);
}

static bool reshape(folding *f) {
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

static bool unsqueeze(folding *f) {
    dl_ox_op o = {.r = f->r, .n = f->n};
    dl_ox_shape s;
    return dl_ox_unsqueezed(&o, &f->s[0], &s) && with_shape(f, &s);
}

static bool squeeze(folding *f) {
    dl_ox_op o = {.r = f->r, .n = f->n};
    dl_ox_shape s;
    return dl_ox_squeezed(&o, &f->s[0], &s) && with_shape(f, &s);
}

static bool cast(folding *f) {
    dl_foreign_tensor t;
    return dl_ox_set_type(&t, (uint64_t)dl_ox_int(f->n, "to", 0)) &&
           same(f, &f->s[0], t.class, t.dtype);
}

/* ---- which op ---- */

static const struct {
    const char *op;
    bool (*fold)(folding *f);
} folds[] = {{"Where", choose},
             {"ScatterND", scatter},
             {"ScatterElements", scatter_elements},
             {"Gather", gather},
             {"Transpose", transpose},
             {"Concat", concat},
             {"Slice", slice},
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

static bool fold(folding *f) {
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!strcmp(f->n->op, functions[i].op))
            return by_element(f, functions[i].f, functions[i].two, functions[i].truth);
    for (size_t i = 0; i < sizeof folds / sizeof *folds; i++)
        if (!strcmp(f->n->op, folds[i].op)) return folds[i].fold(f);
    return false;
}

bool dl_ox_fold(dl_ox *r, const dl_ox_node *n) {
    folding f = {.r = r, .n = n, .count = n->n_in};
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
        f.again = pass;
        for (int i = 0; i < 4; i++) f.x[i] = f.in[i] ? numbers_of(&f, f.in[i]) : NULL;
        ok = fold(&f);
    }
    if (!ok) n->out[0]->t = NULL, n->out[0]->known = n->out[0]->other = NULL;
    return ok;
}
