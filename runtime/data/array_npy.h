/* NumPy's names of types and headers, for the formats that use them: .npy, .npz, Zarr v2. */
#ifndef DLR_ARRAY_NPY_H
#define DLR_ARRAY_NPY_H
#include "ir/base/npy.h"
#include "runtime/data/array_format.h"

/* The element type of NumPy's name such as "<f4", and whether its bytes must be swapped on this
 * machine; DLR_EL_NONE for types that are no numbers. */
dlr_element dlr_npy_element(const char *code, bool *swapped);
/* The contents of arrays of a type that is no number. */
dlr_odd dlr_npy_odd(const char *code);
/* Fills the metadata and the run of an array whose header was read, of a file or entry of `bytes`
 * bytes. Errors (DL_INPUT): the file is shorter than the array. */
bool dlr_npy_facts(dl_arena *arena, const dl_npy *header, uint64_t bytes, const char *path,
                   dlr_array_facts *a, dlr_run *run, dl_error *err);
#endif
