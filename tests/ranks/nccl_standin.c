/* A library of the shape of libnccl.so.2 for ranks of one machine on the emulated driver: shared
 * memory in /dev/shm, sums in the order of the ranks. What it does it does as host functions in the
 * stream that it was given, which can be captured. It is stricter than NCCL: communicators that do
 * not block do nothing until they were asked after, addresses must lie in the device's memory, and
 * ranks that call different things are told so. Two threads in one communicator, a call of one that
 * is aborted, and a fork() while there is one end the process. A communicator's first collective of
 * a kind connects the ranks: it allocates memory of the device, which no capture lets it. A stream
 * of a collective has a priority.
 *
 *     NCCL_STANDIN_FAULT=RANK:K   the communicators of that rank fail after their K-th collective
 *     NCCL_STANDIN_SLOW=US        each call of a communicator takes so many microseconds
 *     NCCL_STANDIN_STUCK=1        calls that have begun stay in progress
 *     NCCL_STANDIN_VERSION=21700  the version that it says it is of */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ir/base/hash.h"
#include "tests/ranks/nccl_standin.h"

/* The library's functions are those of the runtime's table. */
#define DECLARE(name, result, arguments) result nccl##name arguments;
DLR_NCCL_FUNCTIONS(DECLARE)

static _Thread_local struct { /* NCCL's is the thread's, too */
    int depth, n;
    int refused; /* the error of a call in it: its end begins none of them */
    struct ncclComm *comms[GROUPED];
} group;

int standin_refuse(struct ncclComm *c, int result, const char *why) {
    if (c) snprintf(c->last, sizeof c->last, "stand-in: %s", why);
    if (group.depth) group.refused = result;
    return result;
}

/* ---- who may call what ---- */

_Noreturn static void die(const char *why) {
    fprintf(stderr, "stand-in for NCCL: %s\n", why);
    abort();
}

extern atomic_int standin_calls;
atomic_int standin_calls; /* calls of communicators that have begun, for comm_device.c */

/* NCCL's communicators are no matter of two threads at a time, and an abort frees them. */
static void enter(struct ncclComm *c) {
    standin_calls++;
    if (c->aborted) die("a call of a communicator that is aborted");
    if (atomic_fetch_add(&c->callers, 1)) die("two threads call one communicator");
    long slow = number("NCCL_STANDIN_SLOW", 0);
    if (slow) usleep((useconds_t)slow);
}

static int leave(struct ncclComm *c, int result) {
    atomic_fetch_sub(&c->callers, 1);
    return result;
}

/* A child would share what NCCL has registered with network cards. */
static atomic_int communicators;
static void before_fork(void) {
    if (communicators) die("a fork() of a process whose memory is registered");
}

/* ---- communicators ---- */

int ncclGetVersion(int *version) {
    return *version = (int)number("NCCL_STANDIN_VERSION", 22809), 0;
}

int ncclGetUniqueId(dlr_nccl_id *id) {
    unsigned char noise[16];
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    bool ok = fd >= 0 && read(fd, noise, sizeof noise) == sizeof noise;
    if (fd >= 0) close(fd);
    memset(id, 0, sizeof *id);
    for (int i = 0; i < 8; i++) snprintf(id->bytes + 2 * i, 3, "%02x", noise[i]);
    return ok ? 0 : SYSTEM;
}

static struct ncclComm *new_comm(const char *name, int rank, int n, bool blocking) {
    struct ncclComm *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    snprintf(c->name, sizeof c->name, "/dev/shm/nccl-standin-%s", name);
    c->rank = rank, c->n = n, c->blocking = blocking;
    int fd = open(c->name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    size_t bytes = HEAD + (size_t)n * CHUNK;
    if (fd < 0 || ftruncate(fd, (off_t)bytes)) return NULL;
    c->s = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (c->s == MAP_FAILED) return NULL;
    atomic_fetch_add(&c->s->arrived, 1);
    static atomic_bool watched;
    if (!atomic_exchange(&watched, true)) pthread_atfork(before_fork, NULL, NULL);
    communicators++;
    return c;
}

static bool come(struct ncclComm *c) {
    if (!c->there && c->s->arrived >= (unsigned)c->n) c->there = true;
    if (c->there && !c->gone && c->rank == 0) unlink(c->name);
    if (c->there) c->gone = true;
    return c->there;
}

int ncclCommInitRankConfig(dlr_nccl_comm *comm, int n, dlr_nccl_id id, int rank,
                           dlr_nccl_config *config) {
    if (n < 1 || n > MOST || rank < 0 || rank >= n || !config || config->magic != 0xcafebeef ||
        config->size < sizeof *config || !driver())
        return DLR_NCCL_INVALID_ARGUMENT;
    if (!(*comm = new_comm(id.bytes, rank, n, config->blocking != 0))) return SYSTEM;
    for (int spins = 0; (*comm)->blocking && !come(*comm);) standin_pause(&spins);
    return (*comm)->blocking ? 0 : DLR_NCCL_IN_PROGRESS;
}

static int split(dlr_nccl_comm c, int color, int key, dlr_nccl_comm *to, dlr_nccl_config *config) {
    if (!c->there || c->pending.n || c->splitting.to || c->splits == SPLITS || config)
        return standin_refuse(c, DLR_NCCL_INVALID_USAGE,
                              "a split of a communicator that is not ready, or with settings");
    *to = NULL;
    c->s->split[c->splits].color[c->rank] = color, c->s->split[c->splits].key[c->rank] = key;
    atomic_fetch_add(&c->s->split[c->splits].arrived, 1);
    c->splitting.to = to, c->splitting.number = c->splits++, c->splitting.color = color;
    return DLR_NCCL_IN_PROGRESS;
}

int ncclCommSplit(dlr_nccl_comm c, int color, int key, dlr_nccl_comm *to, dlr_nccl_config *config) {
    return enter(c), leave(c, split(c, color, key, to, config));
}

/* Once all have said their colours; 0, or what went wrong. */
static int finish_split(struct ncclComm *c) {
    int k = c->splitting.number, color = c->splitting.color, n = 0, me = 0;
    if (c->s->split[k].arrived < (unsigned)c->n) return DLR_NCCL_IN_PROGRESS;
    const int *colors = c->s->split[k].color, *keys = c->s->split[k].key;
    for (int r = 0; r < c->n; r++) {
        if (colors[r] != color) continue;
        n++;
        me += keys[r] < keys[c->rank] || (keys[r] == keys[c->rank] && r < c->rank);
    }
    char name[40]; /* not of the parent's alone: a split may be split */
    snprintf(name, sizeof name, "%016llx-%d-%d", (unsigned long long)dl_hash_str(c->name, 0), k,
             color);
    dlr_nccl_comm *to = c->splitting.to;
    c->splitting.to = NULL;
    if (color == DLR_NCCL_NO_COLOR) return 0;
    return (*to = new_comm(name, me, n, c->blocking)) ? 0 : SYSTEM;
}

/* ---- into a stream ---- */

/* Jobs that were launched: a graph that has captured one runs it again. */
static _Atomic(job *) kept;

static int launch(struct ncclComm *c) {
    int result = 0;
    for (int i = 0; i < c->pending.n; i++) {
        job *j = c->pending.at[i];
        j->next = atomic_exchange(&kept, j);
        if (driver()->LaunchHostFunc(j->stream, standin_run, j)) result = DLR_NCCL_CUDA_ERROR;
    }
    c->pending.n = 0;
    return result;
}

static void drop_pending(struct ncclComm *c) {
    for (int i = 0; i < c->pending.n; i++) free(c->pending.at[i]);
    c->pending.n = 0;
}

static bool connect_ranks(struct ncclComm *c, kind k) {
    return c->buffers[k] || driver()->MemAlloc(&c->buffers[k], BUFFER) == 0;
}

static int put(struct ncclComm *c, job j, size_t in, size_t out) {
    size_t e = standin_knows(j.type) ? (size_t)dl_dtype_bytes(standin_type(j.type)) : 0;
    if (!e || j.root < 0 || j.root >= c->n || (j.op != DLR_NCCL_SUM && j.op != DLR_NCCL_MAX))
        return standin_refuse(c, DLR_NCCL_INVALID_ARGUMENT,
                              "a type, operation or root that there is not");
    if ((in && !memory(j.from, in * e)) || (out && !memory(j.to, out * e)))
        return standin_refuse(c, DLR_NCCL_INVALID_ARGUMENT, "an address that is not the device's");
    bool grouped = group.depth > 0;
    if (!come(c) || c->splitting.to || (c->pending.n && !grouped))
        return standin_refuse(c, DLR_NCCL_INVALID_USAGE, "a communicator that is not ready");
    if (emulator()->priority(j.stream) >= 0)
        return standin_refuse(c, DLR_NCCL_INVALID_USAGE,
                              "a stream that has no priority: it waits for kernels");
    if (!connect_ranks(c, j.kind))
        return standin_refuse(c, DLR_NCCL_CUDA_ERROR,
                              "no memory of the device to connect the ranks");
    job *own = malloc(sizeof *own);
    if (!own) return SYSTEM;
    *own = j, own->comm = c;
    if (c->pending.n == c->pending.cap) {
        c->pending.cap = 2 * c->pending.cap + 16;
        c->pending.at = realloc(c->pending.at, (size_t)c->pending.cap * sizeof(job *));
        if (!c->pending.at) return SYSTEM;
    }
    c->pending.at[c->pending.n++] = own;
    bool known = false;
    for (int i = 0; i < group.n; i++) known |= group.comms[i] == c;
    if (grouped && !known && group.n < GROUPED) group.comms[group.n++] = c;
    return grouped ? 0 : c->blocking ? launch(c) : DLR_NCCL_IN_PROGRESS;
}

static int add(struct ncclComm *c, job j, size_t in, size_t out) {
    return enter(c), leave(c, put(c, j, in, out));
}

#define ADDRESS(p) ((uint64_t)(uintptr_t)(p))
int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, dlr_nccl_comm c,
                  dlr_cu_stream s) {
    return add(c,
               (job){.kind = ALL_REDUCE,
                     .from = ADDRESS(from),
                     .to = ADDRESS(to),
                     .count = count,
                     .type = type,
                     .op = op,
                     .root = 0,
                     .comm = c,
                     .stream = s},
               count, count);
}
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, dlr_nccl_comm c,
                  dlr_cu_stream s) {
    return add(c,
               (job){.kind = BROADCAST,
                     .from = ADDRESS(from),
                     .to = ADDRESS(to),
                     .count = count,
                     .type = type,
                     .op = 0,
                     .root = root,
                     .comm = c,
                     .stream = s},
               c->rank == root ? count : 0, count);
}
int ncclReduce(const void *from, void *to, size_t count, int type, int op, int root,
               dlr_nccl_comm c, dlr_cu_stream s) {
    return add(c,
               (job){.kind = REDUCE,
                     .from = ADDRESS(from),
                     .to = ADDRESS(to),
                     .count = count,
                     .type = type,
                     .op = op,
                     .root = root,
                     .comm = c,
                     .stream = s},
               count, c->rank == root ? count : 0);
}
int ncclAllGather(const void *from, void *to, size_t own, int type, dlr_nccl_comm c,
                  dlr_cu_stream s) {
    return add(c,
               (job){.kind = ALL_GATHER,
                     .from = ADDRESS(from),
                     .to = ADDRESS(to),
                     .count = own,
                     .type = type,
                     .op = 0,
                     .root = 0,
                     .comm = c,
                     .stream = s},
               own, own * (size_t)c->n);
}
int ncclReduceScatter(const void *from, void *to, size_t own, int type, int op, dlr_nccl_comm c,
                      dlr_cu_stream s) {
    return add(c,
               (job){.kind = REDUCE_SCATTER,
                     .from = ADDRESS(from),
                     .to = ADDRESS(to),
                     .count = own,
                     .type = type,
                     .op = op,
                     .root = 0,
                     .comm = c,
                     .stream = s},
               own * (size_t)c->n, own);
}

/* In a group of one of each, which every rank of the communicator calls: that is how a ring does.
 */
int ncclSend(const void *from, size_t count, int type, int peer, dlr_nccl_comm c, dlr_cu_stream s) {
    job j = {.kind = EXCHANGE,
             .from = ADDRESS(from),
             .count = count,
             .type = type,
             .root = peer,
             .giver = -1,
             .comm = c,
             .stream = s};
    if (!group.depth) return standin_refuse(c, DLR_NCCL_INVALID_USAGE, "a message outside a group");
    return add(c, j, count, 0);
}
static int receive(void *to, size_t count, int type, int peer, dlr_nccl_comm c, dlr_cu_stream s) {
    job *j = c->pending.n ? c->pending.at[c->pending.n - 1] : NULL;
    if (!group.depth || !j || j->kind != EXCHANGE || j->giver >= 0 || j->type != type ||
        j->stream != s)
        return standin_refuse(c, DLR_NCCL_INVALID_USAGE,
                              "a message that is not the other half of one");
    if (peer < 0 || peer >= c->n ||
        (count && !memory(ADDRESS(to), count * (size_t)dl_dtype_bytes(standin_type(type)))))
        return standin_refuse(c, DLR_NCCL_INVALID_ARGUMENT,
                              "a rank or an address that there is not");
    j->to = ADDRESS(to), j->come = count, j->giver = peer;
    return 0;
}

int ncclRecv(void *to, size_t count, int type, int peer, dlr_nccl_comm c, dlr_cu_stream s) {
    return enter(c), leave(c, receive(to, count, type, peer, c, s));
}

int ncclGroupStart(void) { return group.depth++, 0; }
int ncclGroupEnd(void) {
    int result = 0;
    if (group.depth == 0) return DLR_NCCL_INVALID_USAGE;
    if (--group.depth > 0) return 0;
    if ((result = group.refused)) {
        for (int i = 0; i < group.n; i++) drop_pending(group.comms[i]);
        return group.n = group.refused = 0, result;
    }
    for (int i = 0; i < group.n; i++) {
        struct ncclComm *c = group.comms[i];
        enter(c);
        if (!c->blocking)
            result = DLR_NCCL_IN_PROGRESS;
        else if (launch(c))
            result = DLR_NCCL_CUDA_ERROR;
        leave(c, 0);
    }
    return group.n = 0, result;
}

/* ---- its state, and the end ---- */

static int state_of(struct ncclComm *c) {
    return c->error          ? c->error
           : !come(c)        ? DLR_NCCL_IN_PROGRESS
           : c->splitting.to ? finish_split(c)
           : c->pending.n && !group.depth
               ? number("NCCL_STANDIN_STUCK", 0) ? DLR_NCCL_IN_PROGRESS : launch(c)
               : 0;
}

int ncclCommGetAsyncError(dlr_nccl_comm c, int *error) {
    enter(c);
    *error = state_of(c);
    return leave(c, 0);
}

int ncclCommFinalize(dlr_nccl_comm c) {
    return enter(c), leave(c, c->there && !c->pending.n ? 0 : DLR_NCCL_INVALID_USAGE);
}
int ncclCommDestroy(dlr_nccl_comm c) {
    enter(c);
    communicators--;
    for (int k = 0; k < KINDS; k++)
        if (c->buffers[k]) driver()->MemFree(c->buffers[k]);
    munmap(c->s, HEAD + (size_t)c->n * CHUNK);
    return 0; /* the rest is kept: what was captured points to it */
}
int ncclCommAbort(dlr_nccl_comm c) {
    c->aborted = true;
    if (c->callers) die("an abort while another thread calls the communicator");
    while (c->running) usleep(50);
    communicators--;
    if (!c->gone) unlink(c->name);
    return 0;
}

const char *ncclGetErrorString(int result) {
    static const char *const texts[] = {"no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    return result >= 0 && result < 8 ? texts[result] : "unknown result code";
}
const char *ncclGetLastError(dlr_nccl_comm c) {
    if (c) enter(c), leave(c, 0);
    return c ? c->last : "";
}
