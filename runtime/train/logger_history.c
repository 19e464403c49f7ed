/* The summary of all epochs at a run's end. It is read from the recorded points, so that a resumed
 * run includes the epochs before it. */
#include <math.h>

#include "runtime/formats/log.h"
#include "runtime/formats/npz.h"
#include "runtime/train/logger.h"

/* A value of all epochs. */
typedef struct {
    const char *tag, *name; /* as it was recorded, as it is kept */
    DL_ARRAY(double) values;
} column;

typedef struct {
    dl_arena *arena;
    const dlr_log_format *style;
    DL_ARRAY(column) columns;
    double best[DLR_RECORD_BEST]; /* -infinity: none */
    int64_t ranks;                /* that share the data */
    double seconds;               /* sum */
    int64_t epochs;               /* that have seconds */
} history;

static void add_column(history *h, const char *tag, const char *name) {
    if (tag) dl_push(h->arena, &h->columns, ((column){.tag = tag, .name = name}));
}

/* Metrics of the model, as NAME or val_NAME; some have another name. */
static void add_metrics(history *h, const dlr_averages *a, const char *before) {
    for (int i = 0; i < a->n; i++) {
        const char *name = a->terms[i].name;
        if (!a->terms[i].own) name = dlr_record_metric(h->style, name);
        add_column(h, a->terms[i].tag, dl_format(h->arena, "%s%s", before, name));
    }
}

static void add_point(void *to, const dlr_json *point) {
    history *h = to;
    double value;
    for (int i = 0; i < DLR_RECORD_BEST; i++)
        if (dlr_metrics_value(point, h->style->best[i].tag, &value) && value > h->best[i])
            h->best[i] = value;
    if (dlr_metrics_value(point, h->style->tags[DLR_VALUE_ALL_SECONDS], &value))
        h->seconds += value, h->epochs++;
    for (int i = 0; i < h->columns.n; i++) {
        if (!dlr_metrics_value(point, h->columns.at[i].tag, &value)) value = NAN;
        dl_push(h->arena, &h->columns.at[i].values, value);
    }
}

static bool keep(const history *h, const char *path, dl_error *err) {
    dlr_npz_array *arrays = DL_NEWS(h->arena, dlr_npz_array, h->columns.n + 1);
    static const double none[1];
    arrays[0] = (dlr_npz_array){.name = "n_ranks", .whole = h->ranks};
    for (int i = 0; i < h->columns.n; i++) {
        const column *c = &h->columns.at[i];
        arrays[i + 1] = (dlr_npz_array){c->name, c->values.n ? c->values.at : none, c->values.n, 0};
    }
    return dlr_npz_write(path, arrays, h->columns.n + 1, err);
}

bool dlr_logger_history(dlr_logger *l, const dlr_averages *trained, const dlr_averages *validated,
                        dl_error *err) {
    const dlr_log_format *style = l->o->style;
    int ranks = l->ranks->data_ranks;
    if (!style->history || !dlr_is_rank0(l->ranks)) return true;
    history h = {.arena = l->arena, .style = style, .ranks = ranks ? ranks : 1};
    for (int i = 0; i < DLR_RECORD_BEST; i++) h.best[i] = -INFINITY;
    add_column(&h, style->tags[DLR_VALUE_TRAIN_LOSS], "loss");
    add_metrics(&h, trained, "");
    add_column(&h, style->tags[DLR_VALUE_VALID_LOSS], "val_loss");
    add_metrics(&h, validated, "val_");
    add_column(&h, style->tags[DLR_VALUE_RATE], "lr");
    if (!dlr_metrics_read(l->dir->metrics, add_point, &h, err)) return false;
    for (int i = 0; i < DLR_RECORD_BEST; i++)
        if (h.best[i] > -INFINITY) dlr_log_info("%s%.3f", style->best[i].words, h.best[i]);
    if (h.epochs) dlr_log_info("%s%.3f s", style->mean_seconds, h.seconds / (double)h.epochs);
    return keep(&h, dl_format(l->arena, "%s/%s", l->dir->path, style->history), err);
}
