/* Volumes in HDF5 files: by our own reads where the numbers lie in one run, through libhdf5 elsewhere. */
#include "runtime/data/volume.h"

#include <stdlib.h>

static bool joins_rows(int64_t edge, int size) {
    return (edge - size) * (int64_t)sizeof(float) <= DLR_GAP_BYTES;
}

/* From a plane's first voxel to its last, rows joined or packed. */
static size_t plane_floats(int64_t edge, int size) {
    return joins_rows(edge, size) ? (size_t)(edge * (size - 1) + size) : (size_t)size * (size_t)size;
}

size_t dlr_volume_scratch(int64_t edge, int size) { return DLR_SLAB_PLANES * plane_floats(edge, size); }

/* Rows that are near stay where they lie: the gaps are read along, and nothing is moved. */
static bool read_joined(const dlr_volume *v, dlr_slab *s, dl_error *err) {
    size_t span = plane_floats(v->edge, s->size);
    s->row = v->edge;
    for (int p = 0; p < s->planes; p++) {
        float *into = s->scratch + (size_t)p * span;
        int64_t from = ((s->channel * v->edge + s->x + p) * v->edge + s->y) * v->edge + s->z;
        s->plane[p] = into;
        if (!dlr_source_run(&v->source, from, span, into, err)) return false;
    }
    return true;
}

static bool read_packed(const dlr_volume *v, dlr_slab *s, dl_error *err) {
    s->row = s->size;
    for (int p = 0; p < s->planes; p++) s->plane[p] = s->scratch + (size_t)p * (size_t)(s->size * s->size);
    dlr_block block = {{s->channel, s->x, s->y, s->z}, {1, s->planes, s->size, s->size}};
    return dlr_source_block(&v->source, &block, s->scratch, err);
}

static bool file_read(const dlr_volume *v, dlr_slab *s, dl_error *err) {
    return (!v->source.reader && joins_rows(v->edge, s->size) ? read_joined : read_packed)(v, s, err);
}

static void file_close(dlr_volume *v) { dlr_source_close(&v->source); }

dlr_volume *dlr_volume_open(const char *path, const dlr_hdf5_set *set, dl_error *err) {
    enum {
        CHUNKS = 64 << 20
    }; /* those of a crop and the next: with less, each slab would unpack them again */
    dlr_volume *v = calloc(1, sizeof *v);
    if (!v) return dl_fail(err, DL_RESOURCE, "no memory to open %s", path), NULL;
    *v = (dlr_volume){
        .channels = (int)set->dims[0], .edge = set->dims[1], .read = file_read, .close = file_close};
    if (dlr_source_open(&v->source, path, set, CHUNKS, err)) {
        v->held = v->source.held;
        return v;
    }
    free(v);
    return NULL;
}
