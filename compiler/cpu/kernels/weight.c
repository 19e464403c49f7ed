/* The loops of weight gradients: work items, blocks, and the in-bounds positions
 * (weight_tiles.c). */
/* A work item's packed data, after its other scratch. */
INLINE float *packed_y(const struct weight_gradient *s, struct grad_scratch *t) {
    return t->data + (s->direct ? 0 : s->vectors * packed_floats(s));
}
INLINE float *item_sums(const struct weight_gradient *s, struct grad_scratch *t) {
    IF_TILES(s->pairs, { return im2col_rows(s, t) + im2col_floats(s); })
    return packed_y(s, t) + (long)s->item_panels * M_BLOCK * PANEL;
}
INLINE long block_size(const struct weight_gradient *s) {
    return (long)s->item_groups * s->item_panels * s->item_rows * PANEL;
}

/* One position where only some taps along W are in bounds, beginning at w. Out-of-bounds taps
 * are skipped: a zero in their place would turn an infinity of dy into a NaN. */
UNUSED void sum_edge(const struct weight_gradient *s, char *const *arg, const float *y,
                     const struct grad_block *b, long x_at, long w, float *sum) {
    long tap = w < 0 ? -w : 0, end = s->in[2] - w < s->run ? s->in[2] - w : s->run;
    for (float *to = sum + tap * s->channels * PANEL; tap < end; tap++)
        for (long q = 0; q < s->nx; q++) {
            long channels = s->x[q].channels;
            struct array x = from_element(PART_OF(arg, s->x[q]), (x_at + tap) * channels);
            for (long c = 0; c < channels; c++, to += PANEL)
                for (long p = 0; p < b->panels; p++)
                    for (long i = 0; i < PANEL; i += LANES) {
                        float *at = to + p * s->item_rows * PANEL + i;
                        st(at, ld(at) + splat(element(x, c)) * ld(y + p * M_BLOCK * PANEL + i));
                    }
        }
}

/* Finds the block's positions that have all taps of a tap block in bounds, whose first tap is k
 * away. Positions with only some taps in bounds are summed at once. */
INLINE long reach(const struct weight_gradient *s, char *const *arg, struct grad_scratch *t,
                  const struct grad_block *b, const int k[3], float *sum) {
    const float *y = packed_y(s, t);
    long some = 0, by = ((long)k[0] * s->in[1] + k[1]) * s->in[2] + k[2], step = s->scale[2];
    for (const struct grad_line *l = t->line; l < t->line + t->lines; l++) {
        if ((unsigned)(l->at[0] + k[0]) >= (unsigned)s->in[0]) continue;
        if ((unsigned)(l->at[1] + k[1]) >= (unsigned)s->in[1]) continue;
        long x = l->x + by, w = l->at[2] + k[2], m = l->from, end = m + l->n;
        for (; m < end && w < 0; m++, x += step, w += step)
            sum_edge(s, arg, y + m * PANEL, b, x, w, sum);
        for (; m < end && w + s->run <= s->in[2]; m++, x += step, w += step)
            t->y_at[some] = (int)m * PANEL, t->x_at[some++] = x;
        for (; m < end && w < s->in[2]; m++, x += step, w += step)
            sum_edge(s, arg, y + m * PANEL, b, x, w, sum);
    }
    return some;
}

/* Adds the packed positions of a tap block to a tile of rows from r on: to[row][PANEL]. y: of
 * its panel. */
INLINE void sum_tile(const struct weight_gradient *s, char *const *arg,
                     const struct grad_scratch *t, const struct grad_block *b,
                     const struct k_range *range, long r, const float *y, long some, float *to) {
    long rows = b->rows - r < s->height ? b->rows - r : s->height, offset = range->vector_offset;
    if (offset && !s->direct) offset = packed_floats(s);
    IF_VECTOR_PAIRS(s->pairs, {
        add_pairs(t->data, r, offset, y, some, rows, to);
        return;
    })
    grad_tile_fn *tile = grad_tiles[rows];
    IF_OFFSET(offset, tile = grad_tiles_offset[rows];)
    if (s->direct)
        tile((const float *)arg[s->x->arg] + range->first + b->row + r, t->x_at, s->x->channels,
             offset, y, t->y_at, some, to);
    else
        tile(t->data + r * M_BLOCK, t->order, GRAD_HEIGHT, offset, y, t->y_at, some, to);
}

/* Adds n positions to sum[group][panel][row][PANEL]. */
UNUSED void sum_block(const struct weight_gradient *s, char *const *arg, struct grad_scratch *t,
                      const struct grad_block *b, long n, float *sum) {
    IF_TILES(s->pairs, {
        sum_block_amx(s, arg, t, b, n, sum);
        return;
    })
    int groups_w = s->kernel[2] / s->run;
    long tiles = s->item_groups * b->panels * ((b->rows + s->height - 1) / s->height), tile = 0,
         prefetched = 0;
    float *y = packed_y(s, t);
    if (!s->pairs) pack_y(s, arg, t, b, n, y);
    for (int g = (int)b->group; g < b->group + s->item_groups; g++) {
        int k[3] = {g / (groups_w * s->kernel[1]) * s->dilation[0],
                    g / groups_w % s->kernel[1] * s->dilation[1], g % groups_w * s->dilation[2]};
        long some = reach(s, arg, t, b, k, sum);
        IF_VECTOR_PAIRS(s->pairs, pack_pairs_y(s, arg, t, b, some, y);)
        const struct k_range *packed = 0;
        for (long p = 0; p < b->panels && some; p++) {
            const struct k_range *range = panel_k_range(s, b->panel + p);
            if (range != packed && !s->direct) {
                IF_VECTOR_PAIRS(s->pairs, pack_pairs_x(s, arg, t, b, range, some);)
                if (!s->pairs) pack_x(s, arg, t, b, range, some);
                packed = range;
            }
            for (long r = 0; r < b->rows; r += s->height) {
                sum_tile(s, arg, t, b, range, r, y + p * M_BLOCK * PANEL, some,
                         sum + (p * s->item_rows + r) * PANEL);
                for (tile++; prefetched * tiles < tile * n; prefetched++)
                    prefetch_after(s, arg, t, b, prefetched, n);
            }
        }
        sum += (long)s->item_panels * s->item_rows * PANEL;
    }
}

/* The sums of a block over dy's positions from `from` to `to`. */
UNUSED void sum_positions(const struct weight_gradient *s, char *const *arg,
                          const struct grad_block *b, long from, long to, struct grad_scratch *t,
                          float *sum) {
    int per_d = s->gather ? s->groups : s->kernel[2] / s->run * s->kernel[1],
        kd = (int)b->group / per_d * s->dilation[0], one_d = !s->gather && s->item_groups <= per_d;
    int at[4]; /* of dy: batch, D, H, W */
    long rest = from, n = 0;
    __builtin_memset(sum, 0, sizeof(float) * (unsigned long)block_size(s));
    if (from == to) return;
    for (int i = 2; i >= 0; i--) at[1 + i] = (int)(rest % s->out[i]), rest /= s->out[i];
    at[0] = (int)rest;
    for (int m = 0; m < M_BLOCK; m++) t->order[m] = m;
    t->lines = 0;
    while (from < to) { /* line by line along W */
        int d = at[1] * s->scale[0] - s->pad[0], h = at[2] * s->scale[1] - s->pad[1];
        long end = from + s->out[2] - at[3] < to ? from + s->out[2] - at[3] : to;
        if (one_d && (unsigned)(d + kd) >= (unsigned)s->in[0]) from = end;
        long x = (((long)at[0] * s->in[0] + d) * s->in[1] + h) * s->in[2];
        int w = at[3] * s->scale[2] - s->pad[2];
        while (from < end) {
            long some = end - from < M_BLOCK - n ? end - from : M_BLOCK - n;
            t->line[t->lines++] = (struct grad_line){x + w, {d, h, w}, (int)n, (int)some};
            for (; some; some--, w += s->scale[2]) t->y_pos[n] = from++, t->x_pos[n++] = x + w;
            if (n == M_BLOCK) sum_block(s, arg, t, b, n, sum), n = t->lines = 0;
        }
        at[3] = 0;
        if (++at[2] == s->out[1] && (at[2] = 0, ++at[1] == s->out[0])) at[1] = 0, at[0]++;
    }
    if (n) sum_block(s, arg, t, b, n, sum);
}

INLINE long count_blocks(int all, int item) { return (all + item - 1) / item; }

/* Blocks in the order of tap blocks, then panels, then rows. */
INLINE struct grad_block block_of(const struct weight_gradient *s, long number) {
    long rows = count_blocks(s->rows, s->item_rows),
         panels = count_blocks(s->panels, s->item_panels);
    struct grad_block b = {.group = number / (rows * panels) * s->item_groups,
                           .row = number % rows * s->item_rows,
                           .panel = number / rows % panels * s->item_panels};
    b.rows = s->rows - b.row < s->item_rows ? s->rows - b.row : s->item_rows;
    b.panels = s->panels - b.panel < s->item_panels ? s->panels - b.panel : s->item_panels;
    return b;
}

UNUSED void epilogue_block(const struct weight_gradient *s, char *const *arg,
                           const struct grad_block *b, const float *sum, block_fn *epilogue,
                           double *sums) {
    long step = (long)s->item_rows * PANEL;
    for (long g = 0; g < s->item_groups; g++)
        epilogue(arg, b->group + g, b->panel, b->panels, b->row, b->rows,
                 sum + g * s->item_panels * step, step, sums);
}

/* A split of a block's positions: stores the sums in the workspace, [block][share]. If it has
 * all positions, it runs the epilogue. */
ENTRY void gradient_item(const struct weight_gradient *s, char *const *arg, long item,
                         char *scratch, char *workspace, block_fn *epilogue, double *sums) {
    struct grad_scratch *t = (void *)scratch;
    struct grad_block b = block_of(s, item / s->splits);
    long split = item % s->splits, all = (long)s->batch * s->out[0] * s->out[1] * s->out[2];
    float *sum = s->splits > 1 ? (float *)workspace + item * block_size(s) : item_sums(s, t);
    sum_positions(s, arg, &b, split * all / s->splits, (split + 1) * all / s->splits, t, sum);
    IF_TILES(s->pairs, transpose_sums(s, sum);)
    if (s->splits == 1) epilogue_block(s, arg, &b, sum, epilogue, sums);
}

/* Adds a block's splits in order, then runs the epilogue. */
ENTRY void gradient_splits(const struct weight_gradient *s, char *const *arg, long item,
                           char *scratch, const char *workspace, block_fn *epilogue, double *sums) {
    struct grad_block b = block_of(s, item);
    long size = block_size(s);
    const float *from = (const float *)workspace + item * s->splits * size;
    float *sum = (float *)scratch;
    for (long i = 0; i < size; i += LANES) {
        vf v = ld(from + i);
        for (long split = 1; split < s->splits; split++) v += ld(from + split * size + i);
        st(sum + i, v);
    }
    epilogue_block(s, arg, &b, sum, epilogue, sums);
}
