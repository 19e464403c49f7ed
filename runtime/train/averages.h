/* Means over an epoch's batches of the model's own metrics and of the norms of log_norms: one
 * number per batch, averaged as the loss is. */
#ifndef DLR_AVERAGES_H
#define DLR_AVERAGES_H
#include "runtime/exec/exec.h"
#include "runtime/report/record.h"
#include "runtime/train/state_values.h"

/* A metric of one program, with its name and tag: NAME/train or NAME/valid for the model's metrics;
 * the style's tag for the loop's own (NULL, and without a style: not recorded), and
 * grad_norm/LAYER. */
typedef struct {
    const char *name, *tag;
    bool own, layer; /* layer: of one layer, and so no line of the log */
    dlr_view now;    /* of the batch just run */
    double sum, last;
    int64_t skipped; /* training steps whose value is left out */
} dlr_average;

/* All of them, averaged over the batches added since the last clear. */
typedef struct {
    dlr_average *terms;
    int n;
    double batches; /* a batch that is not full counts as the part that it is */
} dlr_averages;

dlr_averages dlr_averages_of(dl_arena *arena, dlr_exec *exec, int program, const char *split,
                             const dlr_log_format *style);
void dlr_averages_clear(dlr_averages *averages);
/* Leaves out values of a skipped step that are not finite. weight: the part of a full batch that
 * counts. */
void dlr_averages_add(dlr_averages *averages, const dlr_exec *exec, bool skipped, double weight);
double dlr_averages_mean(const dlr_averages *averages, int term); /* NaN of no batch */
/* " - NAME: MEAN" of each metric of the model, with `before` before its name, appended to
 * `line`. */
const char *dlr_averages_line(const dlr_averages *averages, const dlr_log_format *style,
                              const char *before, dl_buf *line);
/* The recorded value of a term: its mean; for the weights' norm the last value, where the style
 * says so. */
double dlr_averages_value(const dlr_averages *averages, int term, const dlr_log_format *style);

/* The sums of the epoch so far in a checkpoint. Restored from one of other metrics, averages begin
 * anew. */
void dlr_averages_put_state(const dlr_averages *averages, dl_arena *arena, dlr_state_list *list);
void dlr_averages_restore(dlr_averages *averages, const dlr_checkpoint *checkpoint);
/* Continues as if the same means were of so many batches. */
void dlr_averages_weigh(dlr_averages *averages, int64_t batches);
#endif
