#include "runtime/data/number.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool dlr_number_parse(const char *text, size_t n, dlr_number *out) {
    enum { LONGEST = 400 };
    char word[LONGEST + 1], *end;
    while (n && (text[0] == ' ' || text[0] == '\t' || text[0] == '\n')) text++, n--;
    while (n && (!text[n - 1] || strchr(" \t\n\r", text[n - 1]))) n--;
    if (n == 0 || n > LONGEST || memchr(text, 'x', n) || memchr(text, 'X', n)) return false;
    memcpy(word, text, n), word[n] = 0;
    if (strlen(word) != n) return false;
    errno = 0;
    *out = (dlr_number){.kind = 'i', .i = strtoll(word, &end, 10)};
    if (!*end && errno == 0) return true;
    errno = 0;
    if (word[0] != '-') *out = (dlr_number){.kind = 'u', .u = strtoull(word, &end, 10)};
    if (word[0] != '-' && !*end && errno == 0) return true;
    *out = (dlr_number){.kind = 'f', .f = strtod(word, &end)};
    return end != word && !*end;
}

/* ---- half precision: IEEE 754's binary16 ---- */

double dlr_of_half(uint16_t h) {
    int exponent = h >> 10 & 31, mantissa = h & 1023;
    double v = exponent == 0    ? ldexp(mantissa, -24)
               : exponent == 31 ? (mantissa ? NAN : INFINITY)
                                : ldexp(1024 + mantissa, exponent - 25);
    return h >> 15 ? -v : v;
}

uint16_t dlr_half_of(double x) {
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    x = fabs(x);
    if (isnan(x)) return sign | 0x7e00;
    if (x == 0) return sign;
    if (x >= 65520) return sign | 0x7c00; /* half a step above the largest, 65504 */
    int exponent = 0;
    frexp(x, &exponent);                /* x = m 2^exponent, m of [1/2, 1) */
    if (exponent < -13) exponent = -13; /* below 2^-14 all values have one spacing, 2^-24 */
    /* multiples of 2^(exponent - 11): 1024 .. 2048 */
    int steps = (int)nearbyint(ldexp(x, 11 - exponent));
    return (uint16_t)(sign | (steps + ((exponent + 13) << 10)));
}

/* ---- converting a number to an element type ---- */

static bool fit_whole(const dlr_number *n, dlr_element type, dlr_number *out) {
    static const int bits[DLR_NELEMENTS] = {
        [DLR_EL_I8] = 7,   [DLR_EL_I16] = 15, [DLR_EL_I32] = 31, [DLR_EL_I64] = 63, [DLR_EL_U8] = 8,
        [DLR_EL_U16] = 16, [DLR_EL_U32] = 32, [DLR_EL_U64] = 64, [DLR_EL_BOOL] = 1};
    bool sign = type >= DLR_EL_I8 && type <= DLR_EL_I64;
    dlr_number whole = *n;
    if (n->kind == 'f') {
        if (!(n->f == trunc(n->f)) || n->f < -0x1p63 || n->f >= 0x1p64) return false;
        whole = n->f < 0x1p63 ? (dlr_number){.kind = 'i', .i = (int64_t)n->f}
                              : (dlr_number){.kind = 'u', .u = (uint64_t)n->f};
    }
    bool negative = whole.kind == 'i' && whole.i < 0;
    uint64_t size = negative ? ~(uint64_t)whole.i : whole.kind == 'i' ? (uint64_t)whole.i : whole.u;
    if ((negative && !sign) || (bits[type] < 64 && size >> bits[type])) return false;
    *out = sign ? (dlr_number){.kind = 'i', .i = negative ? whole.i : (int64_t)size}
                : (dlr_number){.kind = 'u', .u = size};
    return true;
}

bool dlr_number_fit(const dlr_number *n, dlr_element type, dlr_number *out) {
    if (type == DLR_EL_NONE) return false;
    if (!dlr_element_is_float(type)) return fit_whole(n, type, out);
    double given = dlr_number_double(n), v = given;
    if (type == DLR_EL_F16) v = dlr_of_half(dlr_half_of(given));
    if (type == DLR_EL_F32) { /* whole numbers are rounded once, not by way of double */
        float f = n->kind == 'f' ? (float)n->f : n->kind == 'u' ? (float)n->u : (float)n->i;
        v = (double)f;
    }
    *out = (dlr_number){.kind = 'f', .f = v};
    return !isinf(v) || isinf(given);
}

void dlr_number_store(const dlr_number *n, dlr_element type, void *out) {
    uint64_t bits = n->u;
    float single = (float)(n->kind == 'f' ? n->f : 0);
    uint32_t low = 0;
    if (type == DLR_EL_F16) bits = dlr_half_of(n->f);
    if (type == DLR_EL_F32) memcpy(&low, &single, sizeof low), bits = low;
    size_t size = dlr_element_bytes(type);
    const bool little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    memcpy(out, (const char *)&bits + (little ? 0 : sizeof bits - size), size);
}
