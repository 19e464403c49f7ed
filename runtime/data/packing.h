/* Packed numbers of NetCDF: what the stored ones stand for. */
#ifndef DLR_PACKING_H
#define DLR_PACKING_H
#include "runtime/data/array_file.h"

/* value = stored * scale + offset, and one or two stored numbers that stand for nothing (NaN: none). */
typedef struct {
    double scale, offset, missing[2];
    bool any; /* any of these */
} dlr_packing;

/* By the attributes scale_factor, add_offset, _FillValue and missing_value. */
dlr_packing dlr_packing_of(const dlr_array_facts *facts);
/* NAN for a number that stands for nothing. */
double dlr_unpack(const dlr_packing *p, double stored);
#endif
