/* Behind prelude.cu, in front of kernels without a contraction: points that lie side by side in memory, and
 * reductions over threads that stand in a table of groups. */

/* N elements, loaded or stored at once; indexed by the place of any of them, where the first one's is a
 * multiple of N, a power of two. Their addresses are multiples of their size, or of 16 bytes. */
template <class T, int N> struct lot {
    enum { BYTES = N * (int)sizeof(T), WORDS = 16 / (int)sizeof(T) };
    alignas(BYTES < 16 ? BYTES : 16) T at[N];
    INLINE T &operator[](long i) { return at[i & (N - 1)]; }
    INLINE T &operator[](int i) { return at[i & (N - 1)]; }
    INLINE void load(const T *p) {
        if constexpr (BYTES < 16) {
            kd_few<BYTES> v = kd_load_few<BYTES>(p);
            __builtin_memcpy(at, &v, BYTES);
        } else {
#pragma unroll
            for (int i = 0; i < BYTES / 16; i++) {
                kd_words w = kd_load16(p + i * WORDS);
                __builtin_memcpy(at + i * WORDS, &w, 16);
            }
        }
    }
    INLINE void store(T *p) const {
        if constexpr (BYTES < 16) {
            kd_few<BYTES> v;
            __builtin_memcpy(&v, at, BYTES);
            kd_store_few(p, v);
        } else {
#pragma unroll
            for (int i = 0; i < BYTES / 16; i++) {
                kd_words w;
                __builtin_memcpy(&w, at + i * WORDS, 16);
                kd_store16(p + i * WORDS, w);
            }
        }
    }
};

/* Over the threads that lie `groups` apart, a power of two: N values of each at once, each for itself; every
 * thread of the block calls it and knows its group's results. In one fixed order. */
template <class BY, int THREADS, class T, int N> INLINE void group_reduce_lot(T (&v)[N], int groups) {
    __shared__ T parts[N * THREADS];
#pragma unroll
    for (int j = 0; j < N; j++) parts[j * THREADS + threadIdx.x] = v[j];
    __syncthreads();
#pragma unroll 1
    for (int apart = THREADS / 2; apart >= groups; apart /= 2) {
        T *const own = parts + threadIdx.x;
        if ((int)threadIdx.x < apart) {
#pragma unroll
            for (int j = 0; j < N; j++) own[j * THREADS] = BY::of(own[j * THREADS], own[j * THREADS + apart]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int j = 0; j < N; j++) v[j] = parts[j * THREADS + ((int)threadIdx.x & (groups - 1))];
    __syncthreads(); /* the next call may write parts */
}
/* Over a group of LANES threads, a power of two or the whole block of THREADS; every thread of the block calls
 * it and knows its group's result. A group's threads are neighbours, or, ACROSS, lie THREADS / LANES apart.
 * In one fixed order. */
template <class BY, int THREADS, int LANES, bool ACROSS, class T> INLINE T group_reduce(T v) {
    enum { GROUPS = THREADS / LANES };
    if constexpr (LANES == 1) {
        return v;
    } else if constexpr (LANES == THREADS) {
        return block_reduce_one<BY, THREADS>(v);
    } else if constexpr (!ACROSS) {
        static_assert(LANES <= 32, "a group is in one warp");
        return warp_reduce<BY, LANES>(v);
    } else {
        T one[1] = {v};
        group_reduce_lot<BY, THREADS>(one, GROUPS);
        return one[0];
    }
}
/* Over `lanes` neighbours, 1, 32 or the whole block: a number, so that kernels that are equal beside it are one
 * function. */
template <class BY, int THREADS, class T> INLINE T group_reduce_by(T v, int lanes) {
    if (lanes == 1) return v;
    T one[1] = {warp_reduce<BY>(v)};
    if (lanes > 32) block_join<BY, THREADS>(one);
    return one[0];
}
