#include "compiler/jit/cache_prune.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/jit/cache_head.h"
#include "ir/base/str.h"

enum { DIGITS = 16, DEFAULT_BOUND = 1 << 30 };
#ifndef EM_CUDA
#define EM_CUDA 190
#endif

static bool ends(const char *name, const char *end) { return strcmp(name + DIGITS, end) == 0; }

/* "0123456789abcdef.so", "0123456789abcdef.dlp". */
static bool is_entry(const char *name) {
    return strspn(name, "0123456789abcdef") == DIGITS && (ends(name, ".so") || ends(name, ".dlp"));
}

static const char *kind_of(int dir, const char *name) {
    if (ends(name, ".dlp")) return "plan";
    struct {
        dl_cache_head head;
        Elf64_Ehdr elf;
    } start = {0};
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    const ssize_t got = fd >= 0 ? read(fd, &start, sizeof start) : 0;
    if (fd >= 0) close(fd);
    if (got < (ssize_t)sizeof start || memcmp(start.elf.e_ident, ELFMAG, SELFMAG) != 0)
        return "note";
    return start.elf.e_machine == EM_CUDA ? "kernels of a GPU" : "kernels";
}

static int by_use(const void *a, const void *b) {
    const dl_cache_entry *x = a, *y = b;
    return x->used != y->used ? (x->used < y->used ? -1 : 1) : strcmp(x->name, y->name);
}

dl_cache_entry *dl_cache_list(dl_arena *arena, const char *dir, bool kinds, int *n, dl_error *err) {
    DL_ARRAY(dl_cache_entry) found = {0};
    DIR *d = opendir(dir);
    *n = 0;
    if (!d && errno != ENOENT)
        return dl_fail_errno(err, DL_IO, "cannot read cache directory %s", dir), NULL;
    for (const struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        if (!is_entry(e->d_name) || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(st.st_mode))
            continue;
        dl_push(arena, &found,
                (dl_cache_entry){.name = dl_strdup(arena, e->d_name),
                                 .kind = kinds ? kind_of(dirfd(d), e->d_name) : "",
                                 .bytes = st.st_size,
                                 .used = st.st_mtime});
    }
    if (d) closedir(d);
    if (!found.n) return DL_NEW(arena, dl_cache_entry);
    qsort(found.at, (size_t)found.n, sizeof *found.at, by_use);
    return *n = (int)found.n, found.at;
}

bool dl_cache_bound(int64_t *bytes, dl_error *err) {
    const char *said = getenv("DLR_CACHE_MAX");
    *bytes = DEFAULT_BOUND;
    if (!said || !*said) return true;
    if (!strcmp(said, "0")) return *bytes = 0, true;
    return dl_parse_size(said, bytes) ||
           dl_fail(err, DL_USAGE, "DLR_CACHE_MAX=%.100s: a size such as 5GiB, or 0 for no bound",
                   said);
}

bool dl_cache_prune(dl_arena *arena, const char *dir, int64_t most, dl_cache_pruned *done,
                    dl_error *err) {
    int n;
    *done = (dl_cache_pruned){0};
    const dl_cache_entry *entries = dl_cache_list(arena, dir, false, &n, err);
    if (!entries) return false;
    for (int i = 0; i < n; i++) done->bytes += entries[i].bytes;
    done->files = n;
    for (int i = 0; i < n && done->bytes - done->removed_bytes > most; i++) {
        const char *path = dl_format(arena, "%s/%s", dir, entries[i].name);
        if (unlink(path) != 0 && errno != ENOENT)
            return dl_fail_errno(err, DL_IO, "cannot remove %s", path);
        done->removed++, done->removed_bytes += entries[i].bytes;
    }
    return true;
}

void dl_cache_prune_to_bound(const dl_cache *c, const dl_console *out) {
    dl_error why = {0}, ignored = {0}; /* of a cache that is too large the next one removes */
    int64_t most;
    dl_cache_pruned done;
    if (!c->own) return;
    if (!dl_cache_bound(&most, &why) && out) dl_console_warning(out, why.message);
    if (why.code || !most) return;
    dl_arena *scratch = dl_arena_new(NULL);
    dl_cache_prune(scratch, c->own, most, &done, &ignored);
    dl_arena_free(scratch);
}
