#include "runtime/base/background.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "ir/base/clock.h"

struct dlr_background {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t begun, done;
    dlr_job *job; /* NULL: none, or its result was taken */
    void *context;
    bool running, ok, ending;
    double seconds;
    dl_error fault;
};

static void *work(void *arg) {
    dlr_background *b = arg;
    pthread_mutex_lock(&b->lock);
    for (;;) {
        while (!b->running && !b->ending) pthread_cond_wait(&b->begun, &b->lock);
        if (!b->running) break;
        dlr_job *job = b->job;
        void *context = b->context;
        pthread_mutex_unlock(&b->lock);
        dl_error fault = {0};
        double began = dl_clock_seconds();
        bool ok = job(context, &fault);
        pthread_mutex_lock(&b->lock);
        b->running = false, b->ok = ok, b->fault = fault, b->seconds = dl_clock_seconds() - began;
        pthread_cond_signal(&b->done);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

dlr_background *dlr_background_open(dl_error *err) {
    sigset_t all, before;
    dlr_background *b = calloc(1, sizeof *b);
    if (!b) return dl_fail(err, DL_RESOURCE, "out of memory"), NULL;
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->begun, NULL);
    pthread_cond_init(&b->done, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    bool ok = pthread_create(&b->thread, NULL, work, b) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (ok) return b;
    free(b);
    return dl_fail(err, DL_RESOURCE, "cannot start a thread"), NULL;
}

void dlr_background_start(dlr_background *b, dlr_job *job, void *context) {
    pthread_mutex_lock(&b->lock);
    b->job = job, b->context = context, b->running = true;
    pthread_cond_signal(&b->begun);
    pthread_mutex_unlock(&b->lock);
}

bool dlr_background_busy(dlr_background *b) {
    pthread_mutex_lock(&b->lock);
    bool busy = b->running;
    pthread_mutex_unlock(&b->lock);
    return busy;
}

bool dlr_background_wait(dlr_background *b, double *seconds, dl_error *err) {
    pthread_mutex_lock(&b->lock);
    while (b->running) pthread_cond_wait(&b->done, &b->lock);
    bool any = b->job != NULL, ok = !any || b->ok;
    if (seconds) *seconds = any ? b->seconds : 0;
    if (!ok) dl_fail(err, b->fault.code, "%s", b->fault.message);
    b->job = NULL;
    pthread_mutex_unlock(&b->lock);
    return ok;
}

void dlr_background_close(dlr_background *b) {
    if (!b) return;
    pthread_mutex_lock(&b->lock);
    b->ending = true;
    pthread_cond_signal(&b->begun);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
    pthread_cond_destroy(&b->begun);
    pthread_cond_destroy(&b->done);
    pthread_mutex_destroy(&b->lock);
    free(b);
}
