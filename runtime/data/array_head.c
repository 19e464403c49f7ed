/* The first bytes of a file, by which its format is recognized. */
#include "ir/base/file_calls.h"
#include "ir/base/input.h"
#include "runtime/data/array_format.h"

#include <sys/stat.h>
#include <unistd.h>

static ssize_t read_head(int fd, void *head, size_t n, off_t at) {
    ssize_t got = pread(fd, head, n, at);
    dl_file_calls_add(&(dl_file_calls){.reads = 1, .bytes = got > 0 ? got : 0});
    return got;
}

/* HDF5's signature is at the file's begin, or after a user block of 512 bytes times a power of
 * two. */
bool dlr_owns_hdf5(const dlr_array_head *h) {
    static const char hdf5[8] = "\x89HDF\r\n\x1a\n";
    char there[sizeof hdf5];
    if (h->folder || memcmp(h->bytes, hdf5, sizeof hdf5) == 0) return !h->folder;
    for (off_t at = 512; read_head(h->fd, there, sizeof there, at) == sizeof there; at *= 2)
        if (memcmp(there, hdf5, sizeof hdf5) == 0) return true;
    return false;
}

bool dlr_array_head_read(const char *path, dlr_array_head *h, dl_error *err) {
    struct stat st;
    *h = (dlr_array_head){.path = path, .fd = -1};
    h->folder = dl_stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    if (h->folder) return true;
    if ((h->fd = dl_input_open(path, err)) < 0) return false;
    ssize_t n = read_head(h->fd, h->bytes, sizeof h->bytes, 0);
    h->n = n > 0 ? (size_t)n : 0;
    return n >= 0 || dl_fail_errno(err, DL_IO, "cannot read %s", path);
}
