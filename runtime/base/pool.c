/* One atomic word, the ticket, holds the number of the current run and the next item to take. A
 * thread takes an item by compare-and-swap of the whole word. A thread that comes late (its core
 * was given to another process) therefore cannot take an item of a later run by mistake. Nobody
 * waits for threads that have no item: a run ends when its items are done. */
#include "runtime/base/pool.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ir/base/clock.h"
#include "ir/base/cpus.h"

enum {
    LINE = 128,       /* two cache lines: the adjacent-line prefetcher pairs them */
    SPIN_NS = 100000, /* spinning covers the gap between two launches; after it a thread sleeps */
    PAUSES = 32,      /* pause instructions between two reads of the clock */
    MOST_UNITS = 1 << 30 /* of one ticket word; longer runs are split */
};

/* The time that a run on several threads takes in addition to its items, when they spin or sleep.
 * Constants, not measured when a pool opens: near the limit either choice is as good, and a
 * measurement on a busy machine may be wrong by a thousand (docs/notebook/performance.md). */
static const double hand_over_us = 2;
const double dlr_pool_wake_us = 15;

typedef struct {
    dlr_pool *pool;
    pthread_t thread;
    int index;
} worker;

struct dlr_pool {
    _Alignas(LINE) atomic_uint_fast64_t ticket; /* run << 32 | items left */
    _Alignas(LINE) _Atomic uint32_t run;        /* futex: number of the run that is published */
    _Alignas(LINE) _Atomic uint32_t done;       /* futex: items done of this run */
    _Alignas(LINE) _Atomic int sleepers;        /* workers in or near futex wait */
    _Atomic bool caller_sleeps, closing;
    /* The run's work. It is atomic because a late thread may read it while the next run is written.
     * Such a thread finds no ticket, because the tickets of its run are at 0 whatever `items` is by
     * now, and it drops the values that it has read. */
    _Alignas(LINE) _Atomic(dlr_item_fn *) fn;
    _Atomic(void *) context;
    _Atomic uint32_t items;
    _Atomic int64_t first; /* item number of ticket 0 */
    int threads, spin_ns;
    worker *workers;
};

static void futex_wait(_Atomic uint32_t *word, uint32_t seen) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int count) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static inline void pause_cpu(void) {
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

/* Polls `word` until it differs from `seen` (true) or the time is over (false). */
static bool spin_while(_Atomic uint32_t *word, uint32_t seen, int spin_ns) {
    if (atomic_load_explicit(word, memory_order_acquire) != seen) return true;
    for (int64_t end = dl_clock_ns() + spin_ns; spin_ns > 0 && dl_clock_ns() < end;)
        for (int i = 0; i < PAUSES; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != seen) return true;
            pause_cpu();
        }
    return false;
}

/* Takes items of the given run until none is left. */
static void take_items(dlr_pool *p, uint32_t run, int thread) {
    dlr_item_fn *fn = atomic_load_explicit(&p->fn, memory_order_relaxed);
    void *context = atomic_load_explicit(&p->context, memory_order_relaxed);
    uint32_t items = atomic_load_explicit(&p->items, memory_order_relaxed), mine = 0;
    int64_t first = atomic_load_explicit(&p->first, memory_order_relaxed);
    uint_fast64_t ticket = atomic_load_explicit(&p->ticket, memory_order_acquire);
    while ((uint32_t)(ticket >> 32) == run && (uint32_t)ticket > 0)
        if (atomic_compare_exchange_weak_explicit(&p->ticket, &ticket, ticket - 1,
                                                  memory_order_acq_rel, memory_order_acquire)) {
            fn(context, first + (items - (uint32_t)ticket), thread);
            mine++;
            ticket = atomic_load_explicit(&p->ticket, memory_order_acquire);
        }
    if (!mine) return;
    /* The run cannot end before the next line, so `done` and `items` are still this run's. */
    uint32_t before = atomic_fetch_add(&p->done, mine);
    if (before + mine == items && atomic_load(&p->caller_sleeps)) futex_wake(&p->done, 1);
}

static void *work(void *argument) {
    const worker *w = argument;
    dlr_pool *p = w->pool;
    for (uint32_t seen = 0;;) {
        if (!spin_while(&p->run, seen, p->spin_ns)) {
            atomic_fetch_add(&p->sleepers, 1);
            while (atomic_load(&p->run) == seen) futex_wait(&p->run, seen);
            atomic_fetch_sub(&p->sleepers, 1);
        }
        seen = atomic_load_explicit(&p->run, memory_order_acquire);
        if (atomic_load_explicit(&p->closing, memory_order_relaxed)) return NULL;
        take_items(p, seen, w->index);
    }
}

static void publish(dlr_pool *p, uint32_t items) {
    uint32_t run = atomic_load_explicit(&p->run, memory_order_relaxed) + 1;
    atomic_store_explicit(&p->items, items, memory_order_relaxed);
    atomic_store_explicit(&p->done, 0, memory_order_relaxed);
    atomic_store_explicit(&p->ticket, (uint_fast64_t)run << 32 | items, memory_order_release);
    atomic_store(&p->run, run);
    /* This pair and the sleeper's pair (increment `sleepers`, read `run`) are both sequentially
     * consistent: at least one of the two threads sees the other's write. */
    int asleep = atomic_load(&p->sleepers);
    if (asleep) futex_wake(&p->run, (int64_t)items - 1 < asleep ? (int)items - 1 : INT_MAX);
}

static void run_part(dlr_pool *p, int64_t first, uint32_t items, dlr_item_fn *fn, void *context) {
    atomic_store_explicit(&p->fn, fn, memory_order_relaxed);
    atomic_store_explicit(&p->context, context, memory_order_relaxed);
    atomic_store_explicit(&p->first, first, memory_order_relaxed);
    publish(p, items);
    take_items(p, atomic_load_explicit(&p->run, memory_order_relaxed), 0);
    for (uint32_t done; (done = atomic_load_explicit(&p->done, memory_order_acquire)) != items;) {
        if (spin_while(&p->done, done, p->spin_ns)) continue;
        atomic_store(&p->caller_sleeps, true);
        done = atomic_load(&p->done);
        if (done != items) futex_wait(&p->done, done);
        atomic_store(&p->caller_sleeps, false);
    }
}

void dlr_pool_run(dlr_pool *p, int64_t items, dlr_item_fn *fn, void *context) {
    if (items == 1 || p->threads == 1) {
        for (int64_t item = 0; item < items; item++) fn(context, item, 0);
        return;
    }
    for (int64_t first = 0; first < items; first += MOST_UNITS) {
        int64_t left = items - first;
        run_part(p, first, left < MOST_UNITS ? (uint32_t)left : MOST_UNITS, fn, context);
    }
}

int dlr_pool_threads(const dlr_pool *p) { return p->threads; }

double dlr_pool_saves(const dlr_pool *p, int runs, double serial_us) {
    if (serial_us == 0) return INFINITY;
    return serial_us * (p->threads - 1) / p->threads -
           runs * (p->spin_ns ? hand_over_us : dlr_pool_wake_us);
}

uint32_t dlr_pool_handed(const dlr_pool *p) {
    return atomic_load_explicit(&p->run, memory_order_relaxed);
}

static bool start_workers(dlr_pool *p, dl_error *err) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int wanted = p->threads, why = 0;
    for (p->threads = 1; p->threads < wanted && !why;) {
        worker *w = &p->workers[p->threads];
        *w = (worker){.pool = p, .index = p->threads};
        why = pthread_create(&w->thread, NULL, work, w);
        if (!why) p->threads++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = why;
    return !why ||
           dl_fail_errno(err, DL_RESOURCE, "cannot start thread %d of %d (run with fewer threads)",
                         p->threads + 1, wanted);
}

dlr_pool *dlr_pool_open(int threads, dl_error *err) {
    int cpus = dl_cpus_allowed();
    if (threads == 0) threads = cpus;
    if (threads < 1 || threads > DL_MAX_THREADS) {
        dl_fail(err, DL_USAGE, "%d threads: give 1 to %d, or 0 for one a CPU", threads,
                DL_MAX_THREADS);
        return NULL;
    }
    dlr_pool *p = aligned_alloc(LINE, (sizeof *p + LINE - 1) / LINE * LINE);
    worker *workers = calloc((size_t)threads, sizeof *workers);
    if (!p || !workers) {
        free(p), free(workers);
        dl_fail(err, DL_RESOURCE, "no memory for a pool of %d threads", threads);
        return NULL;
    }
    /* With more threads than CPUs, a spinning thread would take the CPU from a working one. */
    *p =
        (dlr_pool){.threads = threads, .spin_ns = threads > cpus ? 0 : SPIN_NS, .workers = workers};
    if (start_workers(p, err)) return p;
    dlr_pool_close(p);
    return NULL;
}

void dlr_pool_close(dlr_pool *p) {
    if (!p) return;
    atomic_store(&p->closing, true);
    atomic_fetch_add(&p->run, 1);
    futex_wake(&p->run, INT_MAX);
    for (int i = 1; i < p->threads; i++) pthread_join(p->workers[i].thread, NULL);
    free(p->workers);
    free(p);
}
