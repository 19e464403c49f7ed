#include "ir/base/temporary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/dirs.h"
#include "ir/base/draw.h"
#include "ir/base/hash.h"

/* ---- names: .dlc-HHHHHHHH-RRRRRRRRRRRR ---- */

enum { PREFIX = 14, RANDOM = 12, NAME = PREFIX + RANDOM + 1 };

/* The name contains the host, because other hosts may not see a lock. */
static void put_prefix(char name[NAME]) {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    snprintf(name, NAME, ".dlc-%08x-", (unsigned)dl_hash_str(host, 0));
}

static void put_name(char name[NAME]) {
    put_prefix(name);
    snprintf(name + PREFIX, RANDOM + 1, "%012llx", (unsigned long long)(dl_draw_bits() >> 16));
}

static bool is_ours(const char *name, const char prefix[NAME]) {
    return strncmp(name, prefix, PREFIX) == 0 && strlen(name) == PREFIX + RANDOM &&
           strspn(name + PREFIX, "0123456789abcdef") == RANDOM;
}

/* ---- what dead processes left ---- */

/* Removes a temporary that nobody holds: its lock can be had. */
static void remove_dead(int dir, const char *path, const char *name) {
    struct stat st;
    enum { FLAGS = O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC };
    int fd = openat(dir, name, O_RDWR | FLAGS); /* NFS locks only writable files */
    if (fd < 0 && errno == EISDIR) fd = openat(dir, name, O_RDONLY | FLAGS);
    if (fd < 0) return;
    if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0) {
        char whole[PATH_MAX + NAME];
        dl_error ignored = {0}; /* a temporary that cannot be removed stays; it does no harm */
        snprintf(whole, sizeof whole, "%s/%s", path, name);
        if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) dl_remove_tree(whole, &ignored);
    }
    close(fd);
}

/* Looked at once a process: the dead were dead before. */
static bool is_first_look(const char *path) {
    enum { SEEN = 64 };
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint64_t seen[SEEN];
    static int n;
    uint64_t key = dl_hash_str(path, 0);
    pthread_mutex_lock(&lock);
    bool first = true;
    for (int i = 0; i < n && i < SEEN; i++) first &= seen[i] != key;
    if (first) seen[n++ % SEEN] = key;
    pthread_mutex_unlock(&lock);
    return first;
}

void dl_temporary_sweep(const char *path) {
    if (!is_first_look(path)) return;
    char prefix[NAME];
    put_prefix(prefix);
    DIR *d = opendir(path);
    if (!d) return;
    for (const struct dirent *e; (e = readdir(d));)
        if (is_ours(e->d_name, prefix)) remove_dead(dirfd(d), path, e->d_name);
    closedir(d);
}

/* ---- making one ---- */

/* False: errno says why. */
static bool make(const char *path, mode_t mode, int *fd) {
    if (S_ISDIR(mode)) {
        if (mkdir(path, mode & 0777) != 0) return false;
        *fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (*fd >= 0 || errno == ENOENT) return true; /* the latter: taken for dead already */
        int why = errno;
        rmdir(path);
        errno = why;
        return false;
    }
    *fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, mode & 0777);
    return *fd >= 0;
}

/* Locks the temporary. Between its creation and its lock another process may have taken it for
 * dead: then it no longer exists, or is about to be removed. Where files cannot be locked, nobody
 * takes it for dead either. */
static bool hold(int fd) {
    struct stat st;
    if (fd < 0) return false;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;
    return fstat(fd, &st) == 0 && st.st_nlink > 0;
}

int dl_temporary_open(const char *target, mode_t mode, const char *name, char **path,
                      dl_error *err) {
    enum { TRIES = 100 };
    char dir[PATH_MAX], whole[PATH_MAX + NAME + 1], own[NAME];
    if (!dl_parent_dir(target, dir, sizeof dir))
        return dl_fail(err, DL_IO, "path too long: %.100s...", name), -1;
    char *kept = malloc(sizeof whole); /* first: a file that cannot be named is not made */
    if (!kept) return dl_fail(err, DL_RESOURCE, "no memory to write %s", name), -1;
    dl_temporary_sweep(dir);
    for (int i = 0; i < TRIES; i++) {
        int fd;
        put_name(own);
        snprintf(whole, sizeof whole, "%s/%s", dir, own);
        if (!make(whole, mode, &fd)) {
            if (errno == EEXIST) continue;
            break;
        }
        if (hold(fd)) return *path = strcpy(kept, whole), fd;
        if (fd >= 0) close(fd);
        S_ISDIR(mode) ? rmdir(whole) : unlink(whole);
        errno = EAGAIN;
    }
    dl_fail_errno(err, DL_IO, "cannot write %s", name);
    free(kept);
    return -1;
}
