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
    /* Where `inside`; else each of them is `other`. */
    INLINE void load_where(bool inside, const T *p, T other) {
#pragma unroll
        for (int i = 0; i < N; i++) at[i] = other;
        if constexpr (BYTES < 16) {
            if (inside) load(p);
        } else {
#pragma unroll
            for (int i = 0; i < BYTES / 16; i++) {
                kd_words w;
                __builtin_memcpy(&w, at + i * WORDS, 16);
                w = kd_load16_where(inside, p + i * WORDS, w);
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

/* Which strand of a kernel a block works on: which kind of them, where its numbers and pointers are in the table,
 * and which of its blocks it is. */
struct strand {
    int kind, numbers, pointers, block;
};
/* Number 0 says how many strands there are; behind it a word each: the first block 32 bits, the kind 12, where numbers
 * begin 9, where pointers do 10. */
template <class TABLE> INLINE strand strand_of(const TABLE &table, int block) {
    int from = 1, to = (int)table.number[0] + 1; /* it is one of [from, to) */
#pragma unroll 1
    while (to - from > 1) {
        int middle = (from + to) / 2;
        if ((int)table.number[middle] <= block)
            from = middle;
        else
            to = middle;
    }
    long word = table.number[from];
    return {(int)(word >> 32) & 0xfff, (int)(word >> 44) & 0x1ff, (int)(word >> 53) & 0x3ff, block - (int)word};
}

/* Over the threads that lie `groups` apart, a power of two: N values of each at once, each for itself. All threads
 * of the block call it, and share what is added at each level; number j of a group then lies at
 * [group * JOIN_STEP(N) + j], until the next call's threads meet. In one fixed order. One place behind each
 * thread's is left over, so that no two threads of a half warp want a bank at once. */
#define JOIN_STEP(N) ((N) > 1 ? (N) + 1 : 1)
template <class BY, int THREADS, class T, int N> INLINE const T *group_join(const T (&v)[N], int groups) {
    enum { STEP = JOIN_STEP(N) };
    __shared__ T parts[STEP * THREADS];
#pragma unroll
    for (int j = 0; j < STEP; j++) parts[kd_thread() * STEP + j] = v[j % N];
    __syncthreads();
#pragma unroll 1
    for (int n = STEP * THREADS / 2; n >= STEP * groups; n /= 2) {
#pragma unroll 1
        for (int i = kd_thread(); i < n; i += THREADS) parts[i] = BY::of(parts[i], parts[i + n]);
        __syncthreads();
    }
    return parts;
}
/* What the groups have goes to `to`, the N of a group side by side and one group's behind the other's: the first
 * `n` of them. */
template <class BY, int THREADS, class T, int N> INLINE void group_leave(const T (&v)[N], int groups, T *to, long n) {
    const T *parts = group_join<BY, THREADS>(v, groups);
#pragma unroll 1
    for (int i = kd_thread(); i < N * groups && i < n; i += THREADS) to[i] = parts[i / N * JOIN_STEP(N) + i % N];
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
        const T one[1] = {v};
        v = group_join<BY, THREADS>(one, GROUPS)[kd_thread() & (GROUPS - 1)];
        __syncthreads(); /* the next call may write what is read here */
        return v;
    }
}
/* Over `lanes` neighbours, 1, 32 or the whole block: a number, so that kernels that are equal beside it are one
 * function. */
template <class BY, int THREADS, class T> INLINE T group_reduce_by(T v, int lanes) {
    T one[1] = {v};
#pragma unroll 1
    for (int m = 1; m < lanes && m < 32; m *= 2) one[0] = warp_step<BY>(one[0], m);
    if (lanes > 32) block_join<BY, THREADS>(one);
    return one[0];
}
