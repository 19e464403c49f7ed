/* What a run says at its end of all its epochs: read from the points that it recorded, so that a resumed run
 * knows those before it. */
#include <math.h>

#include "ir/base/input.h"
#include "runtime/io/json.h"
#include "runtime/io/log.h"
#include "runtime/train_parts.h"

enum { MAX_BYTES = 1 << 30 };

typedef struct {
    double best[DLR_RECORD_BEST]; /* -infinity: none */
    double seconds;               /* sum */
    int64_t epochs;               /* that have seconds */
} history;

static bool number(const dlr_json *point, const char *tag, double *value) {
    const dlr_json *v = tag ? dlr_json_get(point, tag) : NULL;
    if (!v || (v->kind != DLR_JSON_INT && v->kind != DLR_JSON_REAL)) return false;
    *value = v->kind == DLR_JSON_INT ? (double)v->integer : v->real;
    return true;
}

static void add_point(history *h, const dlr_record_style *style, const char *line, size_t n) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error ignored = {0};
    const dlr_json *point = dlr_json_parse(arena, line, n, (dlr_json_limits){8, 100000}, "", &ignored);
    double value;
    for (int i = 0; point && i < DLR_RECORD_BEST; i++)
        if (number(point, style->best[i].tag, &value) && value > h->best[i]) h->best[i] = value;
    if (point && number(point, style->tags[DLR_VALUE_ALL_SECONDS], &value)) h->seconds += value, h->epochs++;
    dl_arena_free(arena);
}

bool dlr_run_log_history(dlr_run *r, dl_error *err) {
    const dlr_record_style *style = r->o->style;
    if (!style->mean_seconds) return true;
    size_t size;
    const char *text = dl_read_file(r->arena, r->o->dir->metrics, MAX_BYTES, &size, err);
    if (!text) return false;
    history h = {0};
    for (int i = 0; i < DLR_RECORD_BEST; i++) h.best[i] = -INFINITY;
    for (const char *at = text, *end = text + size; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at)), *stop = newline ? newline : end;
        add_point(&h, style, at, (size_t)(stop - at));
        at = stop + 1;
    }
    for (int i = 0; i < DLR_RECORD_BEST; i++)
        if (h.best[i] > -INFINITY) dlr_log_info("%s%.3f", style->best[i].words, h.best[i]);
    if (h.epochs) dlr_log_info("%s%.3f s", style->mean_seconds, h.seconds / (double)h.epochs);
    return true;
}
