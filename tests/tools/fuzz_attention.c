/* Attention written out, for the reference: what the template computes in one kernel, as the ops
 * that error_bound.h knows. */
#include <math.h>

#include "ir/builder.h"
#include "tests/tools/fuzz.h"

static dl_value *as(dl_builder *b, dl_op op, dl_value *v, dl_type t) {
    t.dtype = v->type.dtype;
    return dl_build_as(b, op, 1, &v, 0, NULL, t);
}

static dl_value *contract(dl_builder *b, dl_value *x, dl_value *y, const char *over) {
    dl_attr attr = dl_attr_names(DL_ATTR_over, 1, &over);
    return dl_build(b, DL_OP_contract, 2, (dl_value *[]){x, y}, 1, &attr);
}

/* Scores [.., T, S] of keys that stand after their query count for nothing. */
static dl_value *hide(dl_builder *b, dl_value *scores) {
    dl_value *query = dl_build_count(b, &scores->type, 2, DL_I32),
             *key = dl_build_count(b, &scores->type, 3, DL_I32);
    dl_value *seen = dl_build2(b, DL_OP_le, key, query);
    return as(
        b, DL_OP_broadcast,
        dl_build3(b, DL_OP_select, seen, scores, dl_build_const(b, scores->type.dtype, -1e30)),
        scores->type);
}

/* Scores and a bias of theirs, whose axes of size 1 are shared. */
static dl_value *bias(dl_builder *b, dl_value *scores, dl_value *v) {
    dl_type t = dl_scalar(v->type.dtype);
    for (int i = 0; i < 4; i++)
        if (v->type.axis[i].size == scores->type.axis[i].size)
            t.axis[t.rank++] = scores->type.axis[i];
    return as(b, DL_OP_broadcast, dl_build2(b, DL_OP_add, scores, as(b, DL_OP_reshape, v, t)),
              scores->type);
}

static dl_value *write_out(dl_builder *b, const dl_node *n) {
    const dl_type *q = &n->in[0]->type, *k = &n->in[1]->type;
    const dl_attr *causal = dl_node_attr(n, DL_ATTR_causal);
    int64_t heads = dl_node_int(n, DL_ATTR_heads), size = q->axis[2].size / heads;
    dl_type rows = dl_scalar(q->dtype), columns, scores;
    dl_type_push(&rows, dl_intern("att_n"), q->axis[0].size),
        dl_type_push(&rows, dl_intern("att_t"), q->axis[1].size);
    dl_type_push(&rows, dl_intern("att_h"), heads), dl_type_push(&rows, dl_intern("att_f"), size);
    columns = rows, columns.axis[1] = (dl_axis){dl_intern("att_s"), k->axis[1].size};
    scores = rows, scores.axis[1] = rows.axis[2], scores.axis[2] = rows.axis[1],
    scores.axis[3] = columns.axis[1];
    dl_value *small =
        dl_build_k(b, DL_OP_mul, as(b, DL_OP_reshape, n->in[0], rows), 1 / sqrt((double)size));
    dl_value *share =
        contract(b, small, as(b, DL_OP_reshape, n->in[1], columns), rows.axis[3].name);
    share = as(b, DL_OP_broadcast, share, scores);
    for (int i = 3; i < n->nin; i++) share = bias(b, share, n->in[i]);
    if (causal && causal->i) share = hide(b, share);
    dl_attr axis = dl_attr_name(DL_ATTR_axis, scores.axis[3].name);
    dl_attr rate = dl_attr_float(DL_ATTR_rate, dl_node_float(n, DL_ATTR_rate));
    share = dl_build(b, DL_OP_softmax, 1, &share, 1, &axis);
    if (rate.f > 0) share = dl_build(b, DL_OP_dropout, 1, &share, 1, &rate);
    dl_value *y = contract(b, share, as(b, DL_OP_reshape, n->in[2], columns), scores.axis[3].name);
    return as(b, DL_OP_reshape, as(b, DL_OP_broadcast, y, rows), n->out[0].type);
}

void fuzz_write_out_attention(dl_graph *g, dl_arena *arena) {
    dl_node **old = g->nodes.at;
    int n = g->nodes.n;
    uint32_t known = g->next_id;
    dl_value **now = DL_NEWS(arena, dl_value *, known);
    dl_builder b = {.graph = g};
    g->nodes.at = NULL, g->nodes.n = g->nodes.cap = 0;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < old[i]->nin; k++)
            if (old[i]->in[k]->id < known && now[old[i]->in[k]->id])
                old[i]->in[k] = now[old[i]->in[k]->id];
        if (old[i]->op == DL_OP_attention)
            now[old[i]->out[0].id] = write_out(&b, old[i]);
        else
            dl_push(g->module->arena, &g->nodes, old[i]);
    }
    for (int i = 0; i < g->results.n; i++) {
        dl_result *r = &g->results.at[i];
        if (r->value->id < known && now[r->value->id]) r->value = now[r->value->id];
    }
}
