/* Calls of the Fourier transform: writes its sizes, radices and table of twiddle factors as
 * constants. The loops are in compiler/cpu/kernels/fourier.c. */
#include <math.h>

#include "compiler/cpu/emit_cpu.h"
#include "ir/fourier.h"

/* Twiddle factors up to this size are one table; of larger sizes, products of two. */
enum { TABLE_MOST = 4096, STAGES_MOST = 32 };

/* exp(-2 pi i k / n), with exact zeros and ones. */
static void put_twiddle(dl_emitter *e, int64_t k, int64_t n, int digits) {
    int64_t quarter = 4 * k / n, rest = 4 * k - quarter * n; /* of n, in the quarter */
    double angle = M_PI / 2 * (double)rest / (double)n, c = cos(angle), s = sin(angle);
    const double re[] = {c, -s, -c, s}, im[] = {-s, -c, s, c};
    dl_putf(e->out, "%.*g, %.*g,", digits, re[quarter % 4], digits, im[quarter % 4]);
}

static void put_table(dl_emitter *e, const char *name, const char *type, int64_t count,
                      int64_t step, int64_t n) {
    int digits = strcmp(type, "float") == 0 ? 9 : 17;
    dl_putf(e->out, "static const %s %s_%s[] = {", type, DL_OWN_NAME, name);
    for (int64_t i = 0; i < count; i++) {
        if (i % 8 == 0) dl_puts(e->out, "\n    ");
        put_twiddle(e, i * step, n, digits);
    }
    dl_puts(e->out, "\n};\n");
}

/* Radices of the stages: fours, a two, then the odd primes; returns their number. */
static int find_radices(int64_t n, int64_t radix[STAGES_MOST]) {
    int stages = 0;
    for (; n % 4 == 0; n /= 4) radix[stages++] = 4;
    for (int64_t p = 2; n > 1; p++) {
        if (p * p > n) p = n;
        for (; n % p == 0; n /= p) radix[stages++] = p;
    }
    return stages;
}

bool dl_emit_fourier(dl_emitter *e, dl_emitted *code, dl_error *err) {
    enum { ITEM = 1 << 14 }; /* numbers of a work item */
    (void)err;
    dl_fourier f = dl_fourier_of(dl_kernel_call(e->k));
    bool wide = e->k->params.at[0].type.dtype == DL_F64;
    const char *type = wide ? "double" : "float", *suffix = wide ? "f64" : "f32",
               *name = DL_OWN_NAME;
    int64_t lanes = wide ? e->t->lanes / 2 : e->t->lanes, radix[STAGES_MOST];
    int64_t points = dl_fourier_is_real(f.mode) && f.size % 2 == 0 ? f.size / 2 : f.size;
    int stages = find_radices(points, radix), bits = 0;
    while ((int64_t)1 << 2 * bits < f.size && f.size > TABLE_MOST) bits++;
    if (bits)
        put_table(e, "coarse", type, dl_ceil_div(f.size, (int64_t)1 << bits), 1LL << bits, f.size);
    put_table(e, "fine", type, bits ? (int64_t)1 << bits : f.size, 1, f.size);
    dl_putf(e->out, "static const int %s_radix[] = {", name);
    for (int i = 0; i < stages; i++) dl_putf(e->out, "%lld, ", (long long)radix[i]);
    int64_t blocks = f.inner >= lanes ? f.outer * dl_ceil_div(f.inner, lanes)
                                      : dl_ceil_div(f.outer * f.inner, lanes);
    int64_t each = dl_at_least(1, ITEM / (f.size * lanes));
    dl_putf(e->out,
            "0};\nstatic const struct fourier_%s %s_shape = {.size = %lld, .points = %lld, "
            ".samples = %lld, .modes = %lld, .negative = %lld, .outer = %lld, .inner = %lld, "
            ".blocks = %lld, .each = %lld, .scale = %.17g, .mode = %d, .twice = %d, .stages = %d, "
            ".radix = %s_radix, .fine = %s_fine, ",
            suffix, name, (long long)f.size, (long long)points, (long long)f.samples,
            (long long)f.modes, (long long)f.negative, (long long)f.outer, (long long)f.inner,
            (long long)blocks, (long long)each, f.scale, (int)f.mode, f.twice, stages, name, name);
    if (bits) dl_putf(e->out, ".coarse = %s_coarse, .fine_bits = %d", name, bits);
    dl_puts(e->out, "};\n");
    dl_emit_phase(
        e, code, dl_ceil_div(blocks, each),
        dl_format(e->arena, "fourier_item_%s(&%s_shape, arg, item, scratch);", suffix, name));
    code->scratch = 2 * 2 * (f.size + 1) * lanes * (wide ? 8 : 4) + 64;
    code->needs[DL_NEED_LOOPS] |= DL_LOOPS_FOURIER;
    return true;
}
