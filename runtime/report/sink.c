#include "runtime/report/sink.h"

#include "ir/base/str.h"
#include "ir/base/tags.h"

/* ---- metrics.jsonl ---- */

static bool metrics_point(void *to, dlr_sink_at at, const dlr_metric *values, int n,
                          dl_error *err) {
    return dlr_metrics_put(to, at.epoch, at.iteration, values, n, err);
}

static bool metrics_flush(void *to, dl_error *err) { return dlr_metrics_flush(to, err); }

static void metrics_close(void *to) { dlr_metrics_close(to); }

void dlr_sinks_add_metrics(dl_arena *arena, dlr_sinks *sinks, dlr_metrics *metrics) {
    static const dlr_sink_kind kind = {
        .point = metrics_point, .flush = metrics_flush, .close = metrics_close};
    dl_push(arena, sinks, ((dlr_sink){&kind, metrics}));
}

/* ---- TensorBoard ---- */

static bool board_point(void *to, dlr_sink_at at, const dlr_metric *values, int n, dl_error *err) {
    for (int i = 0; i < n; i++)
        if (!dlr_tensorboard_scalar(to, values[i].tag, at.iteration, values[i].value, err))
            return false;
    return true;
}

static bool board_image(void *to, dlr_sink_at at, const char *tag, dlr_png_view image,
                        dl_error *err) {
    return dlr_tensorboard_image(to, tag, at.iteration, image, err);
}

static bool board_settings(void *to, dlr_sink_at at, const char *yaml, dl_error *err) {
    dl_buf text = {0};
    dl_putf(&text, "```yaml\n%s```\n", yaml);
    bool ok = dlr_tensorboard_text(to, DL_TAG_SETTINGS, at.iteration, text.at, err);
    dl_buf_free(&text);
    return ok;
}

static bool board_trial(void *to, const dlr_hparam *values, int n, dl_error *err) {
    return dlr_tensorboard_hparams(to, values, n, err);
}

static bool board_end(void *to, int code, dl_error *err) {
    return code != DL_OK || dlr_tensorboard_hparams_done(to, err);
}

static bool board_flush(void *to, dl_error *err) { return dlr_tensorboard_flush(to, err); }

static void board_close(void *to) { dlr_tensorboard_close(to); }

void dlr_sinks_add_board(dl_arena *arena, dlr_sinks *sinks, dlr_tensorboard *board) {
    static const dlr_sink_kind kind = {.point = board_point,
                                       .image = board_image,
                                       .settings = board_settings,
                                       .trial = board_trial,
                                       .flush = board_flush,
                                       .end = board_end,
                                       .close = board_close};
    dl_push(arena, sinks, ((dlr_sink){&kind, board}));
}

/* ---- Weights & Biases ---- */

static bool wandb_point(void *to, dlr_sink_at at, const dlr_metric *values, int n, dl_error *err) {
    return at.between || dlr_wandb_put(to, at.epoch, at.iteration, values, n, true, err);
}

static bool wandb_image(void *to, dlr_sink_at at, const char *tag, dlr_png_view image,
                        dl_error *err) {
    (void)at, (void)err;
    dlr_wandb_image(to, tag, image);
    return true;
}

static bool wandb_flush(void *to, dl_error *err) { return dlr_wandb_flush(to, err); }

static bool wandb_end(void *to, int code, dl_error *err) { return dlr_wandb_end(to, code, err); }

static void wandb_close(void *to) { dlr_wandb_close(to); }

void dlr_sinks_add_wandb(dl_arena *arena, dlr_sinks *sinks, dlr_wandb *wandb) {
    static const dlr_sink_kind kind = {.point = wandb_point,
                                       .image = wandb_image,
                                       .flush = wandb_flush,
                                       .end = wandb_end,
                                       .close = wandb_close};
    dl_push(arena, sinks, ((dlr_sink){&kind, wandb}));
}

/* ---- all of them ---- */

bool dlr_sinks_point(const dlr_sinks *sinks, dlr_sink_at at, const dlr_metric *values, int n,
                     dl_error *err) {
    for (int i = 0; i < sinks->n; i++) {
        const dlr_sink *s = &sinks->at[i];
        if (s->kind->point && !s->kind->point(s->to, at, values, n, err)) return false;
    }
    return true;
}

bool dlr_sinks_image(const dlr_sinks *sinks, dlr_sink_at at, const char *tag, dlr_png_view image,
                     dl_error *err) {
    for (int i = 0; i < sinks->n; i++) {
        const dlr_sink *s = &sinks->at[i];
        if (s->kind->image && !s->kind->image(s->to, at, tag, image, err)) return false;
    }
    return true;
}

bool dlr_sinks_settings(const dlr_sinks *sinks, dlr_sink_at at, const char *yaml, dl_error *err) {
    for (int i = 0; i < sinks->n; i++) {
        const dlr_sink *s = &sinks->at[i];
        if (s->kind->settings && !s->kind->settings(s->to, at, yaml, err)) return false;
    }
    return true;
}

bool dlr_sinks_trial(const dlr_sinks *sinks, const dlr_hparam *values, int n, dl_error *err) {
    for (int i = 0; i < sinks->n; i++) {
        const dlr_sink *s = &sinks->at[i];
        if (s->kind->trial && !s->kind->trial(s->to, values, n, err)) return false;
    }
    return true;
}

bool dlr_sinks_flush(const dlr_sinks *sinks, dl_error *err) {
    for (int i = 0; i < sinks->n; i++) {
        const dlr_sink *s = &sinks->at[i];
        if (s->kind->flush && !s->kind->flush(s->to, err)) return false;
    }
    return true;
}

bool dlr_sinks_end(const dlr_sinks *sinks, int code, dl_error *err) {
    for (int i = 0; i < sinks->n; i++) {
        const dlr_sink *s = &sinks->at[i];
        if (s->kind->end && !s->kind->end(s->to, code, err)) return false;
    }
    return true;
}

void dlr_sinks_close(dlr_sinks *sinks) {
    for (int i = 0; i < sinks->n; i++) sinks->at[i].kind->close(sinks->at[i].to);
    sinks->n = 0;
}
