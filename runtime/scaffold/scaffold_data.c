#include "runtime/scaffold/scaffold_data.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "ir/base/foreign.h"

const char *const dl_task_names[DL_NTASKS] = {"regression", "segmentation", "classification",
                                              "forecast", "autoencoder"};

enum {
    CHANNELS = 8,        /* fewer of these than points along each axis of space */
    FEWEST_SAMPLES = 10, /* for training and validation */
    MOST_CLASSES = 1 << 16,
    LABELS_AT_ONCE = 1 << 20
};

const char *const *dl_scaffold_axes(int spatial) {
    static const char *const names[] = {"D", "H", "W"};
    return names + DL_SCAFFOLD_SPATIAL - spatial;
}

/* ---- shapes ---- */

static int64_t least_of(const int64_t *d, int n) {
    int64_t least = d[0];
    for (int i = 1; i < n; i++) least = d[i] < least ? d[i] : least;
    return least;
}

/* Whether a size is that of channels rather than points, next to n sizes of points. */
static bool is_few(int64_t size, const int64_t *points, int n) {
    return size < CHANNELS ? size < least_of(points, n) || n > 2 : 2 * size <= least_of(points, n);
}

/* Axes after the samples: channels first, or last, or none of them. False: too many. */
static bool read_shape(const dlr_array_facts *a, dl_scaffold_array *out) {
    *out = (dl_scaffold_array){.array = a, .channels = 1};
    const int64_t *d = a->dims + 1;
    int n = a->rank - 1;
    if (n > DL_SCAFFOLD_SPATIAL + 1) return false;
    bool first = n == 1 || (n > 1 && is_few(d[0], d + 1, n - 1)),
         last = !first && n > 1 && is_few(d[n - 1], d, n - 1);
    if (n > DL_SCAFFOLD_SPATIAL) first = !last;
    out->has_channels = first || last, out->channels_last = last;
    if (out->has_channels) out->channels = last ? d[n - 1] : d[0];
    out->spatial = n - out->has_channels;
    memcpy(out->size, d + first, sizeof *d * (size_t)out->spatial);
    return true;
}

/* The target's axes as those of the input's space, with or without channels. False: they differ. */
static bool follow_space(const dl_scaffold_array *x, dl_scaffold_array *t) {
    const int64_t *d = t->array->dims + 1;
    int n = t->array->rank - 1;
    size_t bytes = sizeof *d * (size_t)x->spatial;
    bool none = n == x->spatial && !memcmp(d, x->size, bytes),
         last = n == x->spatial + 1 && x->channels_last && !memcmp(d, x->size, bytes),
         first = n == x->spatial + 1 && !last && !memcmp(d + 1, x->size, bytes);
    if (!last && !first && n == x->spatial + 1) last = !memcmp(d, x->size, bytes);
    if (!none && !first && !last) return false;
    t->spatial = x->spatial, t->has_channels = !none, t->channels_last = last;
    t->channels = none ? 1 : last ? d[n - 1] : d[0];
    memcpy(t->size, x->size, bytes);
    return true;
}

/* ---- which arrays ---- */

static bool is_usable(const dlr_array_facts *a) {
    return a->type != DLR_EL_NONE && !a->refused && a->rank > 0 && a->rank <= DLR_ARRAY_RANK;
}

/* How well a name says input (or target). */
static int points_of(const char *name, bool target) {
    static const char *const words[2][8] = {
        {"x", "input", "feature", "image", "before", "source", "data", NULL},
        {"t", "y", "target", "label", "class", "mask", "after", NULL}};
    const char *slash = strrchr(name, '/'), *part = slash ? slash + 1 : name;
    for (int i = 0; words[target][i]; i++) {
        if (!strcasecmp(part, words[target][i])) return 3;
        if (words[target][i][1] && strcasestr(part, words[target][i])) return 2;
    }
    return 0;
}

static const dlr_array_facts *choose(const dlr_array_file *f, bool target,
                                     const dlr_array_facts *other) {
    const dlr_array_facts *best = NULL;
    int most = 0;
    for (int i = 0; i < f->n; i++) {
        const dlr_array_facts *a = &f->arrays[i];
        if (!is_usable(a) || a == other || (other && a->dims[0] != other->dims[0])) continue;
        int points = 8 + 4 * points_of(a->name, target) - 4 * points_of(a->name, !target) +
                     (target ? 0 : 2 * (a->rank > 1) + dlr_element_is_float(a->type));
        if (!best || points > most) best = a, most = points;
    }
    return best;
}

static const dlr_array_facts *named(const dlr_array_file *f, const char *name, dl_error *err) {
    const dlr_array_facts *a = dlr_array_file_find(f, name);
    dl_buf b = {0};
    if (!a) {
        dlr_array_file_put(&b, f, 8);
        dl_fail(err, DL_INPUT, "%s has no array '%s'; it holds: %s", f->path, name, b.at);
    } else if (!is_usable(a)) {
        dl_fail(err, DL_INPUT, "%s: '%s' cannot be samples: it %s", f->path, name,
                a->refused ? a->refused : "holds no numbers");
        a = NULL;
    }
    dl_buf_free(&b);
    return a;
}

/* ---- tables ---- */

/* Whether the file's arrays are columns of numbers, three or more. */
static bool is_table(const dlr_array_file *f) {
    int64_t rows = -1;
    int n = 0;
    for (int i = 0; i < f->n; i++) {
        const dlr_array_facts *a = &f->arrays[i];
        if (!is_usable(a)) continue;
        if (a->rank != 1 || (rows >= 0 && a->dims[0] != rows)) return false;
        rows = a->dims[0], n++;
    }
    return n > 2;
}

/* The column that a name calls the target, else the last one. */
static const dlr_array_facts *choose_column(const dlr_array_file *f) {
    const dlr_array_facts *best = NULL;
    for (int i = 0; i < f->n; i++)
        if (is_usable(&f->arrays[i]) &&
            (!best || points_of(f->arrays[i].name, true) >= points_of(best->name, true)))
            best = &f->arrays[i];
    return best;
}

/* The input's columns: all but the target. */
static void take_columns(dl_arena *arena, const dlr_array_file *f, const dlr_array_facts *target,
                         dl_scaffold_array *x) {
    const dlr_array_facts **columns = DL_NEWS(arena, const dlr_array_facts *, f->n + 1);
    for (int i = 0; i < f->n; i++)
        if (is_usable(&f->arrays[i]) && &f->arrays[i] != target)
            columns[x->n_columns++] = &f->arrays[i];
    x->columns = columns, x->array = columns[0], x->channels = x->n_columns;
}

/* ---- the task ---- */

static bool is_whole(const dlr_array_facts *a) { return !dlr_element_is_float(a->type); }

static bool has_labels_of_samples(const dlr_array_facts *t) {
    return t->rank == 1 || (t->rank == 2 && t->dims[1] == 1);
}

static int task_of(const dl_scaffold_data *d) {
    const dlr_array_facts *t = d->target.array;
    if (!is_whole(t)) return DL_TASK_REGRESSION;
    return has_labels_of_samples(t) ? DL_TASK_CLASSIFICATION : DL_TASK_SEGMENTATION;
}

static bool parse_task(const char *name, dl_task *task, dl_error *err) {
    for (int i = 0; i < DL_NTASKS; i++)
        if (!strcmp(name, dl_task_names[i])) return *task = (dl_task)i, true;
    const char *near = dl_nearest(name, dl_task_names, DL_NTASKS);
    return dl_fail(err, DL_USAGE,
                   "--task=%s: a task is regression, segmentation, classification, forecast or "
                   "autoencoder%s%s%s",
                   name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* ---- labels ---- */

/* The largest label; all are read, in blocks along the samples. */
static bool count_classes(const dlr_array_file *f, dl_scaffold_data *d, dl_error *err) {
    const dlr_array_facts *a = d->target.array;
    int64_t row = 1, least = 0, most = 0;
    for (int i = 1; i < a->rank; i++) row *= a->dims[i];
    int64_t rows = row < LABELS_AT_ONCE ? LABELS_AT_ONCE / (row ? row : 1) : 1;
    dlr_source *s = dlr_source_open(f, a, 0, err);
    int64_t *labels = s ? calloc((size_t)(rows * row) + 1, sizeof *labels) : NULL;
    bool ok = labels != NULL;
    if (s && !labels) dl_fail(err, DL_RESOURCE, "no memory for a block of labels");
    for (int64_t at = 0; ok && at < a->dims[0]; at += rows) {
        dlr_block b = {.start = {at}};
        memcpy(b.count, a->dims, sizeof b.count);
        b.count[0] = a->dims[0] - at < rows ? a->dims[0] - at : rows;
        ok = dlr_source_read(s, &b, DLR_EL_I64, labels, err);
        for (int64_t i = 0; ok && i < b.count[0] * row; i++) {
            least = labels[i] < least ? labels[i] : least;
            most = labels[i] > most ? labels[i] : most;
        }
    }
    free(labels);
    dlr_source_close(s);
    if (!ok) return false;
    d->classes = most + 1;
    if (least >= 0 && most > 0 && most < MOST_CLASSES) return true;
    return dl_fail(err, DL_INPUT,
                   "%s: '%s' cannot be classes: its labels go from %lld to %lld, and classes are "
                   "0, 1, 2..., two or more, at most %d",
                   d->path, a->name, (long long)least, (long long)most, MOST_CLASSES);
}

/* ---- all of it ---- */

static bool fail_shapes(const dl_scaffold_data *d, const char *why, dl_error *err) {
    dl_buf b = {0};
    dlr_array_put_shape(&b, d->input.array), dl_puts(&b, " and ");
    dlr_array_put_shape(&b, d->target.array);
    dl_fail(err, DL_INPUT, "%s: '%s' and '%s' are %s: %s", d->path, d->input.array->name,
            d->target.array->name, b.at, why);
    dl_buf_free(&b);
    return false;
}

/* The target's shape, as the task has it. */
static bool shape_target(const dlr_array_file *f, dl_scaffold_data *d, dl_error *err) {
    dl_scaffold_array *x = &d->input, *t = &d->target;
    if (!t->array)
        return dl_fail(err, DL_INPUT, "%s: %s needs a second array with %lld samples, the target",
                       d->path, dl_task_names[d->task], (long long)d->samples);
    if (t->array->dims[0] != d->samples)
        return fail_shapes(d, "the first axis, the samples, differs", err);
    if (d->task == DL_TASK_CLASSIFICATION)
        return has_labels_of_samples(t->array)
                   ? read_shape(t->array, t) && count_classes(f, d, err)
                   : fail_shapes(d, "a class for each sample is one number", err);
    if (d->task == DL_TASK_SEGMENTATION) {
        if (!x->spatial || !follow_space(x, t) || t->channels != 1)
            return fail_shapes(d, "classes of points have the input's axes without channels", err);
        return count_classes(f, d, err);
    }
    if (x->spatial && follow_space(x, t)) return true;
    if (t->array->rank > 2)
        return fail_shapes(d, "no model of ours joins these; write one (docs/tutorial)", err);
    return read_shape(t->array, t);
}

bool dl_scaffold_find(dl_arena *arena, const dlr_array_file *f, const char *task, const char *input,
                      const char *target, dl_scaffold_data *d, dl_error *err) {
    *d = (dl_scaffold_data){.path = dl_strdup(arena, f->path)};
    const dlr_array_facts *t = NULL, *x = NULL;
    if (task && !parse_task(task, &d->task, err)) return false;
    if (target && !(t = named(f, target, err))) return false;
    bool itself = task && (d->task == DL_TASK_FORECAST || d->task == DL_TASK_AUTOENCODER);
    bool table = !input && is_table(f);
    if (table && !t && !itself) t = choose_column(f);
    if (input ? !(x = named(f, input, err)) : !(x = choose(f, false, t))) {
        if (!err->code)
            dl_fail(err, DL_INPUT,
                    t ? "%s holds no other array with the samples of '%s'"
                      : "%s holds no array of samples",
                    f->path, target);
        return false;
    }
    d->samples = x->dims[0];
    if (!read_shape(x, &d->input))
        return dl_fail(err, DL_INPUT, "%s: '%s' has %d axes: the most are samples, channels and 3",
                       f->path, x->name, x->rank);
    if (d->samples < FEWEST_SAMPLES)
        return dl_fail(err, DL_INPUT, "%s: '%s' has %lld samples along its first axis: %d are few",
                       f->path, x->name, (long long)d->samples, FEWEST_SAMPLES);
    if (itself && target)
        return dl_fail(err, DL_USAGE, "--task=%s has no target but the input", task);
    if (table) take_columns(arena, f, t, &d->input);
    d->target.array = itself ? NULL : t ? t : choose(f, true, x);
    if (!task && !d->target.array)
        return dl_fail(err, DL_USAGE,
                       "%s holds one array of samples: give --task=forecast or --task=autoencoder",
                       d->path);
    if (!task) d->task = (dl_task)task_of(d);
    if (itself) return d->target = d->input, true;
    return shape_target(f, d, err);
}
