/* The C side of check_io.py: writes a run's files for Python to read, and reads a file that Python
 * wrote.
 *
 *   io_exchange write DIR     checkpoints/, logs/ and metrics.jsonl
 *   io_exchange read FILE     prints each tensor: name, type, shape, its values as float32 */
#include <stdio.h>
#include <string.h>

#include "ir/base/arena.h"
#include "runtime/formats/checkpoint.h"
#include "runtime/formats/metrics.h"
#include "runtime/formats/tensorboard.h"

static const char PNG[] = "not really a PNG, but \0 bytes";

/* A convolution and a batch norm as PyTorch names them; element i of tensor k is k + i / 8. */
static bool fill(void *ctx, int index, int64_t first, int64_t n, void *dst, dl_error *err) {
    const dlr_st_tensor *t = &((const dlr_st_tensor *)ctx)[index];
    (void)err;
    if (t->dtype == DLR_ST_I64) return *(int64_t *)dst = 48, true;
    for (int64_t i = 0; i < n; i++) ((float *)dst)[i] = (float)index + (float)(first + i) / 8;
    return true;
}

static bool write_run(const char *dir, dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    dlr_st_tensor model[] = {
        {.name = "conv.weight", .dtype = DLR_ST_F32, .rank = 5, .shape = {5, 4, 3, 3, 3}},
        {.name = "conv.bias", .dtype = DLR_ST_F32, .rank = 1, .shape = {5}},
        {.name = "bn.weight", .dtype = DLR_ST_F32, .rank = 1, .shape = {5}},
        {.name = "bn.bias", .dtype = DLR_ST_F32, .rank = 1, .shape = {5}},
        {.name = "bn.running_mean", .dtype = DLR_ST_F32, .rank = 1, .shape = {5}},
        {.name = "bn.running_var", .dtype = DLR_ST_F32, .rank = 1, .shape = {5}},
        {.name = "bn.num_batches_tracked", .dtype = DLR_ST_I64, .rank = 0},
    };
    dlr_checkpoint_part part = {"model", {.tensors = model, .n = 7, .read = fill, .ctx = model}};
    dlr_checkpoint_content content = {.parts = &part, .n_parts = 1, .is_best = true, .keep = 2};
    content.state = (dlr_state){.epoch = 2, .iteration = 48, .seed = 7, .best_loss = 0.0437};
    bool ok = dlr_checkpoint_save(dl_format(arena, "%s/checkpoints", dir), &content, err);

    dlr_metrics *metrics =
        ok ? dlr_metrics_open(dl_format(arena, "%s/metrics.jsonl", dir), -1, NULL, err) : NULL;
    ok = metrics &&
         dlr_metrics_put(metrics, 1, 24,
                         (dlr_metric[]){{"Loss/valid", 0.1 + 0.2}, {"x", 0.0 / 0.0}}, 2, err);
    dlr_metrics_close(metrics);

    dlr_tensorboard *board =
        ok ? dlr_tensorboard_open(dl_format(arena, "%s/logs", dir), 49, err) : NULL;
    dlr_hparam params[] = {{"config", "short", 0}, {"lr", NULL, 1e-4}};
    ok = board && dlr_tensorboard_scalar(board, "Loss/valid", 0, 0.0873, err) &&
         dlr_tensorboard_scalar(board, "Learning Rate", 300, 1e-4, err) &&
         dlr_tensorboard_image(board, "figure", 48, (dlr_png_view){64, 32, 3, PNG, sizeof PNG},
                               err) &&
         dlr_tensorboard_text(board, "config", 0, "**short** \xc3\xa9", err) &&
         dlr_tensorboard_hparams(board, params, 2, err) &&
         dlr_tensorboard_hparams_done(board, err) && dlr_tensorboard_flush(board, err);
    dlr_tensorboard_close(board);
    dl_arena_free(arena);
    return ok;
}

static bool print_file(const char *path, dl_error *err) {
    dlr_st_file *f = dlr_st_open(path, DLR_ST_STRIP, err);
    bool ok = f != NULL;
    for (int i = 0; ok && i < f->n; i++) {
        const dlr_st_tensor *t = &f->tensors[i];
        float values[1024];
        printf("%s %s [", t->name, dlr_st_dtype_name(t->dtype));
        for (int k = 0; k < t->rank; k++) printf("%s%lld", k ? "," : "", (long long)t->shape[k]);
        printf("]");
        size_t n = (size_t)t->bytes / dlr_st_dtype_size(t->dtype);
        int64_t whole;
        if (t->dtype == DLR_ST_I64) {
            for (size_t k = 0; k < n; k++)
                memcpy(&whole, (const char *)t->data + 8 * k, 8), printf(" %lld", (long long)whole);
        } else {
            ok = n <= 1024 && dlr_st_load_f32(f, t, values, err);
            for (size_t k = 0; ok && k < n; k++) printf(" %.9g", (double)values[k]);
        }
        printf("\n");
    }
    dlr_st_close(f);
    return ok;
}

int main(int argc, char **argv) {
    dl_error err = {0};
    if (argc != 3) return DL_USAGE;
    bool ok = strcmp(argv[1], "write") == 0 ? write_run(argv[2], &err) : print_file(argv[2], &err);
    if (!ok) fprintf(stderr, "%s\n", err.message);
    return err.code;
}
