/* Volumes in HDF5 files: by our own reads where the numbers lie in one run, through libhdf5 elsewhere. */
#include "runtime/data/volume.h"

#include <errno.h>
#include <hdf5.h>
#include <stdlib.h>
#include <unistd.h>

#include "ir/base/input.h"

/* Rows nearer than this are read in one call with the gap between them: a system call costs as much as
 * copying about this many bytes. */
enum { GAP_BYTES = 2048 };

static bool joins_rows(int64_t edge, int size) { return (edge - size) * (int64_t)sizeof(float) <= GAP_BYTES; }

/* From a plane's first voxel to its last, rows joined or packed. */
static size_t plane_floats(int64_t edge, int size) {
    return joins_rows(edge, size) ? (size_t)(edge * (size - 1) + size) : (size_t)size * (size_t)size;
}

size_t dlr_volume_scratch(int64_t edge, int size) { return DLR_SLAB_PLANES * plane_floats(edge, size); }

/* ---- own reads ---- */

static bool read_at(const dlr_volume *v, void *into, size_t bytes, int64_t at, dl_error *err) {
    for (char *p = into; bytes;) {
        ssize_t n = pread(v->fd, p, bytes, at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return dl_fail_errno(err, DL_IO, "cannot read %s", v->label);
        if (n == 0)
            return dl_fail(err, DL_IO, "%s ends too early: was the file cut while it was open?", v->label);
        p += n, at += n, bytes -= (size_t)n;
    }
    return true;
}

static bool file_read(const dlr_volume *v, dlr_slab *s, dl_error *err) {
    bool join = joins_rows(v->edge, s->size);
    size_t span = plane_floats(v->edge, s->size);
    s->row = join ? v->edge : s->size;
    for (int p = 0; p < s->planes; p++) {
        float *into = s->scratch + (size_t)p * span;
        int64_t from = ((s->channel * v->edge + s->x + p) * v->edge + s->y) * v->edge + s->z;
        s->plane[p] = into;
        for (int j = 0; j < (join ? 1 : s->size); j++)
            if (!read_at(v, into + j * s->row, (join ? span : (size_t)s->size) * sizeof(float),
                         v->offset + (from + j * v->edge) * (int64_t)sizeof(float), err))
                return false;
    }
    return true;
}

static void file_close(dlr_volume *v) { close(v->fd); }

static bool file_open(dlr_volume *v, const char *path, const dlr_hdf5_set *set, dl_error *err) {
    v->read = file_read, v->close = file_close, v->offset = set->offset;
    v->fd = dl_input_open(path, err);
    return v->fd >= 0;
}

/* ---- through libhdf5, in a child ---- */

static bool library_read(const dlr_volume *v, dlr_slab *s, dl_error *err) {
    s->row = s->size;
    for (int p = 0; p < s->planes; p++) s->plane[p] = s->scratch + (size_t)p * (size_t)(s->size * s->size);
    return dlr_reader_read(v->reader, s, err);
}

static void library_close(dlr_volume *v) { dlr_reader_close(v->reader); }

static bool library_open(dlr_volume *v, const char *path, const dlr_hdf5_set *set, dl_error *err) {
    if (!dl_check_descriptors(2, path, err)) return false;
    v->read = library_read, v->close = library_close, v->held = DLR_READER_CHUNKS;
    return (v->reader = dlr_reader_open(path, set->name, v->label, err)) != NULL;
}

/* ---- what may be read, and how ---- */

static bool check_storage(const char *label, const dlr_hdf5_set *set, dl_error *err) {
    static const char *const refused[] = {
        [DLR_HDF5_EMPTY] = "has no data: it was declared but never written",
        [DLR_HDF5_EXTERNAL] =
            "keeps its data in other files (external storage), which is not followed: copy it into "
            "one file with h5repack",
        [DLR_HDF5_VIRTUAL] =
            "is a virtual data set, which is not followed: copy it into one file with h5repack",
        [DLR_HDF5_LINK] = "is a link to somewhere else, which is not followed: name the data set itself",
    };
    if ((size_t)set->layout < sizeof refused / sizeof *refused && refused[set->layout])
        return dl_fail(err, DL_INPUT, "%s %s", label, refused[set->layout]);
    if (!set->is_float)
        return dl_fail(err, DL_INPUT, "%s holds %s, not floating-point numbers", label, set->type);
    for (int i = 0; i < set->filter_count; i++) {
        bool known = i < DLR_HDF5_FILTERS &&
                     (set->filter[i] == H5Z_FILTER_DEFLATE || set->filter[i] == H5Z_FILTER_SHUFFLE ||
                      set->filter[i] == H5Z_FILTER_FLETCHER32);
        if (!known)
            return dl_fail(
                err, DL_INPUT,
                "%s is packed with filter %d, which is not supported: rewrite the file with h5repack -f NONE",
                label, i < DLR_HDF5_FILTERS ? set->filter[i] : -1);
    }
    return true;
}

dlr_volume *dlr_volume_open(const char *path, const dlr_hdf5_set *set, dl_error *err) {
    dl_buf label = {0};
    dl_putf(&label, "%s: '%s'", path, set->name);
    dlr_volume *v = calloc(1, sizeof *v);
    bool ok = v != NULL || dl_fail(err, DL_RESOURCE, "no memory to open %s", path);
    if (!ok) {
        dl_buf_free(&label);
        return NULL;
    }
    v->label = label.at;
    v->channels = (int)set->dims[0], v->edge = set->dims[1];
    v->fd = -1;
    bool own = set->layout == DLR_HDF5_CONTIGUOUS && set->is_native_f32 && set->filter_count == 0;
    if (check_storage(v->label, set, err) && (own ? file_open : library_open)(v, path, set, err)) return v;
    if (v->close)
        dlr_volume_close(v);
    else
        free(v->label), free(v);
    return NULL;
}
