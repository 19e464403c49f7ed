/* Random graphs: random nodes, outputs, metrics, and losses of every shape. */
#ifndef DL_RANDOM_GRAPH_H
#define DL_RANDOM_GRAPH_H
#include "tests/unit/random_composites.h"

/* One element of x, as a scalar: what v[K=1] is. */
static inline dl_value *random_element(random_maker *g, dl_value *x) {
    while (x && x->type.rank) {
        int at = below(&g->r, x->type.rank);
        if (!*x->type.axis[at].name) return NULL;
        int64_t i = below(&g->r, (int)x->type.axis[at].size);
        dl_attr attr = dl_attr_name(DL_ATTR_axis, x->type.axis[at].name);
        x = random_slice(g, x, at, i, i + 1);
        if (x) x = random_node(g, DL_OP_squeeze, 1, &x, 1, &attr, NULL);
    }
    return x;
}
/* A scalar to be part of a loss. */
static inline dl_value *random_term(random_maker *g) {
    static const dl_op reductions[] = {DL_OP_sum, DL_OP_mean, DL_OP_mean, DL_OP_reduce_max,
                                       DL_OP_reduce_min};
    dl_value *x = random_real(g), *y = x;
    dl_op op = reductions[below(&g->r, 5)];
    if (one_in(&g->r, 3)) y = random_1(g, DL_OP_tanh, x);
    switch (below(&g->r, 8)) {
    case 0: return random_element(g, y);
    case 1: /* in two steps */
        x = random_rule_reduce(g, op);
        return x && is_real(g, &x->type) ? random_full(g, reductions[below(&g->r, 5)], x) : NULL;
    case 2: /* a learned weight: w[K=i] mean(..) */
        x = random_element(g, random_pick(g, real_axes));
        return x ? random_2(g, DL_OP_mul, x, random_full(g, op, y)) : NULL;
    case 3: /* exp(-p[P=0]) mean(..) + p[P=0] */
        x = random_element(g, random_pick(g, real_axes));
        if (!x) return NULL;
        y = random_2(g, DL_OP_mul, random_1(g, DL_OP_exp, random_1(g, DL_OP_neg, x)),
                     random_full(g, op, y));
        return random_2(g, DL_OP_add, y, x);
    case 4:
        y = random_full(g, DL_OP_mean, random_2(g, DL_OP_mul, y, y));
        return random_1(g, DL_OP_sqrt, random_k(g, DL_OP_add, y, 0.01));
    case 5:
        return random_2(g, DL_OP_mul, random_full(g, op, y),
                        random_full(g, DL_OP_mean, random_real(g)));
    default: return random_full(g, op, y);
    }
}

static inline dl_value *random_loss(random_maker *g) {
    static const dl_op joins[] = {DL_OP_add, DL_OP_add, DL_OP_add, DL_OP_sub, DL_OP_mul, DL_OP_max};
    dl_value *loss = NULL;
    for (int terms = 1 + below(&g->r, 4); terms;) {
        dl_value *t = random_term(g);
        if (!t) continue;
        if (one_in(&g->r, 3)) t = random_k(g, DL_OP_mul, t, 0.5);
        loss = loss ? random_2(g, joins[below(&g->r, 6)], loss, t) : t;
        terms--;
    }
    return loss;
}

/* Adds what nobody reads to the loss, so that it has gradients, too. */
static inline dl_value *random_ends(random_maker *g, dl_value *loss) {
    const dl_graph *graph = g->b.graph;
    for (int i = 0, last = g->n; i < last; i++) {
        bool read = !is_real(g, &g->pool[i]->type);
        for (int k = 0; k < graph->nodes.n && !read; k++)
            for (int j = 0; j < graph->nodes.at[k]->nin; j++)
                read |= graph->nodes.at[k]->in[j] == g->pool[i];
        if (read) continue;
        dl_value *x = one_in(&g->r, 2) ? g->pool[i] : random_1(g, DL_OP_tanh, g->pool[i]);
        loss = random_2(g, DL_OP_add, loss, random_full(g, DL_OP_mean, x));
    }
    return loss;
}

/* Once more what a node does: a duplicate. */
static inline dl_value *random_again(random_maker *g) {
    const dl_node *n =
        g->b.graph->nodes.n ? g->b.graph->nodes.at[below(&g->r, g->b.graph->nodes.n)] : NULL;
    if (!n || n->op == DL_OP_const) return NULL;
    return random_node(g, n->op, n->nin, n->in, n->nattrs, n->attrs, &n->out[0].type);
}

/* A graph of some `steps` ops over variables of element type `real` (and some of others), the same
 * for the same seed, with outputs, metrics and a loss. */
static inline dl_graph *random_graph(dl_module *m, const char *name, uint64_t seed, int steps,
                                     dl_dtype real, random_counts *counts) {
    random_maker g = {
        .b.graph = dl_graph_new(m, name), .r = {seed}, .real = real, .counts = counts};
    g.largest = one_in(&g.r, 16) ? RANDOM_HUGE : RANDOM_LARGEST;
    for (int i = 1 + below(&g.r, 3); i; i--) random_var(&g, random_type(&g, real, 4));
    if (one_in(&g.r, 3)) random_var(&g, random_type(&g, one_in(&g.r, 2) ? DL_I32 : DL_I64, 2));
    if (one_in(&g.r, 6)) random_var(&g, random_type(&g, DL_BOOL, 2));
    for (int left = steps, tries = 20 * steps; left && tries; tries--) {
        int dice = below(&g.r, 12);
        dl_op op = (dl_op)below(&g.r, DL_NOPS);
        dl_value *v = NULL;
        if (dice == 0)
            v = random_element(&g, random_pick(&g, real_axes));
        else if (dice == 1)
            v = random_again(&g);
        else if (dice == 2)
            v = random_rule_slice(&g, DL_OP_slice);
        else if (random_makes(op))
            v = random_rules[op](&g, op);
        if (random_keep(&g, v)) left--;
    }
    dl_value *loss = random_loss(&g);
    if (one_in(&g.r, 2)) loss = random_ends(&g, loss);
    for (int i = 0; i < g.n; i++) {
        bool var = g.pool[i]->var != NULL;
        if (one_in(&g.r, var ? 24 : 6))
            dl_graph_result(g.b.graph, DL_RESULT_OUTPUT, dl_internf("o%d", i), g.pool[i], NULL);
        else if (!var && !g.pool[i]->type.rank && is_real(&g, &g.pool[i]->type) && one_in(&g.r, 2))
            dl_graph_result(g.b.graph, DL_RESULT_METRIC, dl_internf("m%d", i), g.pool[i], NULL);
    }
    dl_graph_result(g.b.graph, DL_RESULT_LOSS, "loss", loss, NULL);
    return g.b.graph;
}
#endif
