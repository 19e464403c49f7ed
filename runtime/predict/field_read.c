/* Blocks of a field: read, transposed, normalised, and checked for the model's type. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/statistics.h"
#include "runtime/predict/field.h"

dl_dtype dlr_field_numbers(const dl_type *type) {
    return dl_dtype_is_float(type->dtype) ? DL_F32 : DL_F64;
}

/* The whole numbers below it are all held. */
static double most_whole(dl_dtype numbers) { return numbers == DL_F64 ? 0x1p53 : 0x1p24; }

static bool refuse_value(const dlr_field *f, int64_t sample, const int64_t start[DLR_SPACE],
                         const int64_t count[DLR_SPACE], int64_t at, dl_dtype to, double value,
                         dl_error *err) {
    int64_t place[DLR_SPACE];
    for (int k = DLR_SPACE - 1; k >= 0; k--) place[k] = start[k] + at % count[k], at /= count[k];
    const char *wanted = !isfinite(value)            ? "data must be finite"
                         : f->type->dtype == DL_BOOL ? "the model wants 0 or 1"
                         : value == trunc(value)     ? "whole numbers are read below 2^"
                                                     : "the model wants whole numbers";
    return dl_fail(err, DL_INPUT,
                   "%s, sample %lld, channel %lld, place [%lld, %lld, %lld] is %.17g: %s%s",
                   dlr_field_label(f), (long long)sample, (long long)at, (long long)place[0],
                   (long long)place[1], (long long)place[2], value, wanted,
                   wanted[strlen(wanted) - 1] != '^' ? ""
                   : to == DL_F64                    ? "53"
                                                     : "24");
}

static double number_at(dl_dtype type, const void *x, int64_t i) {
    return type == DL_F64 ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

/* The first of n that the model's type does not hold, or -1. A whole number beyond those that are
 * all held may have been rounded. */
static int64_t find_unwanted(dl_dtype wanted, dl_dtype type, const void *x, int64_t n) {
    if (dl_dtype_is_float(wanted)) return -1;
    for (int64_t i = 0; i < n; i++) {
        double v = number_at(type, x, i);
        if (wanted == DL_BOOL ? v != 0 && v != 1 : v != trunc(v) || !(fabs(v) < most_whole(type)))
            return i;
    }
    return -1;
}

/* The block of the file that has a sample's block, in the file's order of axes. */
static dlr_block block_of(const dlr_field *f, const dlr_field_part *p, int64_t sample,
                          const int64_t start[DLR_SPACE], const int64_t count[DLR_SPACE]) {
    dlr_block b = {0};
    for (int j = 0; j < p->array->rank; j++) {
        int m = p->axis[j];
        bool spatial = m > 0 && dlr_field_is_spatial(f, m);
        const int64_t at = f->first + sample;
        b.start[j] = m == DLR_FIELD_SAMPLES       ? (f->times ? at % f->times : at)
                     : m == DLR_FIELD_SIMULATIONS ? (f->times ? at / f->times : 0)
                     : spatial                    ? start[dlr_field_engine_axis(f, m)]
                                                  : 0;
        b.count[j] = m < 0 ? 1 : spatial ? count[dlr_field_engine_axis(f, m)] : p->array->dims[j];
    }
    return b;
}

/* The sizes of a part of a block along the model's axes; the step from one of its numbers to the
 * next in the whole block along each, and the first number's place there. */
typedef struct {
    int64_t size[DL_MAX_RANK], step[DL_MAX_RANK], first, n;
} part_place;

static part_place place_part(const dlr_field *f, const dlr_field_part *p,
                             const int64_t count[DLR_SPACE]) {
    part_place at = {.n = 1};
    int64_t step = 1;
    for (int m = f->type->rank - 1; m > 0; m--) {
        int64_t all =
            dlr_field_is_spatial(f, m) ? count[dlr_field_engine_axis(f, m)] : f->type->axis[m].size;
        at.size[m] = m == f->channels && f->n_parts > 1 ? p->n : all;
        at.step[m] = step, step *= all, at.n *= at.size[m];
    }
    if (f->n_parts > 1) at.first = p->first * at.step[f->channels];
    return at;
}

/* Brings what was read of a part into the model's order of axes, and of its channels. */
static void transpose(const dlr_field *f, const dlr_field_part *p, const dlr_block *b,
                      const part_place *to, size_t size, const char *from, char *out) {
    const int rank = f->type->rank;
    int64_t stride[DL_MAX_RANK] = {0}, at[DL_MAX_RANK] = {0}, step = 1;
    for (int j = p->array->rank - 1; j >= 0; step *= b->count[j--])
        if (p->axis[j] > 0) stride[p->axis[j]] = step;
    for (int64_t i = 0; i < to->n; i++) {
        int64_t offset = 0, place = to->first;
        for (int m = 1; m < rank; m++) {
            offset += stride[m] * (m == f->channels && p->picks ? p->picks[at[m]] : at[m]);
            place += to->step[m] * at[m];
        }
        memcpy(out + (size_t)place * size, from + (size_t)offset * size, size);
        for (int m = rank - 1; m > 0 && ++at[m] == to->size[m]; m--) at[m] = 0;
    }
}

static bool read_part(const dlr_field *f, const dlr_field_part *p, const dlr_block *b,
                      const int64_t count[DLR_SPACE], dlr_element type, char *out, dl_error *err) {
    part_place to = place_part(f, p, count);
    size_t n = 1, size = dlr_element_bytes(type);
    if (p->packed)
        return dlr_packing_read(&p->packing, p->source, b, type, out + (size_t)to.first * size,
                                err);
    for (int j = 0; j < p->array->rank; j++) n *= (size_t)b->count[j];
    char *room = malloc(n * size);
    bool ok =
        (room || dl_fail(err, DL_RESOURCE, "no memory for %zu numbers of %s", n, f->file->path)) &&
        dlr_packing_read(&p->packing, p->source, b, type, room, err);
    if (ok) transpose(f, p, b, &to, size, room, out);
    free(room);
    return ok;
}

static void put_number(dl_dtype type, void *x, int64_t i, double v) {
    if (type == DL_F64)
        ((double *)x)[i] = v;
    else
        ((float *)x)[i] = (float)v;
}

/* Normalises n numbers of a channel, in the arithmetic of their type. The index of the first that
 * is not finite, or -1 where the run replaces these. */
static int64_t normalise(const dlr_field *f, int64_t c, dl_dtype type, void *x, int64_t n) {
    const float mean = f->scale.mean ? f->scale.mean[c] : 0,
                deviation = f->scale.mean ? f->scale.deviation[c] : 1;
    const bool replaces = f->record && f->record->replaces_nan;
    if (type != DL_F64 && !replaces) return dlr_normalise(x, (size_t)n, mean, deviation);
    for (int64_t i = 0; i < n; i++) {
        const double v = number_at(type, x, i);
        if (!isfinite(v) && !replaces) return i;
        put_number(type, x, i,
                   !isfinite(v)     ? f->record->nan
                   : type == DL_F64 ? (v - (double)mean) / (double)deviation
                                    : (double)(((float)v - mean) / deviation));
    }
    return -1;
}

bool dlr_field_read(const dlr_field *f, int64_t sample, const int64_t start[DLR_SPACE],
                    const int64_t count[DLR_SPACE], dl_dtype to, void *out, dl_error *err) {
    if (f->pictures) return dlr_picture_files_read(f->pictures, f->first + sample, out, err);
    const dlr_element type = to == DL_F64 ? DLR_EL_F64 : DLR_EL_F32;
    for (int i = 0; i < f->n_parts; i++) {
        const dlr_field_part *p = &f->parts[i];
        dlr_block b = block_of(f, p, sample, start, count);
        if (!read_part(f, p, &b, count, type, out, err)) return false;
    }
    int64_t n = count[0] * count[1] * count[2];
    for (int64_t c = 0; c < f->size.channels; c++) {
        void *at = (char *)out + (size_t)(c * n) * dlr_element_bytes(type);
        int64_t bad = normalise(f, c, to, at, n);
        if (bad < 0) bad = find_unwanted(f->type->dtype, to, at, n);
        if (bad >= 0)
            return refuse_value(f, sample, start, count, c * n + bad, to, number_at(to, at, bad),
                                err);
    }
    return true;
}
