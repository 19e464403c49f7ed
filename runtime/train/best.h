/* The best checkpoints of a run: its K best validations by the loss or by a metric of the model.
 * Each checkpoint keeps the list, so that a resumed run goes on with it. */
#ifndef DLR_BEST_H
#define DLR_BEST_H
#include "runtime/train/averages.h"
#include "runtime/train/state_values.h"

typedef struct {
    const char *metric; /* of the model; NULL: its loss */
    bool largest;       /* is best, not the least */
    int keep;           /* how many; 0 is 1 */
} dlr_best_options;

/* A validation, and the step whose checkpoint has the weights. */
typedef struct {
    double value;
    int64_t step;
} dlr_best_entry;

typedef struct {
    const dlr_best_options *o;
    dl_arena *arena;
    dlr_best_entry *list; /* the best one first */
    int n;
} dlr_best;

/* An empty list. */
void dlr_best_begin(dlr_best *b, const dlr_best_options *o, dl_arena *arena);
/* Takes a validation's loss and metrics into the list, if it is one of the best; of equal ones the
 * later. A value that is not finite is none. */
void dlr_best_note(dlr_best *b, double loss, const dlr_averages *metrics, int64_t step);
/* Whether the weights of this step are the best so far. */
bool dlr_best_is(const dlr_best *b, int64_t step);
/* The list where a run is known by its least validation loss alone (infinity: by none). */
void dlr_best_take_loss(dlr_best *b, double least);
/* The list in a checkpoint. Restored from one of another metric the list is empty, and the log says
 * so; from one without a list it has the least loss alone. */
void dlr_best_put_state(const dlr_best *b, dl_arena *arena, dlr_state_list *list);
void dlr_best_restore(dlr_best *b, const dlr_checkpoint *checkpoint);
#endif
