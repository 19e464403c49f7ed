/* Volumes in files, read as crops ask for them. */
#include "runtime/data/volume.h"

#include <stdlib.h>

/* Whole rows where the gaps between a crop's are small: they are read along, and nothing is moved. A system
 * call costs as much as copying about this many bytes. */
static bool reads_whole_rows(int64_t edge, int size) {
    enum { GAP_BYTES = 2048 };
    return (edge - size) * (int64_t)sizeof(float) <= GAP_BYTES;
}

size_t dlr_volume_scratch(int64_t edge, int size) {
    return DLR_SLAB_PLANES * (size_t)(reads_whole_rows(edge, size) ? edge : size) * (size_t)size;
}

static bool file_read(const dlr_volume *v, dlr_slab *s, dl_error *err) {
    bool whole = !dlr_source_chunked(v->source) && reads_whole_rows(v->edge, s->size);
    int64_t row = whole ? v->edge : s->size;
    dlr_block block = {.start = {s->channel, s->x, s->y, whole ? 0 : s->z},
                       .count = {1, s->planes, s->size, row}};
    s->row = row;
    for (int p = 0; p < s->planes; p++) s->plane[p] = s->scratch + p * s->size * row + (whole ? s->z : 0);
    return dlr_source_read(v->source, &block, DLR_EL_F32, s->scratch, err);
}

static void file_close(dlr_volume *v) { dlr_source_close(v->source); }

dlr_volume *dlr_volume_open(const dlr_array_file *file, const dlr_array_facts *array, dl_error *err) {
    enum {
        CHUNKS = 64 << 20
    }; /* those of a crop and the next: with less, each slab would unpack them again */
    dlr_volume *v = calloc(1, sizeof *v);
    if (!v) return dl_fail(err, DL_RESOURCE, "no memory to open %s", file->path), NULL;
    *v = (dlr_volume){
        .channels = (int)array->dims[0], .edge = array->dims[1], .read = file_read, .close = file_close};
    v->source = dlr_source_open(file, array, CHUNKS, err);
    if (v->source) {
        v->held = dlr_source_held(v->source);
        return v;
    }
    free(v);
    return NULL;
}
