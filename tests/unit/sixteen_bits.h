/* 16-bit floats by their definition, in double: sign, `exponent` bits, `digits` bits. */
#ifndef DL_SIXTEEN_BITS_H
#define DL_SIXTEEN_BITS_H
#include <math.h>
#include <stdint.h>

static inline double widen_16(uint16_t h, int exponent, int digits) {
    int e = h >> digits & ((1 << exponent) - 1), m = h & ((1 << digits) - 1),
        bias = (1 << (exponent - 1)) - 1;
    double v = e == (1 << exponent) - 1 ? (m ? (double)NAN : (double)INFINITY)
               : e                      ? ldexp((1 << digits) + m, e - bias - digits)
                                        : ldexp(m, 1 - bias - digits);
    return h >> 15 ? -v : v;
}

/* The nearest, of two as near the even one: bits of a float of so few digits count up with its
 * size. */
static inline uint16_t narrow_16(float v, int exponent, int digits) {
    uint16_t sign = signbit(v) ? 0x8000 : 0, low = 0,
             high = (uint16_t)(((1 << exponent) - 1) << digits);
    double a = fabs((double)v), most = ldexp((2 << digits) - 1, (1 << (exponent - 1)) - 1 - digits);
    if (isnan(v)) return (uint16_t)(high + 1);
    if (a >= most + ldexp(0.5, (1 << (exponent - 1)) - 1 - digits)) return sign | high;
    if (a >= most) return sign | (uint16_t)(high - 1);
    while (high - low > 1) { /* widen(low) <= a < widen(high) */
        uint16_t middle = (uint16_t)((low + high) / 2);
        if (widen_16(middle, exponent, digits) <= a)
            low = middle;
        else
            high = middle;
    }
    double below = a - widen_16(low, exponent, digits),
           above = widen_16(high, exponent, digits) - a;
    return sign | (below < above || (below == above && low % 2 == 0) ? low : high);
}
#endif
