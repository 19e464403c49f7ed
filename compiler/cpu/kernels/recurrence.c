/* The steps of recurrent layers (ir/recurrence.h). A work item is a block of sequences, which goes
 * through all steps without waiting for others: its states stay in scratch memory, in the first
 * caches. A step multiplies the block's states by the packed weight, in register tiles of a few
 * sequences by WIDTH vectors; lanes lie along the units, and the gates of a unit are in
 * neighbouring vectors. FS, FV, FL and F(name): fourier.c. Elements in memory have the type
 * `type`; FOURIER_FLOATS: 16 bits are among these. */

struct F(recurrence) {
    long batch, steps, size, rows,
        stride; /* rows: sequences of an item; stride: of a state, padded */
    int cell, gates, saved, states, started, ends, reverse, type; /* started: has first states */
    int width, units;   /* vectors of a panel of the weight; units' vectors among them */
    long panels, terms; /* panels of the packed weight, of so many terms each */
};
enum { F(LSTM), F(GRU), F(RNN_TANH), F(RNN_RELU) };

/* n elements from i on, at most FL, and zeros. */
INLINE FV F(bring)(const char *p, int type, long i, long n) {
#if FOURIER_FLOATS
    return load_n((struct array){p, type}, i, n);
#else
    (void)type;
    FV v = {0};
    for (long k = 0; k < FL && k < n; k++) v[k] = ((const FS *)p)[i + k];
    return v;
#endif
}
INLINE void F(leave)(char *p, int type, long i, FV v, long n) {
#if FOURIER_FLOATS
    store_n((struct array){p, type}, i, v, n);
#else
    (void)type;
    for (long k = 0; k < FL && k < n; k++) ((FS *)p)[i + k] = v[k];
#endif
}
INLINE FV F(tanhs)(FV a) {
#if FOURIER_FLOATS
    return v_tanh(a);
#else
    for (int k = 0; k < FL; k++) a[k] = __builtin_tanh(a[k]);
    return a;
#endif
}
INLINE FV F(sigmoids)(FV a) {
#if FOURIER_FLOATS
    return 1.0f / (1.0f + v_exp(-a));
#else
    for (int k = 0; k < FL; k++) a[k] = 1 / (1 + __builtin_exp(-a[k]));
    return a;
#endif
}

/* ---- states before the first step, and after the last one ---- */

/* The state of `rows` sequences, from row k of each one's `stored` rows on. */
static void F(bring_states)(const struct F(recurrence) * s, const char *p, long first, long rows,
                            long stored, long k, FS *state) {
    for (long r = 0; r < rows; r++)
        for (long unit = 0; unit < s->size; unit += FL)
            *(FV *)(state + r * s->stride + unit) =
                F(bring)(p, s->type, ((first + r) * stored + k) * s->size + unit, s->size - unit);
}
static void F(leave_states)(const struct F(recurrence) * s, char *p, long first, long rows,
                            long stored, long k, const FS *state) {
    for (long i = 0, unit; i < rows * s->stride; i += FL) {
        unit = i % s->stride;
        if (unit < s->size) F(leave)
        (p, s->type, ((first + i / s->stride) * stored + k) * s->size + unit,
         *(const FV *)(state + i), s->size - unit);
    }
}

/* ---- products ---- */

/* Loops of constant length, so that a tile's sums are registers. Emulated vectors of AVX-512 are
 * none, and such a tile would take the compiler seconds. */
#if LANES == 16 && !defined(__AVX512F__)
#define WHOLLY
#elif defined(__clang__)
#define WHOLLY _Pragma("clang loop unroll(full)")
#else
#define WHOLLY _Pragma("GCC unroll 24")
#endif
/* z[row][vector] = sum over k of a[row][k] w[k][vector]; rows and width are constants. */
INLINE void F(product_tile)(int rows, int width, const FS *a, long stride, const FS *w, long terms,
                            FS *z) {
    FV sum[6][4];
    WHOLLY
    for (int i = 0; i < rows * width; i++) sum[i / width][i % width] = (FV){0};
    for (long k = 0; k < terms; k++, w += width * FL) {
        WHOLLY
        for (int v = 0; v < width; v++) {
            FV b = *(const FV *)(w + v * FL);
            WHOLLY
            for (int r = 0; r < rows; r++) sum[r][v] += (a[r * stride + k] - (FV){0}) * b;
        }
    }
    WHOLLY
    for (int i = 0; i < rows * width; i++) *(FV *)(z + i * FL) = sum[i / width][i % width];
}
#undef WHOLLY
#define PRODUCTS(ROWS, WIDTH)                                                                      \
    HOT void F(products_##ROWS##_##WIDTH)(const FS *a, long stride, const FS *w, long terms,       \
                                          FS *z) {                                                 \
        F(product_tile)(ROWS, WIDTH, a, stride, w, terms, z);                                      \
    }
#if TILE_ROWS == 8 /* 32 registers */
#define TALL   6
#define TALL_3 F(products_6_3)
#define TALL_4 F(products_6_4)
PRODUCTS(6, 3)
PRODUCTS(6, 4)
#else
#define TALL   3
#define TALL_3 F(products_3_3)
#define TALL_4 F(products_3_4)
PRODUCTS(3, 3)
PRODUCTS(3, 4)
#endif
PRODUCTS(2, 3)
PRODUCTS(2, 4)
PRODUCTS(1, 3)
PRODUCTS(1, 4)

/* The products of n rows with a panel: up to TALL of them; returns how many. */
static long F(products)(const struct F(recurrence) * s, long n, const FS *a, long stride,
                        const FS *w, FS *z) {
    long terms = s->terms;
    if (n >= TALL) {
        (s->width == 4 ? TALL_4 : TALL_3)(a, stride, w, terms, z);
        return TALL;
    }
    if (n >= 2) {
        (s->width == 4 ? F(products_2_4) : F(products_2_3))(a, stride, w, terms, z);
        return 2;
    }
    (s->width == 4 ? F(products_1_4) : F(products_1_3))(a, stride, w, terms, z);
    return 1;
}

/* ---- packing: an item is a panel [terms][width][FL] ---- */

/* Forward, lanes lie along units; terms are those that the gates sum over. */
ENTRY void F(pack_gates_item)(const struct F(recurrence) * s, const char *w, long item, FS *to) {
    to += item * s->terms * s->width * FL;
    for (long k = 0; k < s->terms; k++)
        for (int v = 0; v < s->width; v++, to += FL) {
            int gate = v % s->gates;
            long unit = (item * s->units + v / s->gates) * FL;
            for (long i = 0; i < FL; i++)
                to[i] = v / s->gates < s->units && unit + i < s->size
                            ? F(bring)(w, s->type, (gate * s->size + unit + i) * s->size + k, 1)[0]
                            : 0;
        }
}
/* Backward, lanes lie along the states; terms are the gates of all units. */
ENTRY void F(pack_states_item)(const struct F(recurrence) * s, const char *w, long item, FS *to) {
    to += item * s->terms * s->width * FL;
    for (long k = 0; k < s->terms; k++)
        for (int v = 0; v < s->width; v++, to += FL) {
            long state = (item * s->width + v) * FL, n = s->size - state;
            *(FV *)to = n > 0 ? F(bring)(w, s->type, k * s->size + state, n) : (FV){0};
        }
}

/* ---- forward ---- */

struct F(forward) {
    const char *p, *b;
    char *y, *saved;
};

/* Units unit, unit + 1, ... of a step of sequence `line`, from their products z: h is the state
 * before, `next` the one after, c the cell's. */
HOT void F(advance)(const struct F(recurrence) * s, struct F(forward) to, long line, long step,
                    long unit, const FS *z, const FS *h, FS *next, FS *c) {
    long n = s->size - unit < FL ? s->size - unit : FL, size = s->size;
    long at = line * s->steps + step, row = (at + line * s->ends) * size + unit;
    long p = at * s->gates * size + unit, keep = at * s->saved * size + unit;
    FV g[4], state;
    for (int i = 0; i < s->gates; i++)
        g[i] = *(const FV *)(z + i * FL) + F(bring)(to.b, s->type, i * size + unit, n);
    if (s->cell == F(LSTM)) {
        for (int i = 0; i < 4; i++) g[i] += F(bring)(to.p, s->type, p + i * size, n);
        g[0] = F(sigmoids)(g[0]), g[1] = F(sigmoids)(g[1]);
        g[2] = F(tanhs)(g[2]), g[3] = F(sigmoids)(g[3]);
        FV cell = g[1] * *(FV *)(c + unit) + g[0] * g[2];
        *(FV *)(c + unit) = cell;
        state = g[3] * F(tanhs)(cell);
        for (int i = 0; i < 4; i++) F(leave)(to.saved, s->type, keep + i * size, g[i], n);
        F(leave)(to.saved, s->type, keep + 4 * size, cell, n);
    } else if (s->cell == F(GRU)) {
        FV u = g[2];
        for (int i = 0; i < 2; i++)
            g[i] = F(sigmoids)(g[i] + F(bring)(to.p, s->type, p + i * size, n));
        g[2] = F(tanhs)(F(bring)(to.p, s->type, p + 2 * size, n) + g[0] * u);
        state = (1 - g[1]) * g[2] + g[1] * *(const FV *)(h + unit);
        for (int i = 0; i < 3; i++) F(leave)(to.saved, s->type, keep + i * size, g[i], n);
        F(leave)(to.saved, s->type, keep + 3 * size, u, n);
    } else {
        state = g[0] + F(bring)(to.p, s->type, p, n);
        if (s->cell == F(RNN_TANH))
            state = F(tanhs)(state);
        else
            for (int i = 0; i < FL; i++) state[i] = state[i] < 0 ? 0 : state[i];
    }
    F(leave)(to.y, s->type, row, state, n);
    *(FV *)(next + unit) = F(bring)(to.y, s->type, row, n); /* as it is stored */
}

ENTRY void F(recurrent_item)(const struct F(recurrence) * s, char *const *arg, long item,
                             char *scratch, const char *packed) {
    long first = item * s->rows, rows = s->batch - first < s->rows ? s->batch - first : s->rows;
    FS *h = (FS *)scratch, *next = h + s->rows * s->stride, *c = next + s->rows * s->stride,
       *z = c + s->rows * s->stride;
    char *const *out = arg + 3 + s->started;
    const struct F(forward) to = {arg[0], arg[2], out[0], out[1]};
    __builtin_memset(scratch, 0, (unsigned long)(3 * s->rows * s->stride) * sizeof(FS));
    for (int k = 0; s->started && k < s->states; k++)
        F(bring_states)(s, arg[3], first, rows, s->states, k, k ? c : h);
    for (long i = 0; i < s->steps; i++) {
        long step = s->reverse ? s->steps - 1 - i : i;
        for (long panel = 0; panel < s->panels; panel++) {
            const FS *w = (const FS *)packed + panel * s->terms * s->width * FL;
            for (long r = 0, n; r < rows; r += n) {
                n = F(products)(s, rows - r, h + r * s->stride, s->stride, w, z);
                for (long k = 0; k < n; k++)
                    for (int v = 0; v < s->units; v++) {
                        long unit = (panel * s->units + v) * FL, at = (r + k) * s->stride;
                        if (unit < s->size) F(advance)
                        (s, to, first + r + k, step, unit, z + (k * s->width + v * s->gates) * FL,
                         h + at, next + at, c + at);
                    }
            }
        }
        FS *last = h;
        h = next, next = last;
    }
    if (s->ends) F(leave_states)(s, to.y, first, rows, s->steps + 1, s->steps, c);
}

/* ---- backward ---- */

struct F(backward) {
    const char *y, *saved, *dy, *start;
    char *dp;
};

/* The gradients of a step of sequence `line`, after step `before` (or -1): those of the products
 * into du, and into dh, which is the state's gradient, its part that does not pass the weight. */
HOT void F(retreat)(const struct F(recurrence) * s, struct F(backward) of, long line, long step,
                    long before, FS *dh, FS *dc, FS *du) {
    long size = s->size, at = line * s->steps + step, row = (at + line * s->ends) * size;
    long earlier = before < 0 ? -1 : at - step + before;
    for (long unit = 0; unit < size; unit += FL) {
        long n = size - unit < FL ? size - unit : FL;
        long p = at * s->gates * size + unit, keep = at * s->saved * size + unit;
        FV d = *(FV *)(dh + unit) + F(bring)(of.dy, s->type, row + unit, n), g[5], dp[4],
           direct = {0}, last = {0};
        for (int i = 0; i < s->saved; i++) g[i] = F(bring)(of.saved, s->type, keep + i * size, n);
        int gates = s->gates;
        if (s->cell == F(LSTM)) {
            if (earlier >= 0)
                last = F(bring)(of.saved, s->type, (earlier * s->saved + 4) * size + unit, n);
            else if (s->started)
                last = F(bring)(of.start, s->type, (line * 2 + 1) * size + unit, n);
            FV t = F(tanhs)(g[4]), e = *(FV *)(dc + unit) + d * g[3] * (1 - t * t);
            dp[0] = e * g[2] * (g[0] * (1 - g[0]));
            dp[1] = e * last * (g[1] * (1 - g[1]));
            dp[2] = e * g[0] * (1 - g[2] * g[2]);
            dp[3] = d * t * (g[3] * (1 - g[3]));
            *(FV *)(dc + unit) = e * g[1];
        } else if (s->cell == F(GRU)) {
            if (earlier >= 0)
                last = F(bring)(of.y, s->type, (earlier + line * s->ends) * size + unit, n);
            else if (s->started)
                last = F(bring)(of.start, s->type, line * size + unit, n);
            dp[2] = d * (1 - g[1]) * (1 - g[2] * g[2]);
            dp[1] = d * (last - g[2]) * (g[1] * (1 - g[1]));
            dp[0] = dp[2] * g[3] * (g[0] * (1 - g[0]));
            direct = d * g[1];
        } else {
            FV y = F(bring)(of.y, s->type, row + unit, n);
            dp[0] = d * (1 - y * y);
            for (int i = 0; i < FL && s->cell == F(RNN_RELU); i++) dp[0][i] = y[i] > 0 ? d[i] : 0;
        }
        for (int i = 0; i < gates; i++) F(leave)(of.dp, s->type, p + i * size, dp[i], n);
        if (s->cell == F(GRU)) dp[2] *= g[0];
        for (int i = 0; i < gates; i++)
            if (n == FL)
                __builtin_memcpy(du + i * size + unit, &dp[i], sizeof(FV));
            else
                for (long k = 0; k < n; k++) du[i * size + unit + k] = dp[i][k];
        *(FV *)(dh + unit) = direct;
    }
}

ENTRY void F(recurrent_grad_item)(const struct F(recurrence) * s, char *const *arg, long item,
                                  char *scratch, const char *packed) {
    long first = item * s->rows, rows = s->batch - first < s->rows ? s->batch - first : s->rows;
    long wide = s->gates * s->size;
    FS *dh = (FS *)scratch, *dc = dh + s->rows * s->stride, *z = dc + s->rows * s->stride,
       *du = z + TALL * s->width * FL;
    char *const *out = arg + 4 + s->started;
    const struct F(backward) of = {arg[1], arg[2], arg[3], arg[4], out[0]};
    __builtin_memset(scratch, 0, (unsigned long)(2 * s->rows * s->stride) * sizeof(FS));
    if (s->ends) F(bring_states)(s, of.dy, first, rows, s->steps + 1, s->steps, dc);
    for (long i = s->steps - 1; i >= 0; i--) {
        long step = s->reverse ? s->steps - 1 - i : i, back = s->reverse ? 1 : -1;
        long before = i ? step + back : -1;
        for (long r = 0, at = 0; r < rows; r++, at += s->stride)
            F(retreat)(s, of, first + r, step, before, dh + at, dc + at, du + r * wide);
        for (long panel = 0; (i || s->started) && panel < s->panels; panel++) {
            const FS *w = (const FS *)packed + panel * s->terms * s->width * FL;
            for (long r = 0, n; r < rows; r += n) {
                n = F(products)(s, rows - r, du + r * wide, wide, w, z);
                for (long k = 0; k < n; k++)
                    for (int v = 0; v < s->width; v++) {
                        long state = (panel * s->width + v) * FL;
                        if (state < s->size)
                            *(FV *)(dh + (r + k) * s->stride + state) +=
                                *(const FV *)(z + (k * s->width + v) * FL);
                    }
            }
        }
    }
    for (int k = 0; s->started && k < s->states; k++)
        F(leave_states)(s, out[1], first, rows, s->states, k, k ? dc : dh);
}
#undef PRODUCTS
#undef TALL
#undef TALL_3
#undef TALL_4
