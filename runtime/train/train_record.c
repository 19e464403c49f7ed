/* The run's files for people: curves, points, pictures, the configuration. */
#include <math.h>
#include <unistd.h>

#include "ir/base/input.h"
#include "ir/base/output.h"
#include "ir/base/str.h"
#include "ir/base/tags.h"
#include "runtime/exec/state.h"
#include "runtime/formats/log.h"
#include "runtime/report/figures.h"
#include "runtime/train/train_parts.h"

static dlr_sink_at place(const dlr_run *r) { return (dlr_sink_at){r->at.epoch, r->at.iteration}; }

static bool put_hyperparams(dlr_run *r, dl_error *err) {
    const char *yaml = r->o->hyperparams;
    return dl_write_file(r->o->dir->hyperparams, yaml, strlen(yaml), err) &&
           dlr_sinks_settings(&r->sinks, place(r), yaml, err);
}

/* The newest point that the checkpoint stands for: that of its iteration, or, in the middle of an
 * epoch, an earlier one. (The point of an epoch's last iteration is written after its validation.)
 */
static int64_t newest_point(const dlr_run *r) {
    return r->at.position > 0 ? r->at.iteration - 1 : r->at.iteration;
}

/* Copies the points of the run that this one continues, so that its curves are whole, too. */
static bool copy_points(dlr_run *r, dl_error *err) {
    const char *from = dl_format(r->arena, "%s/metrics.jsonl", r->source);
    size_t n;
    if (access(from, F_OK) != 0) return true;
    dl_arena *arena = dl_arena_new(NULL);
    const char *text = dl_read_file(arena, from, (size_t)1 << 30, &n, err);
    bool ok = text && dl_write_file(r->o->dir->metrics, text, n, err);
    dl_arena_free(arena);
    return ok;
}

/* Keeps the points of the run so far, and drops those after the checkpoint. */
static bool open_metrics(dlr_run *r, bool restored, int64_t newest, dl_error *err) {
    dlr_metrics_repair repair;
    dlr_metrics *metrics = dlr_metrics_open(r->o->dir->metrics, newest, &repair, err);
    if (!metrics) return false;
    dlr_sinks_add_metrics(r->arena, &r->sinks, metrics);
    if (restored && repair.later + repair.torn)
        dlr_log_info("%d points after the checkpoint are dropped and will be written again",
                     repair.later + repair.torn);
    return true;
}

static bool open_board(dlr_run *r, int64_t newest, dl_error *err) {
    dlr_tensorboard *board = dlr_tensorboard_open(r->o->dir->board, newest + 1, err);
    if (board) dlr_sinks_add_board(r->arena, &r->sinks, board);
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

static bool open_wandb(dlr_run *r, bool restored, dl_error *err) {
    if (!r->o->wandb) return true;
    dlr_wandb *wandb =
        dlr_wandb_open(r->o->dir->wandb, r->o->wandb, restored ? r->at.epoch : -1, err);
    if (!wandb) return false;
    dlr_sinks_add_wandb(r->arena, &r->sinks, wandb);
    const char *entity = r->o->wandb->entity, *project = r->o->wandb->project;
    dlr_log_info("Weights & Biases: written to %s, of which nothing is sent; `wandb sync` uploads "
                 "it (entity %s, "
                 "project %s), --log_to_wandb=false leaves it out",
                 dlr_wandb_folder(wandb), entity ? entity : "your own",
                 project ? project : "uncategorized");
    copying c = {wandb, dlr_wandb_newest(wandb), true, err};
    return dlr_metrics_read(r->o->dir->metrics, copy_point, &c, err) && c.ok;
}

bool dlr_run_open_records(dlr_run *r, bool restored, dl_error *err) {
    const dlr_rundir *dir = r->o->dir;
    const char *kept = NULL;
    if (!dlr_run_leads(r->o)) return true;
    bool anew = !restored || r->other;
    if (anew && !dlr_rundir_renew(r->arena, dir, &kept, err)) return false;
    if (kept)
        dlr_log_info("starting anew where an earlier run was, which is now run %s next to it "
                     "(--resume would have gone on)",
                     kept);
    if (r->source && !copy_points(r, err)) return false;
    int64_t newest = restored ? newest_point(r) : -1;
    return open_metrics(r, restored, newest, err) && open_board(r, newest, err) &&
           open_wandb(r, restored, err) && put_hyperparams(r, err);
}

bool dlr_run_close_records(dlr_run *r, bool done, dl_error *err) {
    dl_error fault = {0};
    bool ok = dlr_sinks_end(&r->sinks, done ? DL_OK : err->code, done ? err : &fault);
    if (fault.code) dlr_log_warning("%s", fault.message);
    dlr_sinks_close(&r->sinks);
    return ok;
}

static void put(dlr_run *r, const char *tag, double value) {
    if (tag) dl_push(r->arena, &r->point, (dlr_metric){tag, value});
}

void dlr_run_put(dlr_run *r, dlr_value_name name, double value) {
    put(r, r->o->style->tags[name], value);
}

void dlr_run_put_averages(dlr_run *r, const dlr_averages *a) {
    for (int i = 0; i < a->n; i++) put(r, a->terms[i].tag, dlr_averages_value(a, i, r->o->style));
}

bool dlr_run_record(dlr_run *r, dl_error *err) {
    int n = r->point.n;
    const dlr_metric *values = r->point.at;
    r->point.n = 0;
    return dlr_sinks_point(&r->sinks, place(r), values, n, err);
}

static bool put_image(dlr_run *r, const char *tag, const dlr_image *image, const char *path,
                      dl_error *err) {
    dl_buf png = {0};
    bool ok = dlr_png_encode(image, &png, err);
    if (ok && path) ok = dl_write_file(path, png.at, png.n, err);
    dlr_png_view view = {image->width, image->height, 3, png.at, png.n};
    ok = ok && dlr_sinks_image(&r->sinks, place(r), tag, view, err);
    dl_buf_free(&png);
    return ok;
}

/* A row of a batch that lies whole in memory. */
static dlr_figure_row row_of_batch(const char *label, const dl_type *t, const float *data) {
    int64_t first = dlr_figure_plane(t, 0);
    return (dlr_figure_row){label, t, data + first, dlr_figure_plane(t, 1) - first, -1};
}

/* A row of a tensor of the plan's, of which only the planes that are shown are read. */
static dlr_figure_row row_of_view(dl_arena *arena, const dlr_exec *exec, const char *label,
                                  dlr_view v) {
    const dl_type *t = v.type;
    int64_t plane = t->axis[t->rank - 2].size * t->axis[t->rank - 1].size,
            channels = t->axis[1].size;
    if (channels > DLR_FIGURE_COLUMNS) channels = DLR_FIGURE_COLUMNS;
    float *planes = DL_NEWS(arena, float, channels *plane);
    for (int c = 0; c < channels; c++)
        dlr_state_read_range(exec, v, (dlr_range){dlr_figure_plane(t, c), plane}, DL_F32,
                             planes + c * plane);
    return (dlr_figure_row){label, t, planes, plane, -1};
}

/* Draws the first input, the first target if there is one, and the output. */
static bool draw_prediction(dlr_run *r, const dlr_batch *batch, dl_arena *arena, dl_error *err) {
    static const dl_var_role roles[] = {DL_VAR_INPUT, DL_VAR_TARGET};
    static const char *const labels[] = {"input", "target"};
    dlr_view y = dlr_exec_result(r->exec, r->eval, DL_RESULT_OUTPUT, NULL);
    if (!y.type || !dlr_figure_can_show(y.type)) return true;
    dlr_figure_row rows[3];
    int n = 0, like = -1;
    for (int i = 0; i < 2; i++) {
        int k = dlr_feed_first(&r->feed, roles[i]);
        if (k < 0) continue;
        const dl_type *t = &r->feed.var[k]->type;
        if (!dlr_figure_can_show(t)) return true;
        if (i == 1 && y.type->axis[1].size == t->axis[1].size) like = n;
        rows[n++] = batch->raw ? row_of_view(arena, r->exec, labels[i], r->feed.view[k])
                               : row_of_batch(labels[i], t, batch->data[k]);
    }
    rows[n++] = row_of_view(arena, r->exec, "predicted", y);
    rows[n - 1].like = like;
    dlr_image *image = dlr_figure_rows(arena, rows, n, err);
    return image && put_image(r, DL_TAG_PICTURE, image, r->o->dir->picture, err);
}

bool dlr_run_draw(dlr_run *r, const dlr_batch *batch, dl_error *err) {
    if (!dlr_run_leads(r->o)) return true;
    dl_arena *arena = dl_arena_new(r->arena);
    bool ok = draw_prediction(r, batch, arena, err);
    for (int i = 0; ok; i++) {
        const char *name;
        dlr_image *image = dlr_figure_of_model(arena, r->exec, r->eval, i, &name, err);
        if (!image) break;
        ok = put_image(r, name, image, NULL, err);
    }
    dl_arena_free(arena);
    return ok && err->code == DL_OK;
}
