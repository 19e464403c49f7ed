/* Maps the axes of arrays in files to the model's axes: which are cropped, strided and
 * augmented. */
#include "runtime/data/array_dataset_private.h"

/* ---- one array ---- */

/* Names of the array's axes where the configuration gives none: the model's order, with N or
 * without it, with the model's axes of size 1 or without them. */
typedef struct {
    const char *at[DL_MAX_RANK + 1];
    int n;
} axis_names;

static axis_names usual(const dl_type *t, bool samples, bool units) {
    axis_names names = {0};
    if (samples) names.at[names.n++] = "N";
    for (int m = 0; m < t->rank; m++)
        if (units || t->axis[m].size != 1) names.at[names.n++] = t->axis[m].name;
    return names;
}

static bool has_sizes(const dataset_array *a, const axis_names *names) {
    const dl_type *t = &a->to.type;
    for (int j = 0, m = 0; j < names->n; j++) {
        if (strcmp(names->at[j], "N") == 0) continue;
        while (strcmp(t->axis[m].name, names->at[j]) != 0) m++;
        if (a->files.at[0].dims[j] != t->axis[m].size) return false;
    }
    return true;
}

static bool has_channels(const axis_names *names) {
    for (int j = 0; j < names->n; j++)
        if (strcmp(names->at[j], "C") == 0) return true;
    return false;
}

/* The first of the four candidates with the right number of axes; one with matching sizes is
 * preferred. */
static bool guess_axes(const dataset_array *a, axis_names *out, dl_error *err) {
    bool found = false;
    for (int k = 0; k < 4; k++) {
        axis_names names = usual(&a->to.type, k < 2, k % 2 == 0);
        if (names.n != a->rank || (a->from.channels && !has_channels(&names))) continue;
        if (has_sizes(a, &names)) {
            *out = names;
            return true;
        }
        if (!found) *out = names, found = true;
    }
    return found ||
           dataset_fail(a, NULL, err,
                        "the model's '%s' is %s: say which axis is which by axes: [N, ...] (N "
                        "the samples, 1 an "
                        "axis of size 1 to leave out)",
                        a->to.name, dl_type_text(&a->to.type));
}

static int find_axis(const dl_type *t, const char *name) {
    for (int m = 0; m < t->rank; m++)
        if (strcmp(t->axis[m].name, name) == 0) return m;
    return -1;
}

static bool name_axis(dataset_array *a, int j, const char *name, dl_error *err) {
    const dl_type *t = &a->to.type;
    if (strcmp(name, "1") == 0) {
        a->axis[j] = DATASET_LEFT_OUT;
        return a->files.at[0].dims[j] == 1 ||
               dataset_fail(a, NULL, err, "axis %d of axes is 1, but has %lld elements", j,
                            (long long)a->files.at[0].dims[j]);
    }
    bool samples = strcmp(name, "N") == 0;
    int m = samples ? DATASET_SAMPLES : find_axis(t, name);
    if (!samples && m < 0)
        return dataset_fail(a, NULL, err, "axes: the model's '%s' is %s and has no axis '%.60s'",
                            a->to.name, dl_type_text(t), name);
    for (int i = 0; i < j; i++)
        if (a->axis[i] == m) return dataset_fail(a, NULL, err, "axes names '%.60s' twice", name);
    a->axis[j] = m;
    a->has_samples |= samples;
    if (!samples && strcmp(name, "C") == 0) a->channel = j;
    return true;
}

static bool check_missing(const dataset_array *a, dl_error *err) {
    const dl_type *t = &a->to.type;
    for (int m = 0; m < t->rank; m++) {
        bool found = t->axis[m].size == 1;
        for (int j = 0; j < a->rank; j++) found = found || a->axis[j] == m;
        if (!found)
            return dataset_fail(
                a, NULL, err, "axes does not say which of its axes is %s=%lld of the model's '%s'",
                t->axis[m].name, (long long)t->axis[m].size, a->to.name);
    }
    return true;
}

/* Appends a remedy for a channel count that does not match: channels are often the last axis. */
static void put_remedy(dl_buf *out, const dataset_array *a, int64_t wanted) {
    const dl_type *t = &a->to.type;
    const char *before = "";
    if (a->from.channels) return;
    dl_puts(out, " (channels: [...] takes some of them");
    if (!a->from.axes.n && a->channel < a->rank - 1 && a->files.at[0].dims[a->rank - 1] == wanted) {
        dl_puts(out, "; or are they its last axis? axes: [");
        for (int j = 0; j < a->rank; j++) {
            if (j == a->channel) continue;
            dl_putf(out, "%s%s", before,
                    a->axis[j] == DATASET_SAMPLES ? "N" : t->axis[a->axis[j]].name);
            before = ", ";
        }
        dl_puts(out, ", C]");
    }
    dl_puts(out, ")");
}

/* Checks the selected channels: all, or the given ones. */
static bool check_channels(const dataset_array *a, dl_error *err) {
    const dlr_array_dataset_source *from = &a->from;
    if (a->channel < 0)
        return !from->channels ||
               dataset_fail(a, NULL, err, "channels are of an axis C, which it has not (axes)");
    int64_t there = a->files.at[0].dims[a->channel],
            wanted = a->to.type.axis[a->axis[a->channel]].size;
    for (int i = 0; i < from->n_channels; i++)
        if (from->channels[i] >= there)
            return dataset_fail(a, NULL, err, "channels: %lld is not below its %lld",
                                (long long)from->channels[i], (long long)there);
    int64_t given = from->channels ? from->n_channels : there;
    if (given == wanted) return true;
    dl_buf remedy = {0};
    put_remedy(&remedy, a, wanted);
    dataset_fail(a, NULL, err, "%lld channels, where the model's '%s' is %s%s", (long long)given,
                 a->to.name, dl_type_text(&a->to.type), remedy.at ? remedy.at : "");
    dl_buf_free(&remedy);
    return false;
}

static bool check_files(const dataset_array *a, dl_error *err) {
    for (int i = 1; i < a->files.n; i++)
        for (int j = 0; j < a->rank; j++)
            if (a->axis[j] != DATASET_SAMPLES && a->files.at[i].dims[j] != a->files.at[0].dims[j])
                return dataset_fail(a, &a->files.at[i], err,
                                    "axis %d has %lld elements in %.300s: all files have the same",
                                    j, (long long)a->files.at[0].dims[j], a->files.at[0].path);
    return true;
}

bool dataset_match_axes(dataset_array *a, dl_error *err) {
    axis_names names = {0};
    const dlr_array_dataset_names *given = &a->from.axes;
    a->channel = -1;
    if (given->n && given->n != a->rank)
        return dataset_fail(a, NULL, err, "axes names %d axes and it has %d", given->n, a->rank);
    for (int j = 0; j < given->n; j++) names.at[names.n++] = given->at[j];
    if (!given->n && !guess_axes(a, &names, err)) return false;
    for (int j = 0; j < a->rank; j++)
        if (!name_axis(a, j, names.at[j], err)) return false;
    return check_missing(a, err) && check_channels(a, err) && check_files(a, err);
}

/* ---- all arrays ---- */

static bool is_channels(const dataset_array *a, int j) { return j == a->channel; }

static int64_t step_of(const dlr_array_dataset_options *o, const char *name) {
    for (int i = 0; i < o->step_axes.n; i++)
        if (strcmp(o->step_axes.at[i], name) == 0) return o->steps[i];
    return 1;
}

/* Sets how a sample covers an axis of the files: all of it in its steps, or a crop. */
static bool fit_axis(const array_dataset *w, const dataset_array *a, dataset_axis *x,
                     dl_error *err) {
    static const char remedy[] = "crop: random, center or origin takes a part";
    const char *in_steps = x->step > 1 ? " in steps" : "";
    if (x->size < 1 || x->extent > INT32_MAX)
        return dataset_fail(a, NULL, err,
                            "%s=%lld of the model's '%s' cannot be taken of its %lld elements",
                            x->name, (long long)x->size, a->to.name, (long long)x->extent);
    if ((x->extent + x->step - 1) / x->step == x->size) return true;
    if (x->size > (x->extent + x->step - 1) / x->step)
        return dataset_fail(a, NULL, err,
                            "%s=%lld of the model's '%s' is more than its %lld elements%s", x->name,
                            (long long)x->size, a->to.name, (long long)x->extent, in_steps);
    if (w->o->crop == DLR_CROP_NONE)
        return dataset_fail(a, NULL, err,
                            "%s=%lld of the model's '%s' is not its %lld elements%s: %s", x->name,
                            (long long)x->size, a->to.name, (long long)x->extent,
                            x->step > 1 ? " in steps" : "", remedy);
    x->crop = w->o->crop;
    return true;
}

/* Finds the axis among those that arrays share; adds a new one where name, size or extent
 * differ. */
static int share(array_dataset *w, dataset_axis x) {
    for (int i = 0; i < w->axes.n; i++) {
        const dataset_axis *y = &w->axes.at[i];
        if (strcmp(x.name, y->name) == 0 && x.size == y->size && x.extent == y->extent) return i;
    }
    dl_push(w->arena, &w->axes, x);
    return w->axes.n - 1;
}

static bool share_axes_of(array_dataset *w, dataset_array *a, dl_error *err) {
    for (int m = 0; m < DL_MAX_RANK; m++) a->shared[m] = -1;
    for (int j = 0; j < a->rank; j++) {
        int m = a->axis[j];
        if (m < 0 || is_channels(a, j)) continue;
        const dl_axis *t = &a->to.type.axis[m];
        int64_t extent = a->files.at[0].dims[j];
        dataset_axis x = {.name = t->name,
                          .size = t->size,
                          .extent = extent,
                          .step = step_of(w->o, t->name),
                          .high = extent};
        if (!fit_axis(w, a, &x, err)) return false;
        a->shared[m] = share(w, x);
    }
    return true;
}

/* The shared axis of that name. There must be one for all arrays where samples are drawn along
 * it. */
static int find_shared(const array_dataset *w, const char *key, const char *name, dl_error *err) {
    int found = -1;
    dl_buf all = {0};
    for (int i = 0; i < w->axes.n; i++) {
        const dataset_axis *x = &w->axes.at[i];
        dl_putf(&all, "%s%s", i ? ", " : "", x->name);
        if (strcmp(x->name, name) != 0) continue;
        if (found >= 0) {
            const dataset_axis *y = &w->axes.at[found];
            dl_fail(err, DL_INPUT,
                    "%s: axis %.60s is %lld of %lld elements for one array and %lld of %lld for "
                    "another: "
                    "they cannot be "
                    "moved together",
                    key, name, (long long)y->size, (long long)y->extent, (long long)x->size,
                    (long long)x->extent);
            found = -2;
            break;
        }
        found = i;
    }
    if (found == -1)
        dl_fail(err, DL_INPUT, "%s: no array has an axis '%.60s'; there are: %s", key, name,
                all.at ? all.at : "none");
    dl_buf_free(&all);
    return found;
}

static bool read_moves(array_dataset *w, dl_error *err) {
    const dlr_array_dataset_options *o = w->o;
    for (int i = 0; i < o->flip.n; i++) {
        int k = find_shared(w, "data.augment.flip", o->flip.at[i], err);
        if (k < 0) return false;
        w->axes.at[k].flips = true;
    }
    for (int i = 0; i < o->shift.n; i++) {
        int k = find_shared(w, "data.augment.shift", o->shift.at[i], err);
        if (k < 0) return false;
        if (w->axes.at[k].step > 1)
            return dl_fail(
                err, DL_INPUT,
                "data.augment.shift: axis %s is taken in steps, and cannot be moved round",
                o->shift.at[i]);
        w->axes.at[k].shifts = true;
    }
    for (int i = 0; i < o->rotate.n; i++) {
        int k = find_shared(w, "data.augment.rotate", o->rotate.at[i], err);
        if (k < 0) return false;
        for (int before = 0; before < i; before++)
            if (w->turned[before] == k)
                return dl_fail(err, DL_INPUT, "data.augment.rotate names %s twice",
                               o->rotate.at[i]);
        w->turned[w->n_turned++] = k;
    }
    for (int i = 0; i < o->step_axes.n; i++)
        if (find_shared(w, "data.step", o->step_axes.at[i], err) == -1) return false;
    for (int i = 0; i < w->axes.n; i++)
        if (w->axes.at[i].crop == DLR_CROP_RANDOM &&
            find_shared(w, "data.crop: random", w->axes.at[i].name, err) < 0)
            return false;
    return true;
}

/* Checks that an array with one of the rotated axes has all of them. */
static bool check_turned(const array_dataset *w, dl_error *err) {
    for (int k = 0; k < w->n; k++) {
        int has = 0;
        for (int m = 0; m < w->at[k].to.type.rank; m++)
            for (int i = 0; i < w->n_turned; i++) has += w->at[k].shared[m] == w->turned[i];
        if (has != 0 && has != w->n_turned)
            return dataset_fail(&w->at[k], NULL, err,
                                "data.augment.rotate turns axes of which it has only some");
    }
    return true;
}

/* Lists the rotations of the square or cube that these axes span and that keep a sample's shape:
 * signed permutations of determinant 1 that exchange axes of equal size only. */
static void list_turns(array_dataset *w) {
    static const signed char orders[6][4] = {{0, 1, 2, 1},  {1, 2, 0, 1},  {2, 0, 1, 1},
                                             {1, 0, 2, -1}, {0, 2, 1, -1}, {2, 1, 0, -1}};
    int n = w->n_turned;
    for (int p = 0; n > 0 && p < 6; p++)
        for (int flips = 0; flips < 1 << n; flips++) {
            dataset_turn turn = {{orders[p][0], orders[p][1], orders[p][2]},
                                 {flips & 1, flips >> 1 & 1, flips >> 2 & 1}};
            bool ok = n == 3 || orders[p][2] == 2; /* with two axes the third stays */
            int sign = orders[p][3];
            for (int i = 0; i < n; i++) {
                if (turn.flip[i]) sign = -sign;
                ok = ok && w->axes.at[w->turned[i]].size ==
                               w->axes.at[w->turned[(int)turn.source[i]]].size;
            }
            if (ok && sign > 0) dl_push(w->arena, &w->turns, turn);
        }
}

bool dataset_share_axes(array_dataset *w, dl_error *err) {
    for (int k = 0; k < w->n; k++)
        if (!share_axes_of(w, &w->at[k], err)) return false;
    if (!read_moves(w, err) || !check_turned(w, err)) return false;
    list_turns(w);
    return true;
}
