/* Arrays of one element type to another. */
#ifndef DLR_CONVERT_H
#define DLR_CONVERT_H
#include "ir/type.h"

/* n elements. To a narrower float: the nearest, ties to even. Float to integer: towards zero, the
 * nearest representable when out of range, NaN to 0. To bool: whether it is not zero. */
void dlr_convert(dl_dtype to, void *out, dl_dtype from, const void *in, int64_t n);
#endif
