#include "runtime/train/scaler.h"

#include <math.h>

#include "ir/base/philox.h"
#include "ir/base/tags.h"
#include "runtime/checkpoint/tensors.h"
#include "runtime/exec/not_finite.h"
#include "runtime/exec/state.h"

/* The largest scale at which a run is stopped: 2^-14, the least normal number of fp16. A scale
 * lifts gradients above that number. A scale that has itself fallen so low, by thirty halvings,
 * meets overflows that no scale cures. fairseq's least loss scale, 1e-4, is reached at the same
 * power of two. */
static const double least_scale = 0x1p-14;

dlr_scaler dlr_scaler_of(const dlr_exec *exec, int program) {
    return (dlr_scaler){.used = dlr_exec_result(exec, program, DL_RESULT_METRIC, DL_TAG_LOSS_SCALE),
                        .skipped = dlr_exec_result(exec, program, DL_RESULT_METRIC, DL_TAG_SKIPPED),
                        .next = dlr_exec_variable(exec, DL_SCALER_SCALE),
                        .all = dlr_exec_variable(exec, DL_SCALER_SKIPPED),
                        .last = NAN};
}

static void set(dlr_exec *exec, const char *name, double value) {
    dlr_view v = dlr_exec_variable(exec, name);
    if (v.type) dlr_state_write(exec, v, DL_F64, &value);
}

void dlr_scaler_start(dlr_exec *exec, double scale) {
    set(exec, DL_SCALER_SCALE, scale), set(exec, DL_SCALER_GOOD, 0),
        set(exec, DL_SCALER_SKIPPED, 0);
}

bool dlr_scaler_note(dlr_scaler *s, const dlr_exec *exec) {
    if (!s->used.type) return false;
    s->last = dlr_scalar(exec, s->used);
    return dlr_scalar(exec, s->skipped) != 0;
}

/* Restores the step's beginning: a skipped step changed nothing else that it reads. */
static void step_back(const dlr_scaler *s, dlr_exec *exec) {
    dlr_view drawn = dlr_exec_variable(exec, DL_RANDOM_STEP);
    if (drawn.type) set(exec, DL_RANDOM_STEP, dlr_scalar(exec, drawn) - 1);
    set(exec, DL_SCALER_SCALE, dlr_scalar(exec, s->used));
}

bool dlr_scaler_check(const dlr_scaler *s, dlr_exec *exec, int program, int64_t step,
                      dl_error *err) {
    if (!s->used.type || dlr_scalar(exec, s->skipped) == 0) return true;
    double next = dlr_scalar(exec, s->next);
    if (next > least_scale) return true;
    dl_arena *arena = dl_arena_new(NULL);
    step_back(s, exec);
    dl_fail(err, DL_NUMERIC,
            "the loss scale has come down to %.3g at step %lld, which is its floor, and gradients "
            "are still "
            "not finite: stopped; checkpoints stay as they were%s. A lower start_lr, or data "
            "without such "
            "values, may help; or --amp_mode=bf16, which has float32's range",
            next, (long long)step, dlr_not_finite_text(arena, exec, program));
    dl_arena_free(arena);
    return false;
}
