#include "runtime/train/state_values.h"

void dlr_state_put_text(dl_arena *arena, dlr_state_list *list, const char *key, const char *text) {
    dl_push(arena, list,
            (dlr_state_value){.key = key, .kind = DLR_STATE_TEXT, .text = text ? text : ""});
}

void dlr_state_put_int(dl_arena *arena, dlr_state_list *list, const char *key, int64_t value) {
    dl_push(arena, list, (dlr_state_value){.key = key, .kind = DLR_STATE_INT, .integer = value});
}

double *dlr_state_put_reals(dl_arena *arena, dlr_state_list *list, const char *key, int n) {
    double *reals = DL_NEWS(arena, double, n);
    dl_push(arena, list,
            (dlr_state_value){.key = key, .kind = DLR_STATE_REALS, .reals = reals, .n_reals = n});
    return reals;
}

void dlr_state_put_real(dl_arena *arena, dlr_state_list *list, const char *key, double value) {
    *dlr_state_put_reals(arena, list, key, 1) = value;
}

const double *dlr_state_reals(const dlr_checkpoint *c, const char *key, int n) {
    const dlr_state_value *v = dlr_checkpoint_value(c, key);
    return v && v->kind == DLR_STATE_REALS && v->n_reals == n ? v->reals : NULL;
}

double dlr_state_real(const dlr_checkpoint *c, const char *key) {
    const double *real = dlr_state_reals(c, key, 1);
    return real ? *real : 0;
}

const char *dlr_state_text(const dlr_checkpoint *c, const char *key) {
    const dlr_state_value *v = dlr_checkpoint_value(c, key);
    return v && v->kind == DLR_STATE_TEXT && *v->text ? v->text : NULL;
}
