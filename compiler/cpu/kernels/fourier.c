/* Fourier transforms of lines, LANES lines at a time: each number is a vector with a line in each
 * lane, so that no stage exchanges lanes. Compiled for an element type at a time: FS is the type,
 * FV its vectors of FL lanes, F(name) a function's name for it.
 *
 * Stages are Stockham's: a stage of radix r turns n = r m interleaved sequences of `apart` numbers
 * into m sequences, in order, from one buffer into the other. Forward alone: an inverse transform
 * has real and imaginary parts exchanged on its way in and out. Real lines of even size are
 * transformed as half as many complex numbers; those of odd size as complex numbers. */

struct F(fourier) {
    long size, points; /* points: numbers of the complex transform: size, or half of it */
    long samples, modes, negative, outer, inner, blocks, each; /* each: blocks of an item */
    FS scale;
    int mode, twice, stages;
    const int *radix;
    /* exp(-2 pi i k / size): coarse[k >> fine_bits] fine[k & mask]; without coarse, fine[k] */
    const FS *fine, *coarse;
    int fine_bits;
};
enum { F(R2C), F(C2R), F(FFT), F(IFFT) };
struct F(number) {
    FV re, im;
};
struct F(twiddle) {
    FS re, im;
};

INLINE FV F(get)(const FS *p) { return *(const FV *)p; }
INLINE void F(set)(FS *p, FV v) { *(FV *)p = v; }
INLINE struct F(number) F(at)(const FS *p, long i) {
    return (struct F(number)){F(get)(p + 2 * i * FL), F(get)(p + (2 * i + 1) * FL)};
}
INLINE void F(put)(FS *p, long i, FV re, FV im) {
    F(set)(p + 2 * i * FL, re);
    F(set)(p + (2 * i + 1) * FL, im);
}
INLINE struct F(twiddle) F(twiddle_of)(const struct F(fourier) * s, long k) {
    const FS *fine = s->fine, *coarse = s->coarse;
    if (!coarse) return (struct F(twiddle)){fine[2 * k], fine[2 * k + 1]};
    coarse += 2 * (k >> s->fine_bits), fine += 2 * (k & ((1L << s->fine_bits) - 1));
    return (struct F(twiddle)){coarse[0] * fine[0] - coarse[1] * fine[1],
                               coarse[0] * fine[1] + coarse[1] * fine[0]};
}
INLINE void F(put_twiddled)(FS *to, long i, FV re, FV im, struct F(twiddle) w) {
    F(put)(to, i, re * w.re - im * w.im, re * w.im + im * w.re);
}

/* ---- stages: `twiddle` is the distance in the table of twiddle factors for p = 1 ---- */

HOT void F(radix2)(const struct F(fourier) * s, long m, long apart, long twiddle, const FS *x,
                   FS *y) {
    for (long p = 0; p < m; p++) {
        struct F(twiddle) w = F(twiddle_of)(s, p * twiddle);
        for (long q = 0; q < apart; q++) {
            struct F(number) a = F(at)(x, q + apart * p), b = F(at)(x, q + apart * (p + m));
            F(put)(y, q + apart * 2 * p, a.re + b.re, a.im + b.im);
            F(put_twiddled)(y, q + apart * (2 * p + 1), a.re - b.re, a.im - b.im, w);
        }
    }
}

HOT void F(radix3)(const struct F(fourier) * s, long m, long apart, long twiddle, const FS *x,
                   FS *y) {
    const FS half = (FS)0.5, high = (FS)0.86602540378443864676;
    for (long p = 0; p < m; p++) {
        struct F(twiddle) w = F(twiddle_of)(s, p * twiddle), w2 = F(twiddle_of)(s, 2 * p * twiddle);
        for (long q = 0; q < apart; q++) {
            struct F(number) a = F(at)(x, q + apart * p), b = F(at)(x, q + apart * (p + m)),
                             c = F(at)(x, q + apart * (p + 2 * m));
            FV sr = b.re + c.re, si = b.im + c.im, dr = (b.re - c.re) * high,
               di = (b.im - c.im) * high, mr = a.re - sr * half, mi = a.im - si * half;
            F(put)(y, q + apart * 3 * p, a.re + sr, a.im + si);
            F(put_twiddled)(y, q + apart * (3 * p + 1), mr + di, mi - dr, w);
            F(put_twiddled)(y, q + apart * (3 * p + 2), mr - di, mi + dr, w2);
        }
    }
}

HOT void F(radix4)(const struct F(fourier) * s, long m, long apart, long twiddle, const FS *x,
                   FS *y) {
    for (long p = 0; p < m; p++) {
        struct F(twiddle) w1 = F(twiddle_of)(s, p * twiddle),
                          w2 = F(twiddle_of)(s, 2 * p * twiddle),
                          w3 = F(twiddle_of)(s, 3 * p * twiddle);
        for (long q = 0; q < apart; q++) {
            struct F(number) a = F(at)(x, q + apart * p), b = F(at)(x, q + apart * (p + m)),
                             c = F(at)(x, q + apart * (p + 2 * m)),
                             d = F(at)(x, q + apart * (p + 3 * m));
            FV er = a.re + c.re, ei = a.im + c.im, fr = a.re - c.re, fi = a.im - c.im;
            FV gr = b.re + d.re, gi = b.im + d.im, hr = b.im - d.im, hi = d.re - b.re;
            F(put)(y, q + apart * 4 * p, er + gr, ei + gi);
            F(put_twiddled)(y, q + apart * (4 * p + 1), fr + hr, fi + hi, w1);
            F(put_twiddled)(y, q + apart * (4 * p + 2), er - gr, ei - gi, w2);
            F(put_twiddled)(y, q + apart * (4 * p + 3), fr - hr, fi - hi, w3);
        }
    }
}

/* An odd radix by its definition: results v and radix - v share the sums of cosines and of sines.
 */
HOT void F(radix_odd)(const struct F(fourier) * s, long radix, long m, long apart, long twiddle,
                      const FS *x, FS *y) {
    long one = s->size / radix; /* of the table, for a radix-th of a turn */
    for (long p = 0; p < m; p++)
        for (long q = 0; q < apart; q++) {
            struct F(number) first = F(at)(x, q + apart * p);
            FV all_re = first.re, all_im = first.im;
            for (long u = 1; u < radix; u++) {
                struct F(number) a = F(at)(x, q + apart * (p + m * u));
                all_re += a.re, all_im += a.im;
            }
            F(put)(y, q + apart * radix * p, all_re, all_im);
            for (long v = 1; v <= radix / 2; v++) {
                FV cr = first.re, ci = first.im, sr = {0}, si = {0};
                for (long u = 1, k = v; u <= radix / 2; u++) {
                    struct F(number) a = F(at)(x, q + apart * (p + m * u)),
                                     b = F(at)(x, q + apart * (p + m * (radix - u)));
                    struct F(twiddle) w = F(twiddle_of)(s, k * one);
                    cr += (a.re + b.re) * w.re, ci += (a.im + b.im) * w.re;
                    sr += (a.re - b.re) * w.im, si += (a.im - b.im) * w.im;
                    k += v, k -= k >= radix ? radix : 0;
                }
                F(put_twiddled)
                (y, q + apart * (radix * p + v), cr - si, ci + sr,
                 F(twiddle_of)(s, p * v * twiddle));
                F(put_twiddled)
                (y, q + apart * (radix * p + radix - v), cr + si, ci - sr,
                 F(twiddle_of)(s, p * (radix - v) * twiddle));
            }
        }
}

/* Transforms x; returns where the result is: x or y. */
static FS *F(transform)(const struct F(fourier) * s, FS *x, FS *y) {
    long n = s->points, apart = 1, step = s->size / s->points;
    for (int i = 0; i < s->stages; i++) {
        long radix = s->radix[i], m = n / radix, twiddle = apart * step;
        if (radix == 2)
            F(radix2)(s, m, apart, twiddle, x, y);
        else if (radix == 3)
            F(radix3)(s, m, apart, twiddle, x, y);
        else if (radix == 4)
            F(radix4)(s, m, apart, twiddle, x, y);
        else
            F(radix_odd)(s, radix, m, apart, twiddle, x, y);
        FS *other = x;
        x = y, y = other;
        n = m, apart *= radix;
    }
    return x;
}

/* ---- lines in memory ---- */

/* The lines of a block: a number's part r of lane i is at offset[i] + r / parts * step + r % parts.
 * `dense`: of all lanes, the same parts are neighbours but for those of one number. */
struct F(lines) {
    FS *at;
    long offset[FL], count, step;
    int parts, dense;
};

static struct F(lines)
    F(lines_of)(const struct F(fourier) * s, void *at, long block, long numbers, int parts) {
    struct F(lines) l = {(FS *)at, {0}, 0, s->inner * parts, parts, s->inner >= FL};
    long wide = l.dense ? (s->inner + FL - 1) / FL : 0;
    for (long i = 0; i < FL; i++) {
        long outer, inner;
        if (l.dense) {
            outer = block / wide, inner = block % wide * FL + i;
            if (inner >= s->inner) break;
        } else {
            outer = (block * FL + i) / s->inner, inner = (block * FL + i) % s->inner;
            if (outer >= s->outer) break;
        }
        l.offset[i] = (outer * numbers * s->inner + inner) * parts, l.count++;
    }
    for (long i = l.count; i < FL; i++) l.offset[i] = l.offset[0];
    return l;
}

INLINE long F(part_at)(const struct F(lines) * l, long r) {
    return l->parts == 1 ? r * l->step : (r >> 1) * l->step + (r & 1);
}

/* Parts `first` to last - 1 of the lines, part r to vector (r - first) ^ swap of `to`. */
HOT void F(load)(const struct F(lines) * l, long first, long last, long swap, FS *to) {
    long r = first;
#if FOURIER_FLOATS
    if (l->step == l->parts) { /* each line lies in one piece */
        struct array a = {l->at, F32};
        long by = l->count > 1 ? l->offset[1] - l->offset[0] : 0;
        for (; r + FL <= last; r += FL) {
            FS block[FL * FL] __attribute__((aligned(64)));
            transpose_rows(a, l->offset[0] + r, by, l->count, block, FL);
            for (long k = 0; k < FL; k++)
                F(set)(to + ((r - first + k) ^ swap) * FL, F(get)(block + k * FL));
        }
    }
#endif
    for (; r < last; r++) {
        const FS *p = l->at + F(part_at)(l, r);
        FV v;
        for (long i = 0; i < FL; i++) v[i] = p[l->offset[i]];
        F(set)(to + ((r - first) ^ swap) * FL, v);
    }
}

HOT void F(store)(const struct F(lines) * l, long first, long last, long swap, const FS *from) {
    long r = first;
#if FOURIER_FLOATS
    if (l->step == l->parts && l->count == FL) {
        struct array a = {from, F32};
        for (; r + FL <= last; r += FL) {
            FS block[FL * FL] __attribute__((aligned(64))),
                rows[FL * FL] __attribute__((aligned(64)));
            for (long k = 0; k < FL; k++)
                F(set)(rows + k * FL, F(get)(from + ((r - first + k) ^ swap) * FL));
            a.at = rows;
            transpose_block(a, 0, FL, block, FL);
            for (long k = 0; k < FL; k++) st(l->at + l->offset[k] + r, F(get)(block + k * FL));
        }
    }
#endif
    for (; r < last; r++) {
        FS *p = l->at + F(part_at)(l, r);
        FV v = F(get)(from + ((r - first) ^ swap) * FL);
        for (long i = 0; i < l->count; i++) p[l->offset[i]] = v[i];
    }
}

static void F(clear)(FS *to, long vectors) {
    for (long i = 0; i < vectors; i++) F(set)(to + i * FL, (FV){0});
}

/* ---- real lines ---- */

/* Modes of a real line, from its numbers as pairs (or, of odd size, each with zero), times scale
 * and weight. Z: the transform of the pairs; mode k is E + W^k O with E = (Z[k] + conj Z[-k]) / 2,
 * O = (Z[k] - conj Z[-k]) / 2i. */
static void F(modes_of)(const struct F(fourier) * s, const FS *z, FS *to) {
    long h = s->points;
    for (long k = 0; k < s->modes; k++) {
        FS scale = s->twice && k && 2 * k < s->size ? 2 * s->scale : s->scale;
        struct F(number) a = F(at)(z, k % h);
        if (h == s->size) {
            F(put)(to, k, a.re * scale, a.im * scale);
            continue;
        }
        struct F(number) b = F(at)(z, k ? h - k : 0);
        struct F(twiddle) w = F(twiddle_of)(s, k);
        FV er = a.re + b.re, ei = a.im - b.im, dr = a.re - b.re, di = a.im + b.im;
        scale *= (FS)0.5;
        F(put)(to, k, (er + di * w.re + dr * w.im) * scale, (ei + di * w.im - dr * w.re) * scale);
    }
}

/* The mode's part in the transform of a real line: times scale and weight; its conjugate is mode
 * size - k. */
INLINE struct F(number) F(half_of)(const struct F(fourier) * s, const FS *y, long k) {
    struct F(number) a = {{0}, {0}};
    if (k >= s->modes) return a;
    a = F(at)(y, k);
    if (k == 0 || 2 * k == s->size) return (struct F(number)){a.re * s->scale, (FV){0}};
    FS scale = s->twice ? s->scale : s->scale * (FS)0.5;
    return (struct F(number)){a.re * scale, a.im * scale};
}

/* The inverse of modes_of, up to the transform: parts are exchanged. */
static void F(pairs_of)(const struct F(fourier) * s, const FS *y, FS *to) {
    long h = s->points;
    if (h == s->size) {
        for (long k = 0; 2 * k <= s->size; k++) {
            struct F(number) a = F(half_of)(s, y, k);
            F(put)(to, k, a.im, a.re);
            if (k) F(put)(to, s->size - k, -a.im, a.re);
        }
        return;
    }
    for (long k = 0; k < h; k++) {
        struct F(number) a = F(half_of)(s, y, k), b = F(half_of)(s, y, h - k);
        struct F(twiddle) w = F(twiddle_of)(s, k);
        FV er = a.re + b.re, ei = a.im - b.im, dr = a.re - b.re, di = a.im + b.im;
        FV tr = dr * w.re + di * w.im, ti = di * w.re - dr * w.im; /* times conj W^k */
        F(put)(to, k, ei + tr, er - ti);
    }
}

/* ---- a block of lines ---- */

static void F(scale_by)(FS by, FS *x, long vectors) {
    if (by == 1) return;
    for (long i = 0; i < vectors; i++) F(set)(x + i * FL, F(get)(x + i * FL) * by);
}

static void F(real_block)(const struct F(fourier) * s, char *const *arg, long block, FS *x, FS *y) {
    long n = s->size, samples = s->samples, odd = s->points == n;
    if (s->mode == F(R2C)) {
        struct F(lines) from = F(lines_of)(s, arg[0], block, samples, 1),
                        to = F(lines_of)(s, arg[1], block, s->modes, 2);
        F(load)(&from, 0, samples, 0, x);
        F(clear)(x + samples * FL, n - samples);
        for (long t = n - 1; odd && t >= 0; t--) F(put)(x, t, F(get)(x + t * FL), (FV){0});
        FS *z = F(transform)(s, x, y), *made = z == x ? y : x;
        F(modes_of)(s, z, made);
        F(store)(&to, 0, 2 * s->modes, 0, made);
        return;
    }
    struct F(lines) from = F(lines_of)(s, arg[0], block, s->modes, 2),
                    to = F(lines_of)(s, arg[1], block, samples, 1);
    F(load)(&from, 0, 2 * s->modes, 0, y);
    F(pairs_of)(s, y, x);
    FS *z = F(transform)(s, x, y);
    for (long t = 0; odd && t < samples; t++) F(set)(z + t * FL, F(get)(z + (2 * t + 1) * FL));
    F(store)(&to, 0, samples, !odd, z);
}

static void F(complex_block)(const struct F(fourier) * s, char *const *arg, long block, FS *x,
                             FS *y) {
    int inverse = s->mode == F(IFFT);
    long first = s->modes - s->negative, gap = s->size - s->modes; /* modes that are missing */
    struct F(lines) of_samples = F(lines_of)(s, arg[inverse], block, s->samples, 2),
                    of_modes = F(lines_of)(s, arg[!inverse], block, s->modes, 2);
    if (inverse) {
        F(load)(&of_modes, 0, 2 * first, 1, x);
        F(clear)(x + 2 * first * FL, 2 * gap);
        F(load)(&of_modes, 2 * first, 2 * s->modes, 1, x + 2 * (first + gap) * FL);
        F(scale_by)(s->scale, x, 2 * s->size);
        F(store)(&of_samples, 0, 2 * s->samples, 1, F(transform)(s, x, y));
        return;
    }
    F(load)(&of_samples, 0, 2 * s->samples, 0, x);
    F(clear)(x + 2 * s->samples * FL, 2 * (s->size - s->samples));
    F(scale_by)(s->scale, x, 2 * s->samples);
    FS *z = F(transform)(s, x, y);
    F(store)(&of_modes, 0, 2 * first, 0, z);
    F(store)(&of_modes, 2 * first, 2 * s->modes, 0, z + 2 * (first + gap) * FL);
}

ENTRY void F(fourier_item)(const struct F(fourier) * s, char *const *arg, long item,
                           char *scratch) {
    long buffer = 2 * (s->size + 1) * FL, last = (item + 1) * s->each;
    FS *x = (FS *)(((unsigned long)scratch + 63) & ~63UL), *y = x + buffer;
    if (last > s->blocks) last = s->blocks;
    for (long block = item * s->each; block < last; block++) {
        if (s->mode == F(R2C) || s->mode == F(C2R))
            F(real_block)(s, arg, block, x, y);
        else
            F(complex_block)(s, arg, block, x, y);
    }
}
