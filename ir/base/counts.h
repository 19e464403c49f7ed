/* Arithmetic of counts (elements, operations, bytes) that saturates at the largest count. Operands
 * are 0 or more. */
#ifndef DL_COUNTS_H
#define DL_COUNTS_H
#include <stdint.h>

static inline int64_t dl_count_times(int64_t a, int64_t b) {
    int64_t r;
    return __builtin_mul_overflow(a, b, &r) ? INT64_MAX : r;
}

static inline int64_t dl_count_plus(int64_t a, int64_t b) {
    int64_t r;
    return __builtin_add_overflow(a, b, &r) ? INT64_MAX : r;
}

static inline int64_t dl_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* n, or the next multiple of the unit. */
static inline int64_t dl_round_up(int64_t n, int64_t unit) { return dl_ceil_div(n, unit) * unit; }

static inline int64_t dl_at_most(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t dl_at_least(int64_t a, int64_t b) { return a > b ? a : b; }

/* The greatest common divisor; of 0 and b: b. */
static inline int64_t dl_gcd(int64_t a, int64_t b) {
    for (int64_t rest; b; b = rest) rest = a % b, a = b;
    return a;
}
#endif
