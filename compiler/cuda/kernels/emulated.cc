/* After fibres.cc: the CUDA names that kernels use, and the kd_* functions of device.cu with the
 * same meaning (see the comments there).
 *
 * The rest of a source is in an unnamed namespace, so that a compiler can put __shared__
 * variables of templates and of functions into one section; compiler/cuda/emulate.c closes it,
 * and appends the table of kernels. */
#define KD_TABLE(numbers, pointers, name) const emulated::table<numbers, pointers> &name
namespace emulated {
template <class To, class From> KD_INLINE To bits_as(From v) {
    static_assert(sizeof(To) == sizeof(From), "bits");
    To to;
    __builtin_memcpy(&to, &v, sizeof to);
    return to;
}
static inline float flushed(float v) { return fabsf(v) < 0x1p-126f ? v * 0 : v; }
static inline void check_aligned(const void *p, int bytes, int line) {
    if ((unsigned long)p % bytes)
        fail("line %d: %d bytes at an address that is no multiple", line, bytes);
}

/* ---- collective operations of a warp's lanes ---- */

static inline void meet(void *const *, unsigned) {}

template <class T> struct exchange {
    T mine, got;
    int from, line;
};
template <class T> void exchange_all(void *const *lane, unsigned mask) {
    for (int i = 0; i < WARP; i++) {
        if (!(mask >> i & 1)) continue;
        exchange<T> *x = (exchange<T> *)lane[i];
        if (!(mask >> x->from & 1))
            fail("line %d: lane %d reads lane %d, which is not in the mask", x->line, i, x->from);
        x->got = ((exchange<T> *)lane[x->from])->mine;
    }
}
template <class T> T exchanged(unsigned mask, T v, int from, int line) {
    exchange<T> x = {v, v, from, line};
    wait_warp(exchange_all<T>, mask, &x, line);
    return x.got;
}

struct ballot {
    bool mine;
    unsigned all;
};
static inline void ballot_all(void *const *lane, unsigned mask) {
    unsigned all = 0;
    for (int i = 0; i < WARP; i++)
        if ((mask >> i & 1) && ((ballot *)lane[i])->mine) all |= 1u << i;
    for (int i = 0; i < WARP; i++)
        if (mask >> i & 1) ((ballot *)lane[i])->all = all;
}

struct blocks_8x8 {
    unsigned *r;
    unsigned long row;
    int line;
};
template <int N, bool TRANSPOSED> void ldmatrix_all(void *const *lane, unsigned) {
    const blocks_8x8 *own[WARP];
    for (int i = 0; i < WARP; i++) own[i] = (const blocks_8x8 *)lane[i];
    for (int b = 0; b < N; b++) {
        unsigned short e[8][8];
        for (int i = 0; i < 8; i++)
            __builtin_memcpy(
                e[i], shared(own[8 * b + i]->row, 16, "a row of ldmatrix", own[0]->line), 16);
        for (int i = 0; i < WARP; i++) {
            int g = i / 4, q = 2 * (i % 4);
            own[i]->r[b] = TRANSPOSED ? e[q][g] | (unsigned)e[q + 1][g] << 16
                                  : e[g][q] | (unsigned)e[g][q + 1] << 16;
        }
    }
}
template <int N, bool TRANSPOSED> void ldmatrix(unsigned *r, unsigned long row, int line) {
    blocks_8x8 own = {r, row, line};
    wait_warp(ldmatrix_all<N, TRANSPOSED>, 0xffffffffu, &own, line);
}

struct fragments {
    float *c;
    const unsigned *a, *b;
};
typedef float row_8 __attribute__((vector_size(32)));
/* c += a b of 16 x K by K x 8. */
template <int K> void multiply(void *const *lane, const float (*a)[K], const row_8 *b) {
    for (int row = 0; row < 16; row++) {
        row_8 sum;
        for (int q = 0; q < 4; q++)
            for (int j = 0; j < 2; j++)
                sum[2 * q + j] = ((fragments *)lane[row % 8 * 4 + q])->c[row / 8 * 2 + j];
        for (int k = 0; k < K; k++) sum += a[row][k] * b[k];
        for (int q = 0; q < 4; q++)
            for (int j = 0; j < 2; j++)
                ((fragments *)lane[row % 8 * 4 + q])->c[row / 8 * 2 + j] = sum[2 * q + j];
    }
}
template <float (*WIDEN)(unsigned short)> void mma_16_all(void *const *lane, unsigned) {
    float a[16][16];
    row_8 b[16];
    for (int i = 0; i < WARP; i++) {
        const fragments *own = (const fragments *)lane[i];
        int g = i / 4, q = i % 4 * 2;
        for (int w = 0; w < 4; w++)
            for (int j = 0; j < 2; j++)
                a[g + w % 2 * 8][q + w / 2 * 8 + j] = WIDEN((unsigned short)(own->a[w] >> 16 * j));
        for (int w = 0; w < 2; w++)
            for (int j = 0; j < 2; j++)
                b[q + w * 8 + j][g] = WIDEN((unsigned short)(own->b[w] >> 16 * j));
    }
    multiply<16>(lane, a, b);
}
static inline void mma_tf32_all(void *const *lane, unsigned) {
    float a[16][8];
    row_8 b[8];
    for (int i = 0; i < WARP; i++) {
        const fragments *own = (const fragments *)lane[i];
        int g = i / 4, q = i % 4;
        for (int w = 0; w < 4; w++)
            a[g + w % 2 * 8][q + w / 2 * 4] = bits_as<float>(own->a[w] & 0xffffe000);
        for (int w = 0; w < 2; w++) b[q + w * 4][g] = bits_as<float>(own->b[w] & 0xffffe000);
    }
    multiply<8>(lane, a, b);
}

/* ---- copies ---- */

/* The bytes are NaN between the call and the wait. */
static inline void copy_begin(unsigned long to, const void *from, int size, int bytes, int line) {
    copies *c = &now.copying[now.thread.x];
    unsigned char *p = shared(to, size, "a copy", line);
    if (bytes < 0 || bytes > size) fail("line %d: a copy of %d bytes of %d", line, bytes, size);
    if (bytes && (unsigned long)from % size)
        fail("line %d: a copy from an address that is no multiple of %d", line, size);
    if (c->n == c->room) {
        c->room = 2 * c->room + 16;
        c->at = (copy *)__builtin_realloc(c->at, c->room * sizeof *c->at);
        if (!c->at) fail("no memory to emulate its copies");
    }
    __builtin_memset(p, 0xff, size);
    c->at[c->n++] = {p, from, size, bytes, c->groups};
}
/* For each two bytes: the thread that wrote or copied them, and the number of its fences then, from
 * 1 on. */
struct mark {
    int thread;
    unsigned fences;
};
static mark marks[(227 << 10) / 2];
static inline bool is_unfenced(const mark *m) { return m->fences == now.fences[m->thread] + 1; }
static inline void put_mark(const unsigned char *p, int bytes) {
    long at = p - now.dynamic;
    if (at < 0 || at + bytes > now.dynamic_bytes) return;
    now.puts = true;
    for (int i = 0; i < bytes; i += 2)
        marks[(at + i) / 2] = {(int)now.thread.x, now.fences[now.thread.x] + 1};
}
static inline void copy_end(int but) {
    copies *c = &now.copying[now.thread.x];
    int kept = 0;
    for (int i = 0; i < c->n; i++) {
        copy m = c->at[i];
        if (m.group < c->groups - but) {
            __builtin_memcpy(m.to, m.from, m.bytes);
            __builtin_memset(m.to + m.bytes, 0, m.size - m.bytes);
            put_mark(m.to, m.size);
        } else
            c->at[kept++] = m;
    }
    c->n = kept;
}
} /* namespace emulated */

namespace {
#define threadIdx emulated::now.thread
#define blockIdx  emulated::now.block
#define blockDim  emulated::now.threads
#define gridDim   emulated::now.blocks
#define LINE      int line = __builtin_LINE() /* the caller's */

inline void __syncthreads(LINE) { emulated::wait_all(line, 0); }
inline int __syncthreads_count(int p, LINE) { return emulated::wait_all(line, p != 0); }
inline int __syncthreads_or(int p, LINE) { return emulated::wait_all(line, p != 0) != 0; }
inline int __syncthreads_and(int p, LINE) { return emulated::wait_all(line, p == 0) == 0; }
inline void __syncwarp(unsigned mask = 0xffffffffu, LINE) {
    emulated::wait_warp(emulated::meet, mask, nullptr, line);
}

#define LANE ((int)(threadIdx.x % emulated::WARP))
template <class T> T __shfl_sync(unsigned mask, T v, int from, int width = 32, LINE) {
    return emulated::exchanged(mask, v, (LANE & ~(width - 1)) | (from & (width - 1)), line);
}
template <class T> T __shfl_xor_sync(unsigned mask, T v, int by, int width = 32, LINE) {
    int from = LANE ^ by;
    return emulated::exchanged(mask, v, from / width > LANE / width ? LANE : from, line);
}
template <class T> T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32, LINE) {
    return emulated::exchanged(mask, v, LANE % width + (int)by < width ? LANE + (int)by : LANE,
                               line);
}
template <class T> T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32, LINE) {
    return emulated::exchanged(mask, v, LANE % width >= (int)by ? LANE - (int)by : LANE, line);
}
inline unsigned __ballot_sync(unsigned mask, int p, LINE) {
    emulated::ballot b = {p != 0, 0};
    emulated::wait_warp(emulated::ballot_all, mask, &b, line);
    return b.all;
}
inline int __any_sync(unsigned mask, int p, LINE) { return __ballot_sync(mask, p, line) != 0; }
inline int __all_sync(unsigned mask, int p, LINE) { return __ballot_sync(mask, p, line) == mask; }

KD_INLINE float __uint_as_float(unsigned u) { return emulated::bits_as<float>(u); }
KD_INLINE float __int_as_float(int u) { return emulated::bits_as<float>(u); }
KD_INLINE unsigned __float_as_uint(float v) { return emulated::bits_as<unsigned>(v); }
KD_INLINE int __float_as_int(float v) { return emulated::bits_as<int>(v); }
KD_INLINE double __longlong_as_double(long long u) { return emulated::bits_as<double>(u); }
KD_INLINE long long __double_as_longlong(double v) { return emulated::bits_as<long long>(v); }
KD_INLINE int __popc(unsigned v) { return __builtin_popcount(v); }
KD_INLINE int __clz(int v) { return v ? __builtin_clz((unsigned)v) : 32; }
KD_INLINE int __ffs(int v) { return __builtin_ffs(v); }
KD_INLINE float rsqrtf(float v) { return 1 / sqrtf(v); }
KD_INLINE double rsqrt(double v) { return 1 / sqrt(v); }
KD_INLINE float __expf(float v) { return expf(v); }
KD_INLINE float __logf(float v) { return logf(v); }
KD_INLINE float __fdividef(float a, float b) { return a / b; }
/* Rounded products and sums, which must not be contracted. */
KD_INLINE float __fmul_rn(float a, float b) {
    volatile float r = a * b;
    return r;
}
KD_INLINE float __fadd_rn(float a, float b) {
    volatile float one = a, other = b;
    return one + other;
}
KD_INLINE float __fsub_rn(float a, float b) { return __fadd_rn(a, -b); }
KD_INLINE double __dmul_rn(double a, double b) {
    volatile double r = a * b;
    return r;
}
KD_INLINE double __dadd_rn(double a, double b) {
    volatile double one = a, other = b;
    return one + other;
}
KD_INLINE double __dsub_rn(double a, double b) { return __dadd_rn(a, -b); }
KD_INLINE float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
template <class T> KD_INLINE T __ldg(const T *p) { return *p; }
template <class T> KD_INLINE T __ldcg(const T *p) { return *p; }
template <class T> KD_INLINE T __ldcs(const T *p) { return *p; }
template <class T> KD_INLINE void __stcs(T *p, T v) { *p = v; }
KD_INLINE void __threadfence() {}
template <class T> KD_INLINE T max(T a, T b) { return a > b ? a : b; }
template <class T> KD_INLINE T min(T a, T b) { return a < b ? a : b; }
KD_INLINE int abs(int a) { return a < 0 ? -a : a; }

/* ---- the functions of device.cu ---- */
#define KD_SHARED(T, name) T *const name = (T *)emulated::now.dynamic
typedef unsigned long kd_saddr; /* the host's address */
KD_INLINE kd_saddr kd_saddr_of(const void *p) { return (kd_saddr)p; }

struct __align__(16) kd_words {
    unsigned w[4];
};
inline kd_words kd_load16(const void *p, LINE) {
    kd_words v;
    emulated::check_aligned(p, 16, line);
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
inline float4 kd_load_floats(const float *p, LINE) {
    emulated::check_aligned(p, 16, line);
    return *(const float4 *)p;
}
inline kd_words kd_load16_where(bool inside, const void *p, kd_words other, LINE) {
    return inside ? kd_load16(p, line) : other;
}
inline void kd_store16(void *p, kd_words v, LINE) {
    emulated::check_aligned(p, 16, line);
    __builtin_memcpy(p, &v, sizeof v);
}
template <int BYTES> struct kd_few {
    unsigned char v[BYTES];
};
template <int BYTES> kd_few<BYTES> kd_load_few(const void *p, LINE) {
    kd_few<BYTES> v;
    emulated::check_aligned(p, BYTES, line);
    __builtin_memcpy(&v, p, BYTES);
    return v;
}
template <int BYTES> void kd_store_few(void *p, kd_few<BYTES> v, LINE) {
    emulated::check_aligned(p, BYTES, line);
    __builtin_memcpy(p, &v, BYTES);
}

template <class T> KD_INLINE void kd_hold(T &) {}
template <class T> KD_INLINE T *kd_alias(T *p) { return p; }

KD_INLINE float kd_widen_f16(f16 h) {
    unsigned m = (h & 0x7fffu) << 13; /* 2^112 changes the exponent's bias from 15 to 127 */
    unsigned u =
        (h & 0x7c00) == 0x7c00 ? m | 0x7f800000 : __float_as_uint(__uint_as_float(m) * 0x1p112f);
    return __uint_as_float(u | (h & 0x8000u) << 16);
}
KD_INLINE f16 kd_narrow_f16(float v) {
    unsigned all = __float_as_uint(v), u = all & 0x7fffffff, r;
    if (u > 0x7f800000) return 0x7fff;
    if (u >= 0x477ff000)
        r = 0x7c00;
    else if (u < 0x38800000) /* floats next to 0.5 have the spacing of f16 denormals */
        r = __float_as_uint(__uint_as_float(u) + 0.5f) - 0x3f000000;
    else
        r = (u - 0x38000000 + 0xfff + (u >> 13 & 1)) >> 13;
    return (f16)(r | (all >> 16 & 0x8000));
}
KD_INLINE float kd_widen_bf16(bf16 h) { return __uint_as_float((unsigned)h << 16); }
KD_INLINE bf16 kd_narrow_bf16(float v) {
    unsigned u = __float_as_uint(v);
    return v != v ? 0x7fff : (bf16)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
KD_INLINE float kd_round_bf16(float v) { return kd_widen_bf16(kd_narrow_bf16(v)); }
KD_INLINE unsigned kd_narrow2_f16(float lo, float hi) {
    return kd_narrow_f16(lo) | (unsigned)kd_narrow_f16(hi) << 16;
}
KD_INLINE unsigned kd_narrow2_bf16(float lo, float hi) {
    return kd_narrow_bf16(lo) | (unsigned)kd_narrow_bf16(hi) << 16;
}
KD_INLINE float kd_round_tf32(float v) {
    return __uint_as_float(v != v ? 0x7fffffff : (__float_as_uint(v) + 0x1000) & 0xffffe000);
}
KD_INLINE float kd_exp2(float v) { return emulated::flushed(exp2f(emulated::flushed(v))); }
KD_INLINE float kd_rcp(float v) { return emulated::flushed(1 / emulated::flushed(v)); }

inline void kd_ldmatrix4(unsigned r[4], kd_saddr row, LINE) {
    emulated::ldmatrix<4, false>(r, row, line);
}
inline void kd_ldmatrix4_trans(unsigned r[4], kd_saddr row, LINE) {
    emulated::ldmatrix<4, true>(r, row, line);
}
inline void kd_ldmatrix2(unsigned r[2], kd_saddr row, LINE) {
    emulated::ldmatrix<2, false>(r, row, line);
}
inline void kd_ldmatrix2_trans(unsigned r[2], kd_saddr row, LINE) {
    emulated::ldmatrix<2, true>(r, row, line);
}

inline void kd_mma_bf16(float c[4], const unsigned a[4], const unsigned b[2], LINE) {
    emulated::fragments own = {c, a, b};
    emulated::wait_warp(emulated::mma_16_all<kd_widen_bf16>, 0xffffffffu, &own, line);
}
inline void kd_mma_f16(float c[4], const unsigned a[4], const unsigned b[2], LINE) {
    emulated::fragments own = {c, a, b};
    emulated::wait_warp(emulated::mma_16_all<kd_widen_f16>, 0xffffffffu, &own, line);
}
inline void kd_mma_tf32(float c[4], const unsigned a[4], const unsigned b[2], LINE) {
    emulated::fragments own = {c, a, b};
    emulated::wait_warp(emulated::mma_tf32_all, 0xffffffffu, &own, line);
}

template <class T> void kd_put(T *to, T v, LINE) {
    emulated::put_mark(emulated::shared((unsigned long)to, sizeof v, "a word", line), sizeof v);
    *to = v;
}
template <int N> void kd_put_pairs(kd_saddr to, const float2 (&v)[N], LINE) {
    for (int i = 0; i < N; i++) {
        emulated::shared(to + i * 32, sizeof v[i], "a pair of floats", line);
        *(float2 *)(to + i * 32) = v[i];
    }
}

inline void kd_copy16(kd_saddr to, const void *from, int bytes, LINE) {
    emulated::copy_begin(to, from, 16, bytes, line);
}
inline void kd_copy16_cached(kd_saddr to, const void *from, int bytes, LINE) {
    emulated::copy_begin(to, from, 16, bytes, line);
}
inline void kd_copy8(kd_saddr to, const void *from, int bytes, LINE) {
    emulated::copy_begin(to, from, 8, bytes, line);
}
inline void kd_copy4(kd_saddr to, const void *from, int bytes, LINE) {
    emulated::copy_begin(to, from, 4, bytes, line);
}
KD_INLINE void kd_copy_commit() { emulated::now.copying[threadIdx.x].groups++; }
template <int N> void kd_copy_wait() { emulated::copy_end(N); }
#undef LINE
#undef LANE
