/* Values of a run's components in a checkpoint's state.json: each component appends its own, and
 * reads them back. */
#ifndef DLR_STATE_VALUES_H
#define DLR_STATE_VALUES_H
#include "ir/base/arena.h"
#include "runtime/formats/checkpoint.h"

typedef DL_ARRAY(dlr_state_value) dlr_state_list;

/* Append a value; NULL as an empty text. */
void dlr_state_put_text(dl_arena *arena, dlr_state_list *list, const char *key, const char *text);
void dlr_state_put_int(dl_arena *arena, dlr_state_list *list, const char *key, int64_t value);
void dlr_state_put_real(dl_arena *arena, dlr_state_list *list, const char *key, double value);
/* Appends n numbers, which the caller fills in. */
double *dlr_state_put_reals(dl_arena *arena, dlr_state_list *list, const char *key, int n);

/* The value where the checkpoint has one of this kind; 0 and NULL otherwise. A text that is empty
 * is NULL, too. */
double dlr_state_real(const dlr_checkpoint *checkpoint, const char *key);
const double *dlr_state_reals(const dlr_checkpoint *checkpoint, const char *key, int n);
const char *dlr_state_text(const dlr_checkpoint *checkpoint, const char *key);
#endif
