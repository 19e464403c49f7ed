/* Groups of samples that a split keeps together: an array with one number for each sample. */
#include <math.h>
#include <stdlib.h>

#include "runtime/data/array_dataset_private.h"

static const char key[] = "data.split.group";

/* Reads all numbers of the array in one file, at *at of `total`, and moves *at on. */
static bool read_file(array_dataset *w, const char *path, int64_t total, double *out, int64_t *at,
                      dl_error *err) {
    const char *name = w->o->split.group.array;
    dl_error reason = {0};
    dlr_packing packing;
    dlr_array_file *file = dlr_array_file_open(path, &reason);
    if (!file) return dl_fail(err, reason.code, "%s: %s", key, reason.message);
    const dlr_array_facts *a = dlr_array_file_find(file, name);
    dlr_source *s = NULL;
    int64_t n = 1;
    dlr_block b = {0};
    for (int j = 0; a && j < a->rank && j < DLR_ARRAY_RANK; j++)
        n *= b.count[j] = a->dims[j]; /* of a damaged file `s` is not opened */
    if (!a)
        dl_fail(&reason, DL_INPUT, "%.300s has no array '%.100s'", path, name ? name : "");
    else if (dlr_packing_of(a, &packing, NULL, &reason))
        s = dlr_source_open(file, a, 1 << 20, &reason);
    dlr_array_file_close(file);
    bool ok = s != NULL;
    if (ok && n > total - *at)
        ok = dl_fail(&reason, DL_INPUT, "%.300s: more numbers than the %lld samples", path,
                     (long long)total);
    ok = ok && dlr_packing_read(&packing, s, &b, DLR_EL_F64, out + *at, &reason);
    for (int64_t i = *at; ok && i < *at + n; i++)
        if (!isfinite(out[i]))
            ok = dl_fail(&reason, DL_INPUT, "%.300s: number %lld is %g: it names no group", path,
                         (long long)(i - *at), out[i]);
    dlr_source_close(s);
    *at += n;
    return ok || dl_fail(err, reason.code, "%s: %s", key, reason.message);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int64_t find_value(const double *at, int64_t n, double value) {
    int64_t low = 0, high = n - 1;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (at[middle] < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Numbers the values by their rank among those that differ. */
static bool number_groups(array_dataset *w, const double *values, int64_t total, dl_error *err) {
    double *sorted = malloc((size_t)total * sizeof *sorted);
    if (!sorted) return dl_fail(err, DL_RESOURCE, "%s: no memory", key);
    memcpy(sorted, values, (size_t)total * sizeof *sorted);
    qsort(sorted, (size_t)total, sizeof *sorted, by_value);
    for (int64_t i = 0; i < total; i++)
        if (i == 0 || sorted[i] != sorted[i - 1]) sorted[w->n_groups++] = sorted[i];
    w->group = DL_NEWS(w->arena, int32_t, total);
    for (int64_t i = 0; i < total; i++)
        w->group[i] = (int32_t)find_value(sorted, w->n_groups, values[i]);
    free(sorted);
    return true;
}

bool dataset_read_groups(array_dataset *w, int64_t total, dl_error *err) {
    dataset_paths paths = {0};
    if (total > INT32_MAX)
        return dl_fail(err, DL_INPUT, "%s: groups of %lld samples: at most %d", key,
                       (long long)total, INT32_MAX);
    if (!dataset_find_paths(w, key, &w->o->split.group.files, &paths, err)) return false;
    double *values = malloc((size_t)total * sizeof *values);
    bool ok = values || dl_fail(err, DL_RESOURCE, "%s: no memory", key);
    int64_t n = 0;
    for (int i = 0; ok && i < paths.n; i++) ok = read_file(w, paths.at[i], total, values, &n, err);
    if (ok && n != total)
        ok = dl_fail(err, DL_INPUT, "%s has %lld numbers in %d files (%.200s), for %lld samples",
                     key, (long long)n, paths.n, paths.at[0], (long long)total);
    ok = ok && number_groups(w, values, total, err);
    free(values);
    return ok;
}
