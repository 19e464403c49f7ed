#include "ir/kernel/tensor_map.h"

/* Do the windows' lower and upper corners and traversal strides satisfy cuTensorMapEncodeIm2col?
 * Matrices have none. */
static bool windows_fit(const dl_tensor_map *m) {
    enum { MOST_TRAVERSAL = 8 };
    if (m->windows < 0 || m->windows > DL_MAP_SPATIAL || (m->windows && m->box[2] != 1))
        return false;
    bool ok = true;
    for (int i = 0; i < DL_MAP_SPATIAL; i++) {
        if (i >= m->windows) {
            ok = ok && !m->lower[i] && !m->upper[i] && !m->traversal[i];
            continue;
        }
        int limit = 1 << (16 / m->windows - 1);
        ok = ok && m->lower[i] >= -limit && m->lower[i] < limit && m->upper[i] >= -limit &&
             m->upper[i] < limit && m->traversal[i] >= 1 && m->traversal[i] <= MOST_TRAVERSAL &&
             m->size[1 + i] + m->upper[i] > m->lower[i];
    }
    return ok;
}

bool dl_tensor_map_fits(const dl_tensor_map *m, int64_t bytes) {
    enum { MOST_BOX = 256, STEP = 16 };
    static const int64_t most_size = (int64_t)1 << 32, most_step = (int64_t)1 << 40;
    bool ok = (m->dtype == DL_F32 || m->dtype == DL_F16 || m->dtype == DL_BF16) &&
              (m->swizzle == 64 || m->swizzle == 128) && m->offset >= 0 && m->offset % STEP == 0 &&
              windows_fit(m);
    if (!ok) return false;
    int axes = dl_tensor_map_axes(m->windows);
    for (int i = 0; i < DL_MAP_BOX; i++) ok = ok && m->box[i] >= 1 && m->box[i] <= MOST_BOX;
    for (int i = 0; i < axes; i++) ok = ok && m->size[i] >= 1 && m->size[i] <= most_size;
    for (int i = axes; i < DL_MAP_AXES; i++) ok = ok && !m->size[i] && !m->step[i - 1];
    if (!ok) return false;
    int64_t word = dl_dtype_bytes(m->dtype), reach = m->size[0] * word;
    ok = m->box[0] * word == m->swizzle;
    for (int i = 0; ok && i < axes - 1; i++) {
        int64_t below = i ? m->step[i - 1] : STEP, far;
        ok = m->step[i] >= (i ? below : reach) && m->step[i] < most_step &&
             m->step[i] % below == 0 &&
             !__builtin_mul_overflow(m->size[i + 1] - 1, m->step[i], &far) &&
             !__builtin_add_overflow(reach, far, &reach);
    }
    return ok && reach <= bytes && m->offset <= bytes - reach;
}

dl_emulated_map dl_tensor_map_emulated(const dl_tensor_map *m, uint64_t address) {
    dl_emulated_map e = {.address = address + (uint64_t)m->offset,
                         .mark = DL_EMULATED_MAP,
                         .word = dl_dtype_bytes(m->dtype),
                         .swizzle = m->swizzle,
                         .windows = (uint8_t)m->windows};
    for (int i = 0; i < DL_MAP_BOX; i++) e.box[i] = m->box[i];
    for (int i = 0; i < DL_MAP_AXES; i++) e.size[i] = m->size[i];
    for (int i = 0; i < DL_MAP_AXES - 1; i++) e.step[i] = m->step[i];
    for (int i = 0; i < DL_MAP_SPATIAL; i++)
        e.lower[i] = (int16_t)m->lower[i], e.upper[i] = (int16_t)m->upper[i],
        e.traversal[i] = (uint8_t)m->traversal[i];
    return e;
}
