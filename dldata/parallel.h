/* A parallel loop. Its items must write to separate memory and be independent: the thread that runs
 * an item is arbitrary, so that results must not depend on it. */
#ifndef DLDATA_PARALLEL_H
#define DLDATA_PARALLEL_H

enum { PARALLEL_THREADS = 256 }; /* at most */

/* The number of available processors, at most PARALLEL_THREADS. */
int parallel_default(void);

/* Calls fn(ctx, i) once for each i in [0, n), on up to `threads` threads, including the
 * caller's. */
void parallel_for(int threads, int n, void (*fn)(void *ctx, int i), void *ctx);
#endif
