/* Rules of ops that take elements by index: regular ones along an axis, and those of a tensor. */
#include "exports/pytorch/parts.h"
#include "ir/affine.h"

/* A selection along an axis, at this and at the next number of samples. */
typedef struct {
    int axis;
    int64_t stride, div, start, start2, size, size2, from, from2;
    dl_outside outside;
} selection;

static selection selection_of(torch_export *t, const dl_node *n) {
    const dl_node *next = dl_torch_next(t, n);
    if (!next) next = n;
    int axis = dl_type_axis(&n->in[0]->type, dl_node_attr(n, DL_ATTR_along)->names[0]);
    return (selection){.axis = axis,
                       .stride = dl_node_attr(n, DL_ATTR_stride)->ints[0],
                       .div = dl_node_int(n, DL_ATTR_div),
                       .start = dl_node_int(n, DL_ATTR_start),
                       .start2 = dl_node_int(next, DL_ATTR_start),
                       .size = n->out[0].type.axis[axis].size,
                       .size2 = next->out[0].type.axis[axis].size,
                       .from = n->in[0]->type.axis[axis].size,
                       .from2 = next->in[0]->type.axis[axis].size,
                       .outside = (dl_outside)dl_outside_find(dl_node_name(n, DL_ATTR_outside))};
}

/* x[:, 1::2]; NULL: an index is negative, outside, or depends on the samples. */
static const char *as_slice(torch_export *t, const selection *s, const char *x) {
    int64_t last = s->start + (s->size - 1) * s->stride;
    bool fixed = s->size == s->size2 && s->start == s->start2 && s->from == s->from2;
    if (s->stride < 1 || s->div != 1 || s->start < 0 || last >= s->from || !fixed || !s->size)
        return NULL;
    const char *before = "";
    for (int i = 0; i < s->axis; i++) before = dl_format(t->arena, "%s:, ", before);
    return dl_format(t->arena, "%s[%s%lld:%lld%s]", x, before, (long long)s->start,
                     (long long)last + 1,
                     s->stride > 1 ? dl_format(t->arena, ":%lld", (long long)s->stride) : "");
}

/* torch.flip, torch.roll or F.pad; `s` NULL: none of these. */
static torch_text as_function(torch_export *t, const dl_node *n, const selection *s) {
    torch_text x = dl_torch_tensor(t, n, 0);
    bool whole = s->size == s->from && s->size2 == s->from2 && s->div == 1,
         still = s->start == s->start2;
    if (whole && s->stride == -1 && s->start == s->size - 1 && s->start2 == s->size2 - 1)
        return dl_torch_atom(t, "torch.flip(%s, dims=(%d,))", x.s, s->axis);
    if (whole && s->stride == 1 && s->outside == DL_OUT_WRAP && still)
        return dl_torch_atom(t, "torch.roll(%s, %lld, dims=%d)", x.s, (long long)-s->start,
                             s->axis);
    int64_t hi = s->size + s->start - s->from, hi2 = s->size2 + s->start2 - s->from2;
    if (s->stride == 1 && s->div == 1 && s->outside == DL_OUT_ZERO && still && hi == hi2 &&
        s->start <= 0 && hi >= 0)
        return dl_torch_padded(t, x, n->in[0]->type.rank - 1 - s->axis, -s->start, hi);
    return (torch_text){0};
}

torch_text dl_torch_affine(torch_export *t, const dl_node *n, const char *word) {
    if (dl_node_attr(n, DL_ATTR_along)->n != 1) return dl_torch_refuse(t, n, word);
    selection s = selection_of(t, n);
    const char *x = dl_torch_within(t, dl_torch_tensor(t, n, 0), TORCH_ATOM),
               *slice = as_slice(t, &s, x);
    if (slice) return dl_torch_atom(t, "%s", slice);
    torch_text simple = as_function(t, n, &s);
    if (simple.s) return simple;
    t->helps |= 1u << TORCH_HELP_ALONG;
    return dl_torch_atom(t, "along(%s, %d, %s, stride=%lld, start=%s%s, outside=\"%s\")",
                         dl_torch_tensor(t, n, 0).s, s.axis, dl_torch_count(t, s.size, s.size2),
                         (long long)s.stride, dl_torch_count(t, s.start, s.start2),
                         s.div == 1 ? "" : dl_format(t->arena, ", div=%lld", (long long)s.div),
                         dl_outside_names[s.outside]);
}

/* ---- gather, scatters ---- */

/* The index of an axis of x: 0, 1, 2... along the axis of that name of a type. */
static const char *count_along(torch_export *t, const dl_value *x, int axis, const dl_type *to) {
    const char *s = dl_format(t->arena, "torch.arange(%s, device=%s)", dl_torch_size(t, x, axis),
                              t->device),
               *none = "";
    for (int i = dl_type_axis(to, x->type.axis[axis].name) + 1; i < to->rank; i++)
        none = dl_format(t->arena, "%s, None", none);
    return *none ? dl_format(t->arena, "%s[:%s]", s, none) : s;
}

/* An index for each axis of x: the node's numbers along its own axis, counts along others. Each has
 * the axes of a type. */
static const char *indices(torch_export *t, const dl_node *n, const dl_value *x, int dim,
                           const dl_type *to) {
    const char *s = "";
    for (int i = 0; i < x->type.rank; i++)
        s = dl_format(t->arena, "%s, %s", s,
                      i == dim ? dl_torch_aligned(t, n, 1, to).s : count_along(t, x, i, to));
    return s;
}

torch_text dl_torch_gather(torch_export *t, const dl_node *n, const char *word) {
    (void)word;
    const torch_layer *l = dl_torch_layer_of(t, n);
    if (l) return dl_torch_atom(t, "%s(%s)", dl_torch_path(t, l->path), dl_torch_tensor(t, n, 1).s);
    int dim = dl_type_axis(&n->in[0]->type, dl_node_name(n, DL_ATTR_axis));
    t->helps |= 1u << TORCH_HELP_GATHER;
    return dl_torch_atom(t, "gather(%s, %d%s)", dl_torch_tensor(t, n, 0).s, dim,
                         indices(t, n, n->in[0], dim, &n->out[0].type));
}

torch_text dl_torch_scatter(torch_export *t, const dl_node *n, const char *word) {
    int dim = dl_type_axis(&n->out[0].type, dl_node_name(n, DL_ATTR_axis));
    t->helps |= 1u << (n->op == DL_OP_scatter_max ? TORCH_HELP_SCATTER_MAX : TORCH_HELP_SCATTER);
    return dl_torch_atom(t, "%s(%s, (%s,), %d%s)", word, dl_torch_tensor(t, n, 0).s,
                         dl_torch_shape(t, &n->out[0]), dim,
                         indices(t, n, &n->out[0], dim, &n->in[0]->type));
}
