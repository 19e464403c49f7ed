/* The HDF5 file of a simulation: `Nbody` f32 [4,L,L,L] and `Hydro` f32 [5,L,L,L], contiguous, in
 * the layout of the 3-D U-Net's loaders, with attributes that record its parameters. Equal inputs
 * give equal bytes (no time stamps). */
#ifndef DLDATA_VOLUME_FILE_H
#define DLDATA_VOLUME_FILE_H
#include "dldata/volumes.h"
#include "ir/base/console.h"

#define VOLUME_GENERATOR                                                                           \
    "dldata nbody" /* root attribute `generator`, by which our files are recognized */

/* Bytes that the file of L^3 volumes takes, slightly overestimated. */
uint64_t volume_file_bytes(int size);
/* Checks that the file can be written there: its directory (made if missing), its permissions, the
 * space. Errors: DL_IO, DL_USAGE. */
bool volume_file_prepare(const char *path, int size, dl_error *err);
/* Written whole or not at all (ir/base/output.h): a failure, or a request to stop (err stays
 * DL_OK), leaves nothing, and an older file whole. Errors: DL_IO, DL_USAGE, DL_RESOURCE. */
bool volume_file_write(const char *path, const nbody_setup *s, const float *nbody,
                       const float *hydro, const dl_console *console, dl_error *err);
#endif
