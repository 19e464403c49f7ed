#include "dldata/hdf5_file.h"

#include "ir/base/dirs.h"
#include "ir/base/memory.h"
#include "ir/base/output.h"
#include "ir/base/sandbox.h"
#include "ir/base/str.h"

#include <errno.h>
#include <hdf5.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

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
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return true; /* a device has no disk behind it */
    return hdf5_disk_check(path, dir, need, err);
}

static bool put_attribute(hid_t at, const char *name, hid_t file_type, hid_t type,
                          const void *value) {
    hid_t space = H5Screate(H5S_SCALAR),
          attribute = H5Acreate2(at, name, file_type, space, H5P_DEFAULT, H5P_DEFAULT);
    bool ok = attribute >= 0 && H5Awrite(attribute, type, value) >= 0;
    if (attribute >= 0) H5Aclose(attribute);
    H5Sclose(space);
    return ok;
}

static bool put_double(hid_t at, const char *name, double v) {
    return put_attribute(at, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &v);
}

static bool put_integer(hid_t at, const char *name, uint64_t v) {
    return put_attribute(at, name, H5T_STD_U64LE, H5T_NATIVE_UINT64, &v);
}

static bool put_text(hid_t at, const char *name, const char *v) {
    hid_t type = H5Tcopy(H5T_C_S1);
    bool ok = H5Tset_size(type, strlen(v) + 1) >= 0 && put_attribute(at, name, type, type, v);
    H5Tclose(type);
    return ok;
}

static bool put_root(hid_t file, const hdf5_attribute *a) {
    switch (a->kind) {
    case HDF5_TEXT: return put_text(file, a->name, a->text);
    case HDF5_INTEGER: return put_integer(file, a->name, a->integer);
    case HDF5_REAL: return put_double(file, a->name, a->real);
    }
    return false;
}

static bool put_set(hid_t file, const hdf5_set *s) {
    hsize_t dims[4];
    for (int i = 0; i < s->rank; i++) dims[i] = s->dims[i];
    hid_t space = H5Screate_simple(s->rank, dims, NULL), how = H5Pcreate(H5P_DATASET_CREATE);
    dl_buf text = {0};
    for (int i = 0; i < s->n_channels; i++) dl_putf(&text, "%s%s", i ? "\n" : "", s->channels[i]);
    bool ok = H5Pset_layout(how, H5D_CONTIGUOUS) >= 0 &&
              H5Pset_alloc_time(how, H5D_ALLOC_TIME_EARLY) >= 0 &&
              H5Pset_fill_time(how, H5D_FILL_TIME_NEVER) >= 0 &&
              H5Pset_obj_track_times(how, false) >= 0; /* which would differ from run to run */
    hid_t set =
        ok ? H5Dcreate2(file, s->name, H5T_IEEE_F32LE, space, H5P_DEFAULT, how, H5P_DEFAULT) : -1;
    ok = set >= 0 && (!s->n_channels || put_text(set, "channels", text.at)) &&
         H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, s->data) >= 0;
    if (set >= 0) H5Dclose(set);
    dl_buf_free(&text);
    H5Pclose(how);
    H5Sclose(space);
    return ok;
}

/* The file as bytes in memory, which stay until the process ends. */
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
    void *handle; /* of this driver: where it keeps the address of its memory */
    if (ok && H5Fflush(file, H5F_SCOPE_LOCAL) >= 0 &&
        H5Fget_vfd_handle(file, H5P_DEFAULT, &handle) >= 0)
        size = H5Fget_file_image(file, NULL, 0);
    if (size <= 0) return false;
    *image = *(const char **)handle;
    *n = (uint64_t)size;
    return true;
}

/* libhdf5 1.10 crashes where it gets no memory, and at exit after a write that failed. So a child
 * builds the file in its memory and hands it over, and we write it: a size, then as many bytes. */
static _Noreturn void be_builder(int fd, const struct rlimit *memory, const hdf5_contents *c) {
    const char *image;
    uint64_t n;
    fd = dl_sandbox_enter(fd);
    setrlimit(RLIMIT_AS, memory); /* what is built here is our own, and may be large */
    bool sent =
        make_image(c, &image, &n) && dl_send_bytes(fd, &n, sizeof n) && dl_send_bytes(fd, image, n);
    _exit(sent ? 0 : 1);
}

static bool fail_build(const char *path, const hdf5_contents *c, dl_error *err) {
    return dl_fail(err, DL_RESOURCE, "libhdf5 could not build %s: no memory for %.1f GiB?", path,
                   (double)hdf5_file_bytes(c) / (1 << 30));
}

/* Pieces, so that a signal need not wait for the whole. */
static bool write_image(int from, const char *path, const hdf5_contents *c,
                        const dl_console *console, dl_error *err) {
    enum { PIECE = 1 << 20 };
    uint64_t n;
    if (!dl_receive_bytes(from, &n, sizeof n)) return fail_build(path, c, err);
    char *piece = dl_malloc(PIECE);
    dl_output *o = dl_output_open(path, err);
    bool ok = o != NULL;
    while (ok && n > 0) {
        size_t k = n < PIECE ? (size_t)n : PIECE;
        ok = !dl_console_stop_requested(console) &&
             (dl_receive_bytes(from, piece, k) || fail_build(path, c, err)) &&
             dl_output_write(o, piece, k, err);
        n -= k;
    }
    free(piece);
    if (ok) return dl_output_commit(o, err);
    dl_output_discard(o);
    return false;
}

bool hdf5_file_write(const char *path, const hdf5_contents *c, const dl_console *console,
                     dl_error *err) {
    int ends[2];
    struct rlimit memory;
    getrlimit(RLIMIT_AS, &memory);
    fflush(NULL); /* so that the child does not print what is buffered */
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return dl_fail_errno(err, DL_RESOURCE, "cannot start a process to build %s", path);
    pid_t child = fork();
    if (child == 0) be_builder(ends[1], &memory, c);
    bool ok =
        child > 0 || dl_fail_errno(err, DL_RESOURCE, "cannot start a process to build %s", path);
    close(ends[1]);
    ok = ok && write_image(ends[0], path, c, console, err);
    close(ends[0]); /* which ends a child that is still sending */
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
    return ok;
}
