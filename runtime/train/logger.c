#include "runtime/train/logger.h"

#include <math.h>
#include <unistd.h>

#include "ir/base/input.h"
#include "ir/base/output.h"
#include "ir/base/str.h"
#include "ir/base/tags.h"
#include "ir/plan/plan_kept.h"
#include "runtime/formats/log.h"

static dlr_sink_at place(const dlr_state *at) {
    return (dlr_sink_at){.epoch = at->epoch, .iteration = at->iteration};
}

static bool put_hyperparams(dlr_logger *l, const dlr_state *at, dl_error *err) {
    const char *yaml = l->o->hyperparams;
    return dl_write_file(l->dir->hyperparams, yaml, strlen(yaml), err) &&
           dlr_sinks_settings(&l->sinks, place(at), yaml, err);
}

/* The newest point that the checkpoint stands for: that of its iteration, or, in the middle of an
 * epoch, an earlier one. (The point of an epoch's last iteration is written after its validation.
 * Points within an epoch are written before a checkpoint of their iteration.) */
static int64_t newest_point(const dlr_logger *l, const dlr_state *at) {
    return at->position > 0 && !l->o->between ? at->iteration - 1 : at->iteration;
}

/* Copies the points of the run that this one continues, so that its curves are whole, too. */
static bool copy_points(dlr_logger *l, const char *source, dl_error *err) {
    const char *from = dl_format(l->arena, "%s/metrics.jsonl", source);
    size_t n;
    if (access(from, F_OK) != 0) return true;
    dl_arena *arena = dl_arena_new(NULL);
    const char *text = dl_read_file(arena, from, (size_t)1 << 30, &n, err);
    bool ok = text && dl_write_file(l->dir->metrics, text, n, err);
    dl_arena_free(arena);
    return ok;
}

/* Keeps the points of the run so far, and drops those after the checkpoint. */
static bool open_metrics(dlr_logger *l, bool restored, int64_t newest, dl_error *err) {
    dlr_metrics_repair repair;
    dlr_metrics *metrics = dlr_metrics_open(l->dir->metrics, newest, &repair, err);
    if (!metrics) return false;
    dlr_sinks_add_metrics(l->arena, &l->sinks, metrics);
    if (restored && repair.later + repair.torn)
        dlr_log_info("%d points after the checkpoint are dropped and will be written again",
                     repair.later + repair.torn);
    return true;
}

static bool open_board(dlr_logger *l, int64_t newest, dl_error *err) {
    dlr_tensorboard *board = dlr_tensorboard_open(l->dir->board, newest + 1, err);
    if (board) dlr_sinks_add_board(l->arena, &l->sinks, board);
    return board != NULL;
}

/* A point that metrics.jsonl has and the run of Weights & Biases lacks: because this run writes one
 * only now, or continues another run, or its folder is lost. The point's time is unknown. */
typedef struct {
    dlr_wandb *to;
    int64_t newest; /* step that is there */
    bool ok;
    dl_error *err;
} copying;

static void copy_point(void *context, const dlr_json *point) {
    copying *c = context;
    double epoch, iteration, value;
    if (!c->ok || !dlr_metrics_value(point, DL_TAG_EPOCH, &epoch) ||
        !dlr_metrics_value(point, DL_TAG_ITERATION, &iteration) || (int64_t)epoch <= c->newest)
        return;
    dl_arena *arena = dl_arena_new(NULL);
    DL_ARRAY(dlr_metric) values = {0};
    for (int i = 0; i < point->n; i++) {
        const char *tag = point->members[i].key;
        if (strcmp(tag, DL_TAG_EPOCH) == 0 || strcmp(tag, DL_TAG_ITERATION) == 0) continue;
        if (!dlr_metrics_value(point, tag, &value)) value = NAN;
        dl_push(arena, &values, (dlr_metric){tag, value});
    }
    c->ok = dlr_wandb_put(c->to, (int64_t)epoch, (int64_t)iteration, values.at, values.n, false,
                          c->err);
    dl_arena_free(arena);
}

static bool open_wandb(dlr_logger *l, const dlr_state *at, bool restored, dl_error *err) {
    if (!l->o->wandb) return true;
    dlr_wandb *wandb = dlr_wandb_open(l->dir->wandb, l->o->wandb, restored ? at->epoch : -1, err);
    if (!wandb) return false;
    dlr_sinks_add_wandb(l->arena, &l->sinks, wandb);
    const char *entity = l->o->wandb->entity, *project = l->o->wandb->project;
    dlr_log_info("Weights & Biases: written to %s, of which nothing is sent; `wandb sync` uploads "
                 "it (entity %s, "
                 "project %s), --log_to_wandb=false leaves it out",
                 dlr_wandb_folder(wandb), entity ? entity : "your own",
                 project ? project : "uncategorized");
    copying c = {wandb, dlr_wandb_newest(wandb), true, err};
    return dlr_metrics_read(l->dir->metrics, copy_point, &c, err) && c.ok;
}

bool dlr_logger_open(dlr_logger *l, const dlr_state *at, const dlr_run_origin *origin,
                     dl_error *err) {
    const char *kept = NULL;
    bool restored = origin->restored, anew = !restored || origin->other;
    if (!dlr_is_rank0(l->ranks)) return true;
    if (anew && !dlr_rundir_set_aside(l->arena, l->dir, &kept, err)) return false;
    if (kept)
        dlr_log_info("starting anew where an earlier run was, which is now run %s next to it "
                     "(--resume would have gone on)",
                     kept);
    if (origin->source && !copy_points(l, origin->source, err)) return false;
    int64_t newest = restored ? newest_point(l, at) : -1;
    return open_metrics(l, restored, newest, err) && open_board(l, newest, err) &&
           open_wandb(l, at, restored, err) && put_hyperparams(l, at, err) &&
           (!l->o->n_trial || dlr_sinks_trial(&l->sinks, l->o->trial, l->o->n_trial, err)) &&
           (!l->o->kernels || dl_plan_keep(l->dir->path, l->o->kernels, err));
}

bool dlr_logger_close(dlr_logger *l, bool done, dl_error *err) {
    dl_error fault = {0};
    bool ok = dlr_sinks_end(&l->sinks, done ? DL_OK : err->code, done ? err : &fault);
    if (fault.code) dlr_log_warning("%s", fault.message);
    dlr_sinks_close(&l->sinks);
    return ok;
}

static void put(dlr_logger *l, const char *tag, double value) {
    if (tag) dl_push(l->arena, &l->point, (dlr_metric){tag, value});
}

void dlr_logger_put(dlr_logger *l, dlr_value_name name, double value) {
    put(l, l->o->style->tags[name], value);
}

void dlr_logger_put_averages(dlr_logger *l, const dlr_averages *a) {
    for (int i = 0; i < a->n; i++) put(l, a->terms[i].tag, dlr_averages_value(a, i, l->o->style));
}

void dlr_logger_put_step(dlr_logger *l, double loss) { put(l, "Loss/step", loss); }

bool dlr_logger_record(dlr_logger *l, const dlr_state *at, bool between, dl_error *err) {
    int n = l->point.n;
    const dlr_metric *values = l->point.at;
    l->point.n = 0;
    dlr_sink_at where = place(at);
    where.between = between;
    return dlr_sinks_point(&l->sinks, where, values, n, err);
}
