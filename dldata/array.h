/* The arrays of a data file of any format, for `inspect`: their metadata, and their numbers as
 * doubles. */
#ifndef DLDATA_ARRAY_H
#define DLDATA_ARRAY_H
#include "ir/base/str.h"
#include "runtime/data/packing.h"

enum { ARRAY_MAX_RANK = 8 };

typedef struct array array;
struct array {
    const char *name;    /* "Nbody", "group/set" */
    const char *type;    /* "f32", "u8", or a description of types without numbers */
    const char *storage; /* "contiguous", "chunks of [...]", ... */
    const char *labels;  /* attribute `channels`: one line per channel; or NULL */
    const char *about;   /* names of axes, units and other attributes, lines; or NULL */
    const char *since;   /* units of time such as "hours since 1900-01-01"; or NULL */
    const char *axis[ARRAY_MAX_RANK]; /* names of the axes; NULL: none */
    int rank;
    uint64_t dims[ARRAY_MAX_RANK], count;
    bool numeric, f32, contiguous;
    const char *unreadable; /* why its data cannot be read, or NULL */
    /* Reads the block [start, start + size) of each axis, row-major. Errors: DL_INPUT, DL_IO. */
    bool (*read)(const array *a, const uint64_t *start, const uint64_t *size, double *out,
                 dl_error *err);
    void *handle;    /* its open source; of pictures: the file's bytes */
    uint64_t offset; /* pictures: of the data in a record */
    /* How stored numbers become values, by their attributes; NULL: they are the values. `read`
     * returns values, NaN where they are missing. */
    const dlr_packing *packing;
    const char *warnings; /* about these attributes, a line each; or NULL */
    int element;          /* pictures: elements of a record */
};

typedef struct {
    const char *format; /* "HDF5", "NumPy array", ... */
    uint64_t bytes;
    DL_ARRAY(const char *) attributes; /* lines "name = value" */
    DL_ARRAY(array) arrays;
} array_file;

/* Sets packing and warnings from the attributes in `facts`; a fault in them makes the array
 * unreadable. */
void array_take_packing(dl_arena *arena, array *a, const dlr_array_facts *facts);

/* Fills `f` in the arena, for all formats of runtime/data, and leaves its arrays open until
 * array_file_close. Errors: DL_INPUT for a file of another format, a damaged one, or one that
 * refers outside itself; DL_IO. */
bool source_open(dl_arena *arena, const char *path, array_file *f, dl_error *err);
/* The same for JPEG and CIFAR-10's binary format, recognized by the bytes; other files are
 * DL_INPUT. */
bool image_open(dl_arena *arena, const char *path, array_file *f, dl_error *err);
/* Selects the format by the file's first bytes. */
bool array_file_open(dl_arena *arena, const char *path, array_file *f, dl_error *err);
/* Closes its arrays, also after array_file_open has failed. */
void array_file_close(const array_file *f);

/* Adds the attributes of an HDF5 file, and the names of its arrays' channels. Errors: DL_INPUT,
 * DL_IO. */
bool hdf5_take_attributes(dl_arena *arena, const char *path, array_file *f, dl_error *err);

/* Appends the root attribute `generator` of an HDF5 file to `out`. Errors: DL_INPUT, DL_IO. */
bool hdf5_read_generator(const char *path, dl_buf *out, dl_error *err);
#endif
