/* rfft, irfft, fft, ifft: Fourier transforms over one to three axes, each along one axis at a time
 * (ir/fourier.h). Norms and the order of modes are those of torch.fft. */
#include <math.h>

#include "frontends/dl/builtin.h"
#include "ir/fourier.h"

enum { MOST_AXES = 3, P_X = 0, P_OVER, P_NORM, P_MODES, P_SIZE };

typedef struct {
    dl_call *c;
    bool real, inverse;
    int n;
    const char *axis[DL_MAX_RANK];
    int64_t size[MOST_AXES];
    int64_t modes[MOST_AXES]; /* kept of each axis; of a complex one, as many of either sign */
    double scale;
} transform;

static bool bad(transform *t, int argument, const char *why) {
    dl_span at = t->c->given[argument] ? t->c->ast[argument]->span : t->c->where;
    dl_bad(t->c->E, at, DL_DIAG_bad_argument, "%s: %s", t->c->what->name, why);
    return false;
}

static bool is_real_axis(const transform *t, int i) { return t->real && i == t->n - 1; }

/* Does the transform of axis i keep some of the modes alone? */
static bool is_cut(const transform *t) { return t->c->given[P_MODES]; }

static bool find_axes(transform *t, dl_val x) {
    if (!dl_call_axes_of(t->c, P_OVER, x, &t->n, t->axis)) return false;
    if (t->n < 1 || t->n > MOST_AXES) return bad(t, P_OVER, "it works over one to three axes");
    for (int i = 0; i < t->n; i++)
        for (int k = 0; k < i; k++)
            if (t->axis[i] == t->axis[k]) return bad(t, P_OVER, "it works over an axis once");
    return true;
}

/* The sizes of the transform: of an inverse one, those of its result. */
static bool find_sizes(transform *t, dl_val x) {
    dl_call *c = t->c;
    int64_t given[MOST_AXES] = {0};
    bool sized = t->inverse && c->given[P_SIZE];
    if (is_cut(t) && !dl_call_window(c, P_MODES, t->n, 1, t->modes)) return false;
    if (sized && !dl_call_window(c, P_SIZE, t->n, 1, given)) return false;
    for (int i = 0; i < t->n; i++) {
        int64_t own = x.t->type.axis[dl_type_axis(&x.t->type, t->axis[i])].size;
        bool real = is_real_axis(t, i);
        int64_t kept = real ? t->modes[i] : 2 * t->modes[i];
        if (own < 1) return bad(t, P_X, dl_format(c->E->arena, "axis %s is empty", t->axis[i]));
        if (t->inverse && is_cut(t) && own != kept)
            return bad(t, P_MODES,
                       dl_format(c->E->arena, "axis %s has %lld modes, but `modes` says %lld",
                                 t->axis[i], (long long)own, (long long)kept));
        if (t->inverse && is_cut(t) && !real && !sized)
            return bad(t, P_MODES, "with `modes` it needs the size of the result: size=64");
        t->size[i] = sized ? given[i] : t->inverse && real ? 2 * (own - 1) : own;
        if (t->size[i] < 1)
            return bad(t, P_X, "one mode alone does not say the size of the result: give size=");
        if (t->size[i] > DL_FOURIER_MOST)
            return bad(t, sized ? P_SIZE : P_X,
                       dl_format(c->E->arena, "a size is at most %d", (int)DL_FOURIER_MOST));
        if (t->inverse && !is_cut(t) && !real && t->size[i] != own)
            return bad(t, P_SIZE,
                       dl_format(c->E->arena,
                                 "axis %s has %lld modes and cannot become %lld samples: give "
                                 "modes=, how many of either sign there are",
                                 t->axis[i], (long long)own, (long long)t->size[i]));
        int64_t most = real ? t->size[i] / 2 + 1 : t->size[i];
        if (is_cut(t) && kept > most)
            return bad(t, P_MODES,
                       dl_format(c->E->arena,
                                 "of %s=%lld there are %lld modes at most, and %lld are wanted",
                                 t->axis[i], (long long)t->size[i], (long long)most,
                                 (long long)kept));
    }
    return true;
}

static bool find_scale(transform *t) {
    const char *norm = t->c->given[P_NORM] ? t->c->arg[P_NORM].s : "backward";
    double all = 1;
    for (int i = 0; i < t->n; i++) all *= (double)t->size[i];
    if (strcmp(norm, "ortho") == 0)
        t->scale = 1 / sqrt(all);
    else if (strcmp(norm, "backward") == 0)
        t->scale = t->inverse ? 1 / all : 1;
    else if (strcmp(norm, "forward") == 0)
        t->scale = t->inverse ? 1 : 1 / all;
    else
        return bad(t, P_NORM,
                   dl_format(t->c->E->arena,
                             "norm is \"backward\", \"ortho\" or \"forward\", not \"%s\"", norm));
    return true;
}

/* More modes than a real line of this size has: the others are not read, as in torch.fft. */
static dl_val cut_modes(transform *t, int i, dl_val x) {
    int64_t most = t->size[i] / 2 + 1;
    if (x.t->type.axis[dl_type_axis(&x.t->type, t->axis[i])].size <= most) return x;
    return dl_tensor_slice(t->c->E, t->c->where, x, t->axis[i], 0, most);
}

static dl_val transform_axis(transform *t, int i, dl_val x, double scale) {
    bool real = is_real_axis(t, i);
    dl_fourier_options o = {.axis = t->axis[i], .size = t->size[i], .scale = scale};
    o.mode = real ? (t->inverse ? DL_FOURIER_C2R : DL_FOURIER_R2C)
                  : (t->inverse ? DL_FOURIER_IFFT : DL_FOURIER_FFT);
    o.twice = o.mode == DL_FOURIER_C2R;
    o.negative = is_cut(t) && !real ? t->modes[i] : 0;
    int64_t modes = is_cut(t) ? t->modes[i] : real ? t->size[i] / 2 + 1 : t->size[i];
    o.stop = t->inverse ? t->size[i] : modes;
    dl_attr attrs[DL_FOURIER_ATTRS];
    dl_fourier_attrs(&o, attrs);
    if (o.mode == DL_FOURIER_C2R) x = cut_modes(t, i, x);
    return dl_tensor_op(t->c->E, t->c->where, DL_OP_fourier, 1, &x, DL_FOURIER_ATTRS, attrs, NULL);
}

/* Real numbers have no axis Z, complex ones have it last. */
static bool check_numbers(transform *t, dl_val x) {
    const dl_type *type = &x.t->type;
    int at = dl_type_axis(type, dl_fourier_axis());
    if (t->real && !t->inverse ? at < 0 : dl_fourier_is_complex(type)) return true;
    dl_bad(t->c->E, t->c->where, DL_DIAG_axis_mismatch, "%s takes %s, not %s", t->c->what->name,
           t->real && !t->inverse ? "real numbers, without an axis Z"
                                  : "complex numbers, whose last axis is Z=2",
           dl_type_text(type));
    dl_note_tensor(t->c->E, x);
    if (!t->inverse && at < 0) dl_help(t->c->E, "of real numbers it is rfft");
    return false;
}

static dl_val apply(transform *t, dl_val x) {
    if (!check_numbers(t, x) || !find_axes(t, x) || !find_sizes(t, x) || !find_scale(t))
        return dl_poison();
    for (int i = 0; i < t->n; i++)
        if (t->axis[i] == dl_fourier_axis())
            return bad(t, P_OVER, "Z is the axis of a complex number's parts"), dl_poison();
    /* the real axis is the first of a forward transform, and the last of an inverse one */
    for (int k = 0; k < t->n && x.kind == DL_V_TENSOR; k++)
        x = transform_axis(t, t->inverse ? k : t->n - 1 - k, x, k ? 1 : t->scale);
    return x;
}

/* 16-bit floats are transformed in f32. */
static dl_val with_type(transform *t) {
    dl_val x = t->c->arg[P_X];
    if (!dl_call_float(t->c, &x)) return dl_poison();
    dl_dtype own = x.t->type.dtype;
    if (dl_dtype_is_half(own)) x = dl_tensor_cast(t->c->E, t->c->where, x, DL_F32);
    if (x.kind == DL_V_TENSOR) x = apply(t, x);
    return x.kind == DL_V_TENSOR && dl_dtype_is_half(own)
               ? dl_tensor_cast(t->c->E, t->c->where, x, own)
               : x;
}

dl_val dl_fn_rfft(dl_call *c) { return with_type(&(transform){.c = c, .real = true}); }
dl_val dl_fn_irfft(dl_call *c) {
    return with_type(&(transform){.c = c, .real = true, .inverse = true});
}
dl_val dl_fn_fft(dl_call *c) { return with_type(&(transform){.c = c}); }
dl_val dl_fn_ifft(dl_call *c) { return with_type(&(transform){.c = c, .inverse = true}); }
