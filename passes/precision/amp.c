/* amp: mixed precision as casts, before anything else sees the graph, so that gradients, fusion and
 * memory follow from the types.
 *
 * What an op does is the column `amp` of ir/ops.def, as torch.autocast groups the same ops:
 * products and convolutions take 16 bits and make 16 bits (LOW); what loses digits takes and makes
 * f32 (WIDE); batch norm, pools and activations of several parts compute in f32 and give back what
 * they got (KEEP); everything else takes the widest of its operands (FOLLOW). A scalar decides
 * nothing next to a tensor, nor does the bias of a LOW op.
 *
 * A cast of a value to its own type pins it: it is f32, and so is what a LOW op makes of it. The
 * front end writes one for `x as f32`, and for the operands of each function that is written in
 * several ops and that torch.autocast computes in f32 (squares, losses, norms), so that none of the
 * parts is stored in 16 bits.
 *
 * Variables and the graph's results keep their types; a value is cast once. 16-bit types that the
 * model's text asks for are cast like all others: only a cast makes the type that it says. */
#include "ir/builder.h"
#include "passes/pass.h"

typedef struct {
    dl_builder b;
    dl_dtype low;
    dl_value **as[2]; /* by value id: the value in f32, in the low type, where it was cast */
    bool *made_low;   /* by value id: is it a LOW op's result? */
    bool *pinned;     /* by value id: does the model's text say that it is f32? */
    uint32_t ids;     /* of the values that were there before */
    bool changed;
} caster;

static bool is_half(const dl_value *v) { return dl_dtype_is_half(v->type.dtype); }
static bool is_wide(const dl_value *v) { return v->type.dtype == DL_F32; }

/* The value as f32 or in the low type; f64, whole numbers and truth values stay. */
static dl_value *in_type(caster *c, dl_value *v, dl_dtype to) {
    if ((!is_half(v) && !is_wide(v)) || v->type.dtype == to) return v;
    c->changed = true;
    if (v->id >= c->ids) return dl_build_cast(&c->b, v, to); /* a cast's result, for once */
    dl_value **known = &c->as[to == c->low][v->id];
    if (!*known) *known = dl_build_cast(&c->b, v, to);
    return *known;
}

static void take(caster *c, dl_node *n, dl_dtype type) {
    for (int k = 0; k < n->nin; k++) n->in[k] = in_type(c, n->in[k], type);
}

/* The node makes the type, if it makes floats of 32 or 16 bits. */
static void make(caster *c, dl_node *n, dl_dtype type) {
    dl_dtype *makes = &n->out[0].type.dtype;
    if ((!is_half(&n->out[0]) && !is_wide(&n->out[0])) || *makes == type) return;
    *makes = type, c->changed = true;
}

/* The bias of a LOW op, which it adds before it rounds. */
static bool is_bias(const caster *c, const dl_node *n, int k) {
    const dl_value *v = n->in[k], *other = n->in[n->nin - 1 - k];
    return n->op == DL_OP_add && v->var && v->var->role == DL_VAR_PARAM && v->type.rank == 1 &&
           other->id < c->ids && c->made_low[other->id];
}

/* How much an operand has to say of the type: a tensor, a scalar, a constant (torch.result_type).
 */
static int weight_of(const dl_value *v) {
    return v->type.rank ? 2 : v->def && v->def->op == DL_OP_const ? 0 : 1;
}

/* The type of what a FOLLOW op makes: the widest of its operands' types, where a scalar says
 * nothing next to a tensor, nor a constant next to either. */
static dl_dtype follow(caster *c, dl_node *n) {
    bool half = n->nin && is_half(&n->out[0]), wide = false, bias = false;
    int most = 0;
    for (int k = 0; k < n->nin; k++) {
        half |= is_half(n->in[k]);
        if ((is_half(n->in[k]) || is_wide(n->in[k])) && weight_of(n->in[k]) > most)
            most = weight_of(n->in[k]);
    }
    for (int k = 0; k < n->nin; k++)
        if (is_wide(n->in[k]) && weight_of(n->in[k]) == most)
            *(is_bias(c, n, k) ? &bias : &wide) = true;
    if (!half) return n->out[0].type.dtype;
    take(c, n, wide || bias ? DL_F32 : c->low);
    make(c, n, wide || bias ? DL_F32 : c->low);
    return wide ? DL_F32 : c->low;
}

static void lower(caster *c, dl_node *n) {
    bool pinned = false;
    for (int k = 0; k < n->nin; k++) pinned |= n->in[k]->id < c->ids && c->pinned[n->in[k]->id];
    take(c, n, pinned ? DL_F32 : c->low);
    make(c, n, pinned ? DL_F32 : c->low);
    c->made_low[n->out[0].id] = n->out[0].type.dtype == c->low;
}

/* A cast says its own type; one to the type of its operand says f32. */
static void put_cast(caster *c, dl_node *n) {
    if (c->pinned[n->out[0].id]) make(c, n, DL_F32);
}

/* The node in its place of the new list, its operands cast in front of it; what stands for its
 * result. */
static dl_value *put(caster *c, dl_node *n) {
    dl_amp amp = dl_ops[n->op].amp;
    bool keeps = amp == DL_AMP_KEEP && is_half(n->in[0]);
    c->b.loc = n->loc;
    if (n->op == DL_OP_cast)
        put_cast(c, n);
    else if (amp == DL_AMP_FOLLOW)
        keeps = follow(c, n) == c->low;
    else if (amp == DL_AMP_LOW)
        lower(c, n);
    else
        take(c, n, DL_F32), make(c, n, DL_F32);
    dl_push(c->b.graph->module->arena, &c->b.graph->nodes, n);
    return keeps ? in_type(c, &n->out[0], c->low) : &n->out[0];
}

/* Before any type changes. */
static void find_pins(caster *c) {
    for (int i = 0; i < c->b.graph->nodes.n; i++) {
        const dl_node *n = c->b.graph->nodes.at[i];
        const dl_value *v = &n->out[0];
        c->pinned[v->id] = n->op == DL_OP_cast && (is_wide(v) || is_half(v)) &&
                           v->type.dtype == n->in[0]->type.dtype;
    }
}

/* Has the graph gradients, or updates made of them? Their types follow the graph's, which has its
 * casts. */
static bool trains(const dl_graph *g) {
    for (int i = 0; i < g->results.n; i++) {
        const dl_result *r = &g->results.at[i];
        if (r->role == DL_RESULT_GRAD ||
            (r->role == DL_RESULT_UPDATE && r->var->role == DL_VAR_PARAM))
            return true;
    }
    return false;
}

bool dl_pass_amp(dl_graph *g, dl_pass_ctx *ctx) {
    dl_dtype low = ctx->recipe.low;
    if (low == DL_F32 || trains(g)) return false;
    caster c = {.b = {.graph = g}, .low = low, .ids = g->next_id};
    for (int i = 0; i < 2; i++) c.as[i] = DL_NEWS(ctx->arena, dl_value *, g->next_id);
    c.made_low = DL_NEWS(ctx->arena, bool, g->next_id),
    c.pinned = DL_NEWS(ctx->arena, bool, g->next_id);
    find_pins(&c);
    dl_value **stands =
        DL_NEWS(ctx->arena, dl_value *, g->next_id); /* by value id: what is read in its place */
    int n = g->nodes.n;
    dl_node **nodes = DL_NEWS(ctx->arena, dl_node *, n);
    if (n) memcpy(nodes, g->nodes.at, sizeof *nodes * (size_t)n);
    g->nodes.n = 0;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < nodes[i]->nin; k++)
            if (stands[nodes[i]->in[k]->id]) nodes[i]->in[k] = stands[nodes[i]->in[k]->id];
        dl_value *v = put(&c, nodes[i]);
        if (v != &nodes[i]->out[0]) stands[nodes[i]->out[0].id] = v;
    }
    c.b.loc = (dl_loc){0};
    for (int i = 0; i < g->results.n; i++) {
        dl_result *r = &g->results.at[i];
        if (stands[r->value->id]) r->value = stands[r->value->id];
        r->value = in_type(&c, r->value, DL_F32);
    }
    return c.changed;
}
