#include "compiler/jit/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/dirs.h"
#include "ir/base/hash.h"
#include "ir/base/output.h"
#include "ir/base/str.h"

/* The header of every cached object: identifies it, and detects damage. */
typedef struct {
    char magic[8];
    uint64_t key, bytes, hash;
} entry_head;
static const char MAGIC[8] = "dlc-obj1";
enum { MAX_OBJECT = 64 << 20 };

/* A path to the cache while it is being checked: `done` exists and was checked, `rest` is still
 * to come. */
typedef struct {
    char done[PATH_MAX], rest[PATH_MAX];
    int links;
} way;

/* Checks a directory or a link in the path of the cache: its owner decides where the path leads. */
static bool check_on_the_way(const char *path, const struct stat *st, dl_error *err) {
    bool ours = st->st_uid == 0 || st->st_uid == geteuid();
    bool closed = S_ISLNK(st->st_mode) || !(st->st_mode & 022) || (st->st_mode & S_ISVTX);
    if (!ours)
        return dl_fail(err, DL_TRUST,
                       "the way to the cache leads through %s, which belongs to another user: set "
                       "DLR_CACHE_DIR to a "
                       "directory whose parents are yours or root's",
                       path);
    return closed || dl_fail(err, DL_TRUST,
                             "the way to the cache leads through %s, which others may write: chmod "
                             "go-w it, or set "
                             "DLR_CACHE_DIR to a directory elsewhere",
                             path);
}

static bool check_cache(const char *path, dl_error *err) {
    struct stat st;
    if (lstat(path, &st) != 0)
        return dl_fail_errno(err, DL_IO, "cannot use cache directory %s", path);
    if (S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 022)) return true;
    return dl_fail(err, DL_TRUST,
                   "cache directory %s must be a directory of yours (no link) that nobody else can "
                   "write (chmod 700), "
                   "or set DLR_CACHE_DIR",
                   path);
}

/* Follows a link in the path: its target comes before the rest. */
static bool follow(way *w, size_t parent, dl_error *err) {
    char target[PATH_MAX], rest[PATH_MAX];
    ssize_t n = readlink(w->done, target, sizeof target - 1);
    if (n < 0 || ++w->links > 40)
        return dl_fail_errno(err, DL_IO, "cannot follow the link %s", w->done);
    target[n] = 0;
    if (snprintf(rest, sizeof rest, "%s/%s", target, w->rest) >= (int)sizeof rest)
        return dl_fail(err, DL_IO, "path too long: %s", w->done);
    strcpy(w->rest, rest);
    w->done[*target == '/' ? 0 : parent] = 0;
    return true;
}

/* Takes the next name of the path: makes a missing directory, and checks an existing one. The
 * last name is the cache. */
static bool walk(way *w, dl_error *err) {
    char *name = w->rest + strspn(w->rest, "/");
    size_t n = strcspn(name, "/"), at = strlen(w->done);
    bool up = n == 2 && !strncmp(name, "..", 2), stay = n == 1 && *name == '.',
         last = !name[n + strspn(name + n, "/")];
    struct stat st;
    if (up) {
        char *slash = strrchr(w->done, '/');
        if (slash) *slash = 0;
    } else if (!stay) {
        if (at + n + 2 > sizeof w->done) return dl_fail(err, DL_IO, "path too long: %s", w->done);
        snprintf(w->done + at, sizeof w->done - at, "/%.*s", (int)n, name);
    }
    memmove(w->rest, name + n, strlen(name + n) + 1);
    if (up || stay) return true;
    if (lstat(w->done, &st) != 0 &&
        ((mkdir(w->done, 0700) != 0 && errno != EEXIST) || lstat(w->done, &st) != 0))
        return dl_fail_errno(err, DL_IO, "cannot make cache directory %s", w->done);
    if (last) return check_cache(w->done, err);
    return check_on_the_way(w->done, &st, err) && (!S_ISLNK(st.st_mode) || follow(w, at, err));
}

/* The directory by its real path, made if missing. Others may change no name in the path: only
 * then is it safe to check first and open later. */
static const char *trust_dir(dl_arena *arena, const char *dir, dl_error *err) {
    way *w = DL_NEW(arena, way);
    char here[PATH_MAX] = "";
    if (*dir != '/' && !getcwd(here, sizeof here))
        return dl_fail_errno(err, DL_IO, "cannot use cache directory %s", dir), NULL;
    if (snprintf(w->rest, sizeof w->rest, "%s/%s", here, dir) >= (int)sizeof w->rest)
        return dl_fail(err, DL_IO, "path too long: %s", dir), NULL;
    while (w->rest[strspn(w->rest, "/")])
        if (!walk(w, err)) return NULL;
    return check_cache(*w->done ? w->done : "/", err) ? dl_strdup(arena, w->done) : NULL;
}

const char *dl_cache_dir(dl_arena *arena, dl_error *err) {
    const char *own = getenv("DLR_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    const char *dir;
    if (own && *own)
        dir = dl_strdup(arena, own);
    else if (xdg && *xdg == '/')
        dir = dl_format(arena, "%s/dlc", xdg);
    else
        dir = dl_format(arena, "%s/.cache/dlc", home && *home == '/' ? home : "/tmp");
    return trust_dir(arena, dir, err);
}

bool dl_cache_owns(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
           !(st.st_mode & 022);
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
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        !(st.st_mode & 022) && read(fd, &head, sizeof head) == sizeof head &&
        !memcmp(head.magic, MAGIC, sizeof MAGIC) && head.key == key && head.bytes <= MAX_OBJECT &&
        head.bytes + sizeof head == (uint64_t)st.st_size) {
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
