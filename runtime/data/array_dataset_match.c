/* Maps the axes of arrays in files to the model's axes, and the channels of several arrays to those
 * of one. */
#include "runtime/data/array_dataset_private.h"

/* ---- one variable ---- */

/* Names of the array's axes where the configuration gives none: the model's order, with N or
 * without it, with the model's axes of size 1 or without them, and without the channels' axis where
 * several arrays have its channels. */
typedef struct {
    const char *at[DL_MAX_RANK + 1];
    int n;
} axis_names;

enum { WITHOUT_UNITS = 1, WITHOUT_N = 2, WITH_CHANNELS = 4, N_ORDERS = 8 };

static axis_names usual(const dataset_variable *v, int order, bool with_channels) {
    const dl_type *t = &v->of->to.type;
    axis_names names = {0};
    if (!(order & WITHOUT_N)) names.at[names.n++] = "N";
    for (int m = 0; m < t->rank; m++) {
        bool is_channels = m == v->of->channels;
        if (is_channels ? with_channels && (t->axis[m].size != 1 || !(order & WITHOUT_UNITS))
                        : t->axis[m].size != 1 || !(order & WITHOUT_UNITS))
            names.at[names.n++] = t->axis[m].name;
    }
    if (v->from.level_axis && names.n <= DL_MAX_RANK) { /* it is where the file has it */
        for (int j = names.n++; j > v->channel; j--) names.at[j] = names.at[j - 1];
        names.at[v->channel] = t->axis[v->of->channels].name;
    }
    return names;
}

/* Whether a name is that of the channels' axis. */
static bool is_channels(const dataset_variable *v, const char *name) {
    const dataset_array *a = v->of;
    return a->channels >= 0 && strcmp(name, a->to.type.axis[a->channels].name) == 0;
}

static bool has_sizes(const dataset_variable *v, const axis_names *names) {
    const dl_type *t = &v->of->to.type;
    for (int j = 0; j < names->n; j++) {
        int m = 0;
        if (strcmp(names->at[j], "N") == 0) continue;
        /* of several variables each has some of the channels */
        if (is_channels(v, names->at[j]) && v->of->variables.n > 1) continue;
        while (strcmp(t->axis[m].name, names->at[j]) != 0) m++;
        if (v->files.at[0].dims[j] != t->axis[m].size) return false;
    }
    return true;
}

static bool has_channels(const dataset_variable *v, const axis_names *names) {
    for (int j = 0; j < names->n; j++)
        if (is_channels(v, names->at[j])) return true;
    return false;
}

/* The first of the candidates with the right number of axes; one with matching sizes is preferred.
 * An array alone has the channels; of several, each is one channel, or has an axis of them. */
static bool guess_axes(const dataset_variable *v, axis_names *out, dl_error *err) {
    const bool alone = v->of->variables.n == 1, levels = v->from.level_axis != NULL;
    bool found = false;
    for (int k = 0; k < N_ORDERS; k++) {
        if ((alone || levels) && (k & WITH_CHANNELS)) continue;
        axis_names names = usual(v, k, !levels && (alone || (k & WITH_CHANNELS)));
        if (names.n != v->rank || (v->from.channels && !has_channels(v, &names))) continue;
        if (has_sizes(v, &names)) {
            *out = names;
            return true;
        }
        if (!found) *out = names, found = true;
    }
    return found ||
           dataset_fail(v, NULL, err,
                        "the model's '%s' is %s: say which axis is which by axes: [N, ...] (N "
                        "the samples, 1 an axis of size 1 to leave out)",
                        v->of->to.name, dl_type_text(&v->of->to.type));
}

static int find_axis(const dl_type *t, const char *name) {
    for (int m = 0; m < t->rank; m++)
        if (strcmp(t->axis[m].name, name) == 0) return m;
    return -1;
}

static bool name_axis(dataset_variable *v, int j, const char *name, dl_error *err) {
    const dataset_array *a = v->of;
    const dl_type *t = &a->to.type;
    if (strcmp(name, "1") == 0) {
        v->axis[j] = DATASET_LEFT_OUT;
        return v->files.at[0].dims[j] == 1 ||
               dataset_fail(v, NULL, err, "axis %d of axes is 1, but has %lld elements", j,
                            (long long)v->files.at[0].dims[j]);
    }
    bool samples = strcmp(name, "N") == 0;
    int m = samples ? DATASET_SAMPLES : find_axis(t, name);
    if (!samples && m < 0)
        return dataset_fail(v, NULL, err, "axes: the model's '%s' is %s and has no axis '%.60s'",
                            a->to.name, dl_type_text(t), name);
    for (int i = 0; i < j; i++)
        if (v->axis[i] == m) return dataset_fail(v, NULL, err, "axes names '%.60s' twice", name);
    v->axis[j] = m;
    v->has_samples |= samples;
    if (!samples && is_channels(v, name)) v->channel = j;
    return true;
}

static bool check_missing(const dataset_variable *v, dl_error *err) {
    const dataset_array *a = v->of;
    const dl_type *t = &a->to.type;
    for (int m = 0; m < t->rank; m++) {
        bool found = t->axis[m].size == 1 || (m == a->channels && a->variables.n > 1);
        for (int j = 0; j < v->rank; j++) found = found || v->axis[j] == m;
        if (!found)
            return dataset_fail(
                v, NULL, err, "axes does not say which of its axes is %s=%lld of the model's '%s'",
                t->axis[m].name, (long long)t->axis[m].size, a->to.name);
    }
    return true;
}

/* Appends a remedy for a channel count that does not match: channels are often the last axis. */
static void put_remedy(dl_buf *out, const dataset_variable *v, int64_t wanted) {
    const dl_type *t = &v->of->to.type;
    const char *before = "";
    if (v->from.channels || v->from.level_axis) return;
    dl_puts(out, " (channels: [...] takes some of them");
    if (!v->from.axes.n && v->channel < v->rank - 1 && v->files.at[0].dims[v->rank - 1] == wanted) {
        dl_puts(out, "; or are they its last axis? axes: [");
        for (int j = 0; j < v->rank; j++) {
            if (j == v->channel) continue;
            dl_putf(out, "%s%s", before,
                    v->axis[j] == DATASET_SAMPLES ? "N" : t->axis[v->axis[j]].name);
            before = ", ";
        }
        dl_puts(out, ", C]");
    }
    dl_puts(out, ")");
}

/* Counts a variable's selected channels: all, or the given ones. */
static bool count_channels(dataset_variable *v, dl_error *err) {
    const dlr_array_dataset_variable *from = &v->from;
    v->n = 1;
    if (v->channel < 0)
        return !from->channels ||
               dataset_fail(v, NULL, err, "channels are of an axis C, which it has not (axes)");
    int64_t there = v->files.at[0].dims[v->channel];
    for (int i = 0; i < from->n_channels; i++)
        if (from->channels[i] >= there)
            return dataset_fail(v, NULL, err, "channels: %lld is not below its %lld",
                                (long long)from->channels[i], (long long)there);
    v->n = from->channels ? from->n_channels : there;
    return true;
}

static bool check_files(const dataset_variable *v, dl_error *err) {
    for (int i = 1; i < v->files.n; i++)
        for (int j = 0; j < v->rank; j++)
            if (v->axis[j] != DATASET_SAMPLES && v->files.at[i].dims[j] != v->files.at[0].dims[j])
                return dataset_fail(v, &v->files.at[i], err,
                                    "axis %d has %lld elements in %.300s: all files have the same",
                                    j, (long long)v->files.at[0].dims[j], v->files.at[0].path);
    return true;
}

static bool match_variable(dataset_variable *v, dl_error *err) {
    axis_names names = {0};
    const dlr_array_dataset_names *given = &v->from.axes;
    const int level = v->from.level_axis ? v->channel : -1;
    if (given->n && given->n != v->rank)
        return dataset_fail(v, NULL, err, "axes names %d axes and it has %d", given->n, v->rank);
    for (int j = 0; j < given->n; j++) names.at[names.n++] = given->at[j];
    if (level >= 0 && given->n) names.at[level] = v->of->to.type.axis[v->of->channels].name;
    if (!given->n && !guess_axes(v, &names, err)) return false;
    for (int j = 0; j < v->rank; j++)
        if (!name_axis(v, j, names.at[j], err)) return false;
    return check_missing(v, err) && count_channels(v, err) && check_files(v, err);
}

/* ---- an array ---- */

/* The axis of the variables' channels: C, or for several variables or levels the first where there
 * is no C. */
static int find_channels(const dataset_array *a) {
    int m = find_axis(&a->to.type, "C");
    bool several = a->variables.n > 1 || a->variables.at[0].from.level_axis;
    return m < 0 && several && a->to.type.rank > 0 ? 0 : m;
}

/* Lays the channels of the variables one after the other, and holds their sum against the
 * model's. */
static bool place_channels(dataset_array *a, dl_error *err) {
    const dataset_variable *v = a->variables.at;
    int64_t given = 0, wanted = 1;
    for (int i = 0; i < a->variables.n; i++)
        a->variables.at[i].first = given, given += a->variables.at[i].n;
    if (a->channels >= 0) wanted = a->to.type.axis[a->channels].size;
    if (given == wanted) return true;
    dl_buf remedy = {0};
    if (a->variables.n > 1)
        return dataset_fail(
            v, NULL, err, "the %d arrays have %lld channels together, and the model's '%s' is %s",
            a->variables.n, (long long)given, a->to.name, dl_type_text(&a->to.type));
    put_remedy(&remedy, v, wanted);
    dataset_fail(v, NULL, err, "%lld channels, where the model's '%s' is %s%s", (long long)given,
                 a->to.name, dl_type_text(&a->to.type), remedy.at ? remedy.at : "");
    dl_buf_free(&remedy);
    return false;
}

/* The order of numbers for a device: of one variable the files'; of several the channels come
 * first. */
static void order_axes(dataset_array *a) {
    bool seen[DL_MAX_RANK] = {false};
    a->n_order = 0;
    if (a->variables.n > 1) a->order[a->n_order++] = a->channels, seen[a->channels] = true;
    for (int i = 0; i < a->variables.n; i++)
        for (int j = 0; j < a->variables.at[i].rank; j++) {
            int m = a->variables.at[i].axis[j];
            if (m >= 0 && !seen[m]) a->order[a->n_order++] = m, seen[m] = true;
        }
}

bool dataset_match_axes(dataset_array *a, dl_error *err) {
    a->channels = find_channels(a);
    if (a->channels < 0 && (a->variables.n > 1 || a->variables.at[0].from.level_axis))
        return dataset_fail(a->variables.at, NULL, err,
                            "the model's '%s' is %s, without an axis for channels", a->to.name,
                            dl_type_text(&a->to.type));
    for (int i = 0; i < a->variables.n; i++)
        if (!match_variable(&a->variables.at[i], err)) return false;
    if (!place_channels(a, err)) return false;
    order_axes(a);
    return true;
}
