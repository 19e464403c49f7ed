/* References of elementwise ops and reductions. */
#include <math.h>

#include "ir/base/philox.h"
#include "verify/reference.h"

/* The maximum; NaN where either is NaN (torch.maximum). */
static double larger(double a, double b) { return isnan(a) || isnan(b) ? NAN : a > b ? a : b; }
static double smaller(double a, double b) { return isnan(a) || isnan(b) ? NAN : a < b ? a : b; }

/* gelu(x) = x Phi(x) with the distribution function of the normal distribution (Hendrycks and
 * Gimpel 2016), and its approximation by tanh. */
static double gelu(double x) { return x * 0.5 * erfc(-x / sqrt(2)); }
static double gelu_tanh(double x) {
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * pow(x, 3))));
}
static double logistic(double x) { return 1 / (1 + exp(-x)); }

static double of_one(const dl_node *n, double a) {
    switch (n->op) {
    case DL_OP_neg: return -a;
    case DL_OP_abs: return fabs(a);
    case DL_OP_sign: return a > 0 ? 1 : a < 0 ? -1 : a;
    case DL_OP_exp: return exp(a);
    case DL_OP_log: return log(a);
    case DL_OP_expm1: return expm1(a);
    case DL_OP_log1p: return log1p(a);
    case DL_OP_rsqrt: return 1 / sqrt(a);
    case DL_OP_sqrt: return sqrt(a);
    case DL_OP_tanh: return tanh(a);
    case DL_OP_sigmoid: return logistic(a);
    case DL_OP_sin: return sin(a);
    case DL_OP_cos: return cos(a);
    case DL_OP_erf: return erf(a);
    case DL_OP_floor: return floor(a);
    case DL_OP_relu: return isnan(a) ? a : a > 0 ? a : 0;
    case DL_OP_leaky_relu: return a > 0 ? a : dl_node_float(n, DL_ATTR_slope) * a;
    case DL_OP_elu: return a > 0 ? a : dl_node_float(n, DL_ATTR_alpha) * expm1(a);
    case DL_OP_not: return a == 0;
    case DL_OP_gelu: return gelu(a);
    case DL_OP_gelu_tanh: return gelu_tanh(a);
    case DL_OP_silu: return a * logistic(a);
    case DL_OP_cast: return dl_interp_convert(n->out[0].type.dtype, a, false);
    default: return a; /* stop_gradient */
    }
}

static double of_two(dl_op op, double a, double b) {
    switch (op) {
    case DL_OP_add: return a + b;
    case DL_OP_sub: return a - b;
    case DL_OP_mul: return a * b;
    case DL_OP_div: return a / b;
    case DL_OP_pow: return pow(a, b);
    case DL_OP_atan2: return atan2(a, b);
    case DL_OP_min: return smaller(a, b);
    case DL_OP_max: return larger(a, b);
    case DL_OP_eq: return a == b;
    case DL_OP_ne: return a != b;
    case DL_OP_lt: return a < b;
    case DL_OP_le: return a <= b;
    case DL_OP_gt: return a > b;
    case DL_OP_ge: return a >= b;
    case DL_OP_and: return a != 0 && b != 0;
    default: return a != 0 || b != 0; /* or */
    }
}

void dl_ref_elem(const dl_node *n, const double *const *in, double *out,
                 const dl_reference_draw *draw) {
    const dl_type *t = &n->out[0].type;
    int64_t stride[3][DL_MAX_RANK] = {{0}}, at[DL_MAX_RANK] = {0}, i = 0;
    int last = t->rank - 1;
    int64_t row = last >= 0 ? t->axis[last].size : 1;
    (void)draw;
    if (!dl_type_count(t)) return;
    for (int k = 0; k < n->nin; k++) dl_ref_strides(&n->in[k]->type, t, stride[k]);
    do { /* row by row */
        const double *from[3] = {0};
        int64_t step[3] = {0};
        for (int k = 0; k < n->nin; k++) {
            from[k] = in[k], step[k] = last >= 0 ? stride[k][last] : 0;
            for (int d = 0; d < last; d++) from[k] += at[d] * stride[k][d];
        }
        for (int64_t c = 0; c < row; c++)
            out[i++] = n->nin == 1 ? of_one(n, from[0][c * step[0]])
                       : n->nin == 2
                           ? of_two(n->op, from[0][c * step[0]], from[1][c * step[1]])
                           : from[from[0][c * step[0]] != 0 ? 1 : 2]
                                 [c * step[from[0][c * step[0]] != 0 ? 1 : 2]]; /* select */
        if (last >= 0) at[last] = row - 1;
    } while (dl_ref_next(t, at));
}

/* log(1 + exp(beta x)) / beta, and x where beta x is above the threshold (torch.nn.Softplus). */
void dl_ref_softplus(const dl_node *n, const double *const *in, double *out,
                     const dl_reference_draw *draw) {
    double beta = dl_node_float(n, DL_ATTR_beta), most = dl_node_float(n, DL_ATTR_threshold);
    (void)draw;
    for (int64_t i = 0; i < dl_type_count(&n->out[0].type); i++) {
        double x = in[0][i];
        out[i] = beta * x > most ? x : log1p(exp(beta * x)) / beta;
    }
}

void dl_ref_clamp(const dl_node *n, const double *const *in, double *out,
                  const dl_reference_draw *draw) {
    const dl_attr *low = dl_node_attr(n, DL_ATTR_low), *high = dl_node_attr(n, DL_ATTR_high);
    (void)draw;
    for (int64_t i = 0; i < dl_type_count(&n->out[0].type); i++) {
        out[i] = in[0][i];
        if (low && out[i] < low->f) out[i] = low->f;
        if (high && out[i] > high->f) out[i] = high->f;
    }
}

/* x / (1 - rate), or 0 where the random number, uniform in [0, 1), is below the rate; one number
 * for `each` adjacent elements. */
static void drop(const dl_node *n, const double *x, double *out, int64_t each,
                 const dl_reference_draw *d) {
    double rate = dl_node_float(n, DL_ATTR_rate);
    for (int64_t i = 0; i < dl_type_count(&n->out[0].type); i++) {
        double drawn = (double)dl_unit_float(
            dl_random_word(d->seed, d->step, d->number, (uint64_t)(i / each)));
        bool kept = rate == 0 || (rate < 1 && drawn >= rate);
        out[i] = x[i] * (kept ? 1 / (1 - rate) : 0);
    }
}

void dl_ref_dropout(const dl_node *n, const double *const *in, double *out,
                    const dl_reference_draw *draw) {
    drop(n, in[0], out, 1, draw);
}

/* One number for each sample, along the first axis. */
void dl_ref_drop_path(const dl_node *n, const double *const *in, double *out,
                      const dl_reference_draw *draw) {
    const dl_type *t = &n->out[0].type;
    int64_t samples = t->rank ? t->axis[0].size : 1;
    drop(n, in[0], out, samples ? dl_type_count(t) / samples : 1, draw);
}

/* By the step, or by the first batch of an evaluation. */
void dl_ref_rand(const dl_node *n, const double *const *in, double *out,
                 const dl_reference_draw *d) {
    (void)in;
    uint64_t step = dl_node_int(n, DL_ATTR_training) ? d->step : 0;
    for (int64_t i = 0; i < dl_type_count(&n->out[0].type); i++)
        out[i] = (double)dl_unit_float(dl_random_word(d->seed, step, d->number, (uint64_t)i));
}

/* ---- reductions ---- */

/* Walks over the operand; `first` is the initial value of results. */
static void reduce(const dl_node *n, const double *x, double *out, double first,
                   double combine(double, double)) {
    const dl_type *t = &n->in[0]->type, *to = &n->out[0].type;
    int64_t at[DL_MAX_RANK] = {0}, i = 0;
    for (int64_t k = 0; k < dl_type_count(to); k++) out[k] = first;
    if (!dl_type_count(t)) return;
    do {
        double *r = &out[dl_ref_follow(to, t, at)];
        *r = combine(*r, x[i++]);
    } while (dl_ref_next(t, at));
}

static double plus(double a, double b) { return a + b; }
static double times(double a, double b) { return a * b; }

/* The number of elements that each result combines: the product of the sizes of the axes that it
 * lacks. */
static double count_each(const dl_node *n) {
    const dl_attr *over = dl_node_attr(n, DL_ATTR_over);
    const dl_type *t = &n->in[0]->type;
    double count = 1;
    for (int i = 0; i < over->n; i++)
        count *= (double)t->axis[dl_type_axis(t, over->names[i])].size;
    return count;
}

void dl_ref_reduce(const dl_node *n, const double *const *in, double *out,
                   const dl_reference_draw *draw) {
    bool largest = n->op == DL_OP_reduce_max || n->op == DL_OP_first_max;
    (void)draw;
    if (largest || n->op == DL_OP_reduce_min) {
        reduce(n, in[0], out, largest ? -INFINITY : INFINITY, largest ? larger : smaller);
        return;
    }
    reduce(n, in[0], out, 0, plus);
    for (int64_t i = 0; n->op == DL_OP_mean && i < dl_type_count(&n->out[0].type); i++)
        out[i] /= count_each(n);
}

void dl_ref_prod(const dl_node *n, const double *const *in, double *out,
                 const dl_reference_draw *draw) {
    (void)draw;
    reduce(n, in[0], out, 1, times);
}

/* The sum divided by the number of elements minus the correction, at least 1. */
void dl_ref_batch_mean(const dl_node *n, const double *const *in, double *out,
                       const dl_reference_draw *draw) {
    double each = count_each(n), less = (double)dl_node_int(n, DL_ATTR_correction);
    (void)draw;
    if (less > 0 && each > 0) each = each - less < 1 ? 1 : each - less;
    reduce(n, in[0], out, 0, plus);
    for (int64_t i = 0; i < dl_type_count(&n->out[0].type); i++) out[i] /= each;
}
