/* The device's peak rates, as kernels of the plan's ABI: tensor core products in registers, and
 * a stream through memory. */

/* Two bf16 numbers of either sign, from 1 to 2: with zeros a device may run faster than with
 * real data. */
KD_INLINE unsigned peak_operand(unsigned i) {
    unsigned h = i * 0x9e3779b9u;
    h = (h ^ h >> 15) * 0x85ebca6bu;
    return ((h ^ h >> 13) & 0x807f807fu) | 0x3f803f80u;
}

#if PEAK_SHARED
/* PEAK_STEPS products of 64 x 256 x 16 per warpgroup, alternating between two halves of tiles in
 * shared memory: one right tile for all, and a left one each. */
extern "C" __global__ void __launch_bounds__(PEAK_THREADS)
    peak_flops_0(float *out, char *workspace) {
    KD_SHARED(unsigned, tiles);
    enum { LINE = 64, EIGHT = 8 * LINE, RIGHT = 256 * LINE, LEFT = 64 * LINE, HALF = 32 };
    float c[128], sum = 0;
    for (int i = threadIdx.x; i < PEAK_SHARED / 4; i += PEAK_THREADS)
        kd_put(tiles + i, peak_operand(i));
    kd_async_fence();
    __syncthreads();
    for (int i = 0; i < 128; i++) c[i] = (float)i;
    const kd_saddr right = kd_saddr_of(tiles), left = right + RIGHT + threadIdx.x / 128 * LEFT;
    kd_wgmma_begin();
    CT_LOOP for (int step = 0; step < PEAK_STEPS; step += 2) {
        kd_wgmma_bf16<false, false>(c, kd_tile_of<LINE>(left, 16, EIGHT),
                                    kd_tile_of<LINE>(right, 16, EIGHT));
        kd_wgmma_bf16<false, false>(c, kd_tile_of<LINE>(left + HALF, 16, EIGHT),
                                    kd_tile_of<LINE>(right + HALF, 16, EIGHT));
        kd_wgmma_commit();
        kd_wgmma_wait<1>();
    }
    kd_wgmma_wait<0>();
    kd_wgmma_sums(c);
    for (int i = 0; i < 128; i++) sum += c[i];
    out[blockIdx.x * PEAK_THREADS + threadIdx.x] = sum;
}
#else
/* PEAK_STEPS rounds of one product of 16 x 8 x 16 per chain and warp. */
extern "C" __global__ void __launch_bounds__(PEAK_THREADS)
    peak_flops_0(float *out, char *workspace) {
    float c[PEAK_CHAINS][4], sum = 0;
    unsigned a[4], b[2];
    for (int i = 0; i < 4; i++) a[i] = peak_operand(threadIdx.x * 4 + i);
    for (int i = 0; i < 2; i++) b[i] = peak_operand(threadIdx.x * 2 + i + 4096);
    for (int k = 0; k < PEAK_CHAINS; k++)
        for (int i = 0; i < 4; i++) c[k][i] = (float)(k * 4 + i);
    for (int step = 0; step < PEAK_STEPS; step++)
        for (int k = 0; k < PEAK_CHAINS; k++) kd_mma_bf16(c[k], a, b);
    for (int k = 0; k < PEAK_CHAINS; k++)
        for (int i = 0; i < 4; i++) sum += c[k][i];
    out[blockIdx.x * PEAK_THREADS + threadIdx.x] = sum;
}
#endif

/* Reads and writes all of it once. */
extern "C" __global__ void __launch_bounds__(PEAK_THREADS)
    peak_stream_0(float *data, char *workspace) {
    float *at = data + (long)blockIdx.x * (PEAK_WORDS * PEAK_THREADS * 4) + threadIdx.x * 4;
    kd_words v[PEAK_WORDS];
    for (int k = 0; k < PEAK_WORDS; k++) v[k] = kd_load16(at + k * PEAK_THREADS * 4);
    for (int k = 0; k < PEAK_WORDS; k++)
        for (int i = 0; i < 4; i++) v[k].w[i] += 1;
    for (int k = 0; k < PEAK_WORDS; k++) kd_store16(at + k * PEAK_THREADS * 4, v[k]);
}
