/* In the place of array_hdf5.c and hdf5_*.c, in a build without libhdf5: the format is known, and
 * refused. */
#include "runtime/data/array_format.h"

static bool list_hdf5(dlr_array_file *f, dl_error *err) {
    return dl_fail(err, DL_RESOURCE,
                   "%s is an HDF5 file, and this dlrun was built without libhdf5: meson setup "
                   "-Dhdf5=enabled, or give .npy or Zarr",
                   f->path);
}

/* Never called: no file is listed. */
static bool open_hdf5(dlr_source *s, const dlr_array_file *f, const dlr_array_facts *a,
                      size_t cache, dl_error *err) {
    (void)s, (void)a, (void)cache;
    return dl_fail(err, DL_INTERNAL, "%s: an HDF5 array without libhdf5", f->path);
}

const dlr_array_format dlr_hdf5_format = {
    .name = "HDF5", .owns = dlr_owns_hdf5, .list = list_hdf5, .open = open_hdf5};
