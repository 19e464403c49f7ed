/* Attention and its gradients as products, sums and a softmax. Numbers, random draws and masks
 * equal those of the templates (attention.h). Scores are stored where fusion needs them in
 * memory. */
#include <float.h>
#include <math.h>

#include "ir/attention.h"
#include "passes/lower/legalize.h"

/* Axes of queries, keys, heads and a head's features. */
static const char batch[] = "n", query[] = "t", key[] = "s", head[] = "h", feature[] = "d";

typedef struct {
    dl_builder *b;
    dl_attention a;
    dl_value *q, *k, *v,
        *factor;    /* factor: dropout's multiplier of each probability; NULL: no dropout */
    bool contracts; /* the target has contractions of this type */
    dl_value *addend[DL_ATT_ADDENDS];
} attention;

static dl_value *mul(dl_builder *b, dl_value *x, dl_value *y) {
    return dl_build2(b, DL_OP_mul, x, y);
}
static dl_value *reshape(dl_builder *b, dl_value *v, dl_type t) {
    return dl_build_as(b, DL_OP_reshape, 1, &v, 0, NULL, t);
}
static dl_value *product(const attention *s, dl_value *x, dl_value *y, const char *over) {
    over = dl_intern(over);
    dl_value *in[] = {x, y};
    dl_attr attr = dl_attr_names(DL_ATTR_over, 1, &over);
    return s->contracts ? dl_build(s->b, DL_OP_contract, 2, in, 1, &attr)
                        : dl_multiply_sum(s->b, x, y, 1, &over);
}
static dl_value *reduce(const attention *s, dl_op op, dl_value *x, const char *over) {
    over = dl_intern(over);
    return dl_build_reduce(s->b, op, x, 1, &over);
}

/* [N, tokens, E] with E split into heads and features. */
static dl_value *split(const attention *s, dl_value *v, const char *tokens) {
    dl_type t = dl_scalar(v->type.dtype);
    dl_type_push(&t, dl_intern(batch), v->type.axis[0].size);
    dl_type_push(&t, dl_intern(tokens), v->type.axis[1].size);
    dl_type_push(&t, dl_intern(head), s->a.heads), dl_type_push(&t, dl_intern(feature), s->a.size);
    return reshape(s->b, v, t);
}

/* The inverse: permutes the axes into the order of `names`, then joins them into those of the
 * type. */
static dl_value *join(const attention *s, dl_value *v, int n, const char *const names[],
                      dl_type to) {
    dl_type t = dl_scalar(v->type.dtype);
    for (int i = 0; i < n; i++) {
        const char *name = dl_intern(names[i]);
        t.axis[t.rank++] = v->type.axis[dl_type_axis(&v->type, name)];
    }
    return reshape(s->b, dl_build_broadcast(s->b, v, t), to);
}
static dl_value *join_heads(const attention *s, dl_value *v, const char *tokens, dl_type to) {
    return join(s, v, 4, (const char *const[]){batch, tokens, head, feature}, to);
}

/* One random number for each score, from `first` on; numbered within all scores of the whole
 * attention, of which these are a part. */
static dl_value *draw(const attention *s, int draws, dl_value *const *by) {
    const dl_attention *a = &s->a;
    static const char *const names[DL_ATT_CUTS] = {head, query, key};
    const int64_t own[DL_ATT_CUTS] = {a->heads, a->queries, a->keys};
    dl_type all = dl_scalar(DL_F64);
    dl_type_push(&all, dl_intern(batch), a->batch);
    for (int i = 0; i < DL_ATT_CUTS; i++) dl_type_push(&all, dl_intern(names[i]), a->whole[i]);
    dl_attr number = dl_attr_int(DL_ATTR_number, a->number);
    dl_value *v = dl_build_as(s->b, DL_OP_random, draws, by, 1, &number, all);
    for (int i = 0; i < DL_ATT_CUTS; i++) {
        if (a->whole[i] != own[i])
            v = dl_build_slice(s->b, v, names[i], a->first[i], a->first[i] + own[i]);
    }
    return v;
}

/* An addend without its axes that all scores share. */
static dl_value *short_addend(const attention *s, dl_value *v) {
    static const char *const names[] = {batch, head, query, key};
    dl_type t = dl_scalar(v->type.dtype);
    for (int i = 0; i < 4; i++)
        if (i == 3 || v->type.axis[i].size != 1)
            dl_type_push(&t, dl_intern(names[i]), v->type.axis[i].size);
    return reshape(s->b, v, t);
}

static attention begin(dl_builder *b, const dl_node *n) {
    attention s = {.b = b, .a = dl_attention_of(n)};
    s.q = split(&s, n->in[0], query), s.k = split(&s, n->in[1], key),
    s.v = split(&s, n->in[2], key);
    for (int i = 0; i < s.a.addends; i++) s.addend[i] = short_addend(&s, n->in[s.a.addend + i]);
    if (s.a.rate <= 0) return s;
    dl_value *toss = draw(&s, n->nin - s.a.seed, n->in + s.a.seed);
    dl_value *kept = dl_build_k(b, DL_OP_ge, toss, s.a.threshold);
    dl_value *zero = dl_build_const(b, s.q->type.dtype, 0);
    s.factor = dl_build3(b, DL_OP_select, kept, dl_build_const(b, s.q->type.dtype, s.a.kept), zero);
    return s;
}

/* q k^T / sqrt(size) and what is added; minus infinity where a mask hides the key from the query.
 */
static dl_value *scores(const attention *s) {
    dl_value *v = dl_build_k(s->b, DL_OP_mul, product(s, s->q, s->k, feature), s->a.scale);
    for (int i = 0; i < s->a.addends; i++) v = dl_build2(s->b, DL_OP_add, v, s->addend[i]);
    if (!s->a.causal) return v;
    dl_value *i = dl_build_count(s->b, &v->type, dl_type_axis(&v->type, dl_intern(query)), DL_I64);
    dl_value *j = dl_build_count(s->b, &v->type, dl_type_axis(&v->type, dl_intern(key)), DL_I64);
    i = dl_build_k(s->b, DL_OP_add, i, (double)dl_attention_ahead(&s->a));
    dl_value *sees = dl_build2(s->b, DL_OP_ge, i, j);
    dl_type all = v->type;
    all.dtype = DL_BOOL;
    sees = dl_build_as(s->b, DL_OP_broadcast, 1, &sees, 0, NULL, all);
    return dl_build3(s->b, DL_OP_select, sees, v, dl_build_const(s->b, v->type.dtype, -INFINITY));
}

static dl_value *dropped(const attention *s, dl_value *shares) {
    return s->factor ? mul(s->b, shares, s->factor) : shares;
}

/* y of this type; *log, if not NULL: the log of each query's sum of exponentials. */
static dl_value *attend(const attention *s, dl_type type, dl_value **log) {
    dl_value *v = scores(s), *most = reduce(s, DL_OP_reduce_max, v, key);
    if (s->a.addends) most = dl_build_k(s->b, DL_OP_max, most, -FLT_MAX); /* all may be hidden */
    if (s->contracts) most = dl_build1(s->b, DL_OP_stop_gradient, most);
    dl_value *e = dl_build1(s->b, DL_OP_exp, dl_build2(s->b, DL_OP_sub, v, most));
    dl_value *sum = reduce(s, DL_OP_sum, e, key), *by = sum;
    if (s->a.addends) /* zeros for a query that sees no key */
        by = dl_build2(s->b, DL_OP_add, sum,
                       dl_build_cast(s->b, dl_build_k(s->b, DL_OP_eq, sum, 0), sum->type.dtype));
    dl_value *shares = dropped(s, dl_build2(s->b, DL_OP_div, e, by));
    if (log) *log = dl_build2(s->b, DL_OP_add, most, dl_build1(s->b, DL_OP_log, sum));
    return join_heads(s, product(s, shares, s->v, key), query, type);
}

dl_value *dl_expand_attention(dl_builder *b, const dl_node *n) {
    attention s = begin(b, n);
    s.contracts = true;
    return attend(&s, n->out[DL_ATT_Y].type, NULL);
}

void dl_legalize_attention(dl_builder *b, const dl_node *n, dl_value *made[DL_MAX_RESULTS]) {
    attention s = begin(b, n);
    dl_value *log;
    made[DL_ATT_Y] = attend(&s, n->out[DL_ATT_Y].type, &log);
    made[DL_ATT_LOG] =
        join(&s, log, 3, (const char *const[]){batch, head, query}, n->out[DL_ATT_LOG].type);
}

/* Shared by the backward halves: gradients of y, probabilities, and gradients of scores. */
typedef struct {
    dl_value *dy, *p, *ds;
} backward;

/* With the probabilities p, dropout's multipliers f, and z = p f: y = z v, dv = z^T dy and, as
 * softmax has the Jacobian diag(p) - p p^T, ds = p (f (dy v^T) - sum of dy y). */
static backward go_back(const attention *s, const dl_node *n) {
    dl_builder *b = s->b;
    backward r = {.dy = split(s, n->in[DL_GRAD_DY], query)};
    dl_value *y = split(s, n->in[DL_GRAD_Y], query);
    dl_type t = dl_scalar(n->in[DL_GRAD_LOG]->type.dtype);
    dl_type_push(&t, dl_intern(batch), s->a.batch), dl_type_push(&t, dl_intern(head), s->a.heads);
    dl_type_push(&t, dl_intern(query), s->a.queries);
    dl_value *log = reshape(b, n->in[DL_GRAD_LOG], t);
    if (s->a.addends) { /* a query that sees no key */
        dl_value *zero = dl_build_const(b, t.dtype, 0);
        log = dl_build3(b, DL_OP_select, dl_build_k(b, DL_OP_lt, log, -FLT_MAX), zero, log);
    }
    r.p = dl_build1(b, DL_OP_exp, dl_build2(b, DL_OP_sub, scores(s), log));
    dl_value *dp = dropped(s, product(s, r.dy, s->v, feature));
    dl_value *d = reduce(s, DL_OP_sum, mul(b, r.dy, y), feature);
    r.ds = mul(b, r.p, dl_build2(b, DL_OP_sub, dp, d));
    return r;
}

void dl_legalize_attention_grad(dl_builder *b, const dl_node *n, dl_value *made[DL_MAX_RESULTS]) {
    attention s = begin(b, n);
    backward r = go_back(&s, n);
    dl_value *ds = dl_build_k(b, DL_OP_mul, r.ds, s.a.scale);
    made[DL_GRAD_DQ] = join_heads(&s, product(&s, ds, s.k, key), query, n->out[DL_GRAD_DQ].type);
    made[DL_GRAD_DK] = join_heads(&s, product(&s, ds, s.q, query), key, n->out[DL_GRAD_DK].type);
    made[DL_GRAD_DV] =
        join_heads(&s, product(&s, dropped(&s, r.p), r.dy, query), key, n->out[DL_GRAD_DV].type);
}

dl_value *dl_legalize_attention_bias_grad(dl_builder *b, const dl_node *n) {
    attention s = begin(b, n);
    dl_value *ds = go_back(&s, n).ds;
    const dl_type *to = &n->out[0].type;
    if (to->axis[0].size != s.a.batch) ds = reduce(&s, DL_OP_sum, ds, batch);
    if (to->axis[1].size != s.a.heads) ds = reduce(&s, DL_OP_sum, ds, head);
    static const char *const names[] = {batch, head, query, key};
    const char *left[4];
    int count = 0;
    for (int i = 0; i < 4; i++)
        if (dl_type_axis(&ds->type, dl_intern(names[i])) >= 0) left[count++] = names[i];
    return join(&s, ds, count, left, *to);
}
