/* Boxes of an image's positions with their halos (kernels/contract_halo.cu): which contractions can
 * be made by them, how large the boxes are, and where a row of a box lies, as C text. */
#ifndef DL_CUDA_HALO_H
#define DL_CUDA_HALO_H
#include "compiler/cuda/emit_tiles.h"

enum {
    DL_HALO_FRAGMENT = 256, /* bytes: CT_FRAGMENT, */
    DL_HALO_WARPS = 4       /* CT_HALO_WARPS */
};

/* Axis i of three, of an image: the tensor's, or -1. */
static inline int dl_halo_axis(const dl_product *p, int i) {
    int own = i - (3 - p->c->windows.n);
    return own < 0 ? -1 : 2 + own;
}
/* Is the image that is made x? Else it is y. */
static inline bool dl_halo_makes_image(const dl_product *p) {
    return dl_op_tensor(p->c->op, DL_RESULT_PLACE) == DL_TENSOR_X;
}
/* Can it be made by boxes of so many positions with their halos? Which, then. */
bool dl_product_halo(const dl_product *p, int rows, dl_halo *h);
/* Of a row of a block, the parity and the coordinates that it counts; behind those the test that it
 * is there. */
void dl_halo_put_row(dl_emitter *e, const dl_product *p);
void dl_halo_put_test(dl_emitter *e, const dl_product *p);
#endif
