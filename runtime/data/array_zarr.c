/* Zarr, versions 2 and 3: a folder per array, a file per chunk. */
#include "ir/base/file_calls.h"
#include "ir/base/input.h"
#include "runtime/data/array_format.h"
#include "runtime/data/chunk_codec.h"
#include "runtime/data/zarr_meta.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_META = 4 << 20, MAX_DEPTH = 8, MAX_ARRAYS = 1024 };
static const off_t most_packed = (off_t)1 << 31; /* most bytes of a chunk's file */

/* ---- the contents of a folder ---- */

typedef struct {
    dlr_array_file *f;
    DL_ARRAY(dlr_array_facts) arrays;
    DL_ARRAY(dlr_zarr_how) how;
    int folders;
    dl_error *err;
} search;

/* The text of a metadata file of a folder; NULL when it is not there, or with an error. */
static char *read_meta(search *s, const char *folder, const char *name, size_t *n,
                       const char **path) {
    *path = dl_format(s->f->arena, "%s/%s", folder, name);
    if (dl_access(*path, F_OK) != 0) return NULL;
    return dl_read_input(s->f->arena, *path, MAX_META, n, s->err);
}

static bool add_array(search *s, const char *folder, const char *name, int version,
                      const char *text, size_t n, const char *path) {
    dlr_array_facts a = {.name = dl_strdup(s->f->arena, name)};
    dlr_zarr_how how;
    if (!dlr_zarr_array(s->f->arena, text, n, version, path, &a, &how, s->err)) return false;
    const char *more = version == 2 ? read_meta(s, folder, ".zattrs", &n, &path) : NULL;
    if (more && !dlr_zarr_attributes(s->f->arena, more, n, path, &a, s->err)) return false;
    if (!more) a.fill = NULL; /* no attribute says that it marks missing numbers */
    dl_push(s->f->arena, &s->arrays, a);
    dl_push(s->f->arena, &s->how, how);
    return s->err->code == DL_OK;
}

static bool search_folder(search *s, const char *folder, const char *name, int depth);

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}
static int is_visible(const struct dirent *e) { return e->d_name[0] != '.'; }

static bool search_inside(search *s, const char *folder, const char *name, int depth) {
    struct dirent **found = NULL;
    int n = dl_scandir(folder, &found, is_visible, by_name);
    if (n < 0) return dl_fail_errno(s->err, DL_IO, "cannot read the folder %s", folder);
    bool ok = true;
    for (int i = 0; i < n; i++) {
        const char *inner = dl_format(s->f->arena, "%s/%s", folder, found[i]->d_name);
        struct stat st;
        if (ok && dl_lstat(inner, &st) == 0 && S_ISDIR(st.st_mode))
            ok = search_folder(
                s, inner,
                dl_format(s->f->arena, "%s%s%s", name, name[0] ? "/" : "", found[i]->d_name),
                depth + 1);
        free(found[i]);
    }
    free(found);
    return ok;
}

/* Adds an array, or the arrays in a group. A folder that is neither is skipped, unless it is the
 * first. */
static bool search_folder(search *s, const char *folder, const char *name, int depth) {
    size_t n = 0;
    const char *path;
    dlr_zarr_node node = DLR_ZARR_OTHER;
    if (s->arrays.n == MAX_ARRAYS || depth > MAX_DEPTH) return s->f->more = true;
    char *text = read_meta(s, folder, ".zarray", &n, &path);
    if (text) return add_array(s, folder, name, 2, text, n, path);
    text = s->err->code == DL_OK ? read_meta(s, folder, "zarr.json", &n, &path) : NULL;
    if (text && !dlr_zarr_node_of(s->f->arena, text, n, path, &node, s->err)) return false;
    if (s->err->code != DL_OK) return false;
    if (node == DLR_ZARR_ARRAY) return add_array(s, folder, name, 3, text, n, path);
    bool group = node == DLR_ZARR_GROUP ||
                 dl_access(dl_format(s->f->arena, "%s/.zgroup", folder), F_OK) == 0;
    if (group) return search_inside(s, folder, name, depth);
    return depth > 0 || dl_fail(s->err, DL_INPUT,
                                "%s is a directory, and no Zarr array or group: it has no .zarray, "
                                ".zgroup or zarr.json",
                                folder);
}

static bool list_zarr(dlr_array_file *f, dl_error *err) {
    search s = {.f = f, .err = err};
    bool ok = search_folder(&s, f->path, "", 0);
    f->arrays = s.arrays.at, f->n = s.arrays.n, f->state = s.how.at;
    return ok;
}

/* ---- chunks ---- */

typedef struct {
    dlr_zarr_how how;
    char *folder;
    int64_t grid[DLR_ARRAY_RANK];
    size_t bytes;
} zarr_state;

static void name_chunk(const dlr_source *s, const zarr_state *z, int64_t index, dl_buf *path) {
    int64_t at[DLR_ARRAY_RANK];
    for (int i = s->rank - 1; i >= 0; i--) at[i] = index % z->grid[i], index /= z->grid[i];
    dl_putf(path, "%s/%s", z->folder, z->how.prefixed ? "c" : "");
    for (int i = 0; i < s->rank; i++) {
        const char separator[] = {z->how.separator, 0};
        dl_putf(path, "%s%lld", i || z->how.prefixed ? separator : "", (long long)at[i]);
    }
    if (s->rank == 0 && !z->how.prefixed) dl_puts(path, "0");
}

/* Reads a chunk's file; NULL when there is none, which is no error. */
static bool read_chunk(const dlr_source *s, const char *path, char **packed, size_t *bytes,
                       dl_error *err) {
    struct stat st;
    *packed = NULL;
    if (dl_stat(path, &st) != 0 && errno == ENOENT) return true;
    int fd = dl_file_open_stat(path, &st, err);
    if (fd < 0) return false;
    bool ok = st.st_size <= most_packed ||
              dl_fail(err, DL_INPUT, "%s: the chunk %s is too large", s->label, path);
    *bytes = ok ? (size_t)st.st_size : 0;
    if (ok && s->on_paper) {
        dl_file_calls_add(&(dl_file_calls){.reads = st.st_size > 0, .bytes = st.st_size});
        close(fd);
        return true;
    }
    if (ok && !(*packed = malloc(*bytes + 1)))
        ok = dl_fail(err, DL_RESOURCE, "no memory for a chunk of %s", s->label);
    ok = ok && dl_read_at(fd, path, *packed, *bytes, 0, err);
    close(fd);
    if (!ok) free(*packed), *packed = NULL;
    return ok;
}

static bool load_chunk(const dlr_source *s, const dlr_chunking *how, int64_t index, void *out,
                       bool *absent, dl_error *err) {
    const zarr_state *z = how->state;
    dl_buf path = {0};
    char *packed;
    size_t bytes = 0;
    const char *why;
    name_chunk(s, z, index, &path);
    bool ok = read_chunk(s, path.at, &packed, &bytes, err);
    *absent = ok && !packed;
    if (packed &&
        !dlr_chunk_unpack(z->how.codec, z->how.codecs, 0, packed, bytes, out, z->bytes, &why))
        ok = dl_fail(err, DL_INPUT, "%s %s (%s)", s->label, why, path.at);
    free(packed);
    dl_buf_free(&path);
    return ok;
}

static void close_zarr(void *state) {
    zarr_state *z = state;
    free(z->folder);
    free(z);
}

static bool open_zarr(dlr_source *s, const dlr_array_file *f, const dlr_array_facts *a,
                      size_t cache, dl_error *err) {
    const dlr_zarr_how *how = (const dlr_zarr_how *)f->state + (a - f->arrays);
    dlr_chunking chunking = {
        .swapped = how->swapped, .fortran = how->fortran, .load = load_chunk, .close = close_zarr};
    zarr_state *z = chunking.state = calloc(1, sizeof *z);
    if (!z) return dl_fail(err, DL_RESOURCE, "no memory to open %s", s->label);
    dl_buf folder = {0};
    dl_putf(&folder, "%s%s%s", f->path, a->name[0] ? "/" : "", a->name);
    z->how = *how, z->folder = folder.at, z->bytes = dlr_element_bytes(a->type);
    memcpy(chunking.chunk, a->chunk, sizeof a->chunk);
    memcpy(chunking.fill, how->fill, sizeof how->fill);
    if (!dlr_chunks_open(s, &chunking, cache, err)) return false;
    for (int i = 0; i < s->rank; i++) { /* dlr_chunks_open has checked them against limits */
        z->bytes *= (size_t)a->chunk[i];
        z->grid[i] = s->dims[i] / a->chunk[i] + (s->dims[i] % a->chunk[i] != 0);
    }
    return true;
}

const dlr_array_format dlr_zarr_format = {"Zarr", list_zarr, open_zarr};
