#include "runtime/train/find_nonfinite.h"

#include "ir/base/str.h"
#include "runtime/exec/not_finite.h"
#include "runtime/train/scaler.h"

/* A weight, or optimiser state, that is not finite. */
static const char *bad_state(dl_arena *arena, dlr_exec *exec) {
    const char *found = dlr_not_finite_variable(arena, exec, DL_VAR_PARAM);
    return found ? found : dlr_not_finite_variable(arena, exec, DL_VAR_STATE);
}

/* One step, watched or not. *found: its value that is not finite; a step that a loss scaler skips
 * may have such values. False: the step could not be run. */
static bool make(dl_arena *arena, const dlr_nonfinite_search *a, bool watched, const char **found,
                 dl_error *err) {
    dlr_scaler scaler = dlr_scaler_of(a->exec, a->program);
    *found = NULL;
    if (!a->feed(a->loop, err)) return false;
    if (watched)
        *found = dlr_start_checked(arena, a->exec, a->program);
    else
        dlr_exec_start(a->exec, a->program);
    dlr_exec_wait_oldest(a->exec);
    if (dlr_scaler_note(&scaler, a->exec)) *found = NULL;
    return dlr_exec_check(a->exec, err);
}

/* Whether any rank says so. */
static bool any_says(const dlr_nonfinite_search *a, bool mine, bool *any, dl_error *err) {
    int agreed = mine;
    bool ok = !a->comm || dlr_comm_agree(a->comm, mine, &agreed, err);
    *any = agreed != 0;
    return ok;
}

/* Repeats steps up to the `step`-th. After `plain` steps they are watched, unless weights are not
 * finite by then, which has an earlier cause. *at: the step of the values in *found. All ranks call
 * it together. */
static bool go(dl_arena *arena, const dlr_nonfinite_search *a, int64_t plain, int64_t step,
               int64_t *at, const char **found, dl_error *err) {
    bool any = false;
    *found = NULL;
    if (!a->back(a->loop, at, err)) return false;
    bool began = *at >= plain;
    while (*at < step && !any) {
        bool watched = *at >= plain;
        if (*at == plain && !began && !any_says(a, bad_state(arena, a->exec) != NULL, &any, err))
            return false;
        if (any) return true;
        if (!make(arena, a, watched, found, err)) return false;
        ++*at;
        any = *found != NULL;
    }
    return true;
}

const char *dlr_nonfinite_find(dl_arena *arena, const dlr_nonfinite_search *a, int64_t step) {
    dl_error err = {0};
    int64_t at = 0;
    const char *found = NULL;
    bool ok = go(arena, a, step - 1, step, &at, &found, &err);
    if (ok && !found) ok = go(arena, a, 0, step, &at, &found, &err); /* weights had gone before */
    if (found) return dl_format(arena, ". Step %lld repeated: %s", (long long)at, found);
    return ok ? ". Made again, its values are finite: the run cannot be told from one that goes "
                "well"
              : dl_format(arena, ". Where, is not known: %s", err.message);
}
