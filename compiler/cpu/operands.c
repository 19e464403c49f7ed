/* Operands of the hand-written loops: operands.h. */
#include "compiler/cpu/operands.h"

#include "ir/attention.h"

const char *dl_emit_element(dl_dtype d) {
    static const char *const names[DL_NDTYPES] = {
        [DL_F32] = "F32", [DL_F16] = "F16", [DL_BF16] = "BF16"};
    DL_CHECK(names[d]);
    return names[d];
}

const char *dl_emit_array(dl_emitter *e, int param) {
    return dl_format(e->arena, "(struct array){arg[%d], %s}", param,
                     dl_emit_element(e->k->params.at[param].type.dtype));
}

bool dl_cpu_pairs(const dl_kernel *k, const dl_target *t) {
    int anchor = dl_kernel_anchor(k);
    bool all = t->half_gemms >> DL_BF16 & 1;
    const dl_node *call = dl_kernel_call(k);
    if (anchor < 0)
        return all && call && dl_attention_is(call->op) && k->params.at[0].type.dtype == DL_BF16;
    const dl_kinstr *c = &k->instrs.at[anchor];
    for (int o = 0; o < 2; o++)
        for (int i = 0; i < c->nparts[o]; i++)
            all &= k->params.at[c->parts[o][i]].type.dtype == DL_BF16;
    return all;
}
