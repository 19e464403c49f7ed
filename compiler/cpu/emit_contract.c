/* Kernels around a windowed contraction: constant tables for the loops of
 * compiler/cpu/kernels/contract.c, weight.c and interleaved.c, and the rest of the kernel as an
 * epilogue function of one output position. */
#include "compiler/cpu/emit_windows.h"
#include "compiler/cpu/operands.h"
#include "compiler/cpu/partials.h"

enum { MOST_COLUMNS = 8 }; /* of a work item */

/* Are few channels gathered into im2col rows? All positions must have the same taps. */
static bool is_im2col(const dl_conv_problem *s) {
    bool back = dl_op_tensor(s->c->op, DL_RESULT_PLACE) == DL_TENSOR_X,
         spread = s->size.stride[0] * s->size.stride[1] * s->size.stride[2] > 1;
    return s->c->windows.groups == 1 && s->c->nparts[s->image] == 1 && s->summed < DL_PACK_BELOW &&
           s->taps > 1 && !(back && spread);
}

/* Positions of a work item. */
static int64_t im2col_rows(const dl_emitter *e, const dl_conv_problem *s) {
    return s->pairs ? e->t->row_block : DL_PACK_ROWS;
}

/* The size of struct im2col_scratch: rows, sums, im2col rows, and an N panel's weights where
 * they are converted. */
static int64_t im2col_bytes(const dl_emitter *e, const dl_conv_problem *s) {
    const dl_target *t = e->t;
    int64_t terms = s->taps * s->summed,
            row = s->pairs ? dl_ceil_div(terms, 2 * t->lanes) * t->lanes : terms,
            made = dl_conv_part(e->k, s->c, s->weight, 0)->dtype == DL_F32 ? 0 : row * t->panel;
    return t->row_block * DL_ROW_BYTES +
           (DL_PACK_ROWS * t->panel + im2col_rows(e, s) * row + t->lanes + made) * 4;
}

/* Writes phase `phase`: blocks of rows by `item`, with the weights at the C expression `w`. */
static void put_rows_item(dl_emitter *e, const dl_conv_problem *s, dl_tables t, int phase,
                          const char *w, const char *item, dl_emitted *code) {
    const char *name = DL_OWN_NAME;
    bool back = dl_op_tensor(s->c->op, DL_RESULT_PLACE) == DL_TENSOR_X;
    const int64_t *made = back ? s->size.in : s->size.out;
    int64_t rows = s->size.samples * made[0] * made[1] * made[2];
    code->items[phase] = s->im2col ? dl_ceil_div(rows, im2col_rows(e, s)) : t.items;
    code->scratch = s->im2col ? im2col_bytes(e, s) : dl_emit_rows_scratch(e->t);
    if (dl_emit_by_amx(e, s)) code->scratch += (t.columns - 1) * e->t->row_block * e->t->panel * 4;
    const char *prefetch = dl_emit_prefetch_rows(e);
    dl_emit_head(e, phase);
    if (s->im2col)
        dl_emit_item_sums(e, code->items[phase], code);
    else
        dl_emit_panel_sums(e, s, t, code);
    if (s->im2col)
        dl_putf(
            e->out,
            "    im2col_item(&%s_shape, arg, %s, %lldL, item, scratch, %s_rows, %s, sums);\n}\n",
            name, w, (long long)(s->size.dilation[2] == 1 ? s->size.tap[2] : 1), name, prefetch);
    else
        dl_putf(e->out, "    %s(&%s_shape, arg, %s, item, scratch, %s_rows, %s, sums);\n}\n", item,
                name, w, name, prefetch);
}

/* The weight, as an argument of loops of which only those of phase 0 read it. */
static const char *prepared_weight(dl_emitter *e, const dl_conv_problem *s, dl_emitted *code) {
    code->prepares = 1, code->prepared = s->c->parts[s->weight][0];
    return dl_emit_array(e, code->prepared);
}

static const char *weight_argument(dl_emitter *e, const dl_conv_problem *s) {
    return dl_emit_array(e, s->c->parts[s->weight][0]);
}

/* Bytes for weights converted to float: `columns` N panels at a time, one chain of K elements. */
static int64_t widened_bytes(const dl_emitter *e, const dl_conv_problem *s, int64_t columns) {
    int64_t terms = s->taps * dl_conv_pairs(s), chain = terms < DL_CHAIN ? terms : DL_CHAIN;
    bool made = !s->im2col && dl_conv_part(e->k, s->c, s->weight, 0)->dtype != DL_F32;
    return made ? columns * chain * e->t->panel * 4 : 0;
}

/* Small N: phase 0 transposes the weight, so that K lies along lanes. */
static bool is_small_n(const dl_emitter *e, const dl_conv_problem *s) {
    return s->c->windows.groups == 1 && e->k->space[1].size <= DL_SMALL_N &&
           s->c->nparts[s->image] == 1 && s->summed >= e->t->lanes && s->summed <= DL_CHAIN &&
           s->taps * s->summed <= DL_CHAIN * e->t->lanes;
}

static void put_small_n(dl_emitter *e, const dl_conv_problem *s, dl_emitted *code) {
    enum { STRETCH_BYTES = 16 }; /* of struct stretch, in addition to a pointer for each row */
    const char *name = DL_OWN_NAME;
    int64_t whole = dl_round_up(s->summed, e->t->lanes), made = e->k->space[1].size;
    dl_emit_image(e, s, MOST_COLUMNS);
    dl_emit_rows_epilogue(e);
    dl_emit_head(e, 0);
    dl_putf(e->out, "    small_n_weight(&%s_shape, %s, item, (float *)workspace);\n}\n", name,
            prepared_weight(e, s, code));
    code->phases = 2;
    code->items[0] = made;
    code->items[1] = dl_ceil_div(s->size.samples * s->size.out[0] * s->size.out[1] * s->size.out[2],
                                 e->t->row_block);
    code->workspace = made * s->taps * whole * 4;
    code->scratch = e->t->row_block * DL_ROW_BYTES + e->t->rows * e->t->panel * 4 +
                    s->taps * (STRETCH_BYTES + 8 * e->t->rows);
    dl_emit_head(e, 1);
    dl_emit_item_sums(e, code->items[1], code);
    dl_putf(e->out,
            "    small_n_item(&%s_shape, arg, (const float *)workspace, item, scratch, %s_rows, "
            "sums);\n}\n",
            name, name);
}

static void put_conv(dl_emitter *e, const dl_conv_problem *s, dl_emitted *code) {
    if (dl_cpu_by_winograd(e->k, e->t)) {
        dl_emit_winograd(e, s, code);
        return;
    }
    if (!s->pairs && is_small_n(e, s)) {
        put_small_n(e, s, code);
        return;
    }
    dl_tables t = dl_emit_image(e, s, MOST_COLUMNS);
    dl_emit_rows_epilogue(e);
    put_rows_item(e, s, t, 0, weight_argument(e, s), "rows_item", code);
    code->scratch += widened_bytes(e, s, t.columns);
}

/* The weight is transposed, so that the result's channels lie along lanes. Where many blocks of
 * rows share it, a phase of its own does so; otherwise each block transposes one chain at a
 * time, which needs less memory. */
static void put_by_stride_phase(dl_emitter *e, const dl_conv_problem *s, dl_emitted *code) {
    enum { MANY = 8 };
    const char *name = DL_OWN_NAME;
    int64_t columns = dl_ceil_div(e->k->space[1].size, e->t->panel);
    int64_t positions = s->size.samples; /* of one stride phase */
    for (int a = 0; a < 3; a++) positions *= dl_conv_stride_phase(&s->size, a, 0).count;
    bool packed_before = dl_ceil_div(positions, e->t->row_block) >= MANY || s->im2col;
    dl_tables t = dl_emit_image(e, s, packed_before ? MOST_COLUMNS : 1);
    dl_emit_rows_epilogue(e);
    code->phases = 1;
    if (!packed_before) {
        put_rows_item(e, s, t, 0, weight_argument(e, s), "transposing_item", code);
        code->scratch += DL_CHAIN * e->t->panel * 4;
        return;
    }
    dl_emit_head(e, 0);
    dl_putf(e->out, "    transpose_weight(&%s_shape, %s, item, (float *)workspace);\n}\n", name,
            prepared_weight(e, s, code));
    code->phases = 2;
    code->items[0] = columns * s->taps;
    code->workspace = columns * s->taps * dl_conv_pairs(s) * e->t->panel * 4;
    put_rows_item(e, s, t, 1, "(struct array){workspace, F32}", "rows_item", code);
}

/* Is it a transposed convolution into few channels? Then stride phases become GEMM columns. All
 * phases must have the same taps: a zero weight in place of a missing tap would turn an infinity
 * that this phase never reads into a NaN. */
static bool is_interleaved(const dl_emitter *e, const dl_conv_problem *s) {
    int64_t stride_phases = s->size.stride[0] * s->size.stride[1] * s->size.stride[2];
    bool even = s->c->windows.groups == 1;
    for (int a = 0; a < 3; a++)
        even &= s->size.dilation[a] == 1 && s->size.tap[a] % s->size.stride[a] == 0;
    return even && stride_phases > 1 && stride_phases <= 64 &&
           2 * e->k->space[1].size <= e->t->panel;
}

static void put_interleaved(dl_emitter *e, const dl_conv_problem *s, dl_emitted *code) {
    const char *name = DL_OWN_NAME;
    int64_t one[3] = {1, 1, 1}, channels = e->k->space[1].size,
            stride_phases = s->size.stride[0] * s->size.stride[1] * s->size.stride[2];
    int64_t columns = dl_ceil_div(stride_phases * channels, e->t->panel), low[3], count[3],
            reach[3], taps = 1;
    for (int a = 0; a < 3; a++) { /* rows low + j, such that every stride phase reads the inputs at
                                     row, row - 1, ... */
        int64_t lo = INT64_MAX, hi = INT64_MIN;
        for (int64_t q = 0; q < s->size.stride[a]; q++) {
            dl_stride_phase p = dl_conv_stride_phase(&s->size, a, q);
            if (p.base < lo) lo = p.base;
            if (p.count && p.base + p.count > hi) hi = p.base + p.count;
        }
        low[a] = lo, count[a] = hi > lo ? hi - lo : 0;
        reach[a] = s->size.tap[a] / s->size.stride[a], taps *= reach[a];
    }
    dl_emit_parts(e, s, s->image, "parts");
    dl_putf(e->out, "static const struct tap %s_taps[] = {", name);
    for (int64_t i = 0; i < taps; i++)
        dl_putf(e->out, "{%lld, {%lld, %lld, %lld}}, ", (long long)i,
                (long long)(low[0] - i / (reach[1] * reach[2])),
                (long long)(low[1] - i / reach[2] % reach[1]), (long long)(low[2] - i % reach[2]));
    dl_putf(e->out, "};\nstatic const struct positions %s_positions[] = {{", name);
    dl_emit_three(e->out, "count", count), dl_emit_three(e->out, "step", one),
        dl_emit_three(e->out, "shift", low);
    dl_putf(e->out, ".taps = %lld}};\nstatic const struct positions %s_stride_phases[] = {\n",
            (long long)taps, name);
    dl_buf map = {0};
    for (int64_t q = 0; q < stride_phases; q++) {
        dl_stride_phase p[3];
        dl_conv_stride_phases(&s->size, q, p);
        int64_t shift[3];
        for (int a = 0; a < 3; a++) shift[a] = p[a].shift - s->size.stride[a] * p[a].base;
        dl_puts(e->out, "{");
        dl_emit_three(e->out, "step", s->size.stride), dl_emit_three(e->out, "shift", shift);
        dl_puts(e->out, "},\n");
        for (int64_t i = 0; i < taps; i++) {
            int64_t t[3] = {i / (reach[1] * reach[2]), i / reach[2] % reach[1], i % reach[2]},
                    w = 0;
            for (int a = 0; a < 3; a++) w = w * s->size.tap[a] + p[a].first + t[a] * p[a].step;
            dl_putf(&map, "%lld, ", (long long)w);
        }
    }
    dl_putf(e->out, "};\nstatic const int %s_tap_of[] = {%s};\n", name, map.at);
    dl_buf_free(&map);
    int64_t reduced = dl_conv_pairs(s), panels = dl_ceil_div(s->summed, e->t->panel),
            rows = s->size.samples * count[0] * count[1] * count[2];
    dl_emit_shape(e, s, s->size.out, s->size.in, one, columns * e->t->panel, columns, 1, 1);
    dl_emit_point(e);
    dl_putf(
        e->out,
        "static const struct interleaved %s_fold = {&%s_shape, %lld, %lld, %lld, %s_stride_phases, "
        "%s_tap_of};\n",
        name, name, (long long)stride_phases, (long long)channels, (long long)panels, name, name);
    dl_emit_head(e, 0);
    dl_putf(e->out, "    interleaved_weight(&%s_fold, %s, item, (float *)workspace);\n}\n", name,
            prepared_weight(e, s, code));
    code->workspace = columns * taps * reduced * e->t->panel * 4;
    code->phases = 2;
    code->items[0] = panels, code->items[1] = dl_ceil_div(rows, e->t->row_block);
    dl_emit_head(e, 1);
    dl_emit_item_sums(e, code->items[1], code);
    dl_putf(
        e->out,
        "    interleaved_item(&%s_fold, arg, (const float *)workspace, item, scratch, %s_point, "
        "sums);\n}\n",
        name, name);
    code->scratch = (columns * e->t->row_block + columns + 1) * e->t->panel * 4 +
                    e->t->row_block * DL_ROW_BYTES;
}

static void put_grad_input(dl_emitter *e, const dl_conv_problem *s, dl_emitted *code) {
    (dl_cpu_by_winograd(e->k, e->t) ? dl_emit_winograd
     : is_interleaved(e, s)         ? put_interleaved
                                    : put_by_stride_phase)(e, s, code);
}

/* Are K elements taken as bf16 pairs (kernels/bf16_pairs.c)? A pair is two neighbouring channels of
 * a part, or two elements of an im2col row. Not where a position has less than an AMX tile's row,
 * which would be mostly padding at each tap. Transposed weights form pairs over the channels of
 * all parts, and in im2col rows those of each tap. Groups must be whole pairs, and AMX tiles do
 * not support groups. Into few channels an AMX panel, though mostly padding, is faster than sums
 * along lanes. */
static bool is_paired(const dl_emitter *e, const dl_conv_problem *s) {
    bool back = dl_op_tensor(s->c->op, DL_RESULT_PLACE) == DL_TENSOR_X;
    bool even = true;
    for (int i = 0; i < s->c->nparts[s->image] - !s->im2col; i++)
        even &= dl_conv_part(e->k, s->c, s->image, i)->axis[1].size % 2 == 0;
    int64_t spread = back ? s->size.stride[0] * s->size.stride[1] * s->size.stride[2] : 1;
    if (s->taps * s->summed < DL_AMX_ROWS * spread && !s->im2col) return false;
    if (s->c->windows.groups > 1 && (s->k_ranges.multi_group || s->summed % 2 || e->t->tiles))
        return false;
    return dl_cpu_pairs(e->k, e->t) && (back ? even : e->t->tiles || !is_small_n(e, s));
}

/* Vectors of lanes that hold several groups: phase 0 packs the weight with zeros between groups,
 * phase 1 multiplies. */
static void put_multi_group(dl_emitter *e, const dl_conv_problem *s, dl_emitted *code) {
    const char *name = DL_OWN_NAME;
    int64_t columns = dl_ceil_div(e->k->space[1].size, e->t->panel);
    dl_tables t = dl_emit_image(e, s, MOST_COLUMNS);
    dl_emit_rows_epilogue(e);
    dl_emit_head(e, 0);
    dl_putf(e->out, "    group_weight(&%s_shape, %d, %s, item, (float *)workspace);\n}\n", name,
            dl_op_tensor(s->c->op, DL_RESULT_PLACE) == DL_TENSOR_X, prepared_weight(e, s, code));
    code->phases = 2;
    code->items[0] = columns;
    code->workspace = columns * s->taps * s->k_ranges.terms * e->t->panel * 4;
    put_rows_item(e, s, t, 1, "(struct array){workspace, F32}", "group_item", code);
}

static void put_image(dl_emitter *e, dl_conv_problem *s, dl_emitted *code) {
    bool back = dl_op_tensor(s->c->op, DL_RESULT_PLACE) == DL_TENSOR_X;
    int64_t made = e->k->space[1].size, groups = s->c->windows.groups;
    s->im2col = is_im2col(s);
    s->k_ranges = dl_find_k_ranges(e->arena, e->t, made, groups, s->summed);
    s->pairs = is_paired(e, s);
    if (s->pairs) s->k_ranges = dl_find_k_ranges(e->arena, e->t, made, groups, dl_conv_pairs(s));
    bool depthwise = s->k_ranges.multi_group && s->summed == 1 && made == groups;
    (depthwise                 ? dl_emit_depthwise
     : s->k_ranges.multi_group ? put_multi_group
     : back                    ? put_grad_input
                               : put_conv)(e, s, code);
}

bool dl_emit_contraction(dl_emitter *e, dl_emitted *code, dl_error *err) {
    const dl_kinstr *c = &e->k->instrs.at[dl_kernel_anchor(e->k)];
    dl_conv_problem s = dl_conv_find(e->k, c);
    e->mode = DL_LANES, e->lane_axis = 1, e->flat = false;
    dl_axis_list order = {.n = e->k->nspace};
    for (int i = 0; i < order.n; i++)
        order.axis[i] = i == 0 ? 0 : i + 1 < order.n ? i + 1 : 1; /* channels last */
    dl_emit_find_partial(e, &order);
    code->phases = 1;
    code->needs[DL_NEED_GROUPS] = c->windows.groups > 1;
    code->needs[DL_NEED_LOOPS] |= dl_op_makes_weight(c->op) ? DL_LOOPS_WEIGHT : DL_LOOPS_CONTRACT;
    if (c->windows.groups > 1) code->needs[DL_NEED_LOOPS] |= DL_LOOPS_CONTRACT;
    if (!dl_op_makes_weight(c->op))
        put_image(e, &s, code);
    else
        (dl_emit_is_by_lanes(e, &s) ? dl_emit_lanes_gradient : dl_emit_wgrad_kernel)(e, &s, code);
    return dl_emit_loop_nests(e, 1, code, err);
}
