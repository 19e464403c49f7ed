/* Chunked sets without libhdf5: a child process reports where the packed chunks lie, or returns
 * them; our threads unpack them. */
#include "ir/base/file_calls.h"
#include "ir/base/input.h"
#include "ir/base/sandbox.h"
#include "runtime/data/array_format.h"
#include "runtime/data/chunk_codec.h"
#include "runtime/data/hdf5_facts.h"
#include "runtime/data/hdf5_filters.h"

#include <hdf5.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* libhdf5 1.10 iterates from the first chunk to the requested one: this many take some tenths of a
 * second */
enum { MOST_PLACES = 2048, CPU_SECONDS = 20 };

/* ---- in a child: offsets of chunks ---- */

typedef struct {
    const char *path;
    const dlr_hdf5_set *set;
} place_job;

/* Whether H5Dget_chunk_info reports chunks' coordinates correctly. libhdf5 1.10 iterates through an
 * extensible array in another axis order than the array's, unless its unlimited axis is the first.
 * H5Dget_chunk_info_by_coord iterates in the same way. Functions that look chunks up
 * (H5Dread_chunk) are correct, and so are the other indexes: tests/oracle/check_layouts.py. */
static bool is_walk_right(hid_t data, hid_t space) {
    H5D_chunk_index_t index;
    hsize_t dims[H5S_MAX_RANK], most[H5S_MAX_RANK];
    return H5Dget_chunk_index_type(data, &index) >= 0 &&
           H5Sget_simple_extent_dims(space, dims, most) > 0 &&
           (index != H5D_CHUNK_IDX_EARRAY || most[0] == H5S_UNLIMITED);
}

/* The chunk's number along the grid; false where no chunk begins. */
static bool number_chunk(const dlr_hdf5_set *set, const hsize_t *offset, int64_t *index) {
    *index = 0;
    for (int i = 0; i < set->rank; i++) {
        if (set->chunk[i] < 1 || offset[i] >= (hsize_t)set->dims[i] ||
            offset[i] % (hsize_t)set->chunk[i])
            return false;
        int64_t grid = set->dims[i] / set->chunk[i] + (set->dims[i] % set->chunk[i] != 0);
        if (__builtin_mul_overflow(*index, grid, index)) return false;
        *index += (int64_t)offset[i] / set->chunk[i];
    }
    return true;
}

/* Adds one chunk; a lookup by its coordinates must report the same size. */
static bool place_chunk(const place_job *job, hid_t data, hid_t space, hsize_t i, dlr_hdf5_chunk *c,
                        dl_error *err) {
    char reason[200];
    hsize_t offset[H5S_MAX_RANK], bytes, there = 0;
    haddr_t at;
    if (H5Dget_chunk_info(data, space, i, offset, &c->skipped, &at, &bytes) < 0) {
        dlr_hdf5_reason(reason, sizeof reason);
        return dl_fail(err, DL_INPUT, "%s: cannot read '%s': %s", job->path, job->set->name,
                       reason);
    }
    c->at = (int64_t)at, c->bytes = (int64_t)bytes;
    return (number_chunk(job->set, offset, &c->index) &&
            H5Dget_chunk_storage_size(data, offset, &there) >= 0 && there == bytes) ||
           dl_fail(err, DL_INPUT, "%s is damaged: a chunk of '%s' begins where none does",
                   job->path, job->set->name);
}

static bool place_chunks(void *context, dl_sandbox_result *out, dl_error *err) {
    const place_job *job = context;
    char reason[200];
    dlr_hdf5_quiet();
    hid_t file = dlr_hdf5_open(job->path);
    hid_t data = file < 0 ? file : H5Dopen2(file, job->set->path, H5P_DEFAULT);
    hid_t space = data < 0 ? data : H5Dget_space(data),
          creation = file < 0 ? file : H5Fget_create_plist(file);
    hsize_t n = 0, userblock = 0;
    if (space < 0 || H5Dget_num_chunks(data, space, &n) < 0 ||
        H5Pget_userblock(creation, &userblock) < 0) {
        dlr_hdf5_reason(reason, sizeof reason);
        return dl_fail(err, DL_INPUT, "%s: cannot read '%s': %s", job->path, job->set->name,
                       reason);
    }
    if (n > MOST_PLACES || userblock > 0 || !is_walk_right(data, space)) return true;
    for (hsize_t i = 0; i < n; i++) {
        dlr_hdf5_chunk c = {0};
        if (!place_chunk(job, data, space, i, &c, err)) return false;
        dl_putn(&out->bytes, (const char *)&c, sizeof c);
    }
    dl_puts(&out->text, "placed");
    return true;
}

/* ---- in this process ---- */

static int by_index(const void *a, const void *b) {
    const dlr_hdf5_chunk *x = a, *y = b;
    return (x->index > y->index) - (x->index < y->index);
}

dlr_hdf5_chunk *dlr_hdf5_chunks(const char *path, const dlr_hdf5_set *set, int *n, dl_error *err) {
    struct stat st;
    place_job job = {path, set};
    dl_sandbox_result r;
    enum { CHILD_FILES = 6 };
    if (dl_stat(path, &st) != 0) return dl_fail_errno(err, DL_IO, "cannot read %s", path), NULL;
    if (!dl_check_descriptors(CHILD_FILES, path, err) ||
        !dl_sandbox_run(path, CPU_SECONDS, place_chunks, &job, &r, err))
        return NULL;
    dlr_hdf5_chunk *chunks = NULL;
    bool placed = r.text.n > 0 && r.bytes.n % sizeof *chunks == 0;
    *n = (int)(r.bytes.n / sizeof *chunks);
    if (placed) {
        chunks = malloc(r.bytes.n + 1);
        bool ok = chunks || dl_fail(err, DL_RESOURCE, "no memory to read %s", path);
        if (ok && r.bytes.n) memcpy(chunks, r.bytes.at, r.bytes.n);
        for (int i = 0; ok && i < *n; i++) {
            const dlr_hdf5_chunk *c = &chunks[i];
            ok = (c->index >= 0 && c->at >= 0 && c->bytes >= 0 && c->bytes <= INT32_MAX &&
                  c->at <= st.st_size && c->bytes <= st.st_size - c->at) ||
                 dl_fail(err, DL_INPUT,
                         "%s is damaged: a chunk of '%s' reaches beyond the file's %lld bytes",
                         path, set->name, (long long)st.st_size);
        }
        if (ok) qsort(chunks, (size_t)*n, sizeof *chunks, by_index);
        for (int i = 1; ok && i < *n; i++)
            ok = chunks[i].index != chunks[i - 1].index ||
                 dl_fail(err, DL_INPUT, "%s is damaged: '%s' has two chunks in one place", path,
                         set->name);
        if (!ok) free(chunks), chunks = NULL;
    }
    dl_buf_free(&r.text);
    dl_buf_free(&r.bytes);
    return chunks;
}

typedef struct {
    dlr_codec codec[DLR_HDF5_FILTERS];
    int codecs, fd;
    dlr_hdf5_chunk *chunks; /* NULL: request chunks from the child */
    int n;
    size_t bytes; /* bytes of an unpacked chunk */
    int64_t grid[DLR_ARRAY_RANK];
    dlr_source child;
} hdf5_state;

/* Returns the packed bytes of a chunk, in a buffer to free, or none where it is not stored. */
static bool fetch(const dlr_source *s, const dlr_chunking *how, int64_t index, char **packed,
                  size_t *bytes, uint32_t *skipped, dl_error *err) {
    const hdf5_state *h = how->state;
    *packed = NULL;
    if (!h->chunks) {
        int64_t start[DLR_ARRAY_RANK];
        for (int i = s->rank - 1; i >= 0; i--)
            start[i] = index % h->grid[i] * how->chunk[i], index /= h->grid[i];
        return dlr_hdf5_child_chunk(&h->child, start, packed, bytes, skipped, err);
    }
    const dlr_hdf5_chunk key = {.index = index};
    const dlr_hdf5_chunk *c = bsearch(&key, h->chunks, (size_t)h->n, sizeof key, by_index);
    if (!c) return true;
    *bytes = (size_t)c->bytes, *skipped = c->skipped;
    if (s->on_paper) {
        dl_file_calls_add(&(dl_file_calls){.reads = 1, .bytes = c->bytes});
        return true;
    }
    *packed = malloc(*bytes + 1);
    if (!*packed) return dl_fail(err, DL_RESOURCE, "no memory for a chunk of %s", s->label);
    return dl_read_at(h->fd, s->label, *packed, *bytes, c->at, err);
}

static bool load_chunk(const dlr_source *s, const dlr_chunking *how, int64_t index, void *out,
                       bool *absent, dl_error *err) {
    const hdf5_state *h = how->state;
    char *packed;
    size_t bytes = 0;
    uint32_t skipped = 0;
    const char *why;
    bool ok = fetch(s, how, index, &packed, &bytes, &skipped, err);
    *absent = ok && !packed;
    if (ok && packed && !s->on_paper &&
        !dlr_chunk_unpack(h->codec, h->codecs, skipped, packed, bytes, out, h->bytes, &why))
        ok = dl_fail(err, DL_INPUT, "%s %s", s->label, why);
    free(packed);
    return ok;
}

static void close_hdf5(void *state) {
    hdf5_state *h = state;
    if (h->fd >= 0) close(h->fd);
    if (h->child.close) h->child.close(&h->child);
    free(h->chunks);
    free(h);
}

bool dlr_hdf5_chunks_open(dlr_source *s, const char *path, const dlr_hdf5_set *set, size_t cache,
                          dl_error *err) {
    dlr_chunking how = {.swapped = set->swapped, .load = load_chunk, .close = close_hdf5};
    hdf5_state *h = how.state = calloc(1, sizeof *h);
    if (!h) return dl_fail(err, DL_RESOURCE, "no memory to open %s", path);
    h->fd = -1, h->bytes = dlr_element_bytes(set->element);
    memcpy(how.chunk, set->chunk, sizeof how.chunk);
    memcpy(how.fill, set->fill, sizeof how.fill);
    for (int i = 0; i < set->filter_count; i++) {
        int kind = dlr_hdf5_codec(set, i);
        DL_CHECK(kind >= 0); /* array_hdf5.c opens no other set so */
        h->codec[h->codecs++] = (dlr_codec){(dlr_codec_kind)kind, h->bytes};
    }
    if (!dlr_chunks_open(s, &how, cache, err)) return false;
    for (int i = 0; i < s->rank; i++) { /* dlr_chunks_open has checked them against limits */
        h->bytes *= (size_t)set->chunk[i];
        h->grid[i] = (set->dims[i] + set->chunk[i] - 1) / set->chunk[i];
    }
    h->chunks = dlr_hdf5_chunks(path, set, &h->n, err);
    if (err->code != DL_OK) return false;
    if (h->chunks) return (h->fd = dl_input_open(path, err)) >= 0;
    h->child = (dlr_source){.label = s->label, .rank = s->rank, .type = s->type};
    return dlr_hdf5_child_open(&h->child, path, set->path, s->type, 0, err);
}
