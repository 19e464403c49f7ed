#include "ir/builder.h"

#include "ir/collective.h"

dl_attr dl_attr_int(dl_attr_id id, int64_t v) { return (dl_attr){.id = id, .i = v}; }
dl_attr dl_attr_float(dl_attr_id id, double v) { return (dl_attr){.id = id, .f = v}; }
dl_attr dl_attr_name(dl_attr_id id, const char *name) {
    return (dl_attr){.id = id, .s = dl_intern(name)};
}

dl_attr dl_attr_ints(dl_attr_id id, int n, const int64_t *v) {
    DL_CHECK(n <= DL_MAX_RANK);
    dl_attr a = {.id = id, .n = n};
    if (n) memcpy(a.ints, v, sizeof *v * (size_t)n);
    return a;
}

dl_attr dl_attr_names(dl_attr_id id, int n, const char *const *names) {
    DL_CHECK(n <= DL_MAX_RANK);
    dl_attr a = {.id = id, .n = n};
    for (int i = 0; i < n; i++) a.names[i] = dl_intern(names[i]);
    return a;
}

dl_attr dl_attr_of(const dl_graph *g, const char *of) {
    const char **texts = DL_NEW(g->module->arena, const char *);
    *texts = dl_intern(of);
    return (dl_attr){.id = DL_ATTR_of, .n = 1, .texts = texts};
}

static dl_value *build(dl_builder *b, dl_op op, int nin, dl_value *const *in, int nattrs,
                       const dl_attr *attrs, const dl_type *given, dl_shape_fault *fault,
                       bool (*infer)(const dl_node *, dl_type *, dl_shape_fault *)) {
    uint32_t id = b->graph->next_id;
    int results = dl_op_results(op) ? dl_op_results(op) : 1; /* fused: the kernel is set later */
    dl_type type[DL_MAX_RESULTS] = {given ? *given : dl_scalar(DL_F32)};
    dl_node *n = dl_node_new(b->graph, op, nin, in, results, type, b->loc);
    for (int i = 0; i < nattrs; i++) dl_node_set(b->graph, n, attrs[i]);
    if (!infer(n, type, fault)) {
        b->graph->next_id = id;
        return NULL;
    }
    for (int i = 0; i < results && !given; i++) n->out[i].type = type[i];
    dl_push(b->graph->module->arena, &b->graph->nodes, n);
    return &n->out[0];
}

dl_value *dl_build_try(dl_builder *b, dl_op op, int nin, dl_value *const *in, int nattrs,
                       const dl_attr *attrs, const dl_type *given, dl_shape_fault *fault) {
    return build(b, op, nin, in, nattrs, attrs, given, fault, dl_infer);
}

/* A pass builds valid nodes, but a node may be too large, such as a window of all elements at each
 * element. The node is built so that the pass can end. The module keeps the fault, and the pass
 * manager stops there. */
static dl_value *build_right(dl_builder *b, dl_op op, int nin, dl_value *const *in, int nattrs,
                             const dl_attr *attrs, const dl_type *given) {
    dl_shape_fault fault = {0}, other = {0};
    dl_module *m = b->graph->module;
    dl_value *v = dl_build_try(b, op, nin, in, nattrs, attrs, given, &fault);
    if (!v) v = build(b, op, nin, in, nattrs, attrs, given, &other, dl_infer_any_size);
    if (!v) dl_panic(__FILE__, __LINE__, "%s: %s", dl_ops[op].name, fault.message);
    if (fault.code && !m->fault)
        m->fault = dl_format(
            m->arena,
            "%s:%d:%d: error: computing this, or its gradient, takes too large a tensor: %s "
            "[DL-E0210]",
            b->loc.file ? b->loc.file : b->graph->name, b->loc.line, b->loc.column, fault.message);
    return v;
}

dl_value *dl_build(dl_builder *b, dl_op op, int nin, dl_value *const *in, int nattrs,
                   const dl_attr *attrs) {
    return build_right(b, op, nin, in, nattrs, attrs, NULL);
}

dl_value *dl_build_as(dl_builder *b, dl_op op, int nin, dl_value *const *in, int nattrs,
                      const dl_attr *attrs, dl_type type) {
    return build_right(b, op, nin, in, nattrs, attrs, &type);
}

dl_value *dl_build_const(dl_builder *b, dl_dtype dtype, double value) {
    dl_attr a = dl_attr_float(DL_ATTR_value, value);
    return dl_build_as(b, DL_OP_const, 0, NULL, 1, &a, dl_scalar(dtype));
}

dl_value *dl_build1(dl_builder *b, dl_op op, dl_value *a) {
    return dl_build(b, op, 1, &a, 0, NULL);
}

dl_value *dl_build2(dl_builder *b, dl_op op, dl_value *a, dl_value *c) {
    dl_value *in[] = {a, c};
    return dl_build(b, op, 2, in, 0, NULL);
}

dl_value *dl_build3(dl_builder *b, dl_op op, dl_value *a, dl_value *c, dl_value *d) {
    dl_value *in[] = {a, c, d};
    return dl_build(b, op, 3, in, 0, NULL);
}

dl_value *dl_build_k(dl_builder *b, dl_op op, dl_value *a, double k) {
    return dl_build2(b, op, a, dl_build_const(b, a->type.dtype, k));
}

dl_value *dl_build_cast(dl_builder *b, dl_value *a, dl_dtype to) {
    if (a->type.dtype == to) return a;
    dl_type t = a->type;
    t.dtype = to;
    return dl_build_as(b, DL_OP_cast, 1, &a, 0, NULL, t);
}

dl_value *dl_build_broadcast(dl_builder *b, dl_value *v, dl_type type) {
    if (dl_type_same(&v->type, &type)) return v;
    return dl_build_as(b, DL_OP_broadcast, 1, &v, 0, NULL, type);
}

dl_value *dl_build_reduce(dl_builder *b, dl_op op, dl_value *a, int n, const char *const *over) {
    dl_attr attr = {.id = DL_ATTR_over};
    if (n)
        attr = dl_attr_names(DL_ATTR_over, n, over);
    else
        for (int i = 0; i < a->type.rank; i++) attr.names[attr.n++] = a->type.axis[i].name;
    return dl_build(b, op, 1, &a, 1, &attr);
}

dl_value *dl_build_slice(dl_builder *b, dl_value *v, const char *axis, int64_t start,
                         int64_t stop) {
    dl_attr at[] = {dl_attr_name(DL_ATTR_axis, axis), dl_attr_int(DL_ATTR_start, start),
                    dl_attr_int(DL_ATTR_stop, stop)};
    return dl_build(b, DL_OP_slice, 1, &v, 3, at);
}

dl_value *dl_build_affine(dl_builder *b, dl_value *v, dl_affine a) {
    const char *along[] = {a.axis, a.tap};
    int64_t stride[] = {a.stride, a.tap_stride};
    int n = a.tap ? 2 : 1;
    dl_attr at[] = {dl_attr_ints(DL_ATTR_stride, n, stride), dl_attr_int(DL_ATTR_start, a.start),
                    dl_attr_names(DL_ATTR_along, n, along),
                    dl_attr_int(DL_ATTR_div, a.div ? a.div : 1),
                    dl_attr_name(DL_ATTR_outside, dl_outside_names[a.outside])};
    dl_type t = v->type;
    t.axis[dl_type_axis(&t, a.axis)].size = a.size;
    if (a.tap && dl_type_axis(&t, a.tap) < 0) dl_type_push(&t, a.tap, a.taps);
    return dl_build_as(b, DL_OP_affine, 1, &v, 5, at, t);
}

dl_value *dl_build_count(dl_builder *b, const dl_type *like, int axis, dl_dtype dtype) {
    dl_type t = dl_scalar(dtype);
    t.axis[t.rank++] = like->axis[axis];
    dl_attr attr = dl_attr_name(DL_ATTR_axis, like->axis[axis].name);
    return dl_build_as(b, DL_OP_iota, 0, NULL, 1, &attr, t);
}

dl_value *dl_build_gathered(dl_builder *b, dl_value *share, const dl_var_cut *c, const char *of) {
    dl_attr at[] = {dl_attr_name(DL_ATTR_axis, share->type.axis[c->axis].name),
                    dl_attr_ints(DL_ATTR_size, 1, &c->size),
                    dl_attr_name(DL_ATTR_group, c->group),
                    dl_attr_int(DL_ATTR_ranks, c->ranks),
                    dl_attr_int(DL_ATTR_rank, c->rank),
                    dl_attr_of(b->graph, of)};
    return dl_build(b, DL_OP_all_gather, 1, &share, 6, at);
}

dl_value *dl_build_share(dl_builder *b, dl_value *v, const dl_var_cut *c) {
    dl_share own = dl_cut_share(c);
    dl_attr at[] = {dl_attr_name(DL_ATTR_axis, v->type.axis[c->axis].name),
                    dl_attr_int(DL_ATTR_start, own.first),
                    dl_attr_int(DL_ATTR_stop, own.first + own.n)};
    return dl_build(b, DL_OP_slice, 1, &v, 3, at);
}
