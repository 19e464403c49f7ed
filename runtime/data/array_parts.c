/* An array that consists of boxes of other arrays: a virtual data set of HDF5. */
#include <stdlib.h>

#include "ir/base/counts.h"
#include "runtime/data/array_format.h"
#include "runtime/data/hdf5_virtual.h"

bool dlr_find_common(const dlr_block *block, const dlr_block *other, int axis, dlr_common *c) {
    const int64_t start = block->start[axis], stride = block->stride[axis], at = other->start[axis],
                  at_stride = other->stride[axis], g = dl_gcd(stride, at_stride);
    int64_t i = start >= at ? 0 : (at - start + stride - 1) / stride;
    for (int64_t k = 0; k < at_stride / g && (start + i * stride - at) % at_stride; k++) i++;
    const int64_t from = start + i * stride - at;
    if (i >= block->count[axis] || from % at_stride || from / at_stride >= other->count[axis])
        return false;
    *c = (dlr_common){.first = i, .step = at_stride / g, .in_other = from / at_stride};
    c->other_step = stride / g;
    const int64_t here = (block->count[axis] - 1 - i) / c->step + 1,
                  there = (other->count[axis] - 1 - c->in_other) / c->other_step + 1;
    c->count = here < there ? here : there;
    return true;
}

/* The block of the source that has the common elements: its axes of more than one element are the
 * part's. */
static void cut_source(const dlr_hdf5_part *p, int rank, int source_rank, const dlr_common *c,
                       dlr_block *b) {
    int k = 0;
    *b = p->from;
    for (int i = 0; i < rank; i++) {
        if (p->at.count[i] == 1) continue;
        while (k < source_rank && p->from.count[k] == 1) k++;
        DL_CHECK(k < source_rank);
        b->start[k] += c[i].in_other * p->from.stride[k];
        b->stride[k] = p->from.stride[k] * c[i].other_step, b->count[k] = c[i].count;
        k++;
    }
}

typedef struct {
    int rank;
    int64_t count[DLR_ARRAY_RANK];
    ptrdiff_t step[DLR_ARRAY_RANK]; /* of `to`, in bytes */
    size_t bytes;                   /* of an element */
} spread;

/* Copies packed elements to places with steps; returns the end of what is copied. */
static const char *copy_spread(const spread *p, int axis, const char *from, char *to) {
    if (axis == p->rank) {
        memcpy(to, from, p->bytes);
        return from + p->bytes;
    }
    if (axis == p->rank - 1 && p->step[axis] == (ptrdiff_t)p->bytes) {
        const size_t n = (size_t)p->count[axis] * p->bytes;
        memcpy(to, from, n);
        return from + n;
    }
    for (int64_t i = 0; i < p->count[axis]; i++)
        from = copy_spread(p, axis + 1, from, to + i * p->step[axis]);
    return from;
}

/* Reads the elements that a part has of the block. */
static bool read_part(const dlr_source *s, const dlr_hdf5_part *p, const dlr_block *b,
                      dlr_element to, char *out, dl_error *err) {
    const dlr_source_parts *parts = s->state;
    const dlr_source *source = parts->source[p->source];
    dlr_common c[DLR_ARRAY_RANK];
    dlr_block from;
    spread where = {.rank = s->rank, .bytes = dlr_element_bytes(to)};
    size_t bytes = where.bytes;
    dlr_packed_steps(s->rank, b->count, b->order, bytes, where.step);
    for (int i = 0; i < s->rank; i++) {
        if (!dlr_find_common(b, &p->at, i, &c[i])) return true;
        out += where.step[i] * c[i].first;
        where.step[i] *= c[i].step, where.count[i] = c[i].count;
        bytes *= (size_t)c[i].count;
    }
    cut_source(p, s->rank, source->rank, c, &from);
    if (s->on_paper) return dlr_source_read(source, &from, to, NULL, err);
    char *packed = malloc(bytes);
    if (!packed) return dl_fail(err, DL_RESOURCE, "no memory to read %s", s->label);
    dl_error inner = {0};
    bool ok = dlr_source_read(source, &from, to, packed, &inner);
    if (ok) copy_spread(&where, 0, packed, out);
    free(packed);
    return ok || dl_fail(err, inner.code, "%s: of its source %s", s->label, inner.message);
}

static bool read_parts(const dlr_source *s, const dlr_block *b, dlr_element to, void *out,
                       dl_error *err) {
    const dlr_source_parts *parts = s->state;
    if (parts->gaps && !s->on_paper) {
        int64_t bad[DLR_ARRAY_RANK];
        double value;
        dlr_element_move m = dlr_block_move(s, b, to, out);
        m.from = parts->fill, m.swapped = parts->swapped;
        if (!dlr_elements_move(&m, bad, &value))
            return dlr_refuse_number(s, b, bad, value, to, err);
    }
    for (int i = 0; i < parts->parts; i++)
        if (!read_part(s, &parts->part[i], b, to, out, err)) return false;
    return true;
}

static void forget_parts(dlr_source *s) {
    const dlr_source_parts *parts = s->state;
    for (int i = 0; i < parts->sources; i++) dlr_source_put_on_paper(parts->source[i], s->on_paper);
}

static void close_parts(dlr_source *s) {
    dlr_source_parts *parts = s->state;
    for (int i = 0; i < parts->sources; i++) dlr_source_close(parts->source[i]);
    free(parts->source);
    free((void *)(uintptr_t)parts->part);
    free(parts);
}

bool dlr_parts_open(dlr_source *s, const dlr_source_parts *how, dl_error *err) {
    dlr_source_parts *parts = calloc(1, sizeof *parts);
    dlr_hdf5_part *part = malloc((size_t)how->parts * sizeof *part + 1);
    if (!parts || !part) {
        for (int i = 0; i < how->sources; i++) dlr_source_close(how->source[i]);
        free(how->source), free(parts), free(part);
        return dl_fail(err, DL_RESOURCE, "no memory to open %s", s->label);
    }
    if (how->parts) memcpy(part, how->part, (size_t)how->parts * sizeof *part);
    *parts = *how, parts->part = part;
    s->state = parts, s->read = read_parts, s->forget = forget_parts, s->close = close_parts;
    for (int i = 0; i < parts->sources; i++) {
        s->held += parts->source[i]->held;
        s->chunked |= parts->source[i]->chunked;
    }
    return true;
}
