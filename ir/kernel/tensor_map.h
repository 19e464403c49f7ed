/* Tensor maps for NVIDIA's tensor memory accelerator (TMA; PTX ISA: tensor maps), which copies
 * boxes of an operand into shared memory. From this description and an address the driver encodes
 * a map of DL_MAP_BYTES (cuTensorMapEncodeTiled, or cuTensorMapEncodeIm2col for the images of
 * convolutions). A kernel is launched with that map. */
#ifndef DL_TENSOR_MAP_H
#define DL_TENSOR_MAP_H
#include "ir/type.h"

enum {
    DL_MAP_AXES = 5,
    DL_MAP_BYTES = 128,
    DL_MAP_ALIGN = 128,
    DL_MAP_MOST = 8 /* the most maps of a phase */
};
enum { DL_MAP_SPATIAL = 3, DL_MAP_BOX = 3 };

/* The first axis is the contiguous one. Elements of a box outside of `size` are zeros.
 *
 * Matrices (`windows` 0) have three axes: a line's elements, lines, and the matrices of a batch.
 *
 * Images have windows + 2 axes: channels, W, H and D as far as they exist, and images. A box is
 * box[0] channels of box[1] pixels in sequence. It goes from its first pixel in steps of
 * `traversal` (the traversal stride) along W, from the last pixel of a line to the first of the
 * next, and so through planes and images. The first pixel along an axis is at `lower` (the lower
 * corner), the last one at size[1 + i] - 1 + upper. The offsets of a copy are added to all these
 * positions. */
typedef struct {
    int param; /* the kernel's parameter */
    dl_dtype dtype;
    int swizzle;         /* bytes: 64 or 128, the length of a box's line */
    int windows;         /* spatial axes of an image, or 0 */
    int box[DL_MAP_BOX]; /* elements, or pixels */
    int lower[DL_MAP_SPATIAL], upper[DL_MAP_SPATIAL], traversal[DL_MAP_SPATIAL]; /* from W on */
    int64_t offset;                /* bytes from the parameter's start */
    int64_t size[DL_MAP_AXES];     /* elements */
    int64_t step[DL_MAP_AXES - 1]; /* bytes, of all axes but the first */
} dl_tensor_map;

/* The map of an emulated device, in place of the driver's map, whose encoding is not public. */
enum { DL_EMULATED_MAP = 0x706d /* `mark` of a valid map */ };
typedef struct {
    uint64_t address;
    int32_t mark, word, swizzle, box[DL_MAP_BOX]; /* word: bytes of an element */
    int64_t size[DL_MAP_AXES], step[DL_MAP_AXES - 1];
    int16_t lower[DL_MAP_SPATIAL], upper[DL_MAP_SPATIAL];
    uint8_t traversal[DL_MAP_SPATIAL], windows;
} dl_emulated_map;
_Static_assert(sizeof(dl_emulated_map) <= DL_MAP_BYTES, "it stands where the driver's does");

static inline int dl_tensor_map_axes(int windows) { return windows ? windows + 2 : DL_MAP_BOX; }
/* The largest offset along an axis that a copy of an image can have (PTX ISA: im2col mode). */
static inline int dl_tensor_map_far(int windows) { return (1 << 16 / windows) - 1; }

/* Can the driver encode such a map for a parameter of which a kernel accesses `bytes` bytes?
 * Lines, planes and matrices must begin at multiples of 16 bytes, and a box has at most 256
 * elements along each axis. For images, corners have 16 bits divided by `windows`, and traversal
 * strides are at most 8. */
bool dl_tensor_map_fits(const dl_tensor_map *m, int64_t bytes);
/* The emulated device's map of an operand that begins at `address`. */
dl_emulated_map dl_tensor_map_emulated(const dl_tensor_map *m, uint64_t address);
#endif
