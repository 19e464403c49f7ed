/* Complex values: floats with an axis Z of two parts. */
#include "imports/dl/rules.h"

void dl_name_parts(dl_in_ctx *c, dl_in_value *v, bool parts) {
    const char *name[DL_FOREIGN_RANK];
    if (parts && !v->axis[v->n - 1].name) { /* of a parameter */
        v->axis[v->n - 1].name = dl_parts_axis;
        if (v->param >= 0) c->b->stmts.at[v->param].axis[v->n - 1] = dl_parts_axis;
    }
    for (int d = 0; d < v->rank; d++) dl_axis_name(c, v, d);
    for (int a = 0; a < v->n; a++) {
        name[a] = v->axis[a].name;
        if (parts && a == v->n - 1)
            name[a] = dl_parts_axis;
        else if (!strcmp(name[a], dl_parts_axis))
            name[a] = dl_fresh_name(v, a, v->n);
    }
    dl_rename(c, v, name);
}

void dl_end_in_parts(dl_in_ctx *c, dl_in_value *v) {
    dl_whole(c, v);
    bool nameless = false;
    for (int a = 0; a < v->n; a++)
        nameless = nameless || (v->axis[a].name && !strcmp(v->axis[a].name, "1"));
    if (nameless || dl_axis_of(v, v->rank - 1) != v->n - 1) dl_ordered(c, v, false);
    dl_name_parts(c, v, true);
}

bool dl_is_by_parts(const char *sign, const dl_foreign_arg *x, const dl_foreign_arg *y) {
    bool a = x->kind == DL_ARG_TENSOR && x->tensors[0]->pair,
         b = y->kind == DL_ARG_TENSOR && y->tensors[0]->pair;
    if (!strcmp(sign, "+") || !strcmp(sign, "-")) return a && b;
    return (!strcmp(sign, "*") && a != b) || (!strcmp(sign, "/") && a && !b);
}

dl_in_value *dl_next_to_parts(dl_in_ctx *c, dl_in_value *v) {
    if (v->rank == DL_FOREIGN_RANK) return NULL;
    dl_in_value *made = dl_copy_value(c, v);
    made->dim[made->rank++].n = 0;
    return made;
}
