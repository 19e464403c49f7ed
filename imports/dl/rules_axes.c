/* Rules of ops that move, cut and join axes. */
#include "imports/dl/rules.h"

/* Dimensions of size 1 are dropped, or appear, where the op says: a batch of 1 is none of them. */
static bool squeezed(dl_in_ctx *c, dl_in_value *v) {
    const dl_foreign_arg *list = dl_foreign_find(c->n, "dim");
    bool adds = !strncmp(c->n->op, "aten.unsqueeze.", 15);
    int rank = v->rank - v->pair + adds, n = 0;
    dl_in_value made = *v;
    if (!adds && strncmp(c->n->op, "aten.squeeze.", 13) != 0) return false;
    if (!list || (list->kind != DL_ARG_INT && list->kind != DL_ARG_INTS)) return false;
    if (adds) {
        int d = (int)(list->ints[0] < 0 ? list->ints[0] + rank : list->ints[0]);
        if (d < 0 || d >= rank || v->rank == DL_FOREIGN_RANK) return false;
        memmove(&v->dim[d + 1], &v->dim[d], (size_t)(v->rank - d) * sizeof v->dim[0]);
        v->dim[d].n = 0, v->rank++;
        return true;
    }
    for (int d = 0; d < v->rank; d++) {
        bool gone = false;
        for (int k = 0; k < list->n; k++) gone = gone || dl_dim(v, list->ints[k]) == d;
        gone = gone && (!v->dim[d].n || dl_is_one(c->w, v, d));
        if (!gone) made.dim[n++] = v->dim[d];
    }
    if (n != c->n->results[0]->rank) return false; /* the batch would go */
    made.rank = n;
    *v = made;
    dl_drop_unit_atoms(c->w, v);
    return true;
}

bool dl_in_reshape(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c);
    if (!v || c->n->n_results != 1) return false;
    dl_in_value *made = dl_copy_value(c, v);
    if (!squeezed(c, made)) dl_reshape(c, made, c->n->results[0]->rank, c->n->results[0]->shape);
    dl_set(c, 0, made);
    return true;
}

bool dl_in_permute(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c);
    const dl_foreign_arg *dims = dl_foreign_find(c->n, "dims");
    if (!v || !dims || dims->n != v->rank - v->pair) return false;
    dl_in_value *made = dl_copy_value(c, v);
    for (int d = 0; d < dims->n; d++) {
        int from = dl_dim(v, dims->ints[d]);
        if (from < 0 || from >= dims->n) return false;
        made->dim[d] = v->dim[from];
    }
    dl_set(c, 0, made);
    return true;
}

/* All dimensions in the other order, or the last two (detail "last"). */
bool dl_in_turned(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c);
    bool last = *c->detail;
    int rank = v ? v->rank - v->pair : 0;
    if (!v || (last && rank < 2)) return false;
    dl_in_value *made = dl_copy_value(c, v);
    for (int d = 0; d < rank; d++)
        if (!last)
            made->dim[d] = v->dim[rank - 1 - d];
        else if (d >= rank - 2)
            made->dim[d] = v->dim[d == rank - 1 ? rank - 2 : rank - 1];
    dl_set(c, 0, made);
    return true;
}

bool dl_in_move(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c);
    const dl_foreign_arg *from = dl_foreign_find(c->n, "source"),
                         *to = dl_foreign_find(c->n, "destination");
    if (!v || !from || !to || from->n != to->n) return false;
    int rank = v->rank - v->pair, order[DL_FOREIGN_RANK], next = 0;
    for (int k = 0; k < rank; k++) order[k] = -1;
    for (int i = 0; i < from->n; i++) {
        int a = dl_dim(v, from->ints[i]), b = dl_dim(v, to->ints[i]);
        if (a < 0 || b < 0 || a >= rank || b >= rank) return false;
        order[b] = a;
    }
    for (int k = 0; k < rank; k++) {
        if (order[k] >= 0) continue;
        for (bool moved = true; moved; next += moved) { /* the others keep their order */
            moved = false;
            for (int i = 0; i < from->n; i++) moved = moved || dl_dim(v, from->ints[i]) == next;
        }
        order[k] = next++;
    }
    dl_in_value *made = dl_copy_value(c, v);
    for (int k = 0; k < rank; k++) made->dim[k] = v->dim[order[k]];
    dl_set(c, 0, made);
    return true;
}

bool dl_in_transpose(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c);
    if (!v) return false;
    int a = 0, b = 1;
    if (*c->detail) {
        const char *first = c->detail[0] == 'd' ? "dim0" : "axis0";
        a = dl_dim(v, dl_foreign_int(c->n, first, 0));
        b = dl_dim(v, dl_foreign_int(c->n, c->detail[0] == 'd' ? "dim1" : "axis1", 1));
    } else if (v->rank - v->pair < 2)
        a = b = 0;
    if (a < 0 || b < 0 || a >= v->rank || b >= v->rank) return v->rank == 0 && dl_in_same(c);
    dl_in_value *made = dl_copy_value(c, v);
    made->dim[a] = v->dim[b], made->dim[b] = v->dim[a];
    dl_set(c, 0, made);
    return true;
}

dl_in_value *dl_expanded(dl_in_ctx *c, const dl_in_value *v, int rank, const int64_t *shape,
                         const bool *open) {
    int new = rank - v->rank;
    bool grows = false, grown[DL_FOREIGN_RANK] = {0};
    dl_in_value *made = dl_copy_value(c, v);
    if (new < 0) return NULL;
    for (int p = 0; p < rank; p++) { /* to a batch of 1 as to any other */
        int64_t size = p < new ? 1 : dl_dim_size(c->w, v, p - new);
        bool one = p < new || !v->dim[p - new].n || dl_is_one(c->w, v, p - new);
        grown[p] = shape[p] != size || (p == 0 && one && shape[0] == c->w->atoms.at[0]);
        grows = grows || grown[p];
    }
    if (!grows) {
        dl_reshape(c, made, rank, shape);
        return made;
    }
    dl_ordered(c, made, false);
    for (int d = made->rank - 1; d >= 0; d--) { /* stretched axes are dropped first */
        if (dl_is_one(c->w, made, d) && grown[d + new]) {
            made->dim[d].n = 0;
            dl_drop_ones(c, made);
        }
    }
    dl_in_value shifted = *made;
    made->rank = rank;
    for (int p = 0; p < rank; p++)
        if (p < new)
            made->dim[p].n = 0;
        else
            made->dim[p] = shifted.dim[p - new];
    int s = dl_call_function(c, "expand", made, "");
    for (int p = 0; p < rank; p++) {
        if (made->dim[p].n || !grown[p]) continue;
        bool batch = shape[p] == c->w->atoms.at[0] && (p == 0 || (open && open[p]));
        const char *name = batch ? "N" : dl_fresh_name(made, p, rank);
        int atom = batch ? 0 : dl_new_atom(c->w, shape[p]);
        if (made->n == DL_FOREIGN_RANK) return NULL;
        if (batch) {
            if (!dl_say_batch(c)) return NULL;
        } else
            dl_say_more(c, ", %s=%i", name, "size", shape[p]);
        made->axis[made->n++] = (dl_in_axis){.name = name, .n = 1, .atom = {atom}};
        made->dim[p].n = 1, made->dim[p].atom[0] = atom;
    }
    made->stmt = s, made->param = -1;
    return made;
}

dl_in_value *dl_with_batch(dl_in_ctx *c, dl_in_value *v, const dl_in_value *like) {
    int64_t shape[DL_FOREIGN_RANK];
    if (!v->rank || v->rank != like->rank || !dl_has_batch(like->dim[0].n, like->dim[0].atom) ||
        (v->dim[0].n && !dl_is_one(c->w, v, 0)))
        return v;
    for (int d = 0; d < v->rank; d++) shape[d] = dl_dim_size(c->w, v, d);
    return dl_expanded(c, v, v->rank, shape, NULL);
}

bool dl_in_expand(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c);
    if (!v || c->n->n_results != 1) return false;
    const dl_foreign_tensor *t = c->n->results[0];
    dl_in_value *made = dl_expanded(c, v, t->rank, t->shape, t->open);
    if (made) dl_set(c, 0, made);
    return made != NULL;
}

/* ---- parts ---- */

/* The axis of dimension d, alone; the value is brought into a form that has it. */
int dl_axis_for(dl_in_ctx *c, dl_in_value *v, int d) {
    int a = dl_axis_of(v, d);
    if (a < 0) {
        dl_whole(c, v);
        if (!v->dim[d].n) dl_ordered(c, v, true);
        a = dl_axis_of(v, d);
    }
    for (int k = 0; k < v->n; k++)
        if (!v->axis[k].name) {
            int dim = 0;
            while (dim < v->rank && dl_axis_of(v, dim) != k) dim++;
            if (dim < v->rank) dl_axis_name(c, v, dim);
        }
    return a;
}

static void cut_dim(dl_in_value *v, int d) {
    memmove(&v->dim[d], &v->dim[d + 1], (size_t)(v->rank - 1 - d) * sizeof v->dim[0]);
    v->rank--;
}

/* The axis of whose equal parts dimension d counts them, or -1. A part that holds the batch has no
 * size that a slice could say. */
static int axis_in_parts(const dl_in_value *v, int d) {
    for (int a = 0; v->dim[d].n == 1 && a < v->n; a++)
        if (v->axis[a].n > 1 && v->axis[a].atom[0] == v->dim[d].atom[0])
            return dl_has_batch(v->axis[a].n - 1, v->axis[a].atom + 1) ? -1 : a;
    return -1;
}

static bool take(dl_in_ctx *c, dl_in_value *v, int d, int64_t index, int result) {
    dl_in_value *made = dl_copy_value(c, v);
    if (index < 0) index += dl_dim_size(c->w, v, d);
    int a = axis_in_parts(v, d);
    /* one of the equal parts of an axis: a slice of it */
    if (a >= 0) {
        int64_t part = dl_atoms_size(c->w, v->axis[a].n - 1, v->axis[a].atom + 1);
        dl_name_all(c, v);
        const char *name = v->axis[a].name;
        made->stmt = dl_say(c, STMT_PLAIN, P_POSTFIX, "%p[%s=%i:%i]", v, P_POSTFIX, name, "from",
                            index * part, "to", (index + 1) * part);
        memmove(&made->axis[a].atom[0], &made->axis[a].atom[1],
                (size_t)(made->axis[a].n - 1) * sizeof(int));
        made->axis[a].n--, made->param = -1;
        cut_dim(made, d);
        dl_set(c, result, made);
        return true;
    }
    if (!v->dim[d].n) { /* the only element of a dimension without an axis */
        cut_dim(made, d);
        dl_set(c, result, made);
        return true;
    }
    a = dl_axis_for(c, v, d);
    if (a < 0) return false;
    *made = *v;
    made->is_view = true;
    made->stmt = dl_say(c, STMT_PLAIN, P_POSTFIX, "%p[%s=%i]", v, P_POSTFIX, v->axis[a].name,
                        "index", index);
    memmove(&made->axis[a], &made->axis[a + 1], (size_t)(made->n - 1 - a) * sizeof *made->axis);
    made->n--, made->param = -1;
    cut_dim(made, d);
    dl_set(c, result, made);
    return true;
}

static bool cut(dl_in_ctx *c, dl_in_value *v, int d, int64_t from, int64_t to, int64_t step,
                int result);

/* Whether dimension d is several batches, one after the other. */
static bool is_batches(const dl_in_value *v, int d) {
    return v->dim[d].n > 1 && dl_has_batch(v->dim[d].n - 1, v->dim[d].atom + 1);
}

/* Some of the batches: their number gets a dimension of its own, so that no size is that of the
 * example's batch. */
static bool cut_batches(dl_in_ctx *c, dl_in_value *v, int d, int64_t from, int64_t to, int result) {
    dl_in_value *apart = dl_copy_value(c, v);
    int64_t size = dl_dim_size(c->w, v, d), shape[DL_FOREIGN_RANK];
    memmove(&apart->dim[d + 1], &apart->dim[d], (size_t)(v->rank - d) * sizeof v->dim[0]);
    apart->rank++, apart->dim[d].n = 1;
    memmove(apart->dim[d + 1].atom, apart->dim[d + 1].atom + 1,
            (size_t)--apart->dim[d + 1].n * sizeof(int));
    int64_t part = dl_dim_size(c->w, apart, d + 1);
    to = to < size ? to : size;
    if (part < 1 || from % part != 0 || to % part != 0 || to <= from || result >= c->n->n_results)
        return false;
    if (to - from == part) return take(c, apart, d, from / part, result);
    if (!cut(c, apart, d, from / part, to / part, 1, result)) return false;
    dl_in_value *made = dl_copy_value(c, c->b->of[c->n->results[result]->id]);
    for (int k = 0; k < v->rank; k++) shape[k] = dl_dim_size(c->w, v, k);
    shape[d] = to - from;
    dl_reshape(c, made, v->rank, shape);
    dl_set(c, result, made);
    return true;
}

static bool cut(dl_in_ctx *c, dl_in_value *v, int d, int64_t from, int64_t to, int64_t step,
                int result) {
    int64_t size = dl_dim_size(c->w, v, d);
    dl_in_value *made = dl_copy_value(c, v);
    if (from == 0 && to >= size && step == 1) {
        dl_set(c, result, made);
        return true;
    }
    if (step == 1 && from >= 0 && is_batches(v, d) && v->rank < DL_FOREIGN_RANK)
        return cut_batches(c, v, d, from, to, result);
    /* whole parts of an axis */
    int a = step == 1 ? axis_in_parts(v, d) : -1, inner = a >= 0;
    if (a < 0) {
        a = dl_axis_for(c, v, d);
        if (a < 0) return false;
        *made = *v;
        made->is_view = true;
    }
    int64_t part = inner ? dl_atoms_size(c->w, v->axis[a].n - 1, v->axis[a].atom + 1) : 1;
    dl_name_all(c, v);
    const char *name = v->axis[a].name;
    made->stmt = dl_say(c, STMT_PLAIN, P_POSTFIX, "%p[%s=", v, P_POSTFIX, name);
    if (from) dl_say_more(c, "%i", "from", from * part);
    dl_say_more(c, ":");
    if (to < size) dl_say_more(c, "%i", "to", to * part);
    if (step != 1) dl_say_more(c, ":%i", "step", step);
    dl_say_more(c, "]");
    int64_t left = ((to < size ? to : size) - from + step - 1) / step;
    int atom = dl_new_atom(c->w, left < 0 ? 0 : left);
    if (inner)
        made->axis[a].atom[0] = atom;
    else
        made->axis[a].n = 1, made->axis[a].atom[0] = atom;
    made->dim[d].n = 1, made->dim[d].atom[0] = atom, made->param = -1;
    dl_set(c, result, made);
    return true;
}

bool dl_in_select(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c);
    const dl_foreign_arg *index = dl_foreign_find(c->n, "index");
    if (!v || !index || index->kind != DL_ARG_INT) return false;
    int d = dl_dim(v, dl_foreign_int(c->n, "dim", 0));
    return d >= 0 && d < v->rank && take(c, v, d, index->ints[0], 0);
}

bool dl_in_slice(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c);
    if (!v) return false;
    int d = dl_dim(v, dl_foreign_int(c->n, "dim", 0));
    if (d < 0 || d >= v->rank) return false;
    int64_t size = dl_dim_size(c->w, v, d), from = dl_foreign_int(c->n, "start", 0);
    const dl_foreign_arg *start = dl_foreign_find(c->n, "start"),
                         *stop = dl_foreign_find(c->n, "end");
    int64_t to = *c->detail ? from + dl_foreign_int(c->n, "length", size)
                            : dl_foreign_int(c->n, "end", size);
    if ((start && start->kind != DL_ARG_INT) || (stop && stop->kind != DL_ARG_INT)) return false;
    if (from < 0) from += size;
    if (to < 0) to += size;
    from = from < 0 ? 0 : from > size ? size : from;
    to = to > size ? size : to < from ? from : to;
    return cut(c, v, d, from, to, dl_foreign_int(c->n, "step", 1), 0);
}

bool dl_in_parts(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c);
    if (!v) return false;
    int d = dl_dim(v, dl_foreign_int(c->n, "dim", 0));
    if (d < 0 || d >= v->rank) return false;
    int64_t at = 0;
    for (int i = 0; i < c->n->n_results; i++) {
        int64_t size = *c->detail ? 1 : c->n->results[i]->shape[d];
        bool used = c->w->last_use[c->n->results[i]->id] >= 0;
        if (used && !(*c->detail ? take(c, v, d, at, i) : cut(c, v, d, at, at + size, 1, i)))
            return false;
        at += size;
    }
    return true;
}

/* Whether dimension d of all values, whose axes are in order, is the batch. */
static bool all_batch(dl_in_value *const *v, int n, int d) {
    bool all = n > 1;
    for (int i = 0; i < n; i++) all = all && v[i]->axis[d].n == 1 && v[i]->axis[d].atom[0] == 0;
    return all;
}

/* detail: "stack", or the dimension along which they are joined */
bool dl_in_cat(dl_in_ctx *c) {
    const dl_foreign_arg *list = dl_foreign_find(c->n, "tensors");
    bool stack = *c->detail == 's', fixed = *c->detail && !stack;
    if (!list || list->n < 1 || c->n->n_results != 1) return false;
    const dl_foreign_tensor *t = c->n->results[0];
    int64_t given = fixed ? *c->detail - '0' : dl_foreign_int(c->n, "dim", 0);
    for (int i = 0; i < list->n && fixed; i++) /* of fewer dimensions they get one of size 1 */
        if (!list->tensors[i] || list->tensors[i]->rank != t->rank || given >= t->rank)
            return false;
    int d = (int)(given < 0 ? given + t->rank - t->pair : given), n = 0;
    dl_in_value *v[256];
    for (int i = 0; i < list->n; i++) {
        if (!list->tensors[i]) return false;
        const dl_foreign_tensor *of = list->tensors[i];
        if (dl_foreign_count(of) == 0) continue; /* it adds nothing */
        if (n == 256) return false;
        v[n] = dl_copy_value(c, dl_value_of(c, of));
        if (stack) {
            int64_t shape[DL_FOREIGN_RANK];
            for (int k = 0; k < t->rank; k++) shape[k] = k == d ? 1 : of->shape[k - (k > d)];
            dl_reshape(c, v[n], t->rank, shape);
        }
        n++;
    }
    if (n == 0) return false;
    for (int i = 1; i < n && d > 0; i++)
        if (!(v[0] = dl_with_batch(c, v[0], v[i]))) return false;
    for (int i = 1; i < n && d > 0; i++)
        if (!(v[i] = dl_with_batch(c, v[i], v[0]))) return false;
    for (int i = 0; i < n; i++) dl_ordered(c, v[i], true);
    int leader = 0; /* names of the first that is no parameter */
    while (leader + 1 < n && v[leader]->param >= 0) leader++;
    for (int i = 0; i < n; i++) {
        const char *name[DL_FOREIGN_RANK];
        for (int a = 0; a < v[i]->n; a++) name[a] = v[leader]->axis[a].name;
        if (v[i]->n != v[leader]->n) return false;
        dl_rename(c, v[i], name);
    }
    const char *axis = v[leader]->axis[d].name;
    int s = dl_say(c, STMT_PLAIN, P_POSTFIX, "cat(");
    for (int i = 0; i < n; i++) dl_say_more(c, "%v, ", v[i]);
    dl_say_more(c, "over=%s)", axis);
    dl_in_value *made = dl_like(c, s, v[leader], t);
    if (all_batch(v, n, d)) { /* n batches, each of its size */
        int atoms[] = {dl_new_atom(c->w, n), 0};
        made->axis[d].n = made->dim[d].n = 2;
        memcpy(made->axis[d].atom, atoms, sizeof atoms),
            memcpy(made->dim[d].atom, atoms, sizeof atoms);
    }
    dl_set(c, 0, made);
    return true;
}

bool dl_in_roll(dl_in_ctx *c) {
    dl_in_value *x = dl_self(c);
    const dl_foreign_arg *shifts = dl_foreign_find(c->n, "shifts"),
                         *dims = dl_foreign_find(c->n, "dims");
    if (!x || !shifts || !dims || shifts->n != dims->n) return false;
    dl_whole(c, x);
    dl_name_all(c, x);
    dl_in_value *v = dl_copy_value(c, x);
    v->is_view = false, v->param = -1;
    for (int i = 0; i < dims->n; i++) {
        int d = dl_dim(x, dims->ints[i]);
        if (d < 0 || d >= x->rank) return false;
        if (!x->dim[d].n) continue;
        v->stmt = dl_call_function(c, "roll", v, ", %i, over=%s", "shift", shifts->ints[i],
                                   dl_axis_name(c, x, d));
    }
    dl_set(c, 0, v);
    return true;
}

bool dl_in_flip(dl_in_ctx *c) {
    dl_in_value *x = dl_self(c);
    const dl_foreign_arg *dims = dl_foreign_find(c->n, "dims");
    if (!x || !dims || !dims->n) return false;
    dl_whole(c, x);
    dl_name_all(c, x);
    int s = dl_call_function(c, "flip", x, ", over=[");
    bool first = true;
    for (int i = 0; i < dims->n; i++) {
        int d = dl_dim(x, dims->ints[i]);
        if (d < 0 || d >= x->rank || !x->dim[d].n) continue;
        dl_say_more(c, "%s%s", first ? "" : ", ", dl_axis_name(c, x, d));
        first = false;
    }
    dl_say_more(c, "]");
    return !first && dl_done(c, x, s);
}
