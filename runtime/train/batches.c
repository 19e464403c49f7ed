#include "runtime/train/batches.h"

#include "runtime/formats/log.h"

/* Batches of many megabytes are read one ahead, smaller ones two, so that the host's memory stays
 * small compared with the plan's. Without workers there is only the batch in use. */
dlr_train_ring dlr_train_ring_of(const dl_plan *plan, int workers) {
    dlr_train_ring ring = {0};
    for (int i = 0; i < plan->vars.n; i++) {
        const dl_plan_var *v = &plan->vars.at[i];
        if (!dl_plan_is_fed(v)) continue;
        int element =
            dl_dtype_is_float(v->type.dtype) ? (int)sizeof(float) : dl_dtype_bytes(v->type.dtype);
        ring.bytes += dl_type_count(&v->type) * element;
    }
    ring.batches = workers == 0 ? 1 : ring.bytes > 16 << 20 ? 2 : 3;
    return ring;
}

bool dlr_batches_open(dlr_batches *b, const dlr_batches_options *o, dlr_exec *exec,
                      const dlr_run_ranks *ranks, dl_error *err) {
    int64_t in_step = o->in_step ? o->in_step : 1;
    *b = (dlr_batches){.o = o,
                       .batch = (int)dlr_exec_plan(exec)->batch,
                       .ranks = ranks->data_ranks ? ranks->data_ranks : 1,
                       .in_step = in_step};
    b->global_batch = b->batch * b->ranks * in_step;
    return dlr_feed_open(&b->feed, exec, dlr_dataset_arrays(o->train), err);
}

/* Whether the device makes samples of the files' numbers. */
static bool gathers(const dlr_batches *b, const dlr_exec *exec) {
    dl_error why = {0};
    if (!b->o->device_samples || dlr_exec_arena(exec))
        return false; /* a CPU's inputs are the host's */
    bool ok = dlr_feed_gathers(&b->feed, b->o->train, &why) &&
              (!b->o->valid || dlr_feed_gathers(&b->feed, b->o->valid, &why));
    if (ok)
        dlr_log_info("the device makes samples of the files' numbers; the host %s",
                     dlr_dataset_host(b->o->train));
    else
        dlr_log_warning("the host makes the samples, not the device: %s", why.message);
    return ok;
}

/* Whether it now holds the data sets' numbers. */
static bool holds(dlr_batches *b) {
    const dlr_dataset *const data[2] = {b->o->train, b->o->valid};
    dl_error why = {0};
    bool ok = b->o->device_holds && dlr_feed_hold(&b->feed, data, &why);
    if (b->o->device_holds && !ok)
        dlr_log_info("the data set is read batch by batch: %s", why.message);
    return ok;
}

bool dlr_batches_start(dlr_batches *b, dlr_exec *exec, const dlr_run_ranks *ranks, bool validates,
                       dl_error *err) {
    b->gathers = gathers(b, exec);
    if (b->gathers) dlr_feed_raw_options(&b->feed, &b->raw), b->raw.held = holds(b);
    dlr_train_ring ring = dlr_train_ring_of(dlr_exec_plan(exec), b->o->workers);
    dlr_prefetch_options o = {.batch = b->batch,
                              .rank = ranks->data_rank,
                              .world = b->ranks,
                              .workers = b->o->workers,
                              .depth = ring.batches,
                              .switched_between = validates,
                              .raw = b->gathers ? &b->raw : NULL};
    b->ring = dlr_prefetch_start(b->o->train, &o, err);
    if (!b->ring) return false;
    int64_t all = dlr_prefetch_batches(b->ring);
    b->epoch_batches = all / b->in_step;
    return b->epoch_batches > 0 ||
           dl_fail(err, DL_USAGE,
                   "an epoch has %lld batches of %d samples, and a step takes %lld: "
                   "--accumulate=%lld, or smaller batches",
                   (long long)all, b->batch * b->ranks, (long long)b->in_step, (long long)all);
}

void dlr_batches_seek(dlr_batches *b, int64_t epoch, int64_t steps) {
    dlr_prefetch_seek(b->ring, epoch, steps * b->in_step);
}

bool dlr_batches_switch(dlr_batches *b, int64_t epoch, int64_t steps, dl_error *err) {
    return dlr_prefetch_switch(b->ring, b->o->train, false, epoch, steps * b->in_step, err);
}

bool dlr_batches_next(dlr_batches *b, dlr_batch *batch, dl_error *err) {
    if (!dlr_prefetch_next(b->ring, batch, err)) return false;
    dlr_feed_batch(&b->feed, batch);
    return true;
}

void dlr_batches_close(dlr_batches *b) { dlr_prefetch_stop(b->ring); }
