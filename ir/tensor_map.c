#include "ir/tensor_map.h"

bool dl_tensor_map_fits(const dl_tensor_map *m, int64_t bytes) {
    enum { MOST_BOX = 256, STEP = 16 };
    static const int64_t most_size = (int64_t)1 << 32, most_step = (int64_t)1 << 40;
    bool ok = (m->dtype == DL_F32 || m->dtype == DL_F16 || m->dtype == DL_BF16) &&
              (m->swizzle == 64 || m->swizzle == 128) && m->offset >= 0 && m->offset % STEP == 0;
    for (int i = 0; ok && i < DL_MAP_AXES; i++)
        ok = m->box[i] >= 1 && m->box[i] <= MOST_BOX && m->size[i] >= 1 && m->size[i] <= most_size;
    if (!ok) return false;
    int64_t word = dl_dtype_bytes(m->dtype), reach = m->size[0] * word;
    ok = m->box[0] * word == m->swizzle;
    for (int i = 0; ok && i < DL_MAP_AXES - 1; i++) {
        int64_t below = i ? m->step[i - 1] : STEP, far;
        ok = m->step[i] >= (i ? below : reach) && m->step[i] < most_step && m->step[i] % below == 0 &&
             !__builtin_mul_overflow(m->size[i + 1] - 1, m->step[i], &far) &&
             !__builtin_add_overflow(reach, far, &reach);
    }
    return ok && reach <= bytes && m->offset <= bytes - reach;
}

dl_emulated_map dl_tensor_map_emulated(const dl_tensor_map *m, uint64_t address) {
    dl_emulated_map e = {.address = address + (uint64_t)m->offset,
                         .mark = DL_EMULATED_MAP,
                         .word = dl_dtype_bytes(m->dtype),
                         .swizzle = m->swizzle};
    for (int i = 0; i < DL_MAP_AXES; i++) e.box[i] = m->box[i], e.size[i] = m->size[i];
    for (int i = 0; i < DL_MAP_AXES - 1; i++) e.step[i] = m->step[i];
    return e;
}
