/* Halo kernels: tiles of an image's positions with their halos (kernels/contract_halo.cu). Finds
 * the contractions that support them and the size of the tiles, and writes the coordinates of a
 * tile's row in C. */
#ifndef DL_CUDA_HALO_H
#define DL_CUDA_HALO_H
#include "compiler/cuda/gemm_problem.h"

enum {
    DL_HALO_FRAGMENT = 256, /* bytes: CT_FRAGMENT, */
    DL_HALO_WARPS = 4       /* CT_HALO_WARPS */
};

/* Is x the image that is computed? Otherwise it is y. */
static inline bool dl_halo_makes_image(const dl_gemm_problem *p) {
    return dl_op_tensor(p->c->op, DL_RESULT_PLACE) == DL_TENSOR_X;
}
/* Can it be computed by tiles of so many positions? Finds them. */
bool dl_gemm_halo(const dl_gemm_problem *p, int rows, dl_halo *h);
/* The stride phase and coordinates of a row of the CTA; after them the test of its bounds. */
void dl_halo_put_row(dl_emitter *e, const dl_gemm_problem *p);
void dl_halo_put_test(dl_emitter *e, const dl_gemm_problem *p);
#endif
