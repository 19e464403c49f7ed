#include "runtime/predict/field.h"

#include <math.h>
#include <stdlib.h>
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

/* ---- which axis is which ---- */

/* Names of an array's axes, outermost first. */
typedef struct {
    const char *at[DL_MAX_RANK + 1];
    int n;
} axis_names;

/* The model's order, with N or without, with the axes of size 1 or without. */
static axis_names usual_names(const dl_type *t, bool samples, bool units) {
    axis_names names = {0};
    if (samples) names.at[names.n++] = "N";
    for (int m = 1; m < t->rank; m++)
        if (units || t->axis[m].size != 1) names.at[names.n++] = t->axis[m].name;
    return names;
}

/* Names from the run's data, for an array of many samples or of one, which has no N then. */
static axis_names recorded_names(const dl_array_record *r, bool samples) {
    axis_names names = {0};
    for (int i = 0; i < r->n_axes && i <= DL_MAX_RANK; i++)
        if (samples || strcmp(r->axes[i], "N") != 0) names.at[names.n++] = r->axes[i];
    return names;
}

static int axis_of(const dl_type *t, const char *name) {
    if (strcmp(name, "N") == 0) return DLR_FIELD_SAMPLES;
    for (int m = 1; m < t->rank; m++)
        if (strcmp(t->axis[m].name, name) == 0) return m;
    return DLR_FIELD_LEFT_OUT;
}

static int64_t most(const int64_t *at, int n) {
    int64_t most = -1;
    for (int i = 0; i < n; i++) most = at[i] > most ? at[i] : most;
    return most;
}

/* Whether the axis may have that size: a spatial one any, another the model's, or, where the run
 * takes some channels, enough of them. */
static bool fits_axis(const dlr_field_want *want, int m, int64_t size) {
    const dl_type *t = want->type;
    const dl_array_record *r = want->record;
    if (m == DLR_FIELD_SAMPLES) return true;
    if (m == DLR_FIELD_LEFT_OUT) return size == 1;
    if (m >= t->rank - want->space) return size >= 1;
    if (r && r->n_channels && strcmp(t->axis[m].name, "C") == 0)
        return size > most(r->channels, r->n_channels);
    return size == t->axis[m].size;
}

/* Whether the array fits with its axes named so; `axis` is then set. */
static bool fits_names(const dlr_array_facts *a, const dlr_field_want *want,
                       const axis_names *names, int *axis) {
    const dl_type *t = want->type;
    bool seen[DL_MAX_RANK] = {false};
    if (names->n != a->rank) return false;
    for (int j = 0; j < names->n; j++) {
        axis[j] = axis_of(t, names->at[j]);
        if (!fits_axis(want, axis[j], a->dims[j])) return false;
        if (axis[j] > 0) seen[axis[j]] = true;
    }
    for (int m = 1; m < t->rank; m++)
        if (!seen[m] && t->axis[m].size != 1) return false;
    return true;
}

static bool fits(const dlr_array_facts *a, const dlr_field_want *want, int *axis) {
    const dl_array_record *r = want->record;
    if (a->type == DLR_EL_NONE || a->refused || a->rank > DLR_ARRAY_RANK) return false;
    for (int k = 0; k < 4; k++) {
        bool samples = k % 2 == 0, units = k < 2, named = r && r->n_axes;
        axis_names names =
            named ? recorded_names(r, samples) : usual_names(want->type, samples, units);
        if (fits_names(a, want, &names, axis)) return true;
    }
    return false;
}

static bool refuse(const dlr_array_file *file, const dlr_field_want *want, const char *why,
                   dl_error *err) {
    dl_buf holds = {0};
    dlr_array_file_put(&holds, file, 8);
    dl_fail(err, DL_INPUT,
            "%s: %s: %s takes %s, and an array holds one sample, or many along a first axis%s; "
            "there are: %.400s",
            file->path, why, want->what, dl_type_text(want->type),
            want->record && want->record->n_axes ? ", with the axes that the run's data had" : "",
            holds.at ? holds.at : "none");
    dl_buf_free(&holds);
    return false;
}

static bool choose(dlr_field *f, const char *name, const dlr_field_want *want, dl_error *err) {
    const dlr_array_facts *only = NULL;
    int n = 0, axis[DLR_ARRAY_RANK];
    if (name) {
        f->array = dlr_array_file_find(f->file, name);
        if (!f->array)
            return refuse(f->file, want, dl_format(f->file->arena, "no array '%.100s'", name), err);
        if (f->array->refused || fits(f->array, want, f->axis))
            return true; /* the first is said when it is opened */
        return refuse(f->file, want, dl_format(f->file->arena, "'%.100s' does not fit", name), err);
    }
    for (int i = 0; i < f->file->n; i++)
        if (fits(&f->file->arrays[i], want, axis)) only = &f->file->arrays[i], n++;
    for (const char *const *usual = want->usual; n > 1 && *usual; usual++) {
        const dlr_array_facts *a = dlr_array_file_find(f->file, *usual);
        if (a && fits(a, want, axis)) only = a, n = 1;
    }
    if (n == 0) return refuse(f->file, want, "no array fits", err);
    if (n > 1) return refuse(f->file, want, "several arrays fit (say which: FILE:ARRAY)", err);
    f->array = only;
    return fits(only, want, f->axis);
}

/* The engine's axis of a spatial axis of the type. */
static int engine_axis(const dlr_field *f, int m) { return DLR_SPACE - (f->type->rank - m); }

static bool is_spatial(const dlr_field *f, int m) { return m >= f->type->rank - f->space; }

static void measure(dlr_field *f) {
    const dl_type *t = f->type;
    int last = 0;
    f->size = (dlr_extent){1, {1, 1, 1}};
    f->samples = 1, f->packed = !(f->record && f->record->n_channels);
    for (int m = 1; m < t->rank - f->space; m++) f->size.channels *= t->axis[m].size;
    for (int j = 0; j < f->array->rank; j++) {
        int m = f->axis[j];
        if (m == DLR_FIELD_SAMPLES) f->in_order = true, f->samples = f->array->dims[j];
        if (m < 0) continue;
        if (is_spatial(f, m)) f->size.size[engine_axis(f, m)] = f->array->dims[j];
        f->packed &= m > last, last = m;
    }
}

bool dlr_field_open(dlr_field *f, dl_arena *arena, const char *spec, const dlr_field_want *want,
                    dl_error *err) {
    const char *name, *path = split(arena, spec, &name);
    *f = (dlr_field){.file = dlr_array_file_open(path, err),
                     .space = want->space,
                     .type = want->type,
                     .record = want->record,
                     .scale = want->scale};
    if (!f->file || !choose(f, name, want, err)) return false;
    f->source = dlr_source_open(f->file, f->array, CHUNKS, err);
    if (!f->source) return false;
    if (want->unpacks && !dlr_packing_open(path, f->array, &f->packing, err)) return false;
    measure(f);
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
    const char *wanted = !isfinite(value)            ? "data must be finite"
                         : f->type->dtype == DL_BOOL ? "the model wants 0 or 1"
                         : value == truncf(value)    ? "whole numbers are read below 16777216"
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

/* The block of the file that has a sample's block, in the file's order of axes. */
static dlr_block block_of(const dlr_field *f, int64_t sample, const int64_t start[DLR_SPACE],
                          const int64_t count[DLR_SPACE]) {
    dlr_block b = {0};
    for (int j = 0; j < f->array->rank; j++) {
        int m = f->axis[j];
        bool spatial = m > 0 && is_spatial(f, m);
        b.start[j] = m == DLR_FIELD_SAMPLES ? f->first + sample
                     : spatial              ? start[engine_axis(f, m)]
                                            : 0;
        b.count[j] = m < 0 ? 1 : spatial ? count[engine_axis(f, m)] : f->array->dims[j];
    }
    return b;
}

/* Brings what was read of a block into the model's order of axes, and of its channels. */
static void transpose(const dlr_field *f, const dlr_block *b, const int64_t count[DLR_SPACE],
                      const float *from, float *out) {
    const dl_type *t = f->type;
    int64_t stride[DL_MAX_RANK] = {0}, size[DL_MAX_RANK], at[DL_MAX_RANK] = {0}, step = 1, n = 1;
    int picks = -1; /* the axis of which the run takes some */
    for (int j = f->array->rank - 1; j >= 0; step *= b->count[j--])
        if (f->axis[j] > 0) stride[f->axis[j]] = step;
    for (int m = 1; m < t->rank; m++) {
        size[m] = is_spatial(f, m) ? count[engine_axis(f, m)] : t->axis[m].size, n *= size[m];
        if (f->record && f->record->n_channels && strcmp(t->axis[m].name, "C") == 0) picks = m;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t offset = 0;
        for (int m = 1; m < t->rank; m++)
            offset += stride[m] * (m == picks ? f->record->channels[at[m]] : at[m]);
        out[i] = from[offset];
        for (int m = t->rank - 1; m > 0 && ++at[m] == size[m]; m--) at[m] = 0;
    }
}

static bool read_block(const dlr_field *f, const dlr_block *b, const int64_t count[DLR_SPACE],
                       float *out, dl_error *err) {
    if (f->packed) return dlr_packing_read(&f->packing, f->source, b, DLR_EL_F32, out, err);
    size_t n = 1;
    for (int j = 0; j < f->array->rank; j++) n *= (size_t)b->count[j];
    float *room = malloc(n * sizeof *room);
    bool ok =
        (room || dl_fail(err, DL_RESOURCE, "no memory for %zu numbers of %s", n, f->file->path)) &&
        dlr_packing_read(&f->packing, f->source, b, DLR_EL_F32, room, err);
    if (ok) transpose(f, b, count, room, out);
    free(room);
    return ok;
}

/* Normalises n numbers of a channel. The index of the first that is not finite, or -1 where the run
 * replaces these. */
static int64_t normalise(const dlr_field *f, int64_t c, float *x, int64_t n) {
    float mean = f->scale.mean ? f->scale.mean[c] : 0,
          deviation = f->scale.mean ? f->scale.deviation[c] : 1;
    int64_t bad = dlr_normalise(x, (size_t)n, mean, deviation);
    if (bad < 0 || !f->record || !f->record->replaces_nan) return bad;
    for (int64_t i = 0; i < n; i++)
        x[i] = isfinite(x[i]) ? (x[i] - mean) / deviation : (float)f->record->nan;
    return -1;
}

bool dlr_field_read(const dlr_field *f, int64_t sample, const int64_t start[DLR_SPACE],
                    const int64_t count[DLR_SPACE], float *out, dl_error *err) {
    dlr_block b = block_of(f, sample, start, count);
    if (!read_block(f, &b, count, out, err)) return false;
    int64_t n = count[0] * count[1] * count[2];
    for (int64_t c = 0; c < f->size.channels; c++, out += n) {
        int64_t bad = normalise(f, c, out, n);
        if (bad < 0) bad = find_unwanted(f->type->dtype, out, n);
        if (bad >= 0) return refuse_value(f, sample, start, count, c * n + bad, out[bad], err);
    }
    return true;
}
