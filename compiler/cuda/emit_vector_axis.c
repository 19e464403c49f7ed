/* Vector accesses along an axis that is not the threads' axis. Where one access is contiguous
 * along another axis than all others (images rearranged into patches), each thread has a vector
 * along that axis, while consecutive threads are coalesced along the others' axis. The choice
 * counts the memory sectors that the first warp would touch. */
#include <stdlib.h>

#include "compiler/cuda/emit_loops.h"

enum {
    SECTOR = 32,                           /* minimum bytes of a memory transaction */
    MOST_PLACES = DL_WARP * DL_VECTOR_MOST /* of an access, by a warp */
};

/* Coordinates of point `j` of vector `number`. */
static void find_point(const dl_emitter *e, const dl_axis_list *list, const dl_vectors *l,
                       int64_t number, int j, int64_t at[DL_MAX_RANK]) {
    int64_t rest = l->other_axis ? number : number * l->width + j;
    for (int i = list->n - 1; i >= 0; i--) {
        bool split = l->other_axis && list->axis[i] == l->axis;
        int64_t size = e->k->space[list->axis[i]].size / (split ? l->width : 1);
        at[list->axis[i]] = split ? rest % size * l->width + j : rest % size;
        rest /= size;
    }
}

/* The byte offset of an access's element; -1: out of bounds, or unknown. */
static int64_t find_byte(const dl_emitter *e, const dl_kinstr *in, const int64_t *at) {
    const dl_type *t = &e->k->params.at[in->param].type;
    int64_t stride[DL_MAX_RANK], place = 0;
    if (t->layout.kind == DL_PANEL) return -1;
    dl_type_strides(t, stride);
    for (int i = 0; i < t->rank; i++) {
        const dl_index *x = &in->index[i];
        int64_t sum = x->offset + (x->axis >= 0 ? at[x->axis] : 0);
        for (int k = 0; k < x->nterms; k++) {
            int64_t own = at[x->term[k].axis] / x->term[k].div;
            sum += (x->term[k].mod ? own % x->term[k].mod : own) * x->term[k].mul;
        }
        int64_t here = x->indirect ? -1 : dl_affine_place(sum, x->div, x->outside, t->axis[i].size);
        if (here < 0) return -1;
        place += here * stride[i];
    }
    return place * dl_dtype_bytes(t->dtype);
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int count_different(int64_t *sectors, int n) {
    int different = 0;
    qsort(sectors, (size_t)n, sizeof *sectors, compare);
    for (int i = 0; i < n; i++) different += !i || sectors[i] != sectors[i - 1];
    return different;
}

/* Sectors that a warp touches per point. Repeated loads hit L1; stores by several instructions
 * go to memory several times. */
static double count_sectors(const dl_emitter *e, const dl_axis_list *list, const dl_vectors *l) {
    int64_t vectors = list->points / l->width, threads = vectors < DL_WARP ? vectors : DL_WARP,
            all = 0;
    for (int i = 0; i < e->now->run.n; i++) {
        int number = e->now->run.at[i], n = 0;
        const dl_kinstr *in = &e->k->instrs.at[number];
        int64_t at[DL_MAX_RANK] = {0}, sectors[MOST_PLACES];
        if (!dl_emit_is_access(in)) continue;
        for (int j = 0; j < l->width; j++) {
            for (int64_t t = 0; t < threads; t++) {
                find_point(e, list, l, t, j, at);
                int64_t byte = find_byte(e, in, at);
                if (byte >= 0) sectors[n++] = byte / SECTOR;
            }
            bool apart = in->kind == DL_K_STORE && !l->has[number];
            if (apart || j == l->width - 1) all += count_different(sectors, n), n = 0;
        }
    }
    return (double)all / (double)(threads * l->width);
}

bool dl_cuda_choose_vector_axis(dl_emitter *e, dl_axis_list *list, unsigned moving,
                                dl_vectors *own) {
    enum { LEAST_GAIN = 3, OF = 2 };
    dl_vectors best = *own;
    dl_axis_list order = *list;
    if (list->n < 2 || list->points < MOST_PLACES) return false;
    double least = count_sectors(e, list, own) * OF / LEAST_GAIN;
    for (int i = 0; i < list->n - 1; i++) {
        dl_axis_list moved = *list;
        for (int k = i; k < list->n - 2; k++) moved.axis[k] = list->axis[k + 1];
        moved.axis[list->n - 2] = list->axis[i];
        dl_vectors l = dl_cuda_find_vectors_along(e, list->axis[i], moving);
        double sectors = l.width > 1 ? count_sectors(e, &moved, &l) : least;
        if (sectors < least) best = l, order = moved, least = sectors;
    }
    *own = best, *list = order;
    return best.other_axis;
}
