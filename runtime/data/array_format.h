/* The tables of array formats and of readers. Private to array_*.c. */
#ifndef DLR_ARRAY_FORMAT_H
#define DLR_ARRAY_FORMAT_H
#include "ir/base/arena.h"
#include "runtime/data/array_file.h"
#include "runtime/data/foreign_formats.h"

/* The begin of a file, by which its format is recognized. */
typedef struct {
    const char *path;
    bool folder;
    int fd; /* of a file that is open; -1: a folder */
    char bytes[DLR_FOREIGN_HEAD];
    size_t n; /* how many of its first bytes these are; the others are 0 */
} dlr_array_head;

struct dlr_array_format {
    const char *name;
    bool by_name; /* its files are known by their names: other formats' bytes count first */
    bool (*owns)(const dlr_array_head *h); /* Whether the file is of the format. */
    /* How Python reads an array, for remedies: modules, and an expression, in which IN stands for
     * the file and %s for "['NAME']". NULL: no remedy. */
    const char *modules, *load;
    /* Fills f->arrays and f->state, in f->arena. */
    bool (*list)(dlr_array_file *f, dl_error *err);
    /* Fills the source's members after `held`; its label, shape and type are set, and `a` is
     * readable. */
    bool (*open)(dlr_source *s, const dlr_array_file *f, const dlr_array_facts *a, size_t cache,
                 dl_error *err);
};
extern const dlr_array_format dlr_hdf5_format, dlr_npy_format, dlr_npz_format, dlr_zarr_format,
    dlr_netcdf3_format, dlr_nifti_format, dlr_fits_format, dlr_matlab_format, dlr_tiff_format,
    dlr_csv_format, dlr_parquet_format, dlr_grib_format;

/* array_odd.c: "Convert it: python3 -c ...", for an array of that format and name with such
 * contents; "" where there is no remedy. */
const char *dlr_convert_odd(dl_arena *arena, const dlr_array_format *format, const char *name,
                            dlr_odd odd);
/* The reason for a refusal, with that command after it. */
const char *dlr_add_remedy(dl_arena *arena, const dlr_array_format *format, const char *name,
                           dlr_odd odd, const char *why);
/* Refuses an array that holds no numbers, or has too many axes, with a remedy. */
void dlr_refuse_odd(dl_arena *arena, const dlr_array_format *format, dlr_array_facts *a);

/* array_head.c: opens a file and reads its first bytes; the caller closes h->fd, also on failure.
 * Errors: DL_IO. */
bool dlr_array_head_read(const char *path, dlr_array_head *h, dl_error *err);
/* Whether an open file is HDF5: for dlr_hdf5_format, with libhdf5 and without. */
bool dlr_owns_hdf5(const dlr_array_head *h);

struct dlr_source {
    char *label;
    int rank;
    int64_t dims[DLR_ARRAY_RANK];
    dlr_element type;
    int64_t held;
    bool chunked, mapped;
    bool on_paper; /* dry run: reads are counted, and not done */
    /* Reads a block that is within dims and not empty; its strides are at least 1. */
    bool (*read)(const dlr_source *s, const dlr_block *block, dlr_element to, void *out,
                 dl_error *err);
    void (*forget)(dlr_source *s); /* Drops what is cached of the file; NULL: nothing is. */
    void (*close)(dlr_source *s);  /* NULL: nothing is open */
    void *state;
};

/* A contiguous array in a file. */
typedef struct {
    int64_t offset; /* in bytes */
    bool swapped;   /* its bytes are not in this machine's order */
    bool fortran;   /* the first axis fastest */
    int64_t record; /* bytes from one index of the first axis to the next, where other arrays lie
                       between; 0: packed, as it is with `fortran` */
} dlr_run;
/* The caller has checked that it ends within the file. */
bool dlr_run_open(dlr_source *s, const char *path, const dlr_run *run, dl_error *err);

/* Every element is `fill`, in its stored form. */
bool dlr_fill_open(dlr_source *s, const char fill[8], bool swapped, dl_error *err);

/* Arrays in chunks that our threads unpack. */
typedef struct dlr_chunking dlr_chunking;
struct dlr_chunking {
    int64_t chunk[DLR_ARRAY_RANK];
    size_t spare;     /* bytes after a chunk that `load` may use */
    bool whole;       /* the array is one chunk, which may be as large as memory allows */
    bool swapped;     /* as in dlr_run */
    const int *order; /* the axes, the one that varies slowest first; NULL: as they are named */
    char fill[8];     /* the value of chunks that are not stored, in its stored form */
    /* Unpacks the chunk of that number (counted along the grid of chunks, the last axis fastest),
     * or reports that it is not stored. Many threads may call it at once. In a dry run it counts
     * its reads, and need not unpack. */
    bool (*load)(const dlr_source *s, const dlr_chunking *how, int64_t index, void *out,
                 bool *absent, dl_error *err);
    void (*close)(void *state); /* NULL: nothing is open */
    void *state;
};
/* An order in which the first axis varies fastest. */
const int *dlr_first_axis_fastest(int rank);
/* Takes ownership of how->state, also when it fails. Caches at most `cache` bytes of unpacked
 * chunks. */
bool dlr_chunks_open(dlr_source *s, const dlr_chunking *how, size_t cache, dl_error *err);

/* array_whole.c: an array that is one chunk, all of which how->load fills, and which is kept
 * however large it is. how->chunk and how->whole are set here; all else is as for dlr_chunks_open.
 */
bool dlr_whole_open(dlr_source *s, dlr_chunking *how, size_t cache, dl_error *err);

/* Bytes of a file that are packed with gzip, zlib or deflate (array_inflate.c). */
typedef struct {
    int64_t at, bytes; /* where they lie in the file */
    int64_t skip;      /* of an array: unpacked bytes before its numbers */
    bool raw;          /* deflate, without a header */
} dlr_packed;
/* Unpacks the bytes skip .. skip + n - 1 of a file that is open; *got (NULL: all must be there) are
 * as many of these as there are. `to_end`: the rest is unpacked, too, so that the checksum is held.
 * Errors: DL_INPUT (damaged), DL_IO, DL_RESOURCE. */
bool dlr_inflate(int fd, const char *path, const dlr_packed *from, bool to_end, void *out, size_t n,
                 size_t *got, dl_error *err);
/* An array whose numbers are such bytes; run->offset is not used. */
bool dlr_inflated_open(dlr_source *s, const char *path, const dlr_packed *from, const dlr_run *run,
                       size_t cache, dl_error *err);

/* An HDF5 set that only libhdf5 can unpack (hdf5_child.c): `as` is the type of the numbers that it
 * returns. */
bool dlr_hdf5_child_open(dlr_source *s, const char *path, const char *set, dlr_element as,
                         size_t cache, dl_error *err);

/* The packed chunk that begins at `start`, of a source opened by dlr_hdf5_child_open, in a buffer
 * that the caller frees; NULL where it is not stored. Bit i of `skipped`: filter i was not
 * applied. */
bool dlr_hdf5_child_chunk(const dlr_source *s, const int64_t *start, char **packed, size_t *bytes,
                          uint32_t *skipped, dl_error *err);
/* A chunked set, unpacked by our threads (hdf5_chunks.c). */
typedef struct dlr_hdf5_set dlr_hdf5_set;
bool dlr_hdf5_chunks_open(dlr_source *s, const char *path, const dlr_hdf5_set *set, size_t cache,
                          dl_error *err);

/* array_block.c: shared by all readers.
 *
 * Strides in bytes of a packed block of that size; `order`: as in dlr_block. */
void dlr_packed_steps(int rank, const int64_t *count, const int *order, size_t bytes,
                      ptrdiff_t *step);
/* Whether the block's result has its elements as a packed block in this order has them. */
bool dlr_block_is_ordered(const dlr_source *s, const dlr_block *block, const int *order);
/* A copy of the block's elements into its result: `from` and from_step are to be set. */
dlr_element_move dlr_block_move(const dlr_source *s, const dlr_block *block, dlr_element to,
                                void *out);
/* The error for the number at `bad` of a block that does not fit the wanted type. */
bool dlr_refuse_number(const dlr_source *s, const dlr_block *block, const int64_t *bad,
                       double value, dlr_element to, dl_error *err);
#endif
