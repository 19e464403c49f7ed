/* Builds nodes at the end of a graph, for the front end, autodiff and the optimiser.
 *
 * Every call infers the result type. A shape fault is an internal fault, since passes build only
 * valid nodes. One fault is the user's: a model's sizes may lead to a tensor that is larger than
 * allowed. Such a node is built, and module->fault has its place (dl_run_passes stops there). The
 * front end, whose operands come from users, calls dl_build_try. */
#ifndef DL_BUILDER_H
#define DL_BUILDER_H
#include "ir/affine.h"
#include "ir/infer.h"

typedef struct {
    dl_graph *graph;
    dl_loc loc; /* given to every node built */
} dl_builder;

/* Builds any op from operands and attributes; returns its result, of several the first (the others
 * are v->def->out[i]). */
dl_value *dl_build(dl_builder *b, dl_op op, int nin, dl_value *const *in, int nattrs,
                   const dl_attr *attrs);
/* The same with a given result type (const, iota, cast, broadcast, rename, rearrange...). */
dl_value *dl_build_as(dl_builder *b, dl_op op, int nin, dl_value *const *in, int nattrs,
                      const dl_attr *attrs, dl_type type);
/* Returns NULL and sets *fault on a shape fault, and adds nothing to the graph. `given` may be
 * NULL. */
dl_value *dl_build_try(dl_builder *b, dl_op op, int nin, dl_value *const *in, int nattrs,
                       const dl_attr *attrs, const dl_type *given, dl_shape_fault *fault);

dl_value *dl_build_const(dl_builder *b, dl_dtype dtype, double value); /* a scalar */
dl_value *dl_build1(dl_builder *b, dl_op op, dl_value *a);
dl_value *dl_build2(dl_builder *b, dl_op op, dl_value *a, dl_value *c);
dl_value *dl_build3(dl_builder *b, dl_op op, dl_value *a, dl_value *c, dl_value *d);
/* The op with a scalar constant of a's element type as second operand: dl_build_k(b, DL_OP_mul, x,
 * 0.5). */
dl_value *dl_build_k(dl_builder *b, dl_op op, dl_value *a, double k);
dl_value *dl_build_cast(dl_builder *b, dl_value *a, dl_dtype to); /* a itself when it is of that
                                                                     type */
/* v with the axes of `type`, matched by name; v itself when it has these in this order. Arithmetic
 * drops axes without a name, and this restores them. */
dl_value *dl_build_broadcast(dl_builder *b, dl_value *v, dl_type type);
/* sum, mean, reduce_max...: over all axes when n is 0. */
dl_value *dl_build_reduce(dl_builder *b, dl_op op, dl_value *a, int n, const char *const *over);
/* The elements [start, stop) of an axis. */
dl_value *dl_build_slice(dl_builder *b, dl_value *v, const char *axis, int64_t start, int64_t stop);

/* The op affine along `axis`, which gets `size` elements: i stride + j tap_stride + start, divided
 * by div (0: 1). `tap` is NULL, or an axis that v has, or a new one of `taps` elements. */
typedef struct {
    const char *axis, *tap; /* interned */
    int64_t size, stride, start, div, taps, tap_stride;
    dl_outside outside;
} dl_affine;
dl_value *dl_build_affine(dl_builder *b, dl_value *v, dl_affine a);
/* 0, 1, 2, ... along `axis` of `like`. */
dl_value *dl_build_count(dl_builder *b, const dl_type *like, int axis, dl_dtype dtype);

dl_attr dl_attr_int(dl_attr_id id, int64_t v);
dl_attr dl_attr_float(dl_attr_id id, double v);
dl_attr dl_attr_name(dl_attr_id id, const char *name); /* interns */
dl_attr dl_attr_ints(dl_attr_id id, int n, const int64_t *v);
dl_attr dl_attr_names(dl_attr_id id, int n, const char *const *names);
/* The attribute `of` of a collective that carries one value of this graph. */
dl_attr dl_attr_of(const dl_graph *g, const char *of);

/* The shard of v that the cut leaves this rank. The inverse: the whole tensor, all-gathered from
 * the ranks' shards; `of` names the values. */
dl_value *dl_build_share(dl_builder *b, dl_value *v, const dl_var_cut *c);
dl_value *dl_build_gathered(dl_builder *b, dl_value *share, const dl_var_cut *c, const char *of);
#endif
