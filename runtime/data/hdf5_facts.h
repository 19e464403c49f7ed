/* The contents of an HDF5 file: its data sets, their shapes, types and where their numbers lie.
 *
 * libhdf5 1.10 crashes, hangs or requests any amount of memory on damaged files. It therefore reads
 * them in a sandboxed child (sandbox.h); this process only sees the facts below, already checked
 * against the file's size. */
#ifndef DLR_HDF5_FACTS_H
#define DLR_HDF5_FACTS_H
#include "ir/base/status.h"
#include "ir/base/str.h"
#include "runtime/data/array_facts.h"

enum { DLR_HDF5_LZF = 32000 /* the number of the filter that h5py registered */ };
enum {
    DLR_HDF5_SETS = 4096,
    DLR_HDF5_FILTERS = 6,
    DLR_HDF5_ATTRIBUTES = 65536,
    DLR_HDF5_WHY = 400,
    DLR_HDF5_NAME = 128, /* bytes of a path inside a file, */
    DLR_HDF5_FILE = 256, /* and of one between files */
    DLR_HDF5_NUMBERS = 65536
};

typedef enum {
    DLR_HDF5_CONTIGUOUS, /* contiguous bytes at `offset` */
    DLR_HDF5_CHUNKED,
    DLR_HDF5_COMPACT,  /* inside the metadata */
    DLR_HDF5_EMPTY,    /* declared, never written: every element is `fill` */
    DLR_HDF5_EXTERNAL, /* the numbers lie in other files */
    DLR_HDF5_VIRTUAL,  /* the numbers lie in other data sets */
    DLR_HDF5_LINK,     /* a link that is not followed: see `why` */
    DLR_HDF5_CLOSED    /* libhdf5 cannot open it, or its attributes: see `why` */
} dlr_hdf5_layout;

typedef struct dlr_hdf5_set {
    char name[DLR_HDF5_NAME]; /* as it is named in the file, without a leading slash */
    /* Where links lead: the file, relative to the folder of the first one ("": the first one), and
     * the path in it, which has no links. */
    char file[DLR_HDF5_FILE], path[DLR_HDF5_NAME];
    char type[16]; /* "f32", "f64", "i16", "u8", followed by " BE" when the bytes are swapped;
                      otherwise "strings", "complex numbers", "records" and the like */
    dlr_hdf5_layout layout;
    int rank; /* more than DLR_ARRAY_RANK: only the first dimensions are in dims */
    int64_t dims[DLR_ARRAY_RANK], chunk[DLR_ARRAY_RANK];
    dlr_element element; /* the element type of its numbers; DLR_EL_NONE: not numbers, but */
    int odd;             /* a dlr_odd */
    bool plain;          /* stored in that type without conversion, */
    bool swapped;        /* with bytes that are not in this machine's order */
    int64_t offset;      /* bytes from the file's begin; contiguous only */
    uint64_t stored;     /* packed bytes that it takes in the file */
    int filter_count, filter[DLR_HDF5_FILTERS];
    uint32_t missing;    /* bit i: libhdf5 lacks filter i */
    bool cut_attributes; /* some of this set's attributes are left out, because the file has more
                            than DLR_HDF5_ATTRIBUTES */
    bool odd_edges;      /* chunked: chunks that reach beyond dims are not packed */
    char axis[DLR_ARRAY_RANK][32]; /* names of the axes by their dimension scales; "": none */
    char fill[8];           /* the value of elements that are not stored, in its stored form */
    char why[DLR_HDF5_WHY]; /* of DLR_HDF5_CLOSED and DLR_HDF5_LINK: the end of a sentence */
    bool has_fill;          /* the writer set that value explicitly */
} dlr_hdf5_set;

/* An attribute of a set: a string, or its first number; all numbers if packing.h knows it.
 * Attributes with longer names or strings are skipped. */
typedef struct {
    int set;
    bool is_text;
    bool unread; /* packing.h knows it, but it has another kind or too many numbers */
    char name[48], text[96];
    double number;
    int first, count; /* its range in the facts' array of numbers */
} dlr_hdf5_attribute;

typedef struct {
    int n, attributes, numbers; /* sets, and so on: at most those above */
    bool more;                  /* the file holds more data sets than are listed */
    bool netcdf;                /* the NetCDF library wrote it */
    dlr_number *number;
    dlr_hdf5_attribute *attribute; /* by rising set */
    dlr_hdf5_set *set;
} dlr_hdf5_facts;

/* Appends the name of the file that holds a set's numbers; `main` was opened. */
void dlr_hdf5_put_file(dl_buf *out, const char *main, const dlr_hdf5_set *set);
/* Checks a set's facts, which come from an untrusted file: every string is terminated, every number
 * put in range, its numbers lie within its file, and that in the folder of `main`, which has
 * `main_bytes`. Errors: DL_INPUT, DL_IO. */
bool dlr_hdf5_check_set(dlr_hdf5_set *set, const char *main, int64_t main_bytes, dl_error *err);

/* The facts of a file, in the arena; NULL with an error that names the path: DL_IO when it is
 * missing or no regular file, DL_INPUT when it is damaged or not HDF5. It forks: open files before
 * devices and MPI are started. */
dlr_hdf5_facts *dlr_hdf5_inspect(dl_arena *arena, const char *path, dl_error *err);

/* One stored chunk of a set: its number along the grid of chunks (the last axis fastest), its
 * offset and its size. */
typedef struct {
    int64_t index, at, bytes;
    uint32_t skipped; /* bit i: filter i was not applied */
} dlr_hdf5_chunk;

/* The chunks of a chunked set, which `path` holds, by rising index, all within the file; the caller
 * frees them. NULL without an error where chunks must be requested one by one: there are too many
 * (libhdf5's time for each grows with their number), libhdf5's addresses do not count from the
 * file's begin, or it reports wrong coordinates. Errors and forks as above. */
dlr_hdf5_chunk *dlr_hdf5_chunks(const char *path, const dlr_hdf5_set *set, int *n, dl_error *err);

/* Reads the attribute of that name, which packing.h knows, of an open object (a hid_t): its text,
 * or at most `most` of its numbers into `numbers`. False: there is none. */
bool dlr_hdf5_read_attribute(int64_t object, const char *name, dlr_hdf5_attribute *out,
                             dlr_number *numbers, int most);

/* Prepares a child process (sandbox.h) for libhdf5: it prints nothing and loads no plugins. */
void dlr_hdf5_quiet(void);
/* Opens a file by libhdf5 for reading, without locks: a hid_t, negative on failure. */
int64_t dlr_hdf5_open(const char *path);
/* The reason why the last libhdf5 call failed, in libhdf5's words. */
void dlr_hdf5_reason(char *text, size_t size);
/* The reason why the last call could not open an object, as the end of a sentence of which it is
 * the subject: damaged, or (true) written by a newer HDF5, with the version. */
bool dlr_hdf5_why_closed(char *text, size_t size);
/* Fills all members of a set but its name and attributes; `data` is the hid_t of an open data
 * set. */
void dlr_hdf5_describe(int64_t data, dlr_hdf5_set *set);
/* Where the numbers of a contiguous set begin, in bytes from the file's begin; false: they were
 * never written. */
bool dlr_hdf5_address(int64_t data, uint64_t *at);
#endif
