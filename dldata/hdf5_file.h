/* HDF5 files as the simulators write them: contiguous f32 sets and scalar attributes, whole or not
 * at all. Equal contents give equal bytes (no time stamps). */
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
    const char *const *channels; /* attribute `channels`, a line each; or NULL */
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
    const hdf5_attribute *attributes; /* of the root */
    int n_attributes;
} hdf5_contents;

/* Bytes that the file takes, a little above. */
uint64_t hdf5_file_bytes(const hdf5_contents *c);
/* Whether `need` bytes can be written there: its directory (made if missing), its permissions, the
 * space. Errors: DL_IO, DL_USAGE. */
bool hdf5_file_prepare(const char *path, uint64_t need, dl_error *err);
/* Whether the disk that `dir` lies on has room for `need` bytes, which `path` is to take. Errors:
 * DL_IO. */
bool hdf5_disk_check(const char *path, const char *dir, uint64_t need, dl_error *err);
/* Written whole or not at all (ir/base/output.h): a failure, or a request to stop (err stays
 * DL_OK), leaves nothing, and an older file whole. Errors: DL_IO, DL_USAGE. */
bool hdf5_file_write(const char *path, const hdf5_contents *c, const dl_console *console,
                     dl_error *err);
#endif
