/* Input gradients (transposed convolutions) into few channels, such as a U-Net's last layer: all
 * stride phases of the output share one GEMM. Its columns are (stride phase, channel); row j
 * yields the outputs step * j + shift of each phase. */
struct interleaved {
    const struct contraction *rows; /* a convolution with the columns as channels; its packed weight
                                       is in the workspace */
    int stride_phases, channels, panels; /* panels: of the weight's first axis */
    const struct positions *out;         /* step and shift of each stride phase */
    const int *tap_of;                   /* [stride phase][tap]: the weight's tap */
};

/* Packs the weight: packed[column panel][tap][o][lane]. Work item: one panel of o. */
ENTRY void interleaved_weight(const struct interleaved *f, struct array w, long item,
                              float *packed) {
    const struct contraction *s = f->rows;
    long taps = s->positions->taps, width = PANEL; /* K elements per panel */
    IF_PAIRS(s->pairs, { w.type = PAIR, width = PANEL / 2; })
    long most = s->reduced - item * width < width ? s->reduced - item * width : width;
    for (long column = 0; column < s->columns; column++)
        for (long tap = 0; tap < taps; tap++)
            for (long i = 0; i < most; i++) {
                float *to =
                    packed + ((column * taps + tap) * s->reduced + item * width + i) * PANEL;
                for (long lane = 0; lane < PANEL; lane++) {
                    long at = column * PANEL + lane, stride_phase = at / f->channels,
                         c = at % f->channels;
                    to[lane] = 0;
                    if (stride_phase >= f->stride_phases) continue;
                    int from = f->tap_of[stride_phase * taps + tap];
                    to[lane] = element(
                        w, ((item * s->weight_taps + from) * s->weight_channels + c) * width + i);
                }
                IF_PAIRS(s->pairs && 2 * (item * width + i + 1) > s->summed, keep_first(to);)
            }
}

/* A block of rows, all columns. Scratch: accumulators [columns][ROW_BLOCK][PANEL], the rows, one
 * row of all columns. */
ENTRY void interleaved_item(const struct interleaved *f, char *const *arg, const float *packed,
                            long item, char *scratch, point_fn *point, double *sums) {
    const struct contraction *s = f->rows;
    float *acc = (float *)scratch, *line = acc + (long)s->columns * ROW_BLOCK * PANEL;
    struct rows *row = (void *)(line + (s->columns + 1) * PANEL);
    const struct positions *p = s->positions;
    long n = fill_rows(s, p, item * ROW_BLOCK, row, ROW_BLOCK);
    struct columns c = {.of = s,
                        .positions = p,
                        .row = row,
                        .rows = n,
                        .channels = s->reduced,
                        .depth = s->reduced,
                        .columns = 1};
    for (long column = 0; column < s->columns; column++) {
        c.b = packed + column * p->taps * s->reduced * PANEL;
        sum_columns(&c, arg, acc + column * ROW_BLOCK * PANEL, sums);
    }
    for (long r = 0; r < n; r++) {
        for (long column = 0; column < s->columns; column++)
            for (long i = 0; i < PANEL; i += LANES)
                st(line + column * PANEL + i, ld(acc + (column * ROW_BLOCK + r) * PANEL + i));
        for (long stride_phase = 0; stride_phase < f->stride_phases; stride_phase++) {
            const struct positions *o = f->out + stride_phase;
            long at[4] = {row->out[0][r]};
            int in = 1;
            for (int k = 0; k < 3; k++) {
                at[1 + k] = (long)row->out[1 + k][r] * o->step[k] + o->shift[k];
                in &= (unsigned long)at[1 + k] < (unsigned long)s->out[k];
            }
            if (in) point(arg, line + stride_phase * f->channels, at, 0, f->channels, sums);
        }
    }
}
