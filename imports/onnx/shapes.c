/* Shapes of results, and the whole numbers that state them. */
#include "imports/onnx/parts.h"

dl_ox_shape dl_ox_shape_of(const dl_ox_value *v) {
    dl_ox_shape s = {.rank = v->t->rank};
    memcpy(s.size, v->t->shape, sizeof s.size);
    return s;
}

int64_t dl_ox_count(const dl_ox_shape *s) {
    int64_t n = 1;
    for (int d = 0; d < s->rank; d++) n *= s->size[d];
    return n;
}

bool dl_ox_broadcast(const dl_ox_shape *a, const dl_ox_shape *b, dl_ox_shape *to) {
    dl_ox_shape made = {.rank = a->rank > b->rank ? a->rank : b->rank};
    for (int p = 0; p < made.rank; p++) {
        int i = p - (made.rank - a->rank), k = p - (made.rank - b->rank);
        int64_t m = i < 0 ? 1 : a->size[i], n = k < 0 ? 1 : b->size[k];
        if (m != n && m != 1 && n != 1) return false;
        made.size[p] = m == 1 ? n : m;
    }
    *to = made;
    return true;
}

int dl_ox_dim(int64_t d, int rank) {
    if (d < 0) d += rank;
    return d < 0 || d >= rank ? -1 : (int)d;
}

bool dl_ox_squeezed(dl_ox_op *o, const dl_ox_shape *from, dl_ox_shape *to) {
    int64_t axes[DL_FOREIGN_RANK];
    int n = dl_ox_ints(o, 1, "axes", DL_FOREIGN_RANK, axes);
    *to = (dl_ox_shape){0};
    if (n < -1) return false;
    for (int d = 0; d < from->rank; d++) {
        bool gone = n < 0 && from->size[d] == 1;
        for (int k = 0; k < n; k++) gone = gone || dl_ox_dim(axes[k], from->rank) == d;
        if (gone && from->size[d] != 1) return dl_ox_bad(o->r, "axis %d is not of size 1", d);
        if (!gone) to->size[to->rank++] = from->size[d];
    }
    return true;
}

bool dl_ox_unsqueezed(dl_ox_op *o, const dl_ox_shape *from, dl_ox_shape *to) {
    int64_t axes[DL_FOREIGN_RANK];
    int n = dl_ox_ints(o, 1, "axes", DL_FOREIGN_RANK, axes), next = 0;
    *to = (dl_ox_shape){0};
    if (n < 1 || from->rank + n > DL_FOREIGN_RANK) return false;
    for (int d = 0; d < from->rank + n; d++) {
        bool is_new = false;
        for (int k = 0; k < n; k++) is_new = is_new || dl_ox_dim(axes[k], from->rank + n) == d;
        if (!is_new && next == from->rank) return dl_ox_bad(o->r, "its axes are out of range");
        to->size[to->rank++] = is_new ? 1 : from->size[next++];
    }
    return true;
}

bool dl_ox_gathered(const dl_ox_shape *from, int axis, const dl_ox_shape *index, dl_ox_shape *to) {
    *to = (dl_ox_shape){0};
    if (axis < 0 || from->rank + index->rank - 1 > DL_FOREIGN_RANK) return false;
    for (int d = 0; d < from->rank; d++) {
        if (d != axis) to->size[to->rank++] = from->size[d];
        for (int k = 0; d == axis && k < index->rank; k++) to->size[to->rank++] = index->size[k];
    }
    return true;
}

/* ---- numbers ---- */

int64_t dl_ox_whole(double x) {
    return x >= 9e18 ? INT64_MAX : x <= -9e18 ? INT64_MIN : x == x ? (int64_t)x : 0;
}

dl_ox_value *dl_ox_in(const dl_ox_op *o, int i) { return i < o->n->n_in ? o->n->in[i] : NULL; }

int dl_ox_ints(dl_ox_op *o, int i, const char *name, int most, int64_t *to) {
    const dl_ox_attr *a = name ? dl_ox_attribute(o->n, name) : NULL;
    dl_ox_value *v = i >= 0 ? dl_ox_in(o, i) : NULL;
    if (!v && !a) return -1;
    const double *known = v ? dl_ox_known(o->r, v) : NULL;
    int64_t n = v ? dl_foreign_count(v->t) : a->n_ints ? a->n_ints : a->has_int;
    if ((v && !known) || n > most) return -2;
    for (int k = 0; k < n; k++)
        to[k] = known ? dl_ox_whole(known[k]) : a->n_ints ? a->ints[k] : a->whole;
    return (int)n;
}
