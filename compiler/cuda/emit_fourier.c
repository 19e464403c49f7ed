/* Calls of the Fourier transform: the sizes of kernels/fourier.cu. */
#include "compiler/cuda/emit_cuda.h"
#include "ir/fourier.h"

/* The numbers of a CTA's table and of its two buffers. */
static int64_t numbers_of(const dl_fourier *f, int64_t points, int64_t lines) {
    return f->size + 2 * lines * points;
}

bool dl_cuda_fourier(dl_emitter *e, int variant, dl_emitted *code, dl_error *err) {
    enum { SHARED = 48 << 10, NUMBERS = 1024, CTAS = 1024 };
    static const char *const modes[] = {"FOURIER_R2C", "FOURIER_C2R", "FOURIER_FFT",
                                        "FOURIER_IFFT"};
    (void)variant;
    dl_fourier f = dl_fourier_of(dl_kernel_call(e->k));
    bool wide = e->k->params.at[0].type.dtype == DL_F64;
    int64_t bytes = wide ? 16 : 8, count = f.outer * f.inner;
    int64_t points = dl_fourier_is_real(f.mode) && f.size % 2 == 0 ? f.size / 2 : f.size;
    int64_t lines = dl_ceil_div(NUMBERS, points), shared = 0;
    if (lines > count) lines = count ? count : 1;
    while (lines > 1 && numbers_of(&f, points, lines) * bytes > SHARED) lines--;
    int64_t memory = numbers_of(&f, points, lines) * bytes, ctas = dl_ceil_div(count, lines);
    if (memory <= dl_cuda_tile_room(e->t))
        shared = memory;
    else if (ctas > CTAS)
        ctas = CTAS;
    if (!dl_cuda_head(e, code, ctas, DL_BLOCK, shared, err)) return false;
    dl_putf(e->out,
            "    const fourier_shape s = {$%lld$, $%lld$, $%lld$, $%lld$, $%lld$, $%lld$, $%lld$, "
            "$%lldL$, $%lldL$, %.17g, %s};\n",
            (long long)f.size, (long long)points, (long long)f.samples, (long long)f.modes,
            (long long)f.negative, (long long)lines, (long long)ctas, (long long)f.inner,
            (long long)count, f.scale, f.twice ? "true" : "false");
    if (shared)
        dl_puts(e->out, "    KD_SHARED(char, memory);\n");
    else
        dl_putf(e->out, "    char *memory = workspace + (long)blockIdx.x * $%lldL$;\n",
                (long long)memory);
    dl_putf(e->out, "    fourier_lines<%s, %s>(s, $p0$, $p1$, memory);\n",
            wide ? "double" : "float", modes[f.mode]);
    dl_cuda_foot(e, code, DL_CUDA_TEMPLATE);
    if (!shared) code->workspace = ctas * memory;
    code->needs[DL_NEED_FOURIER] = 1;
    return true;
}
