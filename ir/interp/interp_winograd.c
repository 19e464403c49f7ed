/* The error bound of a convolution by Winograd's F(2x2, 3x3) (ir/kernel/winograd.h).
 *
 * Along one axis an output is a sum of m_i = (G g)_i (B d)_i. The sum of the magnitudes of all that
 * is added, |A| (|G| |g|) (|B| |d|), is a bilinear form in |g| and |d|, whose matrix is for the
 * first output
 *
 *   1 1 2
 *   0 1 1
 *   0 1 1
 *
 * and for the second one its mirror image. The square of its norm is 5 + sqrt(19). Along two axes
 * the norm is that square, and Cauchy and Schwarz give for all channels and planes of taps
 * 9.36 |w| |x|, where |x| is of the output's own window. The transforms add ten roundings: one
 * an axis of the inputs, two of the weights, two of the outputs. Halves are exact but for numbers
 * below the normal range. */
#include <float.h>
#include <math.h>

#include "ir/interp/interp_parts.h"
#include "ir/kernel/winograd.h"

enum { ROUNDINGS = 10, SIDE = 3 };
static const double norm = 9.3588989435406740; /* 5 + sqrt(19) */

/* by position: the sum over the channels of its squares */
static double *square_positions(dl_arena *arena, const dl_conv_sizes *s, const double *x) {
    int64_t points = s->in[0] * s->in[1] * s->in[2];
    double *to = DL_NEWS(arena, double, s->samples *points + 1);
    for (int64_t n = 0; n < s->samples; n++)
        for (int64_t c = 0; c < s->c; c++)
            for (int64_t i = 0; i < points; i++, x++) to[n * points + i] += *x * *x;
    return to;
}

/* The squares of the window of the result's position `at`. */
static double square_window(const dl_conv_sizes *s, const double *squares, const int64_t at[3]) {
    double sum = 0;
    for (int64_t i = 0; i < s->tap[0] * DL_WINOGRAD_TAPS; i++) {
        int64_t tap[3] = {i / DL_WINOGRAD_TAPS, i / SIDE % SIDE, i % SIDE}, place = 0;
        bool inside = true;
        for (int a = 0; a < 3; a++) {
            int64_t x = at[a] * s->stride[a] + tap[a] * s->dilation[a] - s->pad_lo[a];
            inside &= x >= 0 && x < s->in[a], place = place * s->in[a] + x;
        }
        if (inside) sum += squares[place];
    }
    return sum;
}

/* The bound of an output whose operands have these squares. */
static double slack_of(int64_t terms, double x, double w) {
    double least = (double)FLT_MIN * FLT_MIN * (double)terms * DL_WINOGRAD_POINTS;
    double size = norm * sqrt((x + least) * (w + least));
    bool fits = size <= (double)FLT_MAX && 4 * sqrt(x) <= (double)FLT_MAX &&
                4 * sqrt(w) <= (double)FLT_MAX; /* and is a number */
    return fits ? dl_sum_slack(DL_F32, terms, size, 0, 0) +
                      dl_sum_slack(DL_F32, ROUNDINGS - 1, size, 0, 0)
                : INFINITY;
}

void dl_interp_winograd(const dl_relation *r, const double *x, const double *w, double *slack) {
    const dl_conv_sizes s = dl_winograd_sizes(r);
    const bool mirrors = dl_winograd_mirrors(r);
    int64_t points = s.in[0] * s.in[1] * s.in[2], terms = s.c * s.tap[0],
            made = s.out[0] * s.out[1] * s.out[2];
    dl_arena *scratch = dl_arena_new(NULL);
    double *squares = square_positions(scratch, &s, x),
           *weights = DL_NEWS(scratch, double, s.o + 1);
    int64_t taps = s.tap[0] * DL_WINOGRAD_TAPS;
    for (int64_t i = 0; i < s.o * s.c * taps; i++)
        weights[mirrors ? i / taps % s.o : i / (s.c * taps)] += w[i] * w[i];
    for (int64_t n = 0; n < s.samples; n++)
        for (int64_t i = 0; i < made; i++) {
            int64_t at[3] = {i / (s.out[1] * s.out[2]), i / s.out[2] % s.out[1], i % s.out[2]};
            double window = square_window(&s, squares + n * points, at);
            for (int64_t o = 0; o < s.o; o++)
                slack[(n * s.o + o) * made + i] = slack_of(terms, window, weights[o]);
        }
    dl_arena_free(scratch);
}
