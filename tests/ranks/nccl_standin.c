/* A library of the shape of libnccl.so.2 for ranks of one machine on the emulated driver: shared
 * memory in /dev/shm, sums in the order of the ranks. What it does it does as host functions in the
 * stream that it was given, which can be captured. It is stricter than NCCL: communicators that do
 * not block do nothing until they were asked after, addresses must lie in the device's memory, and
 * ranks that call different things are told so.
 *
 *     NCCL_STANDIN_FAULT=RANK:K   the communicators of that rank fail after their K-th collective
 *     NCCL_STANDIN_VERSION=21700  the version that it says it is of */
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ir/base/hash.h"
#include "runtime/comm/nccl.h"
#include "tests/cuda/standin.h"

/* The library's functions are those of the runtime's table. */
#define DECLARE(name, result, arguments) result nccl##name arguments;
DLR_NCCL_FUNCTIONS(DECLARE)

enum { MOST = 64, SPLITS = 64, CHUNK = 1 << 18, HEAD = 1 << 16, GROUPED = 64 };
enum { UNHANDLED = 1, SYSTEM = 2 };
typedef enum { ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, EXCHANGE } kind;

typedef struct {
    _Atomic unsigned arrived;      /* ranks that have come */
    _Atomic unsigned count, phase; /* of the barrier */
    struct {
        _Atomic unsigned arrived;
        int color[MOST], key[MOST];
    } split[SPLITS];
    uint64_t called[MOST]; /* what each rank calls, as a number */
} shared;
_Static_assert(sizeof(shared) <= HEAD, "the head has room");

typedef struct {
    kind kind;
    uint64_t from, to;
    size_t count, come; /* come: of EXCHANGE, from rank `giver` */
    int type, op, root, giver;
    struct ncclComm *comm;
    dlr_cu_stream stream;
} job;

struct ncclComm {
    char name[64]; /* of the file */
    int rank, n, splits;
    shared *s;
    bool blocking, there; /* all have come */
    bool gone;            /* and the file's name */
    struct {
        dlr_nccl_comm *to;
        int number, color;
    } splitting;
    DL_ARRAY(job *) pending;
    int64_t done;
    _Atomic int error;
    _Atomic bool aborted, running;
    char last[200];
};

static struct {
    int depth, n;
    struct ncclComm *comms[GROUPED];
} group;

static int refuse(struct ncclComm *c, int result, const char *why) {
    if (c) snprintf(c->last, sizeof c->last, "stand-in: %s", why);
    return result;
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
    return c;
}

static void pause_for(int *spins) {
    if (++*spins < 200)
        sched_yield();
    else
        usleep(50);
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
    for (int spins = 0; (*comm)->blocking && !come(*comm);) pause_for(&spins);
    return (*comm)->blocking ? 0 : DLR_NCCL_IN_PROGRESS;
}

int ncclCommSplit(dlr_nccl_comm c, int color, int key, dlr_nccl_comm *to, dlr_nccl_config *config) {
    if (!c->there || c->pending.n || c->splitting.to || c->splits == SPLITS || config)
        return refuse(c, DLR_NCCL_INVALID_USAGE,
                      "a split of a communicator that is not ready, or with settings");
    *to = NULL;
    c->s->split[c->splits].color[c->rank] = color, c->s->split[c->splits].key[c->rank] = key;
    atomic_fetch_add(&c->s->split[c->splits].arrived, 1);
    c->splitting.to = to, c->splitting.number = c->splits++, c->splitting.color = color;
    return DLR_NCCL_IN_PROGRESS;
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

/* ---- what a collective does ---- */

static bool barrier(struct ncclComm *c) {
    unsigned phase = c->s->phase;
    int spins = 0;
    if (atomic_fetch_add(&c->s->count, 1) + 1 == (unsigned)c->n) {
        c->s->count = 0;
        atomic_fetch_add(&c->s->phase, 1);
        return !c->aborted;
    }
    while (c->s->phase == phase && !c->aborted) pause_for(&spins);
    return !c->aborted;
}

static dl_dtype type_of(int type) {
    static const dl_dtype types[] = {
        [DLR_NCCL_INT32] = DL_I32,   [DLR_NCCL_INT64] = DL_I64,   [DLR_NCCL_FLOAT16] = DL_F16,
        [DLR_NCCL_FLOAT32] = DL_F32, [DLR_NCCL_FLOAT64] = DL_F64, [DLR_NCCL_BFLOAT16] = DL_BF16};
    return types[type];
}
static bool knows(int type) {
    return type == DLR_NCCL_INT32 || type == DLR_NCCL_INT64 ||
           (type >= DLR_NCCL_FLOAT16 && type <= DLR_NCCL_BFLOAT16);
}

static char *slot(const struct ncclComm *c, int rank) {
    return (char *)c->s + HEAD + (size_t)rank * CHUNK;
}

/* `count` elements at `from` of those that have some, a chunk at a time: each to all. Then the
 * elements of one rank, or their sum, go to `to` of those who want them. giver, wanter: a rank, or
 * -1: all. */
static bool pass_on(const job *j, const char *from, char *to, size_t count, int giver, int wanter) {
    struct ncclComm *c = j->comm;
    dl_dtype type = type_of(j->type);
    size_t e = (size_t)dl_dtype_bytes(type), most = CHUNK / e;
    for (size_t at = 0; at < count; at += most) {
        size_t n = count - at < most ? count - at : most;
        if (giver < 0 || giver == c->rank) memcpy(slot(c, c->rank), from + at * e, n * e);
        if (!barrier(c)) return false;
        if (wanter < 0 || wanter == c->rank) {
            const void *parts[MOST];
            for (int r = 0; r < c->n; r++) parts[r] = slot(c, r);
            if (giver >= 0)
                memcpy(to + at * e, slot(c, giver), n * e);
            else
                dlr_sum(type, j->op == DLR_NCCL_MAX, (int64_t)n, c->n, parts, to + at * e);
        }
        if (!barrier(c)) return false;
    }
    return true;
}

/* Each rank's elements lie in its slot, a chunk at a time, and are taken by whom they are for.
 * `called` says for whom, and how many. */
static bool exchange(const job *j, const char *from, char *to) {
    struct ncclComm *c = j->comm;
    size_t e = (size_t)dl_dtype_bytes(type_of(j->type)), most = CHUNK / e, longest = 0;
    c->s->called[c->rank] = (uint64_t)j->count << 8 | (uint64_t)j->root;
    if (!barrier(c)) return false;
    for (int r = 0; r < c->n; r++)
        longest = c->s->called[r] >> 8 > longest ? c->s->called[r] >> 8 : longest;
    if (c->s->called[j->giver] != ((uint64_t)j->come << 8 | (uint64_t)c->rank))
        c->error = refuse(c, DLR_NCCL_INVALID_USAGE, "a message that nobody sends so");
    for (size_t at = 0; at < longest; at += most) {
        size_t left = j->count > at ? j->count - at : 0, want = j->come > at ? j->come - at : 0;
        if (left) memcpy(slot(c, c->rank), from + at * e, (left < most ? left : most) * e);
        if (!barrier(c)) return false;
        if (want && !c->error)
            memcpy(to + at * e, slot(c, j->giver), (want < most ? want : most) * e);
        if (!barrier(c)) return false;
    }
    return barrier(c);
}

static bool all_call_this(const job *j) {
    struct ncclComm *c = j->comm;
    bool pairs = j->kind == EXCHANGE;
    uint64_t words[] = {j->kind, pairs ? 0 : j->count, (uint64_t)j->type, (uint64_t)j->op,
                        pairs ? 0 : (uint64_t)j->root};
    c->s->called[c->rank] = dl_hash(words, sizeof words, 0);
    if (!barrier(c)) return false;
    bool same = true;
    for (int r = 0; r < c->n; r++) same &= c->s->called[r] == c->s->called[c->rank];
    if (!same) c->error = refuse(c, DLR_NCCL_INVALID_USAGE, "the ranks call different collectives");
    return barrier(c) && same;
}

static void carry_out(const job *j) {
    struct ncclComm *c = j->comm;
    size_t e = (size_t)dl_dtype_bytes(type_of(j->type)), n = (size_t)c->n, own = j->count * e;
    size_t in = own * (j->kind == REDUCE_SCATTER ? n : 1),
           out = own * (j->kind == ALL_GATHER ? n : 1);
    if (j->kind == EXCHANGE) out = j->come * e;
    const char *from = memory(j->from, in);
    char *to = memory(j->to, out);
    if (!all_call_this(j)) return;
    switch (j->kind) {
    case ALL_REDUCE: pass_on(j, from, to, j->count, -1, -1); break;
    case REDUCE: pass_on(j, from, to, j->count, -1, j->root); break;
    case BROADCAST: pass_on(j, from, to, j->count, j->root, -1); break;
    case EXCHANGE: exchange(j, from, to); break;
    case ALL_GATHER:
        for (int r = 0; r < c->n && pass_on(j, from, to + (size_t)r * own, j->count, r, -1); r++) {
        }
        break;
    case REDUCE_SCATTER:
        for (int r = 0; r < c->n && pass_on(j, from + (size_t)r * own, to, j->count, -1, r); r++) {
        }
        break;
    }
}

static void run(void *of) {
    const job *j = of;
    struct ncclComm *c = j->comm;
    c->running = true;
    if (!c->aborted && !c->error) carry_out(j);
    c->running = false;
    const char *fault = getenv("NCCL_STANDIN_FAULT");
    int rank, number;
    c->done++;
    if (fault && sscanf(fault, "%d:%d", &rank, &number) == 2 && rank == c->rank &&
        c->done >= number)
        c->error = refuse(c, DLR_NCCL_REMOTE_ERROR, "a fault that was asked for");
}

/* ---- into a stream ---- */

static int launch(struct ncclComm *c) {
    int result = 0;
    for (int i = 0; i < c->pending.n; i++) {
        job *j = c->pending.at[i]; /* kept: what was captured runs it again */
        if (driver()->LaunchHostFunc(j->stream, run, j)) result = UNHANDLED;
    }
    c->pending.n = 0;
    return result;
}

static int add(struct ncclComm *c, job j, size_t in, size_t out) {
    size_t e = knows(j.type) ? (size_t)dl_dtype_bytes(type_of(j.type)) : 0;
    if (!e || j.root < 0 || j.root >= c->n || (j.op != DLR_NCCL_SUM && j.op != DLR_NCCL_MAX))
        return refuse(c, DLR_NCCL_INVALID_ARGUMENT, "a type, operation or root that there is not");
    if ((in && !memory(j.from, in * e)) || (out && !memory(j.to, out * e)))
        return refuse(c, DLR_NCCL_INVALID_ARGUMENT, "an address that is not the device's");
    bool grouped = group.depth > 0;
    if (!come(c) || c->splitting.to || (c->pending.n && !grouped))
        return refuse(c, DLR_NCCL_INVALID_USAGE, "a communicator that is not ready");
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
    if (!group.depth) return refuse(c, DLR_NCCL_INVALID_USAGE, "a message outside a group");
    return add(c, j, count, 0);
}
int ncclRecv(void *to, size_t count, int type, int peer, dlr_nccl_comm c, dlr_cu_stream s) {
    job *j = c->pending.n ? c->pending.at[c->pending.n - 1] : NULL;
    if (!group.depth || !j || j->kind != EXCHANGE || j->giver >= 0 || j->type != type ||
        j->stream != s)
        return refuse(c, DLR_NCCL_INVALID_USAGE, "a message that is not the other half of one");
    if (peer < 0 || peer >= c->n ||
        (count && !memory(ADDRESS(to), count * (size_t)dl_dtype_bytes(type_of(type)))))
        return refuse(c, DLR_NCCL_INVALID_ARGUMENT, "a rank or an address that there is not");
    j->to = ADDRESS(to), j->come = count, j->giver = peer;
    return 0;
}

int ncclGroupStart(void) { return group.depth++, 0; }
int ncclGroupEnd(void) {
    int result = 0;
    if (group.depth == 0) return DLR_NCCL_INVALID_USAGE;
    if (--group.depth > 0) return 0;
    for (int i = 0; i < group.n; i++)
        if (!group.comms[i]->blocking)
            result = DLR_NCCL_IN_PROGRESS;
        else if (launch(group.comms[i]))
            result = UNHANDLED;
    return group.n = 0, result;
}

/* ---- its state, and the end ---- */

int ncclCommGetAsyncError(dlr_nccl_comm c, int *error) {
    *error = c->error;
    if (*error) return 0;
    if (!come(c))
        *error = DLR_NCCL_IN_PROGRESS;
    else if (c->splitting.to)
        *error = finish_split(c);
    else if (c->pending.n && !group.depth)
        *error = launch(c);
    return 0;
}

int ncclCommFinalize(dlr_nccl_comm c) {
    return c->there && !c->pending.n ? 0 : DLR_NCCL_INVALID_USAGE;
}
int ncclCommDestroy(dlr_nccl_comm c) {
    munmap(c->s, HEAD + (size_t)c->n * CHUNK);
    return 0; /* the rest is kept: what was captured points to it */
}
int ncclCommAbort(dlr_nccl_comm c) {
    c->aborted = true;
    while (c->running) usleep(50);
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
const char *ncclGetLastError(dlr_nccl_comm c) { return c ? c->last : ""; }
