/* Two operands: PyTorch matches their dimensions from the end, the language by names. */
#include "imports/dl/rules.h"

bool dl_done(dl_in_ctx *c, const dl_in_value *like, int stmt) {
    dl_in_value *v = dl_copy_value(c, like);
    v->stmt = stmt, v->param = -1, v->is_view = false;
    dl_set(c, 0, v);
    return true;
}

static bool same_form(const dl_in_ctx *c, dl_in_value *a, dl_in_value *b) {
    if (a->rank != b->rank || a->n != b->n) return false;
    for (int k = 0; k < a->n; k++) {
        if (a->axis[k].n != b->axis[k].n || !a->axis[k].name || !b->axis[k].name ||
            strcmp(a->axis[k].name, b->axis[k].name) != 0)
            return false;
        for (int i = 0; i < a->axis[k].n; i++)
            if (c->w->atoms.at[a->axis[k].atom[i]] != c->w->atoms.at[b->axis[k].atom[i]])
                return false;
    }
    for (int d = 0; d < a->rank; d++) { /* the same atoms of the same axes */
        if (a->dim[d].n != b->dim[d].n) return false;
        for (int i = 0; i < a->dim[d].n; i++)
            for (int k = 0; k < a->n; k++)
                for (int j = 0; j < a->axis[k].n; j++)
                    if ((a->axis[k].atom[j] == a->dim[d].atom[i]) !=
                        (b->axis[k].atom[j] == b->dim[d].atom[i]))
                        return false;
    }
    return true;
}

/* Drops axis a of size 1 from the text, and from its dimension. */
static void drop_axis(dl_in_ctx *c, dl_in_value *v, int d) {
    v->dim[d].n = 0;
    dl_drop_ones(c, v);
    dl_whole(c, v);
}

static int axis_at(const dl_in_value *v, int rank, int p) {
    int d = p - (rank - v->rank);
    return d >= 0 ? dl_axis_of(v, d) : -1;
}

/* Whether b has axes without a name, and more axes than a. */
static bool lacks_axes(const dl_in_value *a, const dl_in_value *b) {
    int named = 0;
    for (int k = 0; k < b->n; k++) named += !b->axis[k].name || strcmp(b->axis[k].name, "1") != 0;
    return named < b->n && named > a->n;
}

/* Whether a has all axes of b that have a name. */
static bool has_all(const dl_in_value *a, const dl_in_value *b) {
    for (int j = 0; j < b->n; j++) {
        bool found = !strcmp(b->axis[j].name, "1");
        for (int i = 0; i < a->n; i++) found = found || !strcmp(a->axis[i].name, b->axis[j].name);
        if (!found) return false;
    }
    return true;
}

dl_in_value *dl_match(dl_in_ctx *c, dl_in_value *a, dl_in_value *b) {
    if (a != b && same_form(c, a, b)) return dl_copy_value(c, a);
    dl_whole(c, a), dl_whole(c, b);
    if (lacks_axes(a, b)) dl_ordered(c, b, false); /* an axis without a name would stay */
    if (lacks_axes(b, a)) dl_ordered(c, a, false);
    int rank = a->rank > b->rank ? a->rank : b->rank;
    const char *name[DL_FOREIGN_RANK] = {0};
    for (int p = 0; p < rank; p++) { /* an axis of size 1 is not stretched: it is dropped */
        int i = axis_at(a, rank, p), j = axis_at(b, rank, p);
        if (i < 0 || j < 0) continue;
        int64_t m = dl_axis_size_of(c->w, &a->axis[i]), n = dl_axis_size_of(c->w, &b->axis[j]);
        if (m == 1 && n > 1) drop_axis(c, a, p - (rank - a->rank));
        if (n == 1 && m > 1) drop_axis(c, b, p - (rank - b->rank));
    }
    for (int p = 0; p < rank; p++) {
        int i = axis_at(a, rank, p), j = axis_at(b, rank, p);
        const char *x = i >= 0 ? a->axis[i].name : NULL, *y = j >= 0 ? b->axis[j].name : NULL;
        name[p] = x && strcmp(x, "1") != 0 ? x : y;
        if (i < 0 && j < 0) continue;
        if (!name[p]) name[p] = dl_fresh_name(a->n >= b->n ? a : b, p, rank);
        for (int q = 0; q < p; q++)
            if (name[q] && strcmp(name[q], name[p]) == 0) { /* one name at two positions */
                dl_in_value both = {0};
                for (int k = 0; k < p; k++)
                    if (name[k]) both.axis[both.n++].name = name[k];
                for (int k = 0; k < a->n && both.n < 8; k++)
                    both.axis[both.n++].name = a->axis[k].name;
                for (int k = 0; k < b->n && both.n < 8; k++)
                    both.axis[both.n++].name = b->axis[k].name;
                name[p] = dl_fresh_name(&both, p, 8);
            }
    }
    dl_in_value *of[] = {a, b};
    for (int k = 0; k < 2; k++) {
        const char *to[DL_FOREIGN_RANK] = {0};
        for (int i = 0; i < of[k]->n; i++) to[i] = of[k]->axis[i].name ? of[k]->axis[i].name : "1";
        for (int p = 0; p < rank; p++)
            if (axis_at(of[k], rank, p) >= 0) to[axis_at(of[k], rank, p)] = name[p];
        dl_rename(c, of[k], to);
    }
    /* the order of the first operand that has all axes, else one after the other */
    dl_in_value *r = dl_copy_value(c, b->n > a->n ? b : a);
    r->rank = rank, r->n = 0, r->is_view = false, r->param = -1;
    bool all_b = has_all(b, a), all_a = has_all(a, b);
    dl_in_value *order[] = {all_b && !all_a ? b : a, all_b && !all_a ? a : b};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < order[k]->n; i++) {
            bool there = !strcmp(order[k]->axis[i].name, "1");
            for (int j = 0; j < r->n; j++)
                there = there || !strcmp(r->axis[j].name, order[k]->axis[i].name);
            if (there || r->n == DL_FOREIGN_RANK) continue;
            r->axis[r->n] = order[k]->axis[i];
            dl_own_atoms(c, &r->axis[r->n], r->n, r->axis);
            r->n++;
        }
    for (int p = 0; p < rank; p++) {
        r->dim[p].n = 0;
        for (int i = 0; i < r->n; i++)
            if (name[p] && !strcmp(name[p], r->axis[i].name)) {
                r->dim[p].n = r->axis[i].n;
                memcpy(r->dim[p].atom, r->axis[i].atom, sizeof r->dim[p].atom);
            }
    }
    return r;
}
