/* Zarr, versions 2 and 3: a folder per array, a file per chunk or shard of chunks. */
#include "ir/base/file_calls.h"
#include "ir/base/input.h"
#include "runtime/data/array_format.h"
#include "runtime/data/chunk_codec.h"
#include "runtime/data/zarr_meta.h"
#include "runtime/formats/crc32c.h"

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
    if (a.refused)
        a.refused = dlr_add_remedy(s->f->arena, &dlr_zarr_format, a.name,
                                   a.type == DLR_EL_NONE ? a.odd : DLR_ODD_NUMBERS, a.refused);
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
                                ".zgroup or zarr.json (of a folder of files, name the files)",
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
    int64_t in_shard; /* chunks in a file */
} zarr_state;

/* The file that holds a chunk, and the chunk's number within it, the last axis fastest. */
static int64_t name_chunk(const dlr_source *s, const zarr_state *z, int64_t index, dl_buf *path) {
    int64_t at[DLR_ARRAY_RANK], within = 0;
    for (int i = s->rank - 1; i >= 0; i--) at[i] = index % z->grid[i], index /= z->grid[i];
    for (int i = 0; z->how.sharded && i < s->rank; i++)
        within = within * z->how.shard[i] + at[i] % z->how.shard[i], at[i] /= z->how.shard[i];
    dl_putf(path, "%s/%s", z->folder, z->how.prefixed ? "c" : "");
    for (int i = 0; i < s->rank; i++) {
        const char separator[] = {z->how.separator, 0};
        dl_putf(path, "%s%lld", i || z->how.prefixed ? separator : "", (long long)at[i]);
    }
    if (s->rank == 0 && !z->how.prefixed) dl_puts(path, "0");
    return within;
}

/* A number of a shard's index. */
static uint64_t index_number(const zarr_state *z, const char *at) {
    uint64_t v;
    memcpy(&v, at, sizeof v);
    return z->how.index_swapped ? __builtin_bswap64(v) : v;
}

/* Finds a chunk by the index of its shard, which has an offset and a size for each; both are
 * 2^64 - 1 where a chunk is not stored. */
static bool find_in_shard(const dlr_source *s, const zarr_state *z, int fd, const char *path,
                          int64_t size, int64_t within, int64_t *at, int64_t *bytes,
                          dl_error *err) {
    enum { ENTRY = 16, CHECKSUM = 4 };
    size_t n = (size_t)z->in_shard * ENTRY, all = n + (z->how.index_checked ? CHECKSUM : 0);
    char *index = (int64_t)all <= size ? malloc(all) : NULL;
    if ((int64_t)all > size)
        return dl_fail(err, DL_INPUT, "%s is damaged: the shard %s is shorter than its index",
                       s->label, path);
    if (!index) return dl_fail(err, DL_RESOURCE, "no memory for an index of %s", s->label);
    bool ok = dl_read_at(fd, path, index, all, z->how.index_first ? 0 : size - (int64_t)all, err);
    const unsigned char *sum = (const unsigned char *)index + n;
    if (ok && z->how.index_checked &&
        dlr_crc32c(index, n) !=
            (sum[0] | (uint32_t)sum[1] << 8 | (uint32_t)sum[2] << 16 | (uint32_t)sum[3] << 24))
        ok = dl_fail(err, DL_INPUT, "%s is damaged: the checksum of the index of %s does not fit",
                     s->label, path);
    uint64_t first = ok ? index_number(z, index + within * ENTRY) : 0,
             count = ok ? index_number(z, index + within * ENTRY + 8) : 0;
    free(index);
    *at = -1, *bytes = 0;
    if (!ok || (first == UINT64_MAX && count == UINT64_MAX)) return ok;
    if (count > (uint64_t)size || first > (uint64_t)size - count)
        return dl_fail(err, DL_INPUT, "%s is damaged: a chunk of %s lies beyond its end", s->label,
                       path);
    *at = (int64_t)first, *bytes = (int64_t)count;
    return true;
}

/* Reads a chunk of an open file of that size, which is the whole file or a part of a shard. */
static bool read_open(const dlr_source *s, const zarr_state *z, int fd, const char *path,
                      int64_t size, int64_t within, char **packed, size_t *bytes, dl_error *err) {
    int64_t at = 0, n = size;
    if (z->how.sharded && !find_in_shard(s, z, fd, path, size, within, &at, &n, err)) return false;
    if (at < 0) return true;
    if (n > most_packed)
        return dl_fail(err, DL_INPUT, "%s: the chunk %s is too large", s->label, path);
    *bytes = (size_t)n;
    if (s->on_paper) {
        dl_file_calls_add(&(dl_file_calls){.reads = n > 0, .bytes = n});
        return true;
    }
    *packed = malloc(*bytes + 1);
    if (!*packed) return dl_fail(err, DL_RESOURCE, "no memory for a chunk of %s", s->label);
    if (dl_read_at(fd, path, *packed, *bytes, at, err)) return true;
    free(*packed), *packed = NULL;
    return false;
}

/* Reads a packed chunk; NULL when it is not stored, which is no error. */
static bool read_chunk(const dlr_source *s, const zarr_state *z, const char *path, int64_t within,
                       char **packed, size_t *bytes, dl_error *err) {
    struct stat st;
    *packed = NULL;
    if (dl_stat(path, &st) != 0 && errno == ENOENT) return true;
    int fd = dl_file_open_stat(path, &st, err);
    if (fd < 0) return false;
    bool ok = read_open(s, z, fd, path, st.st_size, within, packed, bytes, err);
    close(fd);
    return ok;
}

static bool load_chunk(const dlr_source *s, const dlr_chunking *how, int64_t index, void *out,
                       bool *absent, dl_error *err) {
    const zarr_state *z = how->state;
    dl_buf path = {0};
    char *packed;
    size_t bytes = 0;
    const char *why;
    int64_t within = name_chunk(s, z, index, &path);
    bool ok = read_chunk(s, z, path.at, within, &packed, &bytes, err);
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
    dlr_chunking chunking = {.swapped = how->swapped, .load = load_chunk, .close = close_zarr};
    zarr_state *z = chunking.state = calloc(1, sizeof *z);
    if (!z) return dl_fail(err, DL_RESOURCE, "no memory to open %s", s->label);
    dl_buf folder = {0};
    dl_putf(&folder, "%s%s%s", f->path, a->name[0] ? "/" : "", a->name);
    z->how = *how, z->folder = folder.at, z->in_shard = 1, z->bytes = dlr_element_bytes(a->type);
    if (how->transposed) chunking.order = z->how.order;
    memcpy(chunking.chunk, a->chunk, sizeof a->chunk);
    memcpy(chunking.fill, how->fill, sizeof how->fill);
    if (!dlr_chunks_open(s, &chunking, cache, err)) return false;
    for (int i = 0; i < s->rank; i++) { /* dlr_chunks_open has checked them against limits */
        z->bytes *= (size_t)a->chunk[i];
        z->grid[i] = s->dims[i] / a->chunk[i] + (s->dims[i] % a->chunk[i] != 0);
        if (how->sharded && __builtin_mul_overflow(z->in_shard, how->shard[i], &z->in_shard))
            z->in_shard = INT32_MAX;
    }
    return z->in_shard < INT32_MAX / 16 ||
           dl_fail(err, DL_INPUT, "%s has more chunks in a shard than can be read", s->label);
}

static bool owns_zarr(const dlr_array_head *h) { return h->folder; }

const dlr_array_format dlr_zarr_format = {.name = "Zarr",
                                          .modules = "zarr",
                                          .load = "zarr.open('IN', mode='r')%s[...]",
                                          .owns = owns_zarr,
                                          .list = list_zarr,
                                          .open = open_zarr};
