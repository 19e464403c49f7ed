#include "runtime/predict/field.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/data/levels.h"

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

/* An array that may be a part of the field. */
typedef struct {
    const dlr_field_want *want;
    const dl_variable_record *record; /* how the run read it; NULL: in the model's order */
    int channels;                     /* as dlr_field */
    bool alone;                       /* it has all channels */
    int level;                        /* its axis of levels, which the record names; -1: none */
} candidate;

enum { WITHOUT_N = 1, WITHOUT_UNITS = 2, WITH_CHANNELS = 4, N_ORDERS = 8 };

/* The model's order, with N or without, with the axes of size 1 or without, with channels. */
static axis_names usual_names(const candidate *c, int order) {
    const dl_type *t = c->want->type;
    axis_names names = {0};
    if (!(order & WITHOUT_N)) names.at[names.n++] = "N";
    for (int m = 1; m < t->rank; m++) {
        bool unit = t->axis[m].size == 1 && (order & WITHOUT_UNITS);
        bool some = m == c->channels && !c->alone && !(order & WITH_CHANNELS);
        if (!unit && !some) names.at[names.n++] = t->axis[m].name;
    }
    return names;
}

/* N, or the axes of a trajectory. */
static bool is_sample_axis(const char *name) {
    return strcmp(name, "N") == 0 || strcmp(name, "time") == 0 || strcmp(name, "sim") == 0;
}

/* Names from the run's data, for an array of many samples or of one, which has no N then. */
static axis_names recorded_names(const dl_variable_record *r, bool samples) {
    axis_names names = {0};
    for (int i = 0; i < r->n_axes && i <= DL_MAX_RANK; i++)
        if (samples || !is_sample_axis(r->axes[i])) names.at[names.n++] = r->axes[i];
    return names;
}

/* The axis of levels is that of the channels, wherever the file has it. */
static void insert_channels(axis_names *names, const candidate *c) {
    const char *name = c->want->type->axis[c->channels].name;
    if (c->level > names->n || names->n > DL_MAX_RANK) return;
    for (int j = names->n++; j > c->level; j--) names->at[j] = names->at[j - 1];
    names->at[c->level] = name;
}

static int axis_of(const dl_type *t, const char *name) {
    if (strcmp(name, "N") == 0 || strcmp(name, "time") == 0) return DLR_FIELD_SAMPLES;
    if (strcmp(name, "sim") == 0) return DLR_FIELD_SIMULATIONS;
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
static bool fits_axis(const candidate *c, int m, int64_t size) {
    const dl_type *t = c->want->type;
    const dl_variable_record *r = c->record;
    if (m == DLR_FIELD_SAMPLES || m == DLR_FIELD_SIMULATIONS) return true;
    if (m == DLR_FIELD_LEFT_OUT) return size == 1;
    if (m == c->channels && c->level >= 0) return size >= 1;
    if (m == c->channels && r && r->n_channels) return size > most(r->channels, r->n_channels);
    if (m == c->channels && !c->alone) return size >= 1;
    if (m >= t->rank - c->want->space) return size >= 1;
    return size == t->axis[m].size;
}

/* Whether the array fits with its axes named so; `axis` is then set. */
static bool fits_names(const dlr_array_facts *a, const candidate *c, const axis_names *names,
                       int *axis) {
    const dl_type *t = c->want->type;
    bool seen[DL_MAX_RANK] = {false};
    if (names->n != a->rank) return false;
    for (int j = 0; j < names->n; j++) {
        axis[j] = axis_of(t, names->at[j]);
        if (!fits_axis(c, axis[j], a->dims[j])) return false;
        if (axis[j] > 0) seen[axis[j]] = true;
    }
    for (int m = 1; m < t->rank; m++)
        if (!seen[m] && t->axis[m].size != 1 && (m != c->channels || c->alone)) return false;
    return true;
}

static bool fits(const dlr_array_facts *a, const candidate *c, int *axis) {
    const dl_variable_record *r = c->record;
    if (a->type == DLR_EL_NONE || a->refused || a->rank > DLR_ARRAY_RANK) return false;
    for (int k = 0; k < N_ORDERS; k++) {
        bool named = r && r->n_axes;
        if ((c->alone || c->level >= 0) && (k & WITH_CHANNELS)) continue;
        axis_names names = named ? recorded_names(r, !(k & WITHOUT_N)) : usual_names(c, k);
        if (c->level >= 0 && !named) insert_channels(&names, c);
        if (c->level >= 0 && named && c->level < names.n)
            names.at[c->level] = c->want->type->axis[c->channels].name;
        if (fits_names(a, c, &names, axis)) return true;
    }
    return false;
}

/* ---- which arrays ---- */

static bool refuse(const dlr_array_file *file, const dlr_field_want *want, const char *why,
                   dl_error *err) {
    dl_buf holds = {0};
    bool named = want->record && want->record->n_variables && want->record->variables[0].n_axes;
    dlr_array_file_put(&holds, file, 8);
    dl_fail(err, DL_INPUT,
            "%s: %s: %s takes %s, and an array holds one sample, or many along a first axis%s; "
            "there are: %.400s",
            file->path, why, want->what, dl_type_text(want->type),
            named ? ", with the axes that the run's data had" : "", holds.at ? holds.at : "none");
    dl_buf_free(&holds);
    return false;
}

/* Takes an array that must fit; one that cannot be read is said when it is opened. */
static bool take(dlr_field *f, dlr_field_part *p, const dlr_array_facts *a, candidate c,
                 dl_error *err) {
    dl_arena *arena = f->file->arena;
    const dl_variable_record *r = c.record;
    dl_error reason = {0};
    p->array = a, p->picks = r && r->n_channels ? r->channels : NULL;
    c.level = -1;
    if (r && r->level_axis && !a->refused) {
        int64_t *picks = DL_NEWS(arena, int64_t, r->n_channels);
        if (!dlr_levels_find(f->file, a, r->level_axis, r->levels, r->n_channels, &c.level, picks,
                             &reason))
            return dl_fail(err, DL_INPUT, "%s: '%.100s': %s", f->file->path, a->name,
                           reason.message);
        p->picks = picks;
    }
    if (!a->refused && !fits(a, &c, p->axis))
        return refuse(f->file, c.want, dl_format(arena, "'%.100s' does not fit", a->name), err);
    p->n = c.alone && c.channels >= 0 ? f->type->axis[c.channels].size : 1;
    for (int j = 0; j < a->rank && j < DLR_ARRAY_RANK && !a->refused; j++)
        if (p->axis[j] > 0 && p->axis[j] == c.channels)
            p->n = p->picks ? r->n_channels : a->dims[j];
    return true;
}

/* The arrays by whose names the run read them. */
static bool take_recorded(dlr_field *f, const dlr_field_want *want, dl_error *err) {
    const dl_array_record *r = want->record;
    int64_t all = 0;
    f->n_parts = r->n_variables;
    f->parts = DL_NEWS(f->file->arena, dlr_field_part, f->n_parts);
    for (int i = 0; i < f->n_parts; i++) {
        const dl_variable_record *v = &r->variables[i];
        const dlr_array_facts *a = dlr_array_file_find(f->file, v->name);
        candidate c = {want, v, f->channels, f->n_parts == 1, -1};
        if (!a)
            return refuse(f->file, want,
                          dl_format(f->file->arena, "no array '%.100s'", v->name ? v->name : ""),
                          err);
        if (!take(f, &f->parts[i], a, c, err)) return false;
        f->parts[i].first = all, all += f->parts[i].n;
    }
    return f->n_parts == 1 || all == f->type->axis[f->channels].size ||
           dl_fail(err, DL_INPUT, "%s: its %d arrays have %lld channels together, and %s takes %s",
                   f->file->path, f->n_parts, (long long)all, want->what, dl_type_text(f->type));
}

/* The one array that fits, or that has one of the usual names. */
static const dlr_array_facts *find_fitting(const dlr_field *f, const candidate *c, dl_error *err) {
    const dlr_array_facts *only = NULL;
    int n = 0, axis[DLR_ARRAY_RANK];
    for (int i = 0; i < f->file->n; i++)
        if (fits(&f->file->arrays[i], c, axis)) only = &f->file->arrays[i], n++;
    for (const char *const *usual = c->want->usual; n > 1 && *usual; usual++) {
        const dlr_array_facts *a = dlr_array_file_find(f->file, *usual);
        if (a && fits(a, c, axis)) only = a, n = 1;
    }
    if (n == 1) return only;
    refuse(f->file, c->want, n ? "several arrays fit (say which: FILE:ARRAY)" : "no array fits",
           err);
    return NULL;
}

static bool choose(dlr_field *f, const char *name, const dlr_field_want *want, dl_error *err) {
    const dl_array_record *r = want->record;
    const bool history = r && r->times > 1; /* the array then has samples as the model takes them */
    const dl_variable_record *first = r && r->n_variables && !history ? r->variables : NULL;
    f->channels = dl_type_channel_axis(want->type);
    if (f->channels > 0 && strcmp(want->type->axis[f->channels].name, "C") != 0 &&
        !(r && r->n_variables > 1) && !(first && first->level_axis))
        f->channels = -1;
    const bool one = f->file->n == 1 && !f->file->more; /* which then has all channels */
    if (!name && !one && first && (r->n_variables > 1 || first->level_axis))
        return take_recorded(f, want, err);
    f->n_parts = 1, f->parts = DL_NEW(f->file->arena, dlr_field_part);
    /* an array that is named has all channels where the run had several arrays */
    candidate c = {want, r && r->n_variables == 1 ? first : NULL, f->channels, true, -1};
    const dlr_array_facts *a = name ? dlr_array_file_find(f->file, name) : find_fitting(f, &c, err);
    if (!a && name)
        refuse(f->file, want, dl_format(f->file->arena, "no array '%.100s'", name), err);
    return a && take(f, f->parts, a, c, err);
}

static bool refuse_size(const dlr_field *f, const dlr_field_part *p, int64_t size, int64_t other,
                        dl_error *err) {
    return dl_fail(err, DL_INPUT,
                   "%s: '%.100s' has %lld along an axis where an array before it has %lld: arrays "
                   "of one input have the same",
                   f->file->path, p->array->name, (long long)size, (long long)other);
}

/* Takes the samples and sizes of a part, which all parts share. */
static bool measure(dlr_field *f, dlr_field_part *p, dl_error *err) {
    int last = 0;
    int64_t times = 0, simulations = 0;
    p->packed = !p->picks;
    for (int j = 0; j < p->array->rank; j++) {
        if (p->axis[j] < 0 && p->array->dims[j] == 0)
            return dl_fail(err, DL_INPUT, "%s holds no samples", dlr_source_label(p->source));
        if (p->axis[j] == DLR_FIELD_SAMPLES) times = p->array->dims[j];
        if (p->axis[j] == DLR_FIELD_SIMULATIONS) simulations = p->array->dims[j];
    }
    int64_t samples = simulations && times > INT64_MAX / simulations ? INT64_MAX
                      : simulations                                  ? times * simulations
                                                                     : times;
    if (times && f->in_order && f->samples != samples)
        return refuse_size(f, p, samples, f->samples, err);
    if (times) f->in_order = true, f->samples = samples, f->times = simulations ? times : 0;
    for (int j = 0; j < p->array->rank; j++) {
        int m = p->axis[j];
        int64_t size = p->array->dims[j];
        if (m < 0) continue;
        p->packed &= m > last, last = m;
        if (!dlr_field_is_spatial(f, m)) continue;
        int64_t *of = &f->size.size[dlr_field_engine_axis(f, m)];
        if (p != f->parts && *of != size) return refuse_size(f, p, size, *of, err);
        *of = size;
    }
    return true;
}

static bool open_parts(dlr_field *f, const char *path, bool unpacks, dl_error *err) {
    const dl_type *t = f->type;
    f->size = (dlr_extent){1, {1, 1, 1}}, f->samples = 1;
    if (f->n_parts > 1 && dlr_field_is_spatial(f, f->channels))
        return dl_fail(err, DL_INPUT,
                       "%s: the run took %s from several arrays along its axis %s, which is not "
                       "the first: put them into one array, and name it (FILE:ARRAY)",
                       path, dl_type_text(t), t->axis[f->channels].name);
    for (int m = 1; m < t->rank - f->space; m++) f->size.channels *= t->axis[m].size;
    for (int i = 0; i < f->n_parts; i++) {
        dlr_field_part *p = &f->parts[i];
        p->source = dlr_source_open(f->file, p->array, CHUNKS / f->n_parts, err);
        if (!p->source) return false;
        if (unpacks && !dlr_packing_open(path, p->array, &p->packing, err)) return false;
        if (!measure(f, p, err)) return false;
        /* channels of parts lie apart in a block that has other axes in front */
        p->packed &= f->n_parts == 1 || f->channels == 1;
    }
    return true;
}

static bool open_pictures(dlr_field *f, dl_arena *arena, const char *path,
                          const dlr_field_want *want, dl_error *err) {
    const dl_type *t = want->type;
    const dl_axis *axis = t->axis;
    if (t->rank != 4 || axis[1].size != 3 || want->space != 2)
        return dl_fail(err, DL_INPUT, "%s: %s is %s, and a picture is f32[N, 3, H, W]", path,
                       want->what, dl_type_text(t));
    *f = (dlr_field){.spec = dl_strdup(arena, path),
                     .space = want->space,
                     .type = want->type,
                     .in_order = true,
                     .size = {3, {1, axis[2].size, axis[3].size}}};
    f->pictures = dlr_picture_files_open(path, axis[2].size, axis[3].size, *want->pictures, err);
    if (f->pictures) f->samples = dlr_picture_files_count(f->pictures);
    return f->pictures != NULL;
}

bool dlr_field_open(dlr_field *f, dl_arena *arena, const char *spec, const dlr_field_want *want,
                    dl_error *err) {
    if (want->pictures) return open_pictures(f, arena, spec, want, err);
    const char *name, *path = split(arena, spec, &name);
    *f = (dlr_field){.file = dlr_array_file_open(path, err),
                     .space = want->space,
                     .type = want->type,
                     .record = want->record,
                     .scale = want->scale};
    if (!f->file || !choose(f, name, want, err)) return false;
    const char *array = f->parts[0].array->name;
    f->spec = f->n_parts == 1 && *array ? dl_format(arena, "%s:%s", path, array) : path;
    return open_parts(f, path, want->unpacks, err);
}

void dlr_field_close(dlr_field *f) {
    for (int i = 0; i < f->n_parts; i++) dlr_source_close(f->parts[i].source);
    dlr_array_file_close(f->file);
    dlr_picture_files_close(f->pictures);
    *f = (dlr_field){0};
}

const char *dlr_field_label(const dlr_field *f) {
    if (f->pictures) return f->spec;
    return f->n_parts == 1 ? dlr_source_label(f->parts[0].source) : f->file->path;
}
