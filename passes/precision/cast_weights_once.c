/* cast_weights_once: casts each weight once a step, not at each use. A weight itself stays f32,
 * because its updates are too small for 16 bits.
 *
 * Where the target has GEMMs of the cast's type, readers of the cast read a variable of role COPY
 * instead. Its next value is the cast of the weight's next value: a second store of the kernel
 * that updates the weight. A separate cast would read the whole weight once more in each step. The
 * executor refreshes the copies when the host has written a parameter. Where the target computes
 * in f32 anyway, contractions read the weight itself: there is no copy, no cast and no rounding. A
 * contraction by names then also reads the model's input itself, which otherwise a separate kernel
 * would cast. (An image is converted to channels last by a kernel, which may round it, too.) */
#include "ir/builder.h"
#include "ir/relation.h"
#include "ir/walk.h"
#include "passes/pass.h"

/* Is it a weight's cast into one of these types (1 << dtype each)? A vector is cast where it is
 * read: it stays in cache. */
static bool is_weight(const dl_node *n, unsigned types) {
    const dl_var *v = n->op == DL_OP_cast ? n->in[0]->var : NULL;
    return v && v->role == DL_VAR_PARAM && v->value.type.rank > 1 &&
           (types >> n->out[0].type.dtype & 1);
}

/* The variable that holds this cast; NULL and the error where the model has a variable of its
 * name. */
static dl_var *copy_of(dl_graph *g, const dl_node *n, dl_error *err) {
    const dl_var *of = n->in[0]->var;
    const char *name = dl_internf("%s.%s", dl_dtype_name(n->out[0].type.dtype), of->name);
    dl_var *v = dl_graph_find_var(g, name);
    if (v && v->role == DL_VAR_COPY) return v; /* created for an equal node */
    if (v) {
        dl_fail_taken(g, v, "a weight's copy", err);
        return NULL;
    }
    v = dl_graph_var(g, DL_VAR_COPY, name, n->out[0].type, (dl_init){.kind = DL_INIT_ZERO},
                     of->loc);
    v->of = of->name, v->piece = of->piece;
    return v;
}

/* Adds the copy's update at the weight's update. */
static void add_update(dl_graph *g, dl_var *v) {
    const dl_result *r = NULL;
    for (int i = 0; i < g->results.n; i++) {
        const dl_result *of = &g->results.at[i];
        if (of->role == DL_RESULT_UPDATE && of->var == v) return;
        if (of->role == DL_RESULT_UPDATE && of->var->name == v->of) r = of;
    }
    if (!r) return; /* the graph does not train */
    dl_builder b = {.graph = g, .loc = v->loc};
    dl_graph_result(g, DL_RESULT_UPDATE, v->name, dl_build_cast(&b, r->value, v->value.type.dtype),
                    v);
}

/* An input in f32 that is cast to 16 bits; a cast from other types changes the value. */
static bool is_input(const dl_node *n, unsigned types) {
    return n->op == DL_OP_cast && n->in[0]->var && n->in[0]->var->role == DL_VAR_INPUT &&
           n->in[0]->type.dtype == DL_F32 && (types >> n->out[0].type.dtype & 1);
}

/* The original variable where contraction n reads its cast in v, possibly through slices, renames
 * and broadcasts. Else NULL. */
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

/* The contraction of two such operands is computed in f32, then rounded. */
static void round_result(dl_builder *b, dl_node *n) {
    n->in[0] = dl_build(b, n->op, 2, n->in, n->nattrs, n->attrs);
    n->op = DL_OP_cast, n->nin = 1, n->nattrs = 0;
}

/* Contractions read the originals of values that are cast into `types`. */
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
    DL_CHECK(dl_graph_sort(g));
    dl_graph_sweep(g);
    return true;
}

/* Readers of weights' casts into `types` read the copies. False: there are none, or an error. */
static bool read_copies(dl_graph *g, dl_pass_ctx *ctx, unsigned types) {
    uint32_t ids = g->next_id;
    dl_value **copy =
        DL_NEWS(ctx->arena, dl_value *, ids + 1); /* by the cast's value id: its replacement */
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

bool dl_pass_cast_weights_once(dl_graph *g, dl_pass_ctx *ctx) {
    const unsigned halves = 1u << DL_F16 | 1u << DL_BF16;
    bool any = read_sources(g, halves & ~ctx->half_gemms);
    return read_copies(g, ctx, halves & ctx->half_gemms) || any;
}
