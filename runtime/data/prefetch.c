#include "runtime/data/prefetch.h"

#include "ir/base/limits.h"
#include "ir/base/memory.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

enum { DEFAULT_DEPTH = 3, MAX_DEPTH = 1024, ALIGN = 64, PAGE = 4096 };

typedef struct {
    void *data[DLR_MAX_ARRAYS];          /* of each array of the batch */
    dlr_layout_map *how[DLR_MAX_ARRAYS]; /* by array and sample, for raw samples */
    int filled;                          /* number of finished samples, including failed ones */
    int failed;       /* the first sample that failed, in sample order; -1: none */
    dl_error failure; /* its error */
} slot;

/* Positions count batches from epoch 0 on without end; position p uses slot p % depth. `first` is
 * the oldest position whose slot is in use. Workers claim samples one by one, by `claimed`, up to
 * the end of position first + depth - 1. */
struct dlr_prefetch {
    const dlr_dataset *data;
    dlr_prefetch_options o;
    int64_t samples, batches;     /* of an epoch */
    size_t bytes[DLR_MAX_ARRAYS]; /* bytes of each array of a sample */
    dlr_raw raw[DLR_MAX_ARRAYS];  /* the data set's description of raw samples */
    dlr_layout_map *moves;        /* for all slots */
    slot *slots;
    char *memory, *scratch; /* scratch: one buffer per worker, or one for the caller */
    size_t scratch_bytes;   /* bytes of each */

    pthread_mutex_t lock;
    /* conditions: a sample may be claimed; a sample or a worker's run was finished */
    pthread_cond_t room, done;
    int64_t first, claimed;
    int busy; /* samples that workers are making */
    bool lent, paused, stopping;
    int started;
    pthread_t *threads;
};

static slot *slot_of(const dlr_prefetch *p, int64_t position) {
    return &p->slots[position % p->o.depth];
}

static int count_arrays(const dlr_prefetch *p) { return dlr_dataset_arrays(p->data)->n; }

/* Bytes of an array of a sample, or of its raw numbers, which are at most as large. */
static size_t stride_of(const dlr_prefetch *p, int k) {
    const dl_type *t = &dlr_dataset_arrays(p->data)->at[k].type;
    return p->o.raw ? (size_t)dl_type_count(t) * dlr_element_bytes(p->raw[k].type) : p->bytes[k];
}

/* Samples of a batch of all ranks. */
static int64_t global_batch(const dlr_prefetch_options *o) { return (int64_t)o->batch * o->world; }

/* Makes sample `i` of the batch at `position`, without the lock. */
static bool make(const dlr_prefetch *p, int64_t position, int i, void *scratch, dl_error *err) {
    const slot *s = slot_of(p, position);
    int64_t epoch = position / p->batches, index = position % p->batches;
    int64_t sample = (index * p->o.batch + i) * p->o.world + p->o.rank;
    if (sample >= p->samples) sample = p->samples - 1;
    void *out[DLR_MAX_ARRAYS];
    for (int k = 0; k < count_arrays(p); k++)
        out[k] = (char *)s->data[k] + (size_t)i * stride_of(p, k);
    if (p->o.raw) {
        dlr_layout_map how[DLR_MAX_ARRAYS];
        memset(how, 0, (size_t)count_arrays(p) * sizeof *how);
        bool ok = true;
        if (p->o.raw->held)
            dlr_dataset_locate(p->data, epoch, sample, how);
        else
            ok = dlr_dataset_numbers(p->data, epoch, sample, out, scratch, how, err);
        for (int k = 0; k < count_arrays(p); k++) s->how[k][i] = how[k];
        return ok;
    }
    return dlr_dataset_sample(p->data, epoch, sample, out, scratch, err);
}

static void record_result(slot *s, int i, bool ok, const dl_error *err) {
    s->filled++;
    if (ok || (s->failed >= 0 && s->failed < i)) return;
    s->failed = i;
    s->failure = *err;
}

static void empty(slot *s) { s->filled = 0, s->failed = -1, s->failure = (dl_error){0}; }

static bool may_claim(const dlr_prefetch *p) {
    int64_t position = p->claimed / p->o.batch;
    bool in_vain = p->o.switched_between && position / p->batches > p->first / p->batches;
    return !p->paused && !in_vain && position < p->first + p->o.depth;
}

typedef struct {
    dlr_prefetch *p;
    size_t index;
} worker;

static void *work(void *arg) {
    worker w = *(worker *)arg;
    dlr_prefetch *p = w.p;
    free(arg);
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->stopping && !may_claim(p)) pthread_cond_wait(&p->room, &p->lock);
        if (p->stopping) break;
        int64_t position = p->claimed / p->o.batch;
        int i = (int)(p->claimed++ % p->o.batch);
        p->busy++;
        pthread_mutex_unlock(&p->lock);
        dl_error err = {0};
        bool ok = make(p, position, i, p->scratch + w.index * p->scratch_bytes, &err);
        pthread_mutex_lock(&p->lock);
        p->busy--;
        slot *s = slot_of(p, position);
        record_result(s, i, ok, &err);
        if (s->filled == p->o.batch || p->paused || p->busy == 0) pthread_cond_signal(&p->done);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static bool start_workers(dlr_prefetch *p, dl_error *err) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    for (int i = 0; i < p->o.workers; i++) {
        worker *w = malloc(sizeof *w);
        if (w) *w = (worker){p, (size_t)i};
        if (!w || pthread_create(&p->threads[i], NULL, work, w) != 0) {
            free(w);
            dl_fail(err, DL_RESOURCE,
                    "cannot start data worker %d of %d: use fewer num_data_workers", i + 1,
                    p->o.workers);
            break;
        }
        p->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err->code == DL_OK;
}

static size_t round_up(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

/* Enlarges the workers' scratch where a data set needs more. */
static bool grow_scratch(dlr_prefetch *p, const dlr_dataset *d, dl_error *err) {
    size_t each = round_up(dlr_dataset_scratch(d) + 1),
           scratches = p->o.workers ? (size_t)p->o.workers : 1;
    if (each <= p->scratch_bytes) return true;
    double bytes = (double)scratches * (double)each;
    int64_t available = dl_memory_available();
    bool room = available < 0 || bytes < (double)available;
    char *more = room ? aligned_alloc(ALIGN, scratches * each) : NULL;
    if (!more)
        return dl_fail(err, DL_RESOURCE,
                       "no memory for %zu data workers (%.1f GiB): use fewer num_data_workers",
                       scratches, bytes / 0x1p30);
    free(p->scratch);
    p->scratch = more, p->scratch_bytes = each;
    return true;
}

/* Bytes of an array of a batch. */
static size_t room_of(const dlr_prefetch *p, int k) {
    return p->o.raw && p->o.raw->held ? 0 : round_up((size_t)p->o.batch * p->bytes[k]);
}

static size_t front_of(const dlr_prefetch *p, int k) { return p->o.raw ? p->o.raw->front[k] : 0; }

/* Makes one allocation for the ring: for each slot the arrays of a batch, one after the other. */
static bool allocate(dlr_prefetch *p, dl_error *err) {
    size_t depth = (size_t)p->o.depth, each = 0;
    double bytes = 0; /* a double, which cannot overflow */
    for (int k = 0; k < count_arrays(p); k++) {
        each += front_of(p, k) + room_of(p, k);
        bytes += (double)p->o.depth * (double)room_of(p, k);
    }
    p->slots = calloc(depth, sizeof *p->slots);
    p->threads = calloc((size_t)p->o.workers + 1, sizeof *p->threads);
    p->moves =
        p->o.raw ? calloc(depth * (size_t)(count_arrays(p) * p->o.batch), sizeof *p->moves) : NULL;
    int64_t available = dl_memory_available();
    if (available < 0 || bytes < (double)available)
        p->memory = aligned_alloc(PAGE, (depth * each + PAGE) & ~(size_t)(PAGE - 1));
    if (!p->slots || !p->threads || !p->memory || (p->o.raw && !p->moves))
        return dl_fail(
            err, DL_RESOURCE,
            "no memory for %d batches of data (%.1f GiB): use a smaller local_batch_size",
            p->o.depth, bytes / 0x1p30);
    if (p->o.raw && p->o.raw->pin) p->o.raw->pin(p->o.raw->user, p->memory, depth * each);
    char *at = p->memory;
    for (int i = 0; i < p->o.depth; i++) {
        empty(&p->slots[i]);
        for (int k = 0; k < count_arrays(p); k++) {
            at += front_of(p, k);
            p->slots[i].data[k] = at;
            if (p->o.raw) p->slots[i].how[k] = p->moves + (i * count_arrays(p) + k) * p->o.batch;
            at += room_of(p, k);
        }
    }
    return grow_scratch(p, p->data, err);
}

/* Sets the number of batches in an epoch of a data set. */
static void count(dlr_prefetch *p, const dlr_dataset *d) {
    const int64_t all = global_batch(&p->o);
    p->data = d, p->samples = dlr_dataset_samples(d);
    p->batches = (p->samples + (p->o.partial ? all - 1 : 0)) / all;
    if (p->o.raw) DL_CHECK(dlr_dataset_raw(d, p->raw));
}

static bool check_options(const dlr_prefetch_options *o, const dlr_dataset *d, dl_error *err) {
    const int64_t samples = dlr_dataset_samples(d);
    if (o->batch < 1 || o->batch > DL_MAX_BATCH)
        return dl_fail(err, DL_USAGE, "local_batch_size must be 1 to %d, not %d", DL_MAX_BATCH,
                       o->batch);
    if (o->workers < 0 || o->workers > DL_MAX_WORKERS)
        return dl_fail(err, DL_USAGE, "num_data_workers must be 0 to %d, not %d", DL_MAX_WORKERS,
                       o->workers);
    if (o->depth < 0 || o->depth > MAX_DEPTH)
        return dl_fail(err, DL_USAGE, "a ring of %d batches cannot be: 1 to %d", o->depth,
                       MAX_DEPTH);
    if (o->world < 1 || o->rank < 0 || o->rank >= o->world)
        return dl_fail(err, DL_USAGE, "rank %d of %d ranks cannot be", o->rank, o->world);
    if (samples < global_batch(o) && !o->partial)
        return dl_fail(err, DL_USAGE,
                       "%s has %lld samples, which fill no batch of %d on each of %d ranks",
                       dlr_dataset_split(d) == DLR_TRAIN ? "training" : "validation",
                       (long long)samples, o->batch, o->world);
    return true;
}

dlr_prefetch *dlr_prefetch_start(const dlr_dataset *d, const dlr_prefetch_options *options,
                                 dl_error *err) {
    if (!check_options(options, d, err)) return NULL;
    dlr_prefetch *p = calloc(1, sizeof *p);
    if (!p) return dl_fail(err, DL_RESOURCE, "no memory for the data workers"), NULL;
    p->o = *options;
    if (p->o.workers == 0) p->o.depth = 1;
    if (p->o.depth < 1) p->o.depth = DEFAULT_DEPTH;
    count(p, d);
    for (int k = 0; k < count_arrays(p); k++)
        p->bytes[k] = dlr_array_bytes(&dlr_dataset_arrays(d)->at[k]);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->room, NULL);
    pthread_cond_init(&p->done, NULL);
    if (allocate(p, err) && start_workers(p, err)) return p;
    dlr_prefetch_stop(p);
    return NULL;
}

void dlr_prefetch_stop(dlr_prefetch *p) {
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    pthread_cond_broadcast(&p->room);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->started; i++) pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->room);
    pthread_mutex_destroy(&p->lock);
    if (p->memory && p->o.raw && p->o.raw->unpin) p->o.raw->unpin(p->o.raw->user, p->memory);
    free(p->memory), free(p->scratch), free(p->moves), free(p->threads), free(p->slots), free(p);
}

int64_t dlr_prefetch_batches(const dlr_prefetch *p) { return p->batches; }

/* Calls `back` before the lent slot returns to the workers. The lock must not be held, since
 * workers wait for it. */
static void give_up(const dlr_prefetch *p) {
    if (p->lent && p->o.raw && p->o.raw->back) p->o.raw->back(p->o.raw->user);
}

/* Returns the lent slot to the workers. */
static void take_back(dlr_prefetch *p) {
    if (!p->lent) return;
    empty(slot_of(p, p->first++));
    p->lent = false;
    pthread_cond_broadcast(&p->room);
}

/* The samples that count in the batch at p->first: of this rank and of all. */
static void count_samples(const dlr_prefetch *p, dlr_batch *batch) {
    const int64_t left = p->samples - batch->index * global_batch(&p->o),
                  own = (left - p->o.rank + p->o.world - 1) / p->o.world;
    batch->of_all = left < global_batch(&p->o) ? left : global_batch(&p->o);
    batch->samples = own < 0 ? 0 : own < p->o.batch ? own : p->o.batch;
}

bool dlr_prefetch_next(dlr_prefetch *p, dlr_batch *batch, dl_error *err) {
    give_up(p);
    pthread_mutex_lock(&p->lock);
    take_back(p);
    slot *s = slot_of(p, p->first);
    if (p->o.workers == 0)
        for (int i = s->filled; i < p->o.batch; i++) {
            dl_error failure = {0};
            bool ok = make(p, p->first, i, p->scratch, &failure);
            record_result(s, i, ok, &failure);
        }
    while (s->filled < p->o.batch) pthread_cond_wait(&p->done, &p->lock);
    bool ok = s->failed < 0;
    if (ok) {
        *batch = (dlr_batch){.arrays = dlr_dataset_arrays(p->data),
                             .data = s->data,
                             .raw = p->o.raw ? p->raw : NULL,
                             .held = p->o.raw && p->o.raw->held,
                             .how = s->how,
                             .epoch = p->first / p->batches,
                             .index = p->first % p->batches};
        count_samples(p, batch);
        p->lent = true;
    } else {
        dl_fail(err, s->failure.code, "%s", s->failure.message);
    }
    pthread_mutex_unlock(&p->lock);
    return ok;
}

void dlr_prefetch_fill(dlr_prefetch *p) {
    pthread_mutex_lock(&p->lock);
    while (p->started && (p->busy || may_claim(p))) pthread_cond_wait(&p->done, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

/* Stops the workers after their current samples and empties the ring; the lock must be held. */
static void halt(dlr_prefetch *p) {
    take_back(p);
    p->paused = true;
    while (p->busy) pthread_cond_wait(&p->done, &p->lock);
    for (int i = 0; i < p->o.depth; i++) empty(&p->slots[i]);
}

static void go_on(dlr_prefetch *p, int64_t position) {
    p->first = position, p->claimed = position * p->o.batch;
    p->paused = false;
    pthread_cond_broadcast(&p->room);
}

void dlr_prefetch_seek(dlr_prefetch *p, int64_t epoch, int64_t index) {
    int64_t position = epoch * p->batches + index;
    give_up(p);
    pthread_mutex_lock(&p->lock);
    take_back(p);
    if (position != p->first) halt(p), go_on(p, position);
    pthread_mutex_unlock(&p->lock);
}

bool dlr_prefetch_switch(dlr_prefetch *p, const dlr_dataset *d, bool partial, int64_t epoch,
                         int64_t index, dl_error *err) {
    dlr_prefetch_options o = p->o;
    o.partial = partial;
    DL_CHECK(dlr_dataset_arrays(d)->n == count_arrays(p));
    for (int k = 0; k < count_arrays(p); k++)
        DL_CHECK(dlr_array_bytes(&dlr_dataset_arrays(d)->at[k]) == p->bytes[k]);
    if (!check_options(&o, d, err)) return false;
    give_up(p);
    pthread_mutex_lock(&p->lock);
    halt(p);
    bool ok = grow_scratch(p, d, err);
    if (ok) p->o.partial = partial, count(p, d);
    go_on(p, ok ? epoch * p->batches + index : p->first);
    pthread_mutex_unlock(&p->lock);
    return ok;
}
