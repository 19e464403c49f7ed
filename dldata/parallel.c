#include "dldata/parallel.h"

#include <pthread.h>
#include <stdatomic.h>

#include "ir/base/cpus.h"

typedef struct {
    atomic_int next;
    int n;
    void (*fn)(void *ctx, int i);
    void *ctx;
} loop;

static void *work(void *arg) {
    loop *l = arg;
    for (int i; (i = atomic_fetch_add(&l->next, 1)) < l->n;) l->fn(l->ctx, i);
    return NULL;
}

void parallel_for(int threads, int n, void (*fn)(void *ctx, int i), void *ctx) {
    loop l = {.n = n, .fn = fn, .ctx = ctx};
    pthread_t helper[PARALLEL_THREADS];
    int helpers = 0, wanted = (threads < n ? threads : n) - 1;
    if (wanted > PARALLEL_THREADS) wanted = PARALLEL_THREADS;
    /* If a thread cannot be started, the others process its items. */
    while (helpers < wanted && pthread_create(&helper[helpers], NULL, work, &l) == 0) helpers++;
    work(&l);
    for (int i = 0; i < helpers; i++) pthread_join(helper[i], NULL);
}

int parallel_default(void) {
    int n = dl_cpus_allowed();
    return n < PARALLEL_THREADS ? n : PARALLEL_THREADS;
}
