/* After prelude.cu, before kernels without a contraction: vector accesses, and reductions over
 * lane groups. */

/* One of the two 16-bit elements in a word: a shift or a mask converts it to float. */
struct half_of_word {
    unsigned w;
    bool upper;
};
INLINE float s_widen_f16(half_of_word h) { return kd_widen_f16((f16)(h.upper ? h.w >> 16 : h.w)); }
INLINE float s_widen_bf16(half_of_word h) {
    return __uint_as_float(h.upper ? h.w & 0xffff0000u : h.w << 16);
}

/* A vector of N elements, loaded or stored at once. An element's index may be its place in the
 * array, since N is a power of two, and the first one's place is a multiple of it. Addresses are
 * multiples of the vector's size, or of 16 bytes. Elements are read from the loaded words; a
 * copy would cost compile time. */
template <class T, int N> struct vec {
    enum { BYTES = N * (int)sizeof(T), WORDS = 16 / (int)sizeof(T) };
    alignas(BYTES < 16 ? BYTES : 16) T at[N];
    INLINE T &operator[](long i) { return at[i & (N - 1)]; }
    INLINE T &operator[](int i) { return at[i & (N - 1)]; }
    /* Element i, of 16 bits, as it was loaded. */
    INLINE half_of_word half(int i) const {
        return {*(const unsigned *)(at + (i & (N - 2))), (i & 1) != 0};
    }
    INLINE kd_words &words(int i) { return *(kd_words *)(at + i * WORDS); }
    INLINE void load(const T *p) {
        if constexpr (BYTES < 16) {
            *(kd_few<BYTES> *)at = kd_load_few<BYTES>(p);
        } else {
#pragma unroll
            for (int i = 0; i < BYTES / 16; i++) words(i) = kd_load16(p + i * WORDS);
        }
    }
    /* If `inside`; otherwise each element is `other`. */
    INLINE void load_where(bool inside, const T *p, T other) {
#pragma unroll
        for (int i = 0; i < N; i++) at[i] = other;
        if constexpr (BYTES < 16) {
            if (inside) load(p);
        } else {
#pragma unroll
            for (int i = 0; i < BYTES / 16; i++)
                words(i) = kd_load16_where(inside, p + i * WORDS, words(i));
        }
    }
    INLINE void store(T *p) {
        if constexpr (BYTES < 16) {
            kd_store_few(p, *(kd_few<BYTES> *)at);
        } else {
#pragma unroll
            for (int i = 0; i < BYTES / 16; i++) kd_store16(p + i * WORDS, words(i));
        }
    }
};

/* The horizontally fused part of a CTA: the kind of the part, its numbers and pointers in the
 * table, and the CTA's index in it. */
struct fused_part {
    int kind, numbers, pointers, block;
};
/* Number 0 is the number of parts; then each has a word: the first CTA 32 bits, the kind 12, the
 * first number 9, the first pointer 10. */
template <class TABLE> INLINE fused_part fused_part_of(const TABLE &table, int block) {
    int from = 1, to = (int)table.number[0] + 1; /* binary search in [from, to) */
#pragma unroll 1
    while (to - from > 1) {
        int middle = (from + to) / 2;
        if ((int)table.number[middle] <= block)
            from = middle;
        else
            to = middle;
    }
    long word = table.number[from];
    return {(int)(word >> 32) & 0xfff, (int)(word >> 44) & 0x1ff, (int)(word >> 53) & 0x3ff,
            block - (int)word};
}

/* Reduces N values each over the threads that are `groups` apart, a power of two. All threads of
 * the CTA call it, and share the additions of each level. Value j of a group is then at [group *
 * JOIN_STEP(N) + j], until the next call's barrier. In a fixed order. One element of padding
 * after each thread's avoids bank conflicts in a half warp. */
#define JOIN_STEP(N) ((N) > 1 ? (N) + 1 : 1)
template <class BY, int THREADS, class T, int N>
INLINE const T *group_join(const T (&v)[N], int groups) {
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
/* Stores the groups' results to `to`, the N of a group contiguous, group after group: the first
 * `n` of them. */
template <class BY, int THREADS, class T, int N>
INLINE void group_store(const T (&v)[N], int groups, T *to, long n) {
    const T *parts = group_join<BY, THREADS>(v, groups);
#pragma unroll 1
    for (int i = kd_thread(); i < N * groups && i < n; i += THREADS)
        to[i] = parts[i / N * JOIN_STEP(N) + i % N];
    __syncthreads(); /* the next call may write parts */
}
/* Reduces over a lane group of LANES threads, a power of two or the whole CTA of THREADS; every
 * thread of the CTA calls it, and gets its group's result. A group's threads are neighbours, or,
 * ACROSS, THREADS / LANES apart. In a fixed order. */
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
/* Reduces N values each over `lanes` neighbours, at most 32 of them or the whole CTA. `lanes` is
 * an argument, so that otherwise equal kernels are one function. For reductions that are not per
 * row of many: only N and WRITTEN warps are unrolled. */
template <class BY, int THREADS, int WRITTEN = 1, int N, class T>
INLINE void group_reduce_few(T (&v)[N], int lanes) {
#pragma unroll 1
    for (int m = 1; m < lanes && m < 32; m *= 2)
#pragma unroll
        for (int i = 0; i < N; i++) v[i] = warp_step<BY>(v[i], m);
    if (lanes > 32) block_join<BY, THREADS, WRITTEN>(v);
}
template <class BY, int THREADS, class T> INLINE T group_reduce_by(T v, int lanes) {
    T one[1] = {v};
    group_reduce_few<BY, THREADS, THREADS / 32>(one, lanes);
    return one[0];
}
