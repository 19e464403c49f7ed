/* Opens HDF5 files by libhdf5. Only for child processes (hdf5_contents.h). */
#include "ir/base/file_calls.h"
#include "runtime/data/hdf5_facts.h"

#include <hdf5.h>

void dlr_hdf5_quiet(void) {
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* libhdf5 must not print its errors */
    H5PLset_loading_state(0);              /* no third-party filter code */
}

int64_t dlr_hdf5_open(const char *path) {
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_file_locking(access, false, true);
    /* counted as libhdf5's driver sec2 opens it */
    dl_file_calls_add(&(dl_file_calls){.opens = 1, .stats = 2});
    /* the last call: any other call would clear the error */
    return H5Fopen(path, H5F_ACC_RDONLY, access);
}
