#include "compiler/jit/thread.h"

#include <signal.h>

bool dl_start_compiler(pthread_t *thread, void *(*run)(void *context), void *context) {
    enum { STACK_BYTES = 64 << 20 };
    pthread_attr_t attributes;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(thread, &attributes, run, context) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return started;
}
