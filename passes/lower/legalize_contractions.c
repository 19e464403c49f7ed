/* legalize_contractions: legalizes contractions and attention in types that the target has no
 * kernels for: they become elementwise products and sums. The target's GEMM loops multiply floats
 * of 32 bits at most; f64 is rare, and gets by with plain reductions. It runs after autodiff, so
 * that gradients become sums, too, and not views of views. */
#include "passes/lower/legalize.h"

#include "ir/relation.h"
#include "passes/core/rewrite.h"
#include "passes/pass.h"

/* ---- by windows ---- */

/* x, w and y with separate axis names: [n, g, c, in...], [g, o, c, taps...], [n, g, o, out...];
 * without groups there is no g. */
enum { BATCH, GROUP, CHANNEL, OUT, NNAMES };
static const char *const names[NNAMES] = {"n", "g", "c", "o"};
static const int order[DL_NTENSORS][4] = {[DL_TENSOR_X] = {BATCH, GROUP, CHANNEL, -1},
                                          [DL_TENSOR_W] = {GROUP, OUT, CHANNEL, -1},
                                          [DL_TENSOR_Y] = {BATCH, GROUP, OUT, -1}};

typedef struct {
    dl_builder *b;
    dl_windows w;
    dl_tensor result;
    int64_t size[NNAMES];
    /* By spatial axis; where[i] is the axis of x and y. Only one of them is an operand together
     * with w, or x is read at y's positions. */
    const char *where[3], *tap[3];
    int64_t in[3], taps[3], out[3];
    int unrolled; /* the number of spatial axes whose taps are unrolled, so that the other axes fit
                  in the rank */
} windows;

static dl_type type_of(const windows *s, dl_tensor tensor, dl_dtype dtype) {
    dl_type t = dl_scalar(dtype);
    for (int i = 0; order[tensor][i] >= 0; i++)
        if (order[tensor][i] != GROUP || s->w.groups != 1)
            dl_type_push(&t, names[order[tensor][i]], s->size[order[tensor][i]]);
    for (int i = 0; i < s->w.n; i++)
        dl_type_push(&t, tensor == DL_TENSOR_W ? s->tap[i] : s->where[i],
                     (tensor == DL_TENSOR_X   ? s->in
                      : tensor == DL_TENSOR_W ? s->taps
                                              : s->out)[i]);
    return t;
}

/* An image read at the positions that relate to the other image, and whether each position
 * exists (NULL: all do). Positions that do not exist are no terms: multiplying zeros with
 * non-finite values would give NaN. */
typedef struct {
    dl_value *v, *inside;
} image;

/* Does an axis of `size` elements contain all positions that are read? */
static bool has_all(dl_affine a, int64_t size) {
    int64_t taps = a.tap ? (a.taps - 1) * a.tap_stride : 0;
    int64_t first = a.start + (taps < 0 ? taps : 0);
    int64_t last = a.start + (a.size - 1) * a.stride + (taps > 0 ? taps : 0);
    return a.outside != DL_OUT_EXACT && first >= 0 && last < size;
}

/* The image along spatial axis i at the positions that one tap, or all taps, relate to the other
 * image. */
static image image_at_taps(const windows *s, image of, int i, int64_t tap) {
    int64_t step = s->w.dilation[i], pad = s->w.pad_lo[i];
    dl_affine a = {.axis = s->where[i]};
    if (s->result == DL_TENSOR_X) /* out = (in + pad - tap dilation) / stride, where the division
                                     has no remainder */
        step = -step, a.size = s->in[i], a.stride = 1, a.start = pad, a.div = s->w.stride[i],
        a.outside = a.div > 1 ? DL_OUT_EXACT : DL_OUT_ZERO;
    else
        a.size = s->out[i], a.stride = s->w.stride[i], a.start = -pad;
    if (tap < 0)
        a.tap = s->tap[i], a.taps = s->taps[i], a.tap_stride = step;
    else
        a.start += tap * step;
    dl_axis along = of.v->type.axis[dl_type_axis(&of.v->type, a.axis)];
    image to = {dl_build_affine(s->b, of.v, a), of.inside};
    if (has_all(a, along.size)) return to;
    dl_type places = dl_scalar(DL_BOOL);
    dl_type_push(&places, along.name, along.size);
    dl_value *there = dl_build_const(s->b, DL_BOOL, 1);
    there =
        dl_build_affine(s->b, dl_build_as(s->b, DL_OP_broadcast, 1, &there, 0, NULL, places), a);
    to.inside = of.inside ? dl_build2(s->b, DL_OP_and, of.inside, there) : there;
    return to;
}

static dl_value *at_tap(const windows *s, dl_value *w, int i, int64_t tap) {
    dl_attr axis = dl_attr_name(DL_ATTR_axis, s->tap[i]);
    w = dl_build_slice(s->b, w, s->tap[i], tap, tap + 1);
    return dl_build(s->b, DL_OP_squeeze, 1, &w, 1, &axis);
}

/* The product of both, summed over the axes that the result lacks. */
static dl_value *multiply(const windows *s, image first, dl_value *second) {
    dl_value *all = dl_multiply(s->b, first.v, second);
    if (first.inside)
        all = dl_build3(s->b, DL_OP_select, first.inside, all,
                        dl_build_const(s->b, all->type.dtype, 0));
    dl_type left = type_of(s, s->result, all->type.dtype);
    const char *over[DL_MAX_RANK];
    int n = 0;
    for (int i = 0; i < all->type.rank; i++)
        if (dl_type_axis(&left, all->type.axis[i].name) < 0) over[n++] = all->type.axis[i].name;
    return dl_build_reduce(s->b, DL_OP_sum, all, n, over);
}

/* Sums over the taps of axis i and the following ones. `of` is x or y; `other` is w, or for a
 * weight gradient y. */
static dl_value *sum_taps(const windows *s, image of, dl_value *other, int i) {
    if (i == s->w.n || i == 3) return multiply(s, of, other); /* there are three at most */
    if (i >= s->unrolled) return sum_taps(s, image_at_taps(s, of, i, -1), other, i + 1);
    bool weight = s->result == DL_TENSOR_W;
    dl_value *sum = NULL, **parts = DL_NEWS(s->b->graph->module->arena, dl_value *, s->taps[i]);
    for (int64_t tap = 0; tap < s->taps[i]; tap++) {
        dl_value *w = weight ? other : at_tap(s, other, i, tap);
        dl_value *v = sum_taps(s, image_at_taps(s, of, i, tap), w, i + 1);
        dl_attr at[] = {dl_attr_name(DL_ATTR_axis, s->tap[i]),
                        dl_attr_int(DL_ATTR_index, v->type.rank)};
        if (weight)
            parts[tap] = dl_build(s->b, DL_OP_unsqueeze, 1, &v, 2, at);
        else
            sum = sum ? dl_build2(s->b, DL_OP_add, sum, v) : v;
    }
    dl_attr along = dl_attr_name(DL_ATTR_axis, s->tap[i]);
    return weight ? dl_build(s->b, DL_OP_cat, (int)s->taps[i], parts, 1, &along) : sum;
}

static dl_value *reshape(dl_builder *b, dl_value *v, dl_type t) {
    return dl_build_as(b, DL_OP_reshape, 1, &v, 0, NULL, t);
}

static dl_value *by_windows(dl_builder *b, const dl_node *n) {
    dl_relation r = dl_relation_of(n);
    windows s = {.b = b, .w = dl_node_windows(n), .result = dl_op_tensor(n->op, DL_RESULT_PLACE)};
    for (int i = 0; i < NNAMES; i++)
        s.size[i] = r.axis[i].size; /* the order of axes in relation.c */
    for (int i = 0; i < s.w.n; i++) {
        const dl_relation_window *v = &r.window[3 - s.w.n + i];
        s.where[i] = dl_internf("s%d", i), s.tap[i] = dl_internf("k%d", i);
        s.in[i] = r.axis[v->in].size, s.taps[i] = r.axis[v->tap].size,
        s.out[i] = r.axis[v->out].size;
    }
    int rank = NNAMES - (s.w.groups == 1) + 2 * s.w.n;
    s.unrolled = rank > DL_MAX_RANK ? rank - DL_MAX_RANK : 0;
    int at =
        s.result == DL_TENSOR_X ? dl_op_place(n->op, DL_TENSOR_Y) : dl_op_place(n->op, DL_TENSOR_X);
    dl_value *in[2];
    for (int i = 0; i < 2; i++)
        in[i] = reshape(b, n->in[i], type_of(&s, dl_op_tensor(n->op, i), n->in[i]->type.dtype));
    dl_value *y = sum_taps(&s, (image){in[at], NULL}, in[1 - at], 0);
    dl_type made = type_of(&s, s.result, y->type.dtype);
    return reshape(b, dl_build_broadcast(b, y, made), n->out[0].type);
}

/* ---- by names ---- */

static dl_value *by_names(dl_builder *b, const dl_node *n) {
    const dl_attr *over = dl_node_attr(n, DL_ATTR_over);
    dl_value *v = dl_multiply_sum(b, n->in[0], n->in[1], over->n, over->names);
    return dl_build_broadcast(b, v, n->out[0].type);
}

/* ---- a graph ---- */

typedef struct {
    dl_builder b;
    unsigned types;
} writer;

static bool rewrite(void *user, dl_node *n, dl_value *made[DL_MAX_RESULTS]) {
    writer *w = user;
    w->b.loc = n->loc;
    if (!(w->types >> n->out[0].type.dtype & 1)) return false;
    if (dl_ops[n->op].class == DL_CLASS_CONTRACT)
        made[0] = dl_op_slides(n->op) ? by_windows(&w->b, n) : by_names(&w->b, n);
    else if (n->op == DL_OP_flash_attention)
        dl_legalize_attention(&w->b, n, made);
    else if (n->op == DL_OP_flash_attention_grad)
        dl_legalize_attention_grad(&w->b, n, made);
    else if (n->op == DL_OP_flash_attention_bias_grad)
        made[0] = dl_legalize_attention_bias_grad(&w->b, n);
    return made[0] != NULL;
}

bool dl_pass_legalize_contractions(dl_graph *g, dl_pass_ctx *ctx) {
    writer w = {.b = {.graph = g}, .types = ctx->expanded};
    return w.types && dl_rewrite(g, ctx->arena, rewrite, &w);
}
