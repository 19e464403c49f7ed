/* Collectives as phases of messages.
 *
 * all_reduce: each chunk is cut into one piece per member. Every member sends the pieces to their
 * owners (phase 0), who add them in the order of the members and send the sums to all (phase 1).
 * Each element is summed once, in one order, and is sent twice, as in a ring. Small ones: every
 * member gets everything and adds.
 *
 * all_gather and reduce_scatter are one half each. broadcast: a binomial tree, chunk after chunk.
 * shift: a message to the next member, one from the previous member. */
#include <string.h>

#include "runtime/comm/engine.h"

enum {
    ROUND = 16 /* elements: pieces begin at its multiples, so that none begins within a vector */
};

int64_t dlr_chunk_bytes(int size) {
    int64_t bytes = (int64_t)size * 32768;
    return bytes < 524288 ? 524288 : bytes > 4194304 ? 4194304 : bytes;
}

/* Messages between the same two ranks with the same tag are in order. A broadcast's receiver is one
 * phase ahead of its sender. */
static int tag_of(const dlr_lane *l, const dlr_chunk *k) {
    const dlr_op *op = l->op;
    int phase = op->c.kind == DLR_BROADCAST ? 0 : k->phase & 1;
    return op->c.group << 7 | (int)(op->number % SEQUENCE) << 3 | (int)(k->number % CHUNKS) << 1 |
           phase;
}

static void post(dlr_engine *e, dlr_lane *l, dlr_chunk *k, bool receives, void *at, int64_t bytes,
                 int member) {
    if (!bytes) return;
    uint64_t id = dlr_id(DLR_DATA, receives, (int)(l - e->lane), (int)(k - l->chunk), member);
    int peer = l->op->group->ranks[member], tag = tag_of(l, k);
    int failed = receives ? e->mpi->receive(at, bytes, peer, tag, 0, id)
                          : e->mpi->send(at, bytes, peer, tag, 0, id);
    if (failed) {
        char text[200];
        e->mpi->error_text(failed, text, sizeof text);
        dlr_engine_fail(e, "rank %d cannot be reached for %s: %s", peer, l->op->what, text);
        return;
    }
    k->pending++;
    if (receives) l->missing[member]++;
}

/* Every other member once, beginning with the next one, so that the members do not all send to the
 * same one at a time. */
#define FOR_OTHERS(p, step, n, me)                                                                 \
    for (int i_ = 1, p; i_ < (n) && ((p = ((me) + (step)*i_ + (n)) % (n)), true); i_++)

static int64_t cut(int64_t length, int64_t i, int64_t n) {
    return i >= n ? length : (length / n * i + length % n * i / n) / ROUND * ROUND;
}

static void sum(const dlr_lane *l, int64_t count, char *const *parts, void *to) {
    dlr_sum(l->op->c.type, l->op->c.kind == DLR_ALL_REDUCE_MAX, count, l->op->group->n,
            (const void *const *)parts, to);
}

/* ---- all_reduce ---- */

static bool reduce_small(dlr_engine *e, dlr_lane *l, dlr_chunk *k) {
    const dlr_collective *c = &l->op->c;
    int n = l->op->group->n, me = l->op->group->me;
    int64_t bytes = c->count * dl_dtype_bytes(c->type);
    if (k->phase == 0) {
        FOR_OTHERS(p, 1, n, me) post(e, l, k, false, (void *)c->from, bytes, p);
        FOR_OTHERS(p, -1, n, me) post(e, l, k, true, k->room + p * bytes, bytes, p);
        return true;
    }
    char *parts[n];
    for (int m = 0; m < n; m++) parts[m] = m == me ? (char *)c->from : k->room + m * bytes;
    sum(l, c->count, parts, c->to);
    return false;
}

static bool reduce(dlr_engine *e, dlr_lane *l, dlr_chunk *k) {
    const dlr_collective *c = &l->op->c;
    if (l->small) return reduce_small(e, l, k);
    int n = l->op->group->n, me = l->op->group->me;
    int64_t b = dl_dtype_bytes(c->type), per = e->room_bytes / b, at = k->number * per;
    int64_t length = c->count - at < per ? c->count - at : per;
    int64_t mine = cut(length, me, n), size = cut(length, me + 1, n) - mine;
    char *from = (char *)c->from + at * b, *to = (char *)c->to + at * b;
    if (k->phase == 0) {
        FOR_OTHERS(p, 1, n, me) {
            int64_t first = cut(length, p, n);
            post(e, l, k, false, from + first * b, (cut(length, p + 1, n) - first) * b, p);
        }
        FOR_OTHERS(p, -1, n, me) post(e, l, k, true, k->room + p * size * b, size * b, p);
        return true;
    }
    if (k->phase == 2) return false;
    char *parts[n];
    for (int m = 0; m < n; m++) parts[m] = m == me ? from + mine * b : k->room + m * size * b;
    sum(l, size, parts, to + mine * b);
    FOR_OTHERS(p, 1, n, me) post(e, l, k, false, to + mine * b, size * b, p);
    FOR_OTHERS(p, -1, n, me) {
        int64_t first = cut(length, p, n);
        post(e, l, k, true, to + first * b, (cut(length, p + 1, n) - first) * b, p);
    }
    return true;
}

/* ---- all_gather ---- */

/* Several blocks at once: received pieces are moved between the others' pieces afterwards. */
static bool gather_blocks(dlr_engine *e, dlr_lane *l, dlr_chunk *k) {
    const dlr_collective *c = &l->op->c;
    int n = l->op->group->n, me = l->op->group->me;
    int64_t b = dl_dtype_bytes(c->type), first = k->number * l->blocks, all = l->before[n];
    int64_t blocks = c->outer - first < l->blocks ? c->outer - first : l->blocks;
    char *mine = (char *)c->from + first * c->counts[me] * b;
    if (k->phase == 0) {
        FOR_OTHERS(p, 1, n, me) post(e, l, k, false, mine, blocks * c->counts[me] * b, p);
        FOR_OTHERS(p, -1, n, me)
        post(e, l, k, true, k->room + blocks * l->before[p] * b, blocks * c->counts[p] * b, p);
        return true;
    }
    for (int p = 0; p < n; p++) {
        const char *from = p == me ? mine : k->room + blocks * l->before[p] * b;
        int64_t piece = c->counts[p] * b;
        for (int64_t i = 0; i < blocks; i++)
            memcpy((char *)c->to + ((first + i) * all + l->before[p]) * b, from + i * piece,
                   (size_t)piece);
    }
    return false;
}

static bool gather(dlr_engine *e, dlr_lane *l, dlr_chunk *k) {
    const dlr_collective *c = &l->op->c;
    if (l->blocks) return gather_blocks(e, l, k);
    if (k->phase) return false;
    int n = l->op->group->n, me = l->op->group->me;
    int64_t b = dl_dtype_bytes(c->type), block = k->number / l->cuts, part = k->number % l->cuts;
    int64_t at = cut(c->counts[me], part, l->cuts),
            size = cut(c->counts[me], part + 1, l->cuts) - at;
    char *to = (char *)c->to + block * l->before[n] * b,
         *mine = (char *)c->from + (block * c->counts[me] + at) * b;
    FOR_OTHERS(p, 1, n, me) post(e, l, k, false, mine, size * b, p);
    FOR_OTHERS(p, -1, n, me) {
        int64_t first = cut(c->counts[p], part, l->cuts),
                length = cut(c->counts[p], part + 1, l->cuts) - first;
        post(e, l, k, true, to + (l->before[p] + first) * b, length * b, p);
    }
    if (size) memcpy(to + (l->before[me] + at) * b, mine, (size_t)(size * b));
    return true;
}

/* ---- reduce_scatter ---- */

static bool scatter_blocks(dlr_engine *e, dlr_lane *l, dlr_chunk *k) {
    const dlr_collective *c = &l->op->c;
    int n = l->op->group->n, me = l->op->group->me;
    int64_t b = dl_dtype_bytes(c->type), first = k->number * l->blocks, all = l->before[n];
    int64_t blocks = c->outer - first < l->blocks ? c->outer - first : l->blocks,
            mine = blocks * c->counts[me];
    char *come = k->room + blocks * all * b;
    if (k->phase == 0) {
        for (int p = 0; p < n; p++) {
            int64_t piece = c->counts[p] * b;
            char *packed = k->room + blocks * l->before[p] * b;
            for (int64_t i = 0; i < blocks; i++)
                memcpy(packed + i * piece,
                       (const char *)c->from + ((first + i) * all + l->before[p]) * b,
                       (size_t)piece);
        }
        FOR_OTHERS(p, 1, n, me)
        post(e, l, k, false, k->room + blocks * l->before[p] * b, blocks * c->counts[p] * b, p);
        FOR_OTHERS(p, -1, n, me) post(e, l, k, true, come + p * mine * b, mine * b, p);
        return true;
    }
    char *parts[n];
    for (int m = 0; m < n; m++)
        parts[m] = m == me ? k->room + blocks * l->before[me] * b : come + m * mine * b;
    sum(l, mine, parts, (char *)c->to + first * c->counts[me] * b);
    return false;
}

static bool scatter(dlr_engine *e, dlr_lane *l, dlr_chunk *k) {
    const dlr_collective *c = &l->op->c;
    if (l->blocks) return scatter_blocks(e, l, k);
    int n = l->op->group->n, me = l->op->group->me;
    int64_t b = dl_dtype_bytes(c->type), block = k->number / l->cuts, part = k->number % l->cuts;
    int64_t at = cut(c->counts[me], part, l->cuts),
            size = cut(c->counts[me], part + 1, l->cuts) - at;
    char *from = (char *)c->from + block * l->before[n] * b;
    if (k->phase == 0) {
        FOR_OTHERS(p, 1, n, me) {
            int64_t first = cut(c->counts[p], part, l->cuts),
                    length = cut(c->counts[p], part + 1, l->cuts) - first;
            post(e, l, k, false, from + (l->before[p] + first) * b, length * b, p);
        }
        FOR_OTHERS(p, -1, n, me) post(e, l, k, true, k->room + p * size * b, size * b, p);
        return true;
    }
    char *parts[n];
    for (int m = 0; m < n; m++)
        parts[m] = m == me ? from + (l->before[me] + at) * b : k->room + m * size * b;
    sum(l, size, parts, (char *)c->to + (block * c->counts[me] + at) * b);
    return false;
}

/* ---- broadcast ---- */

/* Counted from the root, member v receives from v without its lowest set bit, and sends to v with
 * one of the bits below that set. */
static bool broadcast(dlr_engine *e, dlr_lane *l, dlr_chunk *k) {
    const dlr_collective *c = &l->op->c;
    int n = l->op->group->n, v = (l->op->group->me - c->root + n) % n;
    int64_t b = dl_dtype_bytes(c->type), per = e->room_bytes / b, at = k->number * per;
    int64_t bytes = (c->count - at < per ? c->count - at : per) * b;
    char *to = (char *)c->to + at * b;
    if (k->phase == 0) {
        const char *from = (const char *)c->from + at * b;
        if (v)
            post(e, l, k, true, to, bytes, ((v & (v - 1)) + c->root) % n);
        else if (to != from)
            memcpy(to, from, (size_t)bytes);
        return true;
    }
    for (int bit = 1; k->phase == 1 && bit < n && !(v & bit); bit *= 2)
        if ((v | bit) < n) post(e, l, k, false, to, bytes, ((v | bit) + c->root) % n);
    return k->phase == 1;
}

/* ---- shift ---- */

/* The bytes of chunk `k` of `count` elements in all. */
static int64_t chunk_of(const dlr_engine *e, const dlr_lane *l, const dlr_chunk *k, int64_t count) {
    int64_t b = dl_dtype_bytes(l->op->c.type), per = e->room_bytes / b,
            left = count - k->number * per;
    return left <= 0 ? 0 : (left < per ? left : per) * b;
}

static bool shift(dlr_engine *e, dlr_lane *l, dlr_chunk *k) {
    const dlr_collective *c = &l->op->c;
    int n = l->op->group->n, me = l->op->group->me, giver = dlr_giver(n, me);
    if (k->phase) return false;
    int64_t b = dl_dtype_bytes(c->type), at = k->number * (e->room_bytes / b) * b;
    char *from = (char *)c->from + at, *to = (char *)c->to + at;
    if (giver == me) {
        memcpy(to, from, (size_t)chunk_of(e, l, k, c->counts[me]));
        return true;
    }
    post(e, l, k, false, from, chunk_of(e, l, k, c->counts[me]), (me + 1) % n);
    post(e, l, k, true, to, chunk_of(e, l, k, c->counts[giver]), giver);
    return true;
}

/* ---- dispatch ---- */

bool dlr_lane_phase(dlr_engine *e, dlr_lane *l, dlr_chunk *k) {
    if (l->op->by_mpi) return dlr_mpi_sum_phase(e, l, k);
    switch (l->op->c.kind) {
    case DLR_ALL_GATHER: return gather(e, l, k);
    case DLR_REDUCE_SCATTER: return scatter(e, l, k);
    case DLR_BROADCAST: return broadcast(e, l, k);
    case DLR_SHIFT: return shift(e, l, k);
    default: return reduce(e, l, k);
    }
}

static int64_t up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* The plan depends only on values that all members share, so that their messages match. */
void dlr_lane_plan(const dlr_engine *e, dlr_lane *l) {
    const dlr_collective *c = &l->op->c;
    int n = l->op->group->n;
    int64_t b = dl_dtype_bytes(c->type), room = e->room_bytes;
    l->blocks = 0, l->cuts = 1, l->small = false;
    if (l->op->by_mpi) {
        l->chunks = c->count > 0;
        return;
    }
    if (!dlr_by_pieces(c)) {
        l->small = c->kind != DLR_BROADCAST && c->count * b <= SMALL && c->count * b * n <= room;
        l->chunks = l->small ? c->count > 0 : up(c->count, room / b);
        return;
    }
    int64_t most = 0;
    l->before[0] = 0;
    for (int m = 0; m < n; m++) {
        l->before[m + 1] = l->before[m] + c->counts[m];
        if (c->counts[m] > most) most = c->counts[m];
    }
    if (c->kind == DLR_SHIFT) {
        l->chunks = up(most, room / b);
        return;
    }
    bool gathers = c->kind == DLR_ALL_GATHER;
    /* elements of a block in a buffer */
    int64_t held = gathers ? l->before[n] : l->before[n] + n * most;
    if (!most || !c->outer)
        l->chunks = 0;
    else if (c->outer > 1 && held * b <= room) {
        l->blocks = room / (held * b);
        l->chunks = up(c->outer, l->blocks);
    } else {
        /* a piece may be ROUND longer than its share: dlr_engine's buffers have that much in
         * addition */
        l->cuts = up((gathers ? 1 : n) * most * b, room);
        l->chunks = c->outer * l->cuts;
    }
}
