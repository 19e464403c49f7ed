/* The discrete Fourier transform along one axis (op `fourier`), and its adjoint. A complex number
 * is a last axis Z of size 2: real part, imaginary part. All facts about it that shape rules,
 * gradient, interpreter, cost and emitters share are in this header.
 *
 * With n = `size`, s = `value`, and W = exp(-2 pi i / n):
 *
 *   fft   complex samples x -> modes   y[k] = s sum over t of x[t] W^(k t)
 *   ifft  complex modes x -> samples   y[t] = s sum over k of x[k] W^(-k t)
 *   r2c   real samples x -> modes 0 to n / 2, y[k] = s w[k] sum over t of x[t] W^(k t)
 *   c2r   such modes x -> real samples, y[t] = s sum over k of w[k] Re(x[k] W^(-k t))
 *
 * w[k] is 2 with `twice` for modes that have a conjugate partner (0 < 2 k < n), and otherwise 1:
 * c2r with `twice` is PyTorch's irfft, r2c without it is rfft. The imaginary parts of modes 0 and
 * n / 2 do not matter to c2r. The adjoint of r2c is c2r with the same weights, that of fft is ifft.
 *
 * Not all samples and modes need exist. Samples are the first of n, the others are zero. Modes are
 * 0, 1, ..., and after them the `-start` negative ones -|start|, ..., -1; the others are zero or
 * are not computed. `stop`: of a result of modes, the first mode that is not computed; of a result
 * of samples, their number. */
#ifndef DL_FOURIER_H
#define DL_FOURIER_H
#include "ir/graph.h"

typedef enum { DL_FOURIER_R2C, DL_FOURIER_C2R, DL_FOURIER_FFT, DL_FOURIER_IFFT } dl_fourier_mode;
enum { DL_FOURIER_ATTRS = 7, DL_FOURIER_MOST = 1 << 20 /* the largest size */ };

/* Operand and result are [outer, samples or modes, inner] of real or complex numbers. */
typedef struct {
    dl_fourier_mode mode;
    int64_t size, samples, modes;
    int64_t negative; /* of the modes; these come last */
    int64_t outer, inner;
    double scale;
    bool twice;
} dl_fourier;

/* The name of the axis of a complex number: "Z", interned. */
const char *dl_fourier_axis(void);
/* Is it a tensor of complex numbers: is Z=2 the last axis? */
bool dl_fourier_is_complex(const dl_type *t);
/* Does the mode compute modes from samples? Are its samples real? */
static inline bool dl_fourier_makes_modes(dl_fourier_mode m) {
    return m == DL_FOURIER_R2C || m == DL_FOURIER_FFT;
}
static inline bool dl_fourier_is_real(dl_fourier_mode m) {
    return m == DL_FOURIER_R2C || m == DL_FOURIER_C2R;
}
/* The attributes of a node; `negative` modes of those that it reads or computes. */
typedef struct {
    const char *axis;
    dl_fourier_mode mode;
    int64_t size, negative, stop;
    double scale;
    bool twice;
} dl_fourier_options;
void dl_fourier_attrs(const dl_fourier_options *o, dl_attr attrs[DL_FOURIER_ATTRS]);
extern const char *const dl_fourier_modes[]; /* their names in a node */
/* The number of a node's mode by its name; -1: it is none. */
int dl_fourier_find_mode(const dl_node *n);
/* The transform of a valid node. */
dl_fourier dl_fourier_of(const dl_node *n);
/* The number, among all of the transform, of the k-th mode that exists; the weight w of that
 * number. */
int64_t dl_fourier_number(const dl_fourier *f, int64_t k);
double dl_fourier_weight(const dl_fourier *f, int64_t number);
/* The attributes of the adjoint of a valid node. */
void dl_fourier_adjoint(const dl_node *n, dl_attr attrs[DL_FOURIER_ATTRS]);
/* 5 n log2 n for each complex line, half of it for a real one: the literature's convention. */
int64_t dl_fourier_flops(const dl_node *n);
#endif
