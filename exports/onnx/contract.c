/* Contractions by names, and attention. */
#include <math.h>

#include "exports/onnx/ops.h"

/* The axes of two operands by their role in the product. */
typedef struct {
    int batch[2][DL_MAX_RANK], own[2][DL_MAX_RANK], sum[2][DL_MAX_RANK];
    int n_batch, n_own[2], n_sum;
    bool leading; /* the first operand's batch axes come before its own */
} roles;

static bool is_summed(const dl_attr *over, const char *name) {
    for (int i = 0; i < over->n; i++)
        if (over->names[i] == name) return true;
    return false;
}

static roles find_roles(const dl_attr *over, const dl_type *a, const dl_type *b) {
    roles r = {.leading = true};
    for (int i = 0; i < a->rank; i++) {
        int k = dl_type_axis(b, a->axis[i].name);
        if (is_summed(over, a->axis[i].name)) {
            r.sum[0][r.n_sum] = i, r.sum[1][r.n_sum++] = k;
        } else if (k >= 0) {
            r.leading &= !r.n_own[0];
            r.batch[0][r.n_batch] = i, r.batch[1][r.n_batch++] = k;
        } else {
            r.own[0][r.n_own[0]++] = i;
        }
    }
    for (int i = 0; i < b->rank; i++)
        if (dl_type_axis(a, b->axis[i].name) < 0) r.own[1][r.n_own[1]++] = i;
    return r;
}

/* MatMul takes a [batch.., m, k] and b [batch.., k, n]; without batch axes, any number of m, and
 * vectors. */
static bool is_matmul(const roles *r) {
    if (r->n_sum != 1 || !r->leading) return false;
    return r->n_batch ? r->n_own[0] == 1 && r->n_own[1] == 1 : r->n_own[1] <= 1;
}

static const char *matmul(dl_onnx *o, const roles *r, dl_onnx_value a, dl_onnx_value b) {
    int of_a[DL_MAX_RANK], of_b[DL_MAX_RANK], na = 0, nb = 0;
    for (int i = 0; i < r->n_batch; i++) of_a[na++] = r->batch[0][i], of_b[nb++] = r->batch[1][i];
    for (int i = 0; i < r->n_own[0]; i++) of_a[na++] = r->own[0][i];
    of_a[na++] = r->sum[0][0], of_b[nb++] = r->sum[1][0];
    for (int i = 0; i < r->n_own[1]; i++) of_b[nb++] = r->own[1][i];
    a = dl_onnx_permute(o, a, of_a), b = dl_onnx_permute(o, b, of_b);
    return dl_onnx_add2(o, "MatMul", a.name, b.name);
}

/* Axes are letters, in the order in which they appear. */
static const char *einsum(dl_onnx *o, const dl_type *types[3], const char *a, const char *b) {
    const char *names[3 * DL_MAX_RANK];
    int n = 0;
    dl_buf text = {0}, attributes = {0};
    for (int t = 0; t < 3; t++) {
        dl_puts(&text, t == 0 ? "" : t == 1 ? "," : "->");
        for (int i = 0; i < types[t]->rank; i++) {
            int k = 0;
            while (k < n && names[k] != types[t]->axis[i].name) k++;
            if (k == n) names[n++] = types[t]->axis[i].name;
            dl_putf(&text, "%c", 'a' + k);
        }
    }
    dl_onnx_put_text(&attributes, "equation", text.at);
    dl_buf_free(&text);
    return dl_onnx_add(o, "Einsum", 2, (const char *[]){a, b}, &attributes);
}

bool dl_onnx_contract(dl_onnx *o, const dl_node *n, const char *word) {
    const dl_attr *over = dl_node_attr(n, DL_ATTR_over);
    dl_onnx_value a = dl_onnx_in(o, n, 0), b = dl_onnx_in(o, n, 1), out = dl_onnx_out(o, n);
    (void)word;
    if (!over->n)
        return dl_onnx_set(
            o, n,
            dl_onnx_add2(o, "Mul", dl_onnx_align(o, a, &out).name, dl_onnx_align(o, b, &out).name));
    const roles r = find_roles(over, &a.type, &b.type);
    if (is_matmul(&r)) return dl_onnx_set(o, n, matmul(o, &r, a, b));
    const dl_type *types[] = {&a.type, &b.type, &out.type};
    return dl_onnx_set(o, n, einsum(o, types, a.name, b.name));
}

/* ---- attention ---- */

/* x [N, T, E] as heads: [N, head, T, E / heads], or with the last two axes exchanged. */
static dl_onnx_value heads_of(dl_onnx *o, dl_onnx_value x, int64_t heads, bool keys) {
    const int plain[] = {0, 2, 1, 3}, exchanged[] = {0, 2, 3, 1};
    dl_onnx_value t = {.type = dl_scalar(x.type.dtype)};
    dl_onnx_push_axis(&t, &x, 0), dl_onnx_push_axis(&t, &x, 1);
    dl_onnx_push(&t, "", heads, 0);
    dl_onnx_push(&t, "", x.type.axis[2].size / heads, 0);
    return dl_onnx_permute(o, dl_onnx_reshape(o, x, &t), keys ? exchanged : plain);
}

/* Minus infinity for each key after its query, [T, S]. */
static const char *mask_of(dl_onnx *o, dl_dtype dtype, int64_t queries, int64_t keys) {
    dl_type t = dl_scalar(dtype);
    dl_type_push(&t, "T", queries), dl_type_push(&t, "S", keys);
    double *mask = DL_NEWS(o->arena, double, queries *keys + 1);
    for (int64_t i = 0; i < queries; i++)
        for (int64_t k = i + 1; k < keys; k++) mask[i * keys + k] = -INFINITY;
    return dl_onnx_doubles(o, t, mask);
}

/* Scores and addend `i` of the node: numbers, or a mask of bools that are true where a query may
 * see a key. */
static const char *with_addend(dl_onnx *o, const dl_node *n, int i, const char *scores) {
    const char *addend = dl_onnx_in(o, n, i).name;
    if (n->in[i]->type.dtype != DL_BOOL) return dl_onnx_add2(o, "Add", scores, addend);
    return dl_onnx_add3(o, "Where", addend, scores,
                        dl_onnx_scalar(o, n->in[0]->type.dtype, -INFINITY));
}

/* The softmax of scores along the keys; `hidden`: a query may see none, and then all are zero. */
static const char *softmax(dl_onnx *o, const dl_node *n, const char *scores, bool hidden) {
    dl_dtype type = n->in[0]->type.dtype;
    dl_buf along = {0};
    const int64_t keys = 3;
    dl_onnx_put_int(&along, "axis", -1);
    const char *shares = dl_onnx_add(o, "Softmax", 1, &scores, &along);
    if (!hidden) return shares;
    const char *top = dl_onnx_reduced(o, "ReduceMax", scores, 1, &keys, true);
    const char *blind = dl_onnx_add2(o, "Equal", top, dl_onnx_scalar(o, type, -INFINITY));
    return dl_onnx_add3(o, "Where", blind, dl_onnx_scalar(o, type, 0), shares);
}

bool dl_onnx_attention(dl_onnx *o, const dl_node *n, const char *word) {
    const int back[] = {0, 2, 1, 3};
    const dl_onnx_value q = dl_onnx_in(o, n, 0), k = dl_onnx_in(o, n, 1), v = dl_onnx_in(o, n, 2),
                        out = dl_onnx_out(o, n);
    int64_t heads = dl_node_int(n, DL_ATTR_heads), size = q.type.axis[2].size / heads;
    const dl_attr *causal = dl_node_attr(n, DL_ATTR_causal);
    (void)word;
    if (q.per[1] || k.per[1] || q.per[2]) return dl_onnx_needs_batch(o);
    dl_onnx_value queries = heads_of(o, q, heads, false), values = heads_of(o, v, heads, false);
    queries.name = dl_onnx_add2(o, "Mul", queries.name,
                                dl_onnx_scalar(o, q.type.dtype, 1 / sqrt((double)size)));
    const char *scores = dl_onnx_add2(o, "MatMul", queries.name, heads_of(o, k, heads, true).name);
    if (causal && causal->i)
        scores = dl_onnx_add2(o, "Add", scores,
                              mask_of(o, q.type.dtype, q.type.axis[1].size, k.type.axis[1].size));
    for (int i = 3; i < n->nin; i++) scores = with_addend(o, n, i, scores);
    const char *shares = softmax(o, n, scores, n->nin > 3);
    queries.name = dl_onnx_add2(o, "MatMul", shares, values.name);
    dl_onnx_value y = dl_onnx_permute(o, queries, back);
    return dl_onnx_set(o, n, dl_onnx_reshape(o, y, &out).name);
}
