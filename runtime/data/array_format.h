/* What a format of arrays is, and the ways in which sources read: for array_*.c alone. */
#ifndef DLR_ARRAY_FORMAT_H
#define DLR_ARRAY_FORMAT_H
#include "ir/base/arena.h"
#include "runtime/data/array_file.h"

struct dlr_array_format {
    const char *name;
    /* Fills f->arrays and f->state, in f->arena. */
    bool (*list)(dlr_array_file *f, dl_error *err);
    /* Fills what is behind `held` of a source whose label, shape and type are set; `a` is readable.
     */
    bool (*open)(dlr_source *s, const dlr_array_file *f, const dlr_array_facts *a, size_t cache,
                 dl_error *err);
};
extern const dlr_array_format dlr_hdf5_format, dlr_npy_format, dlr_npz_format, dlr_zarr_format;

struct dlr_source {
    char *label;
    int rank;
    int64_t dims[DLR_ARRAY_RANK];
    dlr_element type;
    int64_t held;
    bool chunked, mapped;
    bool on_paper; /* reads are counted, and not made */
    /* The block is within dims and not empty, its strides are 1 at least. */
    bool (*read)(const dlr_source *s, const dlr_block *block, dlr_element to, void *out,
                 dl_error *err);
    void (*forget)(dlr_source *s); /* what is kept of the file; NULL: nothing is */
    void (*close)(dlr_source *s);  /* NULL: nothing is open */
    void *state;
};

/* Numbers that lie in one run in a file. */
typedef struct {
    int64_t offset; /* in bytes */
    bool swapped;   /* the bytes of a number are in the order that is not this machine's */
    bool fortran;   /* the first axis fastest */
} dlr_run;
/* The caller has held their end against the file's. */
bool dlr_run_open(dlr_source *s, const char *path, const dlr_run *run, dl_error *err);

/* Every number is `fill`, as it would be stored. */
bool dlr_fill_open(dlr_source *s, const char fill[8], bool swapped, dl_error *err);

/* Numbers in chunks that are unpacked by our threads. */
typedef struct dlr_chunking dlr_chunking;
struct dlr_chunking {
    int64_t chunk[DLR_ARRAY_RANK];
    bool swapped, fortran; /* as of a run */
    char fill[8]; /* the number that chunks have which are not stored, as it would be stored */
    /* Unpacks the chunk of that number (counted along the grid of chunks, the last axis fastest),
     * or says that it is not stored; for many threads at once. Of a source on paper it counts its
     * reads, and need not unpack. */
    bool (*load)(const dlr_source *s, const dlr_chunking *how, int64_t index, void *out,
                 bool *absent, dl_error *err);
    void (*close)(void *state); /* NULL: nothing is open */
    void *state;
};
/* Takes over how->state, also when it fails. Keeps at most `cache` bytes of unpacked chunks. */
bool dlr_chunks_open(dlr_source *s, const dlr_chunking *how, size_t cache, dl_error *err);

/* An HDF5 set that only libhdf5 can unpack (hdf5_child.c): `as` is the type in which it hands
 * numbers out. */
bool dlr_hdf5_child_open(dlr_source *s, const char *path, const char *set, dlr_element as,
                         size_t cache, dl_error *err);

/* The chunk that begins at `start` as it is packed, of a source opened by the above: in a buffer to
 * free, NULL where it is not stored. Bit i of `skipped`: filter i was left out. */
bool dlr_hdf5_child_chunk(const dlr_source *s, const int64_t *start, char **packed, size_t *bytes,
                          uint32_t *skipped, dl_error *err);
/* A chunked set, unpacked by our threads (hdf5_chunks.c). */
typedef struct dlr_hdf5_set dlr_hdf5_set;
bool dlr_hdf5_chunks_open(dlr_source *s, const char *path, const dlr_hdf5_set *set, size_t cache,
                          dl_error *err);

/* array_block.c: what all ways of reading share.
 *
 * Bytes to the next number along each axis of a packed block of that size. */
void dlr_packed_steps(int rank, const int64_t *count, size_t bytes, ptrdiff_t *step);
/* The error for the number at `bad` of a block that is none of the wanted type. */
bool dlr_refuse_number(const dlr_source *s, const dlr_block *block, const int64_t *bad,
                       double value, dlr_element to, dl_error *err);
#endif
