/* NumPy's .npz: a zip file of .npy files, stored (savez) or deflated (savez_compressed). */
#include "ir/base/file_calls.h"
#include "ir/base/input.h"
#include "runtime/data/array_format.h"
#include "runtime/data/array_npy.h"
#include "runtime/data/chunk_codec.h"
#include "runtime/data/foreign_formats.h"
#include "runtime/formats/zip.h"

#include <stdlib.h>
#include <unistd.h>

/* An array's place in the zip. */
typedef struct {
    dlr_zip_entry entry;
    dlr_run run; /* of the unpacked entry */
} member;

/* ---- listing ---- */

/* Reads and unpacks the first bytes of an entry, at most `room`; returns their number, or -1. */
static int64_t read_head(int fd, const char *path, const dlr_zip_entry *e, void *head, size_t room,
                         dl_error *err) {
    size_t n = e->unpacked < room ? (size_t)e->unpacked : room;
    if (!e->deflated) return dl_read_at(fd, path, head, n, (int64_t)e->at, err) ? (int64_t)n : -1;
    const dlr_packed packed = {.at = (int64_t)e->at, .bytes = (int64_t)e->bytes, .raw = true};
    return dlr_inflate(fd, path, &packed, false, head, n, &n, err) ? (int64_t)n : -1;
}

static bool list_member(dlr_array_file *f, int fd, const dlr_zip_entry *e, dlr_array_facts *a,
                        member *m, dl_error *err) {
    char head[DL_NPY_HEAD];
    dl_npy header;
    const char *path = dl_format(f->arena, "%s: '%s'", f->path, e->name);
    int64_t n = read_head(fd, path, e, head, sizeof head, err);
    m->entry = *e;
    if (n < 0 || !dl_npy_parse(head, (size_t)n, path, e->unpacked, &header, err) ||
        !dlr_npy_facts(f->arena, &header, e->unpacked, path, a, &m->run, err))
        return false;
    a->name = dl_strndup(f->arena, e->name, strlen(e->name) - strlen(".npy"));
    if (!e->deflated) return true;
    uint64_t numbers = header.count * dlr_element_bytes(a->type);
    if (a->type != DLR_EL_NONE && m->run.offset + (int64_t)numbers != (int64_t)e->unpacked)
        return dl_fail(err, DL_INPUT, "%s is damaged: it has more bytes than its array", path);
    a->packing = "deflate", a->chunked = true;
    for (int i = 0; i < a->rank; i++) a->chunk[i] = a->dims[i];
    return true;
}

static bool list_members(dlr_array_file *f, int fd, dl_error *err) {
    struct stat st;
    dlr_zip zip;
    if (dl_fstat(fd, &st) != 0) return dl_fail_errno(err, DL_IO, "cannot read %s", f->path);
    if (!dlr_zip_read(f->arena, fd, f->path, (uint64_t)st.st_size, &zip, err)) return false;
    dlr_array_facts *arrays = DL_NEWS(f->arena, dlr_array_facts, zip.n + 1);
    member *members = DL_NEWS(f->arena, member, zip.n + 1);
    f->arrays = arrays, f->state = members;
    for (int i = 0; i < zip.n; i++) {
        const char *end = strrchr(zip.entries[i].name, '.');
        if (!end || strcmp(end, ".npy") != 0) continue;
        if (!list_member(f, fd, &zip.entries[i], &arrays[f->n], &members[f->n], err)) return false;
        f->n++;
    }
    for (int i = 0; f->n == 0 && i < zip.n; i++)
        if (!dlr_refuse_foreign_zip(f->path, zip.entries[i].name, err)) return false;
    return f->n > 0 ||
           dl_fail(err, DL_INPUT, "%s is a zip file without a .npy file in it: no .npz", f->path);
}

static bool list_npz(dlr_array_file *f, dl_error *err) {
    int fd = dl_input_open(f->path, err);
    if (fd < 0) return false;
    bool ok = list_members(f, fd, err);
    close(fd);
    return ok;
}

/* ---- a deflated entry is one chunk ---- */

typedef struct {
    member m;
    int fd;
} npz_state;

static bool load_member(const dlr_source *s, const dlr_chunking *how, int64_t index, void *out,
                        bool *absent, dl_error *err) {
    const npz_state *z = how->state;
    const dlr_zip_entry *e = &z->m.entry;
    const dlr_codec deflate = {DLR_CODEC_DEFLATE, 0};
    (void)index;
    *absent = false;
    if (s->on_paper) {
        dl_file_calls_add(&(dl_file_calls){.reads = 1, .bytes = (int64_t)e->bytes});
        return true;
    }
    char *packed = malloc(e->bytes + 1), *whole = malloc(e->unpacked + 1);
    const char *why;
    bool ok = (packed && whole) || dl_fail(err, DL_RESOURCE, "no memory to unpack %s", s->label);
    ok = ok && dl_read_at(z->fd, s->label, packed, e->bytes, (int64_t)e->at, err);
    if (ok && !dlr_chunk_unpack(&deflate, 1, 0, packed, e->bytes, whole, e->unpacked, &why))
        ok = dl_fail(err, DL_INPUT, "%s %s", s->label, why);
    ok = ok && dlr_zip_check_data(s->label, e, whole, err);
    if (ok) { /* dlr_npy_facts has checked the end of the numbers against the entry's size */
        size_t bytes = dlr_element_bytes(s->type);
        for (int i = 0; i < s->rank; i++) bytes *= (size_t)s->dims[i];
        memcpy(out, whole + z->m.run.offset, bytes);
    }
    free(packed), free(whole);
    return ok;
}

static void close_npz(void *state) {
    npz_state *z = state;
    if (z->fd >= 0) close(z->fd);
    free(z);
}

/* A stored entry is read in parts and in any order, but its checksum covers the whole. It is
 * therefore read once from begin to end, 1 MiB at a time, when the array is opened; later reads
 * come from the page cache if that has space. A deflated entry is checked each time that it is
 * unpacked, which is once where it is cached. */
static bool check_stored(const dlr_array_file *f, const dlr_zip_entry *e, dl_error *err) {
    int fd = dl_input_open(f->path, err);
    if (fd < 0) return false;
    bool ok = dlr_zip_check_stored(fd, f->path, e, err);
    close(fd);
    return ok;
}

static bool open_npz(dlr_source *s, const dlr_array_file *f, const dlr_array_facts *a, size_t cache,
                     dl_error *err) {
    const member *m = (const member *)f->state + (a - f->arrays);
    if (!m->entry.deflated) {
        if (!check_stored(f, &m->entry, err)) return false;
        dlr_run run = m->run;
        run.offset += (int64_t)m->entry.at;
        return dlr_run_open(s, f->path, &run, err);
    }
    dlr_chunking how = {.swapped = m->run.swapped,
                        .order = m->run.fortran ? dlr_first_axis_fastest(s->rank) : NULL,
                        .load = load_member,
                        .close = close_npz};
    npz_state *z = how.state = calloc(1, sizeof *z);
    if (!z) return dl_fail(err, DL_RESOURCE, "no memory to open %s", s->label);
    *z = (npz_state){*m, dl_input_open(f->path, err)};
    return dlr_whole_open(s, &how, cache, err) && z->fd >= 0;
}

/* A zip file begins with an entry, or, when it is empty, with its end record. */
static bool owns_npz(const dlr_array_head *h) {
    return memcmp(h->bytes, "PK\3\4", 4) == 0 || memcmp(h->bytes, "PK\5\6", 4) == 0;
}

const dlr_array_format dlr_npz_format = {.name = "NumPy archive",
                                         .modules = "",
                                         .load = "numpy.load('IN', allow_pickle=True)%s",
                                         .owns = owns_npz,
                                         .list = list_npz,
                                         .open = open_npz};
