#include "runtime/report/record.h"

#include <string.h>

#include "ir/base/tags.h"

static const dlr_log_format styles[] = {
#include "compat/nersc/log_formats.def"
};

const dlr_log_format *dlr_record_find(const char *name) {
    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++)
        if (strcmp(styles[i].name, name) == 0) return &styles[i];
    return NULL;
}

const char *dlr_record_metric(const dlr_log_format *style, const char *name) {
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
