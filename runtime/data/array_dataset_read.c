/* Reads blocks of arrays for a model: unpacked, converted, normalized, checked to be finite. */
#include <math.h>

#include "runtime/data/array_dataset_private.h"
#include "runtime/data/statistics.h"

dlr_element dataset_element_of(dl_dtype d) {
    static const dlr_element elements[DL_NDTYPES] = {
        [DL_F32] = DLR_EL_F32,   [DL_F64] = DLR_EL_F64, [DL_F16] = DLR_EL_NONE,
        [DL_BF16] = DLR_EL_NONE, [DL_I32] = DLR_EL_I32, [DL_I64] = DLR_EL_I64,
        [DL_BOOL] = DLR_EL_BOOL};
    return elements[d];
}

/* Reads one number in its stored form, and its unpacked value (NaN: it is missing). */
static bool read_one(const dataset_file *f, const dlr_block *at, double *stored, double *value) {
    dl_error ignored = {0};
    return dlr_source_read(f->source, at, DLR_EL_F64, stored, &ignored) &&
           dlr_packing_read(f->packing, f->source, at, DLR_EL_F64, value, &ignored);
}

/* The block of one number, `at` elements into b, and its index in words. */
static dlr_block one_of(const dataset_variable *v, const dlr_block *b, int64_t at, dl_buf *place) {
    dlr_block one = {0};
    for (int k = v->rank - 1; k >= 0; k--) {
        const int j = b->order ? b->order[k] : k;
        int64_t step = b->stride[j] ? b->stride[j] : 1;
        one.start[j] = b->start[j] + at % b->count[j] * step, one.count[j] = 1;
        at /= b->count[j];
    }
    dl_puts(place, "[");
    for (int j = 0; j < v->rank; j++)
        dl_putf(place, "%s%lld", j ? ", " : "", (long long)one.start[j]);
    dl_puts(place, "]");
    return one;
}

bool dataset_refuse_value(const dataset_variable *v, const dataset_file *f, const dlr_block *b,
                          int64_t at, double value, dl_error *err) {
    const bool whole = v->of->to.type.dtype != DL_F32;
    const char *wanted = whole ? "whole numbers have no NaN" : "data must be finite";
    dl_buf place = {0};
    double stored, real;
    dlr_block one = one_of(v, b, at, &place);
    const char *remedy = whole ? "nan: a whole number, puts that in its place"
                               : "nan: 0 puts 0 in the place of such values";
    if (!read_one(f, &one, &stored, &real)) stored = real = value;
    if (isnan(real) && !isnan(stored))
        dataset_fail(v, f, err,
                     "%s is nan: missing, by its attributes, where %.9g is stored: %s (%s)",
                     place.at, stored, wanted, remedy);
    else if (isfinite(real) && !whole)
        dataset_fail(v, f, err,
                     "%s is %.9g, and f32 holds no more than 3.4e38: data must be finite (%s)",
                     place.at, real, remedy);
    else
        dataset_fail(v, f, err, "%s is %g: %s (%s)", place.at, value, wanted, remedy);
    dl_buf_free(&place);
    return false;
}

static int64_t count_of(const dataset_variable *v, const dlr_block *b) {
    int64_t n = 1;
    for (int j = 0; j < v->rank; j++) n *= b->count[j];
    return n;
}

/* Normalizes n contiguous numbers of one channel; where some are not finite, one by one. */
static int64_t scale_run(const dataset_array *a, float *x, size_t n, int64_t channel) {
    float mean = 0, deviation = 1;
    if (a->mean) {
        int64_t c = a->n_scales > 1 ? channel : 0;
        mean = a->mean[c], deviation = a->deviation[c];
    }
    int64_t bad = dlr_normalise(x, n, mean, deviation);
    if (bad < 0 || !a->from.replaces_nan) return bad;
    for (size_t i = 0; i < n; i++)
        x[i] = isfinite(x[i]) ? (x[i] - mean) / deviation : (float)a->from.nan;
    return -1;
}

/* Reads whole numbers, some of which may be missing. */
static bool read_whole(const dataset_variable *v, const dataset_file *f, const dlr_block *b,
                       dlr_element type, void *out, dl_error *err) {
    const dlr_array_dataset_source *from = &v->of->from;
    int64_t bad = -1;
    bool missing = false;
    double value = 0;
    dl_error reason = {0};
    if (dlr_packing_read_whole(f->packing, f->source, b, type, out,
                               from->replaces_nan ? &from->nan : NULL, &bad, &missing, &value,
                               &reason))
        return true;
    if (reason.code) return dl_fail(err, reason.code, "%s: %s", from->key, reason.message);
    if (missing || !isfinite(value)) return dataset_refuse_value(v, f, b, bad, value, err);
    dl_buf place = {0};
    one_of(v, b, bad, &place);
    dataset_fail(v, f, err, "%s is %.9g, which is no whole number of type %s", place.at, value,
                 dlr_element_name(type));
    dl_buf_free(&place);
    return false;
}

static bool read_as(const dataset_variable *v, const dataset_file *f, const dlr_block *b,
                    dlr_element type, void *out, dl_error *err) {
    dl_error reason = {0};
    const dataset_array *a = v->of;
    const bool whole = a->to.type.dtype != DL_F32;
    if (whole && (f->packing->any || a->from.replaces_nan))
        return read_whole(v, f, b, type, out, err);
    /* integers that a device converts have no packing (dataset_numbers_of) */
    return (f->packing->any ? dlr_packing_read(f->packing, f->source, b, type, out, &reason)
                            : dlr_source_read(f->source, b, type, out, &reason)) ||
           dl_fail(err, reason.code, "%s: %s", a->from.key, reason.message);
}

bool dataset_read(const dataset_variable *v, const dataset_file *f, const dlr_block *b,
                  int64_t channel, void *out, dl_error *err) {
    const dataset_array *a = v->of;
    if (!read_as(v, f, b, dataset_element_of(a->to.type.dtype), out, err)) return false;
    if (a->to.type.dtype != DL_F32) return true;
    int64_t outer = 1, channels = 1, inner = 1;
    bool by_channel = a->n_scales > 1 && v->channel >= 0;
    for (int k = 0, before = by_channel; k < v->rank; k++) {
        const int j = b->order ? b->order[k] : k;
        if (by_channel && j == v->channel)
            channels = b->count[j], before = false;
        else
            *(before ? &outer : &inner) *= b->count[j];
    }
    float *x = out;
    for (int64_t i = 0; i < outer * channels; i++, x += inner) {
        int64_t bad = scale_run(a, x, (size_t)inner, channel + i % channels);
        if (bad >= 0) return dataset_refuse_value(v, f, b, i * inner + bad, x[bad], err);
    }
    return true;
}

bool dataset_read_numbers(const dataset_variable *v, const dataset_file *f, const dlr_block *b,
                          int64_t channel, void *out, dl_error *err) {
    (void)channel;
    const dataset_array *a = v->of;
    if (!read_as(v, f, b, a->numbers, out, err)) return false;
    if (a->numbers != DLR_EL_F32 || a->from.replaces_nan) return true;
    int64_t bad = dlr_not_finite_at(out, (size_t)count_of(v, b));
    return bad < 0 || dataset_refuse_value(v, f, b, bad, ((float *)out)[bad], err);
}

dlr_element dataset_numbers_of(const dataset_array *a) {
    static const bool converted[DLR_NELEMENTS] = {
        [DLR_EL_I8] = true, [DLR_EL_I16] = true, [DLR_EL_I32] = true,
        [DLR_EL_U8] = true, [DLR_EL_U16] = true, [DLR_EL_U32] = true};
    const dlr_element model = dataset_element_of(a->to.type.dtype),
                      stored = dlr_source_type(a->variables.at[0].files.at[0].source);
    bool same = model == DLR_EL_F32 && converted[stored];
    for (int k = 0; k < a->variables.n; k++)
        for (int i = 0; i < a->variables.at[k].files.n; i++) {
            const dataset_file *f = &a->variables.at[k].files.at[i];
            same = same && dlr_source_type(f->source) == stored && !f->packing->any;
        }
    return same ? stored : model;
}
