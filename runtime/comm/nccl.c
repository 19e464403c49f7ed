/* The NCCL backend, for ranks with a GPU each. The hosts have a comm of their own (MPI), which
 * carries NCCL's id at the start and detects lost ranks. Each group's communicator is split from
 * the world's.
 *
 * Communicators are nonblocking: a call may continue in a thread of NCCL, and is polled until it
 * has ended. A missing rank is therefore an error and not a hang. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ir/base/clock.h"
#include "runtime/comm/nccl.h"
#include "runtime/comm/rendezvous.h"

/* ---- closing ---- */

static void free_backend(dlr_nccl_backend *b) {
    const dlr_driver *v = b->v;
    if (b->stream) dlr_nccl_free_staged(b);
    for (int i = 0; i < b->rooms.n; i++) v->MemFree(b->rooms.at[i]);
    if (b->before) v->EventDestroy(b->before);
    if (b->stream) v->StreamDestroy(b->stream);
    if (b->context) v->DevicePrimaryCtxRelease(b->device);
    pthread_mutex_destroy(&b->lock);
    pthread_cond_destroy(&b->change);
    dl_arena_free(b->arena);
}

/* After a failure nothing is freed: aborted kernels may still be running. */
static bool nccl_close(dlr_comm *comm, dl_error *err) {
    dlr_nccl_backend *b = comm->of;
    if (b->host) dlr_comm_set_hooks(b->host, NULL);
    pthread_mutex_lock(&b->lock);
    bool well = !b->failed.code;
    if (!well) *err = b->failed;
    for (int i = b->all.n; well && i-- > 0;) {
        well = dlr_nccl_ok(b, b->all.at[i], b->n->CommFinalize(b->all.at[i]), "the end of the run",
                           err);
        if (well) b->n->CommDestroy(b->all.at[i]);
        if (well) b->all.n = i; /* no one polls it any more */
    }
    pthread_mutex_unlock(&b->lock);
    dlr_nccl_end_watch(b);
    if (well) free_backend(b);
    return well;
}

static const dlr_comm_backend_table table = {.group = dlr_nccl_group,
                                             .start = dlr_nccl_start,
                                             .wait = dlr_nccl_wait,
                                             .done = dlr_nccl_done,
                                             .close = nccl_close,
                                             .leave = dlr_nccl_leave,
                                             .apart = true,
                                             .enqueue = dlr_nccl_enqueue,
                                             .reserve = dlr_nccl_reserve,
                                             .check = dlr_nccl_check,
                                             .waits = dlr_nccl_waits};

/* ---- opening ---- */

/* Rank 0 makes the id of the world's communicator. */
static bool share_id(dlr_nccl_backend *b, dl_error *err) {
    int size = b->comm->world.size, result = 0;
    struct {
        dlr_nccl_id id;
        int64_t failed;
    } said = {0};
    dl_error own = {0};
    if (b->comm->world.rank == 0) result = b->n->GetUniqueId(&said.id);
    said.failed = result;
    if (result) dl_fail(&own, DL_RESOURCE, "NCCL makes no id: %s", b->n->GetErrorString(result));
    bool ok =
        size == 1 || (b->host ? dlr_comm_all(b->host,
                                             &(dlr_collective){.kind = DLR_BROADCAST,
                                                               .type = DL_I64,
                                                               .outer = 1,
                                                               .count = sizeof said / 8,
                                                               .from = &said,
                                                               .to = &said,
                                                               .what = "broadcast of NCCL's id"},
                                             err)
                              : dlr_rendezvous(&b->comm->world, b->turns++, &said, sizeof said,
                                               b->timeout, err));
    b->id = said.id;
    if (!ok) return false;
    if (own.code) return dl_fail(err, own.code, "%s", own.message);
    return !said.failed || dl_fail(err, DL_RESOURCE, "NCCL makes no id on rank 0");
}

/* The hooks of the hosts' comm: a loss fails this backend; state and flight recorder also call this
 * comm's own hooks. */
static void host_lost(void *of, const dl_error *why) {
    dlr_nccl_backend *b = of;
    pthread_mutex_lock(&b->lock);
    if (!b->failed.code) b->failed = *why, b->told = true;
    pthread_cond_broadcast(&b->change);
    pthread_mutex_unlock(&b->lock);
}
static void host_state(void *of, dlr_comm_state *state) { *state = dlr_nccl_state(of); }
static void host_flight(void *of, int rank, dl_buf *to) {
    dlr_nccl_backend *b = of;
    dlr_comm_state s = dlr_nccl_state(b);
    if (*s.what)
        dl_putf(to,
                "rank %d: NCCL: in %s, %lld collectives or runs begun, waited for since %.3f s\n",
                rank, s.what, (long long)s.calls,
                s.waiting ? (double)(dl_clock_ns() - s.waiting) * 1e-9 : 0);
    dlr_hooks_flight(b->comm, rank, to);
}

static dlr_comm *open_comm(dlr_comm *host, const dlr_world *world, const dlr_driver *driver,
                           int ordinal, double timeout, dl_error *err) {
    const dlr_nccl *n = dlr_nccl_load(err);
    if (!n) return NULL;
    dl_arena *arena = dl_arena_new(NULL);
    dlr_nccl_backend *b = DL_NEW(arena, dlr_nccl_backend);
    *b = (dlr_nccl_backend){
        .n = n, .v = driver, .host = host, .arena = arena, .timeout = timeout, .ordinal = ordinal};
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->change, &monotonic);
    pthread_condattr_destroy(&monotonic);
    const char *name =
        dl_format(arena, "NCCL %d.%d.%d%s%s", n->version / 10000, n->version / 100 % 100,
                  n->version % 100, host ? " with " : "", host ? host->name : "");
    b->comm = dlr_comm_new(&table, name, *world, b);
    b->comm->timeout = timeout, b->comm->sharing = world->local_size > 1 ? world->local_size : 1;
    if (host) dlr_comm_set_hooks(host, &(dlr_device_hooks){b, host_lost, host_state, host_flight});
    bool ok = share_id(b, err) && (!host || dlr_nccl_begin(b, err));
    for (int i = 1; ok && host && i < host->groups; i++)
        ok = dlr_comm_group(b->comm, host->group[i]->n, host->group[i]->ranks, err) > 0;
    if (ok) return b->comm;
    /* NCCL may still be working on calls that have begun: nothing is freed */
    if (host) dlr_comm_set_hooks(host, NULL);
    dlr_nccl_end_watch(b);
    return NULL;
}

dlr_comm *dlr_comm_nccl(dlr_comm *host, const dlr_driver *driver, int ordinal, dl_error *err) {
    if (host->backend->apart || host->world.size == 1)
        return open_comm(host, &host->world, driver, ordinal, host->timeout, err);
    dl_fail(err, DL_USAGE, "ranks in one process have no devices of their own: --device=cpu");
    return NULL;
}

dlr_comm *dlr_comm_nccl_alone(const dlr_world *world, const dlr_driver *driver, int ordinal,
                              double timeout, dl_error *err) {
    return open_comm(NULL, world, driver, ordinal, timeout > 0 ? timeout : 600, err);
}

bool dlr_comm_is_nccl(const dlr_comm *comm) { return comm->backend == &table; }

void dlr_comm_follow(dlr_comm *comm, dlr_cu_stream stream) {
    ((dlr_nccl_backend *)comm->of)->after = stream;
}
