/* From the session to a plan that can run, and what is told of it. */
#include <malloc.h>
#include <stdio.h>

#include "compiler/origin.h"
#include "ir/base/cpus.h"
#include "ir/base/foreign.h"
#include "runtime/checkpoint/snapshot.h"
#include "runtime/formats/log.h"
#include "runtime/job/job.h"
#include "runtime/setup/rank_groups.h"
#include "runtime/tune/tune.h"

/* Model, graphs and the compiler's other memory: not a byte of it stays while the plan
 * runs. */
static void close_session(dl_run_job *p) {
    dl_session_close(p->session);
    dl_arena_free(p->compiler);
    p->session = NULL, p->compiler = NULL;
    malloc_trim(0);
}

static void log_warning(void *to, const char *text) { (void)to, dlr_log_warning("%s", text); }

/* On each machine one rank compiles, and the others find the plan in the cache. */
static bool wait_for_plan(const dl_run_job *p, bool first, dl_error *err) {
    return !p->comm || (p->world.local_rank == 0) == first || dlr_comm_barrier(p->comm, err);
}

/* Makes the rest of a plan's file in addition to the programs, for keep_kernels; the session's
 * graphs are as the front end built them. */
static bool prepare_kept(dl_run_job *p, const dl_compile_options *opt, dl_error *err) {
    static const char *const none[] = {NULL};
    const dl_config *c = p->config;
    bool keeps = dl_config_bool(c, DL_KEY_keep_kernels) && !dl_job_replays(c) &&
                 !dl_config_option(c, "dry_run") && dl_job_is_rank0(p);
    if (!keeps) return true;
    dl_buf command = {0};
    dl_puts(&command, "dlc compile");
    dl_config_put_words(c, none, &command);
    if (p->world.size > 1) dl_putf(&command, " --ranks=%d", p->world.size);
    p->kept = DL_NEW(p->arena, dl_plan);
    p->kept->origin = dl_origin_of(p->arena, p->session, opt, command.at);
    dl_buf_free(&command);
    return dl_origin_predictions(p->arena, p->session, opt, p->kept, err);
}

static void complete_kept(dl_run_job *p) {
    if (!p->kept) return;
    const dl_plan kept = *p->kept;
    *p->kept = *p->plan;
    p->kept->origin = kept.origin, p->kept->predictions = kept.predictions;
}

/* A plan's file has the programs (dl_job_check_plan_file). */
static bool use_given(dl_run_job *p) {
    p->classes = dl_classes_strict(p->arena, p->session->module);
    p->plan = p->given;
    if (dl_config_bool(p->config, DL_KEY_keep_kernels) && dl_job_is_rank0(p)) p->kept = p->given;
    close_session(p);
    return true;
}

bool dl_job_compile(dl_run_job *p, dl_error *err) {
    if (p->given) return use_given(p);
    dl_compile_options opt;
    dl_tuning tuning;
    if (!wait_for_plan(p, true, err)) return false;
    if (!dl_session_options(p->session, p->device.target, &opt, err)) return false;
    dl_console out = *p->out;
    out.warning = log_warning, opt.out = &out;
    opt.keep_gradients = !dl_config_is_null(p->config, DL_KEY_save_grads);
    if (!dl_tune(p->compiler, p->config, p->device.device, &opt, &tuning, err)) return false;
    p->classes = dl_classes_strict(p->arena, p->session->module);
    if (!prepare_kept(p, &opt, err)) return false;
    /* other ranks and a plan's file wait for the whole; a replay needs no more than "train" */
    opt.late = !p->comm && !p->kept && !opt.tuner && !dl_job_replays(p->config) &&
               !dl_config_option(p->config, "dry_run");
    p->plan = dl_session_plan(p->session, &opt, &p->plan_cached, err);
    p->tuned = dl_tuning_text(p->arena, &tuning);
    if (!p->plan || !wait_for_plan(p, false, err)) return false;
    dl_arena_move(p->plan->arena, p->arena);
    complete_kept(p);
    p->times = p->session->times;
    close_session(p);
    return true;
}

static dlr_ranks ranks_of(const dl_run_job *p) {
    return (dlr_ranks){p->comm, p->comm ? DL_NRANK_GROUPS : 0, p->groups};
}

/* Bytes of a checkpoint's copy, from which it is written while training goes on. */
static int64_t copy_bytes(const dl_run_job *p) {
    dl_error none = {0}; /* ranks that are not those of the plan are found where it is opened */
    dlr_ranks ranks = ranks_of(p);
    if (!dl_config_bool(p->config, DL_KEY_async_checkpoints) || dl_job_replays(p->config)) return 0;
    if (!dl_config_bool(p->config, DL_KEY_sharded_checkpoints))
        return dlr_snapshot_bytes(p->plan, NULL);
    const dlr_shards *shards = dlr_shards_plan(p->arena, p->plan, &ranks, &none);
    return shards ? dlr_snapshot_bytes(p->plan, shards) : 0;
}

/* "2 batches of 9.0 MiB, data sets of 8.2 MiB, a checkpoint's copy of 2.1 MiB": a run's memory
 * in addition to the plan's. */
static const char *data_text(const dl_run_job *p) {
    dlr_train_ring ring =
        dlr_train_ring_of(p->plan, (int)dl_config_int(p->config, DL_KEY_num_data_workers));
    int64_t held = 0;
    if (dl_job_replays(p->config)) return "no batches";
    if (p->train && p->valid) held = dlr_dataset_held(p->train) + dlr_dataset_held(p->valid);
    return dl_format(p->arena, "%d batch%s of %.1f MiB%s%s", ring.batches,
                     ring.batches == 1 ? "" : "es", (double)ring.bytes / 0x1p20,
                     held ? dl_format(p->arena, ", data sets of %.1f MiB", (double)held / 0x1p20)
                          : "",
                     copy_bytes(p) ? dl_format(p->arena, ", a checkpoint's copy of %.1f MiB",
                                               (double)copy_bytes(p) / 0x1p20)
                                   : "");
}

/* The run's memory on the device, and the memory in use there now; nothing where that is the
 * host. */
static void print_device(const dl_run_job *p, const dlr_device_memory *m) {
    char held[64] = "";
    if (!m->total) return;
    if (m->held) snprintf(held, sizeof held, "%.1f of the data set, ", (double)m->held / 0x1p20);
    dl_console_text(
        p->out,
        "  device      %.1f MiB of %.1f in use then: %.1f of the plan, about %.1f of code and "
        "%.1f of "
        "graphs, %s"
        "%.1f now (the driver's context, and other programs)%s%s\n",
        (double)dlr_device_predicted(m) / 0x1p20, (double)m->total / 0x1p20,
        (double)m->plan / 0x1p20, (double)m->code / 0x1p20, (double)m->graphs / 0x1p20, held,
        (double)m->before / 0x1p20,
        p->comm ? "; NCCL's buffers, known when a run begins, are more" : "",
        dlr_device_predicted(m) > m->total ? ": it does not fit" : "");
}

static const char *device_json(const dl_run_job *p, const dlr_device_memory *m) {
    return !m->total
               ? ""
               : dl_format(p->arena,
                           ", \"device_bytes_predicted\": %lld, \"device_bytes_before\": %lld, "
                           "\"device_bytes_total\": %lld",
                           (long long)dlr_device_predicted(m), (long long)m->before,
                           (long long)m->total);
}

/* The same for programs. `configuration` is what was asked for; `batch` and `global_batch` what it
 * comes to. */
static void print_json(const dl_run_job *p, int threads, const dlr_device_memory *m) {
    dl_buf b = {0};
    dl_config_put_json(p->config, &b);
    dl_console_text(
        p->out,
        "{\"configuration\": %s, \"batch\": %lld, \"global_batch\": %lld, \"parameters\": %lld, "
        "\"peak_bytes\": %lld, \"checkpoint_copy_bytes\": %lld, \"threads\": %d, \"kernels\": "
        "%d%s}\n",
        b.at, (long long)p->batch, (long long)p->global_batch,
        (long long)dl_plan_parameters(p->plan), (long long)dl_plan_peak(p->plan, threads),
        (long long)copy_bytes(p), threads, dl_plan_program_find(p->plan, "train")->launches.n,
        device_json(p, m));
    dl_buf_free(&b);
}

/* Threads of this rank, of `threads` as given: 0 shares the machine's CPUs out to its ranks. */
static int threads_of(const dl_run_job *p) {
    int threads = (int)dl_config_int(p->config, DL_KEY_threads),
        here = p->comm ? dlr_comm_sharing(p->comm) : 1;
    if (threads || here <= 1) return threads;
    return dl_cpus_allowed() > here ? dl_cpus_allowed() / here : 1;
}

bool dl_job_print_plan(const dl_run_job *p, dl_error *err) {
    int threads = threads_of(p);
    dlr_pool *pool = dlr_pool_open(threads, err); /* how many 0 means */
    if (!pool) return false;
    threads = dlr_pool_threads(pool);
    dlr_pool_close(pool);
    dlr_device_memory m;
    if (!dlr_device_predict(p->plan, p->device.device, &m, err) && err->code) return false;
    if (p->store <= dlr_device_left(&m)) m.held = p->store;
    if (dl_config_option(p->config, "json")) {
        print_json(p, threads, &m);
        return true;
    }
    dl_console_text(
        p->out,
        "%s, batch %lld, %s\n  parameters  %lld\n  memory      %.1f MiB with %d threads, "
        "exactly; besides "
        "it %s\n  kernels     %d in a training step\n",
        dl_shown(p->arena, p->model_path), (long long)p->batch, p->plan->target,
        (long long)dl_plan_parameters(p->plan), (double)dl_plan_peak(p->plan, threads) / 0x1p20,
        threads, data_text(p), dl_plan_program_find(p->plan, "train")->launches.n);
    print_device(p, &m);
    return true;
}

/* Prints what the run finds on its device, which others may use, too. */
static void log_device(void *job, const dlr_device_memory *m) {
    const dl_run_job *p = job;
    const int64_t takes = dlr_device_predicted(m) - m->before;
    dlr_log_info("device %s: %.1f of %.1f MiB free, %.1f held by other programs and the driver's "
                 "context; this run takes %.1f: %.1f of the plan, about %.1f of code and %.1f of "
                 "graphs%s",
                 p->device.device ? p->device.device : p->plan->target,
                 (double)(m->total - m->before) / 0x1p20, (double)m->total / 0x1p20,
                 (double)m->before / 0x1p20, (double)takes / 0x1p20, (double)m->plan / 0x1p20,
                 (double)m->code / 0x1p20, (double)m->graphs / 0x1p20,
                 p->comm ? "; NCCL's buffers are more" : "");
}

bool dl_job_load_plan(dl_run_job *p, dl_error *err) {
    const dlr_exec_options options = {.threads = threads_of(p),
                                      .device = p->device.device,
                                      .ranks = ranks_of(p),
                                      .classes = p->classes.at,
                                      .n_classes = p->classes.n,
                                      .memory = log_device,
                                      .memory_context = p};
    p->exec = dlr_exec_open(p->plan, options, err);
    if (!p->exec) return false;
    int threads = dlr_pool_threads(dlr_exec_pool(p->exec));
    if (p->tuned) dlr_log_info("%s", p->tuned);
    const dl_compile_times *t = &p->times;
    const char *from = p->given         ? dl_format(p->arena, "plan of %.200s", p->plan_file)
                       : p->plan_cached ? "plan from the cache"
                                        : dl_format(p->arena, "compiled in %.0f ms",
                                                    t->passes_ms + t->emit_ms + t->cc_ms);
    dlr_log_info("%s: %lld parameters, %d kernels a step, %.1f MiB and %s, %d threads, %s; %s",
                 p->plan->model, (long long)dl_plan_parameters(p->plan),
                 dl_plan_program_find(p->plan, "train")->launches.n,
                 (double)dl_plan_peak(p->plan, threads) / 0x1p20, data_text(p), threads,
                 p->plan->target, from);
    dlr_device_memory m;
    if (dlr_exec_memory(p->exec, &m) && m.collectives)
        dlr_log_info("collectives between devices: %.1f MiB of the device's memory, with NCCL's "
                     "buffers",
                     (double)m.collectives / 0x1p20);
    return true;
}
