/* ring: ring attention over the context parallel ranks, unrolled step by step (Liu, Zaharia and
 * Abbeel, Ring attention with blockwise transformers, 2023).
 *
 * Each rank has some of the queries. In each step it has the keys and values of another rank,
 * which it sends to the next rank while it computes with them. Forward, the results of the steps
 * are weighted by their sums of exponentials: with s = log(exp s1 + exp s2), y = y1 exp(s1 - s) +
 * y2 exp(s2 - s). Backward, the template's backward half gets the logarithms over all keys, so
 * that its results of a step are terms of the gradients. The gradients of keys and values travel
 * with these, a step later, and arrive at their own rank in the end. The backward pass has its own
 * round, which starts only when the gradient of the result is there: keys and values received in
 * the forward pass need not be kept. Sums over the steps are computed in f32 at least.
 *
 * Causal queries see only keys that are not later than themselves: in a step all of them, some, or
 * none. In a step in which no query sees a key, the rank only forwards keys and values. Where
 * queries precede all keys of a step (if both have different lengths), only the other queries
 * attend. The sum of exponentials of the former is zero, and its logarithm minus infinity. */
#include <float.h>

#include "ir/attention.h"
#include "ir/builder.h"
#include "ir/collective.h"
#include "ir/walk.h"
#include "passes/core/rewrite.h"
#include "passes/pass.h"

enum { MOST_WITH = 4 };

typedef struct {
    dl_builder b;
    const dl_uses *uses; /* of the original graph */
    /* The current node's. */
    const dl_node *n;
    int64_t ranks, rank;
    dl_attention a;
    bool read[DL_MAX_RESULTS]; /* is a result read by anyone? */
} ring;

static dl_value *cast(ring *r, dl_value *v, dl_dtype to) { return dl_build_cast(&r->b, v, to); }
static dl_value *wide(ring *r, dl_value *v) {
    return cast(r, v, v->type.dtype == DL_F64 ? DL_F64 : DL_F32);
}
static dl_value *add(ring *r, dl_value *a, dl_value *b) {
    return a ? dl_build2(&r->b, DL_OP_add, a, b) : b;
}

/* Sends this rank's tokens after `step` steps to the next rank, once all of `with` is computed.
 * All transfers of a step wait for the same values. Otherwise keys and values would be sent as
 * soon as they arrive, ahead of the gradients, until a rank held those of all ranks. */
static dl_value *shift(ring *r, const char *what, dl_value *v, int64_t step, int n,
                       dl_value *const *with) {
    dl_value *in[1 + MOST_WITH] = {v};
    int nin = 1;
    for (int i = 0; i < n; i++)
        if (with[i] && with[i] != v) in[nin++] = with[i];
    dl_attr at[] = {
        dl_attr_name(DL_ATTR_axis, v->type.axis[1].name),
        dl_attr_ints(DL_ATTR_size, 1, &r->a.whole[DL_ATT_KEY]),
        *dl_node_attr(r->n, DL_ATTR_group),
        *dl_node_attr(r->n, DL_ATTR_ranks),
        *dl_node_attr(r->n, DL_ATTR_rank),
        dl_attr_int(DL_ATTR_ring_step, step),
        dl_attr_of(r->b.graph, dl_internf("%s in ring step %lld", what, (long long)step))};
    return dl_build(&r->b, DL_OP_shift, nin, in, 7, at);
}

/* The relation of a step's keys to the rank's queries. */
typedef struct {
    int64_t first;     /* the index of the first key among all keys */
    int64_t from;      /* the first query that sees one */
    bool seen, causal; /* seen: by any query; causal: not all queries see all keys */
} view;

static view look(const ring *r, int64_t step) {
    dl_share keys = dl_ring_share(r->a.whole[DL_ATT_KEY], r->ranks, r->rank, step);
    int64_t query = r->a.first[DL_ATT_QUERY];
    view v = {.first = keys.first, .seen = true};
    if (!r->a.causal) return v;
    if (keys.first > query) v.from = keys.first - query;
    v.seen = v.from < r->a.queries;
    v.causal = keys.first + keys.n - 1 > query + v.from;
    return v;
}

/* The part of a value for the queries from the first one on that sees a key. */
static dl_value *of_seeing(ring *r, dl_value *v, const view *see) {
    const char *axis = r->n->in[DL_ATT_Q]->type.axis[1].name;
    return see->from ? dl_build_slice(&r->b, v, axis, see->from, r->a.queries) : v;
}

/* The inverse: a value for all queries, with `outside` for those before. */
static dl_value *of_all(ring *r, dl_value *v, const view *see, dl_outside outside) {
    const char *axis = r->n->in[DL_ATT_Q]->type.axis[1].name;
    dl_affine back = {
        .axis = axis, .size = r->a.queries, .stride = 1, .start = -see->from, .outside = outside};
    return see->from ? dl_build_affine(&r->b, v, back) : v;
}

/* The template on a step's keys and values, for the queries that see one. */
static dl_node *attend(ring *r, dl_value *k, dl_value *v, const view *see) {
    const dl_node *n = r->n;
    dl_value *in[DL_GRAD_MOST];
    dl_attr at[DL_MAX_ATTRS];
    int64_t query = r->a.first[DL_ATT_QUERY] + see->from;
    bool counts = r->a.rate > 0 ||
                  (see->causal &&
                   query != see->first); /* left out otherwise, so that steps have equal kernels */
    int count = 0;
    memcpy(in, n->in, sizeof *in * (size_t)n->nin);
    in[DL_ATT_K] = k, in[DL_ATT_V] = v, in[DL_ATT_Q] = of_seeing(r, in[DL_ATT_Q], see);
    for (int i = DL_GRAD_Y; i <= DL_GRAD_DY && n->op == DL_OP_flash_attention_grad; i++)
        in[i] = of_seeing(r, in[i], see);
    for (int i = 0; i < n->nattrs; i++) {
        dl_attr_id id = n->attrs[i].id;
        if (id == DL_ATTR_group || id == DL_ATTR_ranks || id == DL_ATTR_rank) continue;
        if ((id == DL_ATTR_first || id == DL_ATTR_whole) && !counts) continue;
        at[count] = n->attrs[i];
        if (id == DL_ATTR_causal) at[count].i = see->causal;
        if (id == DL_ATTR_first)
            at[count].ints[DL_ATT_QUERY] = query, at[count].ints[DL_ATT_KEY] = see->first;
        count++;
    }
    return dl_build(&r->b, n->op, n->nin, in, count, at)->def;
}

/* ---- forward ---- */

/* [N, T, heads * size] as [N, T, head, feature]; the axis of heads has the name that the
 * logarithms give it. */
static dl_value *by_heads(ring *r, dl_value *y, const dl_type *log) {
    dl_type t = y->type;
    const char *feature = t.axis[2].name;
    while (dl_type_axis(log, feature) >= 0) feature = dl_internf("%s_", feature);
    t.rank = 2;
    dl_type_push(&t, log->axis[1].name, r->a.heads);
    dl_type_push(&t, feature, r->a.size);
    return dl_build_as(&r->b, DL_OP_reshape, 1, &y, 0, NULL, t);
}

/* y, split by heads, times the weight of each query and head. */
static dl_value *weigh(ring *r, dl_value *y, dl_value *share) {
    dl_value *spread = dl_build_as(&r->b, DL_OP_broadcast, 1, &share, 0, NULL, y->type);
    return dl_build2(&r->b, DL_OP_mul, y, spread);
}

/* Results for some keys, split by heads, and the number of leading queries that saw none of them.
 */
typedef struct {
    dl_value *y, *log;
    int64_t blind;
} result;

/* Combines two results of the same queries. A query that saw no key in either has weights of 0 /
 * 1, and keeps a logarithm of minus infinity. Where any key is seen, the sum is 1 or more. */
static result merge(ring *r, result a, result c) {
    dl_builder *b = &r->b;
    int64_t blind = a.blind < c.blind ? a.blind : c.blind;
    dl_value *most = dl_build2(b, DL_OP_max, a.log, c.log);
    if (blind) most = dl_build_k(b, DL_OP_max, most, -FLT_MAX);
    dl_value *old = dl_build1(b, DL_OP_exp, dl_build2(b, DL_OP_sub, a.log, most)),
             *more = dl_build1(b, DL_OP_exp, dl_build2(b, DL_OP_sub, c.log, most));
    dl_value *all = dl_build2(b, DL_OP_add, old, more),
             *by = blind ? dl_build_k(b, DL_OP_max, all, 1) : all;
    return (result){add(r, weigh(r, a.y, dl_build2(b, DL_OP_div, old, by)),
                        weigh(r, c.y, dl_build2(b, DL_OP_div, more, by))),
                    dl_build2(b, DL_OP_add, most, dl_build1(b, DL_OP_log, all)), blind};
}

static void forwards(ring *r, dl_value *made[]) {
    dl_value *k = r->n->in[DL_ATT_K], *v = r->n->in[DL_ATT_V];
    result all = {0};
    for (int64_t step = 0; step < r->ranks; step++) {
        bool last = step + 1 == r->ranks;
        dl_value *with[] = {k, v}, *next_k = NULL, *next_v = NULL;
        view see = look(r, step);
        if (!last)
            next_k = shift(r, "keys", k, step, 2, with),
            next_v = shift(r, "values", v, step, 2, with);
        if (see.seen) {
            dl_node *part = attend(r, k, v, &see);
            dl_value *log = &part->out[DL_ATT_LOG];
            dl_value *y = by_heads(r, wide(r, &part->out[DL_ATT_Y]), &log->type);
            result own = {of_all(r, y, &see, DL_OUT_ZERO), of_all(r, log, &see, DL_OUT_LOWEST),
                          see.from};
            all = all.y ? merge(r, all, own) : own;
        }
        k = next_k, v = next_v;
    }
    dl_type t = r->n->out[DL_ATT_Y].type;
    t.dtype = all.y->type.dtype;
    made[DL_ATT_Y] = cast(r, dl_build_as(&r->b, DL_OP_reshape, 1, &all.y, 0, NULL, t),
                          r->n->out[DL_ATT_Y].type.dtype);
    made[DL_ATT_LOG] = all.log;
}

/* ---- backward ---- */

/* Adds a ring step's term to the gradient of the keys or values. */
static dl_value *add_term(ring *r, dl_value *came, dl_value *term, const dl_value *like) {
    if (term) return add(r, came, wide(r, term));
    if (came) return came;
    dl_value *zero = wide(r, dl_build_const(&r->b, like->type.dtype, 0));
    dl_type t = like->type;
    t.dtype = zero->type.dtype;
    return dl_build_as(&r->b, DL_OP_broadcast, 1, &zero, 0, NULL, t);
}

static void backwards(ring *r, dl_value *made[]) {
    dl_value *k = r->n->in[DL_GRAD_K], *v = r->n->in[DL_GRAD_V];
    dl_value *dq = NULL, *dk = NULL,
             *dv = NULL; /* dq: of these queries; dk, dv: of the present keys and values */
    for (int64_t step = 0; step < r->ranks; step++) {
        dl_value *with[MOST_WITH] = {k, v, step ? dk : r->n->in[DL_GRAD_DY], dv};
        dl_value *next_k = NULL, *next_v = NULL, *came_k = NULL, *came_v = NULL;
        view see = look(r, step);
        if (dk) came_k = shift(r, "gradients of keys", dk, step - 1, MOST_WITH, with);
        if (dv) came_v = shift(r, "gradients of values", dv, step - 1, MOST_WITH, with);
        if (step + 1 < r->ranks) {
            next_k = shift(r, "keys, back", k, step, MOST_WITH, with);
            next_v = shift(r, "values, back", v, step, MOST_WITH, with);
        }
        dl_value *out = see.seen ? attend(r, k, v, &see)->out : NULL;
        if (out) dq = add(r, dq, of_all(r, wide(r, &out[DL_GRAD_DQ]), &see, DL_OUT_ZERO));
        if (r->read[DL_GRAD_DK]) dk = add_term(r, came_k, out ? &out[DL_GRAD_DK] : NULL, k);
        if (r->read[DL_GRAD_DV]) dv = add_term(r, came_v, out ? &out[DL_GRAD_DV] : NULL, v);
        k = next_k, v = next_v;
    }
    dl_value *with[] = {dk, dv}; /* the last transfer, to their own rank */
    if (dk) dk = shift(r, "gradients of keys", dk, r->ranks - 1, 2, with);
    if (dv) dv = shift(r, "gradients of values", dv, r->ranks - 1, 2, with);
    made[DL_GRAD_DQ] = cast(r, dq, r->n->out[DL_GRAD_DQ].type.dtype);
    made[DL_GRAD_DK] = dk ? cast(r, dk, r->n->out[DL_GRAD_DK].type.dtype) : NULL;
    made[DL_GRAD_DV] = dv ? cast(r, dv, r->n->out[DL_GRAD_DV].type.dtype) : NULL;
}

/* ---- a graph ---- */

static bool is_round(const dl_node *n) {
    return dl_ops[n->op].class == DL_CLASS_TEMPLATE && dl_attention_goes_round(n);
}

static bool write_out(void *user, dl_node *n, dl_value *made[DL_MAX_RESULTS]) {
    ring *r = user;
    if (!is_round(n)) return false;
    for (int i = 0; i < n->nout; i++)
        r->read[i] = r->uses[n->out[i].id].n > 0 || r->uses[n->out[i].id].results > 0;
    r->n = n, r->a = dl_attention_of(n), r->b.loc = n->loc;
    r->ranks = dl_node_int(n, DL_ATTR_ranks), r->rank = dl_node_int(n, DL_ATTR_rank);
    (n->op == DL_OP_flash_attention ? forwards : backwards)(r, made);
    return true;
}

bool dl_pass_ring(dl_graph *g, dl_pass_ctx *ctx) {
    bool any = false;
    for (int i = 0; i < g->nodes.n; i++) any = any || is_round(g->nodes.at[i]);
    if (!any) return false;
    ring r = {.b = {.graph = g}, .uses = dl_graph_uses(g, ctx->arena)};
    return dl_rewrite(g, ctx->arena, write_out, &r);
}
