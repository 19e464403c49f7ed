/* A loop shared among threads. Its items must write to places of their own and be complete in
 * themselves: which thread takes which item is left to chance, so that results cannot depend on it.
 */
#ifndef DLDATA_PARALLEL_H
#define DLDATA_PARALLEL_H

enum { PARALLEL_THREADS = 256 }; /* at most */

/* As many threads as there are processors to run on, or the most. */
int parallel_default(void);

/* Calls fn(ctx, i) once for each i in [0, n), on up to `threads` threads, the caller's included. */
void parallel_for(int threads, int n, void (*fn)(void *ctx, int i), void *ctx);
#endif
