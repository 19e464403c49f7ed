/* Gradients of affine views, and of first_max, whose operand mostly is such a view. Every
 * element gathers from the positions that read it, so that no two threads add to one element. */
#include "passes/grad/grad.h"

static dl_value *zero_like(dl_grad *g) { return dl_build_const(g->b, g->dy->type.dtype, 0); }

static const dl_type *operand_type(const dl_grad *g) { return &g->node->in[0]->type; }

/* The node's view. */
static dl_affine view_of(const dl_node *n) {
    const dl_attr *along = dl_node_attr(n, DL_ATTR_along),
                  *stride = dl_node_attr(n, DL_ATTR_stride);
    const dl_type *t = &n->out[0].type;
    dl_affine a = {.axis = along->names[0],
                   .size = t->axis[dl_type_axis(t, along->names[0])].size,
                   .stride = stride->ints[0],
                   .start = dl_node_int(n, DL_ATTR_start),
                   .div = dl_node_int(n, DL_ATTR_div),
                   .outside = (dl_outside)dl_outside_find(dl_node_name(n, DL_ATTR_outside))};
    if (along->n == 2)
        a.tap = along->names[1], a.tap_stride = stride->ints[1],
        a.taps = t->axis[dl_type_axis(t, a.tap)].size;
    return a;
}

static int64_t size_of(const dl_type *t, const char *axis) {
    return t->axis[dl_type_axis(t, axis)].size;
}

/* Solves i stride + j tap_stride + start = e div for i: reads v, whose axis is i, for each of
 * the n elements e. Elements that no position reads get 0. */
static dl_value *invert(dl_grad *g, dl_value *v, dl_affine a, int64_t n) {
    int64_t sign = a.stride < 0 ? -1 : 1, step = sign * a.stride;
    return dl_build_affine(g->b, v,
                           (dl_affine){.axis = a.axis,
                                       .tap = a.tap,
                                       .size = n,
                                       .stride = sign * (a.div ? a.div : 1),
                                       .start = -sign * a.start,
                                       .div = step,
                                       .taps = a.taps,
                                       .tap_stride = -sign * a.tap_stride,
                                       .outside = step > 1 ? DL_OUT_EXACT : DL_OUT_ZERO});
}

/* A division that rounds down: element e is read by up to ceil(div / stride) consecutive
 * positions, the first of them ceil((e div - start) / stride). Comparing each candidate's read
 * position with e says whether it reads e. */
static dl_value *gather_candidates(dl_grad *g, dl_affine a) {
    const dl_type *t = operand_type(g);
    int at = dl_type_axis(t, a.axis);
    const char *candidate = dl_type_fresh(&g->dy->type, a.axis);
    dl_affine back = {.axis = a.axis,
                      .tap = candidate,
                      .size = t->axis[at].size,
                      .stride = a.div,
                      .start = a.stride - 1 - a.start,
                      .div = a.stride,
                      .taps = (a.div + a.stride - 1) / a.stride,
                      .tap_stride = a.stride};
    dl_value *dy = dl_build_affine(g->b, g->dy, back);
    if (a.div % a.stride == 0 && a.start == 0 && a.size == t->axis[at].size * (a.div / a.stride))
        return dy;
    dl_value *number = dl_build_count(g->b, t, at, g->dy->type.dtype);
    a.outside = back.outside = DL_OUT_LOWEST;
    dl_value *reads = dl_build_affine(g->b, dl_build_affine(g->b, number, a), back);
    dl_value *mine = dl_build2(g->b, DL_OP_eq, reads, number);
    dl_type all = dy->type;
    all.dtype = DL_BOOL;
    mine = dl_build_as(g->b, DL_OP_broadcast, 1, &mine, 0, NULL, all);
    return dl_build3(g->b, DL_OP_select, mine, dy, zero_like(g));
}

static dl_value *pad(dl_grad *g, dl_value *v, const char *axis, int64_t lo, int64_t hi) {
    dl_attr at[] = {dl_attr_name(DL_ATTR_axis, axis), dl_attr_ints(DL_ATTR_pad_lo, 1, &lo),
                    dl_attr_ints(DL_ATTR_pad_hi, 1, &hi)};
    return lo || hi ? dl_build(g->b, DL_OP_pad, 1, &v, 3, at) : v;
}

/* The sum of the positions [from, to), as the gradient of the single element `e`. */
static void give_end(dl_grad *g, const dl_affine *a, int64_t from, int64_t to, int64_t e) {
    if (from >= to) return;
    dl_value *v = g->dy;
    dl_attr back[] = {dl_attr_name(DL_ATTR_axis, a->axis),
                      dl_attr_int(DL_ATTR_index, dl_type_axis(&v->type, a->axis))};
    v = dl_build_slice(g->b, v, a->axis, from, to);
    v = dl_build_reduce(g->b, DL_OP_sum, v, 1, &a->axis);
    v = dl_build(g->b, DL_OP_unsqueeze, 1, &v, 2, back);
    dl_grad_give(g, 0, pad(g, v, a->axis, e, size_of(operand_type(g), a->axis) - 1 - e));
}

/* Position i reads i + start in one of the axis' images, which repeat every `period` elements:
 * unchanged, or mirrored without its ends, which belong to the neighbouring image. */
static void give_images(dl_grad *g, dl_affine a, int64_t period, bool mirrored) {
    int64_t n = size_of(operand_type(g), a.axis), count = mirrored ? n - 2 : n;
    int64_t last = a.start + a.size - 1;
    for (int64_t r = dl_floor_div(a.start - n, period); count > 0 && (r - 1) * period <= last;
         r++) {
        int64_t from =
            mirrored ? r * period - count : r * period; /* the image is [from, from + count) */
        if (from > last || from + count <= a.start) continue;
        dl_affine image = {.axis = a.axis,
                           .size = count,
                           .stride = mirrored ? -1 : 1,
                           .start = (mirrored ? r * period - 1 : r * period) - a.start};
        dl_grad_give(g, 0, pad(g, dl_build_affine(g->b, g->dy, image), a.axis, mirrored, mirrored));
    }
}

/* Adds the gradient of each position to the element that it reads. These have numbers, of which
 * the same view reads as many; it reads 0 outside, so they begin at 1. */
static void scatter(dl_grad *g, dl_affine a) {
    const dl_type *t = operand_type(g);
    dl_value *number = dl_build_count(g->b, t, dl_type_axis(t, a.axis), DL_I32);
    if (dl_outside_fills(a.outside) && a.outside != DL_OUT_EXACT) a.outside = DL_OUT_ZERO;
    number = dl_build_affine(g->b, dl_build_k(g->b, DL_OP_add, number, 1), a);
    dl_value *in[] = {g->dy, dl_build_k(g->b, DL_OP_sub, number, 1)};
    dl_attr axis = dl_attr_name(DL_ATTR_axis, a.axis);
    dl_grad_give(g, 0, dl_build_as(g->b, DL_OP_scatter_add, 2, in, 1, &axis, *t));
}

void dl_grad_affine(dl_grad *g) {
    dl_affine a = view_of(g->node);
    int64_t n = size_of(operand_type(g), a.axis);
    const bool by_candidates = dl_outside_fills(a.outside) && !a.tap && a.stride > 0;
    if (dl_outside_fills(a.outside) && (a.div == 1 || a.outside == DL_OUT_EXACT)) {
        dl_grad_give(g, 0, invert(g, g->dy, a, n));
    } else if (by_candidates && (a.stride == 1 || !g->again)) {
        dl_grad_give(g, 0, gather_candidates(g, a));
    } else if (a.tap || a.stride != 1 || a.div != 1) {
        scatter(g, a);
    } else if (a.outside == DL_OUT_WRAP) {
        give_images(g, a, n, false);
    } else if (a.outside == DL_OUT_REFLECT && n > 1) {
        give_images(g, a, 2 * (n - 1), false);
        give_images(g, a, 2 * (n - 1), true);
    } else {
        int64_t first = a.start < 0 ? -a.start : 0, after = n - a.start > 0 ? n - a.start : 0;
        give_end(g, &a, 0, first < a.size ? first : a.size, 0);
        a.outside = DL_OUT_ZERO;
        dl_grad_give(g, 0, invert(g, g->dy, a, n));
        give_end(g, &a, after, a.size, n - 1);
    }
}

/* Where the windows of v extend beyond their operand, those elements cannot be the first. True
 * where the window's element is inside; NULL where all are. */
static dl_value *find_inside(dl_grad *g, const dl_value *v) {
    dl_value *inside = NULL;
    for (; v->def && v->def->op == DL_OP_affine; v = v->def->in[0]) {
        dl_affine a = view_of(v->def);
        if (a.outside != DL_OUT_LOWEST) continue;
        const dl_type *from = &v->def->in[0]->type;
        dl_type t = dl_scalar(DL_F32);
        t.axis[t.rank++] = from->axis[dl_type_axis(from, a.axis)];
        dl_value *one = dl_build_const(g->b, DL_F32, 1);
        dl_value *ones = dl_build_as(g->b, DL_OP_broadcast, 1, &one, 0, NULL, t);
        a.outside = DL_OUT_ZERO;
        dl_value *here = dl_build_k(g->b, DL_OP_ne, dl_build_affine(g->b, ones, a), 0);
        inside = inside ? dl_build2(g->b, DL_OP_and, inside, here) : here;
    }
    return inside;
}

/* A view that adds an axis of taps, and that its inverse can undo: the positions of its axis
 * still exist after the reduction. */
static bool is_window(const dl_value *v, const dl_attr *over) {
    if (!v->def || v->def->op != DL_OP_affine) return false;
    dl_affine a = view_of(v->def);
    if (dl_names_have(over->n, over->names, a.axis)) return false;
    bool adds = a.tap && dl_type_axis(&v->def->in[0]->type, a.tap) < 0;
    return adds && a.div == 1 && dl_outside_fills(a.outside) && a.outside != DL_OUT_EXACT;
}

enum { EXACT = 1 << 8 /* bf16 has all whole numbers up to this one */ };

/* The first maximum in row-major order of the reduced axes gets the whole gradient, as in
 * PyTorch's max_pool; among NaNs the last one does. */
void dl_grad_first_max(dl_grad *g) {
    dl_value *x = g->node->in[0], *y = &g->node->out[0], *number = NULL;
    const dl_attr *over = dl_node_attr(g->node, DL_ATTR_over);
    int64_t count = 1, all = 1;
    for (int i = 0; i < over->n; i++) all *= size_of(&x->type, over->names[i]);
    dl_dtype type = all > 1 << 24 ? DL_F64 : DL_F32; /* a type that counts the elements exactly */
    for (int i = over->n - 1; i >= 0; i--) {
        int at = dl_type_axis(&x->type, over->names[i]);
        dl_value *along =
            dl_build_k(g->b, DL_OP_mul, dl_build_count(g->b, &x->type, at, type), (double)count);
        number = number ? dl_build2(g->b, DL_OP_add, along, number) : along;
        count *= x->type.axis[at].size;
    }
    if (!number) {
        dl_grad_give(g, 0, g->dy);
        return;
    }
    dl_value *largest = dl_build2(g->b, DL_OP_eq, x, y), *inside = find_inside(g, x);
    if (inside) largest = dl_build2(g->b, DL_OP_and, largest, inside);
    dl_value *from_end = dl_build_k(g->b, DL_OP_sub, dl_build1(g->b, DL_OP_neg, number), 1);
    dl_value *rank =
        dl_build3(g->b, DL_OP_select, largest, number, dl_build_const(g->b, type, (double)count));
    rank = dl_build3(g->b, DL_OP_select, dl_build2(g->b, DL_OP_ne, x, x), from_end, rank);
    dl_value *best = dl_build_reduce(g->b, DL_OP_reduce_min, rank, over->n, over->names);
    dl_value *nan = dl_build_k(g->b, DL_OP_lt, best, 0);
    dl_value *back = dl_build_k(g->b, DL_OP_sub, dl_build1(g->b, DL_OP_neg, best), 1);
    best = dl_build3(g->b, DL_OP_select, nan, back, best);
    /* from forward to backward pass in 16 bits, where these hold its numbers exactly */
    if (all <= EXACT) best = dl_build_cast(g->b, best, DL_BF16);
    /* For windows, each element gathers from the windows that contain it: dy of those that chose
     * it. */
    dl_value *dy = g->dy;
    for (; is_window(x, over); x = x->def->in[0]) {
        int64_t n = size_of(&x->def->in[0]->type, view_of(x->def).axis);
        best = invert(g, best, view_of(x->def), n), dy = invert(g, dy, view_of(x->def), n);
    }
    dl_value *chosen = dl_build2(g->b, DL_OP_eq, dl_build_cast(g->b, best, type), number);
    dl_grad_give_to(g, x, dl_build3(g->b, DL_OP_select, chosen, dy, zero_like(g)));
}
