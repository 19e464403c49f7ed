#include "compiler/jit/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "compiler/jit/cache_head.h"
#include "compiler/jit/cache_trust.h"
#include "ir/base/hash.h"
#include "ir/base/install.h"
#include "ir/base/output.h"
#include "ir/base/str.h"

static const char MAGIC[8] = "dlc-obj1";
enum { MAX_OBJECT = 64 << 20 };

static bool is_set(const char *name) {
    const char *value = getenv(name);
    return value && *value;
}

static const char *own_dir(dl_arena *arena) {
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (is_set("DLR_CACHE_DIR")) return getenv("DLR_CACHE_DIR");
    if (xdg && *xdg == '/') return dl_format(arena, "%s/dlc", xdg);
    return home && *home == '/' ? dl_format(arena, "%s/.cache/dlc", home) : NULL;
}

const char *dl_cache_dir(dl_arena *arena, dl_error *err) {
    const char *dir = own_dir(arena);
    if (!dir) return dl_fail(err, DL_IO, "HOME is not set, where a cache would be"), NULL;
    return dl_cache_trust_own(arena, dir, err);
}

const char *dl_cache_own_path(dl_arena *arena) { return own_dir(arena); }

/* ---- one entry of one folder ---- */

/* Whether it is a regular file that nobody but its owner writes. */
static bool is_closed(const struct stat *st, bool shared) {
    return S_ISREG(st->st_mode) && !(st->st_mode & 022) &&
           (shared ? dl_install_trusts(st->st_uid) : st->st_uid == geteuid());
}

bool dl_cache_owns(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0 && is_closed(&st, false);
}

static void entry_path(char *path, size_t n, const char *dir, uint64_t key) {
    snprintf(path, n, "%s/%016llx.so", dir, (unsigned long long)key);
}

static const unsigned char *get(dl_arena *arena, const char *dir, bool shared, uint64_t key,
                                size_t *n) {
    char path[4096];
    entry_path(path, sizeof path, dir, key);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return NULL;
    struct stat st;
    dl_cache_head head;
    const unsigned char *found = NULL;
    if (fstat(fd, &st) == 0 && is_closed(&st, shared) &&
        read(fd, &head, sizeof head) == sizeof head && !memcmp(head.magic, MAGIC, sizeof MAGIC) &&
        head.key == key && head.bytes <= MAX_OBJECT &&
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

const unsigned char *dl_cache_get(dl_arena *arena, const char *dir, uint64_t key, size_t *n) {
    return get(arena, dir, false, key, n);
}

bool dl_cache_put(const char *dir, uint64_t key, const void *data, size_t n, dl_error *err) {
    char path[4096];
    entry_path(path, sizeof path, dir, key);
    dl_cache_head head = {.key = key, .bytes = n, .hash = dl_hash(data, n, key)};
    memcpy(head.magic, MAGIC, sizeof MAGIC);
    dl_buf b = {0};
    dl_putn(&b, (const char *)&head, sizeof head);
    dl_putn(&b, data, n);
    bool ok = dl_write_file(path, b.at, b.n, err);
    dl_buf_free(&b);
    return ok;
}

/* ---- all folders ---- */

/* Each kind of warning is given once a process, however often the cache is opened. */
enum { NOT_KEPT = 1, NOT_TRUSTED = 2 };
static void warn_once(const dl_console *out, unsigned kind, const char *text) {
    static atomic_uint warned;
    if (out && out->warning && !(atomic_fetch_or(&warned, kind) & kind))
        dl_console_warning(out, text);
}

static void warn_not_kept(const dl_console *out, const char *why) {
    dl_arena *scratch = dl_arena_new(NULL);
    warn_once(out, NOT_KEPT,
              dl_format(scratch,
                        "what is compiled is not kept for the next run (%s): set DLR_CACHE_DIR to "
                        "a folder of yours that can be written",
                        why));
    dl_arena_free(scratch);
}

typedef DL_ARRAY(const char *) names;

/* The folders of DLR_CACHE_PATH that are there. */
static void add_shared(dl_arena *arena, names *dirs, const dl_console *out) {
    const char *list = getenv("DLR_CACHE_PATH");
    for (const char *at = list ? list : ""; *at; at += strspn(at, ":")) {
        const size_t n = strcspn(at, ":");
        dl_error why = {0};
        const char *dir = n ? dl_cache_trust_shared(arena, dl_strndup(arena, at, n), &why) : NULL;
        if (dir)
            dl_push(arena, dirs, dir);
        else if (why.code == DL_TRUST)
            warn_once(out, NOT_TRUSTED,
                      dl_format(arena, "%.*s in DLR_CACHE_PATH is not used: %s", (int)n, at,
                                why.message));
        at += n;
    }
}

/* The folder of this installation, or of a build next to its programs. Who may write there may
 * replace the programs, so that the way to it is not asked; its files must be closed as others. */
static void add_installed(dl_arena *arena, names *dirs) {
    char dir[PATH_MAX];
    struct stat st;
    const char *found = NULL;
    if (dl_install_own_path(DL_KERNELS, dir, sizeof dir))
        found = dl_strdup(arena, dir);
    else if (dl_install_own_dir(dir, sizeof dir))
        found = dl_format(arena, "%s/../kernels", dir);
    if (found && stat(found, &st) == 0 && S_ISDIR(st.st_mode)) dl_push(arena, dirs, found);
}

const dl_cache *dl_cache_open(dl_arena *arena, const dl_console *out, dl_error *err) {
    dl_cache *c = DL_NEW(arena, dl_cache);
    names dirs = {0};
    dl_error why = {0};
    const char *own = dl_cache_dir(arena, &why);
    if (!own && (why.code != DL_IO || is_set("DLR_CACHE_DIR")))
        return dl_fail(err, why.code, "%s", why.message), NULL;
    if (own && access(own, W_OK) == 0)
        c->own = own;
    else if (own)
        dl_fail_errno(&why, DL_IO, "cannot write to cache directory %s", own);
    if (!c->own) warn_not_kept(out, why.message);
    if (own) dl_push(arena, &dirs, own);
    c->first_shared = dirs.n;
    add_shared(arena, &dirs, out);
    add_installed(arena, &dirs);
    c->dirs = dirs.at, c->ndirs = dirs.n;
    return c;
}

const dl_cache *dl_cache_open_shared(dl_arena *arena, const dl_console *out) {
    dl_cache *c = DL_NEW(arena, dl_cache);
    names dirs = {0};
    add_shared(arena, &dirs, out);
    add_installed(arena, &dirs);
    c->dirs = dirs.at, c->ndirs = dirs.n;
    return c;
}

/* The time of last use, by which the oldest are removed; looked at by the hour. */
static void note_use(const dl_cache *c, int dir, const char *name) {
    enum { HOUR = 3600 };
    char path[PATH_MAX];
    struct stat st;
    if (dir >= c->first_shared || !c->own) return;
    snprintf(path, sizeof path, "%s/%s", c->own, name);
    if (lstat(path, &st) == 0 && time(NULL) - st.st_mtime > HOUR)
        utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW);
}

const unsigned char *dl_cache_find(dl_arena *arena, const dl_cache *c, uint64_t key, size_t *n) {
    const unsigned char *found = NULL;
    for (int i = 0; i < c->ndirs && !found; i++) {
        found = get(arena, c->dirs[i], i >= c->first_shared, key, n);
        if (found) note_use(c, i, dl_format(arena, "%016llx.so", (unsigned long long)key));
    }
    return found;
}

const char *dl_cache_find_file(dl_arena *arena, const dl_cache *c, const char *name) {
    for (int i = 0; i < c->ndirs; i++) {
        const char *path = dl_format(arena, "%s/%s", c->dirs[i], name);
        struct stat st;
        if (lstat(path, &st) != 0 || !is_closed(&st, i >= c->first_shared)) continue;
        note_use(c, i, name);
        return path;
    }
    return NULL;
}

bool dl_cache_is_kept(const dl_error *why, const dl_console *out) {
    if (why->code != DL_IO) return why->code == DL_OK;
    warn_not_kept(out, why->message);
    return true;
}

bool dl_cache_keep(const dl_cache *c, uint64_t key, const void *data, size_t n,
                   const dl_console *out, dl_error *err) {
    dl_error why = {0};
    if (c->own) dl_cache_put(c->own, key, data, n, &why);
    return dl_cache_is_kept(&why, out) || dl_fail(err, why.code, "%s", why.message);
}
