/* Kernels around a grouped windowed contraction that is computed lane by lane; the loops are in
 * compiler/cpu/kernels/grouped.c. */
#include "compiler/cpu/emit_windows.h"
#include "compiler/cpu/operands.h"
#include "compiler/cpu/partials.h"

static void put_window(dl_emitter *e, const dl_conv_problem *s) {
    dl_putf(e->out, "static const struct group_window %s_window = {.batch = %lld, ", DL_OWN_NAME,
            (long long)s->size.samples);
    dl_emit_three(e->out, "x", s->size.in), dl_emit_three(e->out, "y", s->size.out);
    dl_emit_three(e->out, "stride", s->size.stride),
        dl_emit_three(e->out, "dilation", s->size.dilation);
    dl_emit_three(e->out, "pad", s->size.pad_lo), dl_emit_three(e->out, "kernel", s->size.tap);
    dl_puts(e->out, "};\n");
}

void dl_emit_depthwise(dl_emitter *e, const dl_conv_problem *s, dl_emitted *code) {
    enum { TAP_BYTES = 16 }; /* of struct depth_tap */
    const char *name = DL_OWN_NAME;
    bool transposed = dl_op_tensor(s->c->op, DL_RESULT_PLACE) == DL_TENSOR_X;
    const int64_t *size = transposed ? s->size.in : s->size.out;
    code->items[0] = dl_ceil_div(s->size.samples * size[0] * size[1] * size[2], DL_PACK_ROWS);
    put_window(e, s);
    dl_emit_point(e);
    dl_emit_head(e, 0);
    dl_emit_item_sums(e, code->items[0], code);
    dl_putf(
        e->out,
        "    _Static_assert(sizeof(struct depth_tap) == %d, \"scratch\");\n"
        "    depth_item(&%s_window, %d, arg, %s, %s, %lldL, item, scratch, %s_point, sums);\n}\n",
        TAP_BYTES, name, transposed, dl_emit_array(e, s->c->parts[s->image][0]),
        dl_emit_array(e, s->c->parts[s->weight][0]), (long long)e->k->space[1].size, name);
    code->scratch = s->taps * TAP_BYTES;
}

/* A vector of lanes must find all channels of x that it reads in one vector, or each lane its
 * own; targets with short vectors have no permutation for this. The choice is by cost: permuted
 * lanes take two instructions a product and register tiles one, but some of the tiles' products
 * are zeros between groups. */
bool dl_emit_is_by_lanes(const dl_emitter *e, const dl_conv_problem *s) {
    enum { PICKED = 8 };
    int64_t groups = s->c->windows.groups, own = s->weight_o / groups, per = s->weight_c,
            lanes = e->t->lanes;
    if (groups == 1) return false;
    if (own == 1 && per == 1) return true;
    dl_target vectors = *e->t; /* one vector per panel */
    vectors.panel = vectors.lanes;
    int64_t span = dl_find_k_ranges(e->arena, &vectors, s->weight_o, groups, per).terms;
    return lanes >= PICKED && span <= lanes && 2 * per < span;
}

void dl_emit_lanes_gradient(dl_emitter *e, const dl_conv_problem *s, dl_emitted *code) {
    enum { AT_ONCE = 4, LANE_CHANNELS = 32 /* of struct lane_channels, without its array */ };
    const char *name = DL_OWN_NAME;
    int x = s->c->parts[dl_op_place(s->c->op, DL_TENSOR_X)][0],
        y = s->c->parts[dl_op_place(s->c->op, DL_TENSOR_Y)][0];
    int64_t panel = e->t->panel, groups = s->c->windows.groups, per = s->weight_c,
            own = s->weight_o / groups, block = s->size.tap[2] * per * panel,
            places = s->taps / s->size.tap[2];
    put_window(e, s);
    dl_putf(e->out,
            "static const struct group_gradient %s_gradient = {&%s_window, {%d, %lld, %s}, {%d, "
            "%lld, %s}, "
            "%lld, %lld};\n",
            name, name, x, (long long)(per * groups),
            dl_emit_element(e->k->params.at[x].type.dtype), y, (long long)(own * groups),
            dl_emit_element(e->k->params.at[y].type.dtype), (long long)per, (long long)own);
    dl_emit_panel_body(e, s);
    code->items[0] = dl_ceil_div(own * groups, panel) * places;
    dl_emit_head(e, 0);
    dl_emit_item_sums(e, code->items[0], code);
    dl_putf(
        e->out,
        "    _Static_assert(AT_ONCE == %d && sizeof(struct lane_channels) == %d, \"scratch\");\n"
        "    const float *acc = lane_gradient_item(&%s_gradient, arg, item / %lldL, item %% %lldL, "
        "scratch);\n"
        "    for (long i = 0; i < %lldL; i += LANES)\n"
        "        %s_body(arg, item * %lldL + i, LANES, acc + i, sums);\n}\n",
        AT_ONCE, LANE_CHANNELS, name, (long long)places, (long long)places, (long long)block, name,
        (long long)block);
    code->scratch = (block + dl_round_up(per, AT_ONCE) * panel) * 4 + LANE_CHANNELS;
}
