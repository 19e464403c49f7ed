#include "runtime/data/noise.h"

#include "runtime/base/rng.h"
#include "runtime/data/loader.h"

#include <stdlib.h>
#include <string.h>

/* Steps of DLR_STREAM_NOISE that the arrays of an epoch take. More arrays than GROUP are in groups
 * of so many, whose steps lie apart: beyond 2^23 epochs they would meet. */
enum { GROUP = 16, STEPS = 4 * GROUP / 2, GROUP_SHIFT = 28 };
_Static_assert(DLR_MAX_ARRAYS / GROUP <= 1 << (32 - GROUP_SHIFT), "steps of groups");

static bool open_noise(dlr_dataset *d, const void *options, dl_error *err) {
    const dlr_noise_options *o = options;
    for (int i = 0; i < d->arrays.n; i++) {
        const dl_type *t = &d->arrays.at[i].type;
        bool drawn = dl_dtype_is_float(t->dtype) ? o->classes[i] >= 0 : o->classes[i] >= 1;
        if (dl_type_count(t) < 1 || !drawn || o->classes[i] > DLR_NOISE_MAX_CLASSES)
            return dl_fail(err, DL_USAGE, "no synthetic samples of %s and %lld classes",
                           dl_type_text(t), (long long)o->classes[i]);
    }
    if (o->samples < 1 || o->samples > UINT32_MAX)
        return dl_fail(err, DL_USAGE, "an epoch has 1 sample or more, not %lld",
                       (long long)o->samples);
    dlr_noise_options *kept = malloc(sizeof *kept);
    if (!kept) return dl_fail(err, DL_RESOURCE, "no memory for a data set");
    *kept = *o;
    d->state = kept, d->samples = o->samples, d->in_memory = true;
    return true;
}

static void fill_floats(int64_t n, bool uniform, dlr_rng_place place, float *out) {
    if (uniform)
        dlr_uniforms(place, 0, (size_t)n, 0, 1, out);
    else
        dlr_normals(place, 0, (size_t)n, 0, 1, out);
}

static void fill_classes(const dl_type *type, int64_t classes, dlr_rng_place place, void *out) {
    int64_t n = dl_type_count(type);
    dlr_rng rng = dlr_rng_at(place);
    for (int64_t i = 0; i < n; i++) {
        uint32_t class = dlr_rng_below(&rng, (uint32_t)classes);
        switch (type->dtype) {
        case DL_I32: ((int32_t *)out)[i] = (int32_t) class; break;
        case DL_I64: ((int64_t *)out)[i] = (int64_t) class; break;
        case DL_BOOL: ((uint8_t *)out)[i] = class != 0; break;
        default: ((float *)out)[i] = (float)class;
        }
    }
}

static bool draw_sample(const dlr_dataset *d, int64_t epoch, int64_t sample, void *const *out,
                        void *scratch, dl_error *err) {
    (void)scratch, (void)err;
    const dlr_noise_options *o = d->state;
    uint32_t drawn = o->redraw && d->split == DLR_TRAIN ? (uint32_t)epoch * STEPS : 0;
    for (int i = 0; i < d->arrays.n; i++) {
        /* arrays are numbered in pairs: the first two keep the step numbers that they had without
         * others */
        int place_in = i % GROUP;
        uint32_t step = drawn + ((uint32_t)(i / GROUP) << GROUP_SHIFT) +
                        (uint32_t)(4 * (place_in / 2) + 2 * (d->split == DLR_VALID) + i % 2);
        dlr_rng_place place = {d->seed, DLR_STREAM_NOISE, step, (uint32_t)sample};
        const dl_type *type = &d->arrays.at[i].type;
        if (o->classes[i])
            fill_classes(type, o->classes[i], place, out[i]);
        else
            fill_floats(dl_type_count(type), o->uniform, place, out[i]);
    }
    return true;
}

static void close_noise(dlr_dataset *d) { free(d->state); }

const dlr_loader dlr_noise_loader = {
    .name = "synthetic", .open = open_noise, .sample = draw_sample, .close = close_noise};
