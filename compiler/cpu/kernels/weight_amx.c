/* Weight gradients of bf16 pairs by AMX, in place of weight_pairs.c. The sums of a tap block are
 * a matrix of dy's channels by x's. So the operand that must be transposed, the costly step, is
 * dy, which all taps read at the same positions: it is transposed once per block. x's rows
 * already have a right operand's order; two neighbouring positions of the block, shifted by the
 * tap, are paired for each tap block. Complete sums are transposed, 32 by 32 at a time, into the
 * order of weight.c. */
#if HAS_TILES
enum { WORD_BLOCKS = M_BLOCK / 2 / TILE_WORDS, STRIP_FLOATS = WORD_BLOCKS * BLOCK_FLOATS };
_Static_assert(AMX_ROWS == PANEL && TILE_WORDS == LANES, "sums are transposed in place");
_Static_assert(M_BLOCK <= ROW_BLOCK, "a block's positions are rows that are gathered");

/* dy's pairs of a block: [panel][block of pairs][AMX_ROWS][TILE_WORDS], with zeros after its n
 * positions and its last channel. Returns whether all are finite. */
UNUSED int transpose_y(const struct weight_gradient *s, char *const *arg,
                       const struct grad_scratch *t, const struct grad_block *b, long n,
                       float *to) {
    long q = 0, lane = b->panel * PANEL, finite = 1;
    for (long p = 0; p < b->panels; p++, lane += PANEL, to += STRIP_FLOATS) {
        while (lane >= s->y[q].channels) lane -= s->y[q++].channels;
        long stride = s->y[q].channels, lanes = stride - lane < PANEL ? stride - lane : PANEL;
        const bf16 *y = (const bf16 *)arg[s->y[q].arg] + lane;
        for (long m = 0; m < M_BLOCK; m += 2 * TILE_WORDS) {
            bf16 part[2 * TILE_WORDS][PANEL];
            const bf16 *from[2 * TILE_WORDS];
            v_panel most = {0};
            for (long i = 0; i < 2 * TILE_WORDS; i++) {
                from[i] = m + i < n ? y + t->y_pos[m + i] * stride : no_elements;
                if (lanes < PANEL && m + i < n)
                    *(v_panel_any *)part[i] = ld_panel_part(from[i], lanes), from[i] = part[i];
                v_panel x = ld_panel(from[i]) & 0x7fff;
                v_panel more = (v_panel)(x > most);
                most = (x & more) | (most & ~more);
            }
            for (long i = 0; i < PANEL; i++) finite &= most[i] < 0x7f80;
            for (long half = 0; half < PANEL; half += TILE_WORDS) {
                transpose_terms(from, to + m / (2 * TILE_WORDS) * BLOCK_FLOATS + half * TILE_WORDS);
                for (long i = 0; i < 2 * TILE_WORDS; i++) from[i] += TILE_WORDS;
            }
        }
    }
    return (int)finite;
}

/* The positions of x that the block's positions read at a tap block's tap, or -1. Returns the
 * blocks of pairs that read any, a bit each. */
INLINE unsigned meet(const struct weight_gradient *s, const struct grad_scratch *t, int group,
                     long n, long *at) {
    const int plane = s->kernel[1] * s->kernel[2],
              k[3] = {group / plane * s->dilation[0],
                      group / s->kernel[2] % s->kernel[1] * s->dilation[1],
                      group % s->kernel[2] * s->dilation[2]};
    long by = ((long)k[0] * s->in[1] + k[1]) * s->in[2] + k[2];
    unsigned some = 0;
    for (const struct grad_line *l = t->line; l < t->line + t->lines; l++) {
        int there = (unsigned)(l->at[0] + k[0]) < (unsigned)s->in[0] &&
                    (unsigned)(l->at[1] + k[1]) < (unsigned)s->in[1];
        long w = l->at[2] + k[2], step = s->scale[2], from = w < 0 ? (-w + step - 1) / step : 0,
             end = s->in[2] > w ? (s->in[2] - w + step - 1) / step : 0;
        if (!there || from >= l->n) from = end = l->n;
        if (end > l->n) end = l->n;
        if (end < from) end = from;
        long *to = at + l->from;
        for (long i = 0; i < from; i++) to[i] = -1;
        for (long i = from; i < end; i++) to[i] = l->x + by + i * step;
        for (long i = end; i < l->n; i++) to[i] = -1;
        for (long i = (l->from + from) / (2 * TILE_WORDS); i * 2 * TILE_WORDS < l->from + end; i++)
            some |= end > from ? 1u << i : 0;
    }
    for (long m = n; m < M_BLOCK; m++) at[m] = -1;
    return some;
}

/* im2col rows for few channels: a position's row has a tap block's taps side by side, with zeros
 * for out-of-bounds taps. The rows are after the packed pairs, as one part of item_rows
 * channels. */
INLINE float *im2col_rows(const struct weight_gradient *s, struct grad_scratch *t) {
    return t->data + (s->item_rows / AMX_ROWS + s->item_panels) * STRIP_FLOATS;
}
INLINE long im2col_floats(const struct weight_gradient *s) {
    return s->gather ? M_BLOCK * s->item_rows / 2 + LANES : 0;
}

/* x's pairs: [panel of x's channels][M_BLOCK / 2][PANEL]; for a part whose first channel is row
 * `row`. */
UNUSED void pair_part(const bf16 *x, long channels, long row, const struct grad_block *b,
                      const long *at, long n, float *to) {
    long c = row < 0 ? -row : 0, end = row + channels < b->rows ? channels : b->rows - row;
    for (long some; c < end; c += some) { /* within a panel */
        long r = row + c, lane = r % PANEL;
        some = end - c < PANEL - lane ? end - c : PANEL - lane;
        float *panel = to + r / PANEL * (M_BLOCK / 2) * PANEL;
        for (long m = 0; m < n; m += 2, panel += PANEL) {
            const bf16 *first = at[m] < 0 ? no_elements : x + at[m] * channels + c,
                       *second = at[m + 1] < 0 ? no_elements : x + at[m + 1] * channels + c;
            if (lane == 0)
                pair_rows(ld_panel_part(first, some), ld_panel_part(second, some), panel);
            else
                for (long i = 0; i < some; i++)
                    __builtin_memcpy(panel + lane + i, &(bf16[2]){first[i], second[i]},
                                     sizeof *panel);
        }
    }
}
UNUSED void pair_x(const struct weight_gradient *s, char *const *arg, struct grad_scratch *t,
                   const struct grad_block *b, long n, float *to) {
    if (s->gather) {
        pair_part((const bf16 *)im2col_rows(s, t), s->item_rows, 0, b, t->x_at, n, to);
        return;
    }
    long row = -b->row;
    for (long q = 0; q < s->nx; row += s->x[q++].channels)
        pair_part((const bf16 *)arg[s->x[q].arg], s->x[q].channels, row, b, t->x_at, n, to);
}

/* Adds a position of dy, at y_pos[m], for one tap, whose x is at x_at, to rows from `row` on. */
UNUSED void sum_at_tap(const struct weight_gradient *s, char *const *arg,
                       const struct grad_scratch *t, const struct grad_block *b, long m, long x_at,
                       long row, float *sum) {
    struct array x = from_element(PART_OF(arg, *s->x), x_at * s->channels);
    long q = 0, lane = b->panel * PANEL;
    for (long p = 0; p < b->panels; p++, lane += PANEL) {
        while (lane >= s->y[q].channels) lane -= s->y[q++].channels;
        long stride = s->y[q].channels, lanes = stride - lane < PANEL ? stride - lane : PANEL;
        struct array y = from_element(PART_OF(arg, s->y[q]), t->y_pos[m] * stride + lane);
        for (long c = 0; c < s->channels; c++) {
            long r = row + c;
            float *own = sum + (p * s->item_rows + r / PANEL * PANEL) * PANEL + r % PANEL;
            for (long i = 0; i < lanes; i++) own[i * PANEL] += element(x, c) * element(y, i);
        }
    }
}

/* Builds the im2col rows of the block's n positions, and their offsets as for meet().
 * Out-of-bounds taps contribute nothing: where dy may not be finite, the in-bounds taps are
 * summed at once instead of a row with zeros. */
UNUSED unsigned im2col_taps(const struct weight_gradient *s, char *const *arg,
                            struct grad_scratch *t, const struct grad_block *b, long group, long n,
                            int finite, float *sum) {
    struct contraction from = *s->gather;
    from.taps += group * s->run;
    struct rows row;
    struct reach reach = reach_of(&from, s->run);
    struct array x = PART_OF(arg, *s->x);
    bf16 *to = (bf16 *)im2col_rows(s, t);
    long last = last_base(&from, &reach, s->channels);
    for (const struct grad_line *l = t->line; l < t->line + t->lines; l++)
        for (long i = 0; i < l->n; i++) {
            row.base[l->from + i] = l->x + i * s->scale[2];
            for (int k = 0; k < 3; k++)
                row.at[k][l->from + i] = l->at[k] + (k == 2 ? (int)i * s->scale[2] : 0);
        }
    for (long m = 0; m < M_BLOCK; m++) {
        t->x_at[m] = m < n && (finite || reaches_inside(&from, &row, m, &reach)) ? m : -1;
        if (t->x_at[m] == m)
            im2col_row(&from, &row, m, x,
                       reaches_inside(&from, &row, m, &reach) && row.base[m] * s->channels <= last,
                       s->channels, s->run, s->dilation[2] == 1 ? s->kernel[2] : 1,
                       (float *)(to + m * s->item_rows));
        for (long i = 0; i < s->run && m < n && t->x_at[m] < 0; i++) {
            const int *at = from.taps[i].at;
            int inside = 1;
            for (int k = 0; k < 3; k++)
                inside &= (unsigned)(row.at[k][m] + at[k]) < (unsigned)s->in[k];
            if (inside)
                sum_at_tap(s, arg, t, b, m, row.base[m] + elements_to(&from, at, 1),
                           i * s->channels, sum);
        }
    }
    return (1u << word_blocks((n + 1) / 2)) - 1;
}

/* A block of dy's pairs without positions that read no x: those must not turn an infinity into a
 * NaN. */
INLINE const float *only_met(const float *y, const long *at, float *to) {
    vw both = {0};
    for (long i = 0; i < TILE_WORDS; i++)
        both[i] = (at[2 * i] < 0 ? 0 : 0xffff) | (at[2 * i + 1] < 0 ? 0 : -0x10000);
    for (long i = 0; i < BLOCK_FLOATS; i += LANES) st(to + i, (vf)((vw)ld(y + i) & both));
    return to;
}

/* Adds n positions to sum[group][panel of dy][panel of x][AMX_ROWS][PANEL], in the order of
 * item_rows. */
UNUSED void sum_block_amx(const struct weight_gradient *s, char *const *arg, struct grad_scratch *t,
                          const struct grad_block *b, long n, float *sum) {
    long panels = (b->rows + PANEL - 1) / PANEL, products = s->item_groups * b->panels * panels,
         done = 0, prefetched = 0;
    float *y = t->data, *x = y + s->item_panels * STRIP_FLOATS;
    float met[BLOCK_FLOATS] __attribute__((aligned(64)));
    int finite = transpose_y(s, arg, t, b, n, y);
    begin_tiles();
    for (int g = (int)b->group; g < b->group + s->item_groups; g++) {
        unsigned some =
            s->gather ? im2col_taps(s, arg, t, b, g, n, finite, sum) : meet(s, t, g, n, t->x_at);
        if (some) pair_x(s, arg, t, b, 2 * whole_blocks((n + 1) / 2), x);
        for (long p = 0; p < b->panels && some; p++)
            for (long q = 0; q < panels; q++) {
                float *own = sum + (p * s->item_rows + q * PANEL) * PANEL;
                begin_strip(own, PANEL, 1);
                for (long i = 0; i < WORD_BLOCKS; i++) {
                    if (!(some >> i & 1)) continue;
                    const float *block = y + p * STRIP_FLOATS + i * BLOCK_FLOATS;
                    if (!finite) block = only_met(block, t->x_at + i * 2 * TILE_WORDS, met);
                    add_block(block, x + (q * (M_BLOCK / 2) + i * TILE_WORDS) * PANEL);
                }
                end_strip(own, PANEL);
                for (done++; prefetched * products < done * n; prefetched++)
                    prefetch_after(s, arg, t, b, prefetched, n);
            }
        sum += (long)s->item_panels * s->item_rows * PANEL;
    }
    end_tiles();
}

/* The sums of a work item, in weight.c's order: [group][panel of dy][row][PANEL]. */
UNUSED void transpose_sums(const struct weight_gradient *s, float *sum) {
    float at[PANEL * PANEL] __attribute__((aligned(64)));
    long all = (long)s->item_groups * s->item_panels * s->item_rows / PANEL;
    for (long n = 0; n < all; n++, sum += PANEL * PANEL) {
        for (long i = 0; i < PANEL; i += LANES)
            for (long j = 0; j < PANEL; j += LANES)
                transpose_block((struct array){sum, F32}, i * PANEL + j, PANEL, at + j * PANEL + i,
                                PANEL);
        for (long i = 0; i < PANEL * PANEL; i += LANES) st(sum + i, ld(at + i));
    }
}
#endif
