/* Calls of linear scans: the sizes of kernels/scan.cu. */
#include "compiler/cuda/emit_cuda.h"
#include "ir/scan.h"

const char *dl_cuda_elements(dl_dtype d) {
    static const char *const names[DL_NDTYPES] = {
        [DL_F32] = "plain_elements<float>", [DL_F64] = "plain_elements<double>",
        [DL_F16] = "f16_elements",          [DL_BF16] = "bf16_elements",
        [DL_I32] = "plain_elements<int>",   [DL_I64] = "plain_elements<long>"};
    return names[d];
}

bool dl_cuda_scan(dl_emitter *e, int variant, dl_emitted *code, dl_error *err) {
    enum { THREADS = 128, TILE = 32 }; /* TILE: SCAN_TILE */
    (void)variant;
    const dl_scan s = dl_scan_of(dl_kernel_call(e->k));
    dl_dtype type = e->k->params.at[0].type.dtype;
    const char *elements = dl_cuda_elements(type);
    bool rows = s.inner == 1;
    int64_t lines = s.outer * s.inner, bytes = type == DL_F64 || type == DL_I64 ? 8 : 4;
    int64_t shared = rows ? (1 + s.has_factors) * TILE * (TILE + 1) * bytes : 0;
    int threads = rows ? TILE : THREADS;
    if (!dl_cuda_head(e, code, s.steps ? dl_ceil_div(lines, threads) : 0, threads, shared, err))
        return false;
    dl_putf(e->out, "    const scan_shape s = {$%lldL$, $%lldL$, $%lldL$, %s, %s};\n",
            (long long)lines, (long long)s.steps, (long long)s.inner, s.reverse ? "true" : "false",
            s.before ? "true" : "false");
    if (rows) dl_puts(e->out, "    KD_SHARED(char, memory);\n");
    dl_putf(e->out,
            "    typedef %s elements;\n    scan_%s<elements, %s>(s, $p0$, $p%d$, $p%d$%s);\n",
            elements, rows ? "rows" : "lines", s.has_factors ? "true" : "false", s.has_factors,
            1 + s.has_factors, rows ? ", (elements::number *)memory" : "");
    dl_cuda_foot(e, code, 1);
    code->needs[DL_NEED_SCAN] = 1;
    return true;
}
