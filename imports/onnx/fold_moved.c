/* Folding of ops that move, choose and add up elements. */
#include "imports/onnx/fold.h"

bool dl_ox_fold_gather(dl_ox_folding *f) {
    int axis = dl_ox_dim(dl_ox_int(f->n, "axis", 0), f->s[0].rank);
    dl_ox_shape s;
    if (f->count != 2 || !dl_ox_gathered(&f->s[0], axis, &f->s[1], &s)) return false;
    double *y = dl_ox_fold_room(f, &s);
    if (!y) return false;
    int64_t inner = 1, count = dl_ox_count(&f->s[1]), size = f->s[0].size[axis];
    for (int d = axis + 1; d < f->s[0].rank; d++) inner *= f->s[0].size[d];
    for (int64_t i = 0, n = dl_ox_count(&s); i < n; i++) {
        double at = f->x[1][i / inner % count];
        if (at < 0) at += (double)size;
        if (!(at >= 0 && at < (double)size)) return false;
        y[i] = f->x[0][(i / inner / count * size + (int64_t)at) * inner + i % inner];
    }
    return dl_ox_fold_hold_like(f, &s, y, 0);
}

/* The row of a tensor of shape s at an index of its first k axes; -1: there is none. */
static int64_t row_of(const dl_ox_shape *s, const double *index, int k) {
    int64_t at = 0;
    for (int d = 0; d < k; d++) {
        double size = (double)s->size[d], own = index[d] < 0 ? index[d] + size : index[d];
        if (!(own >= 0 && own < size)) return -1;
        at = at * s->size[d] + (int64_t)own;
    }
    return at;
}

/* The rows that an index of leading axes says. */
bool dl_ox_fold_gather_rows(dl_ox_folding *f) {
    const dl_ox_shape *x = &f->s[0], *at = &f->s[1];
    int k = at->rank && at->size[at->rank - 1] <= x->rank ? (int)at->size[at->rank - 1] : 0;
    if (f->count != 2 || k < 1 || dl_ox_int(f->n, "batch_dims", 0)) return false;
    dl_ox_shape s = *at;
    if (at->rank - 1 + x->rank - k > DL_FOREIGN_RANK) return false;
    int64_t rows = dl_ox_count(at) / k, row = 1;
    s.rank--;
    for (int d = k; d < x->rank; d++) row *= x->size[d], s.size[s.rank++] = x->size[d];
    double *y = dl_ox_fold_room(f, &s);
    for (int64_t i = 0; y && i < rows; i++) {
        int64_t from = row_of(x, f->x[1] + i * k, k);
        if (from < 0) return false;
        if (row) memcpy(y + i * row, f->x[0] + from * row, (size_t)row * sizeof *y);
    }
    return y && dl_ox_fold_hold_like(f, &s, y, 0);
}

bool dl_ox_fold_transpose(dl_ox_folding *f) {
    const dl_ox_attr *perm = dl_ox_attribute(f->n, "perm");
    dl_ox_shape s = f->s[0];
    int64_t step[DL_FOREIGN_RANK], stride[DL_FOREIGN_RANK], at = 1;
    for (int d = s.rank - 1; d >= 0; d--) step[d] = at, at *= s.size[d];
    for (int d = 0; d < s.rank; d++) {
        int64_t from = perm && perm->n_ints == s.rank ? perm->ints[d] : s.rank - 1 - d;
        if (from < 0 || from >= s.rank) return false;
        s.size[d] = f->s[0].size[from], stride[d] = step[from];
    }
    double *y = dl_ox_fold_room(f, &s);
    for (int64_t i = 0, n = dl_ox_count(&s); y && i < n; i++) {
        int64_t left = i, from = 0;
        for (int d = s.rank - 1; d >= 0; d--)
            from += left % s.size[d] * stride[d], left /= s.size[d];
        y[i] = f->x[0][from];
    }
    return y && dl_ox_count(&s) == dl_ox_count(&f->s[0]) && dl_ox_fold_hold_like(f, &s, y, 0);
}

bool dl_ox_fold_concat(dl_ox_folding *f) {
    const dl_ox_node *n = f->n;
    dl_ox_shape s = dl_ox_fold_shape(f, n->in[0]);
    int axis = dl_ox_dim(dl_ox_int(n, "axis", 0), s.rank);
    if (axis < 0) return false;
    s.size[axis] = 0;
    for (int i = 0; i < n->n_in; i++) {
        dl_ox_shape own = dl_ox_fold_shape(f, n->in[i]);
        if (own.rank != s.rank) return false;
        for (int d = 0; d < s.rank; d++)
            if (d != axis && own.size[d] != s.size[d]) return false;
        s.size[axis] += own.size[axis];
    }
    double *y = dl_ox_fold_room(f, &s), *at = y;
    if (!y) return false;
    int64_t outer = 1, inner = 1;
    for (int d = 0; d < s.rank; d++)
        if (d != axis) *(d < axis ? &outer : &inner) *= s.size[d];
    for (int64_t o = 0; o < outer; o++)
        for (int i = 0; i < n->n_in; i++) {
            dl_ox_shape own = dl_ox_fold_shape(f, n->in[i]);
            int64_t part = own.size[axis] * inner;
            const double *x = dl_ox_fold_numbers(f, n->in[i]);
            if (part) memcpy(at, x + o * part, (size_t)part * sizeof *at);
            at += part;
        }
    return dl_ox_fold_hold_like(f, &s, y, 0);
}

/* One axis at a time; the ends as ONNX clamps them. */
bool dl_ox_fold_slice(dl_ox_folding *f) {
    dl_ox_op o = {.r = f->r, .n = f->n};
    int64_t from[8], to[8], axes[8], steps[8];
    int n = dl_ox_ints(&o, 1, NULL, 8, from), given = dl_ox_ints(&o, 3, NULL, 8, axes),
        strides = dl_ox_ints(&o, 4, NULL, 8, steps);
    if (n < 0 || dl_ox_ints(&o, 2, NULL, 8, to) != n || given < -1 || strides < -1) return false;
    dl_ox_shape s = f->s[0];
    const double *x = f->x[0];
    double *y = NULL;
    for (int k = 0; k < n; k++) {
        int d = dl_ox_dim(given < 0 ? k : axes[k], s.rank);
        int64_t step = strides < 0 ? 1 : steps[k];
        if (d < 0 || step == 0) return false;
        int64_t size = s.size[d], low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
        int64_t a = from[k] < 0 ? from[k] + size : from[k], b = to[k] < -size ? low : to[k];
        if (b < 0 && to[k] >= -size) b += size;
        a = a < 0 ? 0 : a > high ? high : a;
        b = b < low ? low : b > size ? size : b;
        int64_t count = step > 0 ? (b - a + step - 1) / step : (a - b - step - 1) / -step,
                inner = 1;
        if (count < 0 || size == 0) count = 0;
        for (int i = d + 1; i < s.rank; i++) inner *= s.size[i];
        s.size[d] = count;
        if (!(y = dl_ox_fold_room(f, &s))) return false;
        for (int64_t i = 0, m = dl_ox_count(&s); i < m; i++)
            y[i] = x[(i / inner / count * size + a + i / inner % count * step) * inner + i % inner];
        x = y;
    }
    return y && dl_ox_fold_hold_like(f, &s, y, 0);
}

/* Rows of the first operand become those of the third: as an index of leading axes says. */
bool dl_ox_fold_scatter(dl_ox_folding *f) {
    int k = f->s[1].rank ? (int)f->s[1].size[f->s[1].rank - 1] : 0;
    if (f->count != 3 || strcmp(dl_ox_word(f->n, "reduction", "none"), "none") != 0 || k < 1 ||
        k > f->s[0].rank)
        return false;
    double *y = dl_ox_fold_room(f, &f->s[0]);
    if (!y) return false;
    int64_t all = dl_ox_count(&f->s[0]), row = 1, rows = dl_ox_count(&f->s[1]) / k;
    for (int d = k; d < f->s[0].rank; d++) row *= f->s[0].size[d];
    if (dl_ox_count(&f->s[2]) != rows * row) return false;
    memcpy(y, f->x[0], (size_t)all * sizeof *y);
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = row_of(&f->s[0], f->x[1] + i * k, k);
        if (at < 0) return false;
        if (row) memcpy(y + at * row, f->x[2] + i * row, (size_t)row * sizeof *y);
    }
    return dl_ox_fold_hold_like(f, &f->s[0], y, 0);
}

/* Single elements become those of the third operand, at its places but for one axis. */
bool dl_ox_fold_scatter_elements(dl_ox_folding *f) {
    int axis = dl_ox_dim(dl_ox_int(f->n, "axis", 0), f->s[0].rank);
    if (f->count != 3 || strcmp(dl_ox_word(f->n, "reduction", "none"), "none") != 0 || axis < 0 ||
        f->s[1].rank != f->s[0].rank || memcmp(&f->s[1], &f->s[2], sizeof f->s[1]) != 0)
        return false;
    double *y = dl_ox_fold_room(f, &f->s[0]);
    if (!y) return false;
    memcpy(y, f->x[0], (size_t)dl_ox_count(&f->s[0]) * sizeof *y);
    for (int64_t i = 0, n = dl_ox_count(&f->s[1]); i < n; i++) {
        int64_t left = i, at = 0, step = 1;
        for (int d = f->s[0].rank - 1; d >= 0; d--) {
            double size = (double)f->s[0].size[d], index = (double)(left % f->s[1].size[d]);
            left /= f->s[1].size[d];
            if (d == axis) index = f->x[1][i] < 0 ? f->x[1][i] + size : f->x[1][i];
            if (!(index >= 0 && index < size)) return false;
            at += (int64_t)index * step, step *= f->s[0].size[d];
        }
        y[at] = f->x[2][i];
    }
    return dl_ox_fold_hold_like(f, &f->s[0], y, 0);
}

/* Sums along an axis, of the elements so far, or of those from here on. */
bool dl_ox_fold_cumsum(dl_ox_folding *f) {
    int axis = f->count == 2 ? dl_ox_dim(dl_ox_whole(f->x[1][0]), f->s[0].rank) : -1;
    bool back = dl_ox_int(f->n, "reverse", 0), before = dl_ox_int(f->n, "exclusive", 0);
    double *y = axis < 0 ? NULL : dl_ox_fold_room(f, &f->s[0]);
    if (!y) return false;
    int64_t size = f->s[0].size[axis], inner = 1, all = dl_ox_count(&f->s[0]);
    for (int d = axis + 1; d < f->s[0].rank; d++) inner *= f->s[0].size[d];
    for (int64_t i = 0; i < all; i++) {
        if (i / inner % size) continue; /* the first of its line */
        double sum = 0;
        for (int64_t k = 0; k < size; k++) {
            int64_t at = i + (back ? size - 1 - k : k) * inner;
            double next = sum + f->x[0][at];
            y[at] = before ? sum : next, sum = next;
        }
    }
    return dl_ox_fold_hold_like(f, &f->s[0], y, 0);
}
