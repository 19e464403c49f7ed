/* The arrays of a file or folder, by name and whatever the format: what there is, and blocks of
 * their numbers.
 *
 * A file is opened to learn what it holds (dlr_array_file), one array of it to be read by any
 * number of threads (dlr_source). Nothing in a file is trusted: shapes, places and sizes are held
 * against it, and libhdf5 works in children with limits (sandbox.h). */
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
    bool more; /* it holds more than are listed */
    /* For the caller to set: numbers that lie in one run are read from the file mapped into memory,
     * without a system call for each few rows. A disk that fails then ends the process (SIGBUS). */
    bool mapped;
    dl_arena *arena;
    const void *state; /* of the format */
} dlr_array_file;

/* Errors name the path: DL_IO (missing, unreadable), DL_INPUT (damaged, or of no format that is
 * read). Forks, where it is HDF5: open files before devices and MPI are started. */
dlr_array_file *dlr_array_file_open(const char *path, dl_error *err);
void dlr_array_file_close(dlr_array_file *f);               /* NULL is fine */
const char *dlr_array_file_format(const dlr_array_file *f); /* "HDF5", "NumPy array", ... */
/* The array of that name; NULL or "" stands for the only one. NULL when it is not there. */
const dlr_array_facts *dlr_array_file_find(const dlr_array_file *f, const char *name);
/* Writes "Nbody [4, 80, 80, 80] f32, Hydro ..." (at most `most` of them), for messages. */
void dlr_array_file_put(dl_buf *out, const dlr_array_file *f, int most);

/* start, start + stride, ...: count numbers of each axis. A stride of 0 is 1. */
typedef struct {
    int64_t start[DLR_ARRAY_RANK], count[DLR_ARRAY_RANK], stride[DLR_ARRAY_RANK];
} dlr_block;

typedef struct dlr_source dlr_source;

/* Opens one array of a file, which may be closed afterwards. It keeps at most `cache` bytes of
 * unpacked chunks. Errors (DL_INPUT): facts->refused; DL_IO, DL_RESOURCE. Forks as above. */
dlr_source *dlr_source_open(const dlr_array_file *f, const dlr_array_facts *a, size_t cache,
                            dl_error *err);
void dlr_source_close(dlr_source *s); /* NULL is fine */

int dlr_source_rank(const dlr_source *s);
const int64_t *dlr_source_dims(const dlr_source *s);
dlr_element dlr_source_type(const dlr_source *s);
const char *dlr_source_label(const dlr_source *s); /* "path: 'Nbody'", for messages */
int64_t
dlr_source_held(const dlr_source *s); /* bytes of memory that it takes at most, in children too */
/* Whether a part of a chunk costs as much as the whole: read blocks as large as can be used. */
bool dlr_source_chunked(const dlr_source *s);

/* On paper reading a block only counts what it would ask of the file system (ir/base/file_calls.h),
 * and writes nothing: what of a set that libhdf5 alone can unpack is known so is the size of the
 * block. By one thread, while no other reads. */
void dlr_source_put_on_paper(dlr_source *s, bool on);
bool dlr_source_is_on_paper(const dlr_source *s);

/* Reads a block that lies within dims, packed (the last axis fastest), as numbers of type `to`
 * (dlr_elements_move says how; any but f16), for many threads at once. Errors (DL_INPUT): the data
 * are damaged, or a number is none of that whole type, with its place; DL_IO. */
bool dlr_source_read(const dlr_source *s, const dlr_block *block, dlr_element to, void *out,
                     dl_error *err);
#endif
