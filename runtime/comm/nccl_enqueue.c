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
} pieces;

static pieces pieces_of(dlr_nccl_backend *b, const dlr_members *g, const dlr_collective *c,
                        dlr_cu_stream stream, dl_error *err) {
    pieces p = {b, g, c, stream, err, dl_dtype_bytes(c->type), dlr_block_before(c, g->n), true};
    for (int m = 1; m < g->n; m++) p.even &= c->counts[m] == c->counts[0];
    return p;
}

static bool said(const pieces *p, int result) {
    return dlr_nccl_ok(p->b, p->g->of, result, p->c->what ? p->c->what : "a collective", p->err);
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

static bool gather(const pieces *p) {
    const dlr_nccl *n = p->b->n;
    const dlr_collective *c = p->c;
    bool by_room = c->outer > 1;
    uint64_t to = by_room ? p->b->rooms.at[p->b->rooms.n - 1] : (uint64_t)(uintptr_t)c->to;
    int type = types[c->type];
    bool ok;
    if (p->even)
        ok = said(p, n->AllGather(c->from, at(to), (size_t)(c->outer * c->counts[0]), type,
                                  p->g->of, p->stream));
    else {
        ok = said(p, n->GroupStart());
        for (int m = 0; ok && m < p->g->n; m++) {
            void *piece = at(to + place_of(p, m));
            if (c->counts[m])
                ok = said(p, n->Broadcast(m == p->g->me ? c->from : piece, piece,
                                          (size_t)(c->outer * c->counts[m]), type, m, p->g->of,
                                          p->stream));
        }
        ok = ok && said(p, n->GroupEnd());
    }
    return ok && (!by_room || copy_all(p, (uint64_t)(uintptr_t)c->to, to, false));
}

static bool scatter(const pieces *p) {
    const dlr_nccl *n = p->b->n;
    const dlr_collective *c = p->c;
    bool by_room = c->outer > 1;
    uint64_t from = by_room ? p->b->rooms.at[p->b->rooms.n - 1] : (uint64_t)(uintptr_t)c->from;
    int type = types[c->type];
    if (by_room && !copy_all(p, (uint64_t)(uintptr_t)c->from, from, true)) return false;
    if (p->even)
        return said(p, n->ReduceScatter(at(from), c->to, (size_t)(c->outer * c->counts[0]), type,
                                        DLR_NCCL_SUM, p->g->of, p->stream));
    bool ok = said(p, n->GroupStart());
    for (int m = 0; ok && m < p->g->n; m++)
        if (c->counts[m])
            ok = said(p,
                      n->Reduce(at(from + place_of(p, m)), c->to, (size_t)(c->outer * c->counts[m]),
                                type, DLR_NCCL_SUM, m, p->g->of, p->stream));
    return ok && said(p, n->GroupEnd());
}

/* Pieces without elements are sent, too: each sender waits for its receiver. */
static bool shift(const pieces *p) {
    const dlr_nccl *n = p->b->n;
    const dlr_collective *c = p->c;
    int members = p->g->n, me = p->g->me, giver = dlr_giver(members, me), type = types[c->type];
    return said(p, n->GroupStart()) &&
           said(p, n->Send(c->from, (size_t)c->counts[me], type, (me + 1) % members, p->g->of,
                           p->stream)) &&
           said(p, n->Recv(c->to, (size_t)c->counts[giver], type, giver, p->g->of, p->stream)) &&
           said(p, n->GroupEnd());
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
    case DLR_SHIFT: return !p->all || shift(p);
    case DLR_ALL_GATHER: return !c->outer || !p->all || gather(p);
    default: /* DLR_REDUCE_SCATTER */ return !c->outer || !p->all || scatter(p);
    }
}

bool dlr_nccl_enqueue(dlr_comm *comm, dlr_members *g, const dlr_collective *c, dlr_cu_stream stream,
                      dl_error *err) {
    dlr_nccl_backend *b = comm->of;
    pieces p = dlr_by_pieces(c) ? pieces_of(b, g, c, stream, err)
                                : (pieces){b, g, c, stream, err, dl_dtype_bytes(c->type), 0, true};
    pthread_mutex_lock(&b->lock);
    bool ok = b->failed.code ? dl_fail(err, b->failed.code, "%s", b->failed.message) : put(&p);
    pthread_mutex_unlock(&b->lock);
    return ok;
}

bool dlr_nccl_reserve(dlr_comm *comm, dlr_members *g, const dlr_collective *c, dl_error *err) {
    dlr_nccl_backend *b = comm->of;
    int64_t bytes = dlr_by_pieces(c) && c->outer > 1
                        ? c->outer * dlr_block_before(c, g->n) * dl_dtype_bytes(c->type)
                        : 0;
    if (bytes <= b->room) return true;
    dlr_cu_memory room = 0;
    if (!dlr_nccl_cu_ok(b, b->v->MemAlloc(&room, (size_t)bytes),
                        "memory of the device for pieces of a collective", err))
        return false;
    dl_push(b->arena, &b->rooms, room);
    b->room = bytes;
    return true;
}
