/* Winograd's F(2x2, 3x3) as a variant of a contraction's tiles: a convolution whose windows are 3 x
 * 3 with stride 1 along its last two axes multiplies 16 numbers for each 2 x 2 positions, where the
 * direct way multiplies 36. The gradient of its input is such a convolution, too: of dy, by the
 * weight with mirrored taps and exchanged channels. The gradient of its weight goes by the
 * transposed form F(3x3, 2x2): 16 products for the 9 taps at 2 x 2 positions of dy. A schedule
 * names it:
 *
 *   schedule tiles {phases=1, variant="winograd 2x2"}
 *
 * Results differ in their last bits from those of the direct way. An output depends on its own
 * window alone, and the taps of a plane on the two channels that they are of; but where a number
 * there is infinite it may be NaN, and numbers beyond a quarter of the largest may overflow in a
 * transform.
 * dl_interp_winograd (ir/interp/) has the error bound by which the interpreter judges it. */
#ifndef DL_WINOGRAD_H
#define DL_WINOGRAD_H
#include "ir/kernel/kernel.h"

/* A tile's products, for each channel of the input and of the output, and its output positions; and
 * taps of a plane. */
enum { DL_WINOGRAD_POINTS = 16, DL_WINOGRAD_MADE = 4, DL_WINOGRAD_TAPS = 9 };
extern const char dl_winograd_name[], dl_direct_name[]; /* variants, as schedules name them */

/* Can the kernel's contraction be computed so? A convolution of f32 in one group, the gradient of
 * its weight, or the gradient of the input of one that has stride 1 along all axes. */
bool dl_winograd_suits(const dl_kernel *k);
/* The sizes of such a contraction as a convolution: `in` and `c` are those of the image that is
 * read, `out` and `o` those of the result. Padding may be negative. */
dl_conv_sizes dl_winograd_sizes(const dl_relation *r);
/* Is it the gradient of an input? */
bool dl_winograd_mirrors(const dl_relation *r);
/* Does its schedule say so? */
bool dl_winograd_named(const dl_kernel *k);
/* The tiles of such a contraction: of all samples and planes of the result, or of dy. */
int64_t dl_winograd_tiles(const dl_kernel *k);
#endif
