/* Names and orders of axes.
 *
 * A rename of a contraction's result becomes renames of its operands, which are free views.
 * Otherwise the rename would separate the contraction from its epilogue (a linear layer's weight
 * gradient and the update of the weight). Axes that are permuted and permuted back (a norm over
 * channels, followed by "n c h w -> n h w c") are left in place: their readers read the same
 * points, and may join the same kernel. */
#include "passes/simplify/simplify.h"

/* If a view only renames and permutes axes: fills at[i] with the operand's axis for axis i of the
 * result. */
static bool find_order(const dl_node *n, int at[DL_MAX_RANK]) {
    if (!n || (n->op != DL_OP_rename && n->op != DL_OP_broadcast)) return false;
    const dl_type *from = &n->in[0]->type, *to = &n->out[0].type;
    if (from->rank != to->rank || !dl_layout_same(from->layout, to->layout)) return false;
    bool keeps = n->op == DL_OP_rename || dl_type_same(from, to);
    for (int i = 0; i < to->rank; i++) {
        const char *name = to->axis[i].name;
        at[i] = keeps ? i : *name ? dl_type_axis(from, name) : -1;
        if (at[i] < 0 || from->axis[at[i]].size != to->axis[i].size) return false;
    }
    return true;
}

dl_value *dl_simplify_order(dl_simplifier *s, dl_node *n) {
    int at[DL_MAX_RANK], step[DL_MAX_RANK], passed = 0;
    const dl_type *to = &n->out[0].type;
    dl_value *v = &n->out[0], *same = NULL;
    for (int i = 0; i < to->rank; i++) at[i] = i;
    while (find_order(v->def, step)) {
        v = v->def->in[0], passed++;
        bool moved = false;
        for (int i = 0; i < to->rank; i++) at[i] = step[at[i]], moved = moved || at[i] != i;
        if (!moved && (passed > 1 || dl_type_same(&v->type, to))) same = v;
    }
    if (!same || dl_type_same(&same->type, to)) return same;
    return dl_build_as(&s->b, DL_OP_rename, 1, &same, 0, NULL, *to);
}

/* The operand's type under the new names `to`; `from`: the old ones. Summed axes keep their names,
 * unless the result has these names now: then they get the name `fresh`. False: two axes would
 * have one name. */
static bool rename_axes(const dl_type *operand, const dl_type *from, const dl_type *to,
                        const dl_attr *over, const char *const *fresh, dl_type *made) {
    *made = *operand;
    for (int i = 0; i < operand->rank; i++) {
        int at = dl_type_axis(from, operand->axis[i].name);
        if (at >= 0) made->axis[i].name = to->axis[at].name;
        for (int k = 0; k < over->n; k++)
            if (operand->axis[i].name == over->names[k]) made->axis[i].name = fresh[k];
    }
    for (int i = 0; i < made->rank; i++)
        if (!*made->axis[i].name || dl_type_axis(made, made->axis[i].name) != i) return false;
    return true;
}

dl_value *dl_simplify_rename(dl_simplifier *s, dl_node *n) {
    const dl_node *c = n->in[0]->def;
    if (!c || c->op != DL_OP_contract || n->in[0]->id >= s->known) return NULL;
    const dl_uses *uses = &s->uses[n->in[0]->id];
    if (uses->n != 1 || uses->results) return NULL;
    const dl_type *from = &c->out[0].type, *to = &n->out[0].type;
    dl_attr over = *dl_node_attr(c, DL_ATTR_over);
    const char *fresh[DL_MAX_RANK];
    dl_type all = *to; /* the names in use */
    for (int k = 0; k < over.n; k++) {
        bool taken = dl_type_axis(to, over.names[k]) >= 0;
        if (taken && all.rank == DL_MAX_RANK) return NULL;
        fresh[k] = taken ? dl_type_fresh(&all, over.names[k]) : over.names[k];
        if (taken) all.axis[all.rank++] = (dl_axis){fresh[k], 1};
    }
    dl_type type[2];
    for (int i = 0; i < 2; i++)
        if (!rename_axes(&c->in[i]->type, from, to, &over, fresh, &type[i])) return NULL;
    dl_value *in[2];
    for (int i = 0; i < 2; i++)
        in[i] = dl_type_same(&type[i], &c->in[i]->type)
                    ? c->in[i]
                    : dl_build_as(&s->b, DL_OP_rename, 1, &c->in[i], 0, NULL, type[i]);
    dl_attr attr = dl_attr_names(DL_ATTR_over, over.n, fresh);
    dl_value *v = dl_build(&s->b, DL_OP_contract, 2, in, 1, &attr);
    return dl_type_same(&v->type, to) ? v : NULL;
}
