#include "ir/base/memory.h"

#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "ir/base/status.h"

/* ---- none left ---- */

static dl_no_memory_fn *leave_by;
static atomic_bool leaving;

void dl_on_no_memory(dl_no_memory_fn *leave) { leave_by = leave; }

const char *dl_no_memory_text(char *to, size_t room, size_t bytes) {
    int64_t available = dl_memory_available();
    char asked[64] = "more", left[64] = "";
    if (bytes) snprintf(asked, sizeof asked, "%zu bytes more", bytes);
    if (available >= 0)
        snprintf(left, sizeof left, ", and %.1f MiB are free", (double)available / 0x1p20);
    snprintf(to, room,
             "out of memory: %s were asked for%s: free some, raise the limit (ulimit -v, the "
             "job's), or take a "
             "smaller model",
             asked, left);
    return to;
}

static _Thread_local dl_memory_guard *guarded;

void dl_guard_memory(dl_memory_guard *guard) { guarded = guard; }

void dl_lock_guarded(pthread_mutex_t *lock) {
    pthread_mutex_lock(lock);
    if (guarded) guarded->held = lock;
}

void dl_unlock_guarded(pthread_mutex_t *lock) {
    if (guarded) guarded->held = NULL;
    pthread_mutex_unlock(lock);
}

static _Noreturn void jump(dl_memory_guard *guard, size_t bytes) {
    guarded = NULL;
    if (guard->held) pthread_mutex_unlock(guard->held);
    guard->bytes = bytes;
    longjmp(guard->jump, 1);
}

_Noreturn void dl_no_memory(size_t bytes) {
    if (guarded) jump(guarded, bytes);
    while (atomic_exchange(&leaving, true)) pause(); /* another thread is on its way out */
    if (leave_by) leave_by(bytes);
    dl_panic(__FILE__, __LINE__, "out of memory: %zu bytes", bytes);
}

/* Untouched memory takes address space alone. */
void dl_heap_of_huge_pages(size_t bytes) {
#ifdef __GLIBC__
    enum { HUGE_PAGE = 2 << 20 };
    if (dl_memory_available() / 4 < (int64_t)bytes) return;
    mallopt(M_MMAP_THRESHOLD, 1 << 30), mallopt(M_TRIM_THRESHOLD, INT_MAX);
    mallopt(M_TOP_PAD, (int)bytes);
    char *first = malloc(HUGE_PAGE), *end = sbrk(0),
         *from = first + (HUGE_PAGE - (uintptr_t)first % HUGE_PAGE) % HUGE_PAGE;
    mallopt(M_TOP_PAD, HUGE_PAGE);
    if (first && first < end && (size_t)(end - first) > bytes)
        madvise(from, (size_t)(end - from), MADV_HUGEPAGE);
    free(first);
#endif
}

void *dl_malloc(size_t bytes) {
    void *at = malloc(bytes ? bytes : 1);
    if (!at) dl_no_memory(bytes);
    return at;
}

void *dl_calloc(size_t n, size_t bytes) {
    void *at = calloc(n ? n : 1, bytes ? bytes : 1);
    if (!at) dl_no_memory(n > SIZE_MAX / (bytes ? bytes : 1) ? SIZE_MAX : n * bytes);
    return at;
}

void *dl_realloc(void *at, size_t bytes) {
    at = realloc(at, bytes ? bytes : 1);
    if (!at) dl_no_memory(bytes);
    return at;
}

/* ---- how much is left: without allocating, since it is asked when there is nothing to allocate
 * ---- */

/* The beginning of a file, NUL-terminated; false when it cannot be read. */
static bool read_text(const char *dir, const char *path, const char *name, char *to, size_t room) {
    char whole[4096];
    if (snprintf(whole, sizeof whole, "%s%s%s", dir, path, name) >= (int)sizeof whole) return false;
    int fd = open(whole, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    size_t n = 0;
    for (ssize_t k; n + 1 < room && (k = read(fd, to + n, room - 1 - n)) > 0;) n += (size_t)k;
    close(fd);
    to[n] = 0;
    return true;
}

/* The number after `key` at the start of a line, or -1. */
static int64_t find_number(const char *text, const char *key) {
    size_t n = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL)
        if (strncmp(line, key, n) == 0) return strtoll(line + n, NULL, 10);
    return -1;
}

static int64_t read_number(const char *dir, const char *path, const char *name) {
    char text[64];
    if (!read_text(dir, path, name, text, sizeof text) || *text < '0' || *text > '9')
        return -1; /* "max" */
    return strtoll(text, NULL, 10);
}

/* -1 is no limit. */
static int64_t lesser(int64_t a, int64_t b) { return a < 0 ? b : b < 0 ? a : a < b ? a : b; }

/* How the two versions of control groups name things. */
static const struct {
    const char *dir, *limit, *usage, *cache; /* cache: files' pages that can be dropped */
} groups[] = {
    {"/memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file "},
    {"", "/memory.max", "/memory.current", "inactive_file "},
};

/* The memory that a group and all groups above it leave. `path` is cut on the way up. */
static int64_t group_rest(int version, const char *root, char *path) {
    char dir[4096], stat[4096];
    int64_t rest = -1;
    snprintf(dir, sizeof dir, "%s%s", root, groups[version].dir);
    for (;;) {
        int64_t limit = read_number(dir, path, groups[version].limit);
        int64_t usage = read_number(dir, path, groups[version].usage);
        if (limit >= 0 && usage >= 0) {
            int64_t cache = read_text(dir, path, "/memory.stat", stat, sizeof stat)
                                ? find_number(stat, groups[version].cache)
                                : 0;
            int64_t left = limit - usage + (cache > 0 ? cache : 0);
            rest = lesser(rest, left > 0 ? left : 0);
        }
        char *slash = strrchr(path, '/');
        if (!slash) return rest;
        *slash = 0;
    }
}

/* The process' groups: lines "5:memory:/path" (version 1) and "0::/path" (2). */
static int64_t groups_rest(const char *proc, const char *cgroup) {
    char text[4096], path[2048];
    int64_t rest = -1;
    if (!read_text(proc, "/self/cgroup", "", text, sizeof text)) return -1;
    for (char *line = text, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        char *kinds = strchr(line, ':'), *at = kinds ? strchr(kinds + 1, ':') : NULL;
        if (!at) continue;
        *at++ = 0;
        bool second = !*++kinds, first = strcmp(kinds, "memory") == 0;
        if ((!first && !second) || snprintf(path, sizeof path, "%s", at) >= (int)sizeof path)
            continue;
        if (strcmp(path, "/") == 0) *path = 0;
        rest = lesser(rest, group_rest(second, cgroup, path));
    }
    return rest;
}

/* The bytes that `ulimit` leaves after `used` bytes. */
static int64_t limit_rest(int what, int64_t used) {
    struct rlimit limit;
    if (getrlimit(what, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return -1;
    int64_t most = limit.rlim_cur > INT64_MAX ? INT64_MAX : (int64_t)limit.rlim_cur;
    return most > used ? most - used : 0;
}

int64_t dl_memory_available_in(const char *proc, const char *cgroup) {
    char text[4096];
    int64_t rest = -1;
    if (read_text(proc, "/meminfo", "", text, sizeof text)) {
        int64_t kib = find_number(text, "MemAvailable:");
        rest = kib < 0 ? -1 : kib * 1024;
    }
    long long whole = 0, data = 0; /* pages: the address space, and its writable data */
    if (read_text(proc, "/self/statm", "", text, sizeof text))
        sscanf(text, "%lld %*s %*s %*s %*s %lld", &whole, &data);
    int64_t page = sysconf(_SC_PAGESIZE);
    rest = lesser(rest, limit_rest(RLIMIT_AS, whole * page));
    rest = lesser(rest, limit_rest(RLIMIT_DATA, data * page));
    return lesser(rest, groups_rest(proc, cgroup));
}

int64_t dl_memory_available(void) { return dl_memory_available_in("/proc", "/sys/fs/cgroup"); }
