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
            __builtin_memcpy(at, p, BYTES);
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
            __builtin_memcpy(p, at, BYTES);
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
        for (int m = 1; m < LANES; m *= 2) {
            T other = __shfl_xor_sync(0xffffffffu, v, m);
            bool upper = threadIdx.x & m;
            v = BY::of(upper ? other : v, upper ? v : other);
        }
        return v;
    } else {
        __shared__ T parts[THREADS];
        parts[threadIdx.x] = v;
        __syncthreads();
#pragma unroll 1
        for (int half = LANES / 2; half > 0; half /= 2) {
            if (threadIdx.x < (unsigned)(half * GROUPS))
                parts[threadIdx.x] = BY::of(parts[threadIdx.x], parts[threadIdx.x + half * GROUPS]);
            __syncthreads();
        }
        v = parts[threadIdx.x % GROUPS];
        __syncthreads(); /* the next call may write parts */
        return v;
    }
}
/* N values of each thread at once, one by one as group_reduce makes them: for the price of one's barriers, and
 * in less code. */
template <class BY, int THREADS, int LANES, bool ACROSS, class T, int N> INLINE void group_reduce_lot(T (&v)[N]) {
    enum { GROUPS = THREADS / LANES };
    if constexpr (!ACROSS || LANES == 1 || LANES == THREADS) {
#pragma unroll
        for (int j = 0; j < N; j++) v[j] = group_reduce<BY, THREADS, LANES, ACROSS>(v[j]);
    } else {
        __shared__ T parts[N * THREADS];
#pragma unroll
        for (int j = 0; j < N; j++) parts[j * THREADS + threadIdx.x] = v[j];
        __syncthreads();
#pragma unroll 1
        for (int half = LANES / 2; half > 0; half /= 2) {
            T *const own = parts + threadIdx.x;
            if (threadIdx.x < (unsigned)(half * GROUPS)) {
#pragma unroll
                for (int j = 0; j < N; j++)
                    own[j * THREADS] = BY::of(own[j * THREADS], own[j * THREADS + half * GROUPS]);
            }
            __syncthreads();
        }
#pragma unroll
        for (int j = 0; j < N; j++) v[j] = parts[j * THREADS + threadIdx.x % GROUPS];
        __syncthreads(); /* the next call may write parts */
    }
}
