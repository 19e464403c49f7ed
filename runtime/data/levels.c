#include "runtime/data/levels.h"

#include <math.h>
#include <stdlib.h>

#include "runtime/data/packing.h"

enum { MOST_LEVELS = 1 << 20 };

/* Reads the coordinate of an axis of `size` elements into *at, which the caller frees; NULL where
 * there is none. */
static bool read_coordinate(const dlr_array_file *file, const char *name, int64_t size, double **at,
                            dl_error *err) {
    const dlr_array_facts *facts = dlr_array_file_find(file, name);
    dl_error reason = {0};
    dlr_packing packing;
    *at = NULL;
    if (!facts || facts->rank != 1 || facts->dims[0] != size || size > MOST_LEVELS) return true;
    *at = malloc((size_t)size * sizeof **at + 1);
    if (!*at) return dl_fail(err, DL_RESOURCE, "no memory for the coordinate %s", name);
    dlr_source *s = dlr_packing_of(facts, &packing, NULL, &reason)
                        ? dlr_source_open(file, facts, 1 << 20, &reason)
                        : NULL;
    bool ok =
        s && dlr_packing_read(&packing, s, &(dlr_block){.count = {size}}, DLR_EL_F64, *at, &reason);
    dlr_source_close(s);
    return ok || dl_fail(err, reason.code, "the coordinate of axis %s: %s", name, reason.message);
}

/* Whether a coordinate is the wanted level: to the digits of f32, in which they are often
 * stored. */
static bool is_level(double at, double level) { return fabs(at - level) <= 1e-6 * fabs(level); }

static int64_t find_level(const double *at, int64_t n, double level) {
    if (!at) return level == floor(level) && level >= 0 && level < (double)n ? (int64_t)level : -1;
    for (int64_t i = 0; i < n; i++)
        if (is_level(at[i], level)) return i;
    return -1;
}

static bool refuse_level(const char *name, const double *at, int64_t n, double level,
                         dl_error *err) {
    dl_buf all = {0};
    for (int64_t i = 0; at && i < n && i < 16; i++) dl_putf(&all, "%s%g", i ? ", " : "", at[i]);
    if (at)
        dl_fail(err, DL_INPUT, "its axis %s has no level %g; it has: %s%s", name, level,
                all.n ? all.at : "", n > 16 ? ", ..." : "");
    else
        dl_fail(err, DL_INPUT,
                "the file has no coordinate '%s', so that levels are indices: %g is none of 0 to "
                "%lld",
                name, level, (long long)n - 1);
    dl_buf_free(&all);
    return false;
}

static bool refuse_axis(const dlr_array_facts *a, const char *name, dl_error *err) {
    dl_buf all = {0};
    for (int j = 0; j < a->rank && j < DLR_ARRAY_RANK; j++)
        dl_putf(&all, "%s%s", j ? ", " : "", a->axis[j] ? a->axis[j] : "(no name)");
    dl_fail(err, DL_INPUT,
            "it has no axis named '%.60s': its axes are [%s] (without names: axes: [...] and "
            "channels: [...])",
            name, all.n ? all.at : "");
    dl_buf_free(&all);
    return false;
}

bool dlr_levels_find(const dlr_array_file *file, const dlr_array_facts *a, const char *name,
                     const double *levels, int n, int *axis, int64_t *indices, dl_error *err) {
    double *at;
    *axis = -1;
    for (int j = 0; j < a->rank && j < DLR_ARRAY_RANK; j++)
        if (a->axis[j] && strcmp(a->axis[j], name) == 0) *axis = j;
    if (*axis < 0) return refuse_axis(a, name, err);
    bool ok = read_coordinate(file, name, a->dims[*axis], &at, err);
    for (int i = 0; ok && i < n; i++) {
        indices[i] = find_level(at, a->dims[*axis], levels[i]);
        ok = indices[i] >= 0 || refuse_level(name, at, a->dims[*axis], levels[i], err);
    }
    free(at);
    return ok;
}
