/* Sums of several blocks in a fixed order, for test_cuda_wgmma.c: sums[TILES][FLOATS] of x[blocks][TILES][FLOATS], each
 * tile's floats reversed in fours. turns: a ticket and a counter a tile, zeros at first. */
enum { TILES = 5, FLOATS = 1024 };

extern "C" __global__ void __launch_bounds__(384, 1) ordered_0(const float *x, float *sums, int *turns, char *) {
    KD_SHARED(float, shared);
    float *const own = shared + 2 * FLOATS;
    int *const ticket = (int *)(own + FLOATS);
    const kd_saddr ready = kd_saddr_of(ticket + 4), taken = ready + 16;
    if (threadIdx.x == 0) {
        *ticket = kd_ticket(turns);
        for (int i = 0; i < 2; i++) kd_barrier_begin(ready + i * 8, 256), kd_barrier_begin(taken + i * 8, 1);
        kd_async_fence();
    }
    __syncthreads();
    const int block = *ticket, thread = kd_thread();
    if (thread >= 256) {
        kd_fewer_registers<24>();
        if (thread > 256) return;
        for (int tile = 0; tile < TILES; tile++) {
            kd_barrier_wait(ready + tile % 2 * 8, tile / 2 & 1);
            kd_turn_wait(turns + 1 + tile, block);
            kd_add_bulk(sums + tile * FLOATS, kd_saddr_of(shared + tile % 2 * FLOATS), FLOATS * 4);
            if (tile == 0) continue;
            kd_bulk_wait<1>();
            kd_turn_end(turns + tile, block + 1);
            kd_barrier_arrive(taken + (tile - 1) % 2 * 8);
        }
        kd_bulk_wait<0>();
        kd_turn_end(turns + TILES, block + 1);
    } else {
        kd_more_registers<240>();
        for (int tile = 0; tile < TILES; tile++) {
            const float *from = x + (block * TILES + tile) * FLOATS;
            kd_sync_first<2, 256>();
            for (int i = 0; i < 4; i++) own[thread * 4 + i] = from[thread * 4 + i];
            kd_sync_first<1, 256>();
            const float *four = own + (255 - thread) * 4;
            if (tile > 1) kd_barrier_wait(taken + tile % 2 * 8, (tile / 2 - 1) & 1);
            kd_put((float4 *)(shared + tile % 2 * FLOATS + thread * 4),
                   make_float4(four[0], four[1], four[2], four[3]));
            kd_async_fence();
            kd_barrier_arrive(ready + tile % 2 * 8);
        }
    }
}
