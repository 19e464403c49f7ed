/* Converts stored numbers to values by their attributes: the rules of the CF conventions, version
 * 1.11 (2.5.1 missing data, 8.1 packed data), for HDF5, NetCDF-4 and Zarr alike.
 *
 *   value = stored * scale_factor + add_offset
 *
 * A stored number is missing, and its value NaN, where it equals _FillValue, one of missing_value,
 * Zarr 2's fill_value (where packing.c uses it), or, in NetCDF files without a _FillValue, the
 * default fill value of its type (none for bytes). It is missing, too, outside of valid_min ..
 * valid_max or valid_range. All of these are in the units of the stored numbers, and are compared
 * with them before scaling, in the stored type. _Unsigned (NetCDF's) is applied first: integers are
 * reinterpreted with the other signedness. */
#ifndef DLR_PACKING_H
#define DLR_PACKING_H
#include "runtime/data/array_file.h"

enum { DLR_MISSING = 16 /* most numbers of missing_value */ };

typedef struct {
    double scale, offset;
    /* the type in which blocks are read: the array's type; f32 for f16, u8 for bool */
    dlr_element stored;
    dlr_element type; /* the type of the numbers after _Unsigned, as wide as `stored` */
    bool scaled;      /* there is a scale or an offset: */
    bool shifted;     /* whole numbers and a whole offset alone, as FITS has unsigned numbers */
    bool any;         /* some stored number differs from its value, or is missing */
    bool has_least, has_most;
    int n_missing;
    dlr_number missing[DLR_MISSING], least, most; /* of `type` */
} dlr_packing;

/* Whether it is one of the attributes above. */
bool dlr_packing_knows(const char *attribute);
/* The i-th of these attributes; NULL after the last. */
const char *dlr_packing_attribute(int i);

/* The rules from an array's attributes. `warnings` (NULL: none) gets a line for each attribute with
 * no effect, or an odd one: a fill value that is no number of the array's type, two attributes
 * where one is allowed, a scale of 0. Errors (DL_INPUT), as sentences that name array and
 * attribute: an attribute is not the number (or pair of numbers) that it must be. */
bool dlr_packing_of(const dlr_array_facts *facts, dlr_packing *out, dl_buf *warnings,
                    dl_error *err);

/* The same for loaders without a configuration key for messages: warnings go to the log, with the
 * path. */
bool dlr_packing_open(const char *path, const dlr_array_facts *facts, dlr_packing *out,
                      dl_error *err);

/* Unpacks n numbers of type p->stored to values: NaN where they are missing. `to` is f32 or f64. */
void dlr_unpack(const dlr_packing *p, const void *stored, size_t n, dlr_element to, void *out);
/* Marks the missing ones with 1, others with 0. A number that is not finite does not count as
 * missing. */
void dlr_mark_missing(const dlr_packing *p, const void *stored, size_t n, uint8_t *missing);

/* dlr_source_read with unpacking, to f32 or f64; also where p->any is false. */
bool dlr_packing_read(const dlr_packing *p, const dlr_source *s, const dlr_block *block,
                      dlr_element to, void *out, dl_error *err);
/* The same to whole numbers or bools (any type but floats), of an array that is not scaled, or
 * shifted. Missing
 * numbers and those that are not finite become *other. Where `other` is NULL, or another number
 * does not fit the type, the result is false with no error set: *bad is the index of the first such
 * number in the packed block, *is_missing which of the two cases it is, *value the number. */
bool dlr_packing_read_whole(const dlr_packing *p, const dlr_source *s, const dlr_block *block,
                            dlr_element to, void *out, const double *other, int64_t *bad,
                            bool *is_missing, double *value, dl_error *err);
#endif
