/* The gradients of a recurrent layer's steps (ir/recurrence.h): the template's backward half makes
 * those of p and of the first states; those of weight and bias are a product and a sum of p's over
 * all steps. */
#include "ir/recurrence.h"
#include "passes/grad/grad.h"

static const char rows[] = "row", gates[] = "gate", units[] = "unit";

/* A matrix of all steps and sequences. */
static dl_value *as_matrix(dl_grad *g, dl_value *v, const char *columns) {
    const dl_type *own = &v->type;
    dl_type t = dl_scalar(own->dtype);
    dl_around last = dl_type_around(own, own->rank - 1);
    dl_type_push(&t, dl_intern(rows), last.outer), dl_type_push(&t, dl_intern(columns), last.size);
    return dl_build_as(g->b, DL_OP_reshape, 1, &v, 0, NULL, t);
}

/* [sequences, rows, units] */
static dl_value *as_sequences(dl_grad *g, dl_value *v, const dl_recurrence *r) {
    dl_type t = dl_scalar(v->type.dtype);
    dl_type_push(&t, dl_intern("sequence"), r->batch);
    dl_type_push(&t, dl_intern(rows), v->type.axis[v->type.rank - 2].size);
    dl_type_push(&t, dl_intern(units), r->size);
    return dl_build_as(g->b, DL_OP_reshape, 1, &v, 0, NULL, t);
}

/* The states that steps start from. */
static dl_value *previous(dl_grad *g, dl_value *y, const dl_recurrence *r) {
    const char *axis = dl_intern(rows);
    y = as_sequences(g, y, r);
    if (r->started && r->steps > 0) {
        dl_value *start = g->node->in[dl_recurrence_start(g->node)];
        int64_t from = r->reverse ? 1 : 0; /* of the states that a step follows */
        dl_value *first = dl_build_slice(g->b, as_sequences(g, start, r), axis, 0, 1);
        dl_value *others = dl_build_slice(g->b, y, axis, from, from + r->steps - 1);
        dl_value *in[] = {r->reverse ? others : first, r->reverse ? first : others};
        dl_attr at = dl_attr_name(DL_ATTR_axis, axis);
        return as_matrix(g, dl_build(g->b, DL_OP_cat, 2, in, 1, &at), units);
    }
    if (r->ends) y = dl_build_slice(g->b, y, axis, 0, r->steps);
    dl_affine before = {.axis = axis,
                        .size = r->steps,
                        .stride = 1,
                        .start = r->reverse ? 1 : -1,
                        .outside = DL_OUT_ZERO};
    return as_matrix(g, dl_build_affine(g->b, y, before), units);
}

/* The gradients of u: those of p, in a GRU but for the new state's, of which r is a factor. */
static dl_value *of_products(dl_grad *g, dl_value *dp, const dl_recurrence *r) {
    dp = as_matrix(g, dp, gates);
    if (r->cell != DL_GRU) return dp;
    const char *axis = dl_intern(gates);
    dl_value *saved = as_matrix(g, &g->node->out[DL_STEPS_SAVED], gates);
    dl_value *part[] = {dl_build_slice(g->b, dp, axis, 0, 2 * r->size),
                        dl_build2(g->b, DL_OP_mul,
                                  dl_build_slice(g->b, dp, axis, 2 * r->size, 3 * r->size),
                                  dl_build_slice(g->b, saved, axis, 0, r->size))};
    dl_attr at = dl_attr_name(DL_ATTR_axis, axis);
    return dl_build(g->b, DL_OP_cat, 2, part, 1, &at);
}

static dl_value *renamed(dl_grad *g, dl_value *v, const dl_type *as) {
    if (dl_type_same(&v->type, as)) return v;
    return dl_build_as(g->b, DL_OP_rename, 1, &v, 0, NULL, *as);
}

void dl_grad_recurrent(dl_grad *g) {
    const dl_node *n = g->node;
    dl_value *y = &g->node->out[DL_STEPS_Y];
    const dl_recurrence r = dl_recurrence_of(n);
    const int start = dl_recurrence_start(n);
    dl_value *in[DL_STEPS_GRAD_IN + 1] = {n->in[DL_STEPS_W], y, &g->node->out[DL_STEPS_SAVED],
                                          g->dy, start < 0 ? NULL : n->in[start]};
    dl_value *dp =
        dl_build(g->b, DL_OP_recurrent_grad, DL_STEPS_GRAD_IN + r.started, in, n->nattrs, n->attrs);
    dl_grad_give(g, DL_STEPS_P, dp);
    if (r.started) dl_grad_give(g, start, &dp->def->out[DL_STEPS_DSTART]);
    if (!dl_grad_wanted(g, DL_STEPS_W) && !dl_grad_wanted(g, DL_STEPS_B)) return;
    const char *over = dl_intern(rows);
    dl_value *du = of_products(g, dp, &r);
    if (dl_grad_wanted(g, DL_STEPS_W)) {
        dl_value *factors[] = {du, previous(g, y, &r)};
        dl_attr at = dl_attr_names(DL_ATTR_over, 1, &over);
        dl_value *dw = dl_build(g->b, DL_OP_contract, 2, factors, 1, &at);
        dl_grad_give(g, DL_STEPS_W, renamed(g, dw, &n->in[DL_STEPS_W]->type));
    }
    if (dl_grad_wanted(g, DL_STEPS_B))
        dl_grad_give(
            g, DL_STEPS_B,
            renamed(g, dl_build_reduce(g->b, DL_OP_sum, du, 1, &over), &n->in[DL_STEPS_B]->type));
}
