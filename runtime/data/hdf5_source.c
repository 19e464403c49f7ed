#include "runtime/data/hdf5_source.h"

#include "ir/base/input.h"

#include <errno.h>
#include <hdf5.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

/* ---- our own reads ---- */

/* Fills the pieces one after another from the file, at `at`. The pieces are used up. */
static bool read_pieces(const dlr_source *s, struct iovec *piece, int n, int64_t at, dl_error *err) {
    while (n > 0) {
        ssize_t got = preadv(s->fd, piece, n, at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return dl_fail_errno(err, DL_IO, "cannot read %s", s->label);
        if (got == 0)
            return dl_fail(err, DL_IO, "%s ends too early: was the file cut while it was open?", s->label);
        at += got;
        for (size_t left = (size_t)got; left > 0;) {
            size_t part = left < piece->iov_len ? left : piece->iov_len;
            piece->iov_base = (char *)piece->iov_base + part, piece->iov_len -= part, left -= part;
            if (piece->iov_len == 0) piece++, n--;
        }
    }
    return true;
}

bool dlr_source_run(const dlr_source *s, int64_t first, size_t n, float *out, dl_error *err) {
    struct iovec piece = {out, n * sizeof *out};
    return n == 0 || read_pieces(s, &piece, 1, s->offset + first * (int64_t)sizeof *out, err);
}

/* Rows of `columns` numbers, `stride` apart in the file, packed; what lies between near ones goes nowhere. */
static bool read_rows(const dlr_source *s, int64_t first, int64_t rows, int64_t columns, float *out,
                      dl_error *err) {
    enum { MOST = 256 };
    const int64_t stride = s->dims[3], gap = (stride - columns) * (int64_t)sizeof *out;
    char nowhere[DLR_GAP_BYTES];
    struct iovec piece[2 * MOST];
    if (gap == 0) return dlr_source_run(s, first, (size_t)(rows * columns), out, err);
    int64_t together = gap <= DLR_GAP_BYTES ? MOST : 1;
    for (int64_t row = 0; row < rows; row += together) {
        int n = 0;
        for (int64_t i = row; i < rows && i < row + together; i++) {
            if (i > row) piece[n++] = (struct iovec){nowhere, (size_t)gap};
            piece[n++] = (struct iovec){out + i * columns, (size_t)columns * sizeof *out};
        }
        if (!read_pieces(s, piece, n, s->offset + (first + row * stride) * (int64_t)sizeof *out, err))
            return false;
    }
    return true;
}

static bool read_block(const dlr_source *s, const dlr_block *b, float *out, dl_error *err) {
    const int64_t *d = s->dims, plane = b->count[2] * b->count[3];
    if (plane == 0) return true;
    for (int64_t i = 0; i < b->count[0]; i++)
        for (int64_t j = 0; j < b->count[1]; j++, out += plane) {
            int64_t at = (b->start[0] + i) * d[1] + b->start[1] + j;
            if (!read_rows(s, (at * d[2] + b->start[2]) * d[3] + b->start[3], b->count[2], b->count[3], out,
                           err))
                return false;
        }
    return true;
}

bool dlr_source_block(const dlr_source *s, const dlr_block *b, float *out, dl_error *err) {
    for (int i = 0; i < 4; i++)
        DL_CHECK(b->start[i] >= 0 && b->count[i] >= 0 && b->start[i] <= s->dims[i] - b->count[i]);
    return s->reader ? dlr_reader_read(s->reader, b, out, err) : read_block(s, b, out, err);
}

/* ---- what may be read, and how ---- */

static bool check_storage(const char *label, const dlr_hdf5_set *set, dl_error *err) {
    static const char *const refused[] = {
        [DLR_HDF5_EMPTY] = "has no data: it was declared but never written",
        [DLR_HDF5_EXTERNAL] =
            "keeps its data in other files (external storage), which is not followed: copy it into "
            "one file with h5repack",
        [DLR_HDF5_VIRTUAL] =
            "is a virtual data set, which is not followed: copy it into one file with h5repack",
        [DLR_HDF5_LINK] = "is a link to somewhere else, which is not followed: name the data set itself",
    };
    if ((size_t)set->layout < sizeof refused / sizeof *refused && refused[set->layout])
        return dl_fail(err, DL_INPUT, "%s %s", label, refused[set->layout]);
    if (set->rank != 4) return dl_fail(err, DL_INPUT, "%s has %d axes, not four", label, set->rank);
    if (!set->is_float)
        return dl_fail(err, DL_INPUT, "%s holds %s, not floating-point numbers", label, set->type);
    for (int i = 0; i < set->filter_count; i++) {
        bool known = i < DLR_HDF5_FILTERS &&
                     (set->filter[i] == H5Z_FILTER_DEFLATE || set->filter[i] == H5Z_FILTER_SHUFFLE ||
                      set->filter[i] == H5Z_FILTER_FLETCHER32);
        if (!known)
            return dl_fail(
                err, DL_INPUT,
                "%s is packed with filter %d, which is not supported: rewrite the file with h5repack -f NONE",
                label, i < DLR_HDF5_FILTERS ? set->filter[i] : -1);
    }
    return true;
}

bool dlr_source_open(dlr_source *s, const char *path, const dlr_hdf5_set *set, size_t cache, dl_error *err) {
    dl_buf label = {0};
    dl_putf(&label, "%s: '%s'", path, set->name);
    *s = (dlr_source){.label = label.at, .fd = -1, .offset = set->offset};
    for (int i = 0; i < 4; i++) s->dims[i] = set->dims[i];
    if (check_storage(s->label, set, err)) {
        if (set->layout == DLR_HDF5_CONTIGUOUS && set->is_native_f32 && set->filter_count == 0)
            s->fd = dl_input_open(path, err);
        else if (dl_check_descriptors(2, path, err))
            s->reader = dlr_reader_open(path, set->name, s->label, cache, err);
        s->held = s->reader ? (int64_t)cache : 0;
    }
    if (s->fd >= 0 || s->reader) return true;
    dlr_source_close(s);
    return false;
}

void dlr_source_close(dlr_source *s) {
    if (!s->label) return;
    if (s->fd >= 0) close(s->fd);
    dlr_reader_close(s->reader);
    free(s->label);
    *s = (dlr_source){.fd = -1};
}
