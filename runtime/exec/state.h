/* A run's variables: their initial values, and the host's reads and writes of variables and
 * results.
 *
 * The executor's threads do all work, in tiles; no program may run meanwhile. */
#ifndef DLR_STATE_H
#define DLR_STATE_H
#include "runtime/exec/exec_tensors.h"

/* Gives every variable but tables its initial value by its init rule; padding of layouts becomes
 * zero. Random values are a function of (seed, the variable's name, the element's row-major number)
 * alone, to the last bit, whatever the layout, order, threads or machine (runtime/base/rng.h). They
 * are drawn as floats; a wider variable holds those floats. trunc_normal redraws, from another
 * stream, each element beyond two standard deviations until it is within. The number of an element
 * of a piece is its number in the whole tensor: the pieces of all ranks together equal one rank's
 * draws. Errors: DL_RESOURCE (a random variable of more than 2^34 elements). */
bool dlr_state_init(dlr_exec *exec, uint64_t seed, dl_error *err);

/* Copies from or to a row-major buffer of dl_type_count(view.type) elements of type `dtype`,
 * converting (runtime/base/convert.h) where the tensor has another type. */
void dlr_state_write(dlr_exec *exec, dlr_view to, dl_dtype dtype, const void *from);
void dlr_state_read(const dlr_exec *exec, dlr_view from, dl_dtype dtype, void *to);

/* The same for a range of the tensor, so that no buffer must hold a whole one: `from` or `to` has
 * the elements first .. first + n - 1, counted row-major. */
typedef struct {
    int64_t first, n;
} dlr_range;
void dlr_state_write_range(dlr_exec *exec, dlr_view to, dlr_range range, dl_dtype dtype,
                           const void *from);
void dlr_state_read_range(const dlr_exec *exec, dlr_view from, dlr_range range, dl_dtype dtype,
                          void *to);
/* The same by elements of the whole tensor, of type dlr_state_whole, that a view is a piece of.
 * Elements of the range within the piece are written or read, and the rest of `to` is left
 * unchanged. */
dl_type dlr_state_whole(dlr_view view);
void dlr_state_write_whole(dlr_exec *exec, dlr_view to, dlr_range range, dl_dtype dtype,
                           const void *from);
void dlr_state_read_whole(const dlr_exec *exec, dlr_view from, dlr_range range, dl_dtype dtype,
                          void *to);
#endif
