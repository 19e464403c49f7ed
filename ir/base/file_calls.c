#include "ir/base/file_calls.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FIELDS = sizeof(dl_file_calls) / sizeof(int64_t) };

/* A dl_file_calls, number by number. */
static _Atomic int64_t counted[FIELDS];

dl_file_calls dl_file_calls_so_far(void) {
    int64_t now[FIELDS];
    dl_file_calls c;
    for (int i = 0; i < FIELDS; i++)
        now[i] = atomic_load_explicit(&counted[i], memory_order_relaxed);
    memcpy(&c, now, sizeof c);
    return c;
}

dl_file_calls dl_file_calls_since(const dl_file_calls *before) {
    dl_file_calls c = dl_file_calls_so_far();
    dl_file_calls_sum(&c, before, -1);
    return c;
}

void dl_file_calls_add(const dl_file_calls *more) {
    int64_t add[FIELDS];
    memcpy(add, more, sizeof add);
    for (int i = 0; i < FIELDS; i++)
        if (add[i]) atomic_fetch_add_explicit(&counted[i], add[i], memory_order_relaxed);
}

void dl_file_calls_sum(dl_file_calls *to, const dl_file_calls *more, double times) {
    int64_t sum[FIELDS], add[FIELDS];
    memcpy(sum, to, sizeof sum), memcpy(add, more, sizeof add);
    for (int i = 0; i < FIELDS; i++) {
        double more_of_it = (double)add[i] * times;
        sum[i] += (int64_t)(more_of_it < 0 ? more_of_it - 0.5 : more_of_it + 0.5);
    }
    memcpy(to, sum, sizeof sum);
}

int64_t dl_file_calls_metadata(const dl_file_calls *c) {
    return 2 * c->opens + c->stats + c->listings;
}

/* ---- looks ---- */

static void look(void) { dl_file_calls_add(&(dl_file_calls){.stats = 1}); }

int dl_stat(const char *path, struct stat *st) { return look(), stat(path, st); }
int dl_lstat(const char *path, struct stat *st) { return look(), lstat(path, st); }
int dl_fstat(int fd, struct stat *st) { return look(), fstat(fd, st); }
int dl_fstatat(int folder, const char *name, struct stat *st) {
    return look(), fstatat(folder, name, st, 0);
}
int dl_access(const char *path, int mode) { return look(), access(path, mode); }

/* ---- listings ---- */

static void count_entry(const struct dirent *e) {
    if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
        dl_file_calls_add(&(dl_file_calls){.entries = 1});
}

DIR *dl_opendir(const char *path) {
    dl_file_calls_add(&(dl_file_calls){.listings = 1});
    return opendir(path);
}

struct dirent *dl_readdir(DIR *folder) {
    struct dirent *e = readdir(folder);
    if (e) count_entry(e);
    return e;
}

static _Thread_local int (*chosen)(const struct dirent *);

static int count_and_choose(const struct dirent *e) {
    count_entry(e);
    return chosen(e);
}

int dl_scandir(const char *path, struct dirent ***list, int filter(const struct dirent *),
               int order(const struct dirent **, const struct dirent **)) {
    dl_file_calls_add(&(dl_file_calls){.listings = 1});
    chosen = filter;
    return scandir(path, list, count_and_choose, order);
}

/* ---- a library's reads ---- */

static bool ask_kernel(dl_file_calls *c, int64_t *own_bytes) {
    char text[512];
    long long bytes, reads;
    int fd = open("/proc/self/io", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = 0;
    *own_bytes = n;
    if (sscanf(text, "rchar: %lld wchar: %*d syscr: %lld", &bytes, &reads) != 2) {
        *c = (dl_file_calls){.unknown = 1};
        return false;
    }
    *c = (dl_file_calls){.reads = reads, .bytes = bytes};
    return true;
}

dl_file_calls dl_file_calls_kernel(void) {
    dl_file_calls c;
    int64_t own;
    if (ask_kernel(&c, &own)) c.reads++, c.bytes += own; /* to ask was a read, too */
    return c;
}

dl_file_calls dl_file_calls_of_library(const dl_file_calls *begin) {
    dl_file_calls now;
    int64_t own;
    if (begin->unknown || !ask_kernel(&now, &own)) return (dl_file_calls){.unknown = 1};
    return (dl_file_calls){.reads = now.reads - begin->reads, .bytes = now.bytes - begin->bytes};
}
