/* The rule of Fourier transforms: torch.fft on complex views of pairs. Transforms with weights that
 * only gradients have are refused. */
#include "ir/fourier.h"
#include "exports/pytorch/parts.h"

/* Times the factor that torch.fft's transform without a norm lacks. */
static const char *scaled(torch_export *t, const char *s, double scale) {
    return scale == 1 ? s : dl_format(t->arena, "%s.mul(%.17g)", s, scale);
}

/* The modes that exist, 0, 1, ... and then the negative ones, of all modes. */
static const char *cut(torch_export *t, const char *s, const dl_fourier *f, int at) {
    long long negative = (long long)f->negative, modes = (long long)f->modes;
    if (f->modes == f->size) return s;
    if (!negative) return dl_format(t->arena, "%s.narrow(%d, 0, %lld)", s, at, modes);
    return dl_format(t->arena, "%s.roll(%lld, %d).narrow(%d, 0, %lld).roll(-%lld, %d)", s, negative,
                     at, at, modes, negative, at);
}

/* The inverse, of pairs: zeros between them. */
static const char *filled(torch_export *t, const char *s, const dl_fourier *f, int at, int rank) {
    if (f->modes == f->size) return s;
    const char *pad = "0, 0";
    for (int i = at + 1; i < rank - 1; i++) pad = dl_format(t->arena, "%s, 0, 0", pad);
    return dl_format(t->arena, "F.pad(%s.roll(%lld, %d), (%s, 0, %lld)).roll(-%lld, %d)", s,
                     (long long)f->negative, at, pad, (long long)(f->size - f->modes),
                     (long long)f->negative, at);
}

torch_text dl_torch_fourier(torch_export *t, const dl_node *n, const char *word) {
    (void)word;
    dl_fourier f = dl_fourier_of(n);
    const dl_type *x = &n->in[0]->type;
    int at = dl_type_axis(x, dl_node_name(n, DL_ATTR_axis));
    long long size = (long long)f.size, samples = (long long)f.samples;
    if (f.twice != (f.mode == DL_FOURIER_C2R)) return dl_torch_refuse(t, n, NULL);
    const char *s = dl_torch_within(t, dl_torch_tensor(t, n, 0), TORCH_ATOM);
    const char *pair = dl_format(t->arena, "torch.view_as_complex(%s.contiguous())",
                                 f.mode == DL_FOURIER_IFFT ? filled(t, s, &f, at, x->rank) : s);
    switch (f.mode) {
    case DL_FOURIER_R2C:
        s = dl_format(t->arena, "torch.fft.rfft(%s, %lld, %d)", s, size, at);
        if (f.modes < f.size / 2 + 1)
            s = dl_format(t->arena, "%s.narrow(%d, 0, %lld)", s, at, (long long)f.modes);
        break;
    case DL_FOURIER_C2R:
        s = dl_format(t->arena, "torch.fft.irfft(%s, %lld, %d, norm=\"forward\")", pair, size, at);
        break;
    case DL_FOURIER_FFT:
        s = dl_format(t->arena, "torch.fft.fft(%s, %lld, %d)", pair, size, at);
        s = cut(t, s, &f, at);
        break;
    case DL_FOURIER_IFFT:
        s = dl_format(t->arena, "torch.fft.ifft(%s, %lld, %d, norm=\"forward\")", pair, size, at);
        break;
    }
    if (!dl_fourier_makes_modes(f.mode) && f.samples < f.size)
        s = dl_format(t->arena, "%s.narrow(%d, 0, %lld)", s, at, samples);
    s = scaled(t, s, f.scale);
    return dl_torch_atom(t, f.mode == DL_FOURIER_C2R ? "%s" : "torch.view_as_real(%s)", s);
}
