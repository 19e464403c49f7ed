/* Kernels of test_emulated.c, after the preludes: for the CPU, and for NVRTC on three architectures. */

/* ---- a row a block: layer norm, by shuffles and shared memory written out, and by block_sums ---- */
enum { COLUMNS = 100 };
extern "C" __global__ void __launch_bounds__(128)
    norm_0(const float *__restrict__ x, const float *__restrict__ scale, float *__restrict__ y,
           char *workspace) {
    __shared__ float parts[4];
    const int t = threadIdx.x, at = blockIdx.x * COLUMNS + t;
    const float v = t < COLUMNS ? x[at] : 0.0f;
    float sum = v;
    for (int m = 16; m; m /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, m);
    if (t % 32 == 0) parts[t / 32] = sum;
    __syncthreads(); /* parts are there */
    const float mean = (parts[0] + parts[1] + parts[2] + parts[3]) / COLUMNS;
    const float d = t < COLUMNS ? v - mean : 0.0f;
    float square = d * d;
    for (int m = 16; m; m /= 2) square += __shfl_down_sync(0xffffffffu, square, m);
    square = __shfl_sync(0xffffffffu, square, 0);
    __syncthreads(); /* parts are read */
    if (t % 32 == 0) parts[t / 32] = square;
    __syncthreads();
    const float variance = (parts[0] + parts[1] + parts[2] + parts[3]) / COLUMNS;
    if (t < COLUMNS) y[at] = d / s_sqrt(variance + 1e-5f) * scale[t];
}
extern "C" __global__ void __launch_bounds__(128)
    norm_1(const float *__restrict__ x, const float *__restrict__ scale, float *__restrict__ y,
           char *workspace) {
    const int t = threadIdx.x, at = blockIdx.x * COLUMNS + t;
    const float v = t < COLUMNS ? x[at] : 0.0f, mean = block_sum<128>(v) / COLUMNS;
    const float d = t < COLUMNS ? v - mean : 0.0f, variance = block_sum<128>(d * d) / COLUMNS;
    if (t < COLUMNS) y[at] = d / s_sqrt(variance + 1e-5f) * scale[t];
}

/* ---- reductions: 256 of each block ---- */
extern "C" __global__ void __launch_bounds__(256)
    reduce_0(const float *__restrict__ x, float *sums, double *doubles, int *ints, char *workspace) {
    const int at = blockIdx.x * 256 + threadIdx.x, b = blockIdx.x;
    float all[2] = {x[at], x[at] * x[at]};
    const float most = block_max<256>(x[at]), least = block_min<256>(x[at]), warp = warp_sum(x[at]);
    const double sum = block_sum<256>((double)x[at]), largest = block_max<256>((double)x[at]);
    const int count = block_sum<256>((int)(x[at] > 0)), first = block_min<256>(x[at] > 0 ? at : 0x7fffffff);
    const long far = block_max<256>((long)at << 33);
    block_sums<256>(all);
    if (threadIdx.x == 255) { /* every thread knows them */
        sums[b * 5] = all[0], sums[b * 5 + 1] = all[1], sums[b * 5 + 2] = most, sums[b * 5 + 3] = least;
        sums[b * 5 + 4] = warp;
        doubles[b * 2] = sum, doubles[b * 2 + 1] = largest;
        ints[b * 3] = count, ints[b * 3 + 1] = first, ints[b * 3 + 2] = (int)(far >> 33);
    }
}

/* ---- a matrix turned, tile by tile ---- */
enum { HEIGHT = 75, WIDTH = 53, TILES = (WIDTH + 31) / 32 };
extern "C" __global__ void __launch_bounds__(256)
    turn_0(const float *__restrict__ x, float *__restrict__ y, char *workspace) {
    __shared__ float tile[32][33];
    const int row = blockIdx.x / TILES * 32, column = blockIdx.x % TILES * 32;
    const int i = threadIdx.x / 32, j = threadIdx.x % 32;
    for (int k = i; k < 32; k += 8)
        if (row + k < HEIGHT && column + j < WIDTH) tile[k][j] = x[(row + k) * WIDTH + column + j];
    __syncthreads(); /* the tile is there */
    for (int k = i; k < 32; k += 8)
        if (row + j < HEIGHT && column + k < WIDTH) y[(column + k) * HEIGHT + row + j] = tile[j][k];
}

/* ---- c[M][N] = a[M][K] b, tiles of 64 x 64 in three stages; b is [N][K], or [K][N] ---- */
enum { M = 70, N = 56, K = 72, STAGES = 3 };
enum { STEP = 32, ROW = STEP + 8, ROW_B = 64 + 8, PART = 64 * ROW }; /* 16 bits */
template <bool TURNED>
__device__ void load_halves(unsigned short *s, const unsigned short *a, const unsigned short *b, int m, int n,
                            int k) {
    for (int id = threadIdx.x; id < 256; id += 128) {
        const int row = m + id / 4, at = k + id % 4 * 8;
        const bool there = row < M && at < K;
        kd_copy16(kd_saddr_of(s + id / 4 * ROW + id % 4 * 8), there ? a + row * K + at : a, there ? 16 : 0);
        const int y = TURNED ? k + id / 8 : n + id / 4, x = TURNED ? n + id % 8 * 8 : k + id % 4 * 8;
        const bool has = TURNED ? y < K && x < N : y < N && x < K;
        unsigned short *to = s + PART + (TURNED ? id / 8 * ROW_B + id % 8 * 8 : id / 4 * ROW + id % 4 * 8);
        kd_copy16(kd_saddr_of(to), has ? b + y * (TURNED ? N : K) + x : b, has ? 16 : 0);
    }
    kd_copy_commit();
}
__device__ void store_tile(float *c, const float *v, int row, int column) {
    for (int i = 0; i < 4; i++)
        if (row + i / 2 * 8 < M && column + i % 2 < N) c[(row + i / 2 * 8) * N + column + i % 2] = v[i];
}
template <bool BF16, bool TURNED>
__device__ void multiply_halves(const unsigned short *a, const unsigned short *b, float *c) {
    KD_SHARED(unsigned short, s);
    const int m = blockIdx.x * 64, n = 0, warp = threadIdx.x / 32, l = threadIdx.x % 32;
    const int wm = warp / 2 * 32, wn = warp % 2 * 32;
    float sum[2][4][4] = {};
    load_halves<TURNED>(s, a, b, m, n, 0);
    load_halves<TURNED>(s + 2 * PART, a, b, m, n, STEP);
    for (int k = 0, stage = 0; k < K; k += STEP, stage = (stage + 1) % STAGES) {
        kd_copy_wait<1>();
        __syncthreads(); /* of all threads */
        if (k + 2 * STEP < K)
            load_halves<TURNED>(s + (stage + 2) % STAGES * 2 * PART, a, b, m, n, k + 2 * STEP);
        else
            kd_copy_commit();
        const kd_saddr sa = kd_saddr_of(s + stage * 2 * PART), sb = sa + PART * 2;
        for (int kk = 0; kk < STEP; kk += 16) {
            unsigned fa[2][4], fb[4][2];
            for (int i = 0; i < 2; i++)
                kd_ldmatrix4(fa[i], sa + ((wm + i * 16 + l % 16) * ROW + kk + l / 16 * 8) * 2);
            if (TURNED) {
                unsigned two[4];
                kd_ldmatrix4_trans(two, sb + ((kk + l % 16) * ROW_B + wn + l / 16 * 8) * 2);
                fb[0][0] = two[0], fb[0][1] = two[1], fb[1][0] = two[2], fb[1][1] = two[3];
                for (int j = 2; j < 4; j++)
                    kd_ldmatrix2_trans(fb[j], sb + ((kk + l % 16) * ROW_B + wn + j * 8) * 2);
            } else
                for (int j = 0; j < 4; j++)
                    kd_ldmatrix2(fb[j], sb + ((wn + j * 8 + l % 8) * ROW + kk + l / 8 % 2 * 8) * 2);
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 4; j++)
                    if (BF16)
                        kd_mma_bf16(sum[i][j], fa[i], fb[j]);
                    else
                        kd_mma_f16(sum[i][j], fa[i], fb[j]);
        }
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++)
            store_tile(c, sum[i][j], m + wm + i * 16 + l / 4, n + wn + j * 8 + l % 4 * 2);
}
extern "C" __global__ void __launch_bounds__(128)
    product_0(const bf16 *__restrict__ a, const bf16 *__restrict__ b, float *__restrict__ c,
              char *workspace) {
    multiply_halves<true, false>(a, b, c);
}
extern "C" __global__ void __launch_bounds__(128)
    product_1(const f16 *__restrict__ a, const f16 *__restrict__ b, float *__restrict__ c, char *workspace) {
    multiply_halves<false, false>(a, b, c);
}
extern "C" __global__ void __launch_bounds__(128)
    product_2(const bf16 *__restrict__ a, const bf16 *__restrict__ b, float *__restrict__ c,
              char *workspace) {
    multiply_halves<true, true>(a, b, c);
}
extern "C" __global__ void __launch_bounds__(128)
    product_3(const f16 *__restrict__ a, const f16 *__restrict__ b, float *__restrict__ c, char *workspace) {
    multiply_halves<false, true>(a, b, c);
}

/* Of floats: steps of 16, a by pairs and b one by one. */
extern "C" __global__ void __launch_bounds__(128)
    product_4(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c,
              char *workspace) {
    enum { STEP32 = 16, ROW32 = STEP32 + 4, PART32 = 64 * ROW32 };
    KD_SHARED(float, s);
    const int m = blockIdx.x * 64, warp = threadIdx.x / 32, l = threadIdx.x % 32;
    const int wm = warp / 2 * 32, wn = warp % 2 * 32;
    float sum[2][4][4] = {};
    for (int k = 0; k < K; k += STEP32) {
        for (int id = threadIdx.x; id < 64 * 8; id += 128) {
            const int row = m + id / 8, at = k + id % 8 * 2;
            const bool there = row < M && at < K;
            kd_copy8(kd_saddr_of(s + id / 8 * ROW32 + id % 8 * 2), there ? a + row * K + at : a,
                     there ? 8 : 0);
        }
        for (int id = threadIdx.x; id < 64 * 16; id += 128) {
            const int row = id / 16, at = k + id % 16;
            const bool there = row < N && at < K;
            kd_copy4(kd_saddr_of(s + PART32 + id / 16 * ROW32 + id % 16), there ? b + row * K + at : b,
                     there ? 4 : 0);
        }
        kd_copy_commit();
        kd_copy_wait<0>();
        __syncthreads();
        for (int kk = 0; kk < STEP32; kk += 8) {
            unsigned fa[2][4], fb[4][2];
            for (int i = 0; i < 2; i++) {
                kd_ldmatrix4(fa[i], kd_saddr_of(s + (wm + i * 16 + l % 16) * ROW32 + kk + l / 16 * 4));
                for (int w = 0; w < 4; w++)
                    fa[i][w] = __float_as_uint(kd_round_tf32(__uint_as_float(fa[i][w])));
            }
            for (int j = 0; j < 4; j++)
                for (int w = 0; w < 2; w++)
                    fb[j][w] = __float_as_uint(
                        kd_round_tf32(s[PART32 + (wn + j * 8 + l / 4) * ROW32 + kk + l % 4 + 4 * w]));
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 4; j++) kd_mma_tf32(sum[i][j], fa[i], fb[j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++) store_tile(c, sum[i][j], m + wm + i * 16 + l / 4, wn + j * 8 + l % 4 * 2);
}

/* ---- conversions and functions, an element a thread ---- */
extern "C" __global__ void __launch_bounds__(256)
    halves_0(const float *__restrict__ x, const double *__restrict__ d, float *wide_f16, float *wide_bf16,
             f16 *narrow_f16, bf16 *narrow_bf16, unsigned *pairs, float *rounded, float *odd,
             char *workspace) {
    const int i = blockIdx.x * 256 + threadIdx.x; /* 65,536 of them */
    wide_f16[i] = s_widen_f16((f16)i), wide_bf16[i] = s_widen_bf16((bf16)i);
    narrow_f16[i] = s_narrow_f16(x[i]), narrow_bf16[i] = s_narrow_bf16(x[i]);
    pairs[2 * i] = kd_narrow2_f16(x[i], x[i ^ 1]), pairs[2 * i + 1] = kd_narrow2_bf16(x[i], x[i ^ 1]);
    rounded[3 * i] = s_round_f16(x[i]), rounded[3 * i + 1] = s_round_bf16(x[i]);
    rounded[3 * i + 2] = kd_round_tf32(x[i]);
    odd[i] = odd_float(d[i]);
}
extern "C" __global__ void __launch_bounds__(32)
    lots_0(const float *__restrict__ x, float *y, f16 *h, bf16 *b, char *workspace) {
    float v[VECTOR(f16)];
    const int at = threadIdx.x * VECTOR(f16);
    load_vector(x + at, v), load_vector(x + at + 4, v + 4);
    store_vector_f16(h + at, v), store_vector_bf16(b + at, v);
    load_vector_f16(h + at, v), store_vector(y + at, v), store_vector(y + at + 4, v + 4);
    load_vector_bf16(b + at, v), store_vector(y + 256 + at, v), store_vector(y + 256 + at + 4, v + 4);
}
extern "C" __global__ void __launch_bounds__(32) few_0(const char *__restrict__ x, char *y, char *workspace) {
    const int at = threadIdx.x * 16;
    kd_store_few(y + at, kd_load_few<8>(x + at)), kd_store_few(y + at + 8, kd_load_few<4>(x + at + 8));
    kd_store_few(y + at + 12, kd_load_few<2>(x + at + 12));
    kd_store_few(y + at + 14, kd_load_few<1>(x + at + 14));
}
extern "C" __global__ void __launch_bounds__(256)
    random_0(const long *__restrict__ seed, const long *__restrict__ step, float *y, char *workspace) {
    const unsigned long at = blockIdx.x * 256ul + threadIdx.x;
    y[2 * at] = s_random(at, seed[0], step[0], 7);
    y[2 * at + 1] = s_random(at + (1ul << 34), seed[0], step[0], 16777215);
}
enum { FUNCTIONS = 17 };
#define ALL(T, p, y, a, b)                                                                                   \
    y[0] = p##max(a, b), y[1] = p##min(a, b), y[2] = p##abs(a), y[3] = p##sign(a), y[4] = p##exp(a);         \
    y[5] = p##log(a), y[6] = p##expm1(a), y[7] = p##log1p(a), y[8] = p##sqrt(a), y[9] = p##tanh(a);          \
    y[10] = p##sigmoid(a), y[11] = p##sin(a), y[12] = p##cos(a), y[13] = p##erf(a), y[14] = p##floor(a);     \
    y[15] = p##pow(a, b), y[16] = p##atan2(a, b)
#define COMPARED(p, a, b)                                                                                    \
    (p##eq(a, b) | p##ne(a, b) << 1 | p##lt(a, b) << 2 | p##le(a, b) << 3 | p##gt(a, b) << 4 |               \
     p##ge(a, b) << 5)
extern "C" __global__ void __launch_bounds__(32)
    functions_0(const float *__restrict__ x, const float *__restrict__ z, float *s, double *d, int *compared,
                float *fast, char *workspace) {
    const int i = blockIdx.x * 32 + threadIdx.x;
    float *y = s + i * FUNCTIONS;
    double *w = d + i * FUNCTIONS;
    ALL(float, s_, y, x[i], z[i]);
    ALL(double, d_, w, (double)x[i], (double)z[i]);
    const int a = (int)s_max(s_min(x[i], 1e6f), -1e6f), b = (int)s_max(s_min(z[i], 1e6f), -1e6f);
    compared[4 * i] = COMPARED(s_, x[i], z[i]) | (int)s_select(x[i] < z[i], 1.0f, 0.0f) * 64;
    compared[4 * i + 1] = COMPARED(d_, (double)x[i], (double)z[i]) | COMPARED(i_, a, b) << 8;
    compared[4 * i + 2] = COMPARED(l_, (long)a, (long)b) | COMPARED(b_, a != 0, b != 0) << 8;
    compared[4 * i + 3] =
        i_max(a, b) - i_min(a, b) + i_abs(a) * i_sign(a) + (int)l_floor(l_max((long)a, (long)b));
    fast[2 * i] = kd_exp2(x[i]), fast[2 * i + 1] = kd_rcp(x[i]);
}
extern "C" __global__ void __launch_bounds__(32) numbers_0(float *f, double *d, char *workspace) {
    f[0] = __builtin_inff(), f[1] = -__builtin_inff(), f[2] = __builtin_nanf("");
    d[0] = __builtin_inf(), d[1] = -__builtin_inf(), d[2] = __builtin_nan("");
    d[3] = (double)(-__LONG_MAX__ - 1), d[4] = (double)(-__INT_MAX__ - 1);
}
extern "C" __global__ void __launch_bounds__(128) places_0(int *y, char *workspace) {
    const int x = (int)threadIdx.x - 64;
    for (int n = 1; n <= 5; n++) {
        int *at = y + (threadIdx.x * 5 + n - 1) * 5;
        at[0] = floor_div(x, n), at[1] = edge_place(x, n), at[2] = wrap_place(x, n),
        at[3] = reflect_place(x, n);
        at[4] = (int)(reflect_place((long)x, (long)n) + floor_div(x, (long)n) * 1000);
    }
}
/* Products and what they are added to: one rounding, and where the text asks for two, two. */
extern "C" __global__ void __launch_bounds__(32)
    fused_0(const double *__restrict__ x, const double *__restrict__ y, float *s, double *d,
            char *workspace) {
    const int i = threadIdx.x;
    const double a = x[i], b = y[i], c = d[i];
    const float fa = (float)a, fb = (float)b, fc = s[i];
    if (i % 3 == 0)
        s[i] = fa * fb - fc, d[i] = a * b - c;
    else if (i % 3 == 1)
        s[i] = __fadd_rn(__fmul_rn(fa, fb), -fc), d[i] = __dadd_rn(__dmul_rn(a, b), -c);
    else
        s[i] = __fadd_rn(-fc, fa * fb), d[i] = __dadd_rn(-c, a * b);
}
/* ---- warps ---- */
extern "C" __global__ void __launch_bounds__(64) warps_0(int *y, char *workspace) {
    const int t = threadIdx.x;
    const unsigned all = 0xffffffffu;
    y[t * 6] = __shfl_sync(all, t, 3), y[t * 6 + 1] = __shfl_up_sync(all, t, 1);
    y[t * 6 + 2] = __shfl_down_sync(all, t, 2, 8), y[t * 6 + 3] = (int)__ballot_sync(all, t % 3 == 0);
    y[t * 6 + 4] = __any_sync(all, t == 40) + 2 * __all_sync(all, t < 32);
    y[t * 6 + 5] = __syncthreads_count(t % 2) + __syncthreads_or(t == 1) + __syncthreads_and(t >= 0);
    __syncwarp();
}

/* ---- for faults ---- */
extern "C" __global__ void __launch_bounds__(64) wait_0(float *y, char *workspace) {
    if (threadIdx.x < 64) __syncthreads();
    y[threadIdx.x] = 1;
}
extern "C" __global__ void __launch_bounds__(64) shared_0(float *y, char *workspace) {
    KD_SHARED(float, s);
    kd_copy16(kd_saddr_of(s + threadIdx.x * 4), y + threadIdx.x * 4, 16);
    kd_copy_commit();
    kd_copy_wait<0>();
    y[threadIdx.x * 4] = s[threadIdx.x * 4 + 1];
}
extern "C" __global__ void __launch_bounds__(64)
    scale_0(const float *__restrict__ x, float *__restrict__ y, char *workspace) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i < 100) y[i] = 2 * x[i];
}
