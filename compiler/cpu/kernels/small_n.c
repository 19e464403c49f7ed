/* Convolutions into few channels (small N); after contract.c. Lanes lie along the input
 * channels, so that no lane is idle, and are summed at the end. */

/* packed[made][tap][channel], channels rounded up to whole vectors, zeros after the last. Work
 * item: one output channel. */
ENTRY void small_n_weight(const struct contraction *s, struct array w, long made, float *packed) {
    long whole = (s->reduced + LANES - 1) / LANES * LANES, o = s->weight_start * PANEL + made;
    for (long tap = 0; tap < s->weight_taps; tap++)
        for (long c = 0; c < whole; c++)
            packed[(made * s->weight_taps + tap) * whole + c] =
                c < s->reduced
                    ? element(w, ((o / PANEL * s->weight_taps + tap) * s->weight_channels + c) *
                                         PANEL +
                                     o % PANEL)
                    : 0;
}

#define NARROW_ZERO(r) vf c##r = {0};
#define NARROW_AT(r)   const struct array a##r = {s->a[r], type};
#define NARROW_STEP(r) c##r += load(a##r, k) * b;
#define NARROW_PART(r) c##r += load_part(a##r, k, s->n - k) * b;
#define NARROW_OUT(r)  acc[r * PANEL] = sum_lanes(c##r);
/* acc[TILE_ROWS][PANEL]: the sum over all K panels, in the first lane of each row; b: weights of
 * one output channel. */
INLINE void small_n_sum(const struct stretch *s, long n, int type, float *acc) {
    ROWS(NARROW_ZERO)
    for (const struct stretch *end = s + n; s < end; s++) {
        ROWS(NARROW_AT)
        long k = 0;
        for (; k + LANES <= s->n; k += LANES) {
            vf b = ld(s->b + k);
            ROWS(NARROW_STEP)
        }
        if (k < s->n) {
            vf b = ld(s->b + k);
            ROWS(NARROW_PART)
        }
    }
    ROWS(NARROW_OUT)
}
/* Dispatches on the rows' element type. */
HOT void small_n_tile(const struct stretch *s, long n, int type, float *acc) {
    (void)type; /* in a source without 16-bit types */
    IF_F16(type, {
        small_n_sum(s, n, F16, acc);
        return;
    })
    IF_BF16(type, {
        small_n_sum(s, n, BF16, acc);
        return;
    })
    small_n_sum(s, n, F32, acc);
}

/* A block of rows, all output channels. One part; out-of-bounds taps are left out. */
struct small_n_scratch {
    struct rows row;
    float acc[TILE_ROWS * PANEL];
    struct stretch stretch[];
};

ENTRY void small_n_item(const struct contraction *s, char *const *arg, const float *packed,
                        long item, char *scratch, rows_fn *epilogue, double *sums) {
    struct small_n_scratch *t = (void *)scratch;
    const struct positions *p = s->positions;
    long rows = fill_rows(s, p, item * ROW_BLOCK, &t->row, ROW_BLOCK), channels = s->part->channels,
         whole = (channels + LANES - 1) / LANES * LANES, bytes = bytes_of(s->part->type);
    for (long r = 0; r < rows; r += TILE_ROWS) {
        long some = 0, at[ROW_LANES];
        find_offsets(&t->row, r, channels * bytes, at);
        for (long i = 0; i < p->taps; i++) {
            const struct tap *tap = s->taps + i;
            v_rows in = inside(s, &t->row, r, tap);
            long by = ((long)tap->at[0] * s->in[1] + tap->at[1]) * s->in[2] + tap->at[2];
            struct piece piece = {.tap = tap,
                                  .x = arg[s->part->arg] + by * channels * bytes,
                                  .type = s->part->type,
                                  .b = packed + i * whole,
                                  .step = channels,
                                  .n = channels};
            if (any(in)) point_rows(&piece, at, in, t->stretch + some++);
        }
        for (long made = 0; made < s->channels; made++) {
            small_n_tile(t->stretch, some, s->part->type, t->acc + made);
            for (long i = 0; i < some; i++) t->stretch[i].b += s->weight_taps * whole;
        }
        epilogue(arg, t->acc, &t->row, r, rows - r < TILE_ROWS ? rows - r : TILE_ROWS, 0,
                 s->channels, sums);
    }
}
