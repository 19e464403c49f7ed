/* wgmma, for sm_90a alone: a warpgroup multiplies two tiles in shared memory (PTX ISA:
 * asynchronous warpgroup-level matrix instructions). warpgroup.cc has the same functions for the
 * CPU.
 *
 * A tile is its address and its layout. K-major: rows of SWIZZLE bytes of k, eight of them
 * contiguous, and `stride` bytes between groups of eight rows. MN-major: K elements of SWIZZLE
 * bytes of rows, eight of them contiguous, `stride` bytes between groups of eight K elements,
 * and `leading` bytes between blocks of SWIZZLE bytes of rows. In both, bits 7 to 9 of an
 * address swizzle its 16-byte pieces (SWIZZLE 128; 64: bits 7 and 8). So tiles begin at
 * multiples of 8 SWIZZLE, or a part of a row later. */
typedef unsigned long kd_tile;
template <int SWIZZLE> KD_INLINE kd_tile kd_tile_of(kd_saddr at, int leading, int stride) {
    return (kd_tile)(at >> 4 & 0x3fff) | (kd_tile)(leading >> 4) << 16 |
           (kd_tile)(stride >> 4) << 32 | (kd_tile)(SWIZZLE == 128 ? 1 : 2) << 62;
}
/* The tile that begins `bytes` later. */
KD_INLINE kd_tile kd_tile_advance(kd_tile t, int bytes) { return t + (kd_tile)(bytes >> 4); }
/* Makes this thread's writes to shared memory, and its copies after kd_copy_wait, visible to
 * kd_wgmma of threads that meet it at a later barrier. */
KD_INLINE void kd_async_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
/* Before the first kd_wgmma, and before one that follows other uses of its sums. */
KD_INLINE void kd_wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/* The warps' kd_wgmma since the last commit become a group. */
KD_INLINE void kd_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/* Orders uses of `sum` after the kd_wgmma_wait before it. Volatile statements, as kd_put_pairs,
 * stay after the wait anyway. */
template <int N> KD_INLINE void kd_wgmma_sums(float (&sum)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(sum[i])::"memory");
}
/* Waits for all groups except the last LEFT: then their tiles have been read, and their sums are
 * complete. */
template <int LEFT> KD_INLINE void kd_wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

/* sum[64][2 N] += a[64][16] b[16][2 N], in f32; undefined until waited for. For warp w, sum
 * holds rows 16 w + g and 16 w + g + 8 (g = lane / 4) of columns 8 j + 2 q and 8 j + 2 q + 1 (q
 * = lane % 4) at 4 j: {g, 2 q}, {g, 2 q + 1}, {g + 8, 2 q}, {g + 8, 2 q + 1}. LEFT_ROWS,
 * RIGHT_ROWS: those tiles are MN-major. OVERWRITE: sum becomes the product, whatever it was. */
#define KD_F8(i)                                                                                   \
    "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3]), "+f"(sum[i + 4]),          \
        "+f"(sum[i + 5]), "+f"(sum[i + 6]), "+f"(sum[i + 7])
#define KD_F16(i)  KD_F8(i), KD_F8(i + 8)
#define KD_F24(i)  KD_F16(i), KD_F8(i + 16)
#define KD_F32(i)  KD_F16(i), KD_F16(i + 16)
#define KD_F48(i)  KD_F32(i), KD_F16(i + 32)
#define KD_F64(i)  KD_F32(i), KD_F32(i + 32)
#define KD_F96(i)  KD_F64(i), KD_F32(i + 64)
#define KD_F128(i) KD_F64(i), KD_F64(i + 64)
#define KD_R8      "%0, %1, %2, %3, %4, %5, %6, %7"
#define KD_R16     KD_R8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define KD_R24     KD_R16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define KD_R32     KD_R24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define KD_R48                                                                                     \
    KD_R32 ", "                                                                                    \
           "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define KD_R64                                                                                     \
    KD_R48 ", "                                                                                    \
           "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define KD_R96                                                                                     \
    KD_R64 ", "                                                                                    \
           "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "      \
           "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define KD_R128                                                                                    \
    KD_R96 ", "                                                                                    \
           "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, "      \
           "%110, %111, "                                                                          \
           "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, "  \
           "%126, %127"
template <bool LEFT_ROWS, bool RIGHT_ROWS, bool OVERWRITE = false, int N>
KD_INLINE void kd_wgmma_bf16(float (&sum)[N], kd_tile a, kd_tile b) {
    static_assert(N == 16 || N == 24 || N == 32 || N == 64 || N == 96 || N == 128,
                  "columns of a product");
    if constexpr (N == 24)
        asm volatile("wgmma.mma_async.sync.aligned.m64n48k16.f32.bf16.bf16 {" KD_R24
                     "}, %24, %25, %28, 1, 1, %26, %27;"
                     : KD_F24(0)
                     : "l"(a), "l"(b), "n"((int)LEFT_ROWS), "n"((int)RIGHT_ROWS),
                       "n"((int)!OVERWRITE)
                     : "memory");
    if constexpr (N == 16)
        asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {" KD_R16
                     "}, %16, %17, %20, 1, 1, %18, %19;"
                     : KD_F16(0)
                     : "l"(a), "l"(b), "n"((int)LEFT_ROWS), "n"((int)RIGHT_ROWS),
                       "n"((int)!OVERWRITE)
                     : "memory");
    if constexpr (N == 32)
        asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" KD_R32
                     "}, %32, %33, %36, 1, 1, %34, %35;"
                     : KD_F32(0)
                     : "l"(a), "l"(b), "n"((int)LEFT_ROWS), "n"((int)RIGHT_ROWS),
                       "n"((int)!OVERWRITE)
                     : "memory");
    if constexpr (N == 64)
        asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" KD_R64
                     "}, %64, %65, %68, 1, 1, %66, %67;"
                     : KD_F64(0)
                     : "l"(a), "l"(b), "n"((int)LEFT_ROWS), "n"((int)RIGHT_ROWS),
                       "n"((int)!OVERWRITE)
                     : "memory");
    if constexpr (N == 96)
        asm volatile("wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {" KD_R96
                     "}, %96, %97, %100, 1, 1, %98, %99;"
                     : KD_F96(0)
                     : "l"(a), "l"(b), "n"((int)LEFT_ROWS), "n"((int)RIGHT_ROWS),
                       "n"((int)!OVERWRITE)
                     : "memory");
    if constexpr (N == 128)
        asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" KD_R128
                     "}, %128, %129, %132, 1, 1, %130, %131;"
                     : KD_F128(0)
                     : "l"(a), "l"(b), "n"((int)LEFT_ROWS), "n"((int)RIGHT_ROWS),
                       "n"((int)!OVERWRITE)
                     : "memory");
}
template <bool LEFT_ROWS, bool RIGHT_ROWS, bool OVERWRITE = false, int N>
KD_INLINE void kd_wgmma_f16(float (&sum)[N], kd_tile a, kd_tile b) {
    static_assert(N == 16 || N == 32 || N == 64 || N == 96 || N == 128, "columns of a product");
    if constexpr (N == 16)
        asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {" KD_R16
                     "}, %16, %17, %20, 1, 1, %18, %19;"
                     : KD_F16(0)
                     : "l"(a), "l"(b), "n"((int)LEFT_ROWS), "n"((int)RIGHT_ROWS),
                       "n"((int)!OVERWRITE)
                     : "memory");
    if constexpr (N == 32)
        asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" KD_R32
                     "}, %32, %33, %36, 1, 1, %34, %35;"
                     : KD_F32(0)
                     : "l"(a), "l"(b), "n"((int)LEFT_ROWS), "n"((int)RIGHT_ROWS),
                       "n"((int)!OVERWRITE)
                     : "memory");
    if constexpr (N == 64)
        asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" KD_R64
                     "}, %64, %65, %68, 1, 1, %66, %67;"
                     : KD_F64(0)
                     : "l"(a), "l"(b), "n"((int)LEFT_ROWS), "n"((int)RIGHT_ROWS),
                       "n"((int)!OVERWRITE)
                     : "memory");
    if constexpr (N == 96)
        asm volatile("wgmma.mma_async.sync.aligned.m64n192k16.f32.f16.f16 {" KD_R96
                     "}, %96, %97, %100, 1, 1, %98, %99;"
                     : KD_F96(0)
                     : "l"(a), "l"(b), "n"((int)LEFT_ROWS), "n"((int)RIGHT_ROWS),
                       "n"((int)!OVERWRITE)
                     : "memory");
    if constexpr (N == 128)
        asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {" KD_R128
                     "}, %128, %129, %132, 1, 1, %130, %131;"
                     : KD_F128(0)
                     : "l"(a), "l"(b), "n"((int)LEFT_ROWS), "n"((int)RIGHT_ROWS),
                       "n"((int)!OVERWRITE)
                     : "memory");
}
/* The same with a left operand in registers, each warp's 16 rows in the layout of kd_mma_*,
 * which must stay unchanged until the product is complete. 16, 32, 48, 64, 96 or 128
 * columns. */
template <bool RIGHT_ROWS, bool OVERWRITE, int N>
KD_INLINE void kd_wgmma_left_bf16(float (&sum)[N], const unsigned (&a)[4], kd_tile b) {
    static_assert(N == 8 || N == 16 || N == 24 || N == 32 || N == 48 || N == 64, "its columns");
    if constexpr (N == 8)
        asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {" KD_R8
                     "}, {%8, %9, %10, %11}, %12, %14, 1, 1, %13;"
                     : KD_F8(0)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"((int)RIGHT_ROWS),
                       "n"((int)!OVERWRITE)
                     : "memory");
    if constexpr (N == 16)
        asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {" KD_R16
                     "}, {%16, %17, %18, %19}, %20, %22, 1, 1, %21;"
                     : KD_F16(0)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"((int)RIGHT_ROWS),
                       "n"((int)!OVERWRITE)
                     : "memory");
    if constexpr (N == 24)
        asm volatile("wgmma.mma_async.sync.aligned.m64n48k16.f32.bf16.bf16 {" KD_R24
                     "}, {%24, %25, %26, %27}, %28, %30, 1, 1, %29;"
                     : KD_F24(0)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"((int)RIGHT_ROWS),
                       "n"((int)!OVERWRITE)
                     : "memory");
    if constexpr (N == 32)
        asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" KD_R32
                     "}, {%32, %33, %34, %35}, %36, %38, 1, 1, %37;"
                     : KD_F32(0)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"((int)RIGHT_ROWS),
                       "n"((int)!OVERWRITE)
                     : "memory");
    if constexpr (N == 48)
        asm volatile("wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 {" KD_R48
                     "}, {%48, %49, %50, %51}, %52, %54, 1, 1, %53;"
                     : KD_F48(0)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"((int)RIGHT_ROWS),
                       "n"((int)!OVERWRITE)
                     : "memory");
    if constexpr (N == 64)
        asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" KD_R64
                     "}, {%64, %65, %66, %67}, %68, %70, 1, 1, %69;"
                     : KD_F64(0)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"((int)RIGHT_ROWS),
                       "n"((int)!OVERWRITE)
                     : "memory");
}
template <bool RIGHT_ROWS, bool OVERWRITE, int N>
KD_INLINE void kd_wgmma_left_f16(float (&sum)[N], const unsigned (&a)[4], kd_tile b) {
    static_assert(N == 8 || N == 16 || N == 24 || N == 32 || N == 48 || N == 64, "its columns");
    if constexpr (N == 8)
        asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {" KD_R8
                     "}, {%8, %9, %10, %11}, %12, %14, 1, 1, %13;"
                     : KD_F8(0)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"((int)RIGHT_ROWS),
                       "n"((int)!OVERWRITE)
                     : "memory");
    if constexpr (N == 16)
        asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {" KD_R16
                     "}, {%16, %17, %18, %19}, %20, %22, 1, 1, %21;"
                     : KD_F16(0)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"((int)RIGHT_ROWS),
                       "n"((int)!OVERWRITE)
                     : "memory");
    if constexpr (N == 24)
        asm volatile("wgmma.mma_async.sync.aligned.m64n48k16.f32.f16.f16 {" KD_R24
                     "}, {%24, %25, %26, %27}, %28, %30, 1, 1, %29;"
                     : KD_F24(0)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"((int)RIGHT_ROWS),
                       "n"((int)!OVERWRITE)
                     : "memory");
    if constexpr (N == 32)
        asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" KD_R32
                     "}, {%32, %33, %34, %35}, %36, %38, 1, 1, %37;"
                     : KD_F32(0)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"((int)RIGHT_ROWS),
                       "n"((int)!OVERWRITE)
                     : "memory");
    if constexpr (N == 48)
        asm volatile("wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16 {" KD_R48
                     "}, {%48, %49, %50, %51}, %52, %54, 1, 1, %53;"
                     : KD_F48(0)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"((int)RIGHT_ROWS),
                       "n"((int)!OVERWRITE)
                     : "memory");
    if constexpr (N == 64)
        asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" KD_R64
                     "}, {%64, %65, %66, %67}, %68, %70, 1, 1, %69;"
                     : KD_F64(0)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"((int)RIGHT_ROWS),
                       "n"((int)!OVERWRITE)
                     : "memory");
}
/* sum[64][2 N] += a[64][8] b[8][2 N] of floats, whose lower 13 bits are ignored; both tiles
 * K-major. */
template <int N> KD_INLINE void kd_wgmma_tf32(float (&sum)[N], kd_tile a, kd_tile b) {
    static_assert(N == 32 || N == 64 || N == 128, "columns of a product");
    if constexpr (N == 32)
        asm volatile("wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {" KD_R32
                     "}, %32, %33, 1, 1, 1;"
                     : KD_F32(0)
                     : "l"(a), "l"(b)
                     : "memory");
    if constexpr (N == 64)
        asm volatile("wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 {" KD_R64
                     "}, %64, %65, 1, 1, 1;"
                     : KD_F64(0)
                     : "l"(a), "l"(b)
                     : "memory");
    if constexpr (N == 128)
        asm volatile("wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32 {" KD_R128
                     "}, %128, %129, 1, 1, 1;"
                     : KD_F128(0)
                     : "l"(a), "l"(b)
                     : "memory");
}

/* Rounds floats in shared memory, 4, 8 or 16 bytes at a multiple of that, as kd_round_tf32 does;
 * needs a fence before kd_wgmma_tf32, as copies do. */
template <int BYTES> KD_INLINE void kd_round_tf32_at(kd_saddr at) {
    float v[BYTES / 4];
    if constexpr (BYTES == 4)
        asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v[0]) : "r"(at) : "memory");
    if constexpr (BYTES == 8)
        asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                     : "=f"(v[0]), "=f"(v[1])
                     : "r"(at)
                     : "memory");
    if constexpr (BYTES == 16)
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
                     : "r"(at)
                     : "memory");
#pragma unroll
    for (int i = 0; i < BYTES / 4; i++) v[i] = kd_round_tf32(v[i]);
    if constexpr (BYTES == 4)
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(at), "f"(v[0]) : "memory");
    if constexpr (BYTES == 8)
        asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at), "f"(v[0]), "f"(v[1]) : "memory");
    if constexpr (BYTES == 16)
        asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(at), "f"(v[0]), "f"(v[1]),
                     "f"(v[2]), "f"(v[3])
                     : "memory");
}

/* ---- TMA (PTX ISA: cp.async.bulk.tensor, mbarrier) ---- */
/* A tensor map as the driver encodes it (ir/kernel/tensor_map.h); one that is a kernel's
 * parameter, and its address. */
struct __align__(128) kd_map {
    unsigned long words[16];
};
#define KD_MAP(name)    const __grid_constant__ kd_map name
#define KD_MAP_OF(name) kd_map_at(&name)
/* Hides the address from the compiler: NVVM 13.0 crashes on a choice of two parameters'
 * addresses in a short loop. */
KD_INLINE const kd_map *kd_map_at(const kd_map *map) {
    asm("" : "+l"(map));
    return map;
}

/* Initialises a barrier of 8 bytes in shared memory, by one thread, which fences it
 * (kd_async_fence); `count` threads arrive in each of its phases. */
KD_INLINE void kd_barrier_begin(kd_saddr at, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(count) : "memory");
}
/* Arrives; the phase ends when so many more bytes have arrived. */
KD_INLINE void kd_barrier_expect(kd_saddr at, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes)
                 : "memory");
}
/* Waits for the end of a phase: the first, the third, ... have parity 0. Then its expected bytes
 * are there. */
KD_INLINE void kd_barrier_wait(kd_saddr at, int parity) {
    unsigned done;
    do {
        asm volatile(
            "{\n.reg .pred done;\nmbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
            "selp.u32 %0, 1, 0, done;\n}"
            : "=r"(done)
            : "r"(at), "r"(parity)
            : "memory");
    } while (!done);
}
/* Arrives, as one of those that the barrier counts. */
KD_INLINE void kd_barrier_arrive(kd_saddr at) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}

/* ---- sums of several CTAs in a fixed order ---- */
/* A whole warpgroup keeps COUNT registers a thread, a multiple of 8, of those it was launched
 * with, or waits for so many. The branches of its kernel are if and else. */
template <int COUNT> KD_INLINE void kd_fewer_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}
template <int COUNT> KD_INLINE void kd_more_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}
/* A barrier of the first THREADS threads of a CTA alone, a multiple of 32; 1 to 15 are its ids. */
template <int ID, int THREADS> KD_INLINE void kd_sync_first() {
    asm volatile("bar.sync %0, %1;" ::"n"(ID), "n"(THREADS) : "memory");
}
/* The counter's value, one more for the next who asks; by one thread. CTAs that take their number
 * so have started in its order, whatever the hardware's. */
KD_INLINE int kd_ticket(int *counter) { return atomicAdd(counter, 1); }
/* Waits until *at is `turn`, by one thread: what others had written before their kd_turn_end to
 * that turn is visible, also to its kd_add_bulk. */
KD_INLINE void kd_turn_wait(const int *at, int turn) {
    int now;
    do asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(now) : "l"(at) : "memory");
    while (now != turn);
    asm volatile("fence.proxy.async.global;" ::: "memory");
}
/* *at becomes `turn`, after kd_bulk_wait. */
KD_INLINE void kd_turn_end(int *at, int turn) {
    asm volatile("fence.proxy.async.global;\nfence.acq_rel.gpu;\n"
                 "st.release.gpu.global.s32 [%0], %1;" ::"l"(at),
                 "r"(turn)
                 : "memory");
}
/* Adds floats in shared memory, which threads have fenced, to those at `to`, by one thread: a
 * group of its own; both at multiples of 16 bytes. */
KD_INLINE void kd_add_bulk(float *to, kd_saddr from, int bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;\n"
                 "cp.async.bulk.commit_group;" ::"l"(to),
                 "r"(from), "r"(bytes)
                 : "memory");
}
/* Waits until all of the thread's groups except the last LEFT are complete. */
template <int LEFT> KD_INLINE void kd_bulk_wait() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(LEFT) : "memory");
}

/* ---- TMA's copies ---- */
/* Copies the map's box whose first element is number x of line y of matrix z, to a multiple of
 * 128 bytes: its lines are contiguous, with the tiles' swizzle; by one thread, and its bytes
 * count on the barrier. */
KD_INLINE void kd_copy_tile(kd_saddr to, const kd_map *from, int x, int y, int z,
                            kd_saddr barrier) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, "
                 "%5}], [%2];" ::"r"(to),
                 "l"(from), "r"(barrier), "r"(x), "r"(y), "r"(z)
                 : "memory");
}
/* The same for an im2col map with so many WINDOWS axes: channels from `channel` on of the pixels
 * from x[0] (along W), x[1], ... of image n on, which is one of the map's positions; each
 * shifted along W, H and D by `by`, 0 or more, and less than 2^(16 / WINDOWS) (PTX ISA: im2col
 * mode). */
template <int WINDOWS>
KD_INLINE void kd_copy_im2col(kd_saddr to, const kd_map *from, int channel, const int (&x)[3],
                              int n, const int (&by)[3], kd_saddr barrier) {
    static_assert(WINDOWS >= 1 && WINDOWS <= 3, "spatial axes");
    if constexpr (WINDOWS == 1)
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::"
                     "bytes [%0], "
                     "[%1, {%3, %4, %5}], [%2], {%6};" ::"r"(to),
                     "l"(from), "r"(barrier), "r"(channel), "r"(x[0]), "r"(n),
                     "h"((unsigned short)by[0])
                     : "memory");
    if constexpr (WINDOWS == 2)
        asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::"
                     "bytes [%0], "
                     "[%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(to),
                     "l"(from), "r"(barrier), "r"(channel), "r"(x[0]), "r"(x[1]), "r"(n),
                     "h"((unsigned short)by[0]), "h"((unsigned short)by[1])
                     : "memory");
    if constexpr (WINDOWS == 3)
        asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::"
                     "bytes [%0], "
                     "[%1, {%3, %4, %5, %6, %7}], [%2], {%8, %9, %10};" ::"r"(to),
                     "l"(from), "r"(barrier), "r"(channel), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(n),
                     "h"((unsigned short)by[0]), "h"((unsigned short)by[1]),
                     "h"((unsigned short)by[2])
                     : "memory");
}
