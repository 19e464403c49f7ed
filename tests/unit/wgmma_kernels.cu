/* Products by wgmma, for test_cuda_wgmma.c: c[M][N] = a b^T of matrices that lie along the terms (K) or along their
 * rows; one block. */
enum { M = 122, K = 296 };

template <class T, int ROWS, bool ALONG> struct matrix {
    typedef T word;
    typedef int index;
    typedef ct_place<int, 1> place;
    enum { ALONG_K = ALONG, BYTES = 16, REUSED = 0, STEP = (ROWS + 7) / 8 * 8 };
    const T *data;
    INLINE place row(int i) const {
        place p;
        p.in = i < ROWS, p.at[0] = ALONG ? i * K : i;
        return p;
    }
    INLINE place col(int k, int end) const {
        place p;
        p.in = k < end, p.at[0] = ALONG ? k : k * STEP;
        return p;
    }
    INLINE bool inside(const place &r, const place &c) const { return r.in && c.in; }
    INLINE const void *at(const place &r, const place &c) const {
        return data + r.at[0] + c.at[0];
    }
};

/* The same by a tensor map, which has other matrices in front of it. */
template <class T, bool ALONG> struct boxes {
    typedef T word;
    typedef int index;
    enum { ALONG_K = ALONG, BYTES = CT_TMA_TILE };
    const kd_map *map;
    INLINE ct_tma_coordinate coordinate(int row, int k) const { return {map, ALONG ? k : row, ALONG ? row : k, 2}; }
};

template <int ARITHMETIC, int BN, int N, int STAGES, int BM = 128, class A, class B>
INLINE void multiply(const A &left, const B &right, float *c, unsigned char *shared) {
    const float *sums = ct_tile<ARITHMETIC, BM, BN, 8, 1, STAGES>(left, right, 0, 0, 0, K, shared);
    for (int i = (int)threadIdx.x; i < M * N; i += 256) c[i] = sums[i / N * (BN + 8) + i % N];
}
template <int ARITHMETIC, class T, int BN, int N, int STAGES, bool LEFT, bool RIGHT>
INLINE void group_product(const T *a, const T *b, float *c, unsigned char *shared) {
    matrix<T, M, LEFT> left = {a};
    matrix<T, N, RIGHT> right = {b};
    multiply<ARITHMETIC, BN, N, STAGES>(left, right, c, shared);
}

extern "C" __global__ void __launch_bounds__(256) groups_0(const bf16 *a, const bf16 *b, float *c, char *) {
    KD_SHARED(unsigned char, shared);
    group_product<CT_BF16_WGMMA, bf16, 256, 250, 5, true, true>(a, b, c, shared);
}
extern "C" __global__ void __launch_bounds__(256) groups_1(const bf16 *a, const bf16 *b, float *c, char *) {
    KD_SHARED(unsigned char, shared);
    group_product<CT_BF16_WGMMA, bf16, 256, 250, 5, false, false>(a, b, c, shared);
}
extern "C" __global__ void __launch_bounds__(256) groups_2(const f16 *a, const f16 *b, float *c, char *) {
    KD_SHARED(unsigned char, shared);
    group_product<CT_F16_WGMMA, f16, 128, 120, 5, true, false>(a, b, c, shared);
}
extern "C" __global__ void __launch_bounds__(256) groups_3(const f16 *a, const f16 *b, float *c, char *) {
    KD_SHARED(unsigned char, shared);
    group_product<CT_F16_WGMMA, f16, 64, 50, 6, false, true>(a, b, c, shared);
}
extern "C" __global__ void __launch_bounds__(256) groups_4(const float *a, const float *b, float *c, char *) {
    KD_SHARED(unsigned char, shared);
    group_product<CT_TF32_WGMMA, float, 256, 250, 5, true, true>(a, b, c, shared);
}
extern "C" __global__ void __launch_bounds__(256) groups_5(const float *a, const float *b, float *c, char *) {
    KD_SHARED(unsigned char, shared);
    group_product<CT_TF32_WGMMA, float, 256, 250, 5, false, false>(a, b, c, shared);
}
extern "C" __global__ void __launch_bounds__(256) groups_6(const float *a, const float *b, float *c, char *) {
    KD_SHARED(unsigned char, shared);
    group_product<CT_TF32_WGMMA, float, 128, 120, 5, false, true>(a, b, c, shared);
}
extern "C" __global__ void __launch_bounds__(256) groups_7(const float *a, const float *b, float *c, char *) {
    KD_SHARED(unsigned char, shared);
    group_product<CT_TF32_WGMMA, float, 64, 50, 6, true, false>(a, b, c, shared);
}
extern "C" __global__ void __launch_bounds__(256)
groups_8(KD_MAP(a), KD_MAP(b), float *c, char *) {
    KD_SHARED(unsigned char, shared);
    boxes<bf16, true> left = {KD_MAP_OF(a)};
    boxes<bf16, true> right = {KD_MAP_OF(b)};
    multiply<CT_BF16_WGMMA, 256, 250, 5>(left, right, c, shared);
}
extern "C" __global__ void __launch_bounds__(256)
groups_9(KD_MAP(a), KD_MAP(b), float *c, char *) {
    KD_SHARED(unsigned char, shared);
    boxes<f16, false> left = {KD_MAP_OF(a)};
    boxes<f16, false> right = {KD_MAP_OF(b)};
    multiply<CT_F16_WGMMA, 256, 250, 5>(left, right, c, shared);
}
extern "C" __global__ void __launch_bounds__(256)
groups_10(KD_MAP(a), const bf16 *b, float *c, char *) {
    KD_SHARED(unsigned char, shared);
    boxes<bf16, true> left = {KD_MAP_OF(a)};
    matrix<bf16, 120, false> right = {b};
    multiply<CT_BF16_WGMMA, 128, 120, 5>(left, right, c, shared);
}
extern "C" __global__ void __launch_bounds__(256)
groups_11(KD_MAP(b), const float *a, float *c, char *) {
    KD_SHARED(unsigned char, shared);
    matrix<float, M, false> left = {a};
    boxes<float, true> right = {KD_MAP_OF(b)};
    multiply<CT_TF32_WGMMA, 64, 50, 6>(left, right, c, shared);
}
extern "C" __global__ void __launch_bounds__(256)
groups_12(KD_MAP(a), KD_MAP(b), float *c, char *) {
    KD_SHARED(unsigned char, shared);
    boxes<float, true> left = {KD_MAP_OF(a)};
    boxes<float, true> right = {KD_MAP_OF(b)};
    multiply<CT_TF32_WGMMA, 256, 250, 5>(left, right, c, shared);
}

/* An operand that is read word by word, as odd channels of 16 bits are. */
template <class T, int ROWS> struct single : matrix<T, ROWS, true> {
    typedef typename matrix<T, ROWS, true>::place place;
    enum { BYTES = 0 };
    INLINE T load(const place &r, const place &c) const { return this->data[r.at[0] + c.at[0]]; }
};
extern "C" __global__ void __launch_bounds__(256)
groups_13(KD_MAP(b), const bf16 *a, float *c, char *) {
    KD_SHARED(unsigned char, shared);
    single<bf16, M> left;
    left.data = a;
    boxes<bf16, true> right = {KD_MAP_OF(b)};
    multiply<CT_BF16_WGMMA, 128, 120, 5>(left, right, c, shared);
}

/* Tiles of 256 rows: two blocks of 64 for each four warps. */
extern "C" __global__ void __launch_bounds__(256)
groups_14(KD_MAP(a), KD_MAP(b), float *c, char *) {
    KD_SHARED(unsigned char, shared);
    boxes<bf16, true> left = {KD_MAP_OF(a)};
    boxes<bf16, true> right = {KD_MAP_OF(b)};
    multiply<CT_BF16_WGMMA, 128, 120, 5, 256>(left, right, c, shared);
}
extern "C" __global__ void __launch_bounds__(256) groups_15(const f16 *a, const f16 *b, float *c, char *) {
    KD_SHARED(unsigned char, shared);
    matrix<f16, M, false> left = {a};
    matrix<f16, 50, false> right = {b};
    multiply<CT_F16_WGMMA, 64, 50, 5, 256>(left, right, c, shared);
}
extern "C" __global__ void __launch_bounds__(256) groups_16(const float *a, const float *b, float *c, char *) {
    KD_SHARED(unsigned char, shared);
    matrix<float, M, true> left = {a};
    matrix<float, 120, true> right = {b};
    multiply<CT_TF32_WGMMA, 128, 120, 5, 256>(left, right, c, shared);
}
