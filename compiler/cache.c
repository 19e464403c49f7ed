#include "compiler/cache.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/dirs.h"
#include "ir/base/hash.h"
#include "ir/base/output.h"
#include "ir/base/str.h"

/* In front of every cached object: what it is, and that it is whole. */
typedef struct {
    char magic[8];
    uint64_t key, bytes, hash;
} entry_head;
static const char MAGIC[8] = "dlc-obj1";
enum { MAX_OBJECT = 64 << 20 };

const char *dl_cache_dir(dl_arena *arena, dl_error *err) {
    const char *own = getenv("DLR_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const char *dir;
    if (own && *own)
        dir = dl_strdup(arena, own);
    else if (xdg && *xdg == '/')
        dir = dl_format(arena, "%s/dlc", xdg);
    else
        dir = dl_format(arena, "%s/.cache/dlc", home && *home == '/' ? home : "/tmp");
    struct stat st;
    if (lstat(dir, &st) != 0) {
        if (!dl_make_dirs(dir, 0700, err)) return NULL;
        if (lstat(dir, &st) != 0) {
            dl_fail_errno(err, DL_IO, "cannot use cache directory %s", dir);
            return NULL;
        }
    }
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022)) {
        dl_fail(err, DL_TRUST,
                "cache directory %s must be a directory of yours that nobody else can write (chmod 700), "
                "or set DLR_CACHE_DIR",
                dir);
        return NULL;
    }
    return dir;
}

static void entry_path(char *path, size_t n, const char *dir, uint64_t key) {
    snprintf(path, n, "%s/%016llx.so", dir, (unsigned long long)key);
}

const unsigned char *dl_cache_get(dl_arena *arena, const char *dir, uint64_t key, size_t *n) {
    char path[4096];
    entry_path(path, sizeof path, dir, key);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return NULL;
    struct stat st;
    entry_head head;
    const unsigned char *found = NULL;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 022) &&
        read(fd, &head, sizeof head) == sizeof head && !memcmp(head.magic, MAGIC, sizeof MAGIC) &&
        head.key == key && head.bytes <= MAX_OBJECT && head.bytes + sizeof head == (uint64_t)st.st_size) {
        unsigned char *data = dl_alloc(arena, head.bytes);
        size_t got = 0;
        for (ssize_t k; got < head.bytes && (k = read(fd, data + got, head.bytes - got)) > 0;)
            got += (size_t)k;
        if (got == head.bytes && dl_hash(data, got, key) == head.hash) found = data, *n = got;
    }
    close(fd);
    return found;
}

bool dl_cache_put(const char *dir, uint64_t key, const void *data, size_t n, dl_error *err) {
    char path[4096];
    entry_path(path, sizeof path, dir, key);
    entry_head head = {.key = key, .bytes = n, .hash = dl_hash(data, n, key)};
    memcpy(head.magic, MAGIC, sizeof MAGIC);
    dl_buf b = {0};
    dl_putn(&b, (const char *)&head, sizeof head);
    dl_putn(&b, data, n);
    bool ok = dl_write_file(path, b.at, b.n, err);
    dl_buf_free(&b);
    return ok;
}
