/* amp: mixed precision by casts. It runs before all other passes, so that gradients, fusion and
 * memory follow from the types.
 *
 * The column `amp` of ir/ops.def has each op's list, as torch.autocast groups the same ops.
 * Contractions take and return 16 bits (lower_precision). Ops that lose digits take and return f32
 * (float32). Batch norm, pools and composite activations compute in f32 and return their operand's
 * type (preserve). A gradient has the type of the value that it is taken by, which must not be
 * replaced by a cast of it (unchanged). All other ops take the widest type of their operands
 * (promote). A scalar does not count next to a tensor, nor does the bias of a lower_precision op.
 *
 * A cast of a value to its own type pins it: it is f32, and so is the result of a lower_precision
 * op that reads it. The front end writes such a cast for `x as f32`. It also writes one for the
 * operands of each function that consists of several ops and that torch.autocast computes in f32
 * (squares, losses, norms), so that no intermediate value is stored in 16 bits.
 *
 * Variables and the graph's results keep their types; a value is cast once. 16-bit types in the
 * model's text are cast like all others: only a cast's own result has the type that the cast
 * names. */
#include "ir/builder.h"
#include "passes/pass.h"

typedef struct {
    dl_builder b;
    dl_dtype low;
    dl_value **as[2]; /* by value id: the value in f32, and in the 16-bit type, where it was cast */
    bool *made_lower_precision; /* by value id: is it the result of a lower_precision op? */
    bool *pinned;               /* by value id: does the model's text say that it is f32? */
    uint32_t ids;               /* of the original values */
    bool changed;
} caster;

static bool is_half(const dl_value *v) { return dl_dtype_is_half(v->type.dtype); }
static bool is_float32(const dl_value *v) { return v->type.dtype == DL_F32; }

/* The value in f32, in the 16-bit type, or in a state's own; f64, integers and booleans stay. */
static dl_value *in_type(caster *c, dl_value *v, dl_dtype to) {
    if ((!is_half(v) && !is_float32(v)) || v->type.dtype == to) return v;
    c->changed = true;
    if (v->id >= c->ids || (to != DL_F32 && to != c->low))
        return dl_build_cast(&c->b, v,
                             to); /* not cached: a cast's result, and a state's own type */
    dl_value **known = &c->as[to == c->low][v->id];
    if (!*known) *known = dl_build_cast(&c->b, v, to);
    return *known;
}

static void take(caster *c, dl_node *n, dl_dtype type) {
    for (int k = 0; k < n->nin; k++) n->in[k] = in_type(c, n->in[k], type);
}

/* Sets the type of the node's result, if it is a float of 32 or 16 bits. */
static void make(caster *c, dl_node *n, dl_dtype type) {
    dl_dtype *makes = &n->out[0].type.dtype;
    if ((!is_half(&n->out[0]) && !is_float32(&n->out[0])) || *makes == type) return;
    *makes = type, c->changed = true;
}

/* The bias of a lower_precision op, which is added before the result is rounded. */
static bool is_bias(const caster *c, const dl_node *n, int k) {
    const dl_value *v = n->in[k], *other = n->in[n->nin - 1 - k];
    return n->op == DL_OP_add && v->var && v->var->role == DL_VAR_PARAM && v->type.rank == 1 &&
           other->id < c->ids && c->made_lower_precision[other->id];
}

/* The rank of an operand in type promotion: a tensor, a scalar, a constant (torch.result_type). */
static int weight_of(const dl_value *v) {
    return v->type.rank ? 2 : v->def && v->def->op == DL_OP_const ? 0 : 1;
}

/* The result's type of a promote op: the widest type of its operands. A scalar does not count next
 * to a tensor, nor a constant next to either. */
static dl_dtype follow(caster *c, dl_node *n) {
    bool half = n->nin && is_half(&n->out[0]), wide = false, bias = false;
    int most = 0;
    for (int k = 0; k < n->nin; k++) {
        half |= is_half(n->in[k]);
        if ((is_half(n->in[k]) || is_float32(n->in[k])) && weight_of(n->in[k]) > most)
            most = weight_of(n->in[k]);
    }
    for (int k = 0; k < n->nin; k++)
        if (is_float32(n->in[k]) && weight_of(n->in[k]) == most)
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
    c->made_lower_precision[n->out[0].id] = n->out[0].type.dtype == c->low;
}

/* A cast has its own type; a cast to the operand's type means f32. */
static void put_cast(caster *c, dl_node *n) {
    if (c->pinned[n->out[0].id]) make(c, n, DL_F32);
}

/* A scan takes and returns what its body does, which mixed precision has been through. */
static void run_body(caster *c, dl_node *n) {
    for (int k = 0; k < n->nin; k++)
        n->in[k] = in_type(c, n->in[k], n->body->vars.at[k]->value.type.dtype);
    for (int k = 0; k < n->nout; k++) {
        dl_dtype type = n->body->results.at[k].value->type.dtype;
        c->changed |= n->out[k].type.dtype != type;
        n->out[k].type.dtype = type;
    }
}

/* Appends the node to the new list, after the casts of its operands; returns the replacement of
 * its result. */
static dl_value *put(caster *c, dl_node *n) {
    dl_amp amp = dl_ops[n->op].amp;
    bool keeps = amp == DL_AMP_preserve && is_half(n->in[0]);
    c->b.loc = n->loc;
    if (n->body)
        run_body(c, n);
    else if (n->op == DL_OP_cast)
        put_cast(c, n);
    else if (amp == DL_AMP_promote)
        keeps = follow(c, n) == c->low;
    else if (amp == DL_AMP_lower_precision)
        lower(c, n);
    else if (amp == DL_AMP_unchanged)
        make(c, n, n->in[n->nin - 1]->type.dtype);
    else
        take(c, n, DL_F32), make(c, n, DL_F32);
    dl_push(c->b.graph->module->arena, &c->b.graph->nodes, n);
    return keeps ? in_type(c, &n->out[0], c->low) : &n->out[0];
}

/* Finds the pinned values, before any type changes. */
static void find_pins(caster *c) {
    for (int i = 0; i < c->b.graph->nodes.n; i++) {
        const dl_node *n = c->b.graph->nodes.at[i];
        const dl_value *v = &n->out[0];
        c->pinned[v->id] = n->op == DL_OP_cast && (is_float32(v) || is_half(v)) &&
                           v->type.dtype == n->in[0]->type.dtype;
    }
}

/* Does the graph have gradients, or updates that depend on them? Their types follow from the
 * graph's casts. */
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
    dl_dtype low = ctx->step_options.low;
    if (low == DL_F32 || trains(g)) return false;
    caster c = {.b = {.graph = g}, .low = low, .ids = g->next_id};
    for (int i = 0; i < 2; i++) c.as[i] = DL_NEWS(ctx->arena, dl_value *, g->next_id);
    c.made_lower_precision = DL_NEWS(ctx->arena, bool, g->next_id),
    c.pinned = DL_NEWS(ctx->arena, bool, g->next_id);
    find_pins(&c);
    dl_value **stands =
        DL_NEWS(ctx->arena, dl_value *, g->next_id); /* by value id: its replacement */
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
        bool next = g->is_body && r->role == DL_RESULT_UPDATE;
        r->value = in_type(&c, r->value, next ? r->var->value.type.dtype : DL_F32);
    }
    return c.changed;
}
