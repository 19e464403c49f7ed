#include "ir/base/object.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ir/base/output.h"

static void *open_library(const char *path) {
    fenv_t before;
    fegetenv(&before);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    fesetenv(&before);
    return handle;
}

/* The file stays open while the object is loaded. dlopen knows objects by name, and would give the
 * old object again for the name of a descriptor that was closed and given to the next image. */
static bool load_anonymous(dl_object *o, const unsigned char *image, size_t bytes) {
    int fd = memfd_create("dlc-kernels", MFD_CLOEXEC);
    if (fd < 0) return false;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    void *handle = dl_write_all(fd, image, bytes) ? open_library(path) : NULL;
    if (handle)
        *o = (dl_object){handle, fd};
    else
        close(fd);
    return handle != NULL;
}

static bool load_from_file(dl_object *o, const char *path, const unsigned char *image, size_t bytes,
                           dl_error *err) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0700);
    if (fd < 0) return dl_fail_errno(err, DL_IO, "cannot write %s to load kernels from it", path);
    bool written = dl_write_all(fd, image, bytes);
    if (!written) dl_fail_errno(err, DL_IO, "cannot write %s to load kernels from it", path);
    close(fd);
    void *handle = written ? open_library(path) : NULL;
    if (written && !handle)
        dl_fail(err, DL_INPUT,
                "cannot load the plan's kernels: %s (compile the model on this machine; if its "
                "file system "
                "forbids "
                "code, set TMPDIR to one that does not)",
                dlerror());
    *o = (dl_object){handle, -1};
    unlink(path);
    return handle != NULL;
}

static bool load_temporary(dl_object *o, const unsigned char *image, size_t bytes, dl_error *err) {
    const char *root = getenv("TMPDIR");
    char directory[3000], path[3100];
    snprintf(directory, sizeof directory, "%s/dlc-XXXXXX", root && *root ? root : "/tmp");
    if (!mkdtemp(directory)) /* 0700 */
        return dl_fail_errno(err, DL_IO, "cannot make a directory %s to load kernels from it",
                             directory);
    snprintf(path, sizeof path, "%s/kernels.so", directory);
    bool ok = load_from_file(o, path, image, bytes, err);
    rmdir(directory);
    return ok;
}

bool dl_object_load(dl_object *o, const unsigned char *image, size_t bytes, dl_error *err) {
    *o = (dl_object){NULL, -1};
    return load_anonymous(o, image, bytes) || load_temporary(o, image, bytes, err);
}

void *dl_object_find(const dl_object *o, const char *name) { return dlsym(o->handle, name); }

void dl_object_unload(dl_object *o) {
    if (o->handle) dlclose(o->handle);
    if (o->fd >= 0) close(o->fd);
    *o = (dl_object){NULL, -1};
}
