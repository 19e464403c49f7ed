/* The facts of one array of a file, whatever its format: name, shape, type, packing, attributes.
 * The formats fill them in (array_format.h), and a source is opened by them (array_file.h). Nothing
 * here reads a file. */
#ifndef DLR_ARRAY_FACTS_H
#define DLR_ARRAY_FACTS_H
#include "ir/base/str.h"
#include "runtime/data/number.h"

/* An attribute of an array: NetCDF's scale_factor, units and the like. */
typedef struct {
    const char *name;
    const char *text; /* a string, or the first number in decimal */
    double number;    /* the first number; NAN for text */
    /* Of the attributes that packing.h knows: all numbers, exactly. None: it is text, or (`unread`)
     * neither numbers nor text, or more numbers than such an attribute may have. */
    const dlr_number *numbers;
    int n;
    bool unread;
} dlr_attribute;

typedef struct {
    const char *name; /* the path inside the file, without a leading slash; "" for the one array of
                         a .npy */
    const char *stored; /* the type as stored: "f32", "f64 BE", or words for what is no number */
    dlr_element type;   /* to which the numbers belong; DLR_EL_NONE: not readable */
    int rank; /* more than DLR_ARRAY_RANK: only so many sizes are here, and it is not readable */
    int64_t dims[DLR_ARRAY_RANK];
    bool chunked;
    int64_t chunk[DLR_ARRAY_RANK];
    const char *packing; /* "none", "deflate", "shuffle, deflate", ... */
    const char *refused; /* why it cannot be read and what would help, as the end of "'Nbody' ...";
                            or NULL */
    /* Names of the axes: NetCDF's dimensions and HDF5's dimension scales, dimension_names of Zarr;
     * or NULL. */
    const char *axis[DLR_ARRAY_RANK];
    const dlr_attribute *attributes;
    int attribute_count;
    const dlr_attribute
        *fill;          /* Zarr 2's fill_value, where it stands for missing numbers; or NULL */
    bool default_fills; /* numbers that NetCDF was not given hold its default fill value of the type
                         */
} dlr_array_facts;

/* The attribute of that name; NULL: there is none. */
const dlr_attribute *dlr_array_attribute(const dlr_array_facts *a, const char *name);
/* Writes "[4, 80, 80, 80] f32", for messages. */
void dlr_array_put_shape(dl_buf *out, const dlr_array_facts *a);
#endif
