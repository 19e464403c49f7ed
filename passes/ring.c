/* ring: attention whose keys and values go round the context parallel ranks, written out turn by turn (Liu,
 * Zaharia and Abbeel, Ring attention with blockwise transformers, 2023).
 *
 * Each rank has some of the queries, and in each turn the keys and values of another rank, which it gives on
 * to the next while it computes with them. Forwards the results of the turns are weighted by their sums of
 * exponentials: with s = log(exp s1 + exp s2), y = y1 exp(s1 - s) + y2 exp(s2 - s). Backwards the template's
 * other half takes the logarithms of all keys, so that what it makes of a turn is a term of the gradients;
 * those of keys and values go round with them, a turn behind, and come home in the end. The way back has its
 * own round, which does not begin before the gradient that it carries back is there: what came round forwards
 * need not be kept. Sums over the turns are made in f32 at least. */
#include "ir/attention.h"
#include "ir/builder.h"
#include "ir/collective.h"
#include "passes/pass.h"

enum { MOST_WITH = 4 };

typedef struct {
    dl_builder b;
    dl_value **now; /* by value id: what is read in its place; NULL: itself */
    uint32_t known; /* ids below it have one */
    /* The present node's. */
    const dl_node *n;
    int64_t ranks, rank;
    dl_attention a;
} ring;

static dl_value *cast(ring *r, dl_value *v, dl_dtype to) { return dl_build_cast(&r->b, v, to); }
static dl_value *wide(ring *r, dl_value *v) { return cast(r, v, v->type.dtype == DL_F64 ? DL_F64 : DL_F32); }
static dl_value *add(ring *r, dl_value *a, dl_value *b) { return a ? dl_build2(&r->b, DL_OP_add, a, b) : b; }

/* What this rank has of the tokens behind `turn` turns goes on to the next, when all of `with` is there, too.
 * What goes round in a turn has the same reasons to wait: else keys and values would go on as soon as they
 * come, ahead of the gradients, until a rank held those of all. */
static dl_value *shift(ring *r, const char *what, dl_value *v, int64_t turn, int n, dl_value *const *with) {
    dl_value *in[1 + MOST_WITH] = {v};
    int nin = 1;
    for (int i = 0; i < n; i++)
        if (with[i] && with[i] != v) in[nin++] = with[i];
    dl_attr at[] = {dl_attr_name(DL_ATTR_axis, v->type.axis[1].name),
                    dl_attr_ints(DL_ATTR_size, 1, &r->a.whole[DL_ATT_KEY]),
                    *dl_node_attr(r->n, DL_ATTR_group),
                    *dl_node_attr(r->n, DL_ATTR_ranks),
                    *dl_node_attr(r->n, DL_ATTR_rank),
                    dl_attr_int(DL_ATTR_turn, turn),
                    dl_attr_of(r->b.graph, dl_internf("%s in turn %lld", what, (long long)turn))};
    return dl_build(&r->b, DL_OP_shift, nin, in, 7, at);
}

/* The template on a turn's keys and values. */
static dl_node *attend(ring *r, dl_value *k, dl_value *v, int64_t turn) {
    const dl_node *n = r->n;
    dl_value *in[DL_GRAD_PART + 1];
    dl_attr at[DL_MAX_ATTRS];
    int count = 0;
    memcpy(in, n->in, sizeof *in * (size_t)n->nin);
    in[DL_ATT_K] = k, in[DL_ATT_V] = v;
    for (int i = 0; i < n->nattrs; i++) {
        dl_attr_id id = n->attrs[i].id;
        bool counts = id == DL_ATTR_first || id == DL_ATTR_whole;
        if (id == DL_ATTR_group || id == DL_ATTR_ranks || id == DL_ATTR_rank) continue;
        if (counts && r->a.rate <= 0) continue; /* nothing is counted: turns have equal kernels */
        at[count] = n->attrs[i];
        if (id == DL_ATTR_first)
            at[count].ints[DL_ATT_KEY] = dl_ring_share(r->a.whole[DL_ATT_KEY], r->ranks, r->rank, turn).first;
        count++;
    }
    return dl_build(&r->b, n->op, n->nin, in, count, at)->def;
}

/* ---- forwards ---- */

/* [N, T, heads * size] as [N, T, head, feature], the heads' axis as the logarithms' is called. */
static dl_value *by_heads(ring *r, dl_value *y, const dl_type *log) {
    dl_type t = y->type;
    const char *feature = t.axis[2].name;
    while (dl_type_axis(log, feature) >= 0) feature = dl_internf("%s_", feature);
    t.rank = 2;
    dl_type_push(&t, log->axis[1].name, r->a.heads);
    dl_type_push(&t, feature, r->a.size);
    return dl_build_as(&r->b, DL_OP_reshape, 1, &y, 0, NULL, t);
}

/* y, by heads, times each query's and head's share. */
static dl_value *weigh(ring *r, dl_value *y, dl_value *share) {
    dl_value *spread = dl_build_as(&r->b, DL_OP_broadcast, 1, &share, 0, NULL, y->type);
    return dl_build2(&r->b, DL_OP_mul, y, spread);
}

/* Two results of the same queries become that of both. */
static void merge(ring *r, dl_value **y, dl_value **log, dl_value *more_y, dl_value *more_log) {
    dl_builder *b = &r->b;
    dl_value *most = dl_build2(b, DL_OP_max, *log, more_log);
    dl_value *old = dl_build1(b, DL_OP_exp, dl_build2(b, DL_OP_sub, *log, most)),
             *more = dl_build1(b, DL_OP_exp, dl_build2(b, DL_OP_sub, more_log, most));
    dl_value *all = dl_build2(b, DL_OP_add, old, more);
    *y = add(r, weigh(r, *y, dl_build2(b, DL_OP_div, old, all)),
             weigh(r, more_y, dl_build2(b, DL_OP_div, more, all)));
    *log = dl_build2(b, DL_OP_add, most, dl_build1(b, DL_OP_log, all));
}

static void forwards(ring *r, dl_value *made[]) {
    dl_value *k = r->n->in[DL_ATT_K], *v = r->n->in[DL_ATT_V], *y = NULL, *log = NULL;
    for (int64_t turn = 0; turn < r->ranks; turn++) {
        bool last = turn + 1 == r->ranks;
        dl_value *with[] = {k, v}, *next_k = NULL, *next_v = NULL;
        if (!last) next_k = shift(r, "keys", k, turn, 2, with), next_v = shift(r, "values", v, turn, 2, with);
        dl_node *part = attend(r, k, v, turn);
        dl_value *part_log = &part->out[DL_ATT_LOG];
        dl_value *part_y = by_heads(r, wide(r, &part->out[DL_ATT_Y]), &part_log->type);
        if (turn)
            merge(r, &y, &log, part_y, part_log);
        else
            y = part_y, log = part_log;
        k = next_k, v = next_v;
    }
    dl_type t = r->n->out[DL_ATT_Y].type;
    t.dtype = y->type.dtype;
    made[DL_ATT_Y] =
        cast(r, dl_build_as(&r->b, DL_OP_reshape, 1, &y, 0, NULL, t), r->n->out[DL_ATT_Y].type.dtype);
    made[DL_ATT_LOG] = log;
}

/* ---- backwards ---- */

static void backwards(ring *r, dl_value *made[]) {
    dl_value *k = r->n->in[DL_GRAD_K], *v = r->n->in[DL_GRAD_V];
    dl_value *dq = NULL, *dk = NULL, *dv = NULL; /* of these queries; of the keys and values that are here */
    for (int64_t turn = 0; turn < r->ranks; turn++) {
        dl_value *with[MOST_WITH] = {k, v, turn ? dk : r->n->in[DL_GRAD_DY], dv};
        dl_value *next_k = NULL, *next_v = NULL, *came_k = NULL, *came_v = NULL;
        if (turn) {
            came_k = shift(r, "gradients of keys", dk, turn - 1, MOST_WITH, with);
            came_v = shift(r, "gradients of values", dv, turn - 1, MOST_WITH, with);
        }
        if (turn + 1 < r->ranks) {
            next_k = shift(r, "keys, back", k, turn, MOST_WITH, with);
            next_v = shift(r, "values, back", v, turn, MOST_WITH, with);
        }
        dl_node *part = attend(r, k, v, turn);
        dq = add(r, dq, wide(r, &part->out[DL_GRAD_DQ]));
        dk = add(r, came_k, wide(r, &part->out[DL_GRAD_DK]));
        dv = add(r, came_v, wide(r, &part->out[DL_GRAD_DV]));
        k = next_k, v = next_v;
    }
    dl_value *with[] = {dk, dv}; /* and home */
    dk = shift(r, "gradients of keys", dk, r->ranks - 1, 2, with);
    dv = shift(r, "gradients of values", dv, r->ranks - 1, 2, with);
    made[DL_GRAD_DQ] = cast(r, dq, r->n->out[DL_GRAD_DQ].type.dtype);
    made[DL_GRAD_DK] = cast(r, dk, r->n->out[DL_GRAD_DK].type.dtype);
    made[DL_GRAD_DV] = cast(r, dv, r->n->out[DL_GRAD_DV].type.dtype);
}

/* ---- a graph ---- */

static bool is_round(const dl_node *n) {
    return dl_ops[n->op].class == DL_CLASS_TEMPLATE && dl_attention_goes_round(n);
}

static dl_value *now_of(const ring *r, dl_value *v) {
    return v->id < r->known && r->now[v->id] ? r->now[v->id] : v;
}

static void write_out(ring *r, const dl_node *n) {
    dl_value *made[DL_MAX_RESULTS] = {NULL};
    r->n = n, r->a = dl_attention_of(n), r->b.loc = n->loc;
    r->ranks = dl_node_int(n, DL_ATTR_ranks), r->rank = dl_node_int(n, DL_ATTR_rank);
    (n->op == DL_OP_flash_attention ? forwards : backwards)(r, made);
    for (int i = 0; i < n->nout; i++) r->now[n->out[i].id] = made[i];
}

bool dl_pass_ring(dl_graph *g, dl_pass_ctx *ctx) {
    int n = g->nodes.n;
    bool any = false;
    for (int i = 0; i < n; i++) any = any || is_round(g->nodes.at[i]);
    if (!any) return false;
    ring r = {.b = {.graph = g}, .now = DL_NEWS(ctx->arena, dl_value *, g->next_id + 1), .known = g->next_id};
    dl_node **old = DL_NEWS(ctx->arena, dl_node *, n + 1);
    memcpy(old, g->nodes.at, sizeof *old * (size_t)n);
    g->nodes.n = 0;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < old[i]->nin; k++) old[i]->in[k] = now_of(&r, old[i]->in[k]);
        if (is_round(old[i]))
            write_out(&r, old[i]);
        else
            dl_push(g->module->arena, &g->nodes, old[i]);
    }
    for (int i = 0; i < g->results.n; i++) g->results.at[i].value = now_of(&r, g->results.at[i].value);
    return true;
}
