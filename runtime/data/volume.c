#include "runtime/data/volume.h"

#include <stdlib.h>

static int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }

/* Without `out` the slabs are read and dropped. */
static bool cut(const dlr_volume *v, const int64_t corner[3], int size, int rotation, float *out,
                float *scratch, dl_error *err) {
    dlr_voxel_map to = dlr_voxel_map_of(rotation, size);
    dlr_slab slab = {.size = size, .y = corner[1], .z = corner[2], .scratch = scratch};
    for (int first = 0; first < size; first += slab.planes) {
        slab.x = corner[0] + first;
        slab.planes = (int)min(DLR_SLAB_PLANES, size - first);
        for (slab.channel = 0; slab.channel < v->channels; slab.channel++) {
            if (!v->read(v, &slab, err)) return false;
            if (!out) continue;
            dlr_voxel_map_copy(&to, size, first, slab.planes, slab.plane, slab.row,
                               out + (size_t)slab.channel * (size_t)size * (size_t)size *
                                         (size_t)size);
        }
    }
    return true;
}

bool dlr_volume_crop(const dlr_volume *v, const int64_t corner[3], int size, int rotation,
                     float *out, float *scratch, dl_error *err) {
    return cut(v, corner, size, rotation, out, scratch, err);
}

size_t dlr_volume_scratch(const dlr_volume *v, int size) {
    return v->scratch ? v->scratch(v, size) : 0;
}

void dlr_volume_close(dlr_volume *v) {
    if (!v) return;
    v->close(v);
    free(v);
}

bool dlr_volume_load_on_paper(const dlr_volume *from, int64_t edge, dl_error *err) {
    const int64_t corner[3] = {0};
    float *scratch =
        malloc(dlr_volume_scratch(from, (int)edge) * sizeof *scratch); /* never written or read */
    if (!scratch)
        return dl_fail(err, DL_RESOURCE, "no memory for a slab of %lld^3", (long long)edge);
    dlr_source_put_on_paper(from->source, true);
    bool ok = cut(from, corner, (int)edge, DLR_NO_ROTATION, NULL, scratch, err);
    dlr_source_put_on_paper(from->source, false);
    free(scratch);
    return ok;
}

/* ---- in memory ---- */

static bool memory_read(const dlr_volume *v, dlr_slab *s, dl_error *err) {
    (void)err;
    s->row = v->edge;
    for (int p = 0; p < s->planes; p++)
        s->plane[p] =
            v->memory + ((s->channel * v->edge + s->x + p) * v->edge + s->y) * v->edge + s->z;
    return true;
}

static void memory_close(dlr_volume *v) { free(v->memory); }

/* Allocates an unset volume; fails when there is no memory for it, since Linux overcommits. */
static dlr_volume *memory_new(int channels, int64_t edge, dl_error *err) {
    double bytes = sizeof(float) * (double)channels * (double)edge * (double)edge * (double)edge;
    dlr_volume *v = calloc(1, sizeof *v);
    int64_t available = dl_memory_available();
    if (v && (available < 0 || bytes < (double)available))
        v->memory = malloc((size_t)bytes); /* exact below 2^53 */
    if (!v || !v->memory) {
        free(v);
        dl_fail(err, DL_RESOURCE,
                "a volume of %d x %lld^3 floats (%.1f GiB) does not fit into the memory that is "
                "free (%.1f "
                "GiB): use "
                "data_loader_config 'lowmem', or a smaller box_size",
                channels, (long long)edge, bytes / 0x1p30,
                (double)(available < 0 ? 0 : available) / 0x1p30);
        return NULL;
    }
    v->channels = channels, v->edge = edge, v->held = (int64_t)bytes;
    v->read = memory_read, v->close = memory_close;
    return v;
}

dlr_volume *dlr_volume_load(const dlr_volume *from, int64_t edge, dl_error *err) {
    dlr_volume *v = memory_new(from->channels, edge, err);
    if (!v) return NULL;
    float *scratch = malloc(dlr_volume_scratch(from, (int)edge) * sizeof *scratch);
    const int64_t corner[3] = {0};
    bool ok =
        scratch ? dlr_volume_crop(from, corner, (int)edge, DLR_NO_ROTATION, v->memory, scratch, err)
                : dl_fail(err, DL_RESOURCE, "no memory to load %s", dlr_source_label(from->source));
    free(scratch);
    if (!ok) dlr_volume_close(v), v = NULL;
    return v;
}
