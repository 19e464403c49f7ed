/* low_weights: what becomes of the casts of weights. A weight stays f32: its steps are too small
 * for 16 bits.
 *
 * Where the target multiplies numbers of the cast's type, what reads a weight's cast reads a
 * variable of role COPY instead, whose next value is the cast of the weight's next one: a second
 * store of the kernel that updates the weight, where a cast of its own would read it all once more
 * in each step. The executor makes the copies anew where the host has written a parameter. Where
 * the target computes in f32 all the same, products read the weight as it is: no copy, no cast, and
 * nothing is rounded; a product by names reads the model's input so, too, which else were cast by a
 * kernel of its own (an image is turned channels last by one, which may as well round it). */
#include "ir/builder.h"
#include "ir/relation.h"
#include "ir/walk.h"
#include "passes/pass.h"

/* A weight's cast into one of these types, 1 << dtype each. A vector is cast where it is read: it
 * stays in cache. */
static bool is_weight(const dl_node *n, unsigned types) {
    const dl_var *v = n->op == DL_OP_cast ? n->in[0]->var : NULL;
    return v && v->role == DL_VAR_PARAM && v->value.type.rank > 1 &&
           (types >> n->out[0].type.dtype & 1);
}

/* The variable that holds this cast; NULL and the error where its name is taken. */
static dl_var *copy_of(dl_graph *g, const dl_node *n, dl_error *err) {
    const dl_var *of = n->in[0]->var;
    const char *name = dl_internf("%s.%s", dl_dtype_name(n->out[0].type.dtype), of->name);
    dl_var *v = dl_graph_find_var(g, name);
    if (v && v->role == DL_VAR_COPY) return v; /* of an equal node */
    if (v) {
        dl_fail_taken(g, v, "a weight's copy", err);
        return NULL;
    }
    v = dl_graph_var(g, DL_VAR_COPY, name, n->out[0].type, (dl_init){.kind = DL_INIT_ZERO},
                     of->loc);
    v->of = of->name, v->piece = of->piece;
    return v;
}

/* The copy is written where the weight is. */
static void add_update(dl_graph *g, dl_var *v) {
    const dl_result *r = NULL;
    for (int i = 0; i < g->results.n; i++) {
        const dl_result *of = &g->results.at[i];
        if (of->role == DL_RESULT_UPDATE && of->var == v) return;
        if (of->role == DL_RESULT_UPDATE && of->var->name == v->of) r = of;
    }
    if (!r) return; /* a graph that does not train */
    dl_builder b = {.graph = g, .loc = v->loc};
    dl_graph_result(g, DL_RESULT_UPDATE, v->name, dl_build_cast(&b, r->value, v->value.type.dtype),
                    v);
}

/* Of f32, into 16 bits: what else is cast is another number. */
static bool is_input(const dl_node *n, unsigned types) {
    return n->op == DL_OP_cast && n->in[0]->var && n->in[0]->var->role == DL_VAR_INPUT &&
           n->in[0]->type.dtype == DL_F32 && (types >> n->out[0].type.dtype & 1);
}

/* The variable as it is where product n reads its cast in v, or what moves of that make: slices,
 * renamed and spread axes. Else NULL. */
static dl_value *find_source(dl_builder *b, const dl_node *n, dl_value *v, unsigned types) {
    const dl_node *by = v->def;
    if (!by) return NULL;
    if (is_weight(by, types) || (is_input(by, types) && !dl_op_slides(n->op))) return by->in[0];
    bool moves = dl_ops[by->op].class == DL_CLASS_MOVE && by->nin == 1;
    dl_value *of = moves ? find_source(b, n, by->in[0], types) : NULL;
    if (!of) return NULL;
    dl_type t = v->type;
    t.dtype = of->type.dtype;
    return dl_build_as(b, by->op, 1, &of, by->nattrs, by->attrs, t);
}

/* A product of two such is one in f32, and then rounded. */
static void round_result(dl_builder *b, dl_node *n) {
    n->in[0] = dl_build(b, n->op, 2, n->in, n->nattrs, n->attrs);
    n->op = DL_OP_cast, n->nin = 1, n->nattrs = 0;
}

/* Products read what is cast into `types` as it is. */
static bool read_sources(dl_graph *g, unsigned types) {
    bool any = false;
    dl_builder b = {.graph = g};
    for (int i = 0, nodes = g->nodes.n; i < nodes; i++) {
        dl_node *n = g->nodes.at[i];
        b.loc = n->loc;
        if (dl_ops[n->op].class != DL_CLASS_CONTRACT || n->out[0].type.dtype == DL_F32) continue;
        for (int k = 0; k < 2; k++) {
            dl_value *source = find_source(&b, n, n->in[k], types);
            if (source) n->in[k] = source, any = true;
        }
        if (n->in[0]->type.dtype == DL_F32 && n->in[1]->type.dtype == DL_F32) round_result(&b, n);
    }
    if (!any) return false;
    dl_graph_sort(g);
    dl_graph_sweep(g);
    return true;
}

/* What is cast into `types` is read from copies. False: nothing is, or the error. */
static bool read_copies(dl_graph *g, dl_pass_ctx *ctx, unsigned types) {
    uint32_t ids = g->next_id;
    dl_value **copy = DL_NEWS(ctx->arena, dl_value *,
                              ids + 1); /* by the cast's value id: what is read in its place */
    DL_ARRAY(dl_var *) copies = {0};
    int kept = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        dl_node *n = g->nodes.at[i];
        for (int k = 0; k < n->nin; k++)
            if (n->in[k]->id < ids && copy[n->in[k]->id]) n->in[k] = copy[n->in[k]->id];
        if (!is_weight(n, types)) {
            g->nodes.at[kept++] = n;
            continue;
        }
        dl_var *v = copy_of(g, n, ctx->err);
        if (!v) return false;
        copy[n->out[0].id] = &v->value;
        dl_push(ctx->arena, &copies, v);
    }
    g->nodes.n = kept;
    for (int i = 0; i < g->results.n; i++) {
        dl_result *r = &g->results.at[i];
        if (r->value->id < ids && copy[r->value->id]) r->value = copy[r->value->id];
    }
    for (int i = 0; i < copies.n; i++) add_update(g, copies.at[i]);
    return copies.n > 0;
}

bool dl_pass_low_weights(dl_graph *g, dl_pass_ctx *ctx) {
    const unsigned halves = 1u << DL_F16 | 1u << DL_BF16;
    bool any = read_sources(g, halves & ~ctx->low_products);
    return read_copies(g, ctx, halves & ctx->low_products) || any;
}
