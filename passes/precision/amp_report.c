/* The effect of mixed precision on a fused graph, for people and scripts. */
#include "ir/kernel/kernel.h"
#include "passes/precision/amp.h"

/* Does the kernel load and store the same elements in the same order, and only convert between f32
 * and 16 bits? Such a cast was not fused. */
static bool only_casts(const dl_kernel *k) {
    bool casts = false;
    for (int i = 0; i < k->instrs.n; i++) {
        const dl_kinstr *in = &k->instrs.at[i];
        bool cast = in->kind == DL_K_ELEM && in->op == DL_OP_cast;
        if (in->kind != DL_K_LOAD && in->kind != DL_K_STORE && !cast) return false;
    }
    for (int i = k->nin; i < k->params.n; i++) {
        const dl_type *from = k->nin ? &k->params.at[0].type : NULL, *to = &k->params.at[i].type;
        if (!from || from->rank != to->rank || !dl_layout_same(from->layout, to->layout))
            return false;
        for (int a = 0; a < to->rank; a++)
            if (from->axis[a].size != to->axis[a].size) return false;
        casts |= dl_dtype_is_half(from->dtype) != dl_dtype_is_half(to->dtype);
    }
    return casts && k->nin == 1;
}

dl_amp_report dl_amp_report_of(const dl_graph *g) {
    dl_amp_report r = {0};
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        for (int k = 0; k < n->nout; k++) {
            const dl_type *t = &n->out[k].type;
            r.values[t->dtype]++, r.bytes[t->dtype] += dl_type_bytes(t);
            if (dl_dtype_is_half(t->dtype))
                r.saved += dl_type_bytes(t); /* two of four bytes for each element */
        }
        if (n->op == DL_OP_fused) r.cast_kernels += only_casts(n->kernel);
        for (int k = 0; n->op == DL_OP_fused && k < n->kernel->instrs.n; k++) {
            const dl_kinstr *in = &n->kernel->instrs.at[k];
            r.casts += in->kind == DL_K_ELEM && in->op == DL_OP_cast && dl_dtype_is_half(in->type);
            r.casts += in->kind == DL_K_STORE &&
                       dl_dtype_is_half(n->kernel->params.at[in->param].type.dtype);
        }
    }
    return r;
}
