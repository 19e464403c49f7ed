/* A thread in which a compiler runs: with a stack that its front end may recurse in, of which only
 * what is used is taken, and without signals, which are the calling thread's. */
#ifndef DL_THREAD_H
#define DL_THREAD_H
#include <pthread.h>
#include <stdbool.h>

/* False: it cannot be started. Otherwise to be joined. */
bool dl_start_compiler(pthread_t *thread, void *(*run)(void *context), void *context);
#endif
