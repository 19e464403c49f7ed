/* Two operands: PyTorch matches their dimensions from the end, the language by names. */
#include "imports/dl/rules.h"
#include "ir/base/axis_order.h"

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

/* Whether an axis has size 1, and not as the batch of an archive of one sample. */
static bool is_one(const dl_in_ctx *c, const dl_in_axis *a) {
    return dl_axis_size_of(c->w, a) == 1 && !dl_has_batch(a->n, a->atom);
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

/* Gives r the axes of both operands in the language's order (ir/base/axis_order.h); the first one
 * comes first where they disagree. */
static void order_axes(dl_in_ctx *c, dl_in_value *r, dl_in_value *const operands[2]) {
    dl_in_axis all[DL_FOREIGN_RANK];
    unsigned before[DL_FOREIGN_RANK] = {0}, placed = 0;
    int count = 0;
    for (int k = 0; k < 2; k++) {
        int axes[DL_FOREIGN_RANK], n = 0;
        for (int i = 0; i < operands[k]->n; i++) {
            const dl_in_axis *axis = &operands[k]->axis[i];
            if (!strcmp(axis->name, "1")) continue;
            int at = 0;
            while (at < count && strcmp(all[at].name, axis->name) != 0) at++;
            if (at == DL_FOREIGN_RANK) continue;
            if (at == count) all[count++] = *axis;
            axes[n++] = at;
        }
        dl_order_add(before, count, axes, n);
    }
    for (r->n = 0; r->n < count; r->n++) {
        int next = dl_order_next(before, count, placed);
        r->axis[r->n] = all[next], placed |= 1u << next;
        dl_own_atoms(c, &r->axis[r->n], r->n, r->axis);
    }
}

dl_in_value *dl_match(dl_in_ctx *c, dl_in_value *a, dl_in_value *b) {
    if (a != b && same_form(c, a, b)) return dl_copy_value(c, a);
    dl_take_names(c, a), dl_take_names(c, b);
    dl_whole(c, a), dl_whole(c, b);
    if (lacks_axes(a, b)) dl_ordered(c, b, false); /* an axis without a name would stay */
    if (lacks_axes(b, a)) dl_ordered(c, a, false);
    int rank = a->rank > b->rank ? a->rank : b->rank;
    const char *name[DL_FOREIGN_RANK] = {0};
    for (int p = 0; p < rank; p++) { /* an axis of size 1 is not stretched: it is dropped */
        int i = axis_at(a, rank, p), j = axis_at(b, rank, p);
        if (i < 0 || j < 0) continue;
        bool one = is_one(c, &a->axis[i]), other = is_one(c, &b->axis[j]);
        if (one && !other) drop_axis(c, a, p - (rank - a->rank));
        if (other && !one) drop_axis(c, b, p - (rank - b->rank));
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
    dl_in_value *r = dl_copy_value(c, b->n > a->n ? b : a);
    r->rank = rank, r->is_view = false, r->param = -1;
    order_axes(c, r, has_all(b, a) && !has_all(a, b) ? (dl_in_value *[]){b, a} : of);
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
