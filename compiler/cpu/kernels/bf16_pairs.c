/* After elements.c: contractions of bf16 on CPUs with vdpbf16ps or, on Arm, bfdot. Two neighbouring
 * K elements of an operand form a pair of 32 bits, the first one in the lower half; the
 * instruction multiplies the pairs of two operands and adds both products to a float. So the loops
 * for floats also serve pairs, with half as many K elements. HAS_PAIRS: the target has the
 * instruction, and the source uses bf16. */
#if HAS_PAIRS
#define IF_PAIRS(pairs, ...)                                                                       \
    if (pairs) __VA_ARGS__
/* Splits floats into bf16 pairs whose products do not treat denormals as zero: a in the lower
 * halves. */
INLINE vf pair_floats(vf a, vf b) {
    return (vf)(__builtin_convertvector(narrow_normal(a), vw) |
                __builtin_convertvector(narrow_normal(b), vw) << 16);
}

typedef unsigned short v_panel_any __attribute__((vector_size(PANEL * 2), aligned(2), may_alias));
#if LANES == 16
#define LOWER_PAIRS                                                                                \
    0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39, 8, 40, 9, 41, 10, 42, 11, 43, 12, 44,  \
        13, 45, 14, 46, 15, 47
#define UPPER_PAIRS                                                                                \
    16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55, 24, 56, 25, 57, 26, 58, 27,    \
        59, 28, 60, 29, 61, 30, 62, 31, 63
#else
_Static_assert(LANES == 4, "the numbers below");
#define LOWER_PAIRS 0, 8, 1, 9, 2, 10, 3, 11
#define UPPER_PAIRS 4, 12, 5, 13, 6, 14, 7, 15
#endif
/* to[lane] = the pairs of two rows' elements. */
INLINE void pair_rows(v_panel a, v_panel b, float *to) {
    st(to, (vf)__builtin_shufflevector(a, b, LOWER_PAIRS));
    st(to + LANES, (vf)__builtin_shufflevector(a, b, UPPER_PAIRS));
}
INLINE v_panel ld_panel(const bf16 *p) { return *(const v_panel_any *)p; }
/* Pairs with an odd last row. */
static const bf16 no_elements[PANEL] __attribute__((aligned(64), unused));
/* to[k][PANEL words] = rows 2 k and 2 k + 1 of n. */
HOT void pair_panels(const bf16 *from, long n, float *to) {
    for (; n > 0; n -= 2, from += 2 * PANEL, to += PANEL)
        pair_rows(ld_panel(from), ld_panel(n > 1 ? from + PANEL : no_elements), to);
}
/* The pairs of n elements. */
INLINE void copy_words(const void *from, long n, float *to) {
    for (const bf16 *p = from; n > 0; n -= PANEL, p += PANEL, to += LANES)
        stn(to, (vf)ld_panel_part(p, n), (n + 1) / 2);
}
/* Clears the second elements of pairs. */
INLINE void keep_first(float *to) {
    for (long i = 0; i < PANEL; i += LANES) st(to + i, (vf)((vw)ld(to + i) & 0xffff));
}
#else
#define IF_PAIRS(pairs, ...)
#endif
