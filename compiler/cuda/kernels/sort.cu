/* Sorting lines (ir/sort.h): the elements become unsigned keys, whose order is that of the numbers,
 * with their indices, which decide between equal keys. A CTA sorts SORT_TILE of them in shared
 * memory by a bitonic network (Batcher 1968). Longer lines are merged from sorted runs, a launch
 * for each doubling: a CTA makes a tile of the result, and finds its elements by a binary search of
 * both runs (merge path: Green, McColl and Bader 2012). E: elements.cu */
struct sort_shape {
    long lines, size, inner; /* all elements but the axis; along it; after it */
    long tiles;              /* of a line; where it is 1, a CTA has `per` lines, each in `room` */
    int per, room;           /* places of shared memory, a power of two */
    bool descending;
};
enum { SORT_TILE = 2048, SORT_THREADS = 256 };

template <class K> struct sort_entry {
    K key;
    unsigned at;
    INLINE bool before(const sort_entry &b) const {
        return key < b.key || (key == b.key && at < b.at);
    }
};

/* The key of a number. Every NaN has the largest one, and -0 that of 0. */
template <class K> INLINE K sort_key_of_bits(K u, K infinity) {
    const K top = (K)1 << (8 * sizeof(K) - 1);
    if ((K)(u << 1) > infinity) return ~(K)0;
    if ((K)(u << 1) == 0) return top;
    return u & top ? ~u : u | top;
}
INLINE unsigned sort_key(float v) { return sort_key_of_bits(__float_as_uint(v), 0xff000000u); }
INLINE unsigned long sort_key(double v) {
    return sort_key_of_bits((unsigned long)__double_as_longlong(v), 0xffe0000000000000ul);
}
/* Keys that are made already. */
template <class K> struct sort_keys {
    typedef long memory;
    struct number {
        K key;
    };
    static INLINE number get(const long *p, long i) { return {(K)p[i]}; }
};
template <class N> INLINE auto sort_key(N v) -> decltype(v.key) { return v.key; }
INLINE unsigned sort_key(int v) { return (unsigned)v ^ 0x80000000u; }
INLINE unsigned long sort_key(long v) { return (unsigned long)v ^ 0x8000000000000000ul; }

/* Sorts each `room` of `n` entries of shared memory, both powers of two. */
template <class K> INLINE void sort_bitonic(sort_entry<K> *v, int n, int room) {
    for (int size = 2; size <= room; size *= 2)
        for (int far = size / 2; far > 0; far /= 2) {
            __syncthreads();
            for (int i = kd_thread(); i < n / 2; i += SORT_THREADS) {
                const int low = 2 * i - (i & (far - 1)), high = low + far;
                const bool up = (low & (room - 1) & size) == 0;
                const sort_entry<K> a = v[low], b = v[high];
                if (b.before(a) == up) v[low] = b, v[high] = a;
            }
        }
    __syncthreads();
}

/* The CTA's tile, or its lines, sorted: as runs of `to` or, where `y` is not NULL, as places in it.
 * Places beyond the line's end come last, since their indices are larger. */
template <class E, class K>
INLINE void sort_tiles(const sort_shape &s, const typename E::memory *x, int *y, sort_entry<K> *to,
                       sort_entry<K> *v) {
    const long line = blockIdx.x / s.tiles * s.per, start = blockIdx.x % s.tiles * SORT_TILE;
    const int n = s.per * s.room;
    for (int i = kd_thread(); i < n; i += SORT_THREADS) {
        const long own = line + i / s.room, at = start + (i & (s.room - 1));
        K key = ~(K)0;
        if (own < s.lines && at < s.size) {
            key = sort_key(E::get(x, (own / s.inner * s.size + at) * s.inner + own % s.inner));
            if (s.descending) key = ~key;
        }
        v[i] = {key, (unsigned)at};
    }
    sort_bitonic(v, n, s.room);
    for (int i = kd_thread(); i < n; i += SORT_THREADS) {
        const long own = line + i / s.room, at = start + (i & (s.room - 1));
        if (own >= s.lines || at >= s.size) continue;
        if (!y)
            to[own * s.size + at] = v[i];
        else
            y[(own / s.inner * s.size + at) * s.inner + own % s.inner] = (int)v[i].at;
    }
}

/* How many of the first `d` entries of the merged runs are a's. */
template <class K>
INLINE long sort_split(const sort_entry<K> *a, long na, const sort_entry<K> *b, long nb, long d) {
    long low = d > nb ? d - nb : 0, high = d < na ? d : na;
    while (low < high) {
        const long middle = (low + high) / 2;
        if (a[middle].before(b[d - 1 - middle]))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
/* How many of n entries in order precede this one. */
template <class K> INLINE int sort_count(const sort_entry<K> *v, int n, const sort_entry<K> &of) {
    int low = 0;
    while (low < n) {
        const int middle = (low + n) / 2;
        if (v[middle].before(of))
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}

/* The CTA's tile of the merger of each two runs of `run` entries. */
template <class K>
INLINE void sort_merge(const sort_shape &s, long run, const sort_entry<K> *from, sort_entry<K> *to,
                       int *y, sort_entry<K> *v) {
    const long line = blockIdx.x / s.tiles, start = blockIdx.x % s.tiles * SORT_TILE,
               pair = start / (2 * run) * (2 * run), rest = s.size - pair;
    const long na = rest < run ? rest : run, nb = rest - na < run ? rest - na : run;
    const sort_entry<K> *a = from + line * s.size + pair, *b = a + na;
    const long d = start - pair, end = d + SORT_TILE < na + nb ? d + SORT_TILE : na + nb;
    const long a0 = sort_split(a, na, b, nb, d), a1 = sort_split(a, na, b, nb, end);
    const int n = (int)(end - d), own = (int)(a1 - a0), other = n - own;
    for (int i = kd_thread(); i < n; i += SORT_THREADS)
        v[i] = i < own ? a[a0 + i] : b[d - a0 + i - own];
    __syncthreads();
    for (int i = kd_thread(); i < n; i += SORT_THREADS) {
        const long at = start + (i < own ? i + sort_count(v + own, other, v[i])
                                         : i - own + sort_count(v, own, v[i]));
        if (!y)
            to[line * s.size + at] = v[i];
        else
            y[(line / s.inner * s.size + at) * s.inner + line % s.inner] = (int)v[i].at;
    }
}

/* begin[k]: the first of n entries in order whose key is k or more, for k up to `keys`. */
template <class K> INLINE void sort_begins(const sort_entry<K> *v, long n, long *begin, long keys) {
    const long k = (long)blockIdx.x * SORT_THREADS + kd_thread();
    if (k > keys) return;
    long low = 0;
    while (low < n) {
        const long middle = (low + n) / 2;
        if (v[middle].key < (K)k)
            low = middle + 1;
        else
            n = middle;
    }
    begin[k] = low;
}
