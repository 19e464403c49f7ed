/* What a run says at its end of all its epochs: read from the points that it recorded, so that a resumed run
 * knows those before it. */
#include <math.h>

#include "runtime/io/log.h"
#include "runtime/train_parts.h"

typedef struct {
    const dlr_record_style *style;
    double best[DLR_RECORD_BEST]; /* -infinity: none */
    double seconds;               /* sum */
    int64_t epochs;               /* that have seconds */
} history;

static void add_point(void *to, const dlr_json *point) {
    history *h = to;
    double value;
    for (int i = 0; i < DLR_RECORD_BEST; i++)
        if (dlr_metrics_value(point, h->style->best[i].tag, &value) && value > h->best[i]) h->best[i] = value;
    if (dlr_metrics_value(point, h->style->tags[DLR_VALUE_ALL_SECONDS], &value))
        h->seconds += value, h->epochs++;
}

bool dlr_run_log_history(dlr_run *r, dl_error *err) {
    const dlr_record_style *style = r->o->style;
    if (!style->mean_seconds) return true;
    history h = {.style = style};
    for (int i = 0; i < DLR_RECORD_BEST; i++) h.best[i] = -INFINITY;
    if (!dlr_metrics_read(r->o->dir->metrics, add_point, &h, err)) return false;
    for (int i = 0; i < DLR_RECORD_BEST; i++)
        if (h.best[i] > -INFINITY) dlr_log_info("%s%.3f", style->best[i].words, h.best[i]);
    if (h.epochs) dlr_log_info("%s%.3f s", style->mean_seconds, h.seconds / (double)h.epochs);
    return true;
}
