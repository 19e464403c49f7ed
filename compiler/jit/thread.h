/* A thread for a compiler: with a large stack, since front ends recurse (only used pages are
 * allocated), and without signals, which the calling thread handles. */
#ifndef DL_THREAD_H
#define DL_THREAD_H
#include <pthread.h>
#include <stdbool.h>

/* False: it cannot be started. Otherwise the caller must join it. */
bool dl_start_compiler(pthread_t *thread, void *(*run)(void *context), void *context);
#endif
