/* How an operand of a kernel lies, for a device that copies boxes of it into shared memory by itself
 * (NVIDIA's tensor memory accelerator; PTX ISA: tensor maps). The driver makes a map of DL_MAP_BYTES of it
 * and of an address (cuTensorMapEncodeTiled); a kernel is launched with that. */
#ifndef DL_TENSOR_MAP_H
#define DL_TENSOR_MAP_H
#include "ir/type.h"

enum { DL_MAP_AXES = 3, DL_MAP_BYTES = 128, DL_MAP_ALIGN = 64, DL_MAP_MOST = 2 /* of a phase */ };

/* Axes begin with the one along which elements are neighbours: a line's elements, lines, and matrices one
 * behind the other. What of a box lies outside of `size` is zeros. */
typedef struct {
    int param; /* the kernel's parameter */
    dl_dtype dtype;
    int swizzle;                   /* bytes: 64 or 128, a line of a box */
    int box[DL_MAP_AXES];          /* elements */
    int64_t offset;                /* bytes from where the parameter begins */
    int64_t size[DL_MAP_AXES];     /* elements */
    int64_t step[DL_MAP_AXES - 1]; /* bytes from line to line, from matrix to matrix */
} dl_tensor_map;

/* The map of a device that is emulated: in place of what the driver writes, which nobody else can read. */
enum { DL_EMULATED_MAP = 0x706d /* `mark` of one that was made */ };
typedef struct {
    uint64_t address;
    int32_t mark, word, swizzle, box[DL_MAP_AXES]; /* word: bytes of an element */
    int64_t size[DL_MAP_AXES], step[DL_MAP_AXES - 1];
} dl_emulated_map;
_Static_assert(sizeof(dl_emulated_map) <= DL_MAP_BYTES, "it stands where the driver's does");

/* Can such a map be made, as cuTensorMapEncodeTiled demands (lines and matrices begin at multiples of 16
 * bytes, a box has at most 256 elements along each axis), of a parameter of which a kernel touches so many
 * bytes? */
bool dl_tensor_map_fits(const dl_tensor_map *m, int64_t bytes);
/* The map of the emulated device, of an operand that begins at `address`. */
dl_emulated_map dl_tensor_map_emulated(const dl_tensor_map *m, uint64_t address);
#endif
