/* How an operand of a kernel lies, for a device that copies boxes of it into shared memory by itself
 * (NVIDIA's tensor memory accelerator; PTX ISA: tensor maps). The driver makes a map of DL_MAP_BYTES of it
 * and of an address (cuTensorMapEncodeTiled, or cuTensorMapEncodeIm2col of images that windows slide over); a
 * kernel is launched with that. */
#ifndef DL_TENSOR_MAP_H
#define DL_TENSOR_MAP_H
#include "ir/type.h"

enum { DL_MAP_AXES = 5, DL_MAP_BYTES = 128, DL_MAP_ALIGN = 128, DL_MAP_MOST = 8 /* of a phase */ };
enum { DL_MAP_SPATIAL = 3, DL_MAP_BOX = 3 };

/* Axes begin with the one along which elements are neighbours. What of a box lies outside of `size` is zeros.
 * Of matrices (`windows` 0) there are three: a line's elements, lines, and matrices one behind the other.
 * Of images there are windows + 2: channels, W, H and D as far as they are there, and images one behind the
 * other. A box then is box[0] channels of box[1] pixels, one behind the other: from the one at which it
 * begins, `hop` steps along W, from the last one of a line on to the first of the next, and so through planes
 * and images; first and last are those at `low` and, of size[1 + i], at size[1 + i] - 1 + high. Offsets that
 * a copy gives are added to where all these lie. */
typedef struct {
    int param; /* the kernel's parameter */
    dl_dtype dtype;
    int swizzle;         /* bytes: 64 or 128, a line of a box */
    int windows;         /* spatial axes of an image, or 0 */
    int box[DL_MAP_BOX]; /* elements, or pixels */
    int low[DL_MAP_SPATIAL], high[DL_MAP_SPATIAL], hop[DL_MAP_SPATIAL]; /* from W on */
    int64_t offset;                /* bytes from where the parameter begins */
    int64_t size[DL_MAP_AXES];     /* elements */
    int64_t step[DL_MAP_AXES - 1]; /* bytes, of all axes but the first */
} dl_tensor_map;

/* The map of a device that is emulated: in place of what the driver writes, which nobody else can read. */
enum { DL_EMULATED_MAP = 0x706d /* `mark` of one that was made */ };
typedef struct {
    uint64_t address;
    int32_t mark, word, swizzle, box[DL_MAP_BOX]; /* word: bytes of an element */
    int64_t size[DL_MAP_AXES], step[DL_MAP_AXES - 1];
    int16_t low[DL_MAP_SPATIAL], high[DL_MAP_SPATIAL];
    uint8_t hop[DL_MAP_SPATIAL], windows;
} dl_emulated_map;
_Static_assert(sizeof(dl_emulated_map) <= DL_MAP_BYTES, "it stands where the driver's does");

static inline int dl_tensor_map_axes(int windows) { return windows ? windows + 2 : DL_MAP_BOX; }
/* The largest offset that a copy of an image can give along an axis (PTX ISA: im2col mode). */
static inline int dl_tensor_map_far(int windows) { return (1 << 16 / windows) - 1; }

/* Can such a map be made, as the driver demands (lines, planes and matrices begin at multiples of 16 bytes, a
 * box has at most 256 elements along each axis; of images, corners are of 16 bits divided by `windows`, hops
 * at most 8), of a parameter of which a kernel touches so many bytes? */
bool dl_tensor_map_fits(const dl_tensor_map *m, int64_t bytes);
/* The map of the emulated device, of an operand that begins at `address`. */
dl_emulated_map dl_tensor_map_emulated(const dl_tensor_map *m, uint64_t address);
#endif
