/* Going on from a ckpt.tar that a program of PyTorch's wrote. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "ir/base/philox.h"
#include "ir/base/tags.h"
#include "runtime/checkpoint/tensors.h"
#include "runtime/exec/state.h"
#include "runtime/formats/log.h"
#include "runtime/formats/torch_training.h"
#include "runtime/train/run.h"

/* ---- whose file it is ---- */

typedef struct {
    int64_t iteration;
    bool found;
} point_at;

static void look_for(void *ctx, const dlr_json *point) {
    point_at *p = ctx;
    const dlr_json *at = dlr_json_get(point, "iteration");
    if (at && at->kind == DLR_JSON_INT && at->integer == p->iteration) p->found = true;
}

/* Our file is written after the point of its iteration, and before our own checkpoint: without that
 * checkpoint the epoch is repeated. Another program's file has no point here. */
static bool is_ours(const char *metrics, int64_t iters, bool *ours, dl_error *err) {
    point_at p = {.iteration = iters};
    if (metrics && !dlr_metrics_read(metrics, look_for, &p, err)) return false;
    *ours = p.found;
    return true;
}

static const char *metrics_of(const dlr_run *r, const char *run) {
    return run ? dl_format(r->arena, "%s/metrics.jsonl", run) : NULL;
}

bool dlr_run_find_torch(const dlr_run *r, const char *dir, const char *run, const dlr_state *own,
                        dlr_st_file **file, dl_error *err) {
    const char *path = dl_format(r->arena, "%s/ckpt.tar", dir);
    dl_error fault = {0};
    *file = NULL;
    if (!r->o->checkpoints.torch || access(path, F_OK) != 0) return true;
    dlr_st_file *f = dlr_st_open(path, DLR_ST_STRIP, &fault);
    if (!f && !own)
        return dl_fail(err, fault.code,
                       "%s. A run is there that cannot be gone on with: put its ckpt_best.tar in "
                       "this place, or "
                       "begin anew with --resume=false",
                       fault.message);
    if (!f) {
        dlr_log_warning("%s: passed over for our own checkpoint", fault.message);
        return true;
    }
    int64_t iters = dlr_torch_training_iters(f);
    bool ours = false, ok = !own || is_ours(metrics_of(r, run), iters, &ours, err);
    if (ok && (!own || (iters > own->iteration && !ours)))
        *file = f;
    else
        dlr_st_close(f);
    return ok;
}

/* ---- into the run ---- */

/* The model's tensors that are parameters. */
static dlr_tensors params_of(dl_arena *arena, dlr_exec *exec) {
    dlr_tensors all = dlr_tensors_of_model(arena, exec), params = all;
    const dl_plan *plan = dlr_exec_plan(exec);
    params.list = DL_NEWS(arena, dlr_st_tensor, all.n + 1), params.n = 0;
    params.views = DL_NEWS(arena, dlr_view, all.n + 1);
    for (int i = 0, k = 0; i < plan->vars.n && k < all.n; i++) {
        if (strcmp(plan->vars.at[i].name, all.list[k].name) != 0) continue;
        if (plan->vars.at[i].role == DL_VAR_PARAM)
            params.views[params.n] = all.views[k], params.list[params.n++] = all.list[k];
        k++;
    }
    return params;
}

/* Moments that the plan keeps; those that the file has not stay zero, as they begin. */
static bool load_moments(dlr_run *r, const dlr_st_file *file, const dlr_tensors *params,
                         const dlr_torch_training *t, dl_error *err) {
    const dl_kept *kept = dl_optimizers[r->o->checkpoints.torch->which].kept;
    void *buffer = malloc(DLR_ST_PIECE);
    bool ok = buffer || dl_fail(err, DL_RESOURCE, "no memory to read %s", file->path);
    for (int i = 0; ok && i < params->n; i++)
        for (int k = 0; ok && k < DL_MOST_KEPT && kept[k].name; k++) {
            dlr_view view = dlr_exec_state(r->exec, kept[k].name, params->list[i].name);
            const dlr_st_tensor *from = t->kept[i].moment[k];
            if (view.type && from) ok = dlr_tensor_load(r->exec, view, file, from, buffer, err);
        }
    free(buffer);
    return ok;
}

/* Steps that a mean from an epoch on is of, at the file's end. 0: it is no such mean. */
static int64_t count_averaged(const dlr_run *r, const dlr_torch_training *t) {
    double from = -1;
    for (int i = 0; i < r->o->start.n_hypers; i++)
        if (strcmp(r->o->start.hypers[i].name, "optimizer.average.from") == 0)
            from = r->o->start.hypers[i].value;
    double epochs = (double)(t->epoch + 1) - from;
    return from < 0 || epochs < 0 ? 0 : (int64_t)(epochs * (double)r->batches.epoch_batches);
}

/* The means of the weights, which the file may lack: they begin with its weights then. */
static bool load_means(dlr_run *r, const dlr_st_file *file, const dlr_tensors *params,
                       const dlr_torch_training *t, dl_error *err) {
    dlr_tensors means = dlr_tensors_of_average(r->arena, r->exec);
    if (!means.n && t->averaged >= 0)
        dlr_log_info("%s: its mean of the weights is dropped: none is kept now", file->path);
    if (!means.n) return true;
    if (t->averaged < 0) {
        dlr_log_info("%s has no mean of the weights: it begins with the file's", file->path);
        dlr_tensors_begin_average(r->exec);
        return true;
    }
    int64_t steps = count_averaged(r, t);
    if (steps && steps != t->averaged)
        dlr_log_warning("%s: its mean of the weights is of %lld steps; this run goes on with it "
                        "as one of %lld (swa)",
                        file->path, (long long)t->averaged, (long long)steps);
    void *buffer = malloc(DLR_ST_PIECE);
    bool ok = buffer || dl_fail(err, DL_RESOURCE, "no memory to read %s", file->path);
    for (int i = 0; ok && i < params->n; i++)
        for (int k = 0; ok && k < means.n; k++)
            if (strcmp(means.list[k].name, params->list[i].name) == 0 &&
                means.views[k].offset != params->views[i].offset) /* it has a mean */
                ok = dlr_tensor_load(r->exec, means.views[k], file, t->kept[i].mean, buffer, err);
    free(buffer);
    return ok;
}

/* Numbers of all parameters. */
static void write_scalars(const dlr_run *r, const dlr_torch_training *t) {
    const dl_kept *kept = dl_optimizers[r->o->checkpoints.torch->which].kept;
    for (int k = 0; k < DL_MOST_KEPT && kept[k].name; k++) {
        if (isnan(t->scalar[k])) continue;
        dlr_view v = dlr_exec_variable(r->exec, dl_format(r->arena, "optimizer.%s", kept[k].name));
        if (v.type) dlr_state_write(r->exec, v, DL_F64, &t->scalar[k]);
    }
}

static void write_count(dlr_exec *exec, const char *name, int64_t count) {
    dlr_view v = dlr_exec_variable(exec, name);
    if (v.type) dlr_state_write(exec, v, DL_I64, &count);
}

/* The optimiser's count is of steps that a scaler did not skip (the file has nothing else about
 * PyTorch's scaler, which begins anew); without a scaler the rate's schedule follows it, too. */
static void write_steps(const dlr_run *r, const dlr_torch_training *t) {
    dlr_scaler_start(r->exec, r->o->start.loss_scale);
    bool skipped = r->steps.scaler.used.type && t->iters > t->steps;
    write_count(r->exec, "optimizer.step", skipped ? t->iters : t->steps);
    write_count(r->exec, DL_SCALER_SKIPPED, skipped ? t->iters - t->steps : 0);
}

/* ---- best loss and epoch ---- */

static void keep_best(void *ctx, const dlr_json *point) {
    dlr_run *r = ctx;
    const dlr_json *at = dlr_json_get(point, "iteration"), *epoch = dlr_json_get(point, "epoch");
    double loss;
    if (!at || at->kind != DLR_JSON_INT || at->integer > r->at.iteration || !epoch ||
        epoch->kind != DLR_JSON_INT || epoch->integer < 1)
        return;
    if (!dlr_metrics_value(point, r->o->log.style->tags[DLR_VALUE_VALID_LOSS], &loss)) return;
    if (loss <= r->at.best_loss) r->at.best_loss = loss, r->best_epoch = epoch->integer - 1;
}

/* ---- what is set otherwise here ---- */

static void tell_other(const char *what, double then, double now) {
    if (then == then && fabs(then - now) > 1e-6 * fabs(now))
        dlr_log_info("this run is set otherwise: %s: %.9g in the checkpoint, %.9g now", what, then,
                     now);
}

/* Options that are part of the step: with another one it would be another optimiser. */
static bool check_flags(const dlr_run *r, const dlr_torch_training *t, const char *path,
                        dl_error *err) {
    const dlr_torch_optimizer *o = r->o->checkpoints.torch;
    static const dl_optimizer_option flags[] = {DL_OPTION_amsgrad, DL_OPTION_maximize};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        double then = t->option[flags[i]], now = o->option[flags[i]];
        if (dl_optimizers[o->which].takes >> flags[i] & 1 && then == then && then != now)
            return dl_fail(err, DL_INPUT,
                           "%s: its optimiser has %s = %g, and this run's %g: --%s=%s goes on",
                           path, dl_optimizer_options[flags[i]].entry, then, now,
                           dl_optimizer_options[flags[i]].key, then != 0 ? "true" : "false");
    }
    return true;
}

static void tell_others(const dlr_run *r, const dlr_torch_training *t) {
    const dlr_torch_optimizer *o = r->o->checkpoints.torch;
    for (int i = 0; i < DL_N_OPTIONS; i++)
        if (dl_optimizers[o->which].takes >> i & 1)
            tell_other(dl_optimizer_options[i].key, t->option[i], o->option[i]);
    double rate = dlr_learning_rate_next(&r->rate, &r->at);
    if (rate == rate) tell_other("the next epoch's learning rate", t->rate, rate);
}

bool dlr_run_load_torch(dlr_run *r, const dlr_st_file *file, const char *run, dl_error *err) {
    const dlr_train_options *o = r->o;
    dlr_tensors model = dlr_tensors_of_model(r->arena, r->exec),
                params = params_of(r->arena, r->exec);
    dlr_torch_training t;
    if (!dlr_torch_training_read(r->arena, file, o->checkpoints.torch->which, params.list, params.n,
                                 &t, err) ||
        !check_flags(r, &t, file->path, err))
        return false;
    if (!dlr_state_init(r->exec, o->start.seed, err) ||
        !dlr_tensors_load_model(&model, file, err) || !load_moments(r, file, &params, &t, err) ||
        !load_means(r, file, &params, &t, err))
        return false;
    write_steps(r, &t);
    write_scalars(r, &t);
    write_count(r->exec, DL_RANDOM_STEP, t.iters);
    r->at.epoch = t.epoch + 1, r->at.iteration = t.iters;
    r->rate.last = t.rate;
    if (o->rate.plateau && t.has_plateau)
        r->rate.plateau = (dlr_plateau){t.best, t.bad_epochs, t.cooldown_counter, t.rate};
    const char *metrics = metrics_of(r, run);
    if (metrics && !dlr_metrics_read(metrics, keep_best, r, err)) return false;
    dlr_best_take_loss(&r->best, r->at.best_loss);
    if (!isfinite(r->at.best_loss))
        dlr_log_info("%s does not say its best validation loss: it is looked for from here on",
                     file->path);
    tell_others(r, &t);
    return true;
}
