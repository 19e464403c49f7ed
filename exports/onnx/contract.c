/* Contractions by names, of real and of complex numbers. */
#include "exports/export.h"
#include "exports/onnx/ops.h"
#include "ir/base/str.h"
#include "ir/fourier.h"

/* The axes of two operands by their role in the product. */
typedef struct {
    int batch[2][DL_MAX_RANK], own[2][DL_MAX_RANK], sum[2][DL_MAX_RANK];
    int n_batch, n_own[2], n_sum;
    bool leading; /* the first operand's batch axes come before its own */
} roles;

static roles find_roles(int n, const char *const *over, const dl_type *a, const dl_type *b) {
    roles r = {.leading = true};
    for (int i = 0; i < a->rank; i++) {
        int k = dl_type_axis(b, a->axis[i].name);
        if (dl_names_have(n, over, a->axis[i].name)) {
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

/* a b, summed over n axes, with the axes of `out`. */
static const char *product(dl_onnx *o, int n, const char *const *over, dl_onnx_value a,
                           dl_onnx_value b, const dl_onnx_value *out) {
    if (!n)
        return dl_onnx_add2(o, "Mul", dl_onnx_align(o, a, out).name, dl_onnx_align(o, b, out).name);
    const roles r = find_roles(n, over, &a.type, &b.type);
    if (is_matmul(&r)) return matmul(o, &r, a, b);
    const dl_type *types[] = {&a.type, &b.type, &out->type};
    return einsum(o, types, a.name, b.name);
}

bool dl_onnx_contract(dl_onnx *o, const dl_node *n, const char *word) {
    const dl_attr *over = dl_node_attr(n, DL_ATTR_over);
    const dl_onnx_value out = dl_onnx_out(o, n);
    (void)word;
    return dl_onnx_set(
        o, n, product(o, over->n, over->names, dl_onnx_in(o, n, 0), dl_onnx_in(o, n, 1), &out));
}

/* ---- complex numbers ---- */

/* [re, im] in the last axis times two numbers. */
static const char *scaled(dl_onnx *o, const char *x, dl_dtype dtype, double re, double im) {
    dl_type t = dl_scalar(dtype);
    dl_type_push(&t, "", 2);
    return re == 1 && im == 1
               ? x
               : dl_onnx_add2(o, "Mul", x, dl_onnx_doubles(o, t, (const double[]){re, im}));
}

/* A number b as the matrix [[re, im], [-im, re]], by which [re, im] of a is multiplied from the
 * left: axes [..., Z, parts]. A conjugate of a changes the sign of its second row. */
static dl_onnx_value matrix_of(dl_onnx *o, dl_onnx_value b, bool conj_a, bool conj_b,
                               const char *parts) {
    const int64_t exchanged[] = {1, 0};
    const int last = b.type.rank - 1;
    double sign = conj_b ? -1 : 1, turn = conj_a ? -1 : 1;
    dl_buf along = {0}, stacked = {0};
    dl_onnx_put_int(&along, "axis", last);
    const char *in[] = {b.name, dl_onnx_ints(o, 2, exchanged)};
    dl_onnx_value row[] = {b, b};
    row[0].name = scaled(o, b.name, b.type.dtype, 1, sign);
    row[1].name = dl_onnx_add(o, "Gather", 2, in, &along);
    row[1].name = scaled(o, row[1].name, b.type.dtype, -sign * turn, turn);
    for (int i = 0; i < 2; i++) in[i] = dl_onnx_unsqueeze(o, row[i], 1u << last).name;
    dl_onnx_put_int(&stacked, "axis", last);
    b.name = dl_onnx_add(o, "Concat", 2, in, &stacked);
    dl_onnx_push(&b, parts, 2, 0);
    return b;
}

bool dl_onnx_complex_contract(dl_onnx *o, const dl_node *n, const char *word) {
    const dl_attr *over = dl_node_attr(n, DL_ATTR_over), *conj = dl_node_attr(n, DL_ATTR_conj);
    const char *summed[DL_MAX_RANK], *parts = dl_intern("Z parts");
    dl_onnx_value b = dl_onnx_in(o, n, 1), out = dl_onnx_out(o, n);
    (void)word;
    if (b.type.rank == DL_MAX_RANK) return dl_export_refuse(n, "ONNX", o->err);
    for (int i = 0; i < over->n; i++) summed[i] = over->names[i];
    summed[over->n] = dl_fourier_axis();
    b = matrix_of(o, b, conj->ints[0], conj->ints[1], parts);
    out.type.axis[out.type.rank - 1].name = parts;
    return dl_onnx_set(o, n, product(o, over->n + 1, summed, dl_onnx_in(o, n, 0), b, &out));
}
