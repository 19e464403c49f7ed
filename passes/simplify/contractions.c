/* contractions: a sum of products whose factors have axes of their own becomes a contraction, so
 * that tied heads, attention scores, tables and matrix products written as sums run as matrix
 * products do, and so do their gradients.
 *
 *   sum(x[N, T, E] * w[V, E], over=E)      -> contract x, w over E
 *   sum(a * b - c * d, over=K)             -> sum(a * b, over=K) - sum(c * d, over=K)
 *   sum(a[N, K] * s[N] * b[M, K], over=K)  -> s * contract a, b over K
 *   sum(a[N, J, K] * b[M, K], over=[J, K]) -> contract sum(a, over=J), b over K
 *
 * It runs after `simplify`, for which a mean is a scaled sum, and before autodiff. Element types
 * stay: products are those of the factors' type, or of the type that their 16-bit product is
 * widened to, which leaves out one rounding. */
#include "ir/builder.h"
#include "ir/walk.h"
#include "passes/core/rewrite.h"
#include "passes/pass.h"

enum {
    MAX_FACTORS = 6,      /* of a product: 32 ways to make two of them */
    DEPTH = 6,            /* of nested products, or of nested sums of products */
    LEAST_OF_BATCH = 512, /* products of one of many matrices */
    LEAST_REUSE = 16      /* products an element of matrices that are read with a stride */
};

/* Axes of the product as a set of bits. */
typedef struct {
    dl_builder *b;
    const dl_type *type; /* of the value that is summed */
    unsigned over;
} summed;

typedef struct {
    dl_value *v;
    unsigned axes;
} factor;

typedef struct {
    factor at[MAX_FACTORS];
    int n;
} product;

static unsigned axes_of(const summed *s, const dl_type *t) {
    unsigned set = 0;
    for (int i = 0; i < s->type->rank; i++)
        if (*s->type->axis[i].name && dl_type_axis(t, s->type->axis[i].name) >= 0) set |= 1u << i;
    return set;
}

static double count(const summed *s, unsigned axes) {
    double n = 1;
    for (int i = 0; i < s->type->rank; i++)
        if (axes >> i & 1) n *= (double)s->type->axis[i].size;
    return n;
}

/* v without axes that have no name, which a contraction's operand must not have. */
static dl_value *named(dl_builder *b, dl_value *v) {
    dl_type t = dl_scalar(v->type.dtype);
    for (int i = 0; i < v->type.rank; i++)
        if (*v->type.axis[i].name) dl_type_push(&t, v->type.axis[i].name, v->type.axis[i].size);
    return t.rank == v->type.rank ? v : dl_build_as(b, DL_OP_broadcast, 1, &v, 0, NULL, t);
}

static bool widens(const dl_value *v) {
    const dl_node *n = dl_made_by(v, DL_OP_cast);
    return n && v->type.dtype == DL_F32 && dl_dtype_is_half(n->in[0]->type.dtype);
}

/* Collects the factors of v. False: there are too many. */
static bool collect(const summed *s, dl_value *v, int depth, product *p) {
    dl_value *narrow = widens(v) ? v->def->in[0] : v;
    const dl_node *n = depth < DEPTH ? dl_made_by(narrow, DL_OP_mul) : NULL;
    if (n) return collect(s, n->in[0], depth + 1, p) && collect(s, n->in[1], depth + 1, p);
    if (dl_made_by(v, DL_OP_broadcast)) v = v->def->in[0];
    if (p->n == MAX_FACTORS) return false;
    p->at[p->n++] = (factor){v, axes_of(s, &v->type)};
    return true;
}

/* A way to part the factors in two: bit i: factor i belongs to the second. */
static unsigned axes_of_part(const product *p, unsigned parts, bool second) {
    unsigned axes = 0;
    for (int i = 0; i < p->n; i++)
        if ((parts >> i & 1) == second) axes |= p->at[i].axes;
    return axes;
}

/* The innermost axis of a part's largest factor, as a set. */
static unsigned innermost(const summed *s, const product *p, unsigned way, bool second) {
    const dl_type *t = NULL;
    for (int i = 0; i < p->n; i++)
        if ((way >> i & 1) == second && (!t || p->at[i].v->type.rank > t->rank))
            t = &p->at[i].v->type;
    int last = t->rank - 1;
    while (!*t->axis[last].name) last--; /* each factor has an axis that is summed */
    return 1u << dl_type_axis(s->type, t->axis[last].name);
}

/* Is the product of the two parts, summed, a matrix product: has each part axes of its own, and
 * are there several terms? Many products of small matrices gain nothing from a contraction's
 * loops. Matrices that the innermost axis counts are read with a stride, which pays for large
 * ones only: as sums they are computed several at a time, one a vector lane. */
static bool is_matrix_product(const summed *s, const product *p, unsigned way) {
    unsigned a = axes_of_part(p, way, false), b = axes_of_part(p, way, true);
    unsigned batch = a & b & ~s->over;
    double m = count(s, a & ~b & ~s->over), n = count(s, b & ~a & ~s->over);
    double k = count(s, a & b & s->over), products = m * n * k;
    if (m <= 1 || n <= 1 || k <= 1) return false;
    if (count(s, batch) == 1) return true;
    unsigned inner = innermost(s, p, way, false) | innermost(s, p, way, true);
    if (count(s, batch & inner) > 1) return products >= LEAST_REUSE * (m * k + n * k + m * n);
    return products >= LEAST_OF_BATCH;
}

/* The way whose operands have the fewest elements; 0: there is none. */
static unsigned best_way(const summed *s, const product *p) {
    unsigned best = 0;
    double least = 0;
    for (unsigned way = 2; p->n > 1 && way < 1u << p->n; way += 2) { /* factor 0: the first part */
        double elements =
            count(s, axes_of_part(p, way, false)) + count(s, axes_of_part(p, way, true));
        if (!is_matrix_product(s, p, way) || (best && elements >= least)) continue;
        best = way, least = elements;
    }
    return best;
}

/* The product of a part's factors in the sum's type, summed over the axes that the other part
 * lacks. */
static dl_value *operand(const summed *s, const product *p, unsigned way, bool second) {
    dl_value *v = NULL;
    for (int i = 0; i < p->n; i++) {
        if ((way >> i & 1) != second) continue;
        dl_value *f = dl_build_cast(s->b, p->at[i].v, s->type->dtype);
        v = v ? dl_build2(s->b, DL_OP_mul, v, f) : f;
    }
    unsigned alone = s->over & axes_of_part(p, way, second) & ~axes_of_part(p, way, !second);
    const char *over[DL_MAX_RANK];
    int n = 0;
    for (int i = 0; i < s->type->rank; i++)
        if (alone >> i & 1) over[n++] = s->type->axis[i].name;
    return named(s->b, n ? dl_build_reduce(s->b, DL_OP_sum, v, n, over) : v);
}

static dl_value *contract(const summed *s, const product *p, unsigned way) {
    unsigned both = s->over & axes_of_part(p, way, false) & axes_of_part(p, way, true);
    const char *over[DL_MAX_RANK];
    int n = 0;
    for (int i = 0; i < s->type->rank; i++)
        if (both >> i & 1) over[n++] = s->type->axis[i].name;
    dl_value *in[] = {operand(s, p, way, false), operand(s, p, way, true)};
    dl_attr at = dl_attr_names(DL_ATTR_over, n, over);
    return dl_build(s->b, DL_OP_contract, 2, in, 1, &at);
}

/* Moves the factors that are the same for all terms from *p to *outer. */
static void take_outer(const summed *s, product *p, product *outer) {
    int kept = 0;
    for (int i = 0; i < p->n; i++)
        if (p->at[i].axes & s->over)
            p->at[kept++] = p->at[i];
        else
            outer->at[outer->n++] = p->at[i];
    p->n = kept;
}

/* The sum of a product as a contraction, or NULL. */
static dl_value *sum_product(const summed *s, dl_value *v) {
    product p = {0}, outer = {0};
    if (!collect(s, v, 0, &p)) return NULL;
    take_outer(s, &p, &outer);
    /* Along an axis that no factor has, all terms are equal: `simplify` takes it out. */
    bool complete = (axes_of_part(&p, 0, false) & s->over) == s->over;
    unsigned way = complete ? best_way(s, &p) : 0;
    if (!way) return NULL;
    dl_value *sum = contract(s, &p, way);
    for (int i = 0; i < outer.n; i++)
        sum = dl_build2(s->b, DL_OP_mul, sum, dl_build_cast(s->b, outer.at[i].v, s->type->dtype));
    return sum;
}

/* The sum of products that are added or subtracted, all of them as contractions, or NULL. */
static dl_value *sum_terms(const summed *s, dl_value *v, int depth) {
    const dl_node *n = depth < DEPTH ? v->def : NULL;
    if (n && n->op == DL_OP_neg) {
        dl_value *sum = sum_terms(s, n->in[0], depth + 1);
        return sum ? dl_build1(s->b, DL_OP_neg, sum) : NULL;
    }
    if (!n || (n->op != DL_OP_add && n->op != DL_OP_sub)) return sum_product(s, v);
    dl_value *in[2];
    for (int i = 0; i < 2; i++) {
        in[i] = n->in[i]->type.dtype == s->type->dtype ? sum_terms(s, n->in[i], depth + 1) : NULL;
        if (!in[i]) return NULL;
    }
    return dl_build(s->b, n->op, 2, in, 0, NULL);
}

static bool rewrite(void *user, dl_node *n, dl_value *made[DL_MAX_RESULTS]) {
    dl_builder *b = user;
    if (n->op != DL_OP_sum || !dl_dtype_is_float(n->out[0].type.dtype)) return false;
    b->loc = n->loc;
    const dl_attr *over = dl_node_attr(n, DL_ATTR_over);
    summed s = {.b = b, .type = &n->in[0]->type};
    for (int i = 0; i < over->n; i++) s.over |= 1u << dl_type_axis(s.type, over->names[i]);
    dl_value *v = sum_terms(&s, n->in[0], 0);
    if (!v) return false;
    made[0] = dl_build_broadcast(b, v, n->out[0].type);
    return true;
}

bool dl_pass_contractions(dl_graph *g, dl_pass_ctx *ctx) {
    dl_builder b = {.graph = g};
    bool changed = dl_rewrite(g, ctx->arena, rewrite, &b);
    return dl_graph_sweep(g) || changed;
}
