/* The prelude of every CUDA source that NVRTC compiles: the PTX instructions that kernels use,
 * each as a function kd_*; emulated.cc has the same functions for the CPU. sm_80 and later.
 *
 * Rules for kernels, on both: all threads of a CTA reach every __syncthreads, and all lanes of a
 * warp every shuffle, kd_ldmatrix and kd_mma, at the same place of the text; none has returned
 * before. Shared memory is initially undefined. The destination of kd_copy* is undefined from
 * the call to the kd_copy_wait that covers it. */
#define KD_INLINE __device__ __forceinline__
typedef unsigned short f16, bf16;

/* Emitted text uses these builtins for infinities and the like, which NVRTC does not have. */
#define __builtin_memcpy(to, from, bytes) memcpy(to, from, bytes)
KD_INLINE float __builtin_inff() { return __int_as_float(0x7f800000); }
KD_INLINE double __builtin_inf() { return __longlong_as_double(0x7ff0000000000000ll); }
KD_INLINE float __builtin_nanf(const char *) { return __int_as_float(0x7fffffff); }
KD_INLINE double __builtin_nan(const char *) { return __longlong_as_double(0x7fffffffffffffffll); }

#define __INT_MAX__  0x7fffffff
#define __LONG_MAX__ 0x7fffffffffffffffl

/* ---- shared memory ---- */
extern __shared__ __align__(1024) unsigned char kd_dynamic[];
/* The CTA's dynamic shared memory as `T *name`, aligned to 1024 bytes. */
#define KD_SHARED(T, name) T *const name = (T *)kd_dynamic
/* An address in shared memory, in bytes, for the functions below; integers may be added. */
typedef unsigned kd_saddr;
KD_INLINE kd_saddr kd_saddr_of(const void *p) { return (kd_saddr)__cvta_generic_to_shared(p); }

/* ---- tables ---- */

/* A kernel's only argument, by value, which threads index in place. */
template <int NUMBERS, int POINTERS> struct kd_table {
    long number[NUMBERS];
    char *pointer[POINTERS];
};
#define KD_TABLE(numbers, pointers, name) const __grid_constant__ kd_table<numbers, pointers> name

/* ---- words ---- */

/* 16 bytes, at a multiple of 16. */
struct __align__(16) kd_words {
    unsigned w[4];
};
KD_INLINE kd_words kd_load16(const void *p) {
    uint4 v = *(const uint4 *)p;
    return {{v.x, v.y, v.z, v.w}};
}
/* Four floats; NVVM compiles it faster than words that are converted one by one. */
KD_INLINE float4 kd_load_floats(const float *p) { return *(const float4 *)p; }
/* kd_load16 of read-only memory if `inside`; otherwise `other`. Branchless, so that several
 * loads are in flight. */
KD_INLINE kd_words kd_load16_where(bool inside, const void *p, kd_words other) {
    asm("{\n.reg .pred inside;\nsetp.ne.b32 inside, %5, 0;\n@inside ld.global.nc.v4.b32 {%0, %1, "
        "%2, %3}, [%4];\n}"
        : "+r"(other.w[0]), "+r"(other.w[1]), "+r"(other.w[2]), "+r"(other.w[3])
        : "l"(p), "r"((int)inside));
    return other;
}
KD_INLINE void kd_store16(void *p, kd_words v) {
    *(uint4 *)p = make_uint4(v.w[0], v.w[1], v.w[2], v.w[3]);
}
/* 1, 2, 4 or 8 bytes, at a multiple of that, by one instruction: memcpy knows only the elements'
 * alignment, and would copy bytes. */
template <int BYTES> struct kd_few;
template <> struct kd_few<1> { unsigned char v; };
template <> struct kd_few<2> { unsigned short v; };
template <> struct kd_few<4> { unsigned v; };
template <> struct kd_few<8> { uint2 v; };
template <int BYTES> KD_INLINE kd_few<BYTES> kd_load_few(const void *p) {
    return *(const kd_few<BYTES> *)p;
}
template <int BYTES> KD_INLINE void kd_store_few(void *p, kd_few<BYTES> v) {
    *(kd_few<BYTES> *)p = v;
}

/* A kernel's parameter under a name of its own: it may be another one, or the same again
 * (compiler/cuda/phase_template.c). */
template <class T> KD_INLINE T *kd_alias(T *p) { return p; }
/* Keeps a number in a register: otherwise the compiler recomputes cheap functions of the
 * thread's index inside loops. */
KD_INLINE void kd_hold(int &v) { asm("" : "+r"(v)); }
KD_INLINE void kd_hold(unsigned &v) { asm("" : "+r"(v)); }
KD_INLINE void kd_hold(long &v) { asm("" : "+l"(v)); }

/* ---- conversions: to nearest, ties to even; a NaN stays one ---- */
KD_INLINE float kd_widen_f16(f16 h) {
    float v;
    asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(h));
    return v;
}
KD_INLINE f16 kd_narrow_f16(float v) {
    f16 h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v));
    return h;
}
KD_INLINE float kd_widen_bf16(bf16 h) { return __uint_as_float((unsigned)h << 16); }
KD_INLINE bf16 kd_narrow_bf16(float v) {
    bf16 h;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(v));
    return h;
}
/* Rounds to bf16 and widens again. It uses the upper half of a packed conversion: single
 * conversions to bf16 have a quarter of their rate (16 a clock and SM). */
KD_INLINE float kd_round_bf16(float v) {
    unsigned w;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(v), "f"(0.0f));
    return __uint_as_float(w);
}
/* Two at once: `lo` in the lower 16 bits, so first in memory. */
KD_INLINE unsigned kd_narrow2_f16(float lo, float hi) {
    unsigned w;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(hi), "f"(lo));
    return w;
}
KD_INLINE unsigned kd_narrow2_bf16(float lo, float hi) {
    unsigned w;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(hi), "f"(lo));
    return w;
}
/* To nearest, ties away from zero, as the operands of kd_mma_tf32 must be. */
KD_INLINE float kd_round_tf32(float v) {
    unsigned w;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(w) : "f"(v));
    return __uint_as_float(w);
}

/* ---- fast and not exact: 2^v within 2 ulp, 1 / v within 1; results below the normal range are
 * 0 ---- */
KD_INLINE float kd_exp2(float v) {
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}
KD_INLINE float kd_rcp(float v) {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}

/* ---- matrices of a warp; g = lane / 4, q = lane % 4 ---- */
/* 8 x 8 blocks of 16 bits from shared memory: lanes 8 i to 8 i + 7 have the addresses of the
 * rows of block i (multiples of 16 bytes). r[i]: elements 2 q and 2 q + 1 of row g; _trans: of
 * column g, so r[i] holds rows 2 q and 2 q + 1. The forms with two blocks use lanes 0 to 15
 * alone. */
KD_INLINE void kd_ldmatrix4(unsigned r[4], kd_saddr row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(row)
                 : "memory");
}
KD_INLINE void kd_ldmatrix4_trans(unsigned r[4], kd_saddr row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(row)
                 : "memory");
}
KD_INLINE void kd_ldmatrix2(unsigned r[2], kd_saddr row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(row)
                 : "memory");
}
KD_INLINE void kd_ldmatrix2_trans(unsigned r[2], kd_saddr row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(row)
                 : "memory");
}

/* c[16][8] += a[16][16] b[16][8], products and sums in f32. c: {row g, columns 2 q and 2 q + 1},
 * {row g + 8, the same}. a, two elements a word: {g, 2 q}, {g + 8, 2 q}, {g, 2 q + 8}, {g + 8, 2
 * q + 8} as {row, column}. b, two rows of column g a word: rows 2 q and 2 q + 1, rows 2 q + 8
 * and 2 q + 9. */
KD_INLINE void kd_mma_bf16(float c[4], const unsigned a[4], const unsigned b[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
KD_INLINE void kd_mma_f16(float c[4], const unsigned a[4], const unsigned b[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
/* c[16][8] += a[16][8] b[8][8] of floats that kd_round_tf32 has rounded (their lower 13 bits are
 * ignored). c as above. a: {g, q}, {g + 8, q}, {g, q + 4}, {g + 8, q + 4}; b, of column g: row
 * q, row q + 4. */
KD_INLINE void kd_mma_tf32(float c[4], const unsigned a[4], const unsigned b[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Stores an element of a tile in shared memory from the thread itself; kd_async_fence covers it,
 * too. */
template <class T> KD_INLINE void kd_put(T *to, T v) { *to = v; }
/* Pairs of floats, at multiples of 8 bytes of shared memory, each 32 bytes after the one before.
 * Four stores per statement take as long to compile as one. */
template <int N> KD_INLINE void kd_put_pairs(kd_saddr to, const float2 (&v)[N]) {
    enum { FOURS = N / 4 * 4 };
#pragma unroll
    for (int i = 0; i < FOURS; i += 4)
        asm volatile(
            "st.shared.v2.f32 [%0], {%1, %2};\nst.shared.v2.f32 [%0+32], {%3, %4};\n"
            "st.shared.v2.f32 [%0+64], {%5, %6};\nst.shared.v2.f32 [%0+96], {%7, %8};" ::"r"(
                to + i * 32),
            "f"(v[i].x), "f"(v[i].y), "f"(v[i + 1].x), "f"(v[i + 1].y), "f"(v[i + 2].x),
            "f"(v[i + 2].y), "f"(v[i + 3].x), "f"(v[i + 3].y)
            : "memory");
#pragma unroll
    for (int i = FOURS; i < N; i++)
        asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to + i * 32), "f"(v[i].x), "f"(v[i].y)
                     : "memory");
}

/* ---- asynchronous copies from global to shared memory ---- */
/* 16, 8 or 4 bytes, both addresses multiples of that; `bytes` (0 to that) from memory, the rest
 * zeros. With 0 bytes: from any address (like CUTLASS's cp_async_zfill). */
KD_INLINE void kd_copy16(kd_saddr to, const void *from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
                 : "memory");
}
/* The same through L1, for data that the CTA copies again. */
KD_INLINE void kd_copy16_cached(kd_saddr to, const void *from, int bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
                 : "memory");
}
KD_INLINE void kd_copy8(kd_saddr to, const void *from, int bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(bytes)
                 : "memory");
}
KD_INLINE void kd_copy4(kd_saddr to, const void *from, int bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes)
                 : "memory");
}
/* The thread's copies since the last commit become a group. */
KD_INLINE void kd_copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/* Waits for all of the thread's groups except the last N. */
template <int N> KD_INLINE void kd_copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
