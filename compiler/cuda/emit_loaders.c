/* The operands of a GEMM as structs for kernels/contract.cu: each by its loader, and, with a NaN
 * fix-up, once more by the gather loader. */
#include "compiler/cuda/gather_loader.h"

/* An operand loaded by TMA has as many parts as maps, also when threads gather it in a NaN
 * fix-up. */
static void put_operand(dl_emitter *e, const dl_gemm_problem *p, const dl_operand *own) {
    dl_operand of = *own, *o = &of;
    if (o->map >= 0) o->nparts = o->nmaps;
    const char *constants =
        dl_format(e->arena, "    enum { ALONG_K = %d, BYTES = %d, REUSED = %d };\n", o->along_k,
                  o->bytes, o->map < 0 && o->bytes == 16 && dl_operand_taps(p, o) > 1);
    dl_gemm_put_gather(e, p, o, dl_operand_gathered(o), constants, 1);
}

void dl_gemm_put(dl_emitter *e, const dl_gemm_problem *p) {
    for (int i = 0; i < 2; i++)
        (p->operand[i].strip     ? dl_gemm_put_strips
         : p->operand[i].map < 0 ? put_operand
         : p->operand[i].im2col  ? dl_gemm_put_tma_im2col
                                 : dl_gemm_put_tma_tiles)(e, p, &p->operand[i]);
    for (int i = 0; i < 2; i++)
        if (p->fixes_nans && !dl_operand_is_read(&p->operand[i])) put_operand(e, p, &p->operand[i]);
}
