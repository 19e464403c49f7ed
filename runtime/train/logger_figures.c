/* Pictures of a run: a prediction next to its input and target, and the model's own figures. */
#include "ir/base/output.h"
#include "ir/base/tags.h"
#include "runtime/exec/state.h"
#include "runtime/report/figures.h"
#include "runtime/train/logger.h"

typedef struct {
    const dlr_logger *to;
    dlr_sink_at at;
    dlr_exec *exec;
    int program;
    const dlr_feed *feed;
} drawing;

static bool put_image(const drawing *d, const char *tag, const dlr_image *image, const char *path,
                      dl_error *err) {
    dl_buf png = {0};
    bool ok = dlr_png_encode(image, &png, err);
    if (ok && path) ok = dl_write_file(path, png.at, png.n, err);
    dlr_png_view view = {image->width, image->height, 3, png.at, png.n};
    ok = ok && dlr_sinks_image(&d->to->sinks, d->at, tag, view, err);
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
static bool draw_prediction(const drawing *d, const dlr_batch *batch, dl_arena *arena,
                            dl_error *err) {
    static const dl_var_role roles[] = {DL_VAR_INPUT, DL_VAR_TARGET};
    static const char *const labels[] = {"input", "target"};
    dlr_view y = dlr_exec_result(d->exec, d->program, DL_RESULT_OUTPUT, NULL);
    if (!y.type || !dlr_figure_can_show(y.type)) return true;
    dlr_figure_row rows[3];
    int n = 0, like = -1;
    for (int i = 0; i < 2; i++) {
        int k = dlr_feed_first(d->feed, roles[i]);
        if (k < 0) continue;
        const dl_type *t = &d->feed->var[k]->type;
        if (!dlr_figure_can_show(t)) return true;
        if (i == 1 && y.type->axis[1].size == t->axis[1].size) like = n;
        rows[n++] = batch->raw ? row_of_view(arena, d->exec, labels[i], d->feed->view[k])
                               : row_of_batch(labels[i], t, batch->data[k]);
    }
    rows[n++] = row_of_view(arena, d->exec, "predicted", y);
    rows[n - 1].like = like;
    dlr_image *image = dlr_figure_rows(arena, rows, n, err);
    return image && put_image(d, DL_TAG_PICTURE, image, d->to->dir->picture, err);
}

bool dlr_logger_draw(dlr_logger *l, dlr_exec *exec, int program, const dlr_feed *feed,
                     const dlr_batch *batch, const dlr_state *at, dl_error *err) {
    drawing d = {l, {.epoch = at->epoch, .iteration = at->iteration}, exec, program, feed};
    if (!dlr_is_rank0(l->ranks)) return true;
    dl_arena *arena = dl_arena_new(l->arena);
    bool ok = draw_prediction(&d, batch, arena, err);
    for (int i = 0; ok; i++) {
        const char *name;
        dlr_image *image = dlr_figure_of_model(arena, exec, program, i, &name, err);
        if (!image) break;
        ok = put_image(&d, name, image, NULL, err);
    }
    dl_arena_free(arena);
    return ok && err->code == DL_OK;
}
