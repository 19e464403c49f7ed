#include "runtime/report/record.h"

#include <string.h>

#include "ir/base/tags.h"

#define COMMON_TAGS                                                                                \
    [DLR_VALUE_TRAIN_LOSS] = DL_TAG_TRAIN_LOSS, [DLR_VALUE_VALID_LOSS] = DL_TAG_VALID_LOSS,        \
    [DLR_VALUE_RATE] = DL_TAG_RATE, [DLR_VALUE_ITERS_PER_SEC] = DL_TAG_SPEED,                      \
    [DLR_VALUE_WAIT] = DL_TAG_WAIT, [DLR_VALUE_GRAD_NORM] = DL_TAG_GRAD_NORM,                      \
    [DLR_VALUE_WEIGHT_NORM] = DL_TAG_WEIGHT_NORM, [DLR_VALUE_LOSS_SCALE] = DL_TAG_LOSS_SCALE
#define COMMON_LINES                                                                               \
    .trained =                                                                                     \
        "Time taken for epoch {epoch} is {seconds} sec, avg {samples_per_sec} samples/sec\n"       \
        "  Avg train loss={train}\n"                                                               \
        "  Data wait time: {wait} sec",                                                            \
    .end = "DONE ---- rank {rank}", .validated = "  Avg val loss={valid}",                         \
    .finished = "  Total validation time: {valid_seconds} sec"

static const dlr_record_style styles[] = {
    /* NERSC/ml-pm-training-2022 */
    {.name = "iters",
     .tags = {COMMON_TAGS},
     .untrained = true,
     .begin = "Starting Training Loop...",
     COMMON_LINES},
    /* NERSC/dl-at-scale-training */
    {.name = "samples",
     .tags = {COMMON_TAGS, [DLR_VALUE_SAMPLES_PER_SEC] = "Avg samples per sec"},
     .untrained = true,
     .rate_at_end = true,
     .begin = "Scaffolding memory high watermark: {most_memory} GB.\nStarting Training Loop...",
     .stepped = " Memory usage after forward pass: {memory} GB.",
     COMMON_LINES},
    /* NERSC/nersc-dl-multigpu, NERSC/nersc-dl-wandb */
    {.name = "tracked",
     .tags = {[DLR_VALUE_TRAIN_LOSS] = "train_loss",
              [DLR_VALUE_VALID_LOSS] = "val_loss",
              [DLR_VALUE_RATE] = "learning_rate",
              [DLR_VALUE_SECONDS] = "time_per_epoch",
              [DLR_VALUE_WAIT] = "data_wait_time",
              [DLR_VALUE_BEST_LOSS] = "best_val_loss",
              [DLR_VALUE_BEST_EPOCH] = "best_epoch",
              [DLR_VALUE_GRAD_NORM] = "grad",
              [DLR_VALUE_WEIGHT_NORM] = "wt_norm",
              [DLR_VALUE_LOSS_SCALE] = DL_TAG_LOSS_SCALE},
     .weights_at_end = true,
     .rate_at_end = true,
     .begin = "Starting training loop...",
     .finished = "Time taken for epoch {epoch} is {all_seconds} sec; with "
                 "{seconds}/{valid_seconds} in tr/val\n"
                 "Loss = {train}, Val loss = {valid}\n"
                 "Data wait time: {wait} sec",
     .end = "DONE"},
    /* NERSC/dl4sci-scaling-tutorial */
    {.name = "history",
     .tags = {COMMON_TAGS, [DLR_VALUE_ALL_SECONDS] = "time_per_epoch"},
     .plain_log = true,
     .metrics_in_line = true,
     .begin = "Initialized rank {rank} out of {ranks}",
     .trained = "Epoch {epoch}/{epochs}",
     .finished =
         " - {all_seconds}s - loss: {train}{metrics} - val_loss: {valid}{valid_metrics}\nData wait "
         "time: {wait} s",
     .best = {{"accuracy/valid", "Best validation accuracy: "},
              {"top5/valid", "Best top-5 validation accuracy: "}},
     .mean_seconds = "Average time per epoch: ",
     .history = "history.npz",
     .renamed = {{"accuracy", "acc"}, {"top5", "top_k_categorical_accuracy"}},
     .end = "All done!"},
};

const dlr_record_style *dlr_record_find(const char *name) {
    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++)
        if (strcmp(styles[i].name, name) == 0) return &styles[i];
    return NULL;
}

const char *dlr_record_metric(const dlr_record_style *style, const char *name) {
    for (int i = 0; i < DLR_RECORD_RENAMED && style->renamed[i].name; i++)
        if (strcmp(name, style->renamed[i].name) == 0) return style->renamed[i].kept;
    return name;
}

static bool is_word(const char *name, const char *word, size_t n) {
    return strlen(name) == n && strncmp(name, word, n) == 0;
}

static void put_word(dl_buf *b, const char *word, size_t n, const dlr_record_numbers *v) {
    const struct {
        const char *name;
        double value;
    } reals[] = {{"seconds", v->seconds},
                 {"wait", v->wait},
                 {"memory", v->memory},
                 {"most_memory", v->most_memory},
                 {"samples_per_sec", v->samples_per_sec},
                 {"train", v->train},
                 {"valid", v->valid},
                 {"valid_seconds", v->valid_seconds},
                 {"all_seconds", v->all_seconds}};
    const struct {
        const char *name;
        int64_t value;
    } counts[] = {{"epoch", v->epoch},
                  {"epochs", v->epochs},
                  {"rank", v->rank},
                  {"ranks", v->ranks ? v->ranks : 1}};
    const struct {
        const char *name, *value;
    } texts[] = {{"metrics", v->metrics}, {"valid_metrics", v->valid_metrics}};
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        if (is_word(reals[i].name, word, n)) dl_putf(b, "%f", reals[i].value);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (is_word(counts[i].name, word, n)) dl_putf(b, "%lld", (long long)counts[i].value);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (is_word(texts[i].name, word, n)) dl_puts(b, texts[i].value ? texts[i].value : "");
}

bool dlr_record_line(dl_buf *b, const char *lines, int n, const dlr_record_numbers *numbers) {
    for (; lines && n > 0; n--) lines = strchr(lines, '\n') ? strchr(lines, '\n') + 1 : NULL;
    if (!lines) return false;
    while (*lines && *lines != '\n') {
        size_t plain = strcspn(lines, "{\n");
        dl_putn(b, lines, plain);
        lines += plain;
        if (*lines != '{') continue;
        size_t word = strcspn(++lines, "}");
        put_word(b, lines, word, numbers);
        lines += word + 1;
    }
    return true;
}
