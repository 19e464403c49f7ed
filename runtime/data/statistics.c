#include "runtime/data/statistics.h"

#include "ir/base/file_calls.h"
#include "ir/base/input.h"
#include "ir/base/npy.h"
#include "ir/base/str.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static bool check_array(const char *path, const char *what, const dl_npy *a, int64_t channels,
                        dl_error *err) {
    bool one_axis = a->count == (uint64_t)channels;
    for (int i = 0; one_axis && i < a->rank; i++)
        one_axis = a->dims[i] == 1 || a->dims[i] == a->count;
    if (a->element < 0)
        return dl_fail(err, DL_INPUT, "%s: %s holds '%s', not numbers that can be read (f32)", what,
                       path, a->code);
    if (one_axis) return true;
    dl_buf shape = {0};
    for (int i = 0; i < a->rank; i++)
        dl_putf(&shape, "%s%llu", i ? ", " : "", (unsigned long long)a->dims[i]);
    dl_fail(err, DL_INPUT,
            "%s: %s is [%s]; the model's fields have %lld channels, and so wants [1, %lld, 1, 1]",
            what, path, shape.at ? shape.at : "", (long long)channels, (long long)channels);
    dl_buf_free(&shape);
    return false;
}

static bool read_numbers(int fd, const char *path, const char *what, int64_t channels,
                         bool positive, float *out, dl_error *err) {
    struct stat st;
    dl_npy a;
    if (dl_fstat(fd, &st) != 0) return dl_fail_errno(err, DL_IO, "cannot read %s", path);
    if (!dl_npy_header(fd, path, (uint64_t)st.st_size, &a, err) ||
        !check_array(path, what, &a, channels, err))
        return false;
    double *wide = malloc((size_t)channels * sizeof *wide + 1);
    if (!wide) return dl_fail(err, DL_RESOURCE, "no memory to read %s", path);
    bool ok = dl_npy_read(fd, path, a.element, a.offset, 0, (size_t)channels, wide, err);
    for (int64_t c = 0; ok && c < channels; c++) {
        out[c] = (float)wide[c];
        if (!isfinite(out[c]) || (positive && out[c] <= 0))
            ok = dl_fail(err, DL_INPUT, "%s: channel %lld of %s is %g, not a %s", what,
                         (long long)c, path, wide[c], positive ? "standard deviation" : "mean");
    }
    free(wide);
    return ok;
}

bool dlr_statistics_read(const char *path, const char *what, int64_t channels, bool positive,
                         float *out, dl_error *err) {
    if (!path || !path[0])
        return dl_fail(err, DL_USAGE,
                       "%s is not set: a .npy file of [1, C, 1, 1], one number a channel", what);
    dl_error reason = {0};
    int fd = dl_input_open(path, &reason);
    if (fd < 0) return dl_fail(err, reason.code, "%s: %s", what, reason.message);
    bool ok = read_numbers(fd, path, what, channels, positive, out, err);
    close(fd);
    return ok;
}

int64_t dlr_not_finite_at(const float *x, size_t n) {
    /* without a branch in the loop */
    int bad = 0;
    for (size_t i = 0; i < n; i++) bad |= !(fabsf(x[i]) < INFINITY);
    for (size_t i = 0; bad && i < n; i++)
        if (!isfinite(x[i])) return (int64_t)i;
    return -1;
}

int64_t dlr_normalise(float *x, size_t n, float mean, float deviation) {
    int64_t bad = dlr_not_finite_at(x, n);
    if (bad >= 0) return bad;
    for (size_t i = 0; i < n; i++) x[i] = (x[i] - mean) / deviation;
    return -1;
}
