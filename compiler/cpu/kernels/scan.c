/* Linear scans (ir/scan.h), step after step. Where FL elements or more follow the axis, an item is
 * a block of these, whose states stay in scratch memory while it goes through all steps. Otherwise
 * it is a block of lines, four at a time with states in registers: a line's step waits for the one
 * before, and four of them keep the CPU busy. FS, FL and F(name): fourier.c; FS may be a whole
 * number. Elements in memory have the type `type`; FOURIER_FLOATS: 16 bits are among these. */

struct F(scan) {
    long steps, inner, lines; /* lines: all elements but for the axis */
    long block, blocks;       /* elements or lines of an item; blocks of the elements */
    int reverse, before, has_factors, type;
};
typedef FS F(scan_vector) __attribute__((vector_size(LANES * 4), aligned(sizeof(FS)), may_alias));

INLINE F(scan_vector) F(scan_load)(const char *p, int type, long i, long n) {
#if FOURIER_FLOATS
    return load_n((struct array){p, type}, i, n);
#else
    (void)type;
    const FS *from = (const FS *)p + i;
    if (n >= FL) return *(const F(scan_vector) *)from;
    F(scan_vector) v = {0};
    for (long k = 0; k < n; k++) v[k] = from[k];
    return v;
#endif
}
INLINE void F(scan_store)(char *p, int type, long i, F(scan_vector) v, long n) {
#if FOURIER_FLOATS
    store_n((struct array){p, type}, i, v, n);
#else
    (void)type;
    FS *to = (FS *)p + i;
    if (n >= FL) {
        *(F(scan_vector) *)to = v;
        return;
    }
    for (long k = 0; k < n; k++) to[k] = v[k];
#endif
}
INLINE FS F(scan_element)(const char *p, int type, long i) {
#if FOURIER_FLOATS
    return element((struct array){p, type}, i);
#else
    (void)type;
    return ((const FS *)p)[i];
#endif
}
INLINE void F(scan_put)(char *p, int type, long i, FS v) {
#if FOURIER_FLOATS
    if (type != F32) {
        store_n((struct array){p, type}, i, (vf){v}, 1);
        return;
    }
#endif
    (void)type;
    ((FS *)p)[i] = v;
}

/* n elements from element `at` of the first step on; `next`: the distance between two steps. */
INLINE void F(scan_wide)(const struct F(scan) * s, char *const *arg, long at, long n, long next,
                         FS *h, int has_factors, int type) {
    const char *b = arg[0], *a = arg[1];
    char *y = arg[1 + has_factors];
    for (long k = 0; k < n; k += FL) {
        F(scan_vector) v = F(scan_load)(b, type, at + k, n - k);
        *(F(scan_vector) *)(h + k) = v;
        F(scan_store)(y, type, at + k, v, n - k);
    }
    for (long i = 1; i < s->steps; i++) {
        long from = s->before ? at : at + next;
        at += next;
        for (long k = 0; k < n; k += FL) {
            F(scan_vector)
            v = F(scan_load)(b, type, at + k, n - k), last = *(F(scan_vector) *)(h + k);
            v = has_factors ? F(scan_load)(a, type, from + k, n - k) * last + v : last + v;
            *(F(scan_vector) *)(h + k) = v;
            F(scan_store)(y, type, at + k, v, n - k);
        }
    }
}

/* n lines, at most four; n is a constant. */
INLINE void F(scan_narrow)(const struct F(scan) * s, char *const *arg, const long *first, int n,
                           long next, int has_factors, int type) {
    const char *b = arg[0], *a = arg[1];
    char *y = arg[1 + has_factors];
    FS h[4];
    long at[4];
    UNROLLED
    for (int r = 0; r < n; r++) {
        at[r] = first[r], h[r] = F(scan_element)(b, type, at[r]);
        F(scan_put)(y, type, at[r], h[r]);
    }
    for (long i = 1; i < s->steps; i++) {
        UNROLLED
        for (int r = 0; r < n; r++) {
            long from = s->before ? at[r] : at[r] + next;
            at[r] += next;
            FS v = F(scan_element)(b, type, at[r]);
            h[r] = has_factors ? F(scan_element)(a, type, from) * h[r] + v : h[r] + v;
            F(scan_put)(y, type, at[r], h[r]);
        }
    }
}

INLINE void F(scan_any)(const struct F(scan) * s, char *const *arg, long item, FS *h,
                        int has_factors, int type) {
    long size = s->steps * s->inner, next = s->reverse ? -s->inner : s->inner;
    long start = s->reverse ? size - s->inner : 0;
    if (s->blocks) {
        long k = item % s->blocks * s->block, n = s->inner - k < s->block ? s->inner - k : s->block;
        F(scan_wide)(s, arg, item / s->blocks * size + start + k, n, next, h, has_factors, type);
        return;
    }
    long line = item * s->block, last = line + s->block;
    if (last > s->lines) last = s->lines;
    while (line < last) {
        long first[4], n = last - line < 4 ? 1 : 4;
        for (long r = 0; r < n; r++, line++)
            first[r] = line / s->inner * size + line % s->inner + start;
        if (n == 4)
            F(scan_narrow)(s, arg, first, 4, next, has_factors, type);
        else
            F(scan_narrow)(s, arg, first, 1, next, has_factors, type);
    }
}
HOT void F(scan_sums)(const struct F(scan) * s, char *const *arg, long item, FS *h) {
    F(scan_any)(s, arg, item, h, 0, 0);
}
HOT void F(scan_products)(const struct F(scan) * s, char *const *arg, long item, FS *h) {
    F(scan_any)(s, arg, item, h, 1, 0);
}
#if FOURIER_FLOATS && HALVES
HOT void F(scan_halves)(const struct F(scan) * s, char *const *arg, long item, FS *h) {
    F(scan_any)(s, arg, item, h, s->has_factors, s->type);
}
#endif

ENTRY void F(scan_item)(const struct F(scan) * s, char *const *arg, long item, char *scratch) {
#if FOURIER_FLOATS && HALVES
    if (s->type != F32) {
        F(scan_halves)(s, arg, item, (FS *)scratch);
        return;
    }
#endif
    (s->has_factors ? F(scan_products) : F(scan_sums))(s, arg, item, (FS *)scratch);
}
