/* Enqueues a collective of device memory as NCCL calls in a stream.
 *
 * NCCL gathers and scatters whole pieces of one size. Pieces of different sizes become a broadcast
 * or a reduction for each member, in one group of calls. Pieces along an inner axis are gathered by
 * copies of rows into a separate buffer, one member after the other. */
#include "runtime/comm/nccl.h"

static const int types[] = {
    [DL_F32] = DLR_NCCL_FLOAT32,   [DL_F64] = DLR_NCCL_FLOAT64, [DL_F16] = DLR_NCCL_FLOAT16,
    [DL_BF16] = DLR_NCCL_BFLOAT16, [DL_I32] = DLR_NCCL_INT32,   [DL_I64] = DLR_NCCL_INT64};

/* The arguments of a gather or scatter for NCCL. */
typedef struct {
    dlr_nccl_backend *b;
    const dlr_members *g;
    const dlr_collective *c;
    dlr_cu_stream stream;
    dl_error *err;
    int64_t bytes, all; /* bytes of an element; elements of a block of all members */
    bool even;          /* all pieces have one size */
    uint64_t whole;     /* the address of whole pieces: the block itself, or a staging buffer */
} pieces;

static pieces pieces_of(dlr_nccl_backend *b, const dlr_members *g, const dlr_collective *c,
                        dlr_cu_stream stream, dl_error *err) {
    pieces p = {b, g, c, stream, err, dl_dtype_bytes(c->type), dlr_block_before(c, g->n), true, 0};
    for (int m = 1; m < g->n; m++) p.even &= c->counts[m] == c->counts[0];
    p.whole = (uint64_t)(uintptr_t)(c->kind == DLR_ALL_GATHER ? c->to : c->from);
    if (p.all && c->outer > 1) p.whole = b->rooms.at[b->rooms.n - 1];
    return p;
}

static const char *what_of(const pieces *p) { return p->c->what ? p->c->what : "a collective"; }

static bool said(const pieces *p, int result) {
    return dlr_nccl_ok(p->b, p->g->of, result, what_of(p), p->err);
}

/* The same within a group of calls, where nothing is waited for: NCCL begins them at its end. A
 * wait would release the lock while the group is open, and the watchdog could abort the
 * communicator that the group's end still uses. */
static bool queued(const pieces *p, int result) {
    return result == DLR_NCCL_IN_PROGRESS || said(p, result);
}

/* Makes several calls as one group. The group is closed after an error, too: it is the thread's,
 * and would take in all later calls without beginning any. */
static bool grouped(const pieces *p, bool (*calls)(const pieces *p)) {
    dl_error later = {0}; /* of the end of a group that has failed: the first error is reported */
    if (!said(p, p->b->n->GroupStart())) return false;
    bool ok = calls(p);
    int result = p->b->n->GroupEnd();
    return dlr_nccl_ok(p->b, p->g->of, result, what_of(p), ok ? p->err : &later) && ok;
}

/* Offset in bytes of member m's piece among whole pieces. */
static uint64_t place_of(const pieces *p, int m) {
    return (uint64_t)(dlr_block_before(p->c, m) * p->c->outer * p->bytes);
}

/* Copies rows between blocks of all members and member m's whole piece in the staging buffer. */
static bool copy_rows(const pieces *p, int m, uint64_t blocks, uint64_t room, bool to_room) {
    size_t width = (size_t)(p->c->counts[m] * p->bytes);
    dlr_cu_side in_blocks = {.type = DLR_CU_MEMORY_DEVICE,
                             .device = blocks + (uint64_t)(dlr_block_before(p->c, m) * p->bytes),
                             .pitch = (size_t)(p->all * p->bytes)},
                in_room = {
                    .type = DLR_CU_MEMORY_DEVICE, .device = room + place_of(p, m), .pitch = width};
    dlr_cu_rows rows = {.from = to_room ? in_blocks : in_room,
                        .to = to_room ? in_room : in_blocks,
                        .width = width,
                        .height = (size_t)p->c->outer};
    return width == 0 ||
           dlr_nccl_cu_ok(p->b, p->b->v->Memcpy2DAsync(&rows, p->stream), p->c->what, p->err);
}

static bool copy_all(const pieces *p, uint64_t blocks, uint64_t room, bool to_room) {
    bool ok = true;
    for (int m = 0; ok && m < p->g->n; m++) ok = copy_rows(p, m, blocks, room, to_room);
    return ok;
}

static void *at(uint64_t address) { return (void *)(uintptr_t)address; }

static bool gather_each(const pieces *p) {
    const dlr_collective *c = p->c;
    bool ok = true;
    for (int m = 0; ok && m < p->g->n; m++) {
        void *piece = at(p->whole + place_of(p, m));
        ok = !c->counts[m] || queued(p, p->b->n->Broadcast(m == p->g->me ? c->from : piece, piece,
                                                           (size_t)(c->outer * c->counts[m]),
                                                           types[c->type], m, p->g->of, p->stream));
    }
    return ok;
}

static bool gather(const pieces *p) {
    const dlr_collective *c = p->c;
    bool ok =
        p->even
            ? said(p, p->b->n->AllGather(c->from, at(p->whole), (size_t)(c->outer * c->counts[0]),
                                         types[c->type], p->g->of, p->stream))
            : grouped(p, gather_each);
    return ok && (c->outer == 1 || copy_all(p, (uint64_t)(uintptr_t)c->to, p->whole, false));
}

static bool scatter_each(const pieces *p) {
    const dlr_collective *c = p->c;
    bool ok = true;
    for (int m = 0; ok && m < p->g->n; m++)
        ok = !c->counts[m] ||
             queued(p, p->b->n->Reduce(at(p->whole + place_of(p, m)), c->to,
                                       (size_t)(c->outer * c->counts[m]), types[c->type],
                                       DLR_NCCL_SUM, m, p->g->of, p->stream));
    return ok;
}

static bool scatter(const pieces *p) {
    const dlr_collective *c = p->c;
    if (c->outer > 1 && !copy_all(p, (uint64_t)(uintptr_t)c->from, p->whole, true)) return false;
    return p->even
               ? said(p,
                      p->b->n->ReduceScatter(at(p->whole), c->to, (size_t)(c->outer * c->counts[0]),
                                             types[c->type], DLR_NCCL_SUM, p->g->of, p->stream))
               : grouped(p, scatter_each);
}

/* Pieces without elements are sent, too: each sender waits for its receiver. */
static bool send_and_receive(const pieces *p) {
    const dlr_nccl *n = p->b->n;
    const dlr_collective *c = p->c;
    int members = p->g->n, me = p->g->me, giver = dlr_giver(members, me), type = types[c->type];
    return queued(p, n->Send(c->from, (size_t)c->counts[me], type, (me + 1) % members, p->g->of,
                             p->stream)) &&
           queued(p, n->Recv(c->to, (size_t)c->counts[giver], type, giver, p->g->of, p->stream));
}

static bool put(const pieces *p) {
    const dlr_nccl *n = p->b->n;
    const dlr_collective *c = p->c;
    size_t count = (size_t)c->count;
    int type = types[c->type];
    switch (c->kind) {
    case DLR_ALL_REDUCE:
    case DLR_ALL_REDUCE_MAX:
        return !count ||
               said(p, n->AllReduce(c->from, c->to, count, type,
                                    c->kind == DLR_ALL_REDUCE ? DLR_NCCL_SUM : DLR_NCCL_MAX,
                                    p->g->of, p->stream));
    case DLR_BROADCAST:
        return !count || said(p, n->Broadcast(p->g->me == c->root ? c->from : c->to, c->to, count,
                                              type, c->root, p->g->of, p->stream));
    case DLR_SHIFT: return !p->all || grouped(p, send_and_receive);
    case DLR_ALL_GATHER: return !c->outer || !p->all || gather(p);
    default: /* DLR_REDUCE_SCATTER */ return !c->outer || !p->all || scatter(p);
    }
}

bool dlr_nccl_enqueue(dlr_comm *comm, dlr_members *g, const dlr_collective *c, dlr_cu_stream stream,
                      dl_error *err) {
    dlr_nccl_backend *b = comm->of;
    if (!dlr_nccl_begin(b, err)) return false;
    pieces p = dlr_by_pieces(c)
                   ? pieces_of(b, g, c, stream, err)
                   : (pieces){b, g, c, stream, err, dl_dtype_bytes(c->type), 0, true, 0};
    pthread_mutex_lock(&b->lock);
    bool ok = dlr_nccl_well(b, err) && put(&p);
    pthread_mutex_unlock(&b->lock);
    return ok;
}

bool dlr_nccl_reserve(dlr_comm *comm, dlr_members *g, const dlr_collective *c, dl_error *err) {
    dlr_nccl_backend *b = comm->of;
    int64_t bytes = dlr_by_pieces(c) && c->outer > 1
                        ? c->outer * dlr_block_before(c, g->n) * dl_dtype_bytes(c->type)
                        : 0;
    if (!dlr_nccl_begin(b, err)) return false;
    if (bytes <= b->room) return true;
    dlr_cu_memory room = 0;
    if (!dlr_nccl_cu_ok(b, b->v->MemAlloc(&room, (size_t)bytes),
                        "memory of the device for pieces of a collective", err))
        return false;
    dl_push(b->arena, &b->rooms, room);
    b->room = bytes;
    return true;
}
