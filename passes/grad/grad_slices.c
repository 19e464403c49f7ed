/* The gradient of a value that is read in slices: one concatenation of the slices' gradients. A
 * sum of padded gradients would visit each element once for every slice: for a recurrence over T
 * steps, T squared. */
#include <stdlib.h>

#include "passes/core/wide_cat.h"
#include "passes/grad/grad.h"

static dl_value *pad(dl_grad *g, const dl_grad_piece *p, int64_t size) {
    int64_t lo = p->start, hi = size - p->stop;
    dl_attr at[] = {dl_attr_name(DL_ATTR_axis, p->axis), dl_attr_ints(DL_ATTR_pad_lo, 1, &lo),
                    dl_attr_ints(DL_ATTR_pad_hi, 1, &hi)};
    return dl_build(g->b, DL_OP_pad, 1, &p->v, 3, at);
}

/* Is the slice the only one of its value? The search ends at the second: values with many slices
 * ask once for each. */
static bool is_only_slice(const dl_uses *u) {
    int slices = 0;
    for (int i = 0; i < u->n && slices < 2; i++) slices += u->readers[i]->op == DL_OP_slice;
    return slices == 1;
}

void dl_grad_give_slice(dl_grad *g, int operand, const char *axis, int64_t start) {
    const dl_value *of = g->node->in[operand];
    if (!dl_grad_wanted(g, operand)) return;
    int64_t size = g->dy->type.axis[dl_type_axis(&g->dy->type, axis)].size;
    dl_grad_piece piece = {axis, start, start + size, g->pieces[of->id].n, g->dy};
    if (is_only_slice(&g->uses[of->id]))
        dl_grad_give_to(g, of, pad(g, &piece, of->type.axis[dl_type_axis(&of->type, axis)].size));
    else
        dl_push(g->arena, &g->pieces[of->id], piece);
}

static int in_order(const void *a, const void *b) {
    const dl_grad_piece *x = a, *y = b;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    return x->given - y->given;
}

static dl_value *zeros(dl_grad *g, dl_type t, int axis, int64_t size) {
    dl_value *zero = dl_build_const(g->b, t.dtype, 0);
    t.axis[axis].size = size;
    return dl_build_as(g->b, DL_OP_broadcast, 1, &zero, 0, NULL, t);
}

/* Pieces along one axis that do not overlap, in order, and zeros between them. A rank's shares of
 * pieces, and of what is between them, may have no elements. Its graph has the same nodes as
 * another rank's nevertheless, since collectives are ordered by it: a single piece, too, is a
 * part of a concatenation. */
static dl_value *join(dl_grad *g, const dl_type *t, int n, const dl_grad_piece *p) {
    int axis = dl_type_axis(t, p->axis), parts = 0;
    int64_t end = 0, size = t->axis[axis].size;
    dl_value **part = DL_NEWS(g->arena, dl_value *, 2 * n + 1);
    for (int i = 0; i < n; i++) {
        if (p[i].start > end || n == 1) part[parts++] = zeros(g, *t, axis, p[i].start - end);
        part[parts++] = p[i].v;
        end = p[i].stop;
    }
    if (end < size) part[parts++] = zeros(g, *t, axis, size - end);
    return dl_build_wide_cat(g->b, parts, part, p->axis);
}

/* Takes a layer out of *rest: pieces along the axis of the first one, none of which overlap. */
static int take_layer(dl_grad_pieces *rest, dl_grad_piece *layer) {
    int n = 0, kept = 0;
    const char *axis = rest->at[0].axis;
    for (int i = 0; i < rest->n; i++) {
        const dl_grad_piece p = rest->at[i];
        if (p.axis == axis && (!n || p.start >= layer[n - 1].stop))
            layer[n++] = p;
        else
            rest->at[kept++] = p;
    }
    rest->n = kept;
    return n;
}

dl_value *dl_grad_of(dl_grad *g, const dl_value *v) {
    dl_grad_pieces *rest = &g->pieces[v->id];
    if (rest->n) {
        dl_grad_piece *layer = DL_NEWS(g->arena, dl_grad_piece, rest->n);
        qsort(rest->at, (size_t)rest->n, sizeof *rest->at, in_order);
        while (rest->n) {
            int n = take_layer(rest, layer);
            dl_grad_give_to(g, v, join(g, &v->type, n, layer));
        }
    }
    return g->grads[v->id];
}
