#include "runtime/setup/classes.h"

#include <stdlib.h>

#include "ir/base/str.h"
#include "ir/op.h"

/* Is every number of n's result one of its operand k, or a number of the graph's own? */
static bool passes_on(const dl_node *n, int k) {
    const int index = n->op == DL_OP_gather ? 1 : n->op == DL_OP_select ? 0 : -1;
    return dl_op_chooses(n->op) && k != index;
}

/* The size of the axis of `from` that the numbers t have not: what they choose along. */
static int64_t chosen(const dl_type *from, const dl_type *t) {
    for (int k = 0; k < from->rank; k++)
        if (dl_type_axis(t, from->axis[k].name) < 0) return from->axis[k].size;
    return 0;
}

/* Below what operand k of n must stay; 0: n does not say. `strict`: only of ops that make a number
 * beyond it NaN or infinite. */
static int64_t bound_of(const dl_node *n, int k, bool strict) {
    const dl_value *other = n->nin == 2 ? n->in[!k] : NULL;
    if (n->op == DL_OP_cross_entropy && k == 1 && !dl_dtype_is_float(n->in[1]->type.dtype))
        return n->in[0]
            ->type.axis[dl_type_axis(&n->in[0]->type, dl_node_name(n, DL_ATTR_axis))]
            .size;
    if (n->op == DL_OP_gather && k == 1)
        return other->type.axis[dl_type_axis(&other->type, dl_node_name(n, DL_ATTR_axis))].size;
    if (strict) return 0;
    if (n->op == DL_OP_in_top_k && k == 1) return chosen(&other->type, &n->in[k]->type);
    if (n->op == DL_OP_eq && other->def && other->def->op == DL_OP_iota) /* one_hot */
        return chosen(&other->type, &n->in[k]->type);
    return 0;
}

/* Numbers of another meaning may stand among them: a select takes others in their place, or a
 * comparison with a number tells them apart (ignore_index). */
static bool sets_apart(const dl_node *n, int k) {
    const dl_curve curve = dl_op_curve(n->op);
    if (n->op == DL_OP_select || (curve == DL_CURVE_KINK && dl_op_chooses(n->op))) return true;
    const dl_node *other = n->nin == 2 ? n->in[!k]->def : NULL;
    while (other && other->op == DL_OP_broadcast) other = other->in[0]->def;
    return curve == DL_CURVE_COMPARE && other && other->op == DL_OP_const;
}

/* In one graph, whose nodes stand in order: what was reached of v so far, by value's number. */
static int64_t count_in(const dl_graph *g, const dl_value *v, bool strict) {
    bool *reached = dl_calloc((size_t)g->next_id + 1, sizeof *reached), apart = false;
    int64_t least = 0;
    reached[v->id] = true;
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        for (int k = 0; k < n->nin; k++) {
            if (!reached[n->in[k]->id]) continue;
            int64_t bound = bound_of(n, k, strict);
            if (bound && (!least || bound < least)) least = bound;
            if (n->nout == 1 && passes_on(n, k)) reached[n->out[0].id] = true;
            apart |= strict && sets_apart(n, k);
        }
    }
    free(reached);
    return apart ? 0 : least;
}

static int64_t count_of(const dl_module *m, const dl_var *v, bool strict) {
    int64_t least = 0;
    for (int i = 0; i < m->graphs.n; i++) {
        const dl_var *here = dl_graph_find_var(m->graphs.at[i], v->name);
        int64_t bound = here ? count_in(m->graphs.at[i], &here->value, strict) : 0;
        if (bound && (!least || bound < least)) least = bound;
    }
    return least;
}

int64_t dl_classes_count(const dl_module *m, const dl_var *v) { return count_of(m, v, false); }

static dl_classes find(dl_arena *arena, const dl_module *m, bool strict) {
    dl_classes all = {0};
    const dl_graph *g = m->graphs.at[0];
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *v = g->vars.at[i];
        if (v->role != DL_VAR_INPUT && v->role != DL_VAR_TARGET) continue;
        int64_t count = v->value.type.dtype == DL_BOOL ? 2 : count_of(m, v, strict);
        if (count) dl_push(arena, &all, ((dlr_classed){dl_strdup(arena, v->name), count}));
    }
    return all;
}

dl_classes dl_classes_find(dl_arena *arena, const dl_module *m) { return find(arena, m, false); }
dl_classes dl_classes_strict(dl_arena *arena, const dl_module *m) { return find(arena, m, true); }
