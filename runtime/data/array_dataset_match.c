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

enum { WITHOUT_UNITS = 1, WITHOUT_N = 2, WITHOUT_SIM = 4, WITH_CHANNELS = 8, N_ORDERS = 16 };

static void insert(axis_names *names, int at, const char *name) {
    if (at > names->n || names->n > DL_MAX_RANK) return;
    for (int j = names->n++; j > at; j--) names->at[j] = names->at[j - 1];
    names->at[at] = name;
}

static axis_names usual(const dataset_variable *v, const dlr_array_dataset_trajectory *y, int order,
                        bool with_channels) {
    const dl_type *t = &v->of->to.type;
    axis_names names = {0};
    if (!(order & WITHOUT_N) && !y->given) names.at[names.n++] = "N";
    for (int m = 0; m < t->rank; m++) {
        if (m == v->of->steps) continue;
        bool is_channels = m == v->of->channels;
        if (is_channels ? with_channels && (t->axis[m].size != 1 || !(order & WITHOUT_UNITS))
                        : t->axis[m].size != 1 || !(order & WITHOUT_UNITS))
            names.at[names.n++] = t->axis[m].name;
    }
    /* these are where the file has them, the first one first */
    const bool sim = y->given && y->sim >= 0 && !(order & WITHOUT_SIM),
               times = y->given && !(order & WITHOUT_N);
    for (int at = 0; at < v->rank; at++) {
        if (sim && at == y->sim) insert(&names, at, "sim");
        if (times && at == y->time) insert(&names, at, "time");
        if (v->from.level_axis && at == v->channel)
            insert(&names, at, t->axis[v->of->channels].name);
    }
    return names;
}

/* Whether a name is that of the channels' axis. */
static bool is_channels(const dataset_variable *v, const char *name) {
    const dataset_array *a = v->of;
    return a->channels >= 0 && strcmp(name, a->to.type.axis[a->channels].name) == 0;
}

/* Whether one variable has all channels, of one time. */
static bool is_alone(const dataset_array *a) { return a->from.n_variables == 1 && a->history == 1; }

static bool has_sizes(const dataset_variable *v, const axis_names *names) {
    const dl_type *t = &v->of->to.type;
    for (int j = 0; j < names->n; j++) {
        int m = 0;
        if (strcmp(names->at[j], "N") == 0 || strcmp(names->at[j], "sim") == 0 ||
            strcmp(names->at[j], "time") == 0)
            continue;
        /* of several variables each has some of the channels */
        if (is_channels(v, names->at[j]) && !is_alone(v->of)) continue;
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
static bool guess_axes(const dataset_variable *v, const dlr_array_dataset_trajectory *t,
                       axis_names *out, dl_error *err) {
    const bool alone = is_alone(v->of), levels = v->from.level_axis != NULL;
    bool found = false;
    for (int k = 0; k < N_ORDERS; k++) {
        if ((alone || levels) && (k & WITH_CHANNELS)) continue;
        if ((k & WITHOUT_SIM) && (!(k & WITHOUT_N) || !t->given || t->sim < 0)) continue;
        axis_names names = usual(v, t, k, !levels && (alone || (k & WITH_CHANNELS)));
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

static bool name_axis(dataset_variable *v, const dlr_array_dataset_trajectory *y, int j,
                      const char *name, dl_error *err) {
    const dataset_array *a = v->of;
    const dl_type *t = &a->to.type;
    if (strcmp(name, "1") == 0) {
        v->axis[j] = DATASET_LEFT_OUT;
        return v->files.at[0].dims[j] == 1 ||
               dataset_fail(v, NULL, err, "axis %d of axes is 1, but has %lld elements", j,
                            (long long)v->files.at[0].dims[j]);
    }
    const bool sim = y->given && strcmp(name, "sim") == 0;
    bool samples = strcmp(name, "N") == 0 || (y->given && strcmp(name, "time") == 0);
    int m = samples ? DATASET_SAMPLES : sim ? DATASET_SIMULATIONS : find_axis(t, name);
    if (!samples && !sim && m < 0)
        return dataset_fail(v, NULL, err, "axes: the model's '%s' is %s and has no axis '%.60s'",
                            a->to.name, dl_type_text(t), name);
    for (int i = 0; i < j; i++)
        if (v->axis[i] == m) return dataset_fail(v, NULL, err, "axes names '%.60s' twice", name);
    v->axis[j] = m;
    v->has_samples |= samples, v->has_simulations |= sim;
    if (m >= 0 && is_channels(v, name)) v->channel = j;
    return true;
}

static bool check_missing(const dataset_variable *v, dl_error *err) {
    const dataset_array *a = v->of;
    const dl_type *t = &a->to.type;
    for (int m = 0; m < t->rank; m++) {
        bool found = t->axis[m].size == 1 || m == a->steps || (m == a->channels && !is_alone(a));
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
            if (v->axis[j] != DATASET_SAMPLES && v->axis[j] != DATASET_SIMULATIONS &&
                v->files.at[i].dims[j] != v->files.at[0].dims[j])
                return dataset_fail(v, &v->files.at[i], err,
                                    "axis %d has %lld elements in %.300s: all files have the same",
                                    j, (long long)v->files.at[0].dims[j], v->files.at[0].path);
    return true;
}

static bool match_variable(dataset_variable *v, const dlr_array_dataset_trajectory *t,
                           dl_error *err) {
    axis_names names = {0};
    const dlr_array_dataset_names *given = &v->from.axes;
    const int level = v->from.level_axis ? v->channel : -1;
    if (given->n && given->n != v->rank)
        return dataset_fail(v, NULL, err, "axes names %d axes and it has %d", given->n, v->rank);
    for (int j = 0; j < given->n; j++) names.at[names.n++] = given->at[j];
    if (level >= 0 && given->n) names.at[level] = v->of->to.type.axis[v->of->channels].name;
    if (!given->n && !guess_axes(v, t, &names, err)) return false;
    for (int j = 0; j < v->rank; j++)
        if (!name_axis(v, t, j, names.at[j], err)) return false;
    return check_missing(v, err) && count_channels(v, err) && check_files(v, err);
}

/* ---- an array ---- */

/* The axis of the variables' channels: C, or for several variables or levels the first where there
 * is no C. */
static int find_channels(const dataset_array *a) {
    int m = find_axis(&a->to.type, "C");
    bool several = (a->steps < 0 ? a->variables.n : a->from.n_variables) > 1 ||
                   a->variables.at[0].from.level_axis;
    return m < 0 && several && a->to.type.rank > 0 ? 0 : m;
}

/* Lays the channels of the variables one after the other, for each element of T anew. Their
 * number. */
static int64_t lay_channels(dataset_array *a) {
    int64_t n = 0;
    for (int i = 0; i < a->variables.n; i++) {
        dataset_variable *v = &a->variables.at[i];
        if (i > 0 && v->step != v[-1].step) n = 0;
        v->first = n, n += v->n;
    }
    return n;
}

/* Holds the number of channels against the model's: those of one time, or of a history. */
static bool place_channels(array_dataset *w, dataset_array *a, dl_error *err) {
    int64_t given = lay_channels(a), wanted = 1;
    if (a->channels >= 0) wanted = a->to.type.axis[a->channels].size;
    if (given != wanted && a->history > 1 && given * a->history == wanted) {
        dataset_copy_variables(w, a, a->history);
        given = lay_channels(a);
    }
    if (given == wanted) return true;
    const dataset_variable *v = a->variables.at;
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
    if (a->steps >= 0) a->order[a->n_order++] = a->steps, seen[a->steps] = true;
    if (a->variables.n > 1 && a->channels >= 0 && !seen[a->channels])
        a->order[a->n_order++] = a->channels, seen[a->channels] = true;
    for (int i = 0; i < a->variables.n; i++)
        for (int j = 0; j < a->variables.at[i].rank; j++) {
            int m = a->variables.at[i].axis[j];
            if (m >= 0 && !seen[m]) a->order[a->n_order++] = m, seen[m] = true;
        }
}

bool dataset_match_axes(array_dataset *w, dataset_array *a, dl_error *err) {
    const dlr_array_dataset_trajectory *t = &w->o->trajectory;
    a->channels = find_channels(a);
    if (a->channels < 0 &&
        ((a->variables.n > 1 && a->steps < 0) || a->variables.at[0].from.level_axis))
        return dataset_fail(a->variables.at, NULL, err,
                            "the model's '%s' is %s, without an axis for channels", a->to.name,
                            dl_type_text(&a->to.type));
    for (int i = 0; i < a->variables.n; i++)
        if (!match_variable(&a->variables.at[i], t, err)) return false;
    if (!place_channels(w, a, err)) return false;
    order_axes(a);
    return true;
}
