/* What stored numbers stand for, by their attributes: the rules of the CF conventions, version 1.11
 * (2.5.1 missing data, 8.1 packed data), for HDF5, NetCDF-4 and Zarr alike.
 *
 *   value = stored * scale_factor + add_offset
 *
 * A stored number is missing, and its value NaN, where it is equal to _FillValue, to one of
 * missing_value, to Zarr 2's fill_value (where packing.c takes it for one), or, in NetCDF files
 * without a _FillValue, to the default fill of its type (none for bytes); and where it is outside
 * valid_min .. valid_max or valid_range. All of these are in the units of the stored numbers, and
 * are compared with them before they are scaled, in the stored type. _Unsigned (NetCDF's) is undone
 * first: integers are read as those of the other sign. */
#ifndef DLR_PACKING_H
#define DLR_PACKING_H
#include "runtime/data/array_file.h"

enum { DLR_MISSING = 16 /* numbers of missing_value, at most */ };

typedef struct {
    double scale, offset;
    dlr_element stored; /* in which blocks are read: the array's type; f32 for f16, u8 for bool */
    dlr_element type;   /* of the numbers after _Unsigned, as wide as `stored` */
    bool scaled;        /* there is a scale or an offset */
    bool any;           /* some number stands for another one, or for nothing */
    bool has_least, has_most;
    int n_missing;
    dlr_number missing[DLR_MISSING], least, most; /* of `type` */
} dlr_packing;

/* Whether it is one of the attributes above. */
bool dlr_packing_knows(const char *attribute);
/* The i-th of them; NULL after the last. */
const char *dlr_packing_attribute(int i);

/* The rules that an array's attributes make. To `warnings` (NULL: nowhere) goes a line each for
 * what has no effect, or an odd one: a fill value that is no number of the array's type, two of a
 * thing of which one is due, a scale of 0. Errors (DL_INPUT), as sentences that name array and
 * attribute: an attribute that is not the number (the two numbers) that it has to be. */
bool dlr_packing_of(const dlr_array_facts *facts, dlr_packing *out, dl_buf *warnings,
                    dl_error *err);

/* The same for loaders that have no key of configuration to name: warnings go to the log, with the
 * path. */
bool dlr_packing_open(const char *path, const dlr_array_facts *facts, dlr_packing *out,
                      dl_error *err);

/* The values of n numbers of type p->stored: NaN where they are missing. `to` is f32 or f64. */
void dlr_unpack(const dlr_packing *p, const void *stored, size_t n, dlr_element to, void *out);
/* Which of them are missing: 1, else 0. Numbers that are not finite are not missing by themselves.
 */
void dlr_mark_missing(const dlr_packing *p, const void *stored, size_t n, uint8_t *missing);

/* dlr_source_read of a block's values, as f32 or f64; also where p->any is false. */
bool dlr_packing_read(const dlr_packing *p, const dlr_source *s, const dlr_block *block,
                      dlr_element to, void *out, dl_error *err);
/* The same as whole numbers or bools (any type but floats), of an array that is not scaled: missing
 * numbers and those that are not finite become *other; where it is NULL, or another number is none
 * of the type, *bad is the place of the first such in the packed block, *is_missing which of the
 * two it is, *value the number, and the result false with no error set. */
bool dlr_packing_read_whole(const dlr_packing *p, const dlr_source *s, const dlr_block *block,
                            dlr_element to, void *out, const double *other, int64_t *bad,
                            bool *is_missing, double *value, dl_error *err);
#endif
