/* The numbers of one data set of an HDF5 file, of four axes, as f32: by our own reads where they lie in one
 * run, through libhdf5 in a child elsewhere. */
#ifndef DLR_HDF5_SOURCE_H
#define DLR_HDF5_SOURCE_H
#include "runtime/data/hdf5_facts.h"

#include <stddef.h>

/* start .. start + count - 1 of each axis. */
typedef struct {
    int64_t start[4], count[4];
} dlr_block;

typedef struct dlr_reader dlr_reader;
/* A child process in which libhdf5 reads one data set: 2 GiB of memory, and for each block 20 s of processor
 * time and 80 s in all; it keeps `cache` bytes of unpacked chunks. `label` opens messages and must live as
 * long. Errors: DL_INPUT, DL_RESOURCE. */
dlr_reader *dlr_reader_open(const char *path, const char *set, const char *label, size_t cache,
                            dl_error *err);
/* Reads a block, packed, into `out`; for many threads, one at a time. Errors: DL_INPUT: the data are damaged,
 * or the child passed a limit (no later read succeeds then). */
bool dlr_reader_read(dlr_reader *r, const dlr_block *block, float *out, dl_error *err);
void dlr_reader_close(dlr_reader *r); /* NULL is fine */

typedef struct {
    int64_t dims[4];
    char *label;        /* "path: 'Nbody'", for messages */
    int fd;             /* our own reads: the numbers begin at `offset` */
    int64_t offset;     /* */
    dlr_reader *reader; /* NULL: our own reads */
    int64_t held;       /* bytes of memory that it takes at most, in its child */
} dlr_source;

/* Opens a data set: read at its offset when it is contiguous native f32, else by libhdf5 in a child with
 * limits (chunked, compressed, compact, other floats: slower, and one thread at a time), which keeps `cache`
 * bytes of chunks. Only `facts` decide. Errors (DL_INPUT): what cannot or may not be read, saying why and
 * what would help; other than four axes. */
bool dlr_source_open(dlr_source *s, const char *path, const dlr_hdf5_set *set, size_t cache, dl_error *err);
void dlr_source_close(dlr_source *s); /* zeroed is fine */

/* Own reads alone: n numbers that lie one behind the other, from number `first` of the set. */
bool dlr_source_run(const dlr_source *s, int64_t first, size_t n, float *out, dl_error *err);
/* A block within dims, packed; for many threads at once. */
bool dlr_source_block(const dlr_source *s, const dlr_block *block, float *out, dl_error *err);

/* Rows nearer than this are read in one call with the gap between them: a system call costs as much as
 * copying about this many bytes. */
enum { DLR_GAP_BYTES = 2048 };
#endif
