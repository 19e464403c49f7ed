/* Ops that read elements by their numbers. */
#include <math.h>

#include "imports/onnx/parts.h"

bool dl_ox_gather(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0], *at = dl_ox_in(o, 1);
    dl_ox_shape from = dl_ox_shape_of(x), index, s;
    int axis = dl_ox_dim(dl_ox_int(o->n, "axis", 0), from.rank);
    double number;
    if (!at) return false;
    index = dl_ox_shape_of(at);
    if (!dl_ox_gathered(&from, axis, &index, &s)) return false;
    if (at->t->rank == 0 && dl_ox_number(o->r, at, &number)) {
        double size = (double)from.size[axis];
        if (number < -size || number >= size) return dl_ox_bad(o->r, "its index is out of range");
        dl_ox_arg_tensor(o, "self", x), dl_ox_arg_int(o, "dim", axis);
        dl_ox_arg_int(o, "index", (int64_t)number);
        return dl_ox_make(o, "aten.select.int", o->n->out[0], &s, x);
    }
    if (x->stored && x->t->class == DL_FOREIGN_FLOAT && axis == 0 && from.rank == 2 && !at->known) {
        dl_ox_arg_tensor(o, "weight", dl_ox_weight(o, x, "weight", NULL, NULL));
        dl_ox_arg_tensor(o, "indices", at);
        return dl_ox_make(o, "aten.embedding.default", o->n->out[0], &s, x);
    }
    if (at->t->rank == 0) return false;
    if (axis == 0 && dl_ox_count(&from) == dl_ox_count(&s) && dl_ox_counts_all(at)) {
        dl_ox_arg_tensor(o, "self", x);
        return dl_ox_make(o, "aten.reshape.default", o->n->out[0], &s, x);
    }
    dl_ox_arg_tensor(o, "self", x), dl_ox_arg_int(o, "dim", axis), dl_ox_arg_tensor(o, "index", at);
    return dl_ox_make(o, "aten.index_select.default", o->n->out[0], &s, x);
}

bool dl_ox_gather_elements(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0], *at = dl_ox_in(o, 1);
    if (!at) return false;
    dl_ox_shape s = dl_ox_shape_of(at);
    int axis = dl_ox_dim(dl_ox_int(o->n, "axis", 0), x->t->rank);
    if (axis < 0) return false;
    dl_ox_arg_tensor(o, "self", x), dl_ox_arg_int(o, "dim", axis), dl_ox_arg_tensor(o, "index", at);
    return dl_ox_make(o, "aten.gather.default", o->n->out[0], &s, x);
}

/* ---- an index of several axes ---- */

/* Number k of each row of an index: the tensor that was joined with others, before that was done,
 * or a part of the whole. */
static dl_ox_value *part_of_index(dl_ox_op *o, dl_ox_value *at, int64_t k) {
    dl_ox_shape s = dl_ox_shape_of(at);
    const dl_ox_node *n = at->by >= 0 ? &o->r->nodes.at[at->by] : NULL;
    int last = s.rank - 1;
    s.rank--;
    if (n && !strcmp(n->op, "Concat") && dl_ox_dim(dl_ox_int(n, "axis", 0), s.rank + 1) == last &&
        n->n_in == at->t->shape[last] && n->in[k]) {
        dl_ox_value *v = n->in[k];
        n = v->by >= 0 ? &o->r->nodes.at[v->by] : NULL;
        int64_t axis;
        dl_ox_op inner = {.r = o->r, .n = n};
        if (n && !strcmp(n->op, "Unsqueeze") && n->in[0] && n->in[0]->t &&
            dl_ox_ints(&inner, 1, "axes", 1, &axis) == 1 && dl_ox_dim(axis, last + 1) == last) {
            v = n->in[0];
            n = v->by >= 0 ? &o->r->nodes.at[v->by] : NULL;
            bool wider = n && !strcmp(n->op, "Expand") && n->in[0] && n->in[0]->t->rank == last;
            return wider ? n->in[0] : v; /* indices meet as operands do */
        }
    }
    dl_ox_arg_tensor(o, "self", at), dl_ox_arg_int(o, "dim", last), dl_ox_arg_int(o, "index", k);
    return dl_ox_make(o, "aten.select.int", NULL, &s, at);
}

/* The numbers 0 to size - 1 along axis d of `rank` axes. */
static dl_ox_value *counted_along(dl_ox_op *o, int64_t size, int d, int rank) {
    dl_ox_shape list = {.rank = 1, .size = {size}}, s = {.rank = rank};
    for (int i = 0; i < rank; i++) s.size[i] = i == d ? size : 1;
    dl_ox_arg_real(o, "start", 0), dl_ox_arg_real(o, "step", 1);
    dl_ox_value *v =
        dl_ox_make_as(o, "aten.arange.start_step", NULL, &list, DL_FOREIGN_INT, DLR_ST_I64);
    if (!v) return NULL;
    dl_ox_arg_tensor(o, "self", v);
    return dl_ox_make_as(o, "aten.reshape.default", NULL, &s, DL_FOREIGN_INT, DLR_ST_I64);
}

/* The tensors that index the leading axes of x, and their common shape: `batch` axes go together.
 * How many; -1: none. */
static int parts_of_index(dl_ox_op *o, const dl_ox_value *x, dl_ox_value *at, int batch,
                          dl_ox_value **parts, dl_ox_shape *common) {
    if (!at || at->t->class != DL_FOREIGN_INT || at->t->rank < 1) return -1;
    int64_t k = at->t->shape[at->t->rank - 1];
    if (k < 1 || batch < 0 || batch >= at->t->rank || k + batch > x->t->rank) return -1;
    *common = dl_ox_shape_of(at), common->rank--;
    for (int i = 0; i < batch; i++) {
        if (common->size[i] != x->t->shape[i]) return -1;
        if (!(parts[i] = counted_along(o, x->t->shape[i], i, common->rank))) return -1;
    }
    for (int i = 0; i < k; i++)
        if (!(parts[batch + i] = part_of_index(o, at, i))) return -1;
    return batch + (int)k;
}

bool dl_ox_gather_rows(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0], *parts[2 * DL_FOREIGN_RANK];
    dl_ox_shape s;
    int n = parts_of_index(o, x, dl_ox_in(o, 1), (int)dl_ox_int(o->n, "batch_dims", 0), parts, &s);
    if (n < 1 || s.rank + x->t->rank - n > DL_FOREIGN_RANK) return false;
    for (int d = n; d < x->t->rank; d++) s.size[s.rank++] = x->t->shape[d];
    dl_ox_arg_tensor(o, "self", x), dl_ox_arg_tensors(o, "indices", n, parts);
    return dl_ox_make(o, "aten.index.Tensor", o->n->out[0], &s, x);
}

/* Rows of the third operand take the place of rows of the first, or are added to them. */
bool dl_ox_scatter_rows(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0], *from = dl_ox_in(o, 2), *parts[2 * DL_FOREIGN_RANK];
    dl_ox_shape common, s = dl_ox_shape_of(x);
    const char *how = dl_ox_word(o->n, "reduction", "none");
    bool adds = !strcmp(how, "add");
    int n = parts_of_index(o, x, dl_ox_in(o, 1), 0, parts, &common);
    if (n < 1 || !from || (!adds && strcmp(how, "none") != 0)) return false;
    dl_ox_arg_tensor(o, "self", x), dl_ox_arg_tensors(o, "indices", n, parts);
    dl_ox_arg_tensor(o, "values", from), dl_ox_arg_int(o, "accumulate", adds);
    return dl_ox_make(o, "aten.index_put.default", o->n->out[0], &s, x);
}

/* From operand 0 to operand 1, by steps of operand 2: as many as there are samples, or a multiple;
 * others are known (fold.c). */
bool dl_ox_range(dl_ox_op *o) {
    dl_ox_value *v[3] = {o->n->in[0], dl_ox_in(o, 1), dl_ox_in(o, 2)};
    double start, step;
    if (!v[1] || !v[2] || !dl_ox_number(o->r, v[0], &start) || !dl_ox_number(o->r, v[2], &step))
        return false;
    const double *end = dl_ox_known(o->r, v[1]), *other = v[1]->other;
    if (!end || !other || v[0]->t->class != DL_FOREIGN_INT || step == 0) return false;
    double n = ceil((*end - start) / step), n2 = ceil((*other - start) / step);
    int64_t times = n > 0 && n < 1e15 ? (int64_t)n / DL_OX_BATCH : 0;
    if (times < 1 || n != (double)(times * DL_OX_BATCH) ||
        n2 != (double)(times * DL_OX_OTHER_BATCH))
        return false;
    dl_ox_shape s = {.rank = 1, .size = {times * DL_OX_BATCH}};
    dl_ox_arg_real(o, "start", start), dl_ox_arg_real(o, "step", step);
    return dl_ox_make(o, "aten.arange.start_step", o->n->out[0], &s, v[0]);
}
