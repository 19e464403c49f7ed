/* Chunked arrays: the first thread that needs a chunk unpacks it, and a cache keeps it for the
 * others. */
#include "runtime/data/array_format.h"

#include <pthread.h>
#include <stdlib.h>

enum { SLOTS = 1024, MAX_CHUNK = 1 << 30 /* most bytes of an unpacked chunk */ };
static const int64_t most_whole = (int64_t)1 << 36; /* and of an array that is one */

typedef enum { SLOT_EMPTY, SLOT_LOADING, SLOT_READY } slot_state;

/* A cached chunk. */
typedef struct {
    slot_state state;
    int64_t index;
    int users;     /* threads that read it or wait for it; it is not evicted while there are any */
    uint64_t used; /* when it was last used */
    bool absent;   /* not stored: all of it is the fill value */
    void *data;
} slot;

typedef struct {
    dlr_chunking how;
    int64_t grid[DLR_ARRAY_RANK]; /* chunks along each axis */
    ptrdiff_t step[DLR_ARRAY_RANK];
    size_t bytes;
    pthread_mutex_t lock;
    pthread_cond_t loaded;
    int slots;
    uint64_t clock;
    slot slot[SLOTS];
} chunk_state;

/* ---- the cache ---- */

/* The slot that the chunk is in or may use; NULL when chunks in use take every slot. */
static slot *find_slot(chunk_state *c, int64_t index) {
    slot *oldest = NULL;
    for (int i = 0; i < c->slots; i++) {
        slot *s = &c->slot[i];
        if (s->state != SLOT_EMPTY && s->index == index) return s;
        if (s->users == 0 && (!oldest || s->used < oldest->used)) oldest = s;
    }
    return oldest;
}

/* A chunk in memory until release; NULL with an error. `own` holds it when the cache has no free
 * slot. */
static slot *acquire(const dlr_source *source, int64_t index, slot *own, dl_error *err) {
    chunk_state *c = source->state;
    pthread_mutex_lock(&c->lock);
    slot *s;
    while ((s = find_slot(c, index)) && s->state == SLOT_LOADING && s->index == index) {
        s->users++;
        pthread_cond_wait(&c->loaded, &c->lock);
        s->users--;
    }
    if (s && s->state == SLOT_READY && s->index == index) {
        s->users++, s->used = ++c->clock;
        pthread_mutex_unlock(&c->lock);
        return s;
    }
    if (!s) s = own;
    s->state = SLOT_LOADING, s->index = index, s->users++;
    pthread_mutex_unlock(&c->lock);
    if (!s->data && !source->on_paper) s->data = malloc(c->bytes + c->how.spare);
    s->absent = false;
    bool ok = s->data || source->on_paper
                  ? c->how.load(source, &c->how, index, s->data, &s->absent, err)
                  : dl_fail(err, DL_RESOURCE, "no memory for a chunk of %s", source->label);
    pthread_mutex_lock(&c->lock);
    s->state = ok ? SLOT_READY : SLOT_EMPTY, s->used = ++c->clock;
    if (!ok) s->users--;
    pthread_cond_broadcast(&c->loaded);
    pthread_mutex_unlock(&c->lock);
    return ok ? s : NULL;
}

static void release(chunk_state *c, slot *s) {
    pthread_mutex_lock(&c->lock);
    s->users--;
    pthread_mutex_unlock(&c->lock);
}

/* ---- blocks ---- */

typedef struct {
    const dlr_source *source;
    const dlr_block *block;
    dlr_element_move move; /* `to` and to_step are the block's, the other members the chunk's */
    /* the chunk; the first index of the block in it */
    int64_t at[DLR_ARRAY_RANK], first[DLR_ARRAY_RANK];
    slot own;
    dl_error *err;
} walk;

static int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

/* Computes the part of the block along an axis that lies in chunk `at`; false when there is
 * none. */
static bool cut_axis(walk *w, int axis, int64_t at) {
    const dlr_block *b = w->block;
    const chunk_state *c = w->source->state;
    int64_t begin = at * c->how.chunk[axis] - b->start[axis];
    int64_t first = begin <= 0 ? 0 : floor_div(begin + b->stride[axis] - 1, b->stride[axis]);
    int64_t last = floor_div(begin + c->how.chunk[axis] - 1, b->stride[axis]);
    if (last >= b->count[axis]) last = b->count[axis] - 1;
    w->at[axis] = at, w->first[axis] = first, w->move.count[axis] = last - first + 1;
    return first <= last;
}

static bool move_chunk(walk *w) {
    const dlr_source *s = w->source;
    chunk_state *c = s->state;
    int64_t index = 0, bad[DLR_ARRAY_RANK];
    ptrdiff_t from = 0, to = 0;
    dlr_element_move m = w->move;
    double value;
    for (int i = 0; i < s->rank; i++) {
        index = index * c->grid[i] + w->at[i];
        from +=
            (w->block->start[i] + w->first[i] * w->block->stride[i] - w->at[i] * c->how.chunk[i]) *
            c->step[i];
        to += w->first[i] * m.to_step[i];
        m.from_step[i] = c->step[i] * w->block->stride[i];
    }
    slot *chunk = acquire(s, index, &w->own, w->err);
    if (!chunk) return false;
    if (s->on_paper) {
        release(c, chunk);
        return true;
    }
    m.from = (const char *)chunk->data + from, m.to = (char *)m.to + to;
    if (chunk->absent) {
        m.from = c->how.fill;
        memset(m.from_step, 0, sizeof m.from_step);
    }
    bool ok = dlr_elements_move(&m, bad, &value);
    release(c, chunk);
    if (ok) return true;
    for (int i = 0; i < s->rank; i++) bad[i] += w->first[i];
    return dlr_refuse_number(s, w->block, bad, value, m.to_type, w->err);
}

static bool walk_axis(walk *w, int axis) {
    if (axis == w->source->rank) return move_chunk(w);
    const chunk_state *c = w->source->state;
    const dlr_block *b = w->block;
    int64_t size = c->how.chunk[axis],
            last = b->start[axis] + (b->count[axis] - 1) * b->stride[axis];
    for (int64_t at = b->start[axis] / size; at <= last / size; at++)
        if (cut_axis(w, axis, at) && !walk_axis(w, axis + 1)) return false;
    return true;
}

static bool read_chunks(const dlr_source *s, const dlr_block *b, dlr_element to, void *out,
                        dl_error *err) {
    const chunk_state *c = s->state;
    walk w = {.source = s, .block = b, .move = dlr_block_move(s, b, to, out), .err = err};
    w.move.swapped = c->how.swapped;
    bool ok = walk_axis(&w, 0);
    free(w.own.data);
    return ok;
}

/* ---- opening and closing ---- */

static void forget_chunks(dlr_source *s) {
    chunk_state *c = s->state;
    for (int i = 0; i < c->slots; i++) c->slot[i].state = SLOT_EMPTY;
}

static void close_chunks(dlr_source *s) {
    chunk_state *c = s->state;
    if (c->how.close) c->how.close(c->how.state);
    for (int i = 0; i < c->slots; i++) free(c->slot[i].data);
    pthread_mutex_destroy(&c->lock), pthread_cond_destroy(&c->loaded);
    free(c);
}

const int *dlr_first_axis_fastest(int rank) {
    static const int falling[DLR_ARRAY_RANK] = {7, 6, 5, 4, 3, 2, 1, 0};
    return falling + DLR_ARRAY_RANK - rank;
}

/* The number of elements in a chunk, and its strides; false when there are too many. */
static bool measure(const dlr_source *s, chunk_state *c) {
    int64_t bytes = (int64_t)dlr_element_bytes(s->type), all = 1;
    const int64_t most = c->how.whole ? most_whole : MAX_CHUNK;
    for (int i = 0; i < s->rank; i++) {
        int axis = c->how.order ? c->how.order[s->rank - 1 - i] : s->rank - 1 - i;
        c->step[axis] = bytes;
        if (c->how.chunk[axis] < 1 || __builtin_mul_overflow(bytes, c->how.chunk[axis], &bytes) ||
            bytes > most)
            return false;
        c->grid[axis] =
            s->dims[axis] / c->how.chunk[axis] + (s->dims[axis] % c->how.chunk[axis] != 0);
        if (__builtin_mul_overflow(all, c->grid[axis] ? c->grid[axis] : 1, &all)) return false;
    }
    c->bytes = (size_t)bytes;
    return true;
}

bool dlr_chunks_open(dlr_source *s, const dlr_chunking *how, size_t cache, dl_error *err) {
    chunk_state *c = s->state = calloc(1, sizeof *c);
    if (!c) {
        if (how->close) how->close(how->state);
        return dl_fail(err, DL_RESOURCE, "no memory to open %s", s->label);
    }
    c->how = *how;
    pthread_mutex_init(&c->lock, NULL), pthread_cond_init(&c->loaded, NULL);
    s->read = read_chunks, s->forget = forget_chunks, s->close = close_chunks, s->chunked = true;
    if (!measure(s, c))
        return dl_fail(err, DL_INPUT,
                       "%s has chunks of more than %lld MiB, or more than can be counted", s->label,
                       (long long)(how->whole ? most_whole : MAX_CHUNK) >> 20);
    c->slots = cache / c->bytes < SLOTS ? (int)(cache / c->bytes) : SLOTS;
    s->held = (int64_t)c->bytes * c->slots;
    return true;
}

void dlr_source_keep_nothing(dlr_source *s) {
    chunk_state *c = s->state;
    if (s->read != read_chunks) return;
    for (int i = 0; i < c->slots; i++) free(c->slot[i].data);
    memset(c->slot, 0, sizeof c->slot);
    c->slots = 0, s->held = 0;
}
