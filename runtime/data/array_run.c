/* Contiguous arrays: read at their offsets by pread or a mapping. */
#include "ir/base/file_calls.h"
#include "ir/base/input.h"
#include "runtime/data/array_format.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    /* Rows with smaller gaps than this are read in one call together with the gap: a system call
     * costs as much as copying about this many bytes. */
    GAP_BYTES = 2048,
    SCRATCH = 1 << 18, /* bytes of a piece that is converted or transposed on its way */
    SPARSE = 16 /* a piece is read whole when at least one in so many of its bytes is needed */
};

typedef struct {
    dlr_run run;
    int fd;
    const char *map;                /* the mapped file up to `end`, or NULL */
    int64_t end;                    /* end of the numbers, in bytes */
    int order[DLR_ARRAY_RANK];      /* the axes in the file's order, slowest first */
    ptrdiff_t step[DLR_ARRAY_RANK]; /* strides in bytes */
} run_state;

static bool fail_cut(const dlr_source *s, dl_error *err) {
    return dl_fail(err, DL_IO, "%s ends too early: was the file cut while it was open?", s->label);
}

/* Fills the pieces one after another from the file, at `at`. It modifies `pieces`. */
static bool read_pieces(const dlr_source *s, struct iovec *piece, int n, int64_t at,
                        dl_error *err) {
    const run_state *r = s->state;
    if (r->map || s->on_paper) {
        int64_t bytes = 0;
        for (int i = 0; i < n; bytes += (int64_t)piece[i++].iov_len)
            if (!s->on_paper) memcpy(piece[i].iov_base, r->map + at + bytes, piece[i].iov_len);
        dl_file_calls_add(&(dl_file_calls){.reads = !r->map, .bytes = bytes});
        return true;
    }
    while (n > 0) {
        ssize_t got = preadv(r->fd, piece, n, at);
        if (got < 0 && errno == EINTR) continue;
        dl_file_calls_add(&(dl_file_calls){.reads = 1, .bytes = got > 0 ? got : 0});
        if (got < 0) return dl_fail_errno(err, DL_IO, "cannot read %s", s->label);
        if (got == 0) return fail_cut(s, err);
        at += got;
        for (size_t left = (size_t)got; left > 0;) {
            size_t part = left < piece->iov_len ? left : piece->iov_len;
            piece->iov_base = (char *)piece->iov_base + part, piece->iov_len -= part, left -= part;
            if (piece->iov_len == 0) piece++, n--;
        }
    }
    return true;
}

static int64_t offset_of(const dlr_source *s, const int64_t *at) {
    const run_state *r = s->state;
    int64_t offset = r->run.offset;
    for (int i = 0; i < s->rank; i++) offset += at[i] * r->step[i];
    return offset;
}

/* ---- unconverted numbers: read straight into the result ---- */

/* Reads rows of `bytes`, `pitch` apart in the file, packed; small gaps between rows are read and
 * dropped. */
static bool read_rows(const dlr_source *s, int64_t offset, int64_t rows, int64_t bytes,
                      int64_t pitch, char *out, dl_error *err) {
    enum { MOST = 256 };
    const run_state *r = s->state;
    const int64_t gap = pitch - bytes;
    for (int64_t row = 0; r->map && !s->on_paper && row < rows; row++)
        memcpy(out + row * bytes, r->map + offset + row * pitch, (size_t)bytes);
    if (r->map) {
        dl_file_calls_add(&(dl_file_calls){.bytes = rows * bytes});
        return true;
    }
    char nowhere[GAP_BYTES];
    struct iovec piece[2 * MOST];
    int64_t together = gap <= GAP_BYTES ? MOST : 1;
    for (int64_t row = 0; row < rows; row += together) {
        int n = 0;
        for (int64_t i = row; i < rows && i < row + together; i++) {
            if (i > row && gap) piece[n++] = (struct iovec){nowhere, (size_t)gap};
            piece[n++] = (struct iovec){out + i * bytes, (size_t)bytes};
        }
        if (!read_pieces(s, piece, n, offset + row * pitch, err)) return false;
    }
    return true;
}

/* In the file's order, axes from `whole` on form one row; the axis before them counts its rows; the
 * axes before that are iterated over. */
static bool read_as_stored(const dlr_source *s, const dlr_block *b, char *out, dl_error *err) {
    const run_state *r = s->state;
    const int *order = r->order;
    int64_t bytes = (int64_t)dlr_element_bytes(s->type), at[DLR_ARRAY_RANK], rows = 1, pitch = 0;
    int whole = s->rank;
    while (whole > 0 && r->step[order[whole - 1]] == bytes) bytes *= b->count[order[--whole]];
    if (whole > 0) rows = b->count[order[whole - 1]], pitch = r->step[order[whole - 1]];
    memcpy(at, b->start, sizeof at);
    for (;;) {
        if (!read_rows(s, offset_of(s, at), rows, bytes, pitch ? pitch : bytes, out, err))
            return false;
        out += rows * bytes;
        int i = whole - 2;
        for (; i >= 0; i--) {
            const int axis = order[i];
            if (++at[axis] < b->start[axis] + b->count[axis]) break;
            at[axis] = b->start[axis];
        }
        if (i < 0) return true;
    }
}

/* ---- numbers that are converted, swapped, transposed or strided: through scratch memory ---- */

typedef struct {
    const dlr_source *s;
    const dlr_block *block;
    char *scratch;
    dlr_element_move move; /* `from` is in scratch; count and `to` are those of the current piece */
    int64_t at[DLR_ARRAY_RANK]; /* index of the piece in the block, along each axis */
    dl_error *err;
} walk;

/* Bytes from the first to the last element of the block's axes order[k] and faster ones. */
static int64_t span_of(const walk *w, int k) {
    const run_state *r = w->s->state;
    int64_t span = (int64_t)dlr_element_bytes(w->s->type);
    for (; k < w->s->rank; k++)
        span += (w->block->count[r->order[k]] - 1) * w->move.from_step[r->order[k]];
    return span;
}

static bool move_piece(walk *w, int64_t span) {
    int64_t first[DLR_ARRAY_RANK], bad[DLR_ARRAY_RANK];
    char *out = w->move.to;
    dlr_element_move m = w->move;
    double value;
    for (int i = 0; i < w->s->rank; i++) {
        first[i] = w->block->start[i] + w->at[i] * w->block->stride[i];
        out += w->at[i] * m.to_step[i];
    }
    struct iovec piece = {w->scratch, (size_t)span};
    if (!read_pieces(w->s, &piece, 1, offset_of(w->s, first), w->err)) return false;
    m.from = w->scratch, m.to = out;
    if (w->s->on_paper) return true;
    if (dlr_elements_move(&m, bad, &value)) return true;
    for (int i = 0; i < w->s->rank; i++) bad[i] += w->at[i];
    return dlr_refuse_number(w->s, w->block, bad, value, m.to_type, w->err);
}

/* Splits axis order[k] into pieces that fit the scratch memory and are not mostly gaps; into
 * single indices where even a piece of one index would not. */
static bool walk_axis(walk *w, int k) {
    const run_state *r = w->s->state;
    if (k == w->s->rank) return move_piece(w, span_of(w, k));
    int axis = r->order[k];
    int64_t each = w->move.from_step[axis], inner = span_of(w, k + 1), all = w->block->count[axis];
    int64_t wanted = (int64_t)dlr_element_bytes(w->s->type);
    for (int j = k + 1; j < w->s->rank; j++) wanted *= w->block->count[r->order[j]];
    bool dense = all == 1 || each / SPARSE <= wanted;
    int64_t piece = inner > SCRATCH || inner / SPARSE > wanted ? 0
                    : dense                                    ? 1 + (SCRATCH - inner) / each
                                                               : 1;
    for (int64_t i = 0; i < all;) {
        int64_t n = !piece ? 1 : piece < all - i ? piece : all - i;
        w->at[axis] = i, w->move.count[axis] = n;
        if (!(piece ? move_piece(w, inner + (n - 1) * each) : walk_axis(w, k + 1))) return false;
        for (int j = k + 1; j < w->s->rank; j++)
            w->at[r->order[j]] = 0, w->move.count[r->order[j]] = w->block->count[r->order[j]];
        i += n;
    }
    return true;
}

static bool read_moved(const dlr_source *s, const dlr_block *b, dlr_element to, void *out,
                       dl_error *err) {
    const run_state *r = s->state;
    walk w = {.s = s, .block = b, .scratch = malloc(SCRATCH), .err = err};
    if (!w.scratch) return dl_fail(err, DL_RESOURCE, "no memory to read %s", s->label);
    w.move = dlr_block_move(s, b, to, out), w.move.swapped = r->run.swapped;
    for (int i = 0; i < s->rank; i++) w.move.from_step[i] = r->step[i] * b->stride[i];
    bool ok = walk_axis(&w, 0);
    free(w.scratch);
    return ok;
}

static bool read_run(const dlr_source *s, const dlr_block *b, dlr_element to, void *out,
                     dl_error *err) {
    const run_state *r = s->state;
    struct stat now;
    if (r->map && (dl_fstat(r->fd, &now) != 0 || now.st_size < r->end)) return fail_cut(s, err);
    bool as_stored = to == s->type && to != DLR_EL_BOOL && !r->run.swapped &&
                     dlr_block_is_ordered(s, b, r->order);
    for (int i = 0; i < s->rank; i++) as_stored = as_stored && b->stride[i] == 1;
    return as_stored ? read_as_stored(s, b, out, err) : read_moved(s, b, to, out, err);
}

static void close_run(dlr_source *s) {
    run_state *r = s->state;
    if (r->map) munmap((void *)r->map, (size_t)r->end);
    if (r->fd >= 0) close(r->fd);
    free(r);
}

bool dlr_run_open(dlr_source *s, const char *path, const dlr_run *run, dl_error *err) {
    run_state *r = s->state = calloc(1, sizeof *r);
    if (!r) return dl_fail(err, DL_RESOURCE, "no memory to open %s", path);
    *r = (run_state){.run = *run, .fd = -1};
    s->read = read_run, s->close = close_run;
    ptrdiff_t each = (ptrdiff_t)dlr_element_bytes(s->type);
    for (int i = 0; i < s->rank; i++) {
        int axis = run->fortran ? i : s->rank - 1 - i;
        r->order[s->rank - 1 - i] = axis, r->step[axis] = each;
        each *= s->dims[axis];
    }
    r->end = run->offset + each;
    if (run->record && s->rank > 0 && each > 0) {
        r->end = run->offset + (s->dims[0] - 1) * run->record + r->step[0];
        r->step[0] = run->record;
    }
    if ((r->fd = dl_input_open(path, err)) < 0) return false;
    if (!s->mapped || each == 0) return true;
    void *map = mmap(NULL, (size_t)r->end, PROT_READ, MAP_SHARED, r->fd, 0);
    if (map == MAP_FAILED)
        return dl_fail_errno(err, DL_RESOURCE, "cannot map %s into memory", s->label);
    r->map = map;
    return true;
}
