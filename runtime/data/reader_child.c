#include "runtime/data/reader_child.h"

#include "ir/base/input.h"
#include "ir/base/sandbox.h"
#include "runtime/data/byte_order.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CPU_SECONDS = 20 };

struct dlr_child {
    pthread_mutex_t lock; /* one request at a time */
    int fd;               /* this process' end of the socket; -1 when the child is lost */
    pid_t process;
    const char *label;
    size_t question;
};

/* ---- in the child ---- */

static dl_file_calls calls_of(const dl_file_calls *before, const dl_file_calls *kernel) {
    dl_file_calls calls = dl_file_calls_since(before), library = dl_file_calls_of_library(kernel);
    dl_file_calls_sum(&calls, &library, 1);
    return calls;
}

/* Answers requests until the parent is gone. */
_Noreturn static void serve(int fd, const dlr_child_work *work, void *context) {
    fd = dl_sandbox_enter(fd);
    dl_sandbox_allow(CPU_SECONDS);
    dlr_child_answer a = {0};
    dl_file_calls before = dl_file_calls_so_far(), kernel = dl_file_calls_kernel();
    void *question = malloc(work->question);
    a.ok = question && work->open(context, &a);
    a.calls = calls_of(&before, &kernel);
    bool there = dl_send_bytes(fd, &a, sizeof a) && a.ok;
    while (there) {
        dl_sandbox_allow(0);
        if (!dl_receive_bytes(fd, question, work->question)) break;
        dl_sandbox_allow(CPU_SECONDS);
        a = (dlr_child_answer){.reason = "no memory"};
        before = dl_file_calls_so_far(), kernel = dl_file_calls_kernel();
        void *out = work->read(context, question, &a);
        a.calls = calls_of(&before, &kernel);
        there = dl_send_bytes(fd, &a, sizeof a) && (!a.ok || dl_send_bytes(fd, out, a.bytes));
        free(out);
    }
    _exit(0);
}

/* ---- in this process ---- */

/* Records that the child is lost, with the reason; no more requests are sent. */
static bool lose(dlr_child *c, dl_error *err) {
    char why[160];
    int status = -1;
    pid_t ended;
    close(c->fd);
    c->fd = -1;
    while ((ended = waitpid(c->process, &status, 0)) < 0 && errno == EINTR) {
    }
    dl_sandbox_fate(ended < 0 ? -1 : status, why, sizeof why);
    return dl_fail(err, DL_INPUT, "cannot read %s: %s", c->label, why);
}

static bool receive_answer(dlr_child *c, const char *what, dlr_child_answer *a, dl_error *err) {
    if (!dl_receive_bytes(c->fd, a, sizeof *a)) return lose(c, err);
    a->reason[sizeof a->reason - 1] = 0;
    dlr_check_bool(&a->ok);
    dl_file_calls_add(&a->calls);
    return a->ok || dl_fail(err, DL_INPUT, "cannot %s %s: %s", what, c->label, a->reason);
}

bool dlr_child_ask(dlr_child *c, const void *question, void **out, uint64_t bytes,
                   dlr_child_answer *a, dl_error *err) {
    pthread_mutex_lock(&c->lock);
    bool ok = c->fd >= 0 || dl_fail(err, DL_INPUT, "cannot read %s: its reader was lost", c->label);
    if (ok) ok = dl_send_bytes(c->fd, question, c->question) || lose(c, err);
    ok = ok && receive_answer(c, "read", a, err);
    if (ok && (*out ? a->bytes != bytes : a->bytes > bytes)) ok = lose(c, err);
    /* no one can receive the child's remaining bytes */
    if (ok && !*out && a->bytes && !(*out = malloc(a->bytes))) ok = lose(c, err);
    if (ok && a->bytes) ok = dl_receive_bytes(c->fd, *out, a->bytes) || lose(c, err);
    pthread_mutex_unlock(&c->lock);
    return ok;
}

void dlr_child_close(dlr_child *c) {
    if (!c) return;
    if (c->fd >= 0) {
        close(c->fd); /* closing the socket ends the child */
        while (waitpid(c->process, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    pthread_mutex_destroy(&c->lock);
    free(c);
}

dlr_child *dlr_child_start(const char *label, const char *path, const dlr_child_work *work,
                           void *context, dl_error *err) {
    int ends[2];
    dlr_child_answer a;
    if (!dl_check_descriptors(2, path, err)) return NULL;
    dlr_child *c = calloc(1, sizeof *c);
    if (!c) return dl_fail(err, DL_RESOURCE, "no memory to open %s", path), NULL;
    *c = (dlr_child){.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1, .label = label};
    c->question = work->question;
    bool ok = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0;
    if (ok) {
        c->process = fork();
        if (c->process == 0) serve(ends[1], work, context);
        ok = c->process > 0;
        close(ends[1]);
        if (ok)
            c->fd = ends[0];
        else
            close(ends[0]);
    }
    if (!ok) dl_fail_errno(err, DL_RESOURCE, "cannot start a process to read %s", path);
    if (ok && receive_answer(c, "open", &a, err)) return c;
    dlr_child_close(c);
    return NULL;
}
