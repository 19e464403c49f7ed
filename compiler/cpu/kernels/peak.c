/* The machine's peak rates, as kernels of the plan's ABI: multiply-adds in registers, and a
 * stream through memory. */
#if TILE_ROWS == 8 /* 32 registers */
#define ACCUMULATORS(X)                                                                            \
    X(0)                                                                                           \
    X(1)                                                                                           \
    X(2)                                                                                           \
    X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19)
#else
#define ACCUMULATORS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#endif
#define HIDE(v)  __asm__ volatile("" : HELD(v))
#define START(i) vf c##i = splat(i);
#if HAS_PAIRS
#define STEP(i) c##i = dot_pairs(c##i, a, b);
#else
#define STEP(i) c##i = c##i * a + b;
#endif
#define END(i) a += c##i;
#if HAS_TILES
/* PEAK_STEPS rounds of a strip's four AMX products, of zeros. */
HOT vf multiply_add(void) {
    vf sum[AMX_ROWS * PANEL / LANES] = {0};
    begin_tiles();
    begin_strip((const float *)sum, PANEL, 0);
    ZERO_TILE(4);
    ZERO_TILE(5);
    ZERO_TILE(6);
    ZERO_TILE(7);
    for (long i = 0; i < PEAK_STEPS; i++) add_products();
    end_strip((float *)sum, PANEL);
    end_tiles();
    return *sum;
}
#else
/* PEAK_STEPS rounds of one multiply-add per accumulator, or of two bf16 products. HOT: at -O1
 * gcc does not contract multiplication and addition. */
HOT vf multiply_add(void) {
    vf a = splat(0.5f), b = splat(1.0f);
    HIDE(a);
    HIDE(b);
    ACCUMULATORS(START)
    for (long i = 0; i < PEAK_STEPS; i++) {
        ACCUMULATORS(STEP)
    }
    ACCUMULATORS(END)
    return a;
}
#endif
void peak_flops_0(char *const *arg, long item, char *scratch, char *workspace) {
    st((float *)(workspace + item * 64), multiply_add());
    (void)arg, (void)scratch;
}
/* Reads and writes PEAK_BYTES of its own part of the arena, PEAK_SWEEPS times. It reads every
 * line that it writes, so there is no extra traffic for write-allocate. */
HOT void stream(float *p) {
    for (long sweep = 0; sweep < PEAK_SWEEPS; sweep++)
        for (long i = 0; i < PEAK_BYTES / 4; i += LANES) st(p + i, ld(p + i) + 1.0f);
}
void peak_stream_0(char *const *arg, long item, char *scratch, char *workspace) {
    stream((float *)(arg[0] + item * PEAK_BYTES));
    (void)scratch, (void)workspace;
}
