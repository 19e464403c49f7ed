#include "passes/optim/batch_weight.h"

#include "passes/parallel/samples.h"

struct dl_batch_weights {
    bool *fed, *trained; /* by value id */
    bool *sums;          /* the value is a sum or mean over samples */
    uint32_t n;
};

dl_batch_weights *dl_batch_weights_of(const dl_graph *g, dl_arena *arena) {
    dl_batch_weights *w = DL_NEW(arena, dl_batch_weights);
    dl_sample_flow flow;
    bool samples = dl_sample_flow_begin(&flow, arena, g);
    *w = (dl_batch_weights){.fed = DL_NEWS(arena, bool, g->next_id + 1),
                            .trained = DL_NEWS(arena, bool, g->next_id + 1),
                            .sums = DL_NEWS(arena, bool, g->next_id + 1),
                            .n = g->next_id};
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *v = g->vars.at[i];
        w->fed[v->value.id] = v->role == DL_VAR_INPUT || v->role == DL_VAR_TARGET;
        w->trained[v->value.id] = !w->fed[v->value.id];
    }
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        bool fed = false, trained = false;
        for (int k = 0; k < n->nin; k++)
            fed |= w->fed[n->in[k]->id], trained |= w->trained[n->in[k]->id];
        flow.sums = false; /* of this node */
        if (samples) dl_sample_flow_add(&flow, n);
        for (int r = 0; r < n->nout; r++) {
            const uint32_t id = n->out[r].id;
            w->fed[id] = fed, w->trained[id] = trained, w->sums[id] = flow.sums;
        }
    }
    return w;
}

/* NEUTRAL: independent of samples, and so of the weights. EVEN: batches weigh the same. */
typedef enum { NEUTRAL, EVEN, BY, NEITHER } kind;
typedef struct {
    kind kind;
    dl_value *by;      /* BY */
    const dl_value *v; /* NEITHER: the value that is none of the others */
} weight;

static weight neither(const dl_value *v) { return (weight){.kind = NEITHER, .v = v}; }

/* The weight of v, a sum of both. */
static weight join(const dl_value *v, weight a, weight b) {
    if (a.kind == NEUTRAL || b.kind == NEITHER) return b;
    if (b.kind == NEUTRAL || a.kind == NEITHER) return a;
    return a.kind == b.kind && a.by == b.by ? a : neither(v);
}

static bool is_of_data(const dl_batch_weights *w, const dl_value *v) {
    return w->fed[v->id] && !w->trained[v->id] && v->type.rank == 0;
}

/* The weight of v, a sum over samples by another value, which is computed from fed samples. */
static weight divided(const dl_batch_weights *w, const dl_value *v, weight sum, dl_value *by) {
    if (sum.kind == NEITHER) return sum;
    return is_of_data(w, by) && sum.kind == EVEN ? (weight){BY, by, NULL} : neither(v);
}

static weight find(const dl_batch_weights *w, dl_value *v);

static weight of_product(const dl_batch_weights *w, const dl_node *n) {
    for (int k = 0; k < 2; k++) {
        const dl_node *by = dl_made_by(n->in[k], DL_OP_div); /* of a constant: 1 / sum */
        if (!w->fed[n->in[k]->id]) return find(w, n->in[1 - k]);
        if (by && !w->fed[by->in[0]->id])
            return divided(w, &n->out[0], find(w, n->in[1 - k]), by->in[1]);
    }
    return neither(&n->out[0]);
}

/* Is the result linear in the only operand? A sum over ranks is, too. */
static bool is_linear(const dl_node *n) {
    const dl_op_class class = dl_ops[n->op].class;
    return dl_op_is_linear(n->op) || n->op == DL_OP_cast || class == DL_CLASS_MOVE ||
           class == DL_CLASS_COLLECTIVE;
}

static weight find(const dl_batch_weights *w, dl_value *v) {
    const dl_node *n = v->def;
    if (v->id >= w->n) return neither(v);
    if (!w->fed[v->id]) return (weight){.kind = NEUTRAL};
    if (w->sums[v->id]) return (weight){.kind = EVEN};
    if (!n) return neither(v);
    switch (n->op) {
    case DL_OP_add:
    case DL_OP_sub: return join(v, find(w, n->in[0]), find(w, n->in[1]));
    case DL_OP_mul: return of_product(w, n);
    case DL_OP_div:
        return w->fed[n->in[1]->id] ? divided(w, v, find(w, n->in[0]), n->in[1])
                                    : find(w, n->in[0]);
    case DL_OP_select: /* zero where there is nothing to sum */
        return w->trained[n->in[0]->id] || w->fed[n->in[2]->id] ? neither(v) : find(w, n->in[1]);
    default: return n->nin == 1 && is_linear(n) ? find(w, n->in[0]) : neither(v);
    }
}

dl_value *dl_batch_weight(const dl_batch_weights *w, dl_value *v) {
    const weight found = find(w, v);
    return found.kind == BY ? found.by : NULL;
}

const dl_value *dl_batch_mean_differs(const dl_batch_weights *w, dl_value *v) {
    const weight found = find(w, v);
    return found.kind == NEITHER ? found.v : NULL;
}
