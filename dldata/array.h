/* The arrays of a data file, whatever its format, for `inspect`: what they are, and their numbers
 * as doubles. */
#ifndef DLDATA_ARRAY_H
#define DLDATA_ARRAY_H
#include "ir/base/str.h"
#include "runtime/data/packing.h"

enum { ARRAY_MAX_RANK = 8 };

typedef struct array array;
struct array {
    const char *name;    /* "Nbody", "group/set" */
    const char *type;    /* "f32", "u8", or words for what has no numbers to show */
    const char *storage; /* "contiguous", "chunks of [...]", ... */
    const char *labels;  /* attribute `channels`: one line a channel; or NULL */
    int rank;
    uint64_t dims[ARRAY_MAX_RANK], count;
    bool numeric, f32, contiguous;
    const char *unreadable; /* why its data are not read, or NULL */
    /* Reads the block [start, start + size) of each axis, row-major. Errors: DL_INPUT, DL_IO. */
    bool (*read)(const array *a, const uint64_t *start, const uint64_t *size, double *out,
                 dl_error *err);
    int64_t
        handle; /* of the format: HDF5's identifier, a file descriptor, or where the bytes are */
    uint64_t offset; /* of the data in the file, where contiguous */
    /* What the numbers stand for, by their attributes; NULL: for themselves. `read` gives what they
     * stand for, NaN where they are missing. */
    const dlr_packing *packing;
    const char *warnings; /* about these attributes, a line each; or NULL */
    int element;          /* npy: index into its table of types; pictures: elements a record */
};

typedef struct {
    const char *format; /* "HDF5", "NumPy array", ... */
    uint64_t bytes;
    DL_ARRAY(const char *) attributes; /* lines "name = value" */
    DL_ARRAY(array) arrays;
} array_file;

/* Fills packing and warnings by the attributes in `facts`; what is wrong with them makes it
 * unreadable. */
void array_take_packing(dl_arena *arena, array *a, const dlr_array_facts *facts);

/* These fill `f` in the arena and leave the file open for the life of the process (a sandbox's
 * child). Errors: DL_INPUT for what is no such file, is damaged, or refers outside itself; DL_IO.
 */
bool hdf5_open(dl_arena *arena, const char *path, array_file *f, dl_error *err);
bool npy_open(dl_arena *arena, const char *path, array_file *f, dl_error *err);
/* The same for .npz files and Zarr folders. */
bool source_open(dl_arena *arena, const char *path, array_file *f, dl_error *err);
/* The same for JPEG and CIFAR-10's binary layout, known by the bytes; what is neither is DL_INPUT.
 */
bool image_open(dl_arena *arena, const char *path, array_file *f, dl_error *err);
/* Opens by the file's first bytes. */
bool array_file_open(dl_arena *arena, const char *path, array_file *f, dl_error *err);

/* Appends the root attribute `generator` of an HDF5 file to `out`. Errors: DL_INPUT, DL_IO. */
bool hdf5_read_generator(const char *path, dl_buf *out, dl_error *err);
#endif
