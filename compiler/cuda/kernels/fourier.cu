/* Fourier transforms of lines (ir/fourier.h): a CTA has LINES lines in shared memory, or one in the
 * workspace, and goes through Stockham's stages with a barrier after each. Forward alone: an
 * inverse transform has real and imaginary parts exchanged on its way in and out. Real lines of
 * even size are transformed as half as many complex numbers. */
struct fourier_shape {
    int size, points; /* points: numbers of the complex transform: size, or half of it */
    int samples, modes, negative, lines;
    int ctas; /* each takes every ctas-th block of lines */
    long inner, count;
    double scale;
    bool twice;
};
enum { FOURIER_R2C, FOURIER_C2R, FOURIER_FFT, FOURIER_IFFT };

template <class T> struct fourier_number { T re, im; };
template <class T> INLINE fourier_number<T> operator*(fourier_number<T> a, fourier_number<T> b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class T> INLINE fourier_number<T> operator+(fourier_number<T> a, fourier_number<T> b) {
    return {a.re + b.re, a.im + b.im};
}
template <class T> INLINE fourier_number<T> operator-(fourier_number<T> a, fourier_number<T> b) {
    return {a.re - b.re, a.im - b.im};
}

/* exp(-2 pi i k / n), 0 <= k < n: Taylor series in the octant. */
template <class T> INLINE fourier_number<T> fourier_twiddle(long k, long n) {
    enum { TERMS = sizeof(T) == 8 ? 10 : 6 };
    long octant = 8 * k / n, rest = 8 * k - octant * n;
    T angle = (T)(octant & 1 ? n - rest : rest) / (T)n * (T)0.78539816339744830962;
    T square = angle * angle, c = 1, s = 1;
    for (int i = TERMS; i > 0; i--) {
        c = 1 - square / (T)((2 * i - 1) * (2 * i)) * c;
        s = 1 - square / (T)(2 * i * (2 * i + 1)) * s;
    }
    s *= angle;
    if ((octant + 1) & 2) {
        T other = c;
        c = s, s = other;
    }
    return {octant >= 2 && octant < 6 ? -c : c, octant >= 4 ? s : -s};
}

template <class T> struct fourier {
    typedef fourier_number<T> number;
    const fourier_shape &s;
    const number *twiddle; /* by k, of size */

    /* The index among all modes of mode number k in memory. */
    INLINE int mode_at(int k) const { return k < s.modes - s.negative ? k : s.size - s.modes + k; }
    INLINE static number at(const T *x, long i) { return {x[2 * i], x[2 * i + 1]}; }

    /* The part of mode k in the transform of a real line; its conjugate is mode size - k. */
    INLINE number half_of(const T *x, int k) const {
        if (k >= s.modes) return {0, 0};
        number a = at(x, k * s.inner);
        T scale = (T)s.scale;
        if (k == 0 || 2 * k == s.size) return {a.re * scale, 0};
        if (!s.twice) scale *= (T)0.5;
        return {a.re * scale, a.im * scale};
    }

    /* Number i of the complex transform's operand. */
    template <int MODE> INLINE number bring(const T *x, int i) const {
        if (MODE == FOURIER_R2C && s.points == s.size)
            return {i < s.samples ? x[i * s.inner] : 0, 0};
        if (MODE == FOURIER_R2C)
            return {2 * i < s.samples ? x[2 * i * s.inner] : 0,
                    2 * i + 1 < s.samples ? x[(2 * i + 1) * s.inner] : 0};
        if (MODE == FOURIER_FFT) {
            if (i >= s.samples) return {0, 0};
            number a = at(x, i * s.inner);
            return {a.re * (T)s.scale, a.im * (T)s.scale};
        }
        if (MODE == FOURIER_IFFT) {
            int k = i < s.modes - s.negative ? i : i - (s.size - s.modes);
            if (k < s.modes - s.negative && k != i) return {0, 0};
            number a = at(x, k * s.inner);
            return {a.im * (T)s.scale, a.re * (T)s.scale};
        }
        if (s.points == s.size) {
            bool upper = 2 * i > s.size;
            number a = half_of(x, upper ? s.size - i : i);
            return {upper ? -a.im : a.im, a.re};
        }
        number a = half_of(x, i), b = half_of(x, s.points - i), w = twiddle[i];
        number e = {a.re + b.re, a.im - b.im}, d = {a.re - b.re, a.im + b.im};
        number t = d * number{w.re, -w.im};
        return {e.im + t.re, e.re - t.im};
    }

    /* Number i of the result, from the transform z. */
    template <int MODE> INLINE void leave(const number *z, T *y, int i) const {
        if (MODE == FOURIER_C2R) {
            y[i * s.inner] = s.points == s.size ? z[i].im : i & 1 ? z[i / 2].re : z[i / 2].im;
            return;
        }
        number a = z[MODE == FOURIER_IFFT ? i : MODE == FOURIER_FFT ? mode_at(i) : i % s.points];
        if (MODE == FOURIER_IFFT) a = {a.im, a.re};
        if (MODE == FOURIER_R2C) {
            T scale = (T)s.scale;
            if (s.twice && i && 2 * i < s.size) scale *= 2;
            if (s.points != s.size) {
                number b = z[i ? s.points - i : 0], w = twiddle[i];
                number d = number{a.im + b.im, b.re - a.re} * w;
                a = {a.re + b.re + d.re, a.im - b.im + d.im};
                scale *= (T)0.5;
            }
            a = {a.re * scale, a.im * scale};
        }
        y[2 * i * s.inner] = a.re, y[2 * i * s.inner + 1] = a.im;
    }

    /* A butterfly of radix r: numbers `step` apart, results `apart` apart, times powers of a
     * twiddle factor. */
    INLINE void butterfly(const number *x, number *y, int r, int step, int apart, int by) const {
        if (r == 2) {
            y[0] = x[0] + x[step], y[apart] = (x[0] - x[step]) * twiddle[by];
            return;
        }
        if (r == 4) {
            number e = x[0] + x[2 * step], f = x[0] - x[2 * step], g = x[step] + x[3 * step],
                   h = x[step] - x[3 * step];
            h = {h.im, -h.re};
            y[0] = e + g, y[apart] = (f + h) * twiddle[by];
            y[2 * apart] = (e - g) * twiddle[2 * by], y[3 * apart] = (f - h) * twiddle[3 * by];
            return;
        }
        long one = s.size / r;
        for (int v = 0; v < r; v++) {
            number sum = x[0];
            for (int u = 1, k = v; u < r; u++) {
                sum = sum + x[u * step] * twiddle[k * one];
                k += v, k -= k >= r ? r : 0;
            }
            y[v * apart] = sum * twiddle[v * by];
        }
    }

    /* All lines' transforms; returns where they are: x or y. */
    INLINE number *transform(number *x, number *y) const {
        int n = s.points, apart = 1, step = s.size / s.points;
        for (int r = 4; n > 1;) {
            if (r == 4 && n % 4) r = 2;
            for (; n % r; r += r == 2 ? 1 : 2)
                if ((long)r * r > n) r = n - (n == 2 ? 1 : 2);
            int m = n / r, each = s.points / r;
            for (int b = kd_thread(); b < s.lines * each; b += blockDim.x) {
                int line = b / each, j = b % each, p = j / apart, q = j % apart;
                butterfly(x + line * s.points + q + apart * p,
                          y + line * s.points + q + apart * r * p, r, apart * m, apart,
                          p * apart * step);
            }
            __syncthreads();
            number *other = x;
            x = y, y = other;
            n = m, apart *= r;
        }
        return x;
    }

    template <int MODE>
    INLINE void block(const T *x, T *y, number *a, number *b, long first) const {
        enum { IN = MODE == FOURIER_R2C ? 1 : 2, OUT = MODE == FOURIER_C2R ? 1 : 2 };
        enum { MAKES_MODES = MODE == FOURIER_R2C || MODE == FOURIER_FFT };
        int in = MAKES_MODES ? s.samples : s.modes, out = MAKES_MODES ? s.modes : s.samples;
        fourier of_x = {s, twiddle};
        /* neighbouring threads take neighbouring numbers in memory */
        bool along = s.inner == 1;
        for (int i = kd_thread(); i < s.lines * s.points; i += blockDim.x) {
            int line = along ? i / s.points : i % s.lines, k = along ? i % s.points : i / s.lines;
            long l = first + line;
            if (l < s.count)
                a[line * s.points + k] = of_x.template bring<MODE>(
                    x + (l / s.inner * in * s.inner + l % s.inner) * IN, k);
        }
        __syncthreads();
        const number *z = transform(a, b);
        for (int i = kd_thread(); i < s.lines * out; i += blockDim.x) {
            int line = along ? i / out : i % s.lines, k = along ? i % out : i / s.lines;
            long l = first + line;
            if (l < s.count)
                leave<MODE>(z + line * s.points,
                            y + (l / s.inner * out * s.inner + l % s.inner) * OUT, k);
        }
        __syncthreads();
    }
};

/* A CTA's blocks of lines. `memory`: of the CTA, for the table of twiddle factors and two
 * buffers. */
template <class T, int MODE>
INLINE void fourier_lines(const fourier_shape &s, const T *x, T *y, char *memory) {
    typedef fourier_number<T> number;
    number *twiddle = (number *)memory, *a = twiddle + s.size, *b = a + s.lines * s.points;
    for (int k = kd_thread(); k < s.size; k += blockDim.x)
        twiddle[k] = fourier_twiddle<T>(k, s.size);
    __syncthreads();
    const fourier<T> f = {s, twiddle};
    for (long first = (long)blockIdx.x * s.lines; first < s.count; first += (long)s.ctas * s.lines)
        f.template block<MODE>(x, y, a, b, first);
}
