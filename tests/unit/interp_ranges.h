/* Ranges of results, a part of test_interp.c: the range of an op holds whatever f32 makes of
 * numbers in the ranges of its operands, and that of a sum is no wider than these together. */
#ifndef DL_INTERP_RANGES_H
#define DL_INTERP_RANGES_H
#include <math.h>

#include "ir/interp/interp_parts.h"
#include "tests/check.h"
#include "tests/unit/random_numbers.h"

enum { RANGES = 400, RANGE_POINTS = 20 };

static const dl_op range_ops[] = {DL_OP_add, DL_OP_sub, DL_OP_mul, DL_OP_div, DL_OP_max,
                                  DL_OP_min, DL_OP_eq,  DL_OP_ne,  DL_OP_lt,  DL_OP_ge};

static float in_f32(dl_op op, float x, float y) {
    switch (op) {
    case DL_OP_add: return x + y;
    case DL_OP_sub: return x - y;
    case DL_OP_mul: return x * y;
    case DL_OP_div: return x / y;
    case DL_OP_max: return fmaxf(x, y);
    case DL_OP_min: return fminf(x, y);
    case DL_OP_eq: return x == y;
    case DL_OP_ne: return x != y;
    case DL_OP_lt: return x < y;
    default: return x >= y;
    }
}

/* A float of the range: its ends, or one between them. */
static float point_in(rng *r, dl_range a, int p) {
    return (float)(p == 0 ? a.low : p == 1 ? a.high : uniform(r, a.low, a.high));
}

static void test_ranges_of(dl_op op) {
    static double numbers[4][3][RANGES]; /* operands, the last unused, and the result */
    dl_ranges of[4];
    rng r = {(uint64_t)op + 1};
    for (int i = 0; i < 4; i++)
        of[i] = (dl_ranges){.at = numbers[i][0], .low = numbers[i][1], .high = numbers[i][2]};
    for (int k = 0; k < RANGES; k++) {
        double centre = uniform(&r, -2, 2);
        for (int i = 0; i < 3; i++) { /* near each other, so that many ranges overlap */
            float at = (float)(centre + uniform(&r, -0.5, 0.5)), wide = k % 5 ? 0.3F : 0;
            dl_ranges_put(of[i], k,
                          (dl_range){(double)at, (double)(at - wide * (float)uniform(&r, 0, 1)),
                                     (double)(at + wide * (float)uniform(&r, 0, 1))});
        }
    }
    const bool compares = dl_op_curve(op) == DL_CURVE_COMPARE;
    const dl_kinstr in = {.kind = DL_K_ELEM,
                          .op = op,
                          .type = compares ? DL_BOOL : DL_F32,
                          .nargs = 2,
                          .args = {0, 1}};
    dl_range_elems(&in, of, of[3], RANGES);
    int outside = 0, loose = 0;
    for (int k = 0; k < RANGES; k++) {
        const dl_range a = dl_ranges_get(of[0], k), b = dl_ranges_get(of[1], k),
                       y = dl_ranges_get(of[3], k);
        const dl_range both = {a.at, fmax(a.low, b.low), fmin(a.high, b.high)};
        for (int p = 0; p < RANGE_POINTS; p++) {
            float x = point_in(&r, a, p % 5), z = point_in(&r, b, p / 5);
            if (both.low <= both.high && p == RANGE_POINTS - 1) x = z = (float)both.low; /* equal */
            double got = (double)in_f32(op, x, z);
            outside += !(got >= y.low && got <= y.high);
        }
        if (op == DL_OP_add || op == DL_OP_sub)
            loose += y.high - y.low > a.high - a.low + b.high - b.low + 1e-5;
    }
    CHECK(!outside && !loose, "op %d: %d numbers outside their range, %d ranges too wide", (int)op,
          outside, loose);
}

static void test_ranges(void) {
    for (size_t i = 0; i < sizeof range_ops / sizeof *range_ops; i++) test_ranges_of(range_ops[i]);
}
#endif
