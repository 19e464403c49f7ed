/* Mean and deviation of an array: given, or computed once over the training part and stored next to
 * the data. */
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ir/base/file_calls.h"
#include "ir/base/hash.h"
#include "ir/base/input.h"
#include "ir/base/output.h"
#include "runtime/data/array_dataset_private.h"
#include "runtime/data/array_dataset_statistics.h"
#include "runtime/data/statistics.h"

/* ---- the statistics file ---- */

static const char heading[] =
    "dlc statistics 2: mean, std, min and max of each channel over the training part";

void dlr_array_dataset_statistics_put(dl_buf *out, uint64_t identity,
                                      const dlr_array_dataset_channel *at, int n) {
    dl_putf(out, "%s\nidentity %016" PRIx64 "\nchannels %d\n", heading, identity, n);
    for (int c = 0; c < n; c++)
        dl_putf(out, "%.17g %.17g %.17g %.17g\n", at[c].mean, at[c].std, at[c].least, at[c].most);
}

bool dlr_array_dataset_statistics_parse(const char *text, uint64_t identity,
                                        dlr_array_dataset_channel *at, int n) {
    size_t length = strlen(heading);
    if (strncmp(text, heading, length) != 0 || text[length] != '\n') return false;
    uint64_t stated;
    int channels, used = 0;
    if (sscanf(text + length, "\nidentity %16" SCNx64 "\nchannels %9d%n", &stated, &channels,
               &used) != 2)
        return false;
    if (stated != identity || channels != n) return false;
    text += length + (size_t)used;
    for (int c = 0; c < n; c++) {
        double *const to[] = {&at[c].mean, &at[c].std, &at[c].least, &at[c].most};
        for (int i = 0; i < 4; i++) {
            char *end;
            *to[i] = strtod(text, &end);
            if (end == text || !isfinite(*to[i])) return false;
            text = end;
        }
    }
    return true;
}

/* Hashes size and time of a file; of a folder (Zarr) those of all files in it, in any order. */
static uint64_t identify_path(const char *path, int depth) {
    struct stat st;
    if (depth > 16 || dl_stat(path, &st) != 0) return 0;
    if (!S_ISDIR(st.st_mode)) {
        int64_t facts[] = {st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec};
        return dl_hash(facts, sizeof facts, 3);
    }
    uint64_t sum = 0;
    DIR *folder = dl_opendir(path);
    for (const struct dirent *e; folder && (e = dl_readdir(folder));) {
        if (e->d_name[0] == '.' && (!e->d_name[1] || (e->d_name[1] == '.' && !e->d_name[2])))
            continue;
        dl_buf below = {0};
        dl_putf(&below, "%s/%s", path, e->d_name);
        sum += dl_hash_str(e->d_name, identify_path(below.at, depth + 1));
        dl_buf_free(&below);
    }
    if (folder) closedir(folder);
    return sum;
}

/* A hash of the inputs of the statistics: files with size and time of change, the array, and its
 * part. */
static uint64_t identify(const array_dataset *part, const dataset_variable *v) {
    uint64_t h = dl_hash_str(v->from.array ? v->from.array : "", 1);
    for (int i = 0; i < v->files.n; i++) {
        const dataset_file *f = &v->files.at[i];
        uint64_t facts = identify_path(f->path, 0);
        const char *slash = strrchr(f->path, '/');
        h = dl_hash_str(slash ? slash + 1 : f->path, h);
        if (f->array && f->array != v->from.array) h = dl_hash_str(f->array, h); /* of a pattern */
        h = dl_hash(&facts, sizeof facts, h);
        h = dl_hash(f->dims, sizeof f->dims, h);
    }
    for (int j = 0; j < v->rank; j++) {
        int m = v->axis[j];
        int64_t role[] = {m < 0 ? m : j == v->channel ? -3 : 0, 0, 0};
        if (m >= 0 && j != v->channel) {
            const dataset_axis *x = &part->axes.at[v->of->shared[m]];
            role[1] = x->low, role[2] = x->high;
        }
        h = dl_hash(role, sizeof role, h);
    }
    int64_t more[] = {v->of->from.replaces_nan, v->is_static};
    h = dl_hash(more, sizeof more, h);
    for (int i = 0; i < part->runs.n && !v->is_static; i++) {
        int64_t run[] = {part->runs.at[i].begin, part->runs.at[i].n};
        h = dl_hash(run, sizeof run, h);
    }
    return h;
}

/* The path of the statistics file: "data/train.h5.density.statistics". */
static const char *path_of(dl_arena *arena, const dataset_variable *v) {
    const char *path = v->files.at[0].path, *array = v->from.array ? v->from.array : "";
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    char *name = dl_format(arena, "%.*s%s%s.statistics", (int)n, path, *array ? "." : "", array);
    for (char *s = name + n; *s; s++) *s = *s == '/' ? '.' : strchr("*?[]", *s) ? '_' : *s;
    return name;
}

/* ---- computing ---- */

/* Moments of one channel, relative to its first value: a mean far from 0 costs no digits of the
 * deviation. */
typedef struct {
    double first, sum, square, least, most;
    int64_t n;
} moments;

static void add(moments *m, double v) {
    if (!m->n) m->first = m->least = m->most = v;
    double x = v - m->first;
    m->sum += x, m->square += x * x, m->n++;
    if (v < m->least) m->least = v;
    if (v > m->most) m->most = v;
}

typedef struct {
    const dataset_variable *v;
    moments *at; /* one per channel that is stored */
    int n;
    double *values;
} sweep;

static bool add_block(const sweep *s, const dataset_file *f, const dlr_block *b, dl_error *err) {
    const dataset_variable *v = s->v;
    const dlr_array_dataset_source *from = &v->of->from;
    dl_error reason = {0};
    if (!dlr_packing_read(f->packing, f->source, b, DLR_EL_F64, s->values, &reason))
        return dl_fail(err, reason.code, "%s: %s", from->key, reason.message);
    if (dlr_source_is_on_paper(f->source)) return true;
    int64_t n = 1, inner = 1;
    for (int j = 0; j < v->rank; j++) n *= b->count[j];
    for (int j = v->channel + 1; v->channel >= 0 && j < v->rank; j++) inner *= b->count[j];
    for (int64_t i = 0; i < n; i++) {
        int64_t c = v->channel < 0 ? 0 : b->start[v->channel] + i / inner % b->count[v->channel];
        double value = s->values[i];
        if (isfinite((float)value)) /* as a sample would have it */
            add(&s->at[c], value);
        else if (!from->replaces_nan)
            return dataset_refuse_value(v, f, b, i, (double)(float)value, err);
    }
    return true;
}

enum { MOST_VALUES = 1 << 20 };

/* Adds all numbers of a block, in parts of at most MOST_VALUES numbers: ranges of one axis, single
 * indices of the axes before it. */
static bool add_blocks(const sweep *s, const dataset_file *f, const dlr_block *all, dl_error *err) {
    int rank = s->v->rank, cut = rank - 1;
    int64_t inner = 1, rows = 1;
    while (cut > 0 && inner * all->count[cut] <= MOST_VALUES) inner *= all->count[cut--];
    if (rank == 0) return add_block(s, f, all, err);
    int64_t range = MOST_VALUES / inner < 1 ? 1 : MOST_VALUES / inner;
    int64_t ranges = (all->count[cut] + range - 1) / range;
    for (int j = 0; j < cut; j++) rows *= all->count[j];
    for (int64_t i = 0; i < rows * ranges; i++) {
        dlr_block b = *all;
        int64_t rest = i / ranges;
        for (int j = cut - 1; j >= 0; j--) {
            b.start[j] += rest % all->count[j], b.count[j] = 1;
            rest /= all->count[j];
        }
        b.start[cut] += i % ranges * range;
        int64_t left = all->start[cut] + all->count[cut] - b.start[cut];
        b.count[cut] = left < range ? left : range;
        if (!add_block(s, f, &b, err)) return false;
    }
    return true;
}

/* Adds indices [low, high) of N of the array. */
static bool add_indices(const array_dataset *part, const sweep *s, int64_t low, int64_t high,
                        dl_error *err) {
    const dataset_variable *v = s->v;
    for (const dataset_file *f = dataset_find_file(v, low);
         f < v->files.at + v->files.n && f->first < high; f++) {
        int64_t from = low > f->first ? low : f->first,
                to = high < f->first + f->n ? high : f->first + f->n;
        dlr_block b = {0};
        for (int j = 0; j < v->rank; j++) {
            int m = v->axis[j];
            b.count[j] = f->dims[j];
            const int64_t at = from - f->first;
            if (m == DATASET_SAMPLES) b.start[j] = at % f->times, b.count[j] = to - from;
            if (m == DATASET_SIMULATIONS) b.start[j] = at / f->times, b.count[j] = 1;
            if (m < 0 || j == v->channel) continue;
            const dataset_axis *x = &part->axes.at[v->of->shared[m]];
            b.start[j] = x->low, b.count[j] = x->high - x->low;
        }
        if (!add_blocks(s, f, &b, err)) return false;
    }
    return true;
}

/* Computes over the part's indices without the offset, so that an array has the same statistics as
 * input and as target. */
static bool compute(const array_dataset *part, const dataset_variable *v,
                    dlr_array_dataset_channel *out, int n, dl_error *err) {
    sweep s = {v, calloc((size_t)n, sizeof *s.at), n, malloc(MOST_VALUES * sizeof *s.values)};
    bool ok = (s.at && s.values) ||
              dl_fail(err, DL_RESOURCE, "%s: no memory for statistics", v->of->from.key);
    if (ok && v->is_static)
        ok = add_indices(part, &s, 0, 1, err);
    else
        for (int i = 0; ok && i < part->runs.n; i++) {
            const dataset_run *r = &part->runs.at[i];
            ok = add_indices(part, &s, r->begin, r->begin + r->n, err);
        }
    for (int c = 0; ok && c < n; c++) {
        const moments *m = &s.at[c];
        double count = (double)m->n, mean = m->n ? m->sum / count : 0;
        double variance = m->n ? m->square / count - mean * mean : 0;
        out[c] = (dlr_array_dataset_channel){mean + m->first, sqrt(variance > 0 ? variance : 0),
                                             m->least, m->most};
        if (!m->n) out[c].least = 0, out[c].most = -1; /* no value at all */
    }
    free(s.at), free(s.values);
    return ok;
}

/* ---- interface ---- */

enum { MOST_CHANNELS = 1 << 16 };

/* Counts the reads of a run without stored statistics: training reads its whole part; validation
 * reads the small file that training has written, whose size is unknown. */
static bool count_computing(const dlr_dataset *d, const array_dataset *part,
                            const dataset_variable *v, dlr_array_dataset_channel *all, int n,
                            dl_error *err) {
    if (d->split == DLR_VALID) {
        dl_file_calls_add(&(dl_file_calls){.opens = 1, .stats = 1, .reads = 2});
        return true;
    }
    for (int i = 0; i < v->files.n; i++) dlr_source_put_on_paper(v->files.at[i].source, true);
    bool ok = compute(part, v, all, n, err);
    for (int i = 0; i < v->files.n; i++) dlr_source_put_on_paper(v->files.at[i].source, false);
    return ok;
}

/* Sets the scale of a variable's channels; `there` is the same variable in the training part. */
static bool measured(const dlr_dataset *d, array_dataset *w, dataset_array *a,
                     const dataset_variable *v, const array_dataset *part,
                     const dataset_variable *there, dl_error *err) {
    int64_t stored = there->channel < 0 ? 1 : there->files.at[0].dims[there->channel];
    if (stored > MOST_CHANNELS)
        return dataset_fail(v, NULL, err, "statistics of %lld channels: at most %d",
                            (long long)stored, MOST_CHANNELS);
    int n = (int)stored;
    dlr_array_dataset_channel *all = DL_NEWS(w->arena, dlr_array_dataset_channel, n);
    uint64_t identity = identify(part, there);
    const char *path = path_of(w->arena, there);
    dl_error ignored = {0};
    size_t size;
    char *text = dl_access(path, R_OK) == 0
                     ? dl_read_file(w->arena, path, DLR_OWN_STATISTICS_BYTES, &size, &ignored)
                     : NULL;
    bool known = text && dlr_array_dataset_statistics_parse(text, identity, all, n);
    if (d->on_paper) return known || count_computing(d, part, there, all, n, err);
    if (!known) {
        if (!compute(part, there, all, n, err)) return false;
        dl_buf out = {0};
        dlr_array_dataset_statistics_put(&out, identity, all, n);
        /* in a read-only folder the file is not written, and the statistics are computed each time
         */
        dl_write_file(path, out.at, out.n, &ignored);
        dl_buf_free(&out);
    }
    float *mean = a->mean + v->first, *deviation = a->deviation + v->first;
    for (int i = 0; i < v->n; i++) {
        const dlr_array_dataset_channel *c = &all[v->from.channels ? v->from.channels[i] : i];
        bool range = a->from.scale == DLR_SCALE_MINMAX;
        if (c->least > c->most)
            return dataset_fail(
                v, NULL, err,
                "channel %d has no value in the training part, all are missing or not "
                "finite: leave "
                "the channel out",
                i);
        mean[i] = (float)(range ? c->least : c->mean);
        deviation[i] = (float)(range ? c->most - c->least : c->std);
        if (!(deviation[i] > 0) || !isfinite(deviation[i]))
            return dataset_fail(
                v, NULL, err,
                "channel %d is %.9g to %.9g over the training part, %s (give mean and std, or "
                "leave the channel "
                "out)",
                i, c->least, c->most,
                deviation[i] > 0      ? "a range that f32 does not hold"
                : c->least == c->most ? "the same everywhere: nothing to divide by"
                                      : "a deviation that is 0 as f32: nothing to divide by");
    }
    return true;
}

static bool given(dataset_array *a, const dlr_array_dataset_numbers *from, const char *name,
                  bool positive, int channels, float *out, dl_error *err) {
    char key[200];
    snprintf(key, sizeof key, "%.180s.%s", a->from.key, name);
    if (from->path) return dlr_statistics_read(from->path, key, channels, positive, out, err);
    if (from->n != 1 && from->n != channels)
        return dataset_fail(a->variables.at, NULL, err,
                            "%s has %d numbers; one, or one for each of the model's %d channels",
                            name, from->n, channels);
    for (int c = 0; c < channels; c++) {
        double v = from->at[from->n == 1 ? 0 : c];
        out[c] = (float)v;
        if (!isfinite(out[c]) || (positive && !(out[c] > 0)))
            return dataset_fail(a->variables.at, NULL, err, "%s is %g, as f32 no %s", name, v,
                                positive ? "number to divide by" : "finite number");
    }
    return true;
}

bool dataset_open_scale(array_dataset *w, int k, const dlr_dataset *d,
                        const dlr_array_dataset_options *o, dl_error *err) {
    dataset_array *a = &w->at[k];
    if (a->from.scale == DLR_SCALE_NONE) return true;
    int channels = a->channels < 0 ? 1 : (int)a->to.type.axis[a->channels].size;
    a->mean = DL_NEWS(w->arena, float, channels), a->deviation = DL_NEWS(w->arena, float, channels);
    a->n_scales = channels;
    if (a->from.scale == DLR_SCALE_GIVEN)
        return given(a, &a->from.mean, "mean", false, channels, a->mean, err) &&
               given(a, &a->from.std, "std", true, channels, a->deviation, err);
    if (d->probe && !d->on_paper) return true;
    array_dataset *train = w;
    if (d->split != DLR_TRAIN) {
        train = calloc(1, sizeof *train);
        if (!train) return dl_fail(err, DL_RESOURCE, "no memory for a data set");
    }
    bool ok = train == w || dataset_open_part(train, d, o, DLR_TRAIN, err);
    for (int i = 0; ok && i < a->variables.n; i++) {
        const dataset_variable *v = &a->variables.at[i];
        if (v->like < 0)
            ok = measured(d, w, a, v, train, &train->at[k].variables.at[i], err);
        else if (v->first != a->variables.at[v->like].first) {
            const size_t from = (size_t)a->variables.at[v->like].first,
                         bytes = (size_t)v->n * sizeof *a->mean;
            memcpy(a->mean + v->first, a->mean + from, bytes);
            memcpy(a->deviation + v->first, a->deviation + from, bytes);
        }
    }
    if (train == w) return ok;
    dataset_close(train);
    free(train);
    return ok;
}
