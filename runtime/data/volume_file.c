/* Volumes in files: each crop is read from the file. */
#include "runtime/data/volume.h"

#include <stdlib.h>

/* ---- channels first ---- */

/* Whether whole rows are read, because the gaps between a crop's rows are small: the gaps are read,
 * too, and nothing is copied. A system call costs as much as copying about this many bytes. */
static bool reads_whole_rows(int64_t edge, int size) {
    enum { GAP_BYTES = 2048 };
    return (edge - size) * (int64_t)sizeof(float) <= GAP_BYTES;
}

static size_t first_scratch(const dlr_volume *v, int size) {
    return DLR_SLAB_PLANES * (size_t)(reads_whole_rows(v->edge, size) ? v->edge : size) *
           (size_t)size;
}

static bool first_read(const dlr_volume *v, dlr_slab *s, dl_error *err) {
    bool whole = !dlr_source_chunked(v->source) && reads_whole_rows(v->edge, s->size);
    int64_t row = whole ? v->edge : s->size;
    dlr_block block = {.start = {s->channel, s->x, s->y, whole ? 0 : s->z},
                       .count = {1, s->planes, s->size, row}};
    s->row = row;
    for (int p = 0; p < s->planes; p++)
        s->plane[p] = s->scratch + p * s->size * row + (whole ? s->z : 0);
    return dlr_packing_read(&v->packing, v->source, &block, DLR_EL_F32, s->scratch, err);
}

/* ---- channels last ---- */

/* Scratch for all channels of the planes as in the file, followed by the separate channels. */
static size_t last_scratch(const dlr_volume *v, int size) {
    return 2 * DLR_SLAB_PLANES * (size_t)size * (size_t)size * (size_t)v->channels;
}

static bool last_read(const dlr_volume *v, dlr_slab *s, dl_error *err) {
    const int64_t size = s->size, planes = s->planes, channels = v->channels, f = sizeof(float);
    float *apart = s->scratch + planes * size * size * channels;
    s->row = size;
    for (int p = 0; p < s->planes; p++)
        s->plane[p] = apart + (s->channel * planes + p) * size * size;
    if (s->channel > 0) return true;
    dlr_block block = {.start = {s->x, s->y, s->z, 0}, .count = {planes, size, size, channels}};
    dlr_element_move transpose = {.rank = 2,
                                  .count = {channels, planes * size * size},
                                  .from = s->scratch,
                                  .from_step = {f, channels * f},
                                  .from_type = DLR_EL_F32,
                                  .to = apart,
                                  .to_step = {planes * size * size * f, f},
                                  .to_type = DLR_EL_F32};
    return dlr_packing_read(&v->packing, v->source, &block, DLR_EL_F32, s->scratch, err) &&
           (dlr_source_is_on_paper(v->source) ||
            dlr_elements_move(&transpose, (int64_t[DLR_ARRAY_RANK]){0}, &(double){0}));
}

static bool file_numbers(const dlr_volume *v, const int64_t corner[3], int size, float *out,
                         dl_error *err) {
    const bool last = v->channels_last;
    dlr_block block = {0};
    for (int a = 0; a < 3; a++) block.start[a + !last] = corner[a], block.count[a + !last] = size;
    block.count[last ? 3 : 0] = v->channels;
    return dlr_packing_read(&v->packing, v->source, &block, DLR_EL_F32, out, err);
}

static void file_close(dlr_volume *v) { dlr_source_close(v->source); }

dlr_volume *dlr_volume_open(const dlr_array_file *file, const dlr_array_facts *array,
                            bool channels_last, dl_error *err) {
    /* the chunks of a crop and of the next one: with a smaller cache each slab would unpack them
     * again */
    enum { CHUNKS = 64 << 20 };
    dlr_volume *v = calloc(1, sizeof *v);
    if (!v) return dl_fail(err, DL_RESOURCE, "no memory to open %s", file->path), NULL;
    *v = (dlr_volume){.channels = (int)array->dims[channels_last ? 3 : 0],
                      .edge = array->dims[1],
                      .read = channels_last ? last_read : first_read,
                      .scratch = channels_last ? last_scratch : first_scratch,
                      .numbers = file_numbers,
                      .channels_last = channels_last,
                      .close = file_close};
    if (dlr_packing_open(file->path, array, &v->packing, err))
        v->source = dlr_source_open(file, array, CHUNKS, err);
    if (v->source) {
        v->held = dlr_source_held(v->source);
        return v;
    }
    free(v);
    return NULL;
}
