/* Weight gradients: partitions the sums into work items, and writes the epilogue of a block of
 * sums. The loops are in compiler/cpu/kernels/weight.c. */
#include "compiler/cpu/emit_windows.h"
#include "compiler/cpu/operands.h"
#include "compiler/cpu/partials.h"
#include "ir/kernel/winograd.h"

enum {
    /* of struct grad_scratch, per position: twelve numbers, five of them of 8 bytes */
    GRAD_INTS = 17,
    GRAD_HEAD = 16,     /* of it, once */
    PANEL_FLOATS = 256, /* lanes that a block should have, so that packing x pays */
    FEW_ROWS = 64,      /* rows that it should have, so that packing dy pays */
    DIRECT_PANELS = 3,  /* fewer than four panels of the same rows do not pay for packing x */
    /* rows of few channels at all taps, so that im2col rows pay */
    LEAST_IM2COL = 2 * DL_AMX_ROWS,
    MOST_IM2COL = 256, /* with as many rows of few channels at several taps, planes of taps are
                            packed separately */
};

static int64_t count_blocks(const dl_wgrad_problem *g) {
    return g->groups / g->item_groups * dl_ceil_div(g->panels, g->item_panels) *
           dl_ceil_div(g->rows, g->item_rows);
}

/* Is it computed by AMX strips? Then rows are whole strips. */
static bool by_amx(const dl_target *t, const dl_wgrad_problem *g) { return g->pairs && t->tiles; }

/* Rows that are packed together. */
static int64_t tile_rows(const dl_target *t, const dl_wgrad_problem *g) {
    return by_amx(t, g) ? DL_AMX_ROWS : t->grad_rows;
}

/* Do the accumulators of a block: of its taps, or of a tile's products? */
static bool fits(const dl_target *t, const dl_wgrad_problem *g) {
    int64_t kept = g->winograd ? DL_WINOGRAD_POINTS : g->item_groups;
    return kept * g->item_panels * g->item_rows * t->panel * 4 <= DL_GRAD_ACC;
}

/* With few channels of bf16 pairs, all taps of a position become one im2col row, if it is long
 * enough. Shorter ones are as fast as floats, which read the taps along W together
 * (docs/notebook/precision.md). */
static bool is_im2col(const dl_target *t, const dl_wgrad_problem *g) {
    return t->tiles && g->pairs && g->nx == 1 && g->channels < DL_RUN_BELOW &&
           g->kernel[0] * g->kernel[1] * g->kernel[2] * g->channels > LEAST_IM2COL;
}

/* Does each lane read all of x's channels? Then the channels of neighbouring taps are
 * contiguous. */
static bool reads_all_channels(const dl_wgrad_problem *g) {
    return g->k_ranges.n == 1 && g->k_ranges.vectors == 1 && !g->k_ranges.multi_group;
}

/* Taps per tap block. */
static int64_t find_run(const dl_target *t, const dl_wgrad_problem *g) {
    if (!is_im2col(t, g))
        return reads_all_channels(g) && g->channels < DL_RUN_BELOW && g->dilation[2] == 1
                   ? dl_at_least(1, g->kernel[2])
                   : 1;
    int64_t run = g->kernel[2];
    for (int i = 1; i >= 0 && run * g->kernel[i] * g->channels <= MOST_IM2COL; i--)
        run *= g->kernel[i];
    return run;
}

/* Blocks of taps of a plane, whose rows and panels each are transformed for all of the others: many
 * of both. */
static void shrink_winograd_block(const dl_target *t, dl_wgrad_problem *g) {
    g->item_groups = DL_WINOGRAD_TAPS;
    while (g->item_panels * t->panel > DL_WINOGRAD_LANES && !fits(t, g))
        g->item_panels = dl_ceil_div(g->item_panels, 2);
    while (!fits(t, g) && g->item_rows > t->rows)
        g->item_rows = dl_round_up(dl_ceil_div(g->item_rows, 2), t->rows);
}

static void shrink_block(const dl_target *t, dl_wgrad_problem *g) {
    int64_t wide = PANEL_FLOATS / t->panel;
    bool runs = g->run > 1; /* tap blocks whose rows stay together */
    bool whole = runs || g->k_ranges.multi_group;
    g->item_groups = g->im2col ? 1 : runs ? g->kernel[1] : g->kernel[2];
    while (g->item_panels > wide) g->item_panels = dl_ceil_div(g->item_panels, 2);
    while (!whole && g->item_rows >= 2 * FEW_ROWS && !fits(t, g))
        g->item_rows = dl_round_up(dl_ceil_div(g->item_rows, 2), tile_rows(t, g));
    if (!fits(t, g)) g->item_groups = 1;
    while (!fits(t, g) && g->item_panels > 1) g->item_panels = dl_ceil_div(g->item_panels, 2);
}

/* Chooses blocks of sums that stay in cache: first many panels, then rows, then tap blocks that
 * share positions. Where there are too few blocks, the positions are split, too (split-K). */
static void find_items(const dl_target *t, dl_wgrad_problem *g) {
    g->im2col = is_im2col(t, g);
    g->run = find_run(t, g), g->rows = g->run * g->channels;
    g->pairs &= g->im2col || g->run == 1; /* taps out of bounds are tested one by one */
    g->groups = g->kernel[0] * g->kernel[1] * g->kernel[2] / g->run;
    g->panels = dl_ceil_div(g->lanes, t->panel);
    g->item_groups = dl_at_least(1, g->groups);
    g->item_panels = dl_at_least(1, g->panels);
    g->item_rows = dl_at_least(1, g->rows);
    if (by_amx(t, g)) g->item_rows = dl_round_up(g->item_rows, DL_AMX_ROWS);
    if (g->winograd)
        shrink_winograd_block(t, g);
    else if (!fits(t, g))
        shrink_block(t, g);
    g->blocks = count_blocks(g);
    int64_t positions = g->batch * g->out[0] * g->out[1] * g->out[2];
    g->splits = dl_cpu_weight_splits(g->blocks, positions);
    int64_t readers = dl_at_most(g->k_ranges.panels_a_range, g->item_panels);
    g->direct =
        g->winograd || (!g->packs && g->nx == 1 && g->groups > 1 && readers <= DIRECT_PANELS);
    g->height =
        g->direct ? dl_ceil_div(g->item_rows, dl_ceil_div(g->item_rows, t->rows)) : tile_rows(t, g);
}

/* The table <kernel>_gather: how im2col rows are built. Returns its name, or "0". */
static const char *put_gather(dl_emitter *e, const dl_wgrad_problem *g) {
    if (!g->im2col) return "0";
    const char *name = DL_OWN_NAME;
    const int64_t *k = g->kernel, *by = g->dilation;
    dl_putf(e->out, "static const struct tap %s_taps[] = {\n", name);
    for (int64_t i = 0; i < k[0] * k[1] * k[2]; i++)
        dl_putf(e->out, "{%lld, {%lld, %lld, %lld}},%s", (long long)i,
                (long long)(i / (k[1] * k[2]) * by[0]), (long long)(i / k[2] % k[1] * by[1]),
                (long long)(i % k[2] * by[2]), i % 4 == 3 ? "\n" : " ");
    dl_putf(e->out, "};\nstatic const struct contraction %s_gather = {.batch = %lld, ", name,
            (long long)g->batch);
    dl_emit_three(e->out, "in", g->in);
    dl_putf(e->out, ".pairs = 1, .taps = %s_taps};\n", name);
    return dl_format(e->arena, "&%s_gather", name);
}

void dl_emit_wgrad(dl_emitter *e, dl_wgrad_problem *g, dl_emitted *code) {
    code->needs[DL_NEED_LOOPS] |= DL_LOOPS_WEIGHT;
    const char *name = DL_OWN_NAME;
    find_items(e->t, g);
    const char *gather = put_gather(e, g);
    int64_t tile = tile_rows(e->t, g), panel = e->t->panel,
            sums = g->item_groups * g->item_panels * g->item_rows * panel,
            packed =
                (g->direct ? 0
                           : g->k_ranges.vectors * dl_round_up(g->item_rows, tile) * DL_M_BLOCK) +
                g->item_panels * DL_M_BLOCK * panel;
    if (by_amx(e->t, g)) packed /= 2; /* pairs of two positions */
    if (g->im2col) packed += DL_M_BLOCK * g->item_rows / 2 + e->t->lanes;
    dl_putf(e->out, "static const struct weight_gradient %s_shape = {.batch = %lld, ", name,
            (long long)g->batch);
    dl_emit_three(e->out, "in", g->in), dl_emit_three(e->out, "out", g->out);
    dl_emit_three(e->out, "scale", g->scale), dl_emit_three(e->out, "dilation", g->dilation);
    dl_emit_three(e->out, "pad", g->pad), dl_emit_three(e->out, "kernel", g->kernel);
    dl_putf(e->out,
            ".nx = %d, .ny = %d, .x = %s_x, .y = %s_y, .channels = %lld, .panels_a_range = %lld, "
            ".k_ranges = "
            "%s_k_ranges, "
            ".vectors = %d, .run = %lld, .rows = %lld, ",
            g->nx, g->ny, name, name, (long long)g->channels, (long long)g->k_ranges.panels_a_range,
            name, g->k_ranges.vectors, (long long)g->run, (long long)g->rows);
    dl_putf(e->out,
            ".panels = %lld, .groups = %lld, .item_groups = %lld, .item_rows = %lld, .item_panels "
            "= %lld, "
            ".splits = %lld, .direct = %d, .height = %lld, .pairs = %d, .gather = %s};\n",
            (long long)g->panels, (long long)g->groups, (long long)g->item_groups,
            (long long)g->item_rows, (long long)g->item_panels, (long long)g->splits, g->direct,
            (long long)g->height, g->pairs, gather);
    dl_putf(e->out, "_Static_assert(sizeof(struct grad_scratch) == %d, \"scratch\");\n",
            (DL_M_BLOCK * GRAD_INTS + GRAD_HEAD) * 4);
    code->phases = 1, code->items[0] = g->blocks * g->splits;
    code->scratch = (DL_M_BLOCK * GRAD_INTS + GRAD_HEAD + packed + (g->splits > 1 ? 0 : sums)) * 4;
    if (g->winograd) dl_emit_winograd_scratch(e, g, code);
    dl_emit_head(e, 0);
    if (g->splits == 1)
        dl_emit_item_sums(e, g->blocks, code);
    else
        dl_puts(e->out, "    double *sums = 0;\n");
    dl_putf(e->out, "    %s(&%s_shape, arg, item, scratch, workspace, %s_block, sums);\n}\n",
            g->winograd ? "winograd_gradient_item" : "gradient_item", name, name);
    if (g->splits == 1) return;
    code->phases = 2, code->items[1] = g->blocks;
    code->workspace = g->blocks * g->splits * sums * 4;
    if (code->scratch < sums * 4) code->scratch = sums * 4;
    dl_emit_head(e, 1);
    dl_emit_item_sums(e, g->blocks, code);
    dl_putf(e->out,
            "    gradient_splits(&%s_shape, arg, item, scratch, workspace, %s_block, sums);\n}\n",
            name, name);
}

void dl_emit_panel_body(dl_emitter *e, const dl_conv_problem *s) {
    e->flat = true;
    if (s->weight_o % e->t->panel)
        e->points = dl_format(e->arena, "panel_points(x0, %lldL, %lldL)", (long long)s->weight_o,
                              (long long)(s->taps * s->weight_c));
    dl_emit_body(e);
    e->points = NULL;
}

/* Writes the head of the epilogue of a block's sums, up to the loop over its panels; the caller
 * writes the body, for sum[rows][PANEL] with panels `step` apart. */
static void open_block(dl_emitter *e, const char *warmth) {
    dl_putf(e->out,
            "static %svoid %s_block(char *const *arg, long group, long panel, long panels, long "
            "row, long "
            "rows, const float *sum, long step, double *sums) {\n    (void)row, (void)rows, "
            "(void)sums;\n",
            warmth, DL_OWN_NAME);
}

/* Sums in the order of the weight, which is read and written contiguously. */
static void put_block(dl_emitter *e, const dl_conv_problem *s, int64_t run) {
    open_block(e, dl_emit_warmth(e));
    const char *sums = dl_emit_take_sums(e);
    dl_putf(e->out,
            "    for (long end = panel + panels; panel < end; panel++, sum += step)\n"
            "        for (long i = 0; i < rows * PANEL; i += LANES)\n"
            "            %s_body(arg, ((panel * %lldL + group * %lldL) * %lldL + row) * PANEL + i, "
            "LANES, sum "
            "+ i, %s);\n",
            DL_OWN_NAME, (long long)s->taps, (long long)run, (long long)s->weight_c, sums);
    dl_emit_give_sums(e);
    dl_puts(e->out, "}\n");
}

/* Multi-group vectors: rows are the channels that a vector of lanes reads, and each lane takes
 * those of its group. */
static void put_multi_group_block(dl_emitter *e, const dl_conv_problem *s, int64_t run) {
    const char *name = DL_OWN_NAME;
    open_block(e, "");
    dl_putf(
        e->out,
        "    for (long end = panel + panels; panel < end; panel++, sum += step)\n"
        "        for (long c = 0; c < %lldL; c++) {\n"
        "            float acc[PANEL];\n"
        "            pick_channel(%s_k_ranges + panel, %lldL, %lldL, %lldL, panel, c, sum, acc);\n"
        "            for (long i = 0; i < PANEL; i += LANES)\n"
        "                %s_body(arg, ((panel * %lldL + group * %lldL) * %lldL + c) * PANEL + "
        "i, LANES, "
        "acc + i, sums);\n        }\n}\n",
        (long long)s->weight_c, name, (long long)(s->weight_o / s->c->windows.groups),
        (long long)s->weight_c, (long long)s->weight_o, name, (long long)s->taps, (long long)run,
        (long long)s->weight_c);
}

/* Swapped operands: rows are dy's few channels by mirrored taps, lanes are x's channels. */
static void put_swapped_block(dl_emitter *e, const dl_conv_problem *s, int64_t run) {
    open_block(e, "");
    dl_putf(e->out,
            "    for (long end = panel + panels; panel < end; panel++, sum += step)\n"
            "    for (long tap = 0; tap < %lldL; tap++)\n"
            "        for (long c = panel * PANEL; c < %lldL && c < (panel + 1) * PANEL; c++) {\n"
            "            float acc[PANEL] = {0};\n"
            "            for (long o = 0; o < %lldL; o++) acc[o] = sum[(tap * %lldL + o) * PANEL + "
            "c %% "
            "PANEL];\n"
            "            for (long i = 0; i < PANEL; i += LANES)\n"
            "                %s_body(arg, ((%lldL - group * %lldL - tap) * %lldL + c) * PANEL + i, "
            "LANES, acc + "
            "i, sums);\n        }\n}\n",
            (long long)run, (long long)s->weight_c, (long long)s->weight_o, (long long)s->weight_o,
            DL_OWN_NAME, (long long)(s->taps - 1), (long long)run, (long long)s->weight_c);
}

/* Where dy has few channels and x many, they are swapped: x's position p corresponds to dy's p +
 * pad - tap. */
static bool is_swapped(const dl_conv_problem *s, int nx) {
    return s->c->windows.groups == 1 && s->weight_o < DL_RUN_BELOW && s->weight_c > s->weight_o &&
           nx == 1 && s->size.stride[0] == 1 && s->size.stride[1] == 1 && s->size.stride[2] == 1;
}

void dl_emit_wgrad_kernel(dl_emitter *e, const dl_conv_problem *s, dl_emitted *code) {
    int x = dl_op_place(s->c->op, DL_TENSOR_X), y = dl_op_place(s->c->op, DL_TENSOR_Y);
    bool transposed = is_swapped(s, s->c->nparts[x]);
    dl_wgrad_problem g = {.batch = s->size.samples,
                          .nx = s->c->nparts[transposed ? y : x],
                          .ny = s->c->nparts[transposed ? x : y]};
    g.channels = transposed ? s->weight_o : s->weight_c,
    g.lanes = transposed ? s->weight_c : s->weight_o;
    for (int i = 0; i < 3; i++) {
        g.in[i] = transposed ? s->size.out[i] : s->size.in[i],
        g.out[i] = transposed ? s->size.in[i] : s->size.out[i];
        g.scale[i] = s->size.stride[i], g.dilation[i] = s->size.dilation[i],
        g.kernel[i] = s->size.tap[i];
        g.pad[i] = transposed ? (s->size.tap[i] - 1) * s->size.dilation[i] - s->size.pad_lo[i]
                              : s->size.pad_lo[i];
    }
    int64_t groups = s->c->windows.groups, all = groups * s->weight_c;
    g.k_ranges = dl_find_k_ranges(e->arena, e->t, g.lanes, groups, g.channels);
    if (groups > 1) dl_k_ranges_equalize(&g.k_ranges, all), g.channels = g.k_ranges.terms;
    g.packs = dl_conv_part(e->k, s->c, transposed ? y : x, 0)->dtype != DL_F32;
    g.pairs = dl_cpu_pairs(e->k, e->t) && !(groups > 1 && e->t->tiles);
    g.winograd = dl_cpu_by_winograd(e->k, e->t);
    dl_emit_parts(e, s, transposed ? y : x, "x");
    dl_emit_parts(e, s, transposed ? x : y, "y");
    dl_emit_panel_body(e, s);
    dl_emit_k_ranges(e, &g.k_ranges);
    (transposed               ? put_swapped_block
     : g.k_ranges.multi_group ? put_multi_group_block
                              : put_block)(e, s, find_run(e->t, &g));
    dl_emit_wgrad(e, &g, code);
}
