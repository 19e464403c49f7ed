/* The desired sharding: seeds, propagated backward through the graph as long as ops compute the
 * same at every position of the axis.
 *
 * Tensor parallelism has its seeds at the heads of attention, and between two contractions with
 * parameters that are joined by pointwise ops only (Shoeybi et al., Megatron-LM, 2019): the first
 * parameter is sharded along its output features, the second along its input features. Context
 * parallelism has its seeds at the queries of attention. */
#include "ir/attention.h"
#include "ir/base/counts.h"
#include "passes/parallel/shard.h"

const char *const dl_shard_groups[DL_NSHARDS] = {"tp", "cp"};
static const char *const keys[DL_NSHARDS] = {"tensor_parallel", "context_parallel"};

int dl_shard_ranks(const dl_parallel *p, int group) {
    int n = group == DL_TP ? p->tp : p->cp;
    return n > 1 ? n : 1;
}
int dl_shard_rank(const dl_parallel *p, int group) {
    return group == DL_TP ? p->tp_rank : p->cp_rank;
}

typedef struct {
    const dl_graph *g;
    const dl_uses *uses;
    dl_arena *arena;
    dl_sharding *spec; /* of the current group */
    int ranks;
    dl_error *err;
} finder;

static bool fail_at(const finder *f, const dl_node *n, const char *message) {
    return dl_fail(f->err, DL_INPUT, "%s:%d:%d: error: %s", n->loc.file ? n->loc.file : f->g->name,
                   n->loc.line, n->loc.column, message);
}

/* The parameter that v is a moved or cast copy of, or NULL. */
static const dl_var *param_of(const dl_value *v) {
    while (v->def && v->def->nin == 1 &&
           (dl_ops[v->def->op].class == DL_CLASS_MOVE || v->def->op == DL_OP_cast))
        v = v->def->in[0];
    return v->var && v->var->role == DL_VAR_PARAM ? v->var : NULL;
}

/* ---- marking ---- */

static void mark(finder *f, const dl_value *v, dl_sharding along) {
    if (!f->spec[v->id].axis) f->spec[v->id] = along;
}

/* Propagates backward along v's axis to the parameter. */
static void mark_param(finder *f, const dl_value *v, dl_sharding along) {
    for (; along.axis && param_of(v); v = v->def->in[0]) {
        mark(f, v, along);
        if (v->var || !dl_sharding_same(f->spec[v->id], along)) return;
        along = dl_shard_backward(v->def, 0, along);
    }
}

/* ---- seeds ---- */

/* Masks and biases are of all heads and queries, and are not split with them. */
static bool without_addends(finder *f, const dl_node *n, const char *key) {
    return !dl_attention_of(n).addends ||
           fail_at(f, n,
                   dl_format(f->arena,
                             "attention with a mask or a bias cannot be split between ranks: "
                             "%s=1 trains this model",
                             key));
}

static bool seed_heads(finder *f, const dl_node *n) {
    dl_attention a = dl_attention_of(n);
    if (!without_addends(f, n, "tensor_parallel")) return false;
    if (a.heads % f->ranks)
        return fail_at(f, n,
                       dl_format(f->arena,
                                 "%lld heads cannot be dealt out to tensor_parallel=%d ranks: take "
                                 "a number that divides them",
                                 (long long)a.heads, f->ranks));
    f->spec[n->out[DL_ATT_Y].id] = (dl_sharding){n->out[DL_ATT_Y].type.axis[2].name, 1, f->ranks};
    return true;
}

static bool seed_tokens(finder *f, const dl_node *n) {
    dl_attention a = dl_attention_of(n);
    if (!without_addends(f, n, "context_parallel")) return false;
    if (a.queries < f->ranks)
        return fail_at(
            f, n,
            dl_format(
                f->arena,
                "%lld tokens are fewer than the context_parallel=%d ranks they are dealt out to",
                (long long)a.queries, f->ranks));
    f->spec[n->out[DL_ATT_Y].id] = (dl_sharding){n->out[DL_ATT_Y].type.axis[1].name, 1, f->ranks};
    return true;
}

typedef struct {
    const dl_value *v;
    dl_sharding along;
} place;

/* The number of parts of the operand's axis that a slice needs, in order to consist of whole
 * parts. */
static int parts_for(const dl_node *slice, dl_sharding from) {
    int64_t size = slice->in[0]->type.axis[dl_type_axis(&slice->in[0]->type, from.axis)].size;
    int64_t each = dl_gcd(size / from.parts, dl_gcd(dl_node_int(slice, DL_ATTR_start),
                                                    dl_node_int(slice, DL_ATTR_stop)));
    return each > 0 && size / each <= INT32_MAX ? (int)(size / each) : 0;
}

/* Is each path from `from`, along its axis, through pointwise ops, renames and slices of whole
 * parts only, and ends in contractions with a parameter that sum over the axis? Marks the axes of
 * these values as desired. Where a slice needs more parts, *parts is their number. */
static bool ends_in_products(finder *f, place from, int *parts) {
    DL_ARRAY(place)
    reached = {0}, products = {0}; /* reached: values; products: parameters of the contractions */
    dl_push(f->arena, &reached, from);
    for (int i = 0; i < reached.n; i++) {
        place p = reached.at[i];
        const dl_uses *u = &f->uses[p.v->id];
        if (u->results || reached.n > 256) return false;
        for (int r = 0; r < u->n; r++) {
            const dl_node *n = u->readers[r];
            for (int k = 0; k < n->nin; k++) {
                if (n->in[k] != p.v) continue;
                dl_sharding other, to = dl_shard_forward(n, k, p.along);
                bool slices = n->op == DL_OP_slice,
                     own = slices && dl_node_name(n, DL_ATTR_axis) == p.along.axis;
                bool pointwise = dl_ops[n->op].class == DL_CLASS_ELEM || n->op == DL_OP_rename ||
                                 n->op == DL_OP_broadcast;
                if (to.axis && (pointwise || own)) {
                    bool known = false;
                    for (int j = 0; j < reached.n; j++) known |= reached.at[j].v == &n->out[0];
                    if (!known) dl_push(f->arena, &reached, ((place){&n->out[0], to}));
                } else if (n->op == DL_OP_contract && dl_shard_sums(n, k, p.along, &other) &&
                           param_of(n->in[1 - k])) {
                    dl_push(f->arena, &products, ((place){n->in[1 - k], other}));
                } else {
                    if (own) *parts = parts_for(n, p.along);
                    return false;
                }
            }
        }
    }
    for (int i = 0; products.n && i < reached.n; i++)
        f->spec[reached.at[i].v->id] = reached.at[i].along;
    for (int i = 0; i < products.n; i++) mark_param(f, products.at[i].v, products.at[i].along);
    return products.n > 0;
}

/* A contraction with a parameter whose own axis is summed over by such contractions only: hidden
 * features, all together or in parts (a gate and its input). */
static bool seed_hidden(finder *f, const dl_node *n) {
    for (int k = 0; k < 2; k++) {
        const dl_var *p = param_of(n->in[k]);
        for (int i = 0; p && i < n->in[k]->type.rank; i++) {
            dl_axis own = n->in[k]->type.axis[i];
            dl_sharding to = dl_shard_forward(n, k, (dl_sharding){own.name, 1, f->ranks});
            if (!to.axis || dl_shard_backward(n, 1 - k, to).axis || f->spec[n->out[0].id].axis ||
                f->spec[p->value.id].axis)
                continue;
            bool ends = false;
            for (int parts = 1; parts && !ends;) {
                int more = 0;
                to.parts = parts, ends = ends_in_products(f, (place){&n->out[0], to}, &more);
                parts = more > parts ? more : 0;
            }
            if (!ends || own.size / to.parts % f->ranks == 0) continue;
            return fail_at(
                f, n,
                dl_format(f->arena,
                          "%lld hidden features of %s cannot be dealt out to tensor_parallel=%d "
                          "ranks: take a number that divides them",
                          (long long)own.size / to.parts, p->name, f->ranks));
        }
    }
    return true;
}

/* ---- propagation from the seeds ---- */

static void go_back(finder *f) {
    for (int i = f->g->nodes.n - 1; i >= 0; i--) {
        const dl_node *n = f->g->nodes.at[i];
        dl_sharding along = f->spec[n->out[0].id];
        for (int k = 0; along.axis && k < n->nin; k++) {
            dl_sharding from = dl_shard_backward(n, k, along);
            if (from.axis) mark(f, n->in[k], from);
        }
    }
}

/* By value id: the sharding that the value will have. Where a contraction sums over such an axis,
 * its parameter is desired so, too. */
static dl_sharding *go_on(finder *f) {
    dl_sharding *is = DL_NEWS(f->arena, dl_sharding, f->g->next_id + 1);
    for (int i = 0; i < f->g->vars.n; i++) {
        const dl_value *v = &f->g->vars.at[i]->value;
        is[v->id] = f->spec[v->id];
    }
    for (int i = 0; i < f->g->nodes.n; i++) {
        const dl_node *n = f->g->nodes.at[i];
        dl_sharding along = f->spec[n->out[0].id], other;
        if (along.axis && !dl_shard_propagates(n, along)) along = (dl_sharding){0};
        for (int k = 0; k < n->nin && !along.axis; k++)
            if (is[n->in[k]->id].axis) along = dl_shard_forward(n, k, is[n->in[k]->id]);
        is[n->out[0].id] = along;
        for (int k = 0; k < n->nin && !along.axis && n->op == DL_OP_contract; k++)
            if (is[n->in[k]->id].axis && !is[n->in[1 - k]->id].axis &&
                dl_shard_sums(n, k, is[n->in[k]->id], &other)) {
                mark_param(f, n->in[1 - k], other);
                break;
            }
    }
    return is;
}

/* A parameter becomes a shard only where each reader reads that shard; if it has several parts,
 * only along its first axis (dl_var_cut). */
static void check_params(finder *f, const dl_sharding *is) {
    for (int i = 0; i < f->g->vars.n; i++) {
        const dl_var *v = f->g->vars.at[i];
        dl_sharding along = f->spec[v->value.id], other;
        const dl_uses *u = &f->uses[v->value.id];
        bool all = v->role == DL_VAR_PARAM && !u->results &&
                   (along.parts <= 1 || along.axis == v->value.type.axis[0].name);
        for (int r = 0; along.axis && r < u->n && all; r++) {
            const dl_node *n = u->readers[r];
            for (int k = 0; k < n->nin && all; k++) {
                if (n->in[k] != &v->value) continue;
                dl_sharding to = dl_shard_forward(n, k, along);
                bool sums = !to.axis && n->op == DL_OP_contract &&
                            dl_shard_sums(n, k, along, &other) &&
                            dl_sharding_same(is[n->in[1 - k]->id], other);
                all = sums || (to.axis && (dl_sharding_same(f->spec[n->out[0].id], to) ||
                                           dl_sharding_same(is[n->out[0].id], to)));
            }
        }
        if (!all) f->spec[v->value.id] = (dl_sharding){0};
    }
}

static bool find_for(finder *f, int group) {
    bool any = false;
    for (int i = 0; i < f->g->nodes.n; i++) {
        const dl_node *n = f->g->nodes.at[i];
        if (n->op != DL_OP_flash_attention) continue;
        any = true;
        if (!(group == DL_TP ? seed_heads : seed_tokens)(f, n)) return false;
    }
    go_back(f);
    if (group == DL_TP) {
        go_on(f);
        for (int i = 0; i < f->g->nodes.n; i++)
            if (f->g->nodes.at[i]->op == DL_OP_contract && !seed_hidden(f, f->g->nodes.at[i]))
                return false;
        for (uint32_t id = 0; id < f->g->next_id && !any; id++) any = f->spec[id].axis != NULL;
        go_back(f);
        go_on(f);
        check_params(f, go_on(f));
    }
    if (any) return true;
    return dl_fail(f->err, DL_INPUT, "%s=%d: graph '%s' has no attention%s to split", keys[group],
                   f->ranks, f->g->name,
                   group == DL_TP ? " and no pair of linear layers" : " whose tokens there were");
}

bool dl_shard_find_specs(const dl_graph *g, dl_pass_ctx *ctx, dl_shard_specs *specs) {
    for (int group = 0; group < DL_NSHARDS; group++) {
        finder f = {
            .g = g, .uses = dl_graph_uses(g, ctx->arena), .arena = ctx->arena, .err = ctx->err};
        f.spec = specs->along[group] = DL_NEWS(ctx->arena, dl_sharding, g->next_id + 1);
        f.ranks = dl_shard_ranks(&ctx->parallel, group);
        if (f.ranks > 1 && !find_for(&f, group)) return false;
    }
    return true;
}
