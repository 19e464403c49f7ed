/* Complex contractions (ir/complex.h): lanes lie along the modes, which are in pairs in memory. A
 * register tile is two rows by two columns of FL modes; operands are separated into real and
 * imaginary parts as they are loaded. FS, FV, FL and F(name): fourier.c. */

struct F(axes) {
    int n;
    long size[8], stride[3][8];
};
struct F(contraction) {
    long lanes, batches, blocks, parts; /* blocks of lanes; parts of the columns */
    long rows, columns, terms;
    struct F(axes) batch, row, column, term;
    FS conj_a, conj_b; /* factors of imaginary parts: 1 or -1 */
};

INLINE void F(offsets)(const struct F(axes) * axes, long i, long *at) {
    at[0] = at[1] = at[2] = 0;
    for (int k = axes->n - 1; k >= 0; k--) {
        long j = i % axes->size[k];
        i /= axes->size[k];
        for (int t = 0; t < 3; t++) at[t] += 2 * j * axes->stride[t][k];
    }
}

typedef FS F(unaligned)
    __attribute__((vector_size(FL * sizeof(FS)), aligned(sizeof(FS)), may_alias));
/* The real and the imaginary parts of FL numbers, and back. */
INLINE void F(split)(const FS *p, FV *re, FV *im) {
    FV a = *(const F(unaligned) *)p, b = *(const F(unaligned) *)(p + FL);
    *re = __builtin_shufflevector(a, b, EVENS);
    *im = __builtin_shufflevector(a, b, ODDS);
}
INLINE void F(join)(FS *p, FV re, FV im) {
    *(F(unaligned) *)p = __builtin_shufflevector(re, im, JOIN_LOW);
    *(F(unaligned) *)(p + FL) = __builtin_shufflevector(re, im, JOIN_HIGH);
}

/* Two rows by two columns; a row or column that repeats the other is stored once. */
HOT void F(tile)(const struct F(contraction) * s, const FS *a0, const FS *a1, const FS *b0,
                 const FS *b1, const long *terms, FS *y00, FS *y01, FS *y10, FS *y11) {
    FV r00 = {0}, r01 = {0}, r10 = {0}, r11 = {0}, i00 = {0}, i01 = {0}, i10 = {0}, i11 = {0};
    FV ca = (FV){0} + s->conj_a, cb = (FV){0} + s->conj_b;
    for (long k = 0; k < s->terms; k++) {
        long at_a = terms[2 * k], at_b = terms[2 * k + 1];
        FV ar0, ai0, ar1, ai1, br, bi;
        F(split)(a0 + at_a, &ar0, &ai0);
        F(split)(a1 + at_a, &ar1, &ai1);
        ai0 *= ca, ai1 *= ca;
        F(split)(b0 + at_b, &br, &bi);
        bi *= cb;
        r00 += ar0 * br, r00 -= ai0 * bi, i00 += ar0 * bi, i00 += ai0 * br;
        r10 += ar1 * br, r10 -= ai1 * bi, i10 += ar1 * bi, i10 += ai1 * br;
        F(split)(b1 + at_b, &br, &bi);
        bi *= cb;
        r01 += ar0 * br, r01 -= ai0 * bi, i01 += ar0 * bi, i01 += ai0 * br;
        r11 += ar1 * br, r11 -= ai1 * bi, i11 += ar1 * bi, i11 += ai1 * br;
    }
    F(join)(y00, r00, i00);
    F(join)(y01, r01, i01);
    F(join)(y10, r10, i10);
    F(join)(y11, r11, i11);
}

/* One result of fewer than FL modes. */
static void F(narrow_tile)(const struct F(contraction) * s, const FS *a, const FS *b,
                           const long *terms, FS *y, long n) {
    for (long i = 0; i < 2 * n; i += 2) {
        FS re = 0, im = 0;
        for (long k = 0; k < s->terms; k++) {
            const FS *x = a + terms[2 * k] + i, *w = b + terms[2 * k + 1] + i;
            FS xi = x[1] * s->conj_a, wi = w[1] * s->conj_b;
            re += x[0] * w[0], re -= xi * wi, im += x[0] * wi, im += xi * w[0];
        }
        y[i] = re, y[i + 1] = im;
    }
}

/* A block of lanes, and a part of the columns. */
ENTRY void F(complex_item)(const struct F(contraction) * s, char *const *arg, long item,
                           char *scratch) {
    long part = item % s->parts, block = item / s->parts % s->blocks,
         outer = item / s->parts / s->blocks, *terms = (long *)scratch, at[3];
    long lane = block * FL, wide = s->lanes >= FL;
    if (wide && lane > s->lanes - FL) lane = s->lanes - FL; /* the last block computes some again */
    for (long k = 0; k < s->terms; k++) {
        F(offsets)(&s->term, k, at);
        terms[2 * k] = at[0], terms[2 * k + 1] = at[1];
    }
    F(offsets)(&s->batch, outer, at);
    const FS *a = (const FS *)arg[0] + at[0] + 2 * lane, *b = (const FS *)arg[1] + at[1] + 2 * lane;
    FS *y = (FS *)arg[2] + at[2] + 2 * lane;
    long pairs = (s->columns + 1) / 2, first = pairs * part / s->parts * 2,
         last = pairs * (part + 1) / s->parts * 2;
    for (long c = first; c < last && c < s->columns; c += 2) {
        long c0[3], c1[3], r0[3], r1[3], next = c + 1 < s->columns ? c + 1 : c;
        F(offsets)(&s->column, c, c0);
        F(offsets)(&s->column, next, c1);
        for (long r = 0; r < s->rows; r += 2) {
            long below = r + 1 < s->rows ? r + 1 : r;
            F(offsets)(&s->row, r, r0);
            F(offsets)(&s->row, below, r1);
            const FS *a0 = a + r0[0], *a1 = a + r1[0], *b0 = b + c0[1], *b1 = b + c1[1];
            FS *y0 = y + r0[2], *y1 = y + r1[2];
            if (wide) {
                F(tile)(s, a0, a1, b0, b1, terms, y0 + c0[2], y0 + c1[2], y1 + c0[2], y1 + c1[2]);
                continue;
            }
            F(narrow_tile)(s, a0, b0, terms, y0 + c0[2], s->lanes);
            F(narrow_tile)(s, a0, b1, terms, y0 + c1[2], s->lanes);
            F(narrow_tile)(s, a1, b0, terms, y1 + c0[2], s->lanes);
            F(narrow_tile)(s, a1, b1, terms, y1 + c1[2], s->lanes);
        }
    }
}
