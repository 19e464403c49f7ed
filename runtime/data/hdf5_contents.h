/* How a child process reads an HDF5 file's contents by libhdf5 (hdf5_facts.h, hdf5_virtual.h).
 * Private to hdf5_*.c.
 *
 * libhdf5 never follows a link that leads to another name or file: dlr_hdf5_follow does, step by
 * step, and leaves neither the folder of the file that was opened nor the path that it reports. */
#ifndef DLR_HDF5_CONTENTS_H
#define DLR_HDF5_CONTENTS_H
#include "ir/base/sandbox.h"
#include "runtime/data/hdf5_facts.h"

/* An object of a file, by a path without links to elsewhere. */
typedef struct {
    int64_t file;             /* a hid_t, which the holder closes */
    char in[DLR_HDF5_FILE];   /* the file, relative to the folder of the first; "": the first */
    char path[DLR_HDF5_NAME]; /* "": the root group */
} dlr_hdf5_place;

/* Opens the file `in` next to `main`, and leaves its root group in *out. False, with the reason as
 * the end of "a link to 'x.h5', which ...": it leads out of the folder, is not there, or no HDF5
 * file. */
bool dlr_hdf5_place_open(const char *main, const char *in, dlr_hdf5_place *out, char *why,
                         size_t room);
/* The file that is named in `from`, relative to the folder of the first. False: it lies elsewhere,
 * with the reason as above. */
bool dlr_hdf5_near(const char *from, const char *named, char in[DLR_HDF5_FILE], char *why,
                   size_t room);
/* Goes from a group of an open file along `path`, through links, and replaces *at by the end.
 * False, with the reason as the end of a sentence about the first link; *at is still to be closed.
 */
bool dlr_hdf5_follow(const char *main, dlr_hdf5_place *at, const char *path, char *why,
                     size_t room);

/* Writes a reason; false. */
bool dlr_hdf5_say(char *why, size_t room, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Fills in the attributes and names of axes of a set, whose other members are known. */
void dlr_hdf5_keep_attributes(int64_t object, dlr_hdf5_facts *facts, dlr_hdf5_set *set);
/* All data sets of a file, a sandbox's reader: `path`; the result's bytes are a dlr_hdf5_facts
 * (whose pointers mean nothing), its numbers, its attributes and its sets. */
bool dlr_hdf5_read_contents(void *path, dl_sandbox_result *out, dl_error *err);
#endif
