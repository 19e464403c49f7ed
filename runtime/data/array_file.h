/* The arrays of a file or folder, by name and whatever the format: their metadata, and blocks of
 * their numbers.
 *
 * dlr_array_file opens a file to list its contents; dlr_source opens one array, which any number of
 * threads may read. Nothing in a file is trusted: shapes, offsets and sizes are checked against the
 * file's size, and libhdf5 works in child processes with limits (sandbox.h). */
#ifndef DLR_ARRAY_FILE_H
#define DLR_ARRAY_FILE_H
#include "ir/base/status.h"
#include "runtime/data/array_facts.h"

typedef struct dlr_array_format dlr_array_format;
typedef struct {
    const char *path;
    const dlr_array_format *format;
    const dlr_array_facts *arrays; /* in the file's order */
    int n;
    bool more; /* the file has more arrays than are listed */
    /* Set by the caller: contiguous numbers are read from the file mapped into memory, without a
     * system call for every few rows. A disk that fails then ends the process (SIGBUS). */
    bool mapped;
    dl_arena *arena;
    const void *state; /* of the file's format */
} dlr_array_file;

/* Errors name the path: DL_IO (missing, unreadable), DL_INPUT (damaged, or of a format that is not
 * read). It forks for HDF5: open files before devices and MPI are started. */
dlr_array_file *dlr_array_file_open(const char *path, dl_error *err);
/* Whether a format of ours recognizes the file, whatever is in it. */
bool dlr_array_file_known(const char *path);
void dlr_array_file_close(dlr_array_file *f); /* NULL is fine */
/* Whether a file that begins so is NetCDF-3: classic, with 64-bit offsets, or with 64-bit data. */
bool dlr_is_netcdf3(const char head[4]);
/* The format's name: "HDF5", "NumPy array", ... */
const char *dlr_array_file_format(const dlr_array_file *f);
/* The array of that name; NULL or "" names the only one. NULL when it is not there. */
const dlr_array_facts *dlr_array_file_find(const dlr_array_file *f, const char *name);
/* Appends "Nbody [4, 80, 80, 80] f32, Hydro ..." (at most `most` arrays), for messages. */
void dlr_array_file_put(dl_buf *out, const dlr_array_file *f, int most);

/* The indices start, start + stride, ..., `count` of them, of each axis. A stride of 0 is 1. */
typedef struct {
    int64_t start[DLR_ARRAY_RANK], count[DLR_ARRAY_RANK], stride[DLR_ARRAY_RANK];
    const int *order; /* the axes as the result has them, slowest first; NULL: as they are named */
} dlr_block;

typedef struct dlr_source dlr_source;

/* Opens one array of a file, which may be closed afterwards. It keeps at most `cache` bytes of
 * unpacked chunks; or all of an array that is packed as a whole. Errors (DL_INPUT): facts->refused;
 * DL_IO, DL_RESOURCE. Forks as above. */
dlr_source *dlr_source_open(const dlr_array_file *f, const dlr_array_facts *a, size_t cache,
                            dl_error *err);
void dlr_source_close(dlr_source *s); /* NULL is fine */

int dlr_source_rank(const dlr_source *s);
const int64_t *dlr_source_dims(const dlr_source *s);
dlr_element dlr_source_type(const dlr_source *s);
const char *dlr_source_label(const dlr_source *s); /* "path: 'Nbody'", for messages */
/* most bytes of memory that it takes, in child processes, too */
int64_t dlr_source_held(const dlr_source *s);
/* Whether reading a part of a chunk costs as much as reading all of it: the caller should read the
 * largest useful blocks. */
bool dlr_source_chunked(const dlr_source *s);

/* Each block is read once: no unpacked chunks are kept. One thread calls it, before any reads. */
void dlr_source_keep_nothing(dlr_source *s);

/* A dry run: reading a block only counts its file system calls (ir/base/file_calls.h), and writes
 * nothing. For sets that only libhdf5 can unpack, the known count is the size of the block. One
 * thread may switch it, while no other reads. */
void dlr_source_put_on_paper(dlr_source *s, bool on);
bool dlr_source_is_on_paper(const dlr_source *s);

/* Reads a block that lies within dims, packed in the block's order, as numbers of type `to` (any
 * but f16; dlr_elements_move defines the conversion). Many threads may call it at once. Errors
 * (DL_INPUT): the data are damaged, or a number does not fit that whole type, with its index;
 * DL_IO. */
bool dlr_source_read(const dlr_source *s, const dlr_block *block, dlr_element to, void *out,
                     dl_error *err);
#endif
