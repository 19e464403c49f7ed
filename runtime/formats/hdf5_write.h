/* Writes HDF5 files of contiguous data sets, in pieces of any order.
 *
 * It does not use libhdf5, which writes from one process to one place, crashes where it gets no
 * memory, and does not reveal where numbers will lie before it writes them. The headers follow the
 * HDF5 File Format Specification Version 3.0 (The HDF Group): superblock 2, object headers 2, links
 * and attributes in them. libhdf5 reads such files since 1.8. */
#ifndef DLR_HDF5_WRITE_H
#define DLR_HDF5_WRITE_H
#include "ir/base/arena.h"

#include <stddef.h>
#include <stdint.h>

/* Little-endian numbers. */
typedef enum {
    DLR_H5_F32,
    DLR_H5_F64,
    DLR_H5_I64,
    DLR_H5_TEXT /* for attributes: one string */
} dlr_h5_type;
enum { DLR_H5_RANK = 8, DLR_H5_ATTRIBUTE = 60000 /* most bytes of an attribute's value */ };

typedef struct {
    const char *name;
    dlr_h5_type type;
    int64_t n;        /* number of values, along one axis; -1: a scalar. TEXT: bytes */
    const void *data; /* doubles for F32, too */
} dlr_h5_attribute;

typedef struct {
    const char *name; /* a link of the root group: 1 to 255 bytes without '/' */
    dlr_h5_type type;
    int rank;
    int64_t dims[DLR_H5_RANK];
    const dlr_h5_attribute *attributes;
    int n_attributes;
} dlr_h5_set;

typedef struct dlr_h5_file dlr_h5_file;

/* Creates a file, whose numbers are zero where nothing is written (ir/base/output.h defines which
 * files may be replaced). Errors: dl_output_open's; DL_INPUT for names, values and sizes that such
 * a file cannot hold. */
dlr_h5_file *dlr_h5_open(const char *path, int n_sets, const dlr_h5_set *sets, int n_attributes,
                         const dlr_h5_attribute *attributes, dl_error *err);
/* Writes elements first .. first + n - 1 of a set, row-major. Errors: DL_IO. */
bool dlr_h5_write(dlr_h5_file *f, int set, int64_t first, int64_t n, const void *data,
                  dl_error *err);
/* Makes the file durable under its name and frees `f`. Errors: DL_IO. */
bool dlr_h5_commit(dlr_h5_file *f, dl_error *err);
void dlr_h5_discard(dlr_h5_file *f); /* NULL is fine */
#endif
