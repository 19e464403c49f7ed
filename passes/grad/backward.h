/* Gradients of one value of a graph by another, for the op `grad`. */
#ifndef DL_BACKWARD_H
#define DL_BACKWARD_H
#include "ir/builder.h"

/* Appends nodes that compute the gradient of the scalar y by x, a float of any type: of x's type,
 * and 0 where y depends on x by no derivative. The nodes of the graph up to here are lowered. The
 * result can be differentiated again. NULL: *err has the op without a gradient. arena: scratch. */
dl_value *dl_build_gradient(dl_builder *b, dl_value *y, dl_value *x, dl_arena *arena,
                            dl_error *err);
#endif
