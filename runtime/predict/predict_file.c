#include "runtime/predict/predict_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "ir/base/npy.h"
#include "ir/base/output.h"

struct dl_predict_file {
    dlr_h5_file *h5; /* NULL: */
    dl_output *npy;
    FILE *room; /* standard output may be a pipe, which takes bytes in order alone: until then */
    uint64_t begin; /* of its numbers */
    size_t size;    /* of one */
};

/* After the last '.' of the name, which "" has none of. */
static const char *ending(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path,
               *dot = strrchr(name, '.');
    return dot && dot != name ? dot + 1 : "";
}

bool dl_predict_file_is_stdout(const char *path) { return path && strcmp(path, "-") == 0; }

static bool is_npy(const char *path) {
    return dl_predict_file_is_stdout(path) || strcasecmp(ending(path), "npy") == 0;
}

bool dl_predict_file_check(const char *path, dl_error *err) {
    static const char *const hdf5[] = {"", "h5", "hdf5", "he5", "hdf", "nc", "nc4"};
    if (is_npy(path)) return true;
    for (size_t i = 0; i < sizeof hdf5 / sizeof *hdf5; i++)
        if (strcasecmp(ending(path), hdf5[i]) == 0) return true;
    return dl_fail(err, DL_USAGE,
                   "--output %s: predictions are written as HDF5 (.h5) or, of one output, as "
                   "NumPy's .npy; there is no writer for '.%s'",
                   path, ending(path));
}

/* `size_of`: F32 has 4 bytes, and I64 has 8: outputs are of no other type. */
static bool open_npy(dl_predict_file *f, const char *path, const dlr_h5_set *set, dl_error *err) {
    dl_buf head = {0};
    bool narrow = set->type == DLR_H5_F32;
    f->size = narrow ? 4 : 8;
    dl_npy_put_header(&head, narrow ? "<f4" : "<i8", set->dims, set->rank);
    f->begin = head.n;
    bool streams = dl_predict_file_is_stdout(path);
    if (streams && !(f->room = tmpfile()))
        dl_fail_errno(err, DL_IO, "cannot make a temporary file");
    f->npy = streams && !f->room ? NULL : dl_output_open(streams ? "/dev/stdout" : path, err);
    bool ok = f->npy && dl_output_write(f->npy, head.at, head.n, err);
    dl_buf_free(&head);
    return ok;
}

dl_predict_file *dl_predict_file_open(const char *path, int n_outputs, int n_sets,
                                      const dlr_h5_set *sets, int n_attributes,
                                      const dlr_h5_attribute *attributes, dl_error *err) {
    dl_predict_file *f = calloc(1, sizeof *f);
    bool ok = f || dl_fail(err, DL_RESOURCE, "no memory to write %s", path);
    if (ok && is_npy(path) && n_outputs > 1)
        ok = dl_fail(err, DL_USAGE,
                     "--output %s: a .npy file holds one array, and the model has %d outputs "
                     "('%s', '%s'%s): "
                     "name a file that ends with .h5",
                     path, n_outputs, sets[0].name, sets[1].name, n_outputs > 2 ? ", ..." : "");
    else if (ok && is_npy(path))
        ok = open_npy(f, path, &sets[0], err);
    else if (ok)
        ok = (f->h5 = dlr_h5_open(path, n_sets, sets, n_attributes, attributes, err)) != NULL;
    if (ok) return f;
    dl_predict_file_discard(f);
    return NULL;
}

bool dl_predict_file_write(dl_predict_file *f, int set, int64_t first, int64_t n, const void *data,
                           dl_error *err) {
    if (f->h5) return dlr_h5_write(f->h5, set, first, n, data, err);
    if (set > 0) return true;
    if (f->room)
        return (fseeko(f->room, (off_t)((uint64_t)first * f->size), SEEK_SET) == 0 &&
                fwrite(data, f->size, (size_t)n, f->room) == (size_t)n) ||
               dl_fail_errno(err, DL_IO, "cannot write into a temporary file");
    return dl_output_write_at(f->npy, f->begin + (uint64_t)first * f->size, data,
                              (size_t)n * f->size, err);
}

/* Hands what is in the room on to standard output, in order. */
static bool empty_room(dl_predict_file *f, dl_error *err) {
    char piece[1 << 16];
    size_t n;
    rewind(f->room);
    while ((n = fread(piece, 1, sizeof piece, f->room)) > 0)
        if (!dl_output_write(f->npy, piece, n, err)) return false;
    return !ferror(f->room) || dl_fail_errno(err, DL_IO, "cannot read a temporary file");
}

bool dl_predict_file_commit(dl_predict_file *f, dl_error *err) {
    if (f->room && !empty_room(f, err)) {
        dl_predict_file_discard(f);
        return false;
    }
    bool ok = f->h5 ? dlr_h5_commit(f->h5, err) : dl_output_commit(f->npy, err);
    if (f->room) fclose(f->room);
    free(f);
    return ok;
}

void dl_predict_file_discard(dl_predict_file *f) {
    if (!f) return;
    dlr_h5_discard(f->h5);
    dl_output_discard(f->npy);
    if (f->room) fclose(f->room);
    free(f);
}
