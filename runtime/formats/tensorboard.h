/* TensorBoard event files, which `tensorboard --logdir` shows during a run.
 *
 * A file is a sequence of records (u64le length, masked CRC-32C of it, data, masked CRC-32C of the
 * data), each a protobuf Event. Every record is written at once, so that viewers see it and a
 * killed run loses none. */
#ifndef DLR_TENSORBOARD_H
#define DLR_TENSORBOARD_H
#include "ir/base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct dlr_tensorboard dlr_tensorboard;

/* Starts a file events.out.tfevents.<seconds>.<host>.<pid>.<n> in `dir` (made if absent).
 * `first_step` is the first step that this run writes: viewers hide points at and after it in
 * earlier files. 0 for a new run, iteration + 1 for a resumed one. One process writes a directory.
 * Errors: DL_IO with path and cause; NULL. */
dlr_tensorboard *dlr_tensorboard_open(const char *dir, int64_t first_step, dl_error *err);
/* Makes all records so far durable (fdatasync). Errors: DL_IO. */
bool dlr_tensorboard_flush(dlr_tensorboard *board, dl_error *err);
void dlr_tensorboard_close(dlr_tensorboard *board); /* NULL is fine */

/* One point of a curve. Errors of all these: DL_IO with path and cause. */
bool dlr_tensorboard_scalar(dlr_tensorboard *board, const char *tag, int64_t step, double value,
                            dl_error *err);

typedef struct {
    int width, height, channels; /* channels: 1 grey, 3 RGB, 4 RGBA */
    const void *png;             /* the whole PNG file */
    size_t bytes;
} dlr_png_view;
bool dlr_tensorboard_image(dlr_tensorboard *board, const char *tag, int64_t step,
                           dlr_png_view image, dl_error *err);
/* Markdown, shown on the Text page. */
bool dlr_tensorboard_text(dlr_tensorboard *board, const char *tag, int64_t step, const char *text,
                          dl_error *err);

/* A hyperparameter for the HParams page: text when it is given, otherwise the number. */
typedef struct {
    const char *name;
    const char *text;
    double number;
} dlr_hparam;
bool dlr_tensorboard_hparams(dlr_tensorboard *board, const dlr_hparam *params, int n,
                             dl_error *err);
/* Marks the run as successfully ended on the HParams page, if it is there. */
bool dlr_tensorboard_hparams_done(dlr_tensorboard *board, dl_error *err);
#endif
