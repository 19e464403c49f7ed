/* The NCCL backend, for ranks with a GPU each. The hosts have a comm of their own (MPI), which
 * carries NCCL's id at the start and detects lost ranks. Each group's communicator is split from
 * the world's.
 *
 * NCCL registers memory with devices and network cards. A fork() of the process would share these
 * pages with the child, which reads a file of samples: where NCCL is the only comm, it begins at
 * the first collective, and the files have been opened before.
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

/* ---- groups ---- */

static bool is_world(const dlr_comm *comm, const dlr_members *g) {
    bool same = g->n == comm->world.size;
    for (int i = 0; same && i < g->n; i++) same = g->ranks[i] == i;
    return same;
}

/* Disjoint groups are told apart by their smallest ranks. */
static bool nccl_group(dlr_comm *comm, dlr_members *g, dl_error *err) {
    dlr_nccl_backend *b = comm->of;
    if (!b->begun) return true;
    dlr_nccl_comm world = comm->group[0]->of, *own = dl_alloc(b->arena, sizeof *own);
    if (is_world(comm, g)) {
        g->of = world;
        return true;
    }
    int color = g->ranks[0];
    for (int i = 1; i < g->n; i++)
        if (g->ranks[i] < color) color = g->ranks[i];
    if (g->me < 0) color = DLR_NCCL_NO_COLOR;
    pthread_mutex_lock(&b->lock);
    bool ok = dlr_nccl_well(b, err);
    /* the new communicator exists when the old one is ready, and is usable when it is ready
     * itself */
    ok =
        ok && dlr_nccl_ok(b, world, b->n->CommSplit(world, color, g->me < 0 ? 0 : g->me, own, NULL),
                          "making a group of ranks", err);
    if (ok && *own) {
        int state = DLR_NCCL_SUCCESS;
        int called = b->n->CommGetAsyncError(*own, &state);
        dl_push(b->arena, &b->all, *own);
        ok = dlr_nccl_ok(b, *own, called ? called : state, "making a group of ranks", err);
    }
    pthread_mutex_unlock(&b->lock);
    g->of = *own;
    return ok;
}

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

static const dlr_comm_backend_table table = {.group = nccl_group,
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

static bool start_device(dlr_nccl_backend *b, dl_error *err) {
    const dlr_driver *v = b->v;
    return dlr_nccl_cu_ok(b, v->DeviceGet(&b->device, b->ordinal), "no device for NCCL", err) &&
           dlr_nccl_cu_ok(b, v->DevicePrimaryCtxRetain(&b->context, b->device),
                          "no context for NCCL", err) &&
           dlr_nccl_cu_ok(b, v->CtxSetCurrent(b->context), "no context for NCCL", err) &&
           dlr_nccl_cu_ok(b, dlr_driver_urgent_stream(v, &b->stream), "no stream for NCCL", err) &&
           dlr_nccl_cu_ok(b, v->EventCreate(&b->before, DLR_CU_EVENT_DISABLE_TIMING),
                          "no event for NCCL", err);
}

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

static bool make_world(dlr_nccl_backend *b, dl_error *err) {
    dlr_world w = b->comm->world;
    dlr_nccl_config config = DLR_NCCL_CONFIG;
    dlr_nccl_comm *world = dl_alloc(b->arena, sizeof *world);
    config.blocking = 0, config.split_share = 1;
    pthread_mutex_lock(&b->lock);
    bool ok = dlr_nccl_well(b, err); /* a rank may have been lost meanwhile */
    if (ok) {
        int result = b->n->CommInitRankConfig(world, w.size, b->id, w.rank, &config);
        if (*world) dl_push(b->arena, &b->all, *world);
        ok = dlr_nccl_ok(b, *world, result, "making the group of all ranks", err);
    }
    pthread_mutex_unlock(&b->lock);
    b->comm->group[0]->of = *world;
    return ok;
}

bool dlr_nccl_begin(dlr_nccl_backend *b, dl_error *err) {
    if (b->begun) return dlr_nccl_check(b->comm, err);
    b->begun = true;
    bool ok = start_device(b, err) && dlr_nccl_watchdog(b, err) && make_world(b, err);
    for (int i = 1; ok && i < b->comm->groups; i++)
        ok = nccl_group(b->comm, b->comm->group[i], err);
    if (ok) return true;
    pthread_mutex_lock(&b->lock);
    if (!b->failed.code) b->failed = *err, b->told = true; /* the caller tells the others */
    pthread_mutex_unlock(&b->lock);
    return false;
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
