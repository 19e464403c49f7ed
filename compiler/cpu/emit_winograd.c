/* Convolutions by Winograd's transforms: tables and phases for compiler/cpu/kernels/winograd.c, and
 * the scratch memory of weight_winograd.c. */
#include "compiler/cpu/emit_windows.h"
#include "compiler/cpu/operands.h"
#include "ir/kernel/winograd.h"

int64_t dl_cpu_winograd_block(const dl_target *t) {
    return t->row_block / DL_WINOGRAD_MADE / t->rows * t->rows;
}

/* The size of struct winograd_scratch, with the transformed inputs. */
static int64_t scratch_bytes(const dl_target *t, int64_t terms) {
    enum { TILE_BYTES = 4 * DL_WINOGRAD_MADE + 4 + 8 + 3 * 4, PADDING = 128 };
    int64_t tiles = dl_cpu_winograd_block(t), pitch = dl_round_up(terms, t->lanes) + 16;
    return t->row_block * DL_ROW_BYTES + tiles * TILE_BYTES + PADDING +
           4 * t->panel * (t->rows * DL_WINOGRAD_MADE + 1 + DL_WINOGRAD_POINTS * tiles) +
           4 * DL_WINOGRAD_POINTS * (tiles * pitch + 16);
}

/* Panels of a work item: all, if enough work items remain for all threads. Each work item
 * transforms its inputs, which is little next to the products of some panels. */
static int64_t item_columns(int64_t columns, int64_t blocks) {
    enum { ITEMS = 32, LEAST = 4 };
    int64_t n = columns;
    while (n > LEAST && blocks * dl_ceil_div(columns, n) < ITEMS) n = dl_ceil_div(n, 2);
    return n;
}

void dl_emit_winograd(dl_emitter *e, const dl_conv_problem *s, dl_emitted *code) {
    const char *name = DL_OWN_NAME, *weight;
    bool mirrors = dl_op_tensor(s->c->op, DL_RESULT_PLACE) == DL_TENSOR_X;
    int64_t columns = dl_ceil_div(e->k->space[1].size, e->t->panel),
            planes = s->taps / DL_WINOGRAD_TAPS, terms = planes * s->summed,
            blocks = dl_ceil_div(dl_winograd_tiles(e->k), dl_cpu_winograd_block(e->t)),
            each = item_columns(columns, blocks);
    dl_tables t = dl_emit_image_by(e, s, each);
    t.groups = dl_ceil_div(columns, each), t.items = blocks * t.groups, t.columns = each;
    dl_emit_rows_epilogue(e);
    code->prepares = 1, code->prepared = s->c->parts[s->weight][0];
    weight = dl_emit_array(e, code->prepared);
    dl_emit_head(e, 0);
    dl_putf(e->out, "    %s(&%s_shape, %s, item, %s(float *)workspace);\n}\n",
            mirrors ? "winograd_mirrored" : "winograd_weight", name, weight,
            mirrors ? "(float *)scratch, " : "");
    code->phases = 2;
    code->items[0] = columns * planes, code->items[1] = t.items;
    code->workspace = columns * DL_WINOGRAD_POINTS * terms * e->t->panel * 4;
    code->scratch = scratch_bytes(e->t, terms);
    if (mirrors)
        code->scratch = dl_at_least(code->scratch, 4 * DL_WINOGRAD_TAPS * DL_CHAIN * e->t->panel);
    dl_emit_head(e, 1);
    dl_emit_panel_sums(e, s, t, code);
    dl_putf(e->out,
            "    winograd_item(&%s_shape, arg, (const float *)workspace, item, scratch, %s_rows, "
            "sums);\n}\n",
            name, name);
}

void dl_emit_winograd_scratch(dl_emitter *e, const dl_wgrad_problem *g, dl_emitted *code) {
    enum { TILES = DL_M_BLOCK / 4, HEAD = TILES * (8 + 4) };
    int64_t pitch = dl_round_up(g->item_rows, e->t->lanes) + 16,
            lanes = g->item_panels * e->t->panel, taps = g->splits > 1 ? 0 : DL_WINOGRAD_TAPS;
    dl_putf(e->out, "_Static_assert(sizeof(struct winograd_gradient) == %d, \"scratch\");\n", HEAD);
    code->scratch = HEAD + 4 * DL_WINOGRAD_POINTS * (TILES * pitch + 16 + TILES * lanes + 16) +
                    4 * (DL_WINOGRAD_POINTS + taps) * lanes * g->item_rows;
}
