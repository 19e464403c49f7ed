/* Writes the simulators' HDF5 files: contiguous f32 sets and scalar attributes, atomically. Equal
 * contents give equal bytes (no time stamps). */
#ifndef DLDATA_HDF5_FILE_H
#define DLDATA_HDF5_FILE_H
#include "ir/base/console.h"
#include "ir/base/status.h"
#include <stdint.h>

typedef struct {
    const char *name;
    int rank; /* at most 4 */
    uint64_t dims[4];
    const float *data;
    const char *const *channels; /* attribute `channels`, one line each; or NULL */
    int n_channels;
} hdf5_set;

typedef enum { HDF5_TEXT, HDF5_INTEGER, HDF5_REAL } hdf5_kind;
typedef struct {
    const char *name;
    hdf5_kind kind;
    const char *text;
    uint64_t integer;
    double real;
} hdf5_attribute;

typedef struct {
    const hdf5_set *sets;
    int n_sets;
    const hdf5_attribute *attributes; /* of the root group */
    int n_attributes;
} hdf5_contents;

/* Bytes that the file takes, slightly overestimated. */
uint64_t hdf5_file_bytes(const hdf5_contents *c);
/* Checks that `need` bytes can be written there: the directory (made if missing), its permissions,
 * the space. Errors: DL_IO, DL_USAGE. */
bool hdf5_file_prepare(const char *path, uint64_t need, dl_error *err);
/* Checks that the disk of `dir` has space for `need` bytes for `path`. Errors: DL_IO. */
bool hdf5_disk_check(const char *path, const char *dir, uint64_t need, dl_error *err);
/* Writes the file atomically (ir/base/output.h): after a failure, or when *stop becomes non-zero
 * (err stays DL_OK), no partial file remains and an older file is intact. It needs a second copy of
 * the contents in memory. Errors: DL_IO, DL_USAGE, DL_RESOURCE. */
bool hdf5_file_write(const char *path, const hdf5_contents *c, const volatile sig_atomic_t *stop,
                     dl_error *err);
#endif
