#include "runtime/setup/suggest_match.h"

#include <fnmatch.h>
#include <strings.h>

/* ---- families of names ---- */

const char *dl_put_star(dl_arena *arena, const char *text, const char *digits, size_t n) {
    dl_buf out = {0};
    for (const char *at = text; *at;) {
        const size_t run = strspn(at, "0123456789");
        if (run == n && strncmp(at, digits, n) == 0)
            dl_puts(&out, "*");
        else
            dl_putn(&out, at, run ? run : 1);
        at += run ? run : 1;
    }
    const char *kept = dl_strdup(arena, out.at ? out.at : "");
    dl_buf_free(&out);
    return kept;
}

static bool same_shape(const dlr_array_facts *a, const dlr_array_facts *b) {
    return a->rank == b->rank && a->rank <= DLR_ARRAY_RANK && a->type == b->type &&
           memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

/* The pattern of an array in a numbered group, which others of the file fit; NULL: none does.
 * *first: the first of them. */
static const char *find_family(dl_arena *arena, const dlr_array_file *f, int array, int *first) {
    const char *name = f->arrays[array].name, *slash = strrchr(name, '/');
    for (const char *at = name; slash && at < slash;) {
        const size_t run = strspn(at, "0123456789");
        const char *pattern = run ? dl_put_star(arena, name, at, run) : NULL;
        int n = 0;
        for (int i = f->n - 1; pattern && i >= 0; i--)
            if (same_shape(&f->arrays[i], &f->arrays[array]) &&
                fnmatch(pattern, f->arrays[i].name, 0) == 0)
                *first = i, n++;
        if (n > 1) return pattern;
        at += run ? run : 1;
    }
    return NULL;
}

/* ---- orders of axes ---- */

enum {
    CHANNELS_LAST = 1,
    WITHOUT_N = 2,
    WITHOUT_UNITS = 4,
    N_LAST = 8,
    REVERSED = 16, /* x, y, z, as NIfTI and MATLAB have them */
    N_ORDERS = 32
};

static void reverse(const char **names, int n) {
    for (int i = 0; i < n / 2; i++) {
        const char *first = names[i];
        names[i] = names[n - 1 - i], names[n - 1 - i] = first;
    }
}

/* The model's axes in one of the orders that files have: with N first or last, or without it; with
 * channels where the model has them, or last; with axes of size 1 or without; or the other way
 * round. False: that is no other order than an earlier one. */
static bool order_axes(const dl_type *t, int order, dl_match *m) {
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
    const int first = !(order & (WITHOUT_N | N_LAST)), n = m->n_axes - first;
    if ((order & REVERSED) && (n < 2 || (order & CHANNELS_LAST))) return false;
    if (order & REVERSED) reverse(m->axes + first, n);
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

/* The array's name, or that of the file of which it is the only one. */
static const char *name_of(const dlr_array_file *file, const dlr_array_facts *a) {
    return last_part(a->name[0] ? a->name : file->path);
}

/* Points for names: the array's own, or words that people use for what the model calls input and
 * target. */
static int name_points(const dlr_array *want, const char *part) {
    static const char *const inputs[] = {"input", "feature", "source", NULL};
    static const char *const targets[] = {"target", "label", "output", "truth", "class", NULL};
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

/* Puts "1" where the array has axes of one element that the model has not: those of MATLAB's rows,
 * or of a single level. False: the numbers of axes are different. */
static bool put_units(const dlr_array_facts *a, dl_match *m) {
    int units = 0, taken = 0;
    const char *axes[DL_MAX_RANK + 1];
    if (a->rank > DL_MAX_RANK) return false;
    if (m->n_axes == a->rank) return true;
    for (int j = 0; j < a->rank; j++) units += a->dims[j] == 1;
    if (units == 0 || m->n_axes + units != a->rank) return false;
    for (int j = 0; j < a->rank; j++) axes[j] = a->dims[j] == 1 ? "1" : m->axes[taken++];
    memcpy(m->axes, axes, sizeof axes[0] * (size_t)a->rank);
    m->n_axes = a->rank, m->usual = false, m->points -= 10;
    return true;
}

/* Sizes of an order held against the file's; false: it has another number of axes. */
static bool hold_sizes(const dlr_array *want, const dlr_array_facts *a, dl_match *m) {
    if (!put_units(a, m)) return false;
    m->cropped = m->other = false, m->samples = 0;
    for (int j = 0; j < a->rank; j++) {
        if (strcmp(m->axes[j], "N") == 0) {
            m->samples = a->dims[j];
            continue;
        }
        if (strcmp(m->axes[j], "1") == 0) continue;
        const dl_axis *x = &want->type.axis[dl_type_axis(&want->type, dl_intern(m->axes[j]))];
        m->other |= a->dims[j] < x->size || (a->dims[j] > x->size && strcmp(x->name, "C") == 0);
        m->cropped |= a->dims[j] > x->size;
        if (a->axis[j] && strcasecmp(a->axis[j], x->name) == 0) m->points += 5;
    }
    return true;
}

static int count_spatial(const dl_match *m) {
    int n = 0;
    for (int j = 0; j < m->n_axes; j++) n += strcmp(m->axes[j], "N") != 0;
    return n;
}

/* Whether the file names its axes x, y, z: columns, rows, planes. */
static bool is_xyz(const dlr_array_facts *a) {
    return a->rank > 1 && a->axis[0] && a->axis[1] && strcmp(a->axis[0], "x") == 0 &&
           strcmp(a->axis[1], "y") == 0;
}

static dl_match find_single(const dl_holdings *h, const dlr_array *want, const dl_match *taken,
                            int n_taken) {
    dl_match best = {.file = -1};
    int first;
    for (int f = 0; f < h->files.n; f++)
        for (int i = 0; i < h->files.at[f]->n; i++) {
            const dlr_array_facts *a = &h->files.at[f]->arrays[i];
            if (a->type == DLR_EL_NONE || a->refused) continue;
            const char *family = find_family(h->arena, h->files.at[f], i, &first);
            if (family && i != first) continue;
            for (int order = 0; order < N_ORDERS; order++) {
                dl_match m = {.file = f, .array = i, .family = family};
                if (!order_axes(&want->type, order, &m) || !hold_sizes(want, a, &m)) continue;
                m.points += 100 + name_points(want, name_of(h->files.at[f], a)) - order -
                            40 * m.cropped - 80 * m.other - 30 * (order == WITHOUT_N);
                if (is_xyz(a) == ((order & REVERSED) != 0)) m.points += 20;
                if (contains(a->name, "train")) m.points += 3;
                if (m.cropped && count_spatial(&m) < want->type.rank) m.points -= 20;
                if (!dl_dtype_is_float(want->type.dtype) && dlr_element_is_float(a->type))
                    m.points -= 40;
                /* an input's samples are the target's, too */
                if (n_taken && m.samples && taken[0].samples && m.samples != taken[0].samples)
                    m.points -= 60;
                for (int k = 0; k < n_taken; k++)
                    if (taken[k].file == f && taken[k].array == i) m.points -= 50, m.again = true;
                if (best.file < 0 || m.points > best.points) best = m;
            }
        }
    return best;
}

/* ---- arrays that are channels ---- */

/* An array that gives channels has `lead` axes of samples, then the sample's. */
typedef struct {
    dl_type sample; /* without times */
    int lead, channels;
    const dl_holdings *h;
    const dlr_array *want;
} channel_shape;

static bool has_sizes(const channel_shape *c, const int64_t *dims) {
    for (int m = 0, j = 0; m < c->sample.rank; m++)
        if (m != c->channels && dims[j++] != c->sample.axis[m].size) return false;
    return true;
}

/* The channels that an array has by its shape: one, those of the axis after the samples', or those
 * of its last axis. 0: another shape. */
static int64_t count_channels(const channel_shape *c, const dlr_array_facts *a, bool *last) {
    const int others = c->sample.rank - 1, more = a->rank - c->lead - others;
    *last = false;
    if (a->type == DLR_EL_NONE || a->refused || a->rank > DL_MAX_RANK) return 0;
    for (int i = 0; i < c->lead && i < a->rank; i++)
        if (a->dims[i] < 2) return 0;
    if (more == 0) return has_sizes(c, a->dims + c->lead);
    if (more != 1) return 0;
    if (has_sizes(c, a->dims + c->lead + 1)) return a->dims[c->lead];
    *last = has_sizes(c, a->dims + c->lead);
    return *last ? a->dims[a->rank - 1] : 0;
}

/* Whether an array has the name of another input or target. */
static bool is_named_otherwise(const channel_shape *c, const dlr_array_facts *a) {
    const dlr_arrays *all = c->h->model;
    for (int i = 0; i < all->n; i++)
        if (&all->at[i] != c->want && strcasecmp(all->at[i].name, c->want->name) != 0 &&
            strcasecmp(all->at[i].name, last_part(a->name)) == 0)
            return true;
    return false;
}

/* "[sim, time, H, W, C]": the order of an array whose channels lie last. */
static const char *order_last(dl_arena *arena, const channel_shape *c) {
    dl_buf text = {0};
    dl_puts(&text, c->lead == 2 ? "[sim, time" : "[N");
    for (int m = 0; m < c->sample.rank; m++)
        if (m != c->channels) dl_putf(&text, ", %s", c->sample.axis[m].name);
    dl_putf(&text, ", %s]", c->sample.axis[c->channels].name);
    const char *kept = dl_strdup(arena, text.at);
    dl_buf_free(&text);
    return kept;
}

/* The parts of a match that is being made. */
typedef struct {
    dl_match match;
    int64_t total, steps;
} channel_parts;

/* Adds the arrays of a file that give channels, but for names that are there: the first ones, as
 * many as the model takes. */
static void add_parts(dl_holdings *h, const channel_shape *c, int f, channel_parts *p) {
    dl_match *m = &p->match;
    for (int i = 0; i < h->files.at[f]->n; i++) {
        const dlr_array_facts *a = &h->files.at[f]->arrays[i];
        bool last, there = false;
        const int64_t more = count_channels(c, a, &last);
        if (more == 0 || is_named_otherwise(c, a)) continue;
        if (m->samples && (m->samples != a->dims[0] || p->steps != a->dims[c->lead - 1])) continue;
        for (int k = 0; k < m->parts.n; k++) there |= strcmp(m->parts.at[k].name, a->name) == 0;
        if (there) continue;
        if (p->total + more > c->sample.axis[c->channels].size) {
            m->left++;
            continue;
        }
        if (!m->samples) m->file = f, m->array = i;
        m->samples = a->dims[0], p->steps = a->dims[c->lead - 1], p->total += more;
        dl_push(h->arena, &m->parts,
                ((dl_match_part){f, i, a->name, last ? order_last(h->arena, c) : NULL}));
    }
}

static bool has_channels(const channel_shape *c, const channel_parts *p) {
    return p->match.parts.n > 1 && p->total == c->sample.axis[c->channels].size &&
           p->steps > p->match.history;
}

/* The arrays of a file, or of all files, that have together the channels of the model, where no
 * array has them all. The loader lays them along C, or the sample's first axis. */
static void find_channels(dl_holdings *h, const dlr_array *want, int lead, dl_match *m) {
    channel_shape c = {.sample = want->type, .lead = lead, .h = h, .want = want};
    const int times = lead == 2 ? dl_type_axis(&want->type, dl_intern("T")) : -1;
    for (int i = times; times >= 0 && i + 1 < c.sample.rank; i++)
        c.sample.axis[i] = c.sample.axis[i + 1];
    c.sample.rank -= times >= 0;
    const int named = dl_type_axis(&c.sample, dl_intern("C"));
    c.channels = named < 0 ? 0 : named;
    const bool fits = m->file >= 0 && !m->other && !(m->cropped && m->samples == 0);
    if (fits || c.sample.rank < 1) return;
    const dl_match none = {.file = -1,
                           .usual = true,
                           .again = m->again,
                           .trajectory = lead == 2,
                           .history = times >= 0 ? want->type.axis[times].size : lead - 1};
    channel_parts all = {.match = none};
    bool found = false;
    for (int f = 0; f < h->files.n; f++) {
        channel_parts of_file = {.match = none};
        add_parts(h, &c, f, &of_file);
        add_parts(h, &c, f, &all);
        if (!has_channels(&c, &of_file)) continue;
        *m = of_file.match, found = true;
    }
    if (!found && has_channels(&c, &all)) *m = all.match;
}

/* ---- simulations in time ---- */

/* Whether an array is [simulations, times, the sample's axes in that order], where an input may
 * have some of the times along T. */
static bool is_trajectory(const dlr_array *want, const dlr_array_facts *a, int order, dl_match *m) {
    dl_type one = want->type;
    const int times = dl_type_axis(&one, dl_intern("T"));
    m->history = times >= 0 ? one.axis[times].size : 1;
    for (int i = times; times >= 0 && i + 1 < one.rank; i++) one.axis[i] = one.axis[i + 1];
    one.rank -= times >= 0;
    dl_match inner = {0};
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
static void find_trajectory(const dl_holdings *h, const dlr_array *want, dl_match *m) {
    const bool fits = m->file >= 0 && !m->other && !m->cropped;
    const int named = m->file < 0
                          ? 0
                          : name_points(want, name_of(h->files.at[m->file],
                                                      &h->files.at[m->file]->arrays[m->array]));
    /* An array without samples, such as coordinates, counts if it has the name. */
    if (fits && (m->samples > 0 || m->parts.n || named >= 25)) return;
    int points = -1000;
    for (int f = 0; f < h->files.n; f++)
        for (int i = 0; i < h->files.at[f]->n; i++)
            for (int order = 0; order < WITHOUT_N + WITHOUT_UNITS + CHANNELS_LAST + 1; order++) {
                const dlr_array_facts *a = &h->files.at[f]->arrays[i];
                dl_match found = {.file = f, .array = i};
                if ((order & WITHOUT_N) || a->type == DLR_EL_NONE || a->refused ||
                    !is_trajectory(want, a, order, &found))
                    continue;
                found.points = name_points(want, name_of(h->files.at[f], a)) - order;
                if (found.points > points) *m = found, points = found.points;
            }
}

/* Whether an earlier match takes the same arrays. */
static bool is_again(const dl_match *taken, int n, const dl_match *m) {
    for (int i = 0; i < n; i++)
        if (taken[i].parts.n == m->parts.n && taken[i].file == m->file &&
            taken[i].array == m->array)
            return true;
    return false;
}

dl_match dl_find_match(dl_holdings *h, int k, const dl_match *taken) {
    const dlr_array *want = &h->model->at[k];
    dl_match m = find_single(h, want, taken, k);
    find_channels(h, want, 1, &m);
    find_trajectory(h, want, &m);
    if (!m.trajectory) find_channels(h, want, 2, &m);
    if (m.parts.n) m.again = is_again(taken, k, &m);
    return m;
}
