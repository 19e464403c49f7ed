/* Lays out an array dataset for a device-resident data set. Each array stores the part's indices of
 * N one after the other, in the files' axis order. Of a cropped or split axis, and of the channels,
 * only the used range is stored. */
#include "runtime/data/array_dataset_private.h"

static bool same_channels(const dataset_variable *a, const dataset_variable *b) {
    if (!a->from.channels || !b->from.channels) return a->from.channels == b->from.channels;
    return a->from.n_channels == b->from.n_channels &&
           memcmp(a->from.channels, b->from.channels,
                  (size_t)a->from.n_channels * sizeof(int64_t)) == 0;
}

/* Whether two variables are the same arrays of the same files, with the same axis N and channels.
 */
static bool same_variable(const dataset_variable *a, const dataset_variable *b) {
    bool same = a->rank == b->rank && a->channel == b->channel && a->is_static == b->is_static &&
                a->delay == b->delay && a->step == b->step && a->files.n == b->files.n &&
                same_channels(a, b) &&
                strcmp(a->from.array ? a->from.array : "", b->from.array ? b->from.array : "") == 0;
    for (int j = 0; same && j < a->rank; j++)
        same = (a->axis[j] < 0 ? a->axis[j] : 0) == (b->axis[j] < 0 ? b->axis[j] : 0);
    for (int i = 0; same && i < a->files.n; i++)
        same = strcmp(a->files.at[i].path, b->files.at[i].path) == 0;
    return same;
}

/* Whether two arrays read the same numbers, in the same order, possibly at other indices. */
static bool same_numbers(const dataset_array *a, const dataset_array *b) {
    bool same = a->numbers == b->numbers && a->from.replaces_nan == b->from.replaces_nan &&
                a->variables.n == b->variables.n && a->n_order == b->n_order;
    for (int i = 0; same && i < a->variables.n; i++)
        same = same_variable(&a->variables.at[i], &b->variables.at[i]);
    for (int p = 0; same && p < a->n_order; p++) {
        int m = a->order[p], n = b->order[p];
        same = a->store.count[m] == b->store.count[n] && a->store.start[m] == b->store.start[n];
    }
    return same;
}

/* Lays out one index of N: a piece is some rows of one axis, at one index of the axes before it. */
static void lay_out(const array_dataset *w, dataset_array *a) {
    enum { PIECE = 4 << 20 };
    dataset_store *s = &a->store;
    int64_t inner = (int64_t)dlr_element_bytes(a->numbers);
    s->each = 1;
    for (int p = a->n_order - 1; p >= 0; p--) {
        int m = a->order[p];
        const dataset_axis *x = a->shared[m] >= 0 ? &w->axes.at[a->shared[m]] : NULL;
        s->start[m] = x ? x->low : 0;
        s->count[m] = x ? x->high - x->low : a->to.type.axis[m].size;
        s->stride[m] = s->each, s->each *= s->count[m];
    }
    s->row = 1, s->rows = 1, s->pieces = 1, s->cut = 0;
    for (int p = 0; p < a->n_order; p++) {
        s->row = s->stride[a->order[p]], s->cut = p;
        inner = s->row * (int64_t)dlr_element_bytes(a->numbers);
        if (inner <= PIECE) break;
        s->pieces *= s->count[a->order[p]];
    }
    if (inner > PIECE || a->n_order == 0) return; /* without axes: a single number */
    int64_t rows = s->count[a->order[s->cut]];
    s->rows = PIECE / inner < rows ? PIECE / inner : rows;
    s->pieces *= (rows + s->rows - 1) / s->rows;
}

void dataset_lay_out(array_dataset *w) {
    w->store = (dlr_store){0};
    for (int k = 0; k < w->n; k++) {
        dataset_array *a = &w->at[k];
        dataset_store *s = &a->store;
        int64_t high = 1;
        lay_out(w, a);
        s->of = k, s->low = 0;
        if (!a->is_static) {
            const dataset_run *first = w->runs.at, *last = &w->runs.at[w->runs.n - 1];
            s->low = first->begin + a->from.offset, high = last->begin + last->n + a->from.offset;
        }
        for (int i = 0; i < k && s->of == k; i++)
            if (w->at[i].store.of == i && same_numbers(a, &w->at[i])) s->of = i;
        dataset_store *to = &w->at[s->of].store;
        if (s->of == k)
            to->n = high - to->low;
        else { /* the ranges of two arrays, such as successive times, are merged */
            int64_t end = to->low + to->n > high ? to->low + to->n : high;
            to->low = s->low < to->low ? s->low : to->low, to->n = end - to->low;
        }
    }
    for (int k = 0; k < w->n; k++) {
        dataset_store *s = &w->at[k].store;
        int64_t bytes = (int64_t)dlr_element_bytes(w->at[k].numbers),
                most = s->rows * s->row * bytes;
        if (s->of != k) continue;
        s->at = w->store.bytes, s->first = w->store.pieces;
        w->store.bytes += (s->n * s->each * bytes + 63) & ~63LL,
            w->store.pieces += s->n * s->pieces;
        if (most > w->store.most) w->store.most = most;
    }
}

bool dataset_read_piece(const array_dataset *w, int64_t i, void *out, void *scratch, int64_t *at,
                        int64_t *bytes, dl_error *err) {
    int k = w->n - 1;
    while (w->at[k].store.of != k || w->at[k].store.first > i) k--;
    const dataset_array *a = &w->at[k];
    const dataset_store *s = &a->store;
    dataset_window window = {.count = {1, 1, 1, 1, 1, 1, 1, 1}};
    int64_t size = (int64_t)dlr_element_bytes(a->numbers), index = (i - s->first) / s->pieces,
            rest = (i - s->first) % s->pieces, place = index * s->each, n = 1;
    for (int p = a->n_order - 1; p >= 0; p--) {
        int m = a->order[p];
        int64_t parts = p > s->cut    ? 1
                        : p == s->cut ? (s->count[m] + s->rows - 1) / s->rows
                                      : s->count[m],
                rows = p > s->cut    ? s->count[m]
                       : p == s->cut ? s->rows
                                     : 1,
                begin = rest % parts * rows;
        rest /= parts;
        window.start[m] = begin + s->start[m],
        window.count[m] = begin + rows < s->count[m] ? rows : s->count[m] - begin;
        place += begin * s->stride[m], n *= window.count[m];
    }
    *at = s->at + place * size, *bytes = n * size;
    return dataset_read_window(w, a, s->low + index, &window, out, scratch, err);
}

void dataset_locate(const array_dataset *w, const dataset_array *a, int64_t index,
                    const dataset_drawn *how, dlr_layout_map *where) {
    const dataset_store *s = &w->at[a->store.of].store;
    where->base = a->is_static ? 0 : (index + a->from.offset - s->low) * s->each;
    for (int m = 0; m < a->to.type.rank; m++) {
        dataset_moved to = dataset_move(w, a, how, m);
        const dataset_axis *x = a->shared[m] < 0 ? NULL : &w->axes.at[a->shared[m]];
        int64_t stride = 0;
        for (int p = 0; p < a->n_order; p++)
            if (a->order[p] == m) stride = s->stride[m];
        dlr_layout_axis *p = &where->axis[to.axis];
        *p = dlr_along(a->to.type.axis[m].size, stride * (x ? x->step : 1), to.back);
        if (x) p->first += (how->corner[a->shared[m]] - x->low) * stride;
        if (x && x->shifts) p->round = x->extent * stride;
    }
}
