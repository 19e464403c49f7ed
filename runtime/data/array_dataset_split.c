/* Selects the samples of a part of the split: runs of indices of axis N, or a range of an axis that
 * is cropped. */
#include <math.h>
#include <stdlib.h>

#include "runtime/data/array_dataset_private.h"
#include "runtime/data/shuffle.h"

static const char *const parts[] = {[DLR_TRAIN] = "train", [DLR_VALID] = "valid"};

/* ---- counting indices ---- */

/* A variable with N that is cut into as many files, of which this one holds for all samples of
 * each, or for all times of each simulation; NULL: there is none. */
static const dataset_variable *find_alike(const array_dataset *w, const dataset_variable *v) {
    if (v->has_samples || (v->files.n == 1 && !v->has_simulations)) return NULL;
    for (int k = 0; k < w->n; k++)
        for (int i = 0; i < w->at[k].variables.n; i++) {
            const dataset_variable *other = &w->at[k].variables.at[i];
            if (other->has_samples && other->files.n == v->files.n) return other;
        }
    return NULL;
}

/* The size of the axis of that meaning in file i; 1 without it. */
static int64_t size_of(const dataset_variable *v, int meaning, int i) {
    for (int j = 0; j < v->rank; j++)
        if (v->axis[j] == meaning) return v->files.at[i].dims[j];
    return 1;
}

static bool count_indices(const array_dataset *w, dataset_variable *v, dl_error *err) {
    const dataset_variable *alike = find_alike(w, v), *counted = alike ? alike : v;
    v->is_static = !v->has_samples && !v->has_simulations && v->files.n == 1;
    v->total = 0;
    for (int i = 0; i < v->files.n; i++) {
        dataset_file *f = &v->files.at[i];
        int64_t times = size_of(counted, DATASET_SAMPLES, i),
                simulations = size_of(counted, DATASET_SIMULATIONS, i),
                own = size_of(v, DATASET_SIMULATIONS, i);
        if (v->has_simulations && own != simulations)
            return dataset_fail(v, f, err, "%lld simulations, and another array has %lld",
                                (long long)own, (long long)simulations);
        f->first = v->total, f->n = times * simulations, f->times = times > 0 ? times : 1;
        v->total += f->n;
    }
    return true;
}

/* Calls the variables of an array "data.inputs.x", or "data.inputs.x: u10". */
static const char *name_variable(array_dataset *w, const dataset_variable *v) {
    const char *key = v->of->from.key;
    return v->of->variables.n > 1 ? dl_format(w->arena, "%s: %.60s", key, v->from.array) : key;
}

/* Checks that all arrays that are not static have the same number of indices of N; *total is 1
 * without N. */
static bool agree(array_dataset *w, int64_t *total, bool *all_static, dl_error *err) {
    const dataset_variable *first = NULL;
    for (int k = 0; k < w->n; k++) {
        dataset_array *a = &w->at[k];
        a->is_static = true;
        for (int i = 0; i < a->variables.n; i++) {
            dataset_variable *v = &a->variables.at[i];
            if (!count_indices(w, v, err)) return false;
            if (v->is_static) continue;
            a->is_static = false;
            if (!first) first = v;
            if (v->total != first->total)
                return dl_fail(
                    err, DL_INPUT,
                    "%s has %lld samples in %d files (%.200s), and %s %lld in %d (%.200s)",
                    name_variable(w, first), (long long)first->total, first->files.n,
                    first->files.at[0].path, name_variable(w, v), (long long)v->total, v->files.n,
                    v->files.at[0].path);
        }
        if (a->is_static && a->from.offset)
            return dataset_fail(a->variables.at, NULL, err,
                                "offset is of axis N, which it has not (axes)");
    }
    *total = first ? first->total : 1;
    *all_static = !first;
    if (*total > 0 && *total <= UINT32_MAX) return true;
    return dl_fail(err, DL_INPUT, "%s has %lld samples%s", name_variable(w, first),
                   (long long)*total, *total ? ": more than can be numbered" : "");
}

/* ---- the part ---- */

/* Computes the part's range of n things: [*low, *high). Training has the first of them, validation
 * the last, and never one in common. */
static bool fraction_of(const dlr_array_dataset_split *s, dlr_split part, const char *what,
                        int64_t n, int64_t *low, int64_t *high, dl_error *err) {
    int64_t taken[2];
    for (int k = 0; k < 2; k++) taken[k] = (int64_t)floor(s->fraction[k] * (double)n + 0.5);
    if (taken[DLR_TRAIN] > n - taken[DLR_VALID]) taken[DLR_TRAIN] = n - taken[DLR_VALID];
    *low = part == DLR_TRAIN ? 0 : n - taken[DLR_VALID];
    *high = part == DLR_TRAIN ? taken[DLR_TRAIN] : n;
    return taken[part] > 0 ||
           dl_fail(err, DL_INPUT,
                   "data.split.%s: %g of the %lld %s is not one of them: take a larger share",
                   parts[part], s->fraction[part], (long long)n, what);
}

/* The part's range of n indices. */
static bool part_of(const dlr_array_dataset_split *s, dlr_split part, const char *what, int64_t n,
                    int64_t *low, int64_t *high, dl_error *err) {
    *low = 0, *high = n;
    if (s->kind == DLR_SPLIT_FILES) return true;
    if (s->kind == DLR_SPLIT_FRACTION) return fraction_of(s, part, what, n, low, high, err);
    *low = s->range[part][0], *high = s->range[part][1];
    return *high <= n ||
           dl_fail(err, DL_INPUT, "data.split.%s: [%lld, %lld] exceeds the %lld %s", parts[part],
                   (long long)*low, (long long)*high, (long long)n, what);
}

/* The same, less the gap that training keeps from validation. */
static bool parted(const dlr_array_dataset_split *s, dlr_split part, const char *what, int64_t n,
                   int64_t *low, int64_t *high, dl_error *err) {
    int64_t begin, end;
    if (!part_of(s, part, what, n, low, high, err)) return false;
    if (part == DLR_VALID || !s->gap) return true;
    if (!part_of(s, DLR_VALID, what, n, &begin, &end, err)) return false;
    if (begin >= *high && *high > begin - s->gap)
        *high = begin - s->gap;
    else if (end <= *low && *low < end + s->gap)
        *low = end + s->gap;
    return *low < *high || dl_fail(err, DL_INPUT, "data.split.gap: %lld leaves training no %s",
                                   (long long)s->gap, what);
}

/* The axis that is split where N is not: the named one, or the first that is cropped. */
static dataset_axis *find_cropped(array_dataset *w, const char *name, dl_error *err) {
    dataset_axis *found = NULL;
    for (int i = 0; i < w->axes.n; i++) {
        dataset_axis *x = &w->axes.at[i];
        if (!found && (name ? !strcmp(x->name, name) : x->crop != DLR_CROP_NONE))
            found = x;
        else if (found && strcmp(x->name, found->name) == 0)
            return dl_fail(err, DL_INPUT,
                           "data.split parts axis %s, which is %lld elements for one array and "
                           "%lld for another",
                           x->name, (long long)found->extent, (long long)x->extent),
                   NULL;
    }
    if (found) return found;
    if (name)
        dl_fail(err, DL_INPUT, "data.split.axis: no array has an axis '%.60s' (N: the samples)",
                name);
    else
        dl_fail(err, DL_INPUT,
                "data.split: without an axis N in one file there is one sample, and nothing is "
                "cropped: "
                "split by files, or "
                "say which axis is N (axes)");
    return NULL;
}

static bool split_axis(array_dataset *w, const dlr_array_dataset_split *s, dlr_split part,
                       dl_error *err) {
    dataset_axis *x = find_cropped(w, s->axis, err);
    if (!x || !parted(s, part, dl_format(w->arena, "elements of axis %s", x->name), x->extent,
                      &x->low, &x->high, err))
        return false;
    if (x->shifts)
        return dl_fail(
            err, DL_INPUT,
            "data.split parts axis %s, along which data.augment.shift moves round: choose another "
            "(data.split.axis)",
            x->name);
    if (x->crop == DLR_CROP_NONE)
        return dl_fail(err, DL_INPUT, "data.split parts axis %s, which a sample takes whole: crop",
                       x->name);
    int64_t covered = (x->size - 1) * x->step + 1;
    return x->high - x->low >= covered ||
           dl_fail(err, DL_INPUT,
                   "data.split.%s: %lld elements of axis %s are less than the %lld of a sample",
                   parts[part], (long long)(x->high - x->low), x->name, (long long)covered);
}

/* ---- runs ---- */

static int by_size(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Makes runs of samples whose indices, with every offset, lie in [low, high), in one file of each
 * array with N and in one group: a pair in time does not reach into another file or group, nor into
 * the other part. */
static bool make_runs(array_dataset *w, int64_t low, int64_t high, dlr_split part, dl_error *err) {
    int64_t before = 0, after = 0;
    DL_ARRAY(int64_t) cuts = {0};
    for (int k = 0; k < w->n; k++) {
        for (int i = 0; i < w->at[k].variables.n && !w->at[k].is_static; i++) {
            int64_t offset = w->at[k].from.offset + w->at[k].variables.at[i].delay;
            if (offset < -before) before = -offset;
            if (offset > after) after = offset;
        }
    }
    dl_push(w->arena, &cuts, low);
    for (int k = 0; k < w->n && before + after > 0; k++)
        for (int j = 0; j < w->at[k].variables.n; j++) {
            const dataset_variable *v = &w->at[k].variables.at[j];
            for (int i = 1; v->has_samples && i < v->files.n; i++) {
                int64_t first = v->files.at[i].first;
                if (first > low && first < high) dl_push(w->arena, &cuts, first);
            }
        }
    for (int64_t i = low + 1;
         w->group && (before + after > 0 || w->o->trajectory.given) && i < high; i++)
        if (w->group[i] != w->group[i - 1]) dl_push(w->arena, &cuts, i);
    dl_push(w->arena, &cuts, high);
    qsort(cuts.at, (size_t)cuts.n, sizeof *cuts.at, by_size);
    for (int i = 0; i + 1 < cuts.n; i++) {
        dataset_run run = {w->available, cuts.at[i] + before,
                           cuts.at[i + 1] - cuts.at[i] - before - after};
        if (run.n <= 0) continue;
        dl_push(w->arena, &w->runs, run);
        w->available += run.n;
    }
    return w->available > 0 ||
           dl_fail(err, DL_INPUT,
                   "data.split.%s: no %lld samples in a row, which the offsets need, in its %lld",
                   parts[part], (long long)(before + after + 1), (long long)(high - low));
}

/* Keeps the part's samples of all runs: the units that are drawn, or that are first or last, are
 * groups, or single samples. */
static bool draw_part(array_dataset *w, const dlr_array_dataset_split *s, uint64_t seed,
                      dlr_split part, dl_error *err) {
    const dlr_rng_place place = {s->has_seed ? s->seed : seed, DLR_STREAM_SPLIT, 0, 0};
    const int64_t n = w->group ? w->n_groups : w->available;
    int64_t low, high, all = w->available;
    const char *what = w->o->trajectory.given ? "simulations" : w->group ? "groups" : "samples";
    if (!part_of(s, part, what, n, &low, &high, err)) return false;
    bool *taken = calloc((size_t)n, sizeof *taken);
    if (!taken) return dl_fail(err, DL_RESOURCE, "no memory for a split of %lld", (long long)n);
    for (int64_t i = low; i < high; i++) taken[s->shuffle ? dlr_shuffle(place, n, i) : i] = true;
    const dataset_run *runs = w->runs.at;
    const int n_runs = w->runs.n;
    memset(&w->runs, 0, sizeof w->runs), w->available = 0;
    for (int r = 0; r < n_runs; r++)
        for (int64_t i = 0, n_here = 0; i < runs[r].n; i++) {
            int64_t index = runs[r].begin + i;
            bool here = taken[w->group ? w->group[index] : runs[r].first + i];
            if (here && n_here++ == 0)
                dl_push(w->arena, &w->runs, ((dataset_run){w->available, index, 0}));
            if (!here) n_here = 0;
            if (here) w->runs.at[w->runs.n - 1].n++, w->available++;
        }
    free(taken);
    return w->available > 0 || dl_fail(err, DL_INPUT, "data.split.%s: none of the %lld samples",
                                       parts[part], (long long)all);
}

bool dataset_count_samples(array_dataset *w, const dlr_dataset *d, dlr_split part, dl_error *err) {
    const dlr_array_dataset_split *s = &w->o->split;
    int64_t total = 0, low = 0, high;
    bool all_static, by_axis = s->axis && strcmp(s->axis, "N") != 0;
    if (!agree(w, &total, &all_static, err)) return false;
    high = total;
    const bool trajectories = w->o->trajectory.given;
    const bool grouped = s->group.files.n > 0,
               drawn = s->shuffle || grouped || (trajectories && s->kind != DLR_SPLIT_FILES);
    if (drawn && (by_axis || all_static))
        return dl_fail(err, DL_INPUT, "data.split.%s is of samples along an axis N%s",
                       s->shuffle ? "shuffle"
                       : grouped  ? "group"
                                  : "valid",
                       by_axis ? ", and data.split.axis names another" : ", which no array has");
    if (trajectories && !dataset_number_simulations(w, total, err)) return false;
    if (grouped && !dataset_read_groups(w, total, err)) return false;
    if (s->kind != DLR_SPLIT_FILES && (by_axis || all_static)) {
        if (!split_axis(w, s, part, err)) return false;
    } else if (!drawn && !parted(s, part, "samples of axis N", total, &low, &high, err))
        return false;
    return make_runs(w, low, high, part, err) && (!drawn || draw_part(w, s, d->seed, part, err));
}

int64_t dataset_index(const array_dataset *w, int64_t sample) {
    int low = 0, high = w->runs.n - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (w->runs.at[middle].first <= sample)
            low = middle;
        else
            high = middle - 1;
    }
    const dataset_run *r = &w->runs.at[low];
    return r->begin + sample - r->first;
}
