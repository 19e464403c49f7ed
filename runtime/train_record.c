/* The run's files for people: curves, points, pictures, what was configured. */
#include <stdlib.h>

#include "ir/base/output.h"
#include "ir/base/str.h"
#include "runtime/figures.h"
#include "runtime/io/log.h"
#include "runtime/state.h"
#include "runtime/train_parts.h"

static bool put_hyperparams(dlr_run *r, dl_error *err) {
    const char *yaml = r->o->hyperparams;
    dl_buf text = {0};
    dl_putf(&text, "```yaml\n%s```\n", yaml);
    bool ok = dl_write_file(r->o->dir->hyperparams, yaml, strlen(yaml), err) &&
              dlr_tensorboard_text(r->board, "hyperparams", r->at.iteration, text.at, err);
    dl_buf_free(&text);
    return ok;
}

/* The newest point that the checkpoint stands for: that of its iteration, or, in the middle of an epoch, an
 * earlier one. (The point of an epoch's last iteration is written after its validation.) */
static int64_t newest_point(const dlr_run *r) {
    return r->at.position > 0 ? r->at.iteration - 1 : r->at.iteration;
}

bool dlr_run_open_records(dlr_run *r, bool restored, dl_error *err) {
    const dlr_rundir *dir = r->o->dir;
    bool moved = false;
    if (!restored && !dlr_rundir_renew(dir, &moved, err)) return false;
    if (moved)
        dlr_log_info(
            "starting anew over an earlier run: its checkpoints and points are kept as checkpoints.old and "
            "metrics.jsonl.old (--resume would have gone on)");
    int64_t newest = restored ? newest_point(r) : -1;
    dlr_metrics_repair repair;
    r->metrics = dlr_metrics_open(dir->metrics, newest, &repair, err);
    if (!r->metrics) return false;
    if (restored && repair.later + repair.torn)
        dlr_log_info("%d points behind the checkpoint are dropped and will be written again",
                     repair.later + repair.torn);
    r->board = dlr_tensorboard_open(dir->board, newest + 1, err);
    return r->board && put_hyperparams(r, err);
}

void dlr_run_close_records(dlr_run *r) {
    dlr_metrics_close(r->metrics);
    dlr_tensorboard_close(r->board);
}

bool dlr_run_record(dlr_run *r, dlr_point p, dl_error *err) {
    for (int i = 0; i < p.n; i++)
        if (!dlr_tensorboard_scalar(r->board, p.values[i].tag, r->at.iteration, p.values[i].value, err))
            return false;
    return dlr_metrics_put(r->metrics, r->at.epoch, r->at.iteration, p.values, p.n, err);
}

static bool put_image(dlr_run *r, const char *tag, const dlr_image *image, const char *path, dl_error *err) {
    dl_buf png = {0};
    bool ok = dlr_png_encode(image, &png, err);
    if (ok && path) ok = dl_write_file(path, png.at, png.n, err);
    dlr_png_view view = {image->width, image->height, 3, png.at, png.n};
    ok = ok && dlr_tensorboard_image(r->board, tag, r->at.iteration, view, err);
    dl_buf_free(&png);
    return ok;
}

static bool draw_prediction(dlr_run *r, const dlr_batch *batch, dl_arena *arena, dl_error *err) {
    dlr_view y = dlr_exec_result(r->exec, r->eval, DL_RESULT_OUTPUT, NULL);
    const dl_plan_var *x = r->feed.input, *t = r->feed.target;
    if (!y.type || !dlr_figure_can_show(&x->type) || !dlr_figure_can_show(&t->type) ||
        !dlr_figure_can_show(y.type))
        return true;
    float *prediction = malloc(sizeof *prediction * (size_t)dl_type_count(y.type));
    if (!prediction) return dl_fail(err, DL_RESOURCE, "no memory to draw a prediction");
    dlr_state_read(r->exec, y, DL_F32, prediction);
    dlr_figure_row rows[] = {
        {"input", &x->type, batch->input, -1},
        {"target", &t->type, batch->target, -1},
        {"predicted", y.type, prediction, y.type->axis[1].size == t->type.axis[1].size ? 1 : -1}};
    dlr_image *image = dlr_figure_rows(arena, rows, 3, err);
    bool ok = image && put_image(r, "Visualization", image, r->o->dir->picture, err);
    free(prediction);
    return ok;
}

bool dlr_run_draw(dlr_run *r, const dlr_batch *batch, dl_error *err) {
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
