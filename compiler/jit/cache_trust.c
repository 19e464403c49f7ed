#include "compiler/jit/cache_trust.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/install.h"
#include "ir/base/str.h"

/* A path to the cache while it is being checked: `done` exists and was checked, `rest` is still
 * to come. */
typedef struct {
    char done[PATH_MAX], rest[PATH_MAX];
    int links;
    bool shared;
} way;

static bool is_trusted(const way *w, uid_t owner) {
    return w->shared ? dl_install_trusts(owner) : owner == 0 || owner == geteuid();
}

/* Advice after a fault of the user's own cache. */
static const char *advice(const way *w, const char *text) { return w->shared ? "" : text; }

/* Checks a directory or a link in the path of the cache: its owner decides where the path leads. */
static bool check_on_the_way(const way *w, const char *path, const struct stat *st, dl_error *err) {
    if (!S_ISDIR(st->st_mode) && !S_ISLNK(st->st_mode))
        return dl_fail(err, DL_IO, "%s, on the way to the cache, is no directory", path);
    bool closed = S_ISLNK(st->st_mode) || !(st->st_mode & 022) || (st->st_mode & S_ISVTX);
    if (!is_trusted(w, st->st_uid))
        return dl_fail(
            err, DL_TRUST, "the way to the cache leads through %s, which belongs to another user%s",
            path,
            advice(w, ": set DLR_CACHE_DIR to a directory whose parents are yours or root's"));
    return closed ||
           dl_fail(err, DL_TRUST, "the way to the cache leads through %s, which others may write%s",
                   path,
                   advice(w, ": chmod go-w it, or set DLR_CACHE_DIR to a directory elsewhere"));
}

static bool check_cache(const way *w, const char *path, dl_error *err) {
    struct stat st;
    if (lstat(path, &st) != 0)
        return dl_fail_errno(err, DL_IO, "cannot use cache directory %s", path);
    bool ours = w->shared ? is_trusted(w, st.st_uid) : st.st_uid == geteuid();
    if (S_ISDIR(st.st_mode) && ours && !(st.st_mode & 022)) return true;
    if (w->shared)
        return dl_fail(err, DL_TRUST,
                       "%s must be a directory of yours, of root or of the owner of this program "
                       "that nobody else can write (chmod go-w)",
                       path);
    return dl_fail(err, DL_TRUST,
                   "cache directory %s must be a directory of yours (no link) that nobody else can "
                   "write (chmod 700), or set DLR_CACHE_DIR",
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
        (w->shared || (mkdir(w->done, 0700) != 0 && errno != EEXIST) || lstat(w->done, &st) != 0))
        return dl_fail_errno(
            err, DL_IO, w->shared ? "there is no %s" : "cannot make cache directory %s", w->done);
    if (last && !w->shared) return check_cache(w, w->done, err);
    return check_on_the_way(w, w->done, &st, err) && (!S_ISLNK(st.st_mode) || follow(w, at, err));
}

/* The directory by its real path, made if missing. Others may change no name in the path: only
 * then is it safe to check first and open later. */
static const char *trust(dl_arena *arena, const char *dir, bool shared, dl_error *err) {
    way *w = DL_NEW(arena, way);
    w->shared = shared;
    char here[PATH_MAX] = "";
    if (*dir != '/' && !getcwd(here, sizeof here))
        return dl_fail_errno(err, DL_IO, "cannot use cache directory %s", dir), NULL;
    if (snprintf(w->rest, sizeof w->rest, "%s/%s", here, dir) >= (int)sizeof w->rest)
        return dl_fail(err, DL_IO, "path too long: %s", dir), NULL;
    while (w->rest[strspn(w->rest, "/")])
        if (!walk(w, err)) return NULL;
    return check_cache(w, *w->done ? w->done : "/", err) ? dl_strdup(arena, w->done) : NULL;
}

const char *dl_cache_trust_own(dl_arena *arena, const char *dir, dl_error *err) {
    return trust(arena, dir, false, err);
}

const char *dl_cache_trust_shared(dl_arena *arena, const char *dir, dl_error *err) {
    return trust(arena, dir, true, err);
}
