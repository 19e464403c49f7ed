/* In the place of hdf5_attributes.c, in a build without libhdf5. */
#include "dldata/array.h"

static bool fail(const char *path, dl_error *err) {
    return dl_fail(err, DL_RESOURCE,
                   "%s is an HDF5 file, and this dldata was built without libhdf5: meson setup "
                   "-Dhdf5=enabled",
                   path);
}

bool hdf5_take_attributes(dl_arena *arena, const char *path, array_file *f, dl_error *err) {
    (void)arena, (void)f;
    return fail(path, err);
}

bool hdf5_read_generator(const char *path, dl_buf *out, dl_error *err) {
    (void)out;
    return fail(path, err);
}
