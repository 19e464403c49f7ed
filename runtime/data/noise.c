#include "runtime/data/noise.h"

void dlr_noise_fill(const dlr_noise *noise, dlr_rng_place place, float *out) {
    if (!noise->classes) {
        dlr_normals(place, 0, (size_t)noise->elements, 0, 1, out);
        return;
    }
    dlr_rng rng = dlr_rng_at(place);
    for (int64_t i = 0; i < noise->elements; i++)
        out[i] = (float)dlr_rng_below(&rng, (uint32_t)noise->classes);
}
