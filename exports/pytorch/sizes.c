/* Sizes and axes: numbers that depend on the samples, and operands' axes by name. */
#include "exports/pytorch/parts.h"

void dl_torch_enter(torch_export *t, const dl_graph *g, const dl_graph *next) {
    t->graph = g, t->next = next;
    t->uses = dl_graph_uses(g, t->arena);
    if (!next) next = g;
    t->type_next = DL_NEWS(t->arena, const dl_type *, g->next_id + 1);
    t->text = DL_NEWS(t->arena, torch_text, g->next_id + 1);
    for (int i = 0; i < g->vars.n; i++)
        t->type_next[g->vars.at[i]->value.id] = &next->vars.at[i]->value.type;
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.at[i]->nout; k++)
            t->type_next[g->nodes.at[i]->out[k].id] = &next->nodes.at[i]->out[k].type;
}

const char *dl_torch_count(torch_export *t, int64_t now, int64_t then) {
    int64_t each = then - now, more = now - each * t->samples;
    if (!each) return dl_format(t->arena, "%lld", (long long)now);
    t->reads_samples = true;
    const char *s = each == 1 ? "n" : dl_format(t->arena, "n * %lld", (long long)each);
    if (!more) return s;
    return dl_format(t->arena, "%s %c %lld", s, more < 0 ? '-' : '+',
                     (long long)(more < 0 ? -more : more));
}

bool dl_torch_varies(const torch_export *t, const dl_value *v, int axis) {
    return v->type.axis[axis].size != t->type_next[v->id]->axis[axis].size;
}

const char *dl_torch_size(torch_export *t, const dl_value *v, int axis) {
    return dl_torch_count(t, v->type.axis[axis].size, t->type_next[v->id]->axis[axis].size);
}

const char *dl_torch_shape(torch_export *t, const dl_value *v) {
    const char *s = "";
    for (int i = 0; i < v->type.rank; i++)
        s = dl_format(t->arena, "%s%s%s", s, i ? ", " : "", dl_torch_size(t, v, i));
    return s;
}

const dl_node *dl_torch_next(const torch_export *t, const dl_node *n) {
    if (!t->next) return NULL;
    for (int i = 0; i < t->graph->nodes.n; i++)
        if (t->graph->nodes.at[i] == n) return t->next->nodes.at[i];
    return NULL;
}

const char *dl_torch_dims(torch_export *t, const dl_node *n) {
    const dl_type *x = &n->in[0]->type;
    const dl_attr *over = dl_node_attr(n, DL_ATTR_over), *axis = dl_node_attr(n, DL_ATTR_axis);
    if (axis) return dl_format(t->arena, "%d", dl_type_axis(x, axis->s));
    const char *s = "";
    int count = 0;
    for (int i = 0; i < x->rank; i++)
        for (int k = 0; k < over->n; k++)
            if (over->names[k] == x->axis[i].name) {
                s = dl_format(t->arena, "%s%s%d", s, count++ ? ", " : "", i);
                break;
            }
    return count > 1 ? dl_format(t->arena, "(%s)", s) : s;
}

/* ---- alignment ---- */

/* Are the axes, from the last, where those of `to` are? One without a name, of size 1, may stand
 * for an axis that the operand lacks. */
static bool is_in_place(const dl_type *x, const dl_type *to) {
    for (int i = 1; i <= x->rank; i++) {
        dl_axis a = x->axis[x->rank - i];
        if (i > to->rank) return false;
        const char *there = to->axis[to->rank - i].name;
        if (*a.name ? a.name != there : *there && dl_type_axis(x, there) >= 0) return false;
    }
    return true;
}

/* The dimensions in the order of `to`; true where they are in it already. */
static bool find_order(const dl_type *x, const dl_type *to, int order[DL_MAX_RANK], int *count) {
    bool sorted = true;
    *count = 0;
    for (int k = 0; k < to->rank; k++) {
        int at = *to->axis[k].name ? dl_type_axis(x, to->axis[k].name) : -1;
        if (at < 0) continue;
        sorted = sorted && (!*count || order[*count - 1] < at);
        order[(*count)++] = at;
    }
    return sorted;
}

/* Removes the dimensions without names, and permutes the others. */
static torch_text permuted(torch_export *t, torch_text v, const dl_type *x, const int *order,
                           int count, bool sorted) {
    const char *index = "", *dims = "";
    for (int i = 0; i < x->rank && count < x->rank; i++)
        index = dl_format(t->arena, "%s%s%s", index, i ? ", " : "", *x->axis[i].name ? ":" : "0");
    if (count < x->rank) v = dl_torch_atom(t, "%s[%s]", dl_torch_within(t, v, TORCH_ATOM), index);
    if (sorted) return v;
    for (int i = 0; i < count; i++) {
        int at = 0; /* among the dimensions that are left */
        for (int k = 0; k < order[i]; k++) at += *x->axis[k].name != 0;
        dims = dl_format(t->arena, "%s%s%d", dims, i ? ", " : "", at);
    }
    return dl_torch_atom(t, "%s.permute(%s)", dl_torch_within(t, v, TORCH_ATOM), dims);
}

/* Inserts dimensions of size 1 after the first that the operand has. */
static torch_text spread(torch_export *t, torch_text v, const dl_type *x, const dl_type *to) {
    const char *index = NULL;
    bool needed = false;
    int first = 0;
    while (first < to->rank && dl_type_axis(x, to->axis[first].name) < 0) first++;
    for (int k = first; k < to->rank; k++) {
        bool has = *to->axis[k].name && dl_type_axis(x, to->axis[k].name) >= 0;
        needed = needed || !has;
        index = dl_format(t->arena, "%s%s%s", index ? index : "", index ? ", " : "",
                          has ? ":" : "None");
    }
    return needed ? dl_torch_atom(t, "%s[%s]", dl_torch_within(t, v, TORCH_ATOM), index) : v;
}

torch_text dl_torch_aligned(torch_export *t, const dl_node *n, int i, const dl_type *to) {
    torch_text v = dl_torch_operand(t, n, i);
    const dl_type *x = &n->in[i]->type;
    int order[DL_MAX_RANK], count;
    if (v.is_number || is_in_place(x, to)) return v;
    bool sorted = find_order(x, to, order, &count);
    v = permuted(t, v, x, order, count, sorted);
    return count ? spread(t, v, x, to) : v;
}
