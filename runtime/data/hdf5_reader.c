/* Data sets that only libhdf5 can unpack: it reads them in a child that stays, under limits on memory and
 * time. */
#include "ir/base/sandbox.h"
#include "runtime/data/hdf5_source.h"

#include <errno.h>
#include <hdf5.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CPU_SECONDS = 20 };

struct dlr_reader {
    pthread_mutex_t lock; /* one question at a time */
    const char *label;
    int fd; /* our end of the socket; -1 once the child is lost */
    pid_t child;
};

/* The answer to a block that is asked for; the numbers follow when `ok`. */
typedef struct {
    bool ok;
    char reason[200];
} answer;

/* ---- in the child ---- */

static hid_t open_set(const char *path, const char *name, size_t cache) {
    const size_t cache_slots = 12421;
    dlr_hdf5_quiet();
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), chunks = H5Pcreate(H5P_DATASET_ACCESS);
    H5Pset_file_locking(access, false, true);
    H5Pset_chunk_cache(chunks, cache_slots, cache, 1.0);
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, access);
    return file < 0 ? file : H5Dopen2(file, name, chunks);
}

static bool read_block(hid_t set, const dlr_block *q, float *out) {
    hsize_t start[4], count[4];
    for (int i = 0; i < 4; i++) start[i] = (hsize_t)q->start[i], count[i] = (hsize_t)q->count[i];
    hid_t from = H5Dget_space(set), to = H5Screate_simple(4, count, NULL);
    bool ok = from >= 0 && to >= 0 &&
              H5Sselect_hyperslab(from, H5S_SELECT_SET, start, NULL, count, NULL) >= 0 &&
              H5Dread(set, H5T_NATIVE_FLOAT, to, from, H5P_DEFAULT, out) >= 0;
    if (to >= 0) H5Sclose(to);
    if (from >= 0) H5Sclose(from);
    return ok;
}

static size_t block_bytes(const dlr_block *q) {
    size_t n = sizeof(float);
    for (int i = 0; i < 4; i++) n *= (size_t)q->count[i];
    return n;
}

/* Answers until the parent is gone. */
_Noreturn static void serve(int fd, const char *path, const char *name, size_t cache) {
    fd = dl_sandbox_enter(fd);
    dl_sandbox_allow(CPU_SECONDS);
    answer a = {0};
    hid_t set = open_set(path, name, cache);
    a.ok = set >= 0;
    if (!a.ok) dlr_hdf5_reason(a.reason, sizeof a.reason);
    bool there = dl_send_bytes(fd, &a, sizeof a);
    for (dlr_block q; there && set >= 0;) {
        dl_sandbox_allow(0);
        if (!dl_receive_bytes(fd, &q, sizeof q)) break;
        dl_sandbox_allow(CPU_SECONDS);
        float *out = malloc(block_bytes(&q));
        a = (answer){.reason = "no memory"};
        a.ok = out && read_block(set, &q, out);
        if (out && !a.ok) dlr_hdf5_reason(a.reason, sizeof a.reason);
        there = dl_send_bytes(fd, &a, sizeof a) && (!a.ok || dl_send_bytes(fd, out, block_bytes(&q)));
        free(out);
    }
    _exit(0);
}

/* ---- in this process ---- */

/* The child is lost: why, and no more questions. */
static bool lose(dlr_reader *r, dl_error *err) {
    char why[160];
    int status = -1;
    pid_t ended;
    close(r->fd);
    r->fd = -1;
    while ((ended = waitpid(r->child, &status, 0)) < 0 && errno == EINTR) {
    }
    dl_sandbox_fate(ended < 0 ? -1 : status, why, sizeof why);
    return dl_fail(err, DL_INPUT, "cannot read %s: %s", r->label, why);
}

static bool receive_answer(dlr_reader *r, const char *what, dl_error *err) {
    answer a;
    if (!dl_receive_bytes(r->fd, &a, sizeof a)) return lose(r, err);
    a.reason[sizeof a.reason - 1] = 0;
    return a.ok || dl_fail(err, DL_INPUT, "cannot %s %s: %s", what, r->label, a.reason);
}

dlr_reader *dlr_reader_open(const char *path, const char *set, const char *label, size_t cache,
                            dl_error *err) {
    int ends[2];
    dlr_reader *r = calloc(1, sizeof *r);
    if (!r) return dl_fail(err, DL_RESOURCE, "no memory to open %s", path), NULL;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        dl_fail_errno(err, DL_RESOURCE, "cannot start a process to read %s", path);
        free(r);
        return NULL;
    }
    *r = (dlr_reader){.lock = PTHREAD_MUTEX_INITIALIZER, .label = label, .fd = ends[0], .child = fork()};
    if (r->child == 0) serve(ends[1], path, set, cache);
    close(ends[1]);
    if (r->child < 0) {
        dl_fail_errno(err, DL_RESOURCE, "cannot start a process to read %s", path);
        close(r->fd), r->fd = -1;
    }
    if (r->child > 0 && receive_answer(r, "open", err)) return r;
    dlr_reader_close(r);
    return NULL;
}

bool dlr_reader_read(dlr_reader *r, const dlr_block *q, float *out, dl_error *err) {
    pthread_mutex_lock(&r->lock);
    bool ok = r->fd >= 0 || dl_fail(err, DL_INPUT, "cannot read %s: its reader was lost", r->label);
    if (ok) ok = dl_send_bytes(r->fd, q, sizeof *q) || lose(r, err);
    ok = ok && receive_answer(r, "read", err);
    if (ok) ok = dl_receive_bytes(r->fd, out, block_bytes(q)) || lose(r, err);
    pthread_mutex_unlock(&r->lock);
    return ok;
}

void dlr_reader_close(dlr_reader *r) {
    if (!r) return;
    if (r->fd >= 0) {
        close(r->fd); /* which ends it */
        while (waitpid(r->child, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    pthread_mutex_destroy(&r->lock);
    free(r);
}
