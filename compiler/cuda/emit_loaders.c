/* The operands of a GEMM as structs for kernels/contract.cu: each by its loader, and, with a NaN
 * fix-up, once more by the loader that reads single elements of it. */
#include "compiler/cuda/loader.h"

const char *dl_operand_side(const dl_operand *o) { return o->is_left ? "left" : "right"; }

const char *dl_operand_words(const dl_operand *o) {
    if (!o->loader || !o->loader->words) return dl_operand_side(o);
    return o->is_left ? "left_words" : "right_words";
}

static const dl_loader *words_of(const dl_gemm_problem *p, const dl_operand *o) {
    return p->fixes_nans ? o->loader->words : NULL;
}

void dl_gemm_put(dl_emitter *e, const dl_gemm_problem *p) {
    for (int i = 0; i < 2; i++) p->operand[i].loader->put(e, p, &p->operand[i]);
    for (int i = 0; i < 2; i++) {
        const dl_loader *words = words_of(p, &p->operand[i]);
        if (words) words->put(e, p, &p->operand[i]);
    }
}

void dl_gemm_put_readers(dl_emitter *e, const dl_gemm_problem *p) {
    for (int i = 0; i < 2; i++) {
        const dl_operand *o = &p->operand[i];
        const dl_loader *words = words_of(p, o);
        o->loader->put_reader(e, o, dl_operand_side(o));
        if (words) words->put_reader(e, o, dl_operand_words(o));
    }
}
