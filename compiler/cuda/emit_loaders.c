/* The operands of a GEMM as structs for kernels/contract.cu: each by its loader, and, with a NaN
 * fix-up, once more by the gather loader. */
#include "compiler/cuda/gather_loader.h"

void dl_gemm_put(dl_emitter *e, const dl_gemm_problem *p) {
    for (int i = 0; i < 2; i++) p->operand[i].loader->put(e, p, &p->operand[i]);
    for (int i = 0; i < 2; i++)
        if (p->fixes_nans && !dl_operand_is_read(&p->operand[i]))
            dl_operand_put_gather(e, p, &p->operand[i]);
}
