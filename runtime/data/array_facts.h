/* The metadata of one array of a file, for every format: name, shape, type, packing, attributes.
 * The formats fill it in (array_format.h), and a source is opened by it (array_file.h). Nothing
 * here reads a file. */
#ifndef DLR_ARRAY_FACTS_H
#define DLR_ARRAY_FACTS_H
#include "ir/base/arena.h"
#include "ir/base/str.h"
#include "runtime/data/number.h"

/* An attribute of an array: NetCDF's scale_factor, units and the like. */
typedef struct {
    const char *name;
    const char *text; /* a string, or the first number in decimal */
    double number;    /* the first number; NAN for text */
    /* All numbers, exactly, of an attribute that packing.h knows. None: the attribute is text, or
     * (`unread`) neither numbers nor text, or has more numbers than allowed. */
    const dlr_number *numbers;
    int n;
    bool unread;
} dlr_attribute;

/* Contents that are no numbers of ours; array_odd.c has a remedy for each. */
typedef enum {
    DLR_ODD_OTHER, /* without a remedy */
    DLR_ODD_COMPLEX,
    DLR_ODD_RECORDS,
    DLR_ODD_TEXT,
    DLR_ODD_TIMES,
    DLR_ODD_WIDE,    /* floats of more than 64 bits, decimal numbers */
    DLR_ODD_NUMBERS, /* that another program reads as they are */
    DLR_ODD_LISTS,
    DLR_ODD_DICTS,   /* records and maps, of which pandas makes dicts and pairs */
    DLR_ODD_OBJECTS, /* of Python, pickled */
    DLR_ODD_CELLS,   /* of MATLAB, as are: */
    DLR_ODD_STRUCTS,
    DLR_ODD_SPARSE,
    DLR_ODD_AXES, /* more than DLR_ARRAY_RANK */
    DLR_NODD
} dlr_odd;

typedef struct {
    const char *name; /* the path inside the file, without a leading slash; "" for the one array of
                         a .npy */
    const char *stored; /* the type as stored: "f32", "f64 BE", or a description of other types */
    dlr_element type;   /* the element type of its numbers; DLR_EL_NONE: not readable */
    dlr_odd odd;        /* of DLR_EL_NONE */
    int rank; /* more than DLR_ARRAY_RANK: `dims` has only so many sizes, and the array is not
                 readable */
    int64_t dims[DLR_ARRAY_RANK];
    bool chunked;
    int64_t chunk[DLR_ARRAY_RANK];
    const char *packing; /* "none", "deflate", "shuffle, deflate", ... */
    /* why it cannot be read and the remedy, as the end of "'Nbody' ..."; or NULL */
    const char *refused;
    /* Names of the axes: dimensions of NetCDF, dimension scales of HDF5, dimension_names of Zarr;
     * or NULL. */
    const char *axis[DLR_ARRAY_RANK];
    const dlr_attribute *attributes;
    int attribute_count;
    const dlr_attribute *fill; /* fill_value of Zarr 2, where it marks missing numbers; or NULL */
    bool default_fills; /* numbers that were never written hold NetCDF's default fill value of the
                           type */
} dlr_array_facts;

/* The attribute of that name, or NULL. */
const dlr_attribute *dlr_array_attribute(const dlr_array_facts *a, const char *name);
/* For formats that are no attributes' own: adds one, of at most DLR_ADDED. */
enum { DLR_ADDED = 8 };
void dlr_array_add_text(dl_arena *arena, dlr_array_facts *a, const char *name, const char *text);
void dlr_array_add_number(dl_arena *arena, dlr_array_facts *a, const char *name, double number);
/* The name of a type as stored: "i16", "i16 BE" where this machine must swap it. */
const char *dlr_array_stored(dl_arena *arena, dlr_element type, bool swapped);
/* The bytes of all its numbers; -1: more than can be counted. */
int64_t dlr_array_stored_bytes(const dlr_array_facts *a);
/* Refuses an array whose numbers begin at `at` and do not end within the file's `size` bytes. */
void dlr_array_must_end(dl_arena *arena, dlr_array_facts *a, int64_t at, int64_t size);
/* Writes "[4, 80, 80, 80] f32", for messages. */
void dlr_array_put_shape(dl_buf *out, const dlr_array_facts *a);
#endif
