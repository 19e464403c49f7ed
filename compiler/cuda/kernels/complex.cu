/* Complex contractions (ir/complex.h): a thread computes a complex number of the result;
 * neighbouring threads have neighbouring modes. */
struct complex_axes {
    int n;
    int size[8];
    long stride[3][8];
};
struct complex_shape {
    long lanes, rows, columns, terms, count; /* count: numbers of the result */
    complex_axes batch, row, column, term;
    int conj_a, conj_b; /* factors of imaginary parts: 1 or -1 */
};
struct complex_place {
    long a, b, y;
};
INLINE complex_place complex_offsets(const complex_axes &axes, long i) {
    complex_place at = {0, 0, 0};
    for (int k = axes.n - 1; k >= 0; k--) {
        long j = i % axes.size[k];
        i /= axes.size[k];
        at.a += 2 * j * axes.stride[0][k], at.b += 2 * j * axes.stride[1][k];
        at.y += 2 * j * axes.stride[2][k];
    }
    return at;
}

template <class T>
INLINE void complex_contract(const complex_shape &s, const T *a, const T *b, T *y) {
    long i = (long)blockIdx.x * blockDim.x + kd_thread();
    if (i >= s.count) return;
    long lane = i % s.lanes, rest = i / s.lanes;
    complex_place column = complex_offsets(s.column, rest % s.columns);
    complex_place row = complex_offsets(s.row, rest / s.columns % s.rows);
    complex_place outer = complex_offsets(s.batch, rest / s.columns / s.rows);
    a += outer.a + row.a + 2 * lane, b += outer.b + column.b + 2 * lane;
    y += outer.y + row.y + column.y + 2 * lane;
    T re = 0, im = 0, ca = (T)s.conj_a, cb = (T)s.conj_b;
    for (long k = 0; k < s.terms; k++) {
        complex_place at = complex_offsets(s.term, k);
        T xr = a[at.a], xi = a[at.a + 1] * ca, wr = b[at.b], wi = b[at.b + 1] * cb;
        re += xr * wr - xi * wi, im += xr * wi + xi * wr;
    }
    y[0] = re, y[1] = im;
}
