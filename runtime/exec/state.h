/* A run's variables: how they start, and how the host writes and reads them and a program's results.
 *
 * All work is done by the executor's threads, in tiles; not while a program runs. */
#ifndef DLR_STATE_H
#define DLR_STATE_H
#include "runtime/exec/exec_tensors.h"

/* Gives every variable but tables its start by its init rule; padding of layouts becomes zero. Random ones
 * are a function of (seed, the variable's name, the element's row-major number) alone, to the last bit: not
 * of layout, order, threads or machine (runtime/base/rng.h). They are drawn as floats; a wider variable holds
 * those floats. trunc_normal draws again, from another stream, each element that lies beyond two standard
 * deviations, until it does not. Of a variable that is a piece of a tensor the number is that in the whole:
 * the pieces of all ranks are what one rank draws. Errors: DL_RESOURCE (a random variable of more than 2^34
 * elements). */
bool dlr_state_init(dlr_exec *exec, uint64_t seed, dl_error *err);

/* Copies from or to a row-major buffer of dl_type_count(view.type) elements of type `dtype`, converting
 * (runtime/ convert.h) where the tensor holds another. */
void dlr_state_write(dlr_exec *exec, dlr_view to, dl_dtype dtype, const void *from);
void dlr_state_read(const dlr_exec *exec, dlr_view from, dl_dtype dtype, void *to);

/* The same for a part of the tensor, so that no buffer need hold a whole one: its elements first .. first + n
 * - 1, counted row-major, which are `from` or `to`. */
typedef struct {
    int64_t first, n;
} dlr_range;
void dlr_state_write_range(dlr_exec *exec, dlr_view to, dlr_range range, dl_dtype dtype, const void *from);
void dlr_state_read_range(const dlr_exec *exec, dlr_view from, dlr_range range, dl_dtype dtype, void *to);
/* The same by elements of the whole tensor that a view is of, which is of type dlr_state_whole: what of the
 * range lies in the view's piece is written or read, the rest of `to` stays as it is. */
dl_type dlr_state_whole(dlr_view view);
void dlr_state_write_whole(dlr_exec *exec, dlr_view to, dlr_range range, dl_dtype dtype, const void *from);
void dlr_state_read_whole(const dlr_exec *exec, dlr_view from, dlr_range range, dl_dtype dtype, void *to);
#endif
