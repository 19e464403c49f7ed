/* Scalars: ops.def's expressions compiled as C on doubles, and conversions between element types.
 */
#include "ir/interp/interp_parts.h"

#include <math.h>

/* The functions of the expressions. Comparisons give 0 or 1; max and min propagate NaN, as in
 * PyTorch. */
static inline double k_abs(double a) { return fabs(a); }
static inline double k_sign(double a) { return (a > 0) - (a < 0); }
static inline double k_exp(double a) { return exp(a); }
static inline double k_log(double a) { return log(a); }
static inline double k_expm1(double a) { return expm1(a); }
static inline double k_log1p(double a) { return log1p(a); }
static inline double k_sqrt(double a) { return sqrt(a); }
static inline double k_tanh(double a) { return tanh(a); }
static inline double k_sigmoid(double a) { return 1 / (1 + exp(-a)); }
static inline double k_sin(double a) { return sin(a); }
static inline double k_cos(double a) { return cos(a); }
static inline double k_erf(double a) { return erf(a); }
static inline double k_floor(double a) { return floor(a); }
static inline double k_pow(double a, double b) { return pow(a, b); }
static inline double k_atan2(double a, double b) { return atan2(a, b); }
static inline double k_eq(double a, double b) { return a == b; }
static inline double k_ne(double a, double b) { return a != b; }
static inline double k_lt(double a, double b) { return a < b; }
static inline double k_le(double a, double b) { return a <= b; }
static inline double k_gt(double a, double b) { return a > b; }
static inline double k_ge(double a, double b) { return a >= b; }
static inline double k_select(double c, double a, double b) { return c != 0 ? a : b; }
static inline double k_max(double a, double b) { return isnan(a) || a > b ? a : b; }
static inline double k_min(double a, double b) { return isnan(a) || a < b ? a : b; }

/* A function for each row whose class has an expression, and their table. */
typedef double scalar(double a, double b, double c, double p);

#define FUNCTION(id, expr)                                                                         \
    static double scalar_##id(double a, double b, double c, double p) {                            \
        (void)a, (void)b, (void)c, (void)p;                                                        \
        return expr;                                                                               \
    }
#define NO_FUNCTION(id, expr)
#define ELEM                                                                    FUNCTION
#define REDUCE                                                                  FUNCTION
#define CONTRACT                                                                NO_FUNCTION
#define MOVE                                                                    NO_FUNCTION
#define SOURCE                                                                  NO_FUNCTION
#define FUSED                                                                   NO_FUNCTION
#define TEMPLATE                                                                NO_FUNCTION
#define COLLECTIVE                                                              NO_FUNCTION
#define BODY                                                                    NO_FUNCTION
#define HIGH                                                                    NO_FUNCTION
#define OP(id, text, arity, class, infer, grad, lower, amp, facts, attrs, expr) class(id, expr)
#include "ir/ops.def"
#undef OP
#undef FUNCTION
#undef NO_FUNCTION

#define FUNCTION(id, expr) [DL_OP_##id] = scalar_##id,
#define NO_FUNCTION(id, expr)
static scalar *const scalars[DL_NOPS] = {
#define OP(id, text, arity, class, infer, grad, lower, amp, facts, attrs, expr) class(id, expr)
#include "ir/ops.def"
#undef OP
};

double dl_interp_scalar(dl_op op, double a, double b, double c, double p) {
    DL_CHECK(scalars[op]);
    return scalars[op](a, b, c, p);
}

double dl_interp_identity(dl_op op) {
    return op == DL_OP_reduce_max || op == DL_OP_first_max ? -INFINITY
           : op == DL_OP_reduce_min                        ? INFINITY
                                                           : 0;
}

/* v rounded to `digits` binary digits with exponents from `least` to `most`: subnormal below,
 * infinite above. */
static double quantise(double v, int digits, int least, int most) {
    if (v == 0 || !isfinite(v)) return v;
    int e = ilogb(v);
    double unit = ldexp(1, (e > least ? e : least) - (digits - 1)), r = rint(v / unit) * unit;
    return fabs(r) >= ldexp(1, most + 1) ? copysign(INFINITY, v) : r;
}

/* A float as an integer from -limit to limit - 1; a value that does not fit, NaN included, gives
 * -limit, as the machine's conversion does. */
static double whole(double v, double limit) {
    return trunc(v) >= -limit && trunc(v) < limit ? trunc(v) : -limit;
}

double dl_interp_tf32(double v) {
    float f = (float)v;
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if (f != f || f - f != 0) return v; /* infinite, or NaN */
    u = (u + 0x1000) & ~0x1fffu;
    memcpy(&f, &u, sizeof f);
    return (double)f;
}

double dl_interp_convert(dl_dtype d, double v, bool round) {
    switch (d) {
    case DL_BOOL: return v != 0;
    case DL_I32: return whole(v, 0x1p31);
    case DL_I64: return whole(v, 0x1p63);
    case DL_F32: return round ? (double)(float)v : v;
    case DL_F16: return round ? quantise(v, 11, -14, 15) : v;
    case DL_BF16: return round ? quantise(v, 8, -126, 127) : v;
    default: return v;
    }
}
