/* low_weights: a weight that is cast to 16 bits is kept in 16 bits, too.
 *
 * The weight itself stays f32: its steps are too small for 16 bits. What reads its cast reads a variable of
 * role COPY instead, whose next value is the cast of the weight's next one: a second store of the kernel that
 * updates the weight, where a cast of its own would read it all once more in each step. The executor makes
 * the copies anew where the host has written a parameter. */
#include "ir/builder.h"
#include "ir/walk.h"
#include "passes/pass.h"

/* A vector is cast where it is read: it stays in cache. */
static bool is_copied(const dl_node *n) {
    const dl_var *v = n->op == DL_OP_cast ? n->in[0]->var : NULL;
    dl_dtype to = n->out[0].type.dtype;
    return v && v->role == DL_VAR_PARAM && v->value.type.rank > 1 && (to == DL_F16 || to == DL_BF16);
}

/* The variable that holds this cast; NULL and the error where its name is taken. */
static dl_var *copy_of(dl_graph *g, const dl_node *n, dl_error *err) {
    const dl_var *of = n->in[0]->var;
    const char *name = dl_internf("%s.%s", dl_dtype_name(n->out[0].type.dtype), of->name);
    dl_var *v = dl_graph_find_var(g, name);
    if (v && v->role == DL_VAR_COPY) return v; /* of an equal node */
    if (v) {
        dl_fail(err, DL_INPUT, "%s:%d:%d: error: a variable is called $%.200s, as a weight's copy: rename it",
                v->loc.file ? v->loc.file : g->name, v->loc.line, v->loc.column, v->name);
        return NULL;
    }
    v = dl_graph_var(g, DL_VAR_COPY, name, n->out[0].type, (dl_init){.kind = DL_INIT_ZERO}, of->loc);
    v->of = of->name;
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
    dl_graph_result(g, DL_RESULT_UPDATE, v->name, dl_build_cast(&b, r->value, v->value.type.dtype), v);
}

/* The weight as it is where v is its cast, or a part of that; else NULL. */
static dl_value *find_weight(dl_builder *b, dl_value *v) {
    const dl_node *n = v->def;
    if (!n || is_copied(n)) return n ? n->in[0] : NULL;
    dl_value *of = n->op == DL_OP_slice ? find_weight(b, n->in[0]) : NULL;
    return of ? dl_build(b, DL_OP_slice, 1, &of, n->nattrs, n->attrs) : NULL;
}

static bool read_weights(dl_graph *g) {
    bool any = false;
    dl_builder b = {.graph = g};
    for (int i = 0, nodes = g->nodes.n; i < nodes; i++) {
        dl_node *n = g->nodes.at[i];
        b.loc = n->loc;
        for (int k = 0; k < n->nin && dl_ops[n->op].class == DL_CLASS_CONTRACT; k++) {
            if (n->in[1 - k]->type.dtype == DL_F32) break; /* one of 16 bits remains: the result's type */
            dl_value *weight = find_weight(&b, n->in[k]);
            if (weight) n->in[k] = weight, any = true;
        }
    }
    if (any) dl_graph_sort(g);
    return dl_graph_sweep(g) || any;
}

bool dl_pass_low_weights(dl_graph *g, dl_pass_ctx *ctx) {
    if (!ctx->low_products) return read_weights(g);
    uint32_t ids = g->next_id;
    dl_value **copy =
        DL_NEWS(ctx->arena, dl_value *, ids + 1); /* by the cast's value id: what is read in its place */
    DL_ARRAY(dl_var *) copies = {0};
    int kept = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        dl_node *n = g->nodes.at[i];
        for (int k = 0; k < n->nin; k++)
            if (n->in[k]->id < ids && copy[n->in[k]->id]) n->in[k] = copy[n->in[k]->id];
        if (!is_copied(n)) {
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
