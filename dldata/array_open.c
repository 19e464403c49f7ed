/* Recognition of a file's format. */
#include "dldata/array.h"
#include "ir/base/input.h"
#include "runtime/data/array_file.h"
#include "runtime/data/foreign_formats.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

static bool read_at(int fd, char *out, size_t n, uint64_t offset) {
    while (n > 0) {
        ssize_t k = pread(fd, out, n, (off_t)offset);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        out += k, n -= (size_t)k, offset += (uint64_t)k;
    }
    return true;
}

bool array_file_open(dl_arena *arena, const char *path, array_file *f, dl_error *err) {
    *f = (array_file){0};
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return source_open(arena, path, f, err);
    int fd = dl_file_open(path, err);
    if (fd < 0) return false;
    char head[DLR_FOREIGN_HEAD] = "";
    f->bytes = fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    size_t n = f->bytes < sizeof head ? (size_t)f->bytes : sizeof head;
    bool read = read_at(fd, head, n, 0);
    close(fd);
    if (f->bytes == 0) return dl_fail(err, DL_INPUT, "%s is empty", path);
    if (dlr_array_file_known(path)) return source_open(arena, path, f, err);
    bool is_jpeg = memcmp(head, "\xff\xd8\xff", 3) == 0;
    if (read && !is_jpeg && !dlr_refuse_foreign(path, head, n, DLR_FOREIGN_BYTES, err))
        return false;
    if (image_open(arena, path, f, err)) return true;
    /* its name counts only if the bytes are no picture's */
    dl_error by_bytes = *err, by_name = {0};
    if (is_jpeg || !read || dlr_refuse_foreign(path, head, n, DLR_FOREIGN_NAME, &by_name))
        return false;
    *err = (dl_error){0}; /* the first error is kept, otherwise */
    return dl_fail(err, DL_INPUT, "%.400s; by its name, %.500s", by_bytes.message, by_name.message);
}
