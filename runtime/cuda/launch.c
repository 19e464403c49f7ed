/* One launch of a kernel: its arguments, including tensor maps, and its library calls and phases as
 * they are added to the stream. */
#include <string.h>

#include "runtime/cuda/cuda.h"

/* The driver has the function: dlr_cuda_load has checked it. */
static dlr_cu_result make_map(const dlr_cuda *c, const dl_tensor_map *m, uint64_t param, void *to) {
    static const int types[DL_NDTYPES] = {
        [DL_F32] = DLR_CU_MAP_F32, [DL_F16] = DLR_CU_MAP_F16, [DL_BF16] = DLR_CU_MAP_BF16};
    _Alignas(DL_MAP_ALIGN) char map[DL_MAP_BYTES] = {0};
    void *address = (char *)(uintptr_t)(param + (uint64_t)m->offset);
    unsigned axes = (unsigned)dl_tensor_map_axes(m->windows);
    int swizzle = m->swizzle == 64 ? DLR_CU_MAP_SWIZZLE_64 : DLR_CU_MAP_SWIZZLE_128;
    uint64_t size[DL_MAP_AXES], step[DL_MAP_AXES - 1];
    uint32_t box[DL_MAP_BOX], each[DL_MAP_AXES];
    for (int i = 0; i < DL_MAP_AXES; i++) size[i] = (uint64_t)m->size[i], each[i] = 1;
    for (int i = 0; i < m->windows && i < DL_MAP_SPATIAL; i++)
        each[1 + i] = (uint32_t)m->traversal[i];
    for (int i = 0; i < DL_MAP_BOX; i++) box[i] = (uint32_t)m->box[i];
    for (int i = 0; i < DL_MAP_AXES - 1; i++) step[i] = (uint64_t)m->step[i];
    dlr_cu_result r =
        m->windows
            ? c->driver->TensorMapEncodeIm2col(map, types[m->dtype], axes, address, size, step,
                                               m->lower, m->upper, box[0], box[1], each,
                                               DLR_CU_MAP_INTERLEAVE_NONE, swizzle,
                                               DLR_CU_MAP_PROMOTION_128, DLR_CU_MAP_OUTSIDE_ZERO)
            : c->driver->TensorMapEncodeTiled(map, types[m->dtype], axes, address, size, step, box,
                                              each, DLR_CU_MAP_INTERLEAVE_NONE, swizzle,
                                              DLR_CU_MAP_PROMOTION_128, DLR_CU_MAP_OUTSIDE_ZERO);
    memcpy(to, map, sizeof map);
    return r;
}

dlr_cu_result dlr_cuda_bind(dlr_cuda *c, dl_arena *arena, dlr_cuda_launch *l, uint64_t memory,
                            const int64_t *places, uint64_t workspace) {
    dlr_cu_result r = 0;
    const dl_plan_kernel *k = l->kernel;
    dlr_cuda_args *all = l->args = DL_NEWS(arena, dlr_cuda_args, k->phases + 1);
    l->places = DL_NEWS(arena, uint64_t, k->nargs + 1);
    for (int i = 0; i < k->nargs; i++) l->places[i] = memory + (uint64_t)places[i];
    l->places[k->nargs] = workspace;
    for (int p = 0; p < k->phases; p++) {
        const dl_plan_entry e = dl_plan_entry_of(arena, k, p);
        char *maps = DL_NEWS(arena, char, e.maps.n *DL_MAP_BYTES + 1);
        int most = e.args.n + 1 + e.numbers.n, room = e.table.numbers + e.table.pointers;
        uint64_t *words = DL_NEWS(arena, uint64_t, most > room ? most : room), *to = words;
        void **at = all[p].at = DL_NEWS(arena, void *, e.maps.n + most + 1);
        for (int i = 0; i < e.maps.n && r == 0; i++, maps += DL_MAP_BYTES) {
            r = make_map(c, &e.maps.at[i], l->places[e.maps.at[i].param], maps);
            *at++ = maps;
        }
        if (e.table.numbers) {
            for (int i = 0; i < e.numbers.n; i++) words[i] = (uint64_t)e.numbers.at[i];
            for (int i = 0; i < e.args.n; i++) words[e.table.numbers + i] = l->places[e.args.at[i]];
            *at = words;
            continue;
        }
        for (int i = 0; i < e.args.n; i++) *to++ = l->places[e.args.at[i]];
        *to++ = workspace;
        for (int i = 0; i < e.numbers.n; i++) *to++ = (uint64_t)e.numbers.at[i];
        while (words < to) *at++ = words++;
    }
    return r;
}

dlr_cu_result dlr_cuda_put_launch(dlr_cuda *c, const dlr_cuda_launch *l) {
    dlr_cu_result r = dlr_cuda_put_calls(c, l);
    for (int p = 0; r == 0 && p < l->kernel->phases; p++) {
        if (l->kernel->items[p] > 0)
            r = c->driver->LaunchKernel(
                l->phase[p], (unsigned)l->kernel->items[p], 1, 1, (unsigned)l->kernel->threads[p],
                1, 1, (unsigned)l->kernel->shared[p], c->stream, l->args[p].at, NULL);
    }
    return r;
}
