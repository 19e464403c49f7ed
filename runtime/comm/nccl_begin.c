/* The device's context and NCCL's communicators, of all ranks and of groups: made when NCCL begins.
 *
 * NCCL registers memory with devices and network cards. A fork() of the process would share these
 * pages with the child, which reads a file of samples: where NCCL is the only comm, it begins at
 * the first collective, and the files have been opened before. */
#include "runtime/comm/nccl.h"

static bool is_world(const dlr_comm *comm, const dlr_members *g) {
    bool same = g->n == comm->world.size;
    for (int i = 0; same && i < g->n; i++) same = g->ranks[i] == i;
    return same;
}

/* Disjoint groups are told apart by their smallest ranks. */
bool dlr_nccl_group(dlr_comm *comm, dlr_members *g, dl_error *err) {
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
        ok = dlr_nccl_group(b->comm, b->comm->group[i], err);
    if (ok) return true;
    pthread_mutex_lock(&b->lock);
    if (!b->failed.code) b->failed = *err, b->told = true; /* the caller tells the others */
    pthread_mutex_unlock(&b->lock);
    return false;
}
