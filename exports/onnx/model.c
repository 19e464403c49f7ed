#include "exports/onnx/model.h"

#include "runtime/base/convert.h"

const char *dl_onnx_fresh(dl_onnx *o, const char *of) {
    return dl_format(o->arena, "%s/%d", of, ++o->n_names);
}

void dl_onnx_add_all(dl_onnx *o, const char *op, int nin, const char *const *in, dl_buf *attributes,
                     int nout, const char **out) {
    const char *kind = o->node ? dl_ops[o->node->op].name : "data";
    dl_buf b = {0};
    for (int i = 0; i < nin; i++) dlr_pb_text(&b, DL_NODE_INPUT, in[i]);
    for (int i = 0; i < nout; i++) {
        out[i] = dl_onnx_fresh(o, kind);
        dlr_pb_text(&b, DL_NODE_OUTPUT, out[i]);
    }
    dlr_pb_text(&b, DL_NODE_NAME, out[0]);
    dlr_pb_text(&b, DL_NODE_OP, op);
    if (attributes) {
        if (attributes->n) dl_putn(&b, attributes->at, attributes->n);
        dl_buf_free(attributes);
    }
    if (o->node && o->node->loc.line)
        dlr_pb_text(&b, DL_NODE_DOC,
                    dl_format(o->arena, "%s:%d:%d", o->node->loc.file, o->node->loc.line,
                              o->node->loc.column));
    dlr_pb_message(&o->nodes, DL_GRAPH_NODE, &b);
}

const char *dl_onnx_add(dl_onnx *o, const char *op, int nin, const char *const *in,
                        dl_buf *attributes) {
    const char *name;
    dl_onnx_add_all(o, op, nin, in, attributes, 1, &name);
    return name;
}

const char *dl_onnx_add1(dl_onnx *o, const char *op, const char *a) {
    return dl_onnx_add(o, op, 1, &a, NULL);
}

const char *dl_onnx_add2(dl_onnx *o, const char *op, const char *a, const char *b) {
    return dl_onnx_add(o, op, 2, (const char *[]){a, b}, NULL);
}

const char *dl_onnx_add3(dl_onnx *o, const char *op, const char *a, const char *b, const char *c) {
    return dl_onnx_add(o, op, 3, (const char *[]){a, b, c}, NULL);
}

/* Do two constants have the same numbers? Layers that repeat have equal tables. */
static bool same_constant(const dl_onnx_tensor *t, const dl_type *type, const void *data) {
    bool same = t->data && t->type.dtype == type->dtype && t->type.rank == type->rank;
    for (int i = 0; same && i < type->rank; i++) same = t->type.axis[i].size == type->axis[i].size;
    return same &&
           memcmp(t->data, data, (size_t)(dl_type_count(type) * dl_dtype_bytes(type->dtype))) == 0;
}

const char *dl_onnx_constant(dl_onnx *o, dl_type type, const void *data) {
    for (int i = 0; i < o->tensors.n; i++)
        if (same_constant(&o->tensors.at[i], &type, data)) return o->tensors.at[i].name;
    const char *name = dl_onnx_fresh(o, "constant");
    dl_push(o->arena, &o->tensors, (dl_onnx_tensor){.name = name, .type = type, .data = data});
    return name;
}

const char *dl_onnx_ints(dl_onnx *o, int n, const int64_t *values) {
    dl_type t = dl_scalar(DL_I64);
    dl_type_push(&t, "", n);
    int64_t *copy = DL_NEWS(o->arena, int64_t, n + 1);
    for (int i = 0; i < n; i++) copy[i] = values[i];
    return dl_onnx_constant(o, t, copy);
}

const char *dl_onnx_int(dl_onnx *o, int64_t value) { return dl_onnx_ints(o, 1, &value); }

const char *dl_onnx_doubles(dl_onnx *o, dl_type type, const double *numbers) {
    int64_t n = dl_type_count(&type);
    void *data = dl_alloc_array(o->arena, (size_t)n + 1, (size_t)dl_dtype_bytes(type.dtype));
    dlr_convert(type.dtype, data, DL_F64, numbers, n);
    return dl_onnx_constant(o, type, data);
}

const char *dl_onnx_scalar(dl_onnx *o, dl_dtype dtype, double value) {
    return dl_onnx_doubles(o, dl_scalar(dtype), &value);
}

dl_onnx_value dl_onnx_named(dl_onnx_value v, const char *name) {
    v.name = name;
    return v;
}

dl_onnx_value dl_onnx_cast(dl_onnx *o, dl_onnx_value v, dl_dtype to) {
    dl_buf attributes = {0};
    if (v.type.dtype == to) return v;
    dl_onnx_put_int(&attributes, "to", dl_onnx_dtype(to));
    v.name = dl_onnx_add(o, "Cast", 1, &v.name, &attributes);
    v.type.dtype = to;
    return v;
}

const char *dl_onnx_where(dl_onnx *o, const char *mask, const char *yes, const char *no,
                          dl_dtype of) {
    const dl_dtype through = of == DL_BF16 ? DL_F32 : of;
    const dl_onnx_value a = {.name = yes, .type = dl_scalar(of)},
                        b = {.name = no, .type = dl_scalar(of)};
    dl_onnx_value made = {.type = dl_scalar(through)};
    made.name = dl_onnx_add3(o, "Where", mask, dl_onnx_cast(o, a, through).name,
                             dl_onnx_cast(o, b, through).name);
    return dl_onnx_cast(o, made, of).name;
}

const char *dl_onnx_batch(dl_onnx *o) {
    if (o->batch) return o->batch;
    int at = 0;
    DL_CHECK(o->sampled.name); /* a data set's inputs have the axis N */
    while (o->sampled.per[at] != 1) at++;
    dl_buf attributes = {0};
    dl_onnx_put_int(&attributes, "start", at);
    dl_onnx_put_int(&attributes, "end", at + 1);
    return o->batch = dl_onnx_add(o, "Shape", 1, &o->sampled.name, &attributes);
}

const char *dl_onnx_batches(dl_onnx *o, int64_t per) {
    const char *batch = dl_onnx_batch(o);
    return per == 1 ? batch : dl_onnx_add2(o, "Mul", batch, dl_onnx_int(o, per));
}

/* A size: a number, "N", or "4*N". */
static void put_dim(dl_buf *shape, int64_t size, int64_t per) {
    dl_buf dim = {0}, text = {0};
    if (!per) {
        dlr_pb_varint(&dim, DL_DIM_VALUE, (uint64_t)size);
    } else {
        if (per != 1) dl_putf(&text, "%lld*", (long long)per);
        dl_puts(&text, "N");
        dlr_pb_text(&dim, DL_DIM_PARAM, text.at);
        dl_buf_free(&text);
    }
    dlr_pb_message(shape, DL_SHAPE_DIM, &dim);
}

void dl_onnx_describe(dl_buf *list, int field, const dl_onnx_value *v) {
    dl_buf shape = {0}, tensor = {0}, type = {0}, info = {0};
    for (int i = 0; i < v->type.rank; i++) put_dim(&shape, v->type.axis[i].size, v->per[i]);
    dlr_pb_varint(&tensor, DL_TENSOR_TYPE_ELEMENT, (uint64_t)dl_onnx_dtype(v->type.dtype));
    dlr_pb_message(&tensor, DL_TENSOR_TYPE_SHAPE, &shape);
    dlr_pb_message(&type, DL_TYPE_TENSOR, &tensor);
    dlr_pb_text(&info, DL_INFO_NAME, v->name);
    dlr_pb_message(&info, DL_INFO_TYPE, &type);
    dlr_pb_message(list, field, &info);
}

bool dl_onnx_needs_batch(dl_onnx *o) {
    if (!o->not_batch) o->not_batch = o->node;
    return false;
}

dl_onnx_value dl_onnx_in(const dl_onnx *o, const dl_node *n, int i) {
    return o->values[n->in[i]->id];
}

dl_onnx_value dl_onnx_out(const dl_onnx *o, const dl_node *n) { return o->values[n->out[0].id]; }

bool dl_onnx_set(dl_onnx *o, const dl_node *n, const char *name) {
    dl_onnx_value *v = &o->values[n->out[0].id];
    v->name = name;
    dl_onnx_describe(&o->infos, DL_GRAPH_INFO, v);
    return true;
}
