/* The loss scaler's nodes, in the order of torch.amp.GradScaler: unscale_, step, update. */
#include "passes/optim/scaler.h"

#include <float.h>
#include <math.h>

#include "ir/base/tags.h"

/* GradScaler's init_scale, growth_interval, growth_factor and backoff_factor. */
static const double first_scale = 65536, interval = 2000, growth = 2, backoff = 0.5;

static dl_var *add_state(dl_builder *b, const char *name, dl_dtype dtype, double first,
                         dl_error *err) {
    const dl_var *taken = dl_graph_find_var(b->graph, name);
    if (taken) dl_fail_taken(b->graph, taken, "the optimiser's own", err);
    dl_init init = {.kind = first ? DL_INIT_CONST : DL_INIT_ZERO, .a = first};
    return dl_graph_var(b->graph, DL_VAR_STATE, dl_intern(name), dl_scalar(dtype), init, b->loc);
}

dl_value *dl_scaler_scale(dl_builder *b, dl_error *err) {
    return &add_state(b, DL_SCALER_SCALE, DL_F32, first_scale, err)->value;
}

/* The number of elements that are not finite: one sum, which can be an epilogue reduction of the
 * contraction that computes the gradient. It uses comparisons, so that a gradient in 16 bits is
 * tested as memory holds it (fuse_kernel.c): a sum that is finite in f32 may be infinite in 16
 * bits. */
static dl_value *count_faults(dl_builder *b, dl_value *grad) {
    const dl_node *n = grad->def;
    if (n && n->op == DL_OP_cast && dl_dtype_is_half(n->in[0]->type.dtype)) grad = n->in[0];
    dl_value *finite = dl_build2(b, DL_OP_and, dl_build_k(b, DL_OP_lt, grad, INFINITY),
                                 dl_build_k(b, DL_OP_gt, grad, -INFINITY));
    dl_value *fault = dl_build_cast(b, dl_build1(b, DL_OP_not, finite), DL_F32);
    return dl_build_reduce(b, DL_OP_sum, fault, 0, NULL);
}

/* Every gradient of the set divided by the scale: multiplied by `by`, the reciprocal, which is
 * computed in f64 and rounded. The gradient is tested before the multiplication. Returns whether
 * all gradients are finite. */
static dl_value *unscale_set(dl_optimization *o, const dl_trained_set *set, dl_value *by) {
    dl_o_total faults = {0}; /* all ranks skip the step if any rank's shard is not finite */
    dl_loc loc = o->b->loc;
    for (int i = set->first; i < set->first + set->n; i++) {
        dl_trained *t = &o->trained.at[i];
        o->b->loc = t->var->loc;
        dl_o_total_add(o, &faults, t, count_faults(o->b, t->grad));
        t->grad = dl_o_mul(o, t->grad, dl_build_cast(o->b, by, t->grad->type.dtype));
        t->grad = dl_build_broadcast(o->b, t->grad, t->own->type);
    }
    o->b->loc = loc;
    dl_value *all = dl_o_total_sum(o, &faults, "whether gradients are finite");
    return dl_build_k(o->b, DL_OP_eq, all, 0);
}

/* The scale grows after a run of good steps, if f32 can hold the result; then a new run starts. */
static void update_scale(dl_optimization *o, dl_value *sound, dl_var *scale, dl_var *good) {
    dl_builder *b = o->b;
    dl_value *run = dl_build_k(b, DL_OP_add, &good->value, 1);
    dl_value *full = dl_build2(b, DL_OP_eq, dl_build_cast(b, run, DL_F64),
                               dl_optimizer_hyper(o, "scaler.growth_interval", interval));
    dl_value *fits = dl_build_k(b, DL_OP_le, &scale->value, FLT_MAX / growth);
    dl_value *more = dl_build_k(b, DL_OP_mul, &scale->value, growth);
    dl_value *grown =
        dl_build3(b, DL_OP_select, dl_build2(b, DL_OP_and, full, fits), more, &scale->value);
    dl_value *less = dl_build_k(b, DL_OP_mul, &scale->value, backoff);
    dl_value *goes_on = dl_build2(b, DL_OP_and, sound, dl_build1(b, DL_OP_not, full));
    dl_value *next_run = dl_build3(b, DL_OP_select, goes_on, run, dl_build_const(b, DL_I32, 0));
    dl_value *next = dl_build3(b, DL_OP_select, sound, grown, less);
    dl_graph_result(b->graph, DL_RESULT_UPDATE, scale->name, next, scale);
    dl_graph_result(b->graph, DL_RESULT_UPDATE, good->name, next_run, good);
}

void dl_scaler_unscale(dl_optimization *o) {
    dl_builder *b = o->b;
    dl_var *scale = dl_graph_find_var(b->graph, DL_SCALER_SCALE);
    dl_var *good = add_state(b, DL_SCALER_GOOD, DL_I32, 0, o->err);
    dl_var *skipped = add_state(b, DL_SCALER_SKIPPED, DL_I64, 0, o->err);
    dl_value *wide = dl_build_cast(b, &scale->value, DL_F64), *sound = NULL;
    dl_value *by = dl_build_cast(b, dl_o_div(o, dl_o_k(o, 1), wide), DL_F32);
    for (int i = 0; i < o->sets.n; i++) {
        dl_trained_set *set = &o->sets.at[i];
        set->sound = unscale_set(o, set, by);
        sound = sound ? dl_build2(b, DL_OP_and, sound, set->sound) : set->sound;
    }
    o->taken = dl_o_sub(o, o->step, dl_build_cast(b, &skipped->value, DL_F64));
    update_scale(o, sound, scale, good);
    dl_value *lost = dl_build1(b, DL_OP_not, sound);
    dl_value *all = dl_build2(b, DL_OP_add, &skipped->value, dl_build_cast(b, lost, DL_I64));
    dl_graph_result(b->graph, DL_RESULT_UPDATE, skipped->name, all, skipped);
    dl_graph_result(b->graph, DL_RESULT_METRIC, DL_TAG_LOSS_SCALE,
                    dl_build_cast(b, &scale->value, DL_F64), NULL);
    dl_graph_result(b->graph, DL_RESULT_METRIC, DL_TAG_SKIPPED, dl_build_cast(b, lost, DL_F64),
                    NULL);
}
