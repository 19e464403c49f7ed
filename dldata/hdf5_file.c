#include "dldata/hdf5_file.h"

#include "ir/base/dirs.h"
#include "ir/base/output.h"
#include "ir/base/str.h"
#include "runtime/formats/hdf5_write.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

static uint64_t set_bytes(const hdf5_set *s) {
    uint64_t n = 4;
    for (int i = 0; i < s->rank; i++) n *= s->dims[i];
    return n;
}

uint64_t hdf5_file_bytes(const hdf5_contents *c) {
    uint64_t n = 65536;
    for (int i = 0; i < c->n_sets; i++) n += set_bytes(&c->sets[i]);
    return n;
}

bool hdf5_disk_check(const char *path, const char *dir, uint64_t need, dl_error *err) {
    struct statvfs fs;
    if (statvfs(path, &fs) != 0 && statvfs(dir, &fs) != 0) return true;
    uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (free_bytes >= need) return true;
    return dl_fail(err, DL_IO, "%s needs %llu MiB, and its disk has %llu MiB free", path,
                   (unsigned long long)(need >> 20) + 1, (unsigned long long)(free_bytes >> 20));
}

bool hdf5_file_prepare(const char *path, uint64_t need, dl_error *err) {
    char dir[PATH_MAX];
    if (!dl_parent_dir(path, dir, sizeof dir))
        return dl_fail(err, DL_IO, "path too long: %.100s...", path);
    if (!dl_make_dirs(dir, 0777, err) || !dl_output_check(path, err)) return false;
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) return true; /* a device has no disk */
    return hdf5_disk_check(path, dir, need, err);
}

/* Attributes as the writer takes them, in the arena. */
static dlr_h5_attribute attribute_of(dl_arena *arena, const hdf5_attribute *a) {
    int64_t *integer = DL_NEW(arena, int64_t);
    *integer = (int64_t)a->integer;
    switch (a->kind) {
    case HDF5_TEXT:
        return (dlr_h5_attribute){a->name, DLR_H5_TEXT, (int64_t)strlen(a->text), a->text};
    case HDF5_INTEGER: return (dlr_h5_attribute){a->name, DLR_H5_I64, -1, integer};
    case HDF5_REAL: break;
    }
    return (dlr_h5_attribute){a->name, DLR_H5_F64, -1, &a->real};
}

static dlr_h5_set set_of(dl_arena *arena, const hdf5_set *s) {
    dlr_h5_set set = {.name = s->name, .type = DLR_H5_F32, .rank = s->rank};
    for (int i = 0; i < s->rank; i++) set.dims[i] = (int64_t)s->dims[i];
    if (!s->n_channels) return set;
    dl_buf text = {0};
    for (int i = 0; i < s->n_channels; i++) dl_putf(&text, "%s%s", i ? "\n" : "", s->channels[i]);
    dlr_h5_attribute *channels = DL_NEW(arena, dlr_h5_attribute);
    *channels = (dlr_h5_attribute){"channels", DLR_H5_TEXT, (int64_t)text.n,
                                   dl_strndup(arena, text.at, text.n)};
    dl_buf_free(&text);
    set.attributes = channels, set.n_attributes = 1;
    return set;
}

/* Pieces, so that a request to stop need not wait for the whole. */
static bool write_set(dlr_h5_file *f, int number, const hdf5_set *s, const dl_console *console,
                      dl_error *err) {
    enum { PIECE = 1 << 18 };
    int64_t n = (int64_t)(set_bytes(s) / 4);
    bool ok = true;
    for (int64_t first = 0; ok && first < n; first += PIECE) {
        int64_t k = n - first < PIECE ? n - first : PIECE;
        ok = !dl_console_stop_requested(console) &&
             dlr_h5_write(f, number, first, k, s->data + first, err);
    }
    return ok;
}

bool hdf5_file_write(const char *path, const hdf5_contents *c, const dl_console *console,
                     dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    dlr_h5_set *sets = DL_NEWS(arena, dlr_h5_set, c->n_sets + 1);
    dlr_h5_attribute *root = DL_NEWS(arena, dlr_h5_attribute, c->n_attributes + 1);
    for (int i = 0; i < c->n_sets; i++) sets[i] = set_of(arena, &c->sets[i]);
    for (int i = 0; i < c->n_attributes; i++) root[i] = attribute_of(arena, &c->attributes[i]);
    dlr_h5_file *f = dlr_h5_open(path, c->n_sets, sets, c->n_attributes, root, err);
    bool ok = f != NULL;
    for (int i = 0; ok && i < c->n_sets; i++) ok = write_set(f, i, &c->sets[i], console, err);
    if (ok)
        ok = dlr_h5_commit(f, err);
    else
        dlr_h5_discard(f);
    dl_arena_free(arena);
    return ok;
}
