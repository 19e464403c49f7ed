#include "runtime/predict/scale.h"

bool dlr_scale_of(dl_arena *arena, const dl_array_record *r, const dl_type *t, int space,
                  const char *what, dlr_scale *out, dl_error *err) {
    *out = (dlr_scale){0};
    if (!r || !r->n_scales) return true;
    int axis = dl_type_channel_axis(t);
    int64_t channels = 1, inner = 1, n = axis < 0 ? 1 : t->axis[axis].size;
    if (!dl_record_fits(r, t, what, err)) return false;
    if (r->n_scales > 1 && axis >= t->rank - space)
        return dl_fail(err, DL_INPUT,
                       "%s is %s, and the statistics of '%s' differ along %s, which may be cut",
                       what, dl_type_text(t), r->name, t->axis[axis].name);
    for (int k = 1; k < t->rank - space; k++) {
        channels *= t->axis[k].size;
        if (k > axis) inner *= t->axis[k].size;
    }
    float *mean = DL_NEWS(arena, float, channels + 1),
          *deviation = DL_NEWS(arena, float, channels + 1);
    for (int64_t c = 0; c < channels; c++) {
        int64_t from = r->n_scales > 1 ? c / inner % n : 0;
        mean[c] = r->mean[from], deviation[c] = r->deviation[from];
    }
    *out = (dlr_scale){mean, deviation, channels};
    return true;
}

bool dlr_scale_same(const dlr_scale *a, const dlr_scale *b) {
    if (!a->mean || !b->mean) return a->mean == b->mean;
    size_t bytes = (size_t)a->channels * sizeof *a->mean;
    return a->channels == b->channels && memcmp(a->mean, b->mean, bytes) == 0 &&
           memcmp(a->deviation, b->deviation, bytes) == 0;
}
