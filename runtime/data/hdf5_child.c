/* Sets that only libhdf5 can unpack. A child process reads them and stays alive, under limits: 2
 * GiB of memory, and for each block 20 s of processor time and 80 s in all. */
#include "ir/base/file_calls.h"
#include "ir/base/input.h"
#include "ir/base/sandbox.h"
#include "runtime/data/array_format.h"
#include "runtime/data/hdf5_facts.h"

#include <errno.h>
#include <hdf5.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CPU_SECONDS = 20, MAX_PACKED = 1 << 30 };

typedef struct {
    pthread_mutex_t lock; /* one request at a time */
    int fd;               /* this process' end of the socket; -1 when the child is lost */
    pid_t child;
    dlr_element as;
} reader;

typedef struct {
    bool packed; /* request the packed chunk at block.start; otherwise the block */
    int rank;
    dlr_element as;
    dlr_block block;
} question;

/* The answer to a request; `bytes` of data follow when `ok`. */
typedef struct {
    bool ok;
    char reason[200];
    uint64_t bytes;
    uint32_t skipped;
    dl_file_calls calls; /* file system calls of the child, which count as this process' own */
} answer;

/* ---- in the child ---- */

static hid_t open_set(const char *path, const char *name, size_t cache) {
    const size_t cache_slots = 12421;
    dlr_hdf5_quiet();
    hid_t chunks = H5Pcreate(H5P_DATASET_ACCESS);
    H5Pset_chunk_cache(chunks, cache_slots, cache, 1.0);
    hid_t file = dlr_hdf5_open(path);
    return file < 0 ? file : H5Dopen2(file, name, chunks);
}

/* Enumerations are read in their stored form, since libhdf5 converts them to no other numbers. */
static hid_t type_of(hid_t set, dlr_element as) {
    const hid_t native[] = {
        [DLR_EL_F32] = H5T_NATIVE_FLOAT,  [DLR_EL_F64] = H5T_NATIVE_DOUBLE,
        [DLR_EL_I8] = H5T_NATIVE_INT8,    [DLR_EL_I16] = H5T_NATIVE_INT16,
        [DLR_EL_I32] = H5T_NATIVE_INT32,  [DLR_EL_I64] = H5T_NATIVE_INT64,
        [DLR_EL_U8] = H5T_NATIVE_UINT8,   [DLR_EL_U16] = H5T_NATIVE_UINT16,
        [DLR_EL_U32] = H5T_NATIVE_UINT32, [DLR_EL_U64] = H5T_NATIVE_UINT64,
        [DLR_EL_BOOL] = H5T_NATIVE_INT8,
    };
    hid_t type = H5Dget_type(set);
    return H5Tget_class(type) == H5T_ENUM ? H5Tget_native_type(type, H5T_DIR_ASCEND) : native[as];
}

static bool read_block(hid_t set, const question *q, void *out) {
    hsize_t start[DLR_ARRAY_RANK], count[DLR_ARRAY_RANK], stride[DLR_ARRAY_RANK];
    for (int i = 0; i < q->rank; i++)
        start[i] = (hsize_t)q->block.start[i], count[i] = (hsize_t)q->block.count[i],
        stride[i] = (hsize_t)q->block.stride[i];
    hid_t from = H5Dget_space(set), type = type_of(set, q->as);
    hid_t to = q->rank ? H5Screate_simple(q->rank, count, NULL) : H5Screate(H5S_SCALAR);
    bool ok = from >= 0 && to >= 0 && H5Tget_size(type) == dlr_element_bytes(q->as) &&
              (q->rank == 0 ||
               H5Sselect_hyperslab(from, H5S_SELECT_SET, start, stride, count, NULL) >= 0) &&
              H5Dread(set, type, to, from, H5P_DEFAULT, out) >= 0;
    if (to >= 0) H5Sclose(to);
    if (from >= 0) H5Sclose(from);
    return ok;
}

static size_t block_bytes(const question *q) {
    size_t n = dlr_element_bytes(q->as);
    for (int i = 0; i < q->rank; i++) n *= (size_t)q->block.count[i];
    return n;
}

static void *read_numbers(hid_t set, const question *q, answer *a) {
    /* zeroed: libhdf5 leaves elements unset that were never written */
    void *out = calloc(1, block_bytes(q));
    a->bytes = block_bytes(q);
    a->ok = out && read_block(set, q, out);
    return out;
}

/* libhdf5 1.10 fails for a chunk that is not stored. (H5Dget_chunk_info_by_coord does not, but
 * finds another chunk in some indexes: hdf5_chunks.c.) */
static bool is_absent(void) {
    char reason[200];
    dlr_hdf5_reason(reason, sizeof reason);
    return strcmp(reason, "chunk storage is not allocated") == 0;
}

/* Looks the chunk up by its coordinates, as H5Dread does. A chunk that is not stored has no
 * bytes. */
static void *read_packed(hid_t set, const question *q, answer *a) {
    hsize_t start[DLR_ARRAY_RANK], bytes = 0;
    for (int i = 0; i < q->rank; i++) start[i] = (hsize_t)q->block.start[i];
    bool found = H5Dget_chunk_storage_size(set, start, &bytes) >= 0,
         absent = found ? bytes == 0 : is_absent();
    bool read = found && !absent && bytes <= MAX_PACKED;
    void *out = malloc(read ? bytes + 1 : 1);
    read = read && out && H5Dread_chunk(set, H5P_DEFAULT, start, &a->skipped, out) >= 0;
    a->ok = read || (out && absent);
    a->bytes = read ? bytes : 0;
    return out;
}

static dl_file_calls calls_of(const dl_file_calls *before, const dl_file_calls *kernel) {
    dl_file_calls calls = dl_file_calls_since(before), library = dl_file_calls_of_library(kernel);
    dl_file_calls_sum(&calls, &library, 1);
    return calls;
}

/* Answers requests until the parent is gone. */
_Noreturn static void serve(int fd, const char *path, const char *name, size_t cache) {
    fd = dl_sandbox_enter(fd);
    dl_sandbox_allow(CPU_SECONDS);
    answer a = {0};
    dl_file_calls before = dl_file_calls_so_far(), kernel = dl_file_calls_kernel();
    hid_t set = open_set(path, name, cache);
    a.ok = set >= 0, a.calls = calls_of(&before, &kernel);
    if (!a.ok) dlr_hdf5_reason(a.reason, sizeof a.reason);
    bool there = dl_send_bytes(fd, &a, sizeof a);
    for (question q; there && set >= 0;) {
        dl_sandbox_allow(0);
        if (!dl_receive_bytes(fd, &q, sizeof q)) break;
        dl_sandbox_allow(CPU_SECONDS);
        a = (answer){.reason = "no memory"};
        before = dl_file_calls_so_far(), kernel = dl_file_calls_kernel();
        void *out = q.packed ? read_packed(set, &q, &a) : read_numbers(set, &q, &a);
        a.calls = calls_of(&before, &kernel);
        if (out && !a.ok) dlr_hdf5_reason(a.reason, sizeof a.reason);
        there = dl_send_bytes(fd, &a, sizeof a) && (!a.ok || dl_send_bytes(fd, out, a.bytes));
        free(out);
    }
    _exit(0);
}

/* ---- in this process ---- */

/* Records that the child is lost, with the reason; no more requests are sent. */
static bool lose(const dlr_source *s, dl_error *err) {
    reader *r = s->state;
    char why[160];
    int status = -1;
    pid_t ended;
    close(r->fd);
    r->fd = -1;
    while ((ended = waitpid(r->child, &status, 0)) < 0 && errno == EINTR) {
    }
    dl_sandbox_fate(ended < 0 ? -1 : status, why, sizeof why);
    return dl_fail(err, DL_INPUT, "cannot read %s: %s", s->label, why);
}

static bool receive_answer(const dlr_source *s, const char *what, answer *a, dl_error *err) {
    const reader *r = s->state;
    if (!dl_receive_bytes(r->fd, a, sizeof *a)) return lose(s, err);
    a->reason[sizeof a->reason - 1] = 0;
    dl_file_calls_add(&a->calls);
    return a->ok || dl_fail(err, DL_INPUT, "cannot %s %s: %s", what, s->label, a->reason);
}

/* Requests a block into *out, or a packed chunk, which is allocated for the caller to free. */
static bool ask(const dlr_source *s, const question *q, void **out, answer *a, dl_error *err) {
    reader *r = s->state;
    pthread_mutex_lock(&r->lock);
    bool ok = r->fd >= 0 || dl_fail(err, DL_INPUT, "cannot read %s: its reader was lost", s->label);
    if (ok) ok = dl_send_bytes(r->fd, q, sizeof *q) || lose(s, err);
    ok = ok && receive_answer(s, "read", a, err);
    if (ok && (q->packed ? a->bytes > MAX_PACKED : a->bytes != block_bytes(q))) ok = lose(s, err);
    /* no one can receive the child's remaining bytes */
    if (ok && q->packed && a->bytes && !(*out = malloc(a->bytes))) ok = lose(s, err);
    if (ok && a->bytes) ok = dl_receive_bytes(r->fd, *out, a->bytes) || lose(s, err);
    pthread_mutex_unlock(&r->lock);
    return ok;
}

bool dlr_hdf5_child_chunk(const dlr_source *s, const int64_t *start, char **packed, size_t *bytes,
                          uint32_t *skipped, dl_error *err) {
    question q = {.packed = true, .rank = s->rank, .as = s->type};
    answer a;
    void *at = NULL;
    memcpy(q.block.start, start, (size_t)s->rank * sizeof *start);
    bool ok = ask(s, &q, &at, &a, err);
    *packed = at, *bytes = a.bytes, *skipped = a.skipped;
    return ok;
}

static bool read_by_child(const dlr_source *s, const dlr_block *b, dlr_element to, void *out,
                          dl_error *err) {
    const reader *r = s->state;
    const question q = {false, s->rank, r->as, *b};
    answer a;
    if (s->on_paper) { /* dry run: libhdf5 decides what it reads, which is at least this many bytes
                        */
        dl_file_calls_add(&(dl_file_calls){.reads = 1, .bytes = (int64_t)block_bytes(&q)});
        return true;
    }
    if (to == r->as && to != DLR_EL_BOOL) return ask(s, &q, &out, &a, err);
    void *packed = malloc(block_bytes(&q));
    if (!packed) return dl_fail(err, DL_RESOURCE, "no memory to read %s", s->label);
    dlr_element_move m = {
        .rank = s->rank, .from = packed, .from_type = r->as, .to = out, .to_type = to};
    int64_t bad[DLR_ARRAY_RANK];
    double value;
    memcpy(m.count, b->count, sizeof m.count);
    dlr_packed_steps(s->rank, b->count, dlr_element_bytes(r->as), m.from_step);
    dlr_packed_steps(s->rank, b->count, dlr_element_bytes(to), m.to_step);
    bool ok = ask(s, &q, &packed, &a, err) &&
              (dlr_elements_move(&m, bad, &value) || dlr_refuse_number(s, b, bad, value, to, err));
    free(packed);
    return ok;
}

static void close_child(dlr_source *s) {
    reader *r = s->state;
    if (r->fd >= 0) {
        close(r->fd); /* closing the socket ends the child */
        while (waitpid(r->child, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    pthread_mutex_destroy(&r->lock);
    free(r);
}

bool dlr_hdf5_child_open(dlr_source *s, const char *path, const char *set, dlr_element as,
                         size_t cache, dl_error *err) {
    int ends[2];
    if (!dl_check_descriptors(2, path, err)) return false;
    reader *r = s->state = calloc(1, sizeof *r);
    if (!r) return dl_fail(err, DL_RESOURCE, "no memory to open %s", path);
    *r = (reader){.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1, .as = as};
    s->read = read_by_child, s->close = close_child, s->held = (int64_t)cache, s->chunked = true;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return dl_fail_errno(err, DL_RESOURCE, "cannot start a process to read %s", path);
    r->child = fork();
    if (r->child == 0) serve(ends[1], path, set, cache);
    close(ends[1]);
    if (r->child < 0) {
        dl_fail_errno(err, DL_RESOURCE, "cannot start a process to read %s", path);
        close(ends[0]);
        return false;
    }
    r->fd = ends[0];
    answer a;
    return receive_answer(s, "open", &a, err);
}
