/* The one thread pool: it runs parallel loops over independent items, several hundred times a step.
 *
 * Threads are not pinned. On a shared machine a pinned thread waits for its busy core while another
 * core is idle. Users set a placement from outside (taskset, numactl, Slurm), which the default
 * thread count follows. */
#ifndef DLR_POOL_H
#define DLR_POOL_H
#include <stdint.h>

#include "ir/base/limits.h"
#include "ir/base/status.h"

typedef struct dlr_pool dlr_pool;
/* Work of one item; `thread` is 0 .. threads-1, and no two items run with the same one at the same
 * time. */
typedef void dlr_item_fn(void *context, int64_t item, int thread);

/* threads: counts the caller; 0 for every CPU that this process may run on. Workers block all
 * signals, so that the program's own thread receives them. Errors: DL_USAGE (count),
 * DL_RESOURCE. */
dlr_pool *dlr_pool_open(int threads, dl_error *err);
int dlr_pool_threads(const dlr_pool *pool);
/* Runs items 0 .. items-1, each once, and returns when all are done; their writes are then visible
 * to the caller. Threads take items one by one from a counter, so the thread that runs an item
 * differs from run to run: results must not depend on it. The caller is thread 0. Allocates
 * nothing. Only one thread may call it at a time, and an item must not call it. */
void dlr_pool_run(dlr_pool *pool, int64_t items, dlr_item_fn *fn, void *context);
/* The microseconds by which `runs` calls of dlr_pool_run, whose items take one thread serial_us in
 * all, end sooner on all threads than on the caller's. Negative: later. The threads are awake;
 * waking them takes dlr_pool_wake_us once more. serial_us 0: unknown, and the threads are to do
 * it: infinite. */
double dlr_pool_saves(const dlr_pool *pool, int runs, double serial_us);
extern const double dlr_pool_wake_us;
/* How many loops have been handed to the threads so far, modulo 2^32: for tests. */
uint32_t dlr_pool_handed(const dlr_pool *pool);
void dlr_pool_close(dlr_pool *pool); /* NULL is fine */
#endif
