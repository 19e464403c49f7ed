/* Linear scans (ir/scan.h), step after step. A thread has a line. Where elements follow the axis,
 * neighbouring threads read neighbours in memory. Otherwise a CTA of one warp brings SCAN_TILE
 * steps of its lines to shared memory, and each thread goes through its own line there. E:
 * elements.cu */
struct scan_shape {
    long lines, steps, inner;
    bool reverse, before;
};
enum { SCAN_TILE = 32 };

template <class E, bool FACTORS>
INLINE void scan_lines(const scan_shape &s, const typename E::memory *b,
                       const typename E::memory *a, typename E::memory *y) {
    long line = (long)blockIdx.x * blockDim.x + kd_thread();
    if (line >= s.lines) return;
    long next = s.reverse ? -s.inner : s.inner;
    long at = line / s.inner * s.steps * s.inner + line % s.inner;
    if (s.reverse) at += (s.steps - 1) * s.inner;
    typename E::number h = 0;
    for (long i = 0; i < s.steps; i++, at += next) {
        typename E::number v = E::get(b, at);
        if (!i)
            h = v;
        else if (FACTORS)
            h = E::get(a, s.before ? at - next : at) * h + v;
        else
            h += v;
        E::put(y, at, h);
    }
}

/* Lines without elements after the axis. `memory`: 1 + FACTORS tiles of SCAN_TILE rows. */
template <class E, bool FACTORS>
INLINE void scan_rows(const scan_shape &s, const typename E::memory *b,
                      const typename E::memory *a, typename E::memory *y,
                      typename E::number *memory) {
    typedef typename E::number T;
    enum { APART = SCAN_TILE + 1 };
    T *tile = memory, *factors = memory + SCAN_TILE * APART, h = 0;
    long first = (long)blockIdx.x * SCAN_TILE;
    int own = kd_thread(), lines = s.lines - first < SCAN_TILE ? (int)(s.lines - first) : SCAN_TILE;
    long next = s.reverse ? -1 : 1, lag = s.before ? -next : 0;
    for (long i = 0; i < s.steps; i += SCAN_TILE) {
        long at = first * s.steps + (s.reverse ? s.steps - 1 - i - own : i + own);
        if (i + own < s.steps)
            for (int line = 0; line < lines; line++) {
                long from = at + line * s.steps;
                tile[line * APART + own] = E::get(b, from);
                if (FACTORS) factors[line * APART + own] = i + own ? E::get(a, from + lag) : (T)0;
            }
        __syncthreads();
        for (int k = 0; own < lines && k < SCAN_TILE && i + k < s.steps; k++) {
            T *v = tile + own * APART + k;
            if (i + k == 0)
                h = *v;
            else if (FACTORS)
                h = factors[own * APART + k] * h + *v;
            else
                h += *v;
            *v = h;
        }
        __syncthreads();
        if (i + own < s.steps)
            for (int line = 0; line < lines; line++)
                E::put(y, at + line * s.steps, tile[line * APART + own]);
        __syncthreads();
    }
}
