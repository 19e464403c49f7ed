/* Copies a tensor's elements from the one file that holds them, also if they are not row-major:
 * transposed weights, slices, channels last. */
#include <stdlib.h>

#include "ir/base/input.h"
#include "runtime/formats/stored_internal.h"

typedef struct {
    const dlr_st_file *f;
    const dlr_st_tensor *t;
    size_t size;           /* of an element */
    int64_t place;         /* of the view's first element, in bytes of the file */
    int64_t low, high;     /* the range of the view's data that contains the part */
    unsigned char *window; /* that range in memory; NULL: it is too large, and read run by run */
    dl_error *err;
} gather;

static void find_coordinates(const dlr_st_view *v, int64_t element, int64_t at[DLR_ST_MAX_RANK]) {
    for (int i = v->rank - 1; i >= 0; i--) at[i] = element % v->shape[i], element /= v->shape[i];
}

/* Computes the range from the first to the last element. Between their coordinates, the first axis
 * that differs goes from one index to the other, and later axes take all indices. */
static void find_bounds(gather *g, int64_t first, int64_t last) {
    const dlr_st_view *v = g->t->view;
    int64_t a[DLR_ST_MAX_RANK], b[DLR_ST_MAX_RANK];
    bool same = true;
    find_coordinates(v, first, a), find_coordinates(v, last, b);
    for (int i = 0; i < v->rank; i++) {
        g->low += same ? a[i] * v->stride[i] : 0;
        g->high += (same ? b[i] : v->shape[i] - 1) * v->stride[i];
        same = same && a[i] == b[i];
    }
}

/* Copies n elements from `at` on, `stride` apart. */
static bool copy_run(const gather *g, int64_t at, int64_t stride, int64_t n, unsigned char *dst) {
    size_t size = g->size;
    if (stride == 1) size *= (size_t)n, n = 1;
    for (int64_t i = 0; i < n; i++, at += stride, dst += size) {
        if (g->window)
            memcpy(dst, g->window + (size_t)(at - g->low) * g->size, size);
        else if (!dl_read_at(g->f->private->fd, g->f->path, dst, size,
                             g->place + at * (int64_t)g->size, g->err))
            return false;
    }
    return true;
}

static bool copy_all(const gather *g, int64_t n, unsigned char *dst) {
    const dlr_st_view *v = g->t->view;
    int inner = v->rank - 1;
    int64_t c[DLR_ST_MAX_RANK];
    for (int64_t done = 0, run; done < n; done += run) {
        find_coordinates(v, g->t->first + done, c);
        int64_t at = 0, left = v->shape[inner] - c[inner];
        run = n - done < left ? n - done : left;
        for (int i = 0; i < v->rank; i++) at += c[i] * v->stride[i];
        if (!copy_run(g, at, v->stride[inner], run, dst + (size_t)done * g->size)) return false;
    }
    return true;
}

static bool gather_view(const dlr_st_file *f, const dlr_st_tensor *t, void *dst, dl_error *err) {
    gather g = {.f = f, .t = t, .size = dlr_st_dtype_size(t->dtype), .err = err};
    int64_t n = (int64_t)(t->bytes / g.size);
    if (n == 0) return true;
    g.place = (const unsigned char *)t->data - f->private->map;
    if (!dlr_torch_check(f, g.place, err)) return false;
    find_bounds(&g, t->first, t->first + n - 1);
    size_t bytes = (size_t)(g.high - g.low + 1) * g.size;
    bool ok = true;
    if (bytes <= DLR_ST_WINDOW) {
        g.window = malloc(bytes);
        ok = g.window ? dl_read_at(f->private->fd, f->path, g.window, bytes,
                                   g.place + g.low * (int64_t)g.size, err)
                      : dl_fail(err, DL_RESOURCE, "no memory to read %s", f->path);
    }
    ok = ok && copy_all(&g, n, dst);
    free(g.window);
    return ok;
}

bool dlr_st_load_unjoined(const dlr_st_file *f, const dlr_st_tensor *t, void *dst, dl_error *err) {
    if (t->view) return gather_view(f, t, dst, err);
    int64_t at = (const unsigned char *)t->data - f->private->map;
    return t->bytes == 0 || (dlr_torch_check(f, at, err) &&
                             dl_read_at(f->private->fd, f->path, dst, (size_t)t->bytes, at, err));
}
