/* Calls of complex contractions: the sizes of kernels/complex.cu. */
#include "compiler/cuda/emit_cuda.h"
#include "ir/complex.h"

static void put_axes(dl_emitter *e, const dl_complex_axes *axes) {
    dl_putf(e->out, "{%d, {", axes->n);
    for (int i = 0; i < DL_MAX_RANK; i++)
        dl_putf(e->out, "%lld, ", i < axes->n ? (long long)axes->size[i] : 1);
    dl_puts(e->out, "}, {");
    for (int t = 0; t < DL_COMPLEX_TENSORS; t++) {
        dl_puts(e->out, "{");
        for (int i = 0; i < DL_MAX_RANK; i++)
            dl_putf(e->out, "%lld, ", i < axes->n ? (long long)axes->stride[t][i] : 0);
        dl_puts(e->out, "}, ");
    }
    dl_puts(e->out, "}},\n        ");
}

bool dl_cuda_complex(dl_emitter *e, int variant, dl_emitted *code, dl_error *err) {
    (void)variant;
    dl_complex_contract c = dl_complex_contract_of(dl_kernel_call(e->k));
    int64_t count = c.lanes * c.batch.count * c.rows.count * c.columns.count;
    if (!dl_cuda_head(e, code, dl_ceil_div(count, DL_BLOCK), DL_BLOCK, 0, err)) return false;
    dl_putf(e->out, "    const complex_shape s = {%lldL, %lldL, %lldL, %lldL, %lldL,\n        ",
            (long long)c.lanes, (long long)c.rows.count, (long long)c.columns.count,
            (long long)c.terms.count, (long long)count);
    put_axes(e, &c.batch), put_axes(e, &c.rows), put_axes(e, &c.columns), put_axes(e, &c.terms);
    dl_putf(e->out, "%d, %d};\n    complex_contract(s, $p0$, $p1$, $p2$);\n", c.conj[0] ? -1 : 1,
            c.conj[1] ? -1 : 1);
    dl_cuda_foot(e, code, DL_CUDA_TEMPLATE);
    code->needs[DL_NEED_FOURIER] = 2;
    return true;
}
