/* The stand-in's collectives, when the device comes to them: through memory that the ranks share.
 */
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "ir/base/hash.h"
#include "tests/ranks/nccl_standin.h"

void standin_pause(int *spins) {
    if (++*spins < 200)
        sched_yield();
    else
        usleep(50);
}

static bool barrier(struct ncclComm *c) {
    unsigned phase = c->s->phase;
    int spins = 0;
    if (atomic_fetch_add(&c->s->count, 1) + 1 == (unsigned)c->n) {
        c->s->count = 0;
        atomic_fetch_add(&c->s->phase, 1);
        return !c->aborted;
    }
    while (c->s->phase == phase && !c->aborted) standin_pause(&spins);
    return !c->aborted;
}

dl_dtype standin_type(int type) {
    static const dl_dtype types[] = {
        [DLR_NCCL_INT32] = DL_I32,   [DLR_NCCL_INT64] = DL_I64,   [DLR_NCCL_FLOAT16] = DL_F16,
        [DLR_NCCL_FLOAT32] = DL_F32, [DLR_NCCL_FLOAT64] = DL_F64, [DLR_NCCL_BFLOAT16] = DL_BF16};
    return types[type];
}
bool standin_knows(int type) {
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
    dl_dtype type = standin_type(j->type);
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
    size_t e = (size_t)dl_dtype_bytes(standin_type(j->type)), most = CHUNK / e, longest = 0;
    c->s->called[c->rank] = (uint64_t)j->count << 8 | (uint64_t)j->root;
    if (!barrier(c)) return false;
    for (int r = 0; r < c->n; r++)
        longest = c->s->called[r] >> 8 > longest ? c->s->called[r] >> 8 : longest;
    if (c->s->called[j->giver] != ((uint64_t)j->come << 8 | (uint64_t)c->rank))
        c->error = standin_refuse(c, DLR_NCCL_INVALID_USAGE, "a message that nobody sends so");
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
    if (!same)
        c->error =
            standin_refuse(c, DLR_NCCL_INVALID_USAGE, "the ranks call different collectives");
    return barrier(c) && same;
}

static void carry_out(const job *j) {
    struct ncclComm *c = j->comm;
    size_t e = (size_t)dl_dtype_bytes(standin_type(j->type)), n = (size_t)c->n, own = j->count * e;
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

void standin_run(void *of) {
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
        c->error = standin_refuse(c, DLR_NCCL_REMOTE_ERROR, "a fault that was asked for");
}
