#include "runtime/predict/field.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "runtime/data/statistics.h"

enum { CHUNKS = 64 << 20 /* of unpacked ones, those of neighbouring pieces */ };

/* FILE:ARRAY, unless there is a file of the whole name. */
static const char *split(dl_arena *arena, const char *spec, const char **name) {
    const char *colon = strrchr(spec, ':');
    *name = NULL;
    if (!colon || colon == spec || access(spec, F_OK) == 0) return spec;
    *name = colon + 1;
    return dl_strndup(arena, spec, (size_t)(colon - spec));
}

static bool fits(const dlr_array_facts *a, const dlr_field_want *want) {
    int rank = want->type->rank - 1, first = a->rank - rank;
    if (a->type == DLR_EL_NONE || a->refused || (first != 0 && first != 1)) return false;
    for (int k = 0; k < rank; k++) {
        int64_t size = want->type->axis[1 + k].size, there = a->dims[first + k];
        if (k < rank - want->space ? there != size : there < 1) return false;
    }
    return true;
}

static bool refuse(const dlr_array_file *file, const dlr_field_want *want, const char *why,
                   dl_error *err) {
    dl_buf holds = {0};
    dlr_array_file_put(&holds, file, 8);
    dl_fail(err, DL_INPUT,
            "%s: %s: %s takes %s, and an array holds one sample, or many along a first axis; there "
            "are: %.400s",
            file->path, why, want->what, dl_type_text(want->type), holds.at ? holds.at : "none");
    dl_buf_free(&holds);
    return false;
}

static bool choose(dlr_field *f, const char *name, const dlr_field_want *want, dl_error *err) {
    const dlr_array_facts *only = NULL;
    int n = 0;
    if (name) {
        f->array = dlr_array_file_find(f->file, name);
        if (!f->array)
            return refuse(f->file, want, dl_format(f->file->arena, "no array '%.100s'", name), err);
        if (f->array->refused || fits(f->array, want))
            return true; /* the first is said when it is opened */
        return refuse(f->file, want, dl_format(f->file->arena, "'%.100s' does not fit", name), err);
    }
    for (int i = 0; i < f->file->n; i++)
        if (fits(&f->file->arrays[i], want)) only = &f->file->arrays[i], n++;
    for (const char *const *usual = want->usual; n > 1 && *usual; usual++) {
        const dlr_array_facts *a = dlr_array_file_find(f->file, *usual);
        if (a && fits(a, want)) only = a, n = 1;
    }
    if (n == 0) return refuse(f->file, want, "no array fits", err);
    if (n > 1) return refuse(f->file, want, "several arrays fit (say which: FILE:ARRAY)", err);
    f->array = only;
    return true;
}

bool dlr_field_open(dlr_field *f, dl_arena *arena, const char *spec, const dlr_field_want *want,
                    dl_error *err) {
    const char *name, *path = split(arena, spec, &name);
    *f = (dlr_field){
        .file = dlr_array_file_open(path, err), .space = want->space, .wanted = want->type->dtype};
    if (!f->file || !choose(f, name, want, err)) return false;
    f->source = dlr_source_open(f->file, f->array, CHUNKS, err);
    if (!f->source) return false;
    if (want->unpacks && !dlr_packing_open(path, f->array, &f->packing, err)) return false;
    int rank = want->type->rank - 1, first = f->array->rank - rank;
    f->channel_axes = rank - want->space;
    f->in_order = first == 1;
    f->samples = first ? f->array->dims[0] : 1;
    f->size = (dlr_extent){1, {1, 1, 1}};
    for (int k = 0; k < f->channel_axes; k++) f->size.channels *= f->array->dims[first + k];
    for (int k = 0; k < want->space; k++)
        f->size.size[DLR_SPACE - want->space + k] = f->array->dims[first + f->channel_axes + k];
    return true;
}

void dlr_field_close(dlr_field *f) {
    dlr_source_close(f->source);
    dlr_array_file_close(f->file);
    *f = (dlr_field){0};
}

static bool refuse_value(const dlr_field *f, int64_t sample, const int64_t start[DLR_SPACE],
                         const int64_t count[DLR_SPACE], int64_t at, float value, dl_error *err) {
    int64_t place[DLR_SPACE];
    for (int k = DLR_SPACE - 1; k >= 0; k--) place[k] = start[k] + at % count[k], at /= count[k];
    const char *wanted = !isfinite(value)         ? "data must be finite"
                         : f->wanted == DL_BOOL   ? "the model wants 0 or 1"
                         : value == truncf(value) ? "whole numbers are read below 16777216"
                                                  : "the model wants whole numbers";
    return dl_fail(
        err, DL_INPUT, "%s, sample %lld, channel %lld, place [%lld, %lld, %lld] is %.9g: %s",
        dlr_source_label(f->source), (long long)sample, (long long)at, (long long)place[0],
        (long long)place[1], (long long)place[2], (double)value, wanted);
}

/* The first of n that the model's type does not hold, or -1. A float holds all whole numbers below
 * 2^24; one beyond it may have been rounded. */
static int64_t find_unwanted(dl_dtype wanted, const float *x, int64_t n) {
    if (dl_dtype_is_float(wanted)) return -1;
    for (int64_t i = 0; i < n; i++)
        if (wanted == DL_BOOL ? x[i] != 0 && x[i] != 1
                              : x[i] != truncf(x[i]) || !(fabsf(x[i]) < 0x1p24f))
            return i;
    return -1;
}

bool dlr_field_read(const dlr_field *f, int64_t sample, const int64_t start[DLR_SPACE],
                    const int64_t count[DLR_SPACE], float *out, dl_error *err) {
    dlr_block b = {0};
    int k = 0;
    if (f->in_order) b.start[k] = sample, b.count[k++] = 1;
    for (int i = 0; i < f->channel_axes; i++, k++) b.count[k] = f->array->dims[k];
    for (int i = DLR_SPACE - f->space; i < DLR_SPACE; i++, k++)
        b.start[k] = start[i], b.count[k] = count[i];
    if (!dlr_packing_read(&f->packing, f->source, &b, DLR_EL_F32, out, err)) return false;
    int64_t n = count[0] * count[1] * count[2];
    for (int64_t c = 0; c < f->size.channels; c++, out += n) {
        int64_t bad =
            dlr_normalise(out, (size_t)n, f->mean ? f->mean[c] : 0, f->mean ? f->deviation[c] : 1);
        if (bad < 0) bad = find_unwanted(f->wanted, out, n);
        if (bad >= 0) return refuse_value(f, sample, start, count, c * n + bad, out[bad], err);
    }
    return true;
}
