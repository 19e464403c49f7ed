/* Random numbers in a model: rand, of which randn and randint are formulas. */
#include "frontends/dl/builtin.h"

static bool is_kept(const char *axis, int n, const char *const *names) {
    return n < 0 || dl_names_have(n, names, axis);
}

/* A tensor with the axes of x that are kept. It depends on the samples of x if it has their axis: a
 * number for a sample belongs to this sample, whichever rank has it. Otherwise all ranks draw the
 * same. */
static dl_val find_like(dl_call *c, dl_val x, int n, const char *const *names) {
    const dl_type t = x.t->type;
    const char *samples = dl_intern("N");
    if (dl_type_axis(&t, samples) >= 0 && !is_kept(samples, n, names)) {
        dl_type kept = dl_scalar(t.dtype == DL_F64 ? DL_F64 : DL_F32);
        for (int i = 0; i < t.rank; i++)
            if (is_kept(t.axis[i].name, n, names))
                dl_type_push(&kept, t.axis[i].name, t.axis[i].size);
        x = dl_tensor_of(c->E, dl_val_float(0, c->where), kept.dtype);
        return dl_tensor_op(c->E, c->where, DL_OP_broadcast, 1, &x, 0, NULL, &kept);
    }
    for (int i = 0; i < t.rank; i++)
        if (!is_kept(t.axis[i].name, n, names))
            x = dl_tensor_at(c->E, c->where, x, t.axis[i].name, 0);
    return x;
}

dl_val dl_call_rand(dl_call *c, dl_val x, int n, const char *const *names) {
    x = find_like(c, x, n, names);
    dl_attr training = dl_attr_int(DL_ATTR_training, c->E->train);
    return dl_tensor_op(c->E, c->where, DL_OP_rand, 1, &x, 1, &training, NULL);
}

/* Uniform in [0, 1): a number for each element of x or, with `over`, for each of these axes. */
dl_val dl_fn_rand(dl_call *c) {
    int n;
    const char *names[DL_MAX_RANK];
    if (!dl_call_axes_of(c, 1, c->arg[0], &n, names)) return dl_poison();
    return dl_call_rand(c, c->arg[0], n, names);
}
