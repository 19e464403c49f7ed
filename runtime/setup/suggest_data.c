#include "runtime/setup/suggest_data.h"

#include <ctype.h>
#include <strings.h>

#include "runtime/data/array_file.h"
#include "runtime/setup/dataset_options.h"

typedef struct {
    dl_arena *arena;
    DL_ARRAY(const dlr_array_file *) files;
} holdings;

/* How an array of a file could be one of the model's. */
typedef struct {
    int file, array; /* -1: none does */
    int points;
    const char *axes[DL_MAX_RANK + 1];
    int n_axes;
    bool usual;      /* the axes are the model's, with N first */
    bool cropped;    /* some are longer than the model's */
    bool other;      /* some are shorter, or other channels: the model's arguments must change */
    bool again;      /* an input has it, too: the target is a later sample */
    int64_t samples; /* along N; 0: it has no N */
    DL_ARRAY(const char *) names; /* of arrays that are channels; none: the one array */
    bool trajectory;              /* the first two axes are simulations and times */
    int64_t history;              /* times of an input */
} match;

/* ---- orders of axes ---- */

enum { CHANNELS_LAST = 1, WITHOUT_N = 2, WITHOUT_UNITS = 4, N_LAST = 8, N_ORDERS = 16 };

/* The model's axes in one of the orders that files have: with N first or last, or without it; with
 * channels where the model has them, or last; with axes of size 1 or without. False: that is no
 * other order than an earlier one. */
static bool order_axes(const dl_type *t, int order, match *m) {
    const char *last = NULL;
    bool dropped = false;
    m->n_axes = 0;
    if ((order & WITHOUT_N) && (order & N_LAST)) return false;
    if (!(order & (WITHOUT_N | N_LAST))) m->axes[m->n_axes++] = "N";
    for (int i = 0; i < t->rank; i++) {
        const dl_axis *a = &t->axis[i];
        if ((order & WITHOUT_UNITS) && a->size == 1)
            dropped = true;
        else if ((order & CHANNELS_LAST) && strcmp(a->name, "C") == 0 && i + 1 < t->rank)
            last = a->name;
        else
            m->axes[m->n_axes++] = a->name;
    }
    if (last) m->axes[m->n_axes++] = last;
    if (order & N_LAST) m->axes[m->n_axes++] = "N";
    m->usual = order == 0;
    return (last || !(order & CHANNELS_LAST)) && (dropped || !(order & WITHOUT_UNITS));
}

/* ---- how well one fits ---- */

static const char *last_part(const char *name) {
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

static bool contains(const char *text, const char *word) { return strcasestr(text, word) != NULL; }

/* Points for names: the array's own, or words that people use for what the model calls input and
 * target. */
static int name_points(const dlr_array *want, const char *name) {
    static const char *const inputs[] = {"input", "feature", "source", NULL};
    static const char *const targets[] = {"target", "label", "output", "truth", "class", NULL};
    const char *part = last_part(name);
    if (strcasecmp(part, want->name) == 0) return 60;
    int points =
        strlen(want->name) > 1 && (contains(part, want->name) || contains(want->name, part)) ? 30
                                                                                             : 0;
    for (const char *const *w = want->is_target ? targets : inputs; *w; w++)
        if (contains(part, *w)) points = 25;
    for (const char *const *w = want->is_target ? inputs : targets; *w; w++)
        if (contains(part, *w)) points -= 25;
    return points;
}

/* Sizes of an order held against the file's; false: it has another number of axes. */
static bool hold_sizes(const dlr_array *want, const dlr_array_facts *a, match *m) {
    if (m->n_axes != a->rank || a->rank > DL_MAX_RANK) return false;
    m->cropped = m->other = false, m->samples = 0;
    for (int j = 0; j < a->rank; j++) {
        if (strcmp(m->axes[j], "N") == 0) {
            m->samples = a->dims[j];
            continue;
        }
        const dl_axis *x = &want->type.axis[dl_type_axis(&want->type, dl_intern(m->axes[j]))];
        m->other |= a->dims[j] < x->size || (a->dims[j] > x->size && strcmp(x->name, "C") == 0);
        m->cropped |= a->dims[j] > x->size;
        if (a->axis[j] && strcasecmp(a->axis[j], x->name) == 0) m->points += 5;
    }
    return true;
}

static int count_spatial(const match *m) {
    int n = 0;
    for (int j = 0; j < m->n_axes; j++) n += strcmp(m->axes[j], "N") != 0;
    return n;
}

static match find_match(const holdings *h, const dlr_array *want, const match *taken, int n_taken) {
    match best = {.file = -1};
    for (int f = 0; f < h->files.n; f++)
        for (int i = 0; i < h->files.at[f]->n; i++) {
            const dlr_array_facts *a = &h->files.at[f]->arrays[i];
            if (a->type == DLR_EL_NONE || a->refused) continue;
            for (int order = 0; order < N_ORDERS; order++) {
                match m = {.file = f, .array = i};
                if (!order_axes(&want->type, order, &m) || !hold_sizes(want, a, &m)) continue;
                m.points += 100 + name_points(want, a->name) - order - 40 * m.cropped -
                            80 * m.other - 30 * (order == WITHOUT_N);
                if (m.cropped && count_spatial(&m) < want->type.rank) m.points -= 20;
                if (!dl_dtype_is_float(want->type.dtype) && dlr_element_is_float(a->type))
                    m.points -= 40;
                for (int k = 0; k < n_taken; k++)
                    if (taken[k].file == f && taken[k].array == i) m.points -= 50, m.again = true;
                if (best.file < 0 || m.points > best.points) best = m;
            }
        }
    return best;
}

/* The channels that the array has of what is wanted, by its shape: [N, the other axes], or with
 * levels after N. 0: another shape. */
static int64_t count_channels(const dlr_array *want, const dlr_array_facts *a, int channels) {
    const bool levels = a->rank == want->type.rank + 1;
    int j = levels ? 2 : 1;
    if (a->type == DLR_EL_NONE || a->refused || (!levels && a->rank != want->type.rank)) return 0;
    for (int m = 0; m < want->type.rank; m++)
        if (m != channels && a->dims[j++] != want->type.axis[m].size) return 0;
    return levels ? a->dims[1] : 1;
}

/* The arrays of a file that have together the channels of the model, where no array has them all.
 */
static void find_channels(holdings *h, const dlr_array *want, match *m) {
    const int channels = dl_type_axis(&want->type, dl_intern("C"));
    if ((m->file >= 0 && !m->other) || channels < 0 || want->type.rank < 2) return;
    for (int f = 0; f < h->files.n; f++) {
        const dlr_array_file *file = h->files.at[f];
        match found = {.file = f, .usual = true, .again = m->again};
        int64_t total = 0;
        for (int i = 0; i < file->n; i++) {
            const dlr_array_facts *a = &file->arrays[i];
            const int64_t more = count_channels(want, a, channels);
            if (more == 0 || a->dims[0] < 2) continue;
            if (found.samples && found.samples != a->dims[0]) continue;
            if (!found.samples) found.array = i;
            found.samples = a->dims[0];
            total += more;
            dl_push(h->arena, &found.names, a->name);
        }
        if (found.names.n > 1 && total == want->type.axis[channels].size) *m = found;
    }
}

/* Whether an array is [simulations, times, the sample's axes in that order], where an input may
 * have some of the times along T. */
static bool is_trajectory(const dlr_array *want, const dlr_array_facts *a, int order, match *m) {
    dl_type one = want->type;
    const int times = dl_type_axis(&one, dl_intern("T"));
    m->history = times >= 0 ? one.axis[times].size : 1;
    for (int i = times; times >= 0 && i + 1 < one.rank; i++) one.axis[i] = one.axis[i + 1];
    one.rank -= times >= 0;
    match inner = {0};
    if (!order_axes(&one, order | WITHOUT_N, &inner) || a->rank != inner.n_axes + 2) return false;
    if (a->rank > DL_MAX_RANK || a->dims[0] < 2 || a->dims[1] <= m->history) return false;
    m->axes[0] = "sim", m->axes[1] = "time", m->n_axes = a->rank;
    for (int j = 0; j < inner.n_axes; j++) {
        m->axes[j + 2] = inner.axes[j];
        if (one.axis[dl_type_axis(&one, dl_intern(inner.axes[j]))].size != a->dims[j + 2])
            return false;
    }
    m->usual = order == 0, m->samples = a->dims[0], m->trajectory = true;
    return true;
}

/* An array of simulations in time, where no array fits as it is. */
static void find_trajectory(const holdings *h, const dlr_array *want, match *m) {
    if (m->file >= 0 && !m->other && !m->cropped) return;
    int points = -1000;
    for (int f = 0; f < h->files.n; f++)
        for (int i = 0; i < h->files.at[f]->n; i++)
            for (int order = 0; order < WITHOUT_N + WITHOUT_UNITS + CHANNELS_LAST + 1; order++) {
                const dlr_array_facts *a = &h->files.at[f]->arrays[i];
                match found = {.file = f, .array = i};
                if ((order & WITHOUT_N) || a->type == DLR_EL_NONE || a->refused ||
                    !is_trajectory(want, a, order, &found))
                    continue;
                found.points = name_points(want, a->name) - order;
                if (found.points > points) *m = found, points = found.points;
            }
}

/* ---- the text ---- */

static void put_quoted(dl_buf *out, const char *text) {
    dl_yaml v = {.kind = DL_YAML_STRING, .text = text};
    dl_yaml_put(out, &v);
}

static void put_match(dl_buf *out, const holdings *h, const dlr_array *want, const match *m) {
    dl_putf(out, "      %s: ", want->name);
    if (m->file < 0) {
        dl_putf(out, "FILE:ARRAY  # nothing in these files has the axes of %s\n",
                dl_type_text(&want->type));
        return;
    }
    const dlr_array_file *file = h->files.at[m->file];
    const dlr_array_facts *a = &file->arrays[m->array];
    dl_puts(out, "{file: ");
    put_quoted(out, file->path);
    for (int i = 0; i < m->names.n; i++)
        dl_puts(out, i ? ", " : ", array: ["), put_quoted(out, m->names.at[i]);
    if (m->names.n)
        dl_puts(out, "]");
    else if (*a->name)
        dl_puts(out, ", array: "), put_quoted(out, a->name);
    if (!m->usual) {
        dl_puts(out, ", axes: [");
        for (int j = 0; j < m->n_axes; j++) dl_putf(out, "%s%s", j ? ", " : "", m->axes[j]);
        dl_puts(out, "]");
    }
    if (m->again && want->is_target && m->samples) dl_puts(out, ", offset: 1");
    if (want->type.dtype == DL_F32) dl_puts(out, ", normalize: standardize");
    dl_puts(out, "}  # ");
    if (m->names.n) dl_putf(out, "%d of ", m->names.n);
    dlr_array_put_shape(out, a);
    dl_putf(out, " for %s%s\n", dl_type_text(&want->type),
            m->other ? ": sizes differ, set the model's arguments (or channels)" : "");
}

/* Whether an earlier match takes the same arrays. */
static bool is_again(const match *m, int k) {
    for (int i = 0; i < k; i++)
        if (m[i].names.n == m[k].names.n && m[i].file == m[k].file && m[i].array == m[k].array)
            return true;
    return false;
}

static void put_section(dl_buf *out, holdings *h, const dlr_arrays *arrays) {
    match m[DLR_MAX_ARRAYS];
    bool cropped = false, pairs = false; /* pairs: targets are later samples */
    int64_t samples = 0, history = 0;
    dl_puts(out, "  data:\n");
    for (int targets = 0; targets < 2; targets++) {
        bool any = false;
        for (int k = 0; k < arrays->n; k++) {
            if (arrays->at[k].is_target != targets) continue;
            m[k] = find_match(h, &arrays->at[k], m, k);
            find_channels(h, &arrays->at[k], &m[k]);
            if (m[k].names.n) m[k].again = is_again(m, k);
            find_trajectory(h, &arrays->at[k], &m[k]);
            if (m[k].trajectory && m[k].history > history) history = m[k].history;
            if (!any) dl_puts(out, targets ? "    targets:\n" : "    inputs:\n");
            any = true;
            put_match(out, h, &arrays->at[k], &m[k]);
            pairs |= targets && m[k].again && !m[k].trajectory;
            cropped |= m[k].file >= 0 && m[k].cropped;
            if (m[k].file >= 0 && m[k].samples > samples) samples = m[k].samples;
        }
    }
    if (cropped) dl_puts(out, "    crop: random\n");
    if (history) dl_puts(out, "    trajectory: {sim: 0, time: 1, lead: 1");
    if (history > 1) dl_putf(out, ", history: %lld", (long long)history);
    if (history) dl_puts(out, "}\n");
    const bool tenth = samples >= (pairs ? 40 : 10) || (!samples && !cropped);
    dl_putf(out, "    split: {valid: %s}\n",
            tenth                   ? "0.1"
            : pairs && samples >= 8 ? "0.25"
                                    : "0.5");
    if (cropped && !samples)
        dl_puts(out, "  Nsamples: 1024  # random crops in an epoch\n  Nsamples_val: 128\n");
}

/* ---- all ---- */

static bool open_files(holdings *h, const char *const *files, int n, dl_error *err) {
    for (int i = 0; i < n; i++) {
        const dlr_array_file *f = dlr_array_file_open(files[i], err);
        if (!f) return false;
        dl_push(h->arena, &h->files, f);
    }
    return true;
}

bool dl_suggest_data(const char *model, const char *const *files, int n_files, dl_buf *out,
                     dl_error *err) {
    holdings h = {.arena = dl_arena_new(NULL)};
    char *argv[] = {"dldata", (char *)model};
    dlr_arrays arrays = {0};
    dl_buf faults = {0};
    dl_config *c = dl_config_open(h.arena, 2, argv, NULL, err);
    dl_session *s =
        c && dl_config_take_model(c, err) ? dl_session_open(h.arena, c, 1, &faults, err) : NULL;
    bool ok = s && dl_samples_arrays(s, &arrays, err) && open_files(&h, files, n_files, err);
    if (ok) {
        dl_putf(out,
                "\nfor %s (paste into a configuration, then `dlc check %s --yaml_config FILE "
                "--config NAME`):\n",
                model, model);
        put_section(out, &h, &arrays);
    } else if (faults.n)
        dl_fail(err, DL_INPUT, "%s: `dlc check %s` says what is wrong with it", model, model);
    for (int i = 0; i < h.files.n; i++) dlr_array_file_close((dlr_array_file *)h.files.at[i]);
    dl_session_close(s);
    dl_buf_free(&faults);
    dl_arena_free(h.arena);
    return ok;
}
