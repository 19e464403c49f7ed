/* lower: replaces composite ops by simpler ones, by the column `lower` of ops.def. It runs
 * before autodiff, so that a composite needs no gradient rule of its own, and its parts are
 * simplified, shared and fused like all other nodes. */
#include "passes/lower/lower.h"

#include "passes/core/rewrite.h"
#include "passes/pass.h"

static dl_lower_rule *const rules[DL_NOPS] = {
#define OP(id, text, arity, class, infer, grad, lower, amp, facts, attrs, expr) dl_lower_##lower,
#include "ir/ops.def"
#undef OP
};

/* The op stays. A composite without a rule is refused by the pass that cannot take it. */
dl_value *dl_lower_none(dl_builder *b, const dl_node *n) {
    (void)b, (void)n;
    return NULL;
}

/* The first number after those of the graph's random ops. */
static int64_t first_free_number(const dl_graph *g) {
    int64_t next = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        const dl_attr *number = dl_node_attr(n, DL_ATTR_number);
        if (number && number->i >= next) next = number->i + 1;
    }
    return next;
}

static bool has_halves(const dl_node *n) {
    bool half = dl_dtype_is_half(n->out[0].type.dtype);
    for (int k = 0; k < n->nin; k++) half |= dl_dtype_is_half(n->in[k]->type.dtype);
    return half;
}

/* The node in f32 in place of 16 bits, with one rounding at the end. Otherwise each of its
 * parts, and of its gradient's parts, would round and might overflow. */
static dl_value *lower_in_f32(dl_builder *b, const dl_node *n) {
    dl_node wide = *n;
    dl_value out = n->out[0], *v;
    wide.out = &out, wide.in = DL_NEWS(b->graph->module->arena, dl_value *, n->nin);
    if (dl_dtype_is_half(out.type.dtype)) out.type.dtype = DL_F32;
    for (int k = 0; k < n->nin; k++)
        wide.in[k] =
            dl_dtype_is_half(n->in[k]->type.dtype) ? dl_build_cast(b, n->in[k], DL_F32) : n->in[k];
    v = rules[n->op](b, &wide);
    if (!v) v = dl_build_as(b, n->op, n->nin, wide.in, n->nattrs, n->attrs, out.type);
    return dl_build_cast(b, v, n->out[0].type.dtype);
}

/* The replacement of the node, or NULL where it stays. Ops that mixed precision computes in f32
 * compute so here, too, when their operands have 16 bits: the model's text may have asked for 16
 * bits. */
static dl_value *lower(dl_builder *b, const dl_node *n) {
    dl_amp amp = dl_ops[n->op].amp;
    bool wide = (amp == DL_AMP_float32 || amp == DL_AMP_preserve) &&
                dl_ops[n->op].class != DL_CLASS_TEMPLATE;
    return wide && has_halves(n) ? lower_in_f32(b, n) : rules[n->op](b, n);
}

/* Permutes the axes into the order of the composite's result, and restores axes without a name. */
static bool rewrite(void *user, dl_node *n, dl_value *made[DL_MAX_RESULTS]) {
    dl_lowering *l = user;
    if (l->err->code != DL_OK || l->b.graph->module->fault) return false;
    if (l->keeps && !dl_lower_twice(&l->b, n) && l->keeps(n)) return false;
    l->b.loc = n->loc;
    dl_value *v = lower(&l->b, n);
    if (v) made[0] = dl_build_broadcast(&l->b, v, n->out[0].type);
    return v != NULL;
}

/* All values of a body whose node is between both operands of an op `grad`. */
static const bool *all_twice(const dl_graph *body, dl_arena *arena) {
    bool *all = DL_NEWS(arena, bool, body->next_id);
    for (uint32_t i = 0; i < body->next_id; i++) all[i] = true;
    return all;
}

static bool lower_graph(dl_graph *g, const bool *twice, dl_pass_ctx *ctx) {
    bool changed = false;
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        bool again = false;
        for (int k = 0; n->body && twice && k < n->nout; k++) again |= twice[n->out[k].id];
        if (!n->body) continue;
        const bool *own =
            again ? all_twice(n->body, ctx->arena) : dl_lower_find_twice(n->body, ctx->arena);
        changed |= lower_graph(n->body, own, ctx);
    }
    dl_lowering l = {.b = {.graph = g},
                     .next = first_free_number(g),
                     .ranks = ctx->parallel.dp > 1,
                     .batch_ranks = ctx->parallel.batch_ranks > 1 ? ctx->parallel.batch_ranks : 1,
                     .keeps = ctx->keeps,
                     .arena = ctx->arena,
                     .twice = twice,
                     .err = ctx->err};
    return dl_rewrite(g, ctx->arena, rewrite, &l) || changed;
}

bool dl_pass_lower(dl_graph *g, dl_pass_ctx *ctx) {
    return lower_graph(g, dl_lower_find_twice(g, ctx->arena), ctx);
}
