/* Sorting along one axis (op `argsort`): the places of the elements in order, as i32. At place i of
 * the result's axis stands the index of the element that comes i-th. The smallest comes first, or
 * with `descending` the largest. NaN counts as the largest number, -0 and 0 are equal, and equal
 * elements keep their order, as in torch.sort with stable=True.
 *
 * Values in order are a gather of these places, whose gradient is a scatter by the same places.
 *
 * Emitters sort unsigned keys, whose order is that of the numbers, each with its index: keys of 32
 * bits for f32, i32 and 16-bit floats, of 64 bits for f64 and i64. */
#ifndef DL_SORT_H
#define DL_SORT_H
#include "ir/graph.h"

typedef struct {
    bool descending;
    int64_t outer, size, inner; /* elements in front of the axis, along it, after it */
} dl_sort;
/* The sort of a valid `argsort`. */
dl_sort dl_sort_of(const dl_node *n);
/* Bytes of a key. */
int dl_sort_key_bytes(dl_dtype type);
/* n log2 n comparisons for each line, the literature's bound. */
int64_t dl_sort_flops(const dl_node *n);
#endif
