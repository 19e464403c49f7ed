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
    /* a device file is not on a disk */
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) return true;
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
    /* No time stamps, which would differ from run to run. */
    bool ok = H5Pset_layout(how, H5D_CONTIGUOUS) >= 0 &&
              H5Pset_alloc_time(how, H5D_ALLOC_TIME_EARLY) >= 0 &&
              H5Pset_fill_time(how, H5D_FILL_TIME_NEVER) >= 0 &&
              H5Pset_obj_track_times(how, false) >= 0;
    hid_t set =
        ok ? H5Dcreate2(file, s->name, H5T_IEEE_F32LE, space, H5P_DEFAULT, how, H5P_DEFAULT) : -1;
    ok = set >= 0 && (!s->n_channels || put_text(set, "channels", text.at)) &&
         H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, s->data) >= 0;
    if (set >= 0) H5Dclose(set);
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

/* Builds the file in memory, which is kept until the process ends. */
static bool make_image(const hdf5_contents *c, const char **image, uint64_t *n) {
    hid_t driver = H5Pcreate(H5P_FILE_ACCESS);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    hid_t file = H5Pset_fapl_core(driver, 1 << 26, false) >= 0
                     ? H5Fcreate("memory", H5F_ACC_TRUNC, H5P_DEFAULT, driver)
                     : -1;
    bool ok = file >= 0;
    for (int i = 0; ok && i < c->n_sets; i++) ok = put_set(file, &c->sets[i]);
    for (int i = 0; ok && i < c->n_attributes; i++) ok = put_root(file, &c->attributes[i]);
    ssize_t size = -1;
    void *handle; /* handle of this driver: the address of its memory */
    if (ok && H5Fflush(file, H5F_SCOPE_LOCAL) >= 0 &&
        H5Fget_vfd_handle(file, H5P_DEFAULT, &handle) >= 0)
        size = H5Fget_file_image(file, NULL, 0);
    if (size <= 0) return false;
    *image = *(const char **)handle;
    *n = (uint64_t)size;
    return true;
}

/* libhdf5 1.10 crashes where it gets no memory, and at exit after a failed write. A child process
 * therefore builds the file in memory and sends it, a size and as many bytes, and this process
 * writes it. */
static _Noreturn void be_builder(int fd, const struct rlimit *memory, const hdf5_contents *c) {
    const char *image;
    uint64_t n;
    fd = dl_sandbox_enter(fd);
    setrlimit(RLIMIT_AS, memory); /* the file is our own, and may be large */
    bool sent =
        make_image(c, &image, &n) && dl_send_bytes(fd, &n, sizeof n) && dl_send_bytes(fd, image, n);
    _exit(sent ? 0 : 1);
}

static bool fail_build(const char *path, const hdf5_contents *c, dl_error *err) {
    return dl_fail(err, DL_RESOURCE, "libhdf5 could not build %s: no memory for %.1f GiB?", path,
                   (double)hdf5_file_bytes(c) / (1 << 30));
}

/* Writes in pieces, so that a signal is handled soon. */
static bool write_image(int from, const char *path, const hdf5_contents *c,
                        const volatile sig_atomic_t *stop, dl_error *err) {
    enum { PIECE = 1 << 20 };
    uint64_t n;
    if (!dl_receive_bytes(from, &n, sizeof n)) return fail_build(path, c, err);
    char *piece = dl_malloc(PIECE);
    dl_output *o = dl_output_open(path, err);
    bool ok = o != NULL;
    while (ok && n > 0) {
        size_t k = n < PIECE ? (size_t)n : PIECE;
        ok = !(stop && *stop) && (dl_receive_bytes(from, piece, k) || fail_build(path, c, err)) &&
             dl_output_write(o, piece, k, err);
        n -= k;
    }
    free(piece);
    if (ok) return dl_output_commit(o, err);
    dl_output_discard(o);
    return false;
}

bool hdf5_file_write(const char *path, const hdf5_contents *c, const volatile sig_atomic_t *stop,
                     dl_error *err) {
    int ends[2];
    struct rlimit memory;
    getrlimit(RLIMIT_AS, &memory);
    fflush(NULL); /* so that the child does not print buffered output */
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return dl_fail_errno(err, DL_RESOURCE, "cannot start a process to build %s", path);
    pid_t child = fork();
    if (child == 0) be_builder(ends[1], &memory, c);
    bool ok =
        child > 0 || dl_fail_errno(err, DL_RESOURCE, "cannot start a process to build %s", path);
    close(ends[1]);
    ok = ok && write_image(ends[0], path, c, stop, err);
    close(ends[0]); /* ends a child that is still sending */
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
    return ok;
}
