/* What an HDF5 file holds: its data sets, their shapes, types and where their numbers lie.
 *
 * libhdf5 1.10 crashes, hangs or asks for any amount of memory on damaged files, so it reads them
 * in a sandboxed child (sandbox.h); this process only ever sees the facts below, already checked
 * against the file's size. */
#ifndef DLR_HDF5_FACTS_H
#define DLR_HDF5_FACTS_H
#include "ir/base/status.h"
#include "ir/base/str.h"
#include "runtime/data/number.h"

enum { DLR_HDF5_LZF = 32000 /* the filter that h5py registered */ };
enum {
    DLR_HDF5_SETS = 256,
    DLR_HDF5_FILTERS = 6,
    DLR_HDF5_ATTRIBUTES = 4096,
    DLR_HDF5_WHY = 400,
    DLR_HDF5_NUMBERS = 8192
};

typedef enum {
    DLR_HDF5_CONTIGUOUS, /* one run of bytes at `offset` */
    DLR_HDF5_CHUNKED,
    DLR_HDF5_COMPACT,  /* inside the metadata */
    DLR_HDF5_EMPTY,    /* declared, never written: every number is `fill` */
    DLR_HDF5_EXTERNAL, /* the numbers lie in other files */
    DLR_HDF5_VIRTUAL,  /* the numbers lie in other data sets */
    DLR_HDF5_LINK,     /* no data set, but a link to somewhere else */
    DLR_HDF5_CLOSED    /* libhdf5 cannot open it, or its attributes: `why` */
} dlr_hdf5_layout;

typedef struct dlr_hdf5_set {
    char name[128]; /* the path inside the file, without a leading slash */
    char type[16];  /* "f32", "f64", "i16", "u8", with " BE" behind it when the bytes are swapped;
                     * else  "strings", "complex numbers", "records" or "other" */
    dlr_hdf5_layout layout;
    int rank; /* more than DLR_ARRAY_RANK: only the first dimensions are in dims */
    int64_t dims[DLR_ARRAY_RANK], chunk[DLR_ARRAY_RANK];
    dlr_element element; /* that its numbers belong to; DLR_EL_NONE: they are none */
    bool plain;          /* they are stored as such, */
    bool swapped;        /* with their bytes in the order that is not this machine's */
    int64_t offset;      /* bytes from the file's begin; contiguous only */
    uint64_t stored;     /* bytes that it takes in the file, packed */
    int filter_count, filter[DLR_HDF5_FILTERS];
    bool cut_attributes; /* the file has more than DLR_HDF5_ATTRIBUTES: some of this set's are left
                            out */
    bool odd_edges;      /* chunked: those that reach beyond dims are not packed */
    char axis[DLR_ARRAY_RANK][32]; /* names of the axes, of their dimension scales; "" without */
    char fill[8];                  /* the number of what is not stored, as it would be stored */
    char why[DLR_HDF5_WHY];        /* of DLR_HDF5_CLOSED: the end of a sentence */
    bool has_fill;                 /* its writer asked for that number */
} dlr_hdf5_set;

/* An attribute of a set: a string, or its first number; of those that packing.h knows all numbers.
 * Longer names and strings are passed over. */
typedef struct {
    int set;
    bool is_text;
    bool unread; /* one that packing.h knows, of another kind or with too many numbers */
    char name[48], text[96];
    double number;
    int first, count; /* its numbers among all numbers of the facts */
} dlr_hdf5_attribute;

typedef struct {
    int64_t file_bytes;
    int n, attributes;
    bool more;   /* the file holds more data sets than fit here */
    bool netcdf; /* the NetCDF library wrote it */
    int numbers;
    dlr_number number[DLR_HDF5_NUMBERS];
    dlr_hdf5_attribute attribute[DLR_HDF5_ATTRIBUTES]; /* by rising set */
    dlr_hdf5_set set[DLR_HDF5_SETS];
} dlr_hdf5_facts;

/* The facts of a file; NULL with an error that names the path: DL_IO when it is missing or no
 * regular file, DL_INPUT when it is damaged or not HDF5. free() them. Forks: open files before
 * devices and MPI are started. */
dlr_hdf5_facts *dlr_hdf5_inspect(const char *path, dl_error *err);

/* One stored chunk of a set: its number along the grid of chunks (the last axis fastest), and where
 * it lies. */
typedef struct {
    int64_t index, at, bytes;
    uint32_t skipped; /* bit i: filter i was left out */
} dlr_hdf5_chunk;

/* The chunks of a chunked set by rising index, all within the file; free() them. NULL without an
 * error when there are more than are worth it (libhdf5 takes a time for each that grows with their
 * number), libhdf5's addresses do not count from the file's begin, or it does not say rightly where
 * they belong: then it must be asked for each. Errors and forks as above. */
dlr_hdf5_chunk *dlr_hdf5_chunks(const char *path, const dlr_hdf5_set *set, int *n, dl_error *err);

/* The attribute of that name of an open object (a hid_t), which packing.h knows: its text, or its
 * numbers, at most `most` of them, in `numbers`. False: there is none. */
bool dlr_hdf5_read_attribute(int64_t object, const char *name, dlr_hdf5_attribute *out,
                             dlr_number *numbers, int most);

/* For the children that call libhdf5 (sandbox.h), alone: it prints nothing and loads no plugins. */
void dlr_hdf5_quiet(void);
/* A file, opened by libhdf5 to read it, without locks: a hid_t, negative on failure. */
int64_t dlr_hdf5_open(const char *path);
/* Why the last libhdf5 call failed, in its own words. */
void dlr_hdf5_reason(char *text, size_t size);
/* Why the last call could not open a thing, as the end of a sentence of which it is the subject:
 * damaged, or written by a newer HDF5, of what version, and what helps. */
void dlr_hdf5_why_closed(char *text, size_t size);
/* Fills all of a set but its name and attributes; `data` is the hid_t of an open data set. */
void dlr_hdf5_describe(int64_t data, dlr_hdf5_set *set);
/* Where the numbers of a contiguous set begin, in bytes from the file's begin; false: they were
 * never written. */
bool dlr_hdf5_address(int64_t data, uint64_t *at);
#endif
