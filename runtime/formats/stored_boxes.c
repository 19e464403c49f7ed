/* Copies regions of tensors that consist of boxes, in one file or several. */
#include <stdlib.h>

#include "runtime/formats/stored_internal.h"

/* The intersection of a box with the wanted elements, as runs: in the region's row-major order,
 * contiguous in the region and in the box. */
typedef struct {
    const dlr_st_box *box;
    int rank, outer;                 /* number of axes before those that a run covers */
    int64_t low[DLR_ST_MAX_RANK];    /* of the whole tensor: the first index, */
    int64_t n[DLR_ST_MAX_RANK];      /* and the extent along each axis */
    int64_t region[DLR_ST_MAX_RANK]; /* strides in elements in the region */
    int64_t inside[DLR_ST_MAX_RANK]; /* and in the box */
    /* element offsets of the first run; elements of each run */
    int64_t region_first, box_first, run;
} overlap;

static void find_strides(int rank, const int64_t *shape, int64_t *stride) {
    int64_t n = 1;
    for (int i = rank - 1; i >= 0; i--) stride[i] = n, n *= shape[i];
}

/* Intersects a box with the region's elements first .. first + n - 1; false: they are disjoint.
 * Only the first axis is clipped to the wanted range; other unwanted elements are removed run by
 * run. */
static bool find_overlap(const dlr_st_tensor *t, const dlr_st_box *box, int64_t n, overlap *o) {
    const dlr_st_joined *j = t->joined;
    const dlr_st_tensor *b = box->tensor;
    *o = (overlap){.box = box, .rank = b->rank, .run = 1};
    find_strides(o->rank, j->shape, o->region), find_strides(o->rank, b->shape, o->inside);
    for (int i = 0; i < o->rank; i++) {
        int64_t low = j->from[i], high = low + j->shape[i];
        if (i == 0) {
            int64_t last = (t->first + n - 1) / o->region[0];
            high = low + last + 1, low += t->first / o->region[0];
        }
        if (low < box->at[i]) low = box->at[i];
        if (high > box->at[i] + b->shape[i]) high = box->at[i] + b->shape[i];
        if (high <= low) return false;
        o->low[i] = low, o->n[i] = high - low;
        o->region_first += (low - j->from[i]) * o->region[i];
        o->box_first += (low - box->at[i]) * o->inside[i];
    }
    for (o->outer = o->rank; o->outer > 0;) {
        int i = --o->outer;
        o->run *= o->n[i];
        if (o->n[i] != j->shape[i] || o->n[i] != b->shape[i]) break;
    }
    return true;
}

/* Iterates over runs, clipped to the wanted elements: begin among those, begin in the box,
 * length. */
typedef struct {
    int64_t at[DLR_ST_MAX_RANK]; /* index along the outer axes, from o->low */
    bool begun;
    int64_t to, from, n;
} run;

static bool next_run(const overlap *o, int64_t first, int64_t n, run *r) {
    for (;;) {
        int i = o->outer - 1;
        if (r->begun) {
            while (i >= 0 && ++r->at[i] == o->n[i]) r->at[i--] = 0;
            if (i < 0) return false;
        }
        r->begun = true;
        int64_t in_region = o->region_first, in_box = o->box_first;
        for (int k = 0; k < o->outer; k++)
            in_region += r->at[k] * o->region[k], in_box += r->at[k] * o->inside[k];
        int64_t end = in_region + o->run < first + n ? in_region + o->run : first + n,
                skip = first - in_region;
        if (in_region >= first + n) return false; /* begins of runs only rise */
        if (skip < 0) skip = 0;
        if (in_region + skip >= end) continue;
        r->to = in_region + skip - first, r->from = in_box + skip, r->n = end - in_region - skip;
        return true;
    }
}

/* Copies the wanted elements of one box: run by run from the file, or, where runs are several and
 * close together, from one read that covers the first to the last. */
static bool copy_box(const dlr_st_tensor *t, const dlr_st_box *box, int64_t n, size_t size,
                     char *dst, dl_error *err) {
    overlap o;
    if (!find_overlap(t, box, n, &o)) return true;
    int64_t runs = 0, low = 0, high = 0;
    for (run r = {0}; next_run(&o, t->first, n, &r);) {
        if (runs++ == 0) low = r.from;
        high = r.from + r.n;
    }
    char *window = NULL;
    size_t bytes = (size_t)(high - low) * size;
    if (runs > 1 && bytes <= DLR_ST_WINDOW) {
        if (!(window = malloc(bytes)))
            return dl_fail(err, DL_RESOURCE, "no memory to read %s", box->file->path);
        dlr_st_tensor all = dlr_st_part(box->tensor, low, high - low);
        if (!dlr_st_load_unjoined(box->file, &all, window, err)) return free(window), false;
    }
    bool ok = true;
    for (run r = {0}; ok && next_run(&o, t->first, n, &r);) {
        char *to = dst + (size_t)r.to * size;
        dlr_st_tensor part = dlr_st_part(box->tensor, r.from, r.n);
        if (window)
            memcpy(to, window + (size_t)(r.from - low) * size, (size_t)r.n * size);
        else
            ok = dlr_st_load_unjoined(box->file, &part, to, err);
    }
    free(window);
    return ok;
}

bool dlr_st_join(const dlr_st_tensor *t, void *dst, dl_error *err) {
    size_t size = dlr_st_dtype_size(t->dtype);
    int64_t n = (int64_t)(t->bytes / size);
    for (int i = 0; n > 0 && i < t->joined->n; i++)
        if (!copy_box(t, &t->joined->boxes[i], n, size, dst, err)) return false;
    return true;
}

dlr_st_tensor dlr_st_cut(const dlr_st_file *file, const dlr_st_tensor *t, int axis, int64_t first,
                         int64_t n, dlr_st_slice *s) {
    dlr_st_tensor slice = *t;
    if (t->joined) {
        s->joined = *t->joined;
    } else {
        s->box = (dlr_st_box){.file = file, .tensor = t};
        s->joined = (dlr_st_joined){.boxes = &s->box, .n = 1};
        memcpy(s->joined.shape, t->shape, sizeof t->shape);
    }
    s->joined.from[axis] += first, s->joined.shape[axis] = slice.shape[axis] = n;
    slice.data = NULL, slice.view = NULL, slice.first = 0, slice.joined = &s->joined;
    dlr_st_size(&slice, &slice.bytes);
    return slice;
}
