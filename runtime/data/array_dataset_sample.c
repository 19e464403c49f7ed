/* Assembles samples of array datasets from blocks. For the host it moves elements to their places;
 * for a device it describes the places. */
#include <stdlib.h>

#include "runtime/data/array_dataset_private.h"

/* ---- destinations of elements ---- */

static int rotated_place(const array_dataset *w, int shared) {
    for (int i = 0; i < w->n_rotated; i++)
        if (w->rotated[i] == shared) return i;
    return -1;
}

static int axis_of_shared(const dataset_array *a, int shared) {
    for (int m = 0; m < a->to.type.rank; m++)
        if (a->shared[m] == shared) return m;
    return -1;
}

dataset_moved dataset_move(const array_dataset *w, const dataset_array *a, const dataset_drawn *how,
                           int m) {
    dataset_moved to = {m, false};
    int rotated = a->shared[m] < 0 ? -1 : rotated_place(w, a->shared[m]);
    for (int i = 0; rotated >= 0 && i < w->n_rotated; i++)
        if (how->rotation.source[i] == rotated)
            to = (dataset_moved){axis_of_shared(a, w->rotated[i]), how->rotation.flip[i]};
    if (a->shared[to.axis] >= 0 && how->flip[a->shared[to.axis]]) to.back = !to.back;
    return to;
}

/* The axes of a block as its destination has them, slowest first: it is read in this order. */
static void order_axes(int rank, const int64_t *count, const ptrdiff_t *step, int *order) {
    ptrdiff_t size[DL_MAX_RANK];
    for (int j = 0; j < rank; j++) {
        int k = j;
        size[j] = count[j] == 1 ? PTRDIFF_MAX : labs(step[j]);
        for (; k > 0 && size[order[k - 1]] < size[j]; k--) order[k] = order[k - 1];
        order[k] = j;
    }
}

/* Whether a packed block of these counts can be read straight into `out`. */
static bool is_packed(int rank, const int64_t *count, const int *order, const ptrdiff_t *step) {
    ptrdiff_t next = 1;
    for (int j = rank - 1; j >= 0; j--) {
        if (count[order[j]] != 1 && step[order[j]] != next) return false;
        next *= count[order[j]];
    }
    return true;
}

#define SCATTER(T)                                                                                 \
    for (int64_t i = 0; i < n; i++) ((T *)to)[i * step] = ((const T *)from)[i]
static void scatter_row(size_t bytes, int64_t n, const void *from, void *to, ptrdiff_t step) {
    if (bytes == 4)
        SCATTER(uint32_t);
    else if (bytes == 8)
        SCATTER(uint64_t);
    else if (bytes == 2)
        SCATTER(uint16_t);
    else
        SCATTER(uint8_t);
}

/* Copies a packed block to its destination, row by row along the last axis of its order. */
static void scatter(int rank, const dlr_block *b, size_t bytes, const char *from, char *to,
                    const ptrdiff_t *step) {
    if (rank == 0) {
        memcpy(to, from, bytes);
        return;
    }
    const int last = b->order[rank - 1];
    int64_t row = b->count[last], rows = 1, index[DL_MAX_RANK] = {0};
    for (int j = 0; j < rank; j++) rows *= j == last ? 1 : b->count[j];
    for (int64_t r = 0; r < rows; r++) {
        scatter_row(bytes, row, from, to, step[last]);
        from += (size_t)row * bytes;
        for (int k = rank - 2; k >= 0; k--) {
            const int j = b->order[k];
            to += step[j] * (ptrdiff_t)bytes;
            if (++index[j] < b->count[j]) break;
            to -= step[j] * (ptrdiff_t)bytes * (ptrdiff_t)b->count[j];
            index[j] = 0;
        }
    }
}

/* ---- a sample of one array ---- */

/* A part of an axis: elements from `place` on of the sample come from start, start + stride, ... */
typedef struct {
    int64_t start, count, stride, place;
} piece;
typedef struct {
    int n;
    piece at[2];
} pieces;

/* Splits an axis that is shifted cyclically into two parts. */
static void cut_axis(const dataset_axis *x, int64_t corner, pieces *out) {
    int64_t first = (x->extent - corner + x->step - 1) / x->step;
    if (first > x->size) first = x->size;
    out->at[0] = (piece){corner, first, x->step, 0};
    out->at[1] = (piece){0, x->size - first, x->step, first};
    out->n = 1 + (first < x->size);
}

/* Groups adjacent channels of a variable into runs. */
static bool next_channels(const dataset_variable *v, int64_t size, int64_t *at, piece *out) {
    if (*at == size) return false;
    const int64_t *c = v->from.channels;
    *out = (piece){c ? c[*at] : *at, 1, 1, *at};
    if (!c) out->count = size - *at;
    while (c && *at + out->count < size && c[*at + out->count] == out->start + out->count)
        out->count++;
    *at += out->count;
    return true;
}

/* The destination of a sample's blocks, and their reader. */
typedef struct {
    const array_dataset *w;
    const dataset_array *a;
    const dataset_variable *v;
    const dataset_file *file;
    int64_t local;    /* index of N within the file */
    int64_t low, end; /* the channels to read, among the variable's */
    const dataset_drawn *how;
    ptrdiff_t step[DL_MAX_RANK]; /* by axis of the model */
    bool whole; /* an axis that is shifted and is taken as a whole is read in the file's order */
    const dataset_window *window; /* read this window, and draw nothing; NULL: a sample */
    size_t bytes;                 /* bytes of an element */
    dataset_reader *read;
    char *out;
    void *scratch;
} target;

static bool read_block(const target *t, const dlr_block *block, ptrdiff_t base, int64_t channel,
                       dl_error *err) {
    const dataset_variable *v = t->v;
    ptrdiff_t step[DL_MAX_RANK];
    int order[DLR_ARRAY_RANK];
    dlr_block b = *block;
    for (int j = 0; j < v->rank; j++) step[j] = v->axis[j] < 0 ? 0 : t->step[v->axis[j]];
    order_axes(v->rank, b.count, step, order), b.order = order;
    char *to = t->out + base * (ptrdiff_t)t->bytes;
    if (is_packed(v->rank, b.count, order, step)) return t->read(v, t->file, &b, channel, to, err);
    if (!t->read(v, t->file, &b, channel, t->scratch, err)) return false;
    scatter(v->rank, &b, t->bytes, t->scratch, to, step);
    return true;
}

static bool taken_whole(const dataset_axis *x) { return x->step == 1 && x->size == x->extent; }

static void cut_sample(const target *t, int shared, pieces *out) {
    const dataset_axis *x = &t->w->axes.at[shared];
    cut_axis(x, t->whole && taken_whole(x) ? 0 : t->how->corner[shared], out);
}

/* Reads the parts of axis j and all later axes, at the position that `b` has for the axes before
 * it. */
static bool read_axes(const target *t, int j, dlr_block *b, ptrdiff_t base, int64_t channel,
                      dl_error *err) {
    const dataset_variable *v = t->v;
    if (j == v->rank) return read_block(t, b, base, channel, err);
    int m = v->axis[j];
    b->stride[j] = 1;
    if (m < 0) {
        b->start[j] = m == DATASET_SAMPLES       ? t->local % t->file->times
                      : m == DATASET_SIMULATIONS ? t->local / t->file->times
                                                 : 0;
        b->count[j] = 1;
        return read_axes(t, j + 1, b, base, channel, err);
    }
    if (j == v->channel) {
        piece c;
        for (int64_t at = t->low; next_channels(v, t->end, &at, &c);) {
            b->start[j] = c.start, b->count[j] = c.count;
            if (!read_axes(t, j + 1, b, base + (c.place - t->low) * t->step[m], v->first + c.place,
                           err))
                return false;
        }
        return true;
    }
    pieces cut;
    if (t->window)
        cut = (pieces){1, {{t->window->start[m], t->window->count[m], 1, 0}}};
    else
        cut_sample(t, t->a->shared[m], &cut);
    for (int i = 0; i < cut.n; i++) {
        const piece *c = &cut.at[i];
        b->start[j] = c->start, b->count[j] = c->count, b->stride[j] = c->stride;
        if (!read_axes(t, j + 1, b, base + c->place * t->step[m], channel, err)) return false;
    }
    return true;
}

/* Reads the channels of the window, or all, that variable v has at index i of N. */
static bool read_variable(target *t, const dataset_variable *v, int64_t i, ptrdiff_t base,
                          dl_error *err) {
    const int m = t->a->channels;
    const bool part = t->window && m >= 0;
    int64_t first = part ? t->window->start[m] : 0,
            end = part ? first + t->window->count[m] : v->first + v->n,
            low = v->first > first ? v->first : first;
    if (end > v->first + v->n) end = v->first + v->n;
    if (low >= end) return true;
    const int s = t->a->steps;
    const int64_t begin = s >= 0 && t->window ? t->window->start[s] : 0;
    if (s >= 0 && t->window && (v->step < begin || v->step >= begin + t->window->count[s]))
        return true;
    if (s >= 0) base += (v->step - begin) * t->step[s];
    /* of the numbers between samples, which a device holds too, none is used */
    i += v->delay;
    if (!v->is_static) i = i < 0 ? 0 : i < v->total ? i : v->total - 1;
    dlr_block b = {0};
    t->v = v, t->low = low - v->first, t->end = end - v->first;
    t->file = dataset_find_file(v, v->is_static ? 0 : i);
    t->local = v->is_static ? 0 : i - t->file->first;
    return read_axes(t, 0, &b, m < 0 ? base : base + (low - first) * t->step[m], v->first, err);
}

static bool read_index(target *t, int64_t i, ptrdiff_t base, dl_error *err) {
    for (int k = 0; k < t->a->variables.n; k++)
        if (!read_variable(t, &t->a->variables.at[k], i, base, err)) return false;
    return true;
}

static bool read_sample(target *t, int64_t index, ptrdiff_t base, dl_error *err) {
    return read_index(t, index + t->a->from.offset, base, err);
}

bool dataset_make_sample(const array_dataset *w, const dataset_array *a, int64_t index,
                         const dataset_drawn *how, void *out, void *scratch, dl_error *err) {
    target t = {.w = w,
                .a = a,
                .how = how,
                .bytes = (size_t)dl_dtype_bytes(a->to.type.dtype),
                .read = dataset_read,
                .out = out,
                .scratch = scratch};
    ptrdiff_t base = 0;
    int64_t stride[DL_MAX_RANK];
    dl_type_strides(&a->to.type, stride);
    for (int m = 0; m < a->to.type.rank; m++) {
        dataset_moved to = dataset_move(w, a, how, m);
        dlr_layout_axis s = dlr_along(a->to.type.axis[to.axis].size, stride[to.axis], to.back);
        base += s.first, t.step[m] = s.step;
    }
    return read_sample(&t, index, base, err);
}

/* The numbers are in the files' axis order, with the model's axes that the files lack in front. */
bool dataset_take_numbers(const array_dataset *w, const dataset_array *a, int64_t index,
                          const dataset_drawn *how, void *out, void *scratch, dlr_layout_map *where,
                          dl_error *err) {
    target t = {.w = w,
                .a = a,
                .how = how,
                .whole = true,
                .bytes = dlr_element_bytes(a->numbers),
                .read = dataset_read_numbers,
                .out = out,
                .scratch = scratch};
    ptrdiff_t next = 1;
    for (int p = a->n_order - 1; p >= 0; p--)
        t.step[a->order[p]] = next, next *= a->to.type.axis[a->order[p]].size;
    for (int m = 0; m < a->to.type.rank; m++) {
        dataset_moved to = dataset_move(w, a, how, m);
        const dataset_axis *x = a->shared[m] < 0 ? NULL : &w->axes.at[a->shared[m]];
        dlr_layout_axis *s = &where->axis[to.axis];
        *s = dlr_along(a->to.type.axis[m].size, t.step[m], to.back);
        if (x && taken_whole(x) && how->corner[a->shared[m]])
            s->first += how->corner[a->shared[m]] * t.step[m], s->round = x->size * t.step[m];
    }
    return read_sample(&t, index, 0, err);
}

bool dataset_read_window(const array_dataset *w, const dataset_array *a, int64_t index,
                         const dataset_window *window, void *out, void *scratch, dl_error *err) {
    target t = {.w = w,
                .a = a,
                .window = window,
                .bytes = dlr_element_bytes(a->numbers),
                .read = dataset_read_numbers,
                .out = out,
                .scratch = scratch};
    ptrdiff_t next = 1;
    for (int p = a->n_order - 1; p >= 0; p--)
        t.step[a->order[p]] = next, next *= window->count[a->order[p]];
    return read_index(&t, index, 0, err);
}
