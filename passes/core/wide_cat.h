/* Concatenations of many parts. */
#ifndef DL_WIDE_CAT_H
#define DL_WIDE_CAT_H
#include "ir/builder.h"

/* A kernel tests each element of a concatenation against all of its parts. So n parts, 16 at most,
 * are joined by one op `cat`, and more by several: first in groups of about the root of n, then
 * these groups, which costs each element twice the root of n tests instead of n. */
dl_value *dl_build_wide_cat(dl_builder *b, int n, dl_value *const *parts, const char *axis);
/* Are they so many that dl_build_wide_cat would need several ops? */
bool dl_cat_is_wide(int n);
#endif
