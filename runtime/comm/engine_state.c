/* The engine's state that its thread and the program's thread share: a failure, and state changes.
 * Both threads report through these functions. */
#include <stdarg.h>
#include <stdio.h>

#include "runtime/comm/engine.h"

void dlr_engine_fail(dlr_engine *e, const char *format, ...) {
    char text[900];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pthread_mutex_lock(&e->lock);
    dl_fail(&e->failed, DL_PEER, "%s", text);
    e->lost = true;
    pthread_cond_broadcast(&e->change);
    pthread_cond_signal(&e->work);
    pthread_mutex_unlock(&e->lock);
}

void dlr_engine_state(dlr_engine *e, int state) {
    pthread_mutex_lock(&e->lock);
    e->state = state;
    pthread_cond_broadcast(&e->change);
    pthread_cond_signal(&e->work);
    pthread_mutex_unlock(&e->lock);
}
