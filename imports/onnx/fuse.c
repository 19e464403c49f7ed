/* Patterns of nodes that exporters write for one layer become that layer again. The last node of a
 * pattern takes its place, under an op of ours ("dl.Linear"). */
#include <math.h>

#include "imports/onnx/parts.h"

/* The node that computes v, if it is of that op. */
static dl_ox_node *maker(const dl_ox *r, const dl_ox_value *v, const char *op) {
    dl_ox_node *n = v && v->by >= 0 ? &r->nodes.at[v->by] : NULL;
    return n && !n->gone && strcmp(n->op, op) == 0 && n->out[0] == v ? n : NULL;
}

static dl_ox_value *operand(const dl_ox_node *n, int i) { return i < n->n_in ? n->in[i] : NULL; }

/* One of two operands is made by the op, the other one goes to *other. */
static dl_ox_node *maker_of_either(const dl_ox *r, const dl_ox_node *n, const char *op,
                                   dl_ox_value **other) {
    for (int i = 0; i < 2 && n->n_in == 2; i++) {
        dl_ox_node *found = maker(r, n->in[i], op);
        if (found) return *other = n->in[1 - i], found;
    }
    return NULL;
}

static bool is_number(dl_ox *r, dl_ox_value *v, double wanted) {
    double x;
    return v && v->t && dl_ox_number(r, v, &x) && fabs(x - wanted) <= 1e-5 * fabs(wanted);
}

static void become(dl_ox *r, dl_ox_node *n, const char *op, int n_in, dl_ox_value *const *in,
                   int n_attrs, const dl_ox_attr *attrs) {
    dl_ox_value **list = DL_NEWS(r->arena, dl_ox_value *, n_in + 1);
    dl_ox_attr *copies = DL_NEWS(r->arena, dl_ox_attr, n_attrs + 1);
    for (int i = 0; i < n_in; i++) list[i] = in[i];
    for (int i = 0; i < n_attrs; i++) copies[i] = attrs[i];
    n->op = op, n->in = list, n->n_in = n_in, n->attrs = copies, n->n_attrs = n_attrs;
}

/* ---- x W + b ---- */

static bool fuse_linear(dl_ox *r, dl_ox_node *n) {
    dl_ox_value *bias;
    dl_ox_node *product = maker_of_either(r, n, "MatMul", &bias);
    if (!product || product->out[0]->reads != 1 || !bias || !bias->stored || bias->t->rank != 1)
        return false;
    const dl_ox_value *w = product->in[1];
    const dl_ox_node *turned = maker(r, w, "Transpose");
    if (turned) w = turned->in[0];
    if (!w || !w->stored || w->t->rank != 2) return false;
    become(r, n, "dl.Linear", 3, (dl_ox_value *[]){product->in[0], product->in[1], bias}, 0, NULL);
    product->gone = true;
    return true;
}

/* ---- activations ---- */

/* The factors of a product of products that nothing else reads. */
static int factors(dl_ox *r, const dl_ox_node *n, dl_ox_value **to, int most) {
    int count = 0;
    for (int i = 0; i < 2 && n->n_in == 2; i++) {
        const dl_ox_node *inner = maker(r, n->in[i], "Mul");
        if (inner && n->in[i]->reads == 1)
            count += factors(r, inner, to + count, most - count);
        else if (count < most)
            to[count++] = n->in[i];
    }
    return count;
}

/* Whether v is x / sqrt(2), or that times the root of 1/2. */
static bool is_scaled(dl_ox *r, const dl_ox_value *v, const dl_ox_value *x) {
    const dl_ox_node *n = maker(r, v, "Div");
    if (n) return n->in[0] == x && is_number(r, n->in[1], sqrt(2));
    n = maker(r, v, "Mul");
    return n && ((n->in[0] == x && is_number(r, n->in[1], sqrt(0.5))) ||
                 (n->in[1] == x && is_number(r, n->in[0], sqrt(0.5))));
}

/* 0.044715 x^3 */
static bool is_cube(dl_ox *r, const dl_ox_value *v, const dl_ox_value *x) {
    dl_ox_value *f[4];
    const dl_ox_node *n = maker(r, v, "Mul");
    int count = n ? factors(r, n, f, 4) : 0, same = 0, numbers = 0;
    for (int i = 0; i < count; i++) {
        const dl_ox_node *power = maker(r, f[i], "Pow");
        if (power && power->in[0] == x && is_number(r, power->in[1], 3))
            same += 3;
        else
            same += f[i] == x, numbers += is_number(r, f[i], 0.044715);
    }
    return same == 3 && numbers == 1;
}

/* sqrt(2 / pi) (x + 0.044715 x^3) */
static bool is_tanh_part(dl_ox *r, const dl_ox_value *v, const dl_ox_value *x) {
    const dl_ox_node *n = maker(r, v, "Mul"), *sum;
    dl_ox_value *number, *cube;
    if (!n || !(sum = maker_of_either(r, n, "Add", &number)) ||
        !is_number(r, number, sqrt(2 / acos(-1))) || sum->n_in != 2)
        return false;
    cube = sum->in[0] == x ? sum->in[1] : sum->in[1] == x ? sum->in[0] : NULL;
    return cube && is_cube(r, cube, x);
}

/* x * 0.5 * (1 + erf(x / sqrt(2))), in any order, and its approximation by tanh. */
static bool fuse_gelu(dl_ox *r, dl_ox_node *n) {
    dl_ox_value *f[4], *x = NULL, *one;
    int half = 0, count = factors(r, n, f, 4);
    const dl_ox_node *sum = NULL;
    if (count != 3) return false;
    for (int i = 0; i < 3; i++) {
        const dl_ox_node *candidate = maker(r, f[i], "Add");
        dl_ox_value *ignored;
        if (candidate && (maker_of_either(r, candidate, "Erf", &ignored) ||
                          maker_of_either(r, candidate, "Tanh", &ignored)))
            sum = candidate;
        else if (is_number(r, f[i], 0.5))
            half++;
        else
            x = f[i];
    }
    if (!sum || !x || half != 1) return false;
    const dl_ox_node *inner = maker_of_either(r, sum, "Erf", &one);
    bool exact = inner != NULL;
    if (!inner) inner = maker_of_either(r, sum, "Tanh", &one);
    if (!is_number(r, one, 1) ||
        !(exact ? is_scaled(r, inner->in[0], x) : is_tanh_part(r, inner->in[0], x)))
        return false;
    dl_ox_attr how = {.name = "approximate", .text = exact ? "none" : "tanh"};
    become(r, n, "Gelu", 1, &x, 1, &how);
    return true;
}

static bool fuse_silu(dl_ox *r, dl_ox_node *n) {
    dl_ox_value *x;
    const dl_ox_node *gate = maker_of_either(r, n, "Sigmoid", &x);
    if (!gate || gate->in[0] != x) return false;
    become(r, n, "Swish", 1, &x, 0, NULL);
    return true;
}

/* ---- norms ---- */

/* (x - mean) / sqrt(mean((x - mean)^2) + eps) along the last axis */
static bool fuse_core(dl_ox *r, dl_ox_node *n) {
    dl_ox_node *difference = maker(r, operand(n, 0), "Sub"),
               *root = maker(r, operand(n, 1), "Sqrt");
    if (!difference || !root) return false;
    dl_ox_value *x = difference->in[0], *eps, *d = n->in[0];
    const dl_ox_node *mean = maker(r, difference->in[1], "ReduceMean"),
                     *sum = maker(r, root->in[0], "Add"), *variance, *square;
    if (!mean || mean->in[0] != x || !sum ||
        !(variance = maker_of_either(r, sum, "ReduceMean", &eps)))
        return false;
    square = maker(r, variance->in[0], "Pow");
    bool fits = square && square->in[0] == d && is_number(r, square->in[1], 2);
    if (!square && (square = maker(r, variance->in[0], "Mul")))
        fits = square->in[0] == d && square->in[1] == d;
    double number;
    dl_ox_op o = {.r = r, .n = mean}, p = {.r = r, .n = variance};
    int64_t axis, other;
    if (!fits || !eps->t || !dl_ox_number(r, eps, &number) ||
        dl_ox_ints(&o, 1, "axes", 1, &axis) != 1 || dl_ox_ints(&p, 1, "axes", 1, &other) != 1 ||
        axis != -1 || other != -1)
        return false;
    dl_ox_attr attrs[] = {{.name = "axis", .has_int = true, .whole = -1},
                          {.name = "epsilon", .real = number}};
    become(r, n, "LayerNormalization", 1, &x, 2, attrs);
    return true;
}

/* An instance norm without weights of [N, groups, rest], which gets its shape back. */
static bool fuse_groups(dl_ox *r, dl_ox_node *n) {
    const dl_ox_node *norm = maker(r, operand(n, 0), "InstanceNormalization"),
                     *into = norm ? maker(r, norm->in[0], "Reshape") : NULL;
    if (!into || norm->n_in != 3 || n->in[0]->reads != 1 || !into->in[1]->t) return false;
    const double *shape = dl_ox_known(r, into->in[1]),
                 *scale = norm->in[1]->t ? dl_ox_known(r, norm->in[1]) : NULL,
                 *bias = norm->in[2]->t ? dl_ox_known(r, norm->in[2]) : NULL;
    if (!shape || !scale || !bias || dl_foreign_count(into->in[1]->t) != 3) return false;
    for (int64_t i = 0; i < dl_foreign_count(norm->in[1]->t); i++)
        if (scale[i] != 1) return false;
    for (int64_t i = 0; i < dl_foreign_count(norm->in[2]->t); i++)
        if (bias[i] != 0) return false;
    dl_ox_attr attrs[] = {{.name = "num_groups", .has_int = true, .whole = (int64_t)shape[1]},
                          {.name = "epsilon", .real = dl_ox_real(norm, "epsilon", 1e-5)}};
    if (shape[1] != (double)dl_foreign_count(norm->in[1]->t)) return false;
    become(r, n, "dl.GroupNorm", 4, (dl_ox_value *[]){into->in[0], NULL, NULL, n->in[1]}, 2, attrs);
    return true;
}

/* The weight and the bias that follow a norm. */
static bool fuse_affine(dl_ox *r, dl_ox_node *n) {
    dl_ox_value *bias, *weight;
    dl_ox_node *product = maker_of_either(r, n, "Mul", &bias), *norm;
    if (!product || product->out[0]->reads != 1 || !dl_ox_vector(r, bias)) return false;
    norm = maker_of_either(r, product, "LayerNormalization", &weight);
    bool groups = !norm && (norm = maker_of_either(r, product, "dl.GroupNorm", &weight));
    if (!norm || norm->out[0]->reads != 1 || !dl_ox_vector(r, weight) || norm->n_in > 4 ||
        (groups ? norm->in[1] != NULL : norm->n_in != 1))
        return false;
    become(r, n, norm->op, groups ? 4 : 3,
           (dl_ox_value *[]){norm->in[0], weight, bias, groups ? norm->in[3] : NULL}, norm->n_attrs,
           norm->attrs);
    norm->gone = product->gone = true;
    return true;
}

/* Exporters merge stored tensors of equal numbers: later nodes read the one that there is, unless
 * the other one had a name of its own. */
static bool merge(dl_ox *r, const dl_ox_node *n, int index) {
    dl_ox_value *one = n->in[0], *other = n->out[0];
    if (!dl_ox_alias(&(dl_ox_op){.r = r, .n = n}, one)) return false;
    for (int i = index + 1; i < r->nodes.n && other->t == one->t; i++)
        for (int k = 0; k < r->nodes.at[i].n_in; k++)
            if (r->nodes.at[i].in[k] == other) r->nodes.at[i].in[k] = one, one->reads++;
    return true;
}

void dl_ox_fuse(dl_ox *r) {
    for (int i = 0; i < r->nodes.n; i++) {
        dl_ox_node *n = &r->nodes.at[i];
        if (n->gone || !n->out[0]) continue;
        if (!strcmp(n->op, "Identity") && operand(n, 0) && n->in[0]->stored)
            n->gone = merge(r, n, i);
        if (!strcmp(n->op, "Mul")) (void)(fuse_silu(r, n) || fuse_gelu(r, n));
        if (!strcmp(n->op, "Div")) fuse_core(r, n);
        if (!strcmp(n->op, "Reshape")) fuse_groups(r, n);
        if (!strcmp(n->op, "Add")) (void)(fuse_linear(r, n) || fuse_affine(r, n));
    }
}
