#include "runtime/feed.h"

#include "runtime/state.h"

bool dlr_feed_channels(const char *name, const dl_type *t, int64_t size, int *channels, dl_error *err) {
    bool fits = t->dtype == DL_F32 && t->rank == 5 && t->axis[1].size <= INT32_MAX;
    for (int i = 2; fits && i < 5; i++) fits = t->axis[i].size == size;
    if (!fits)
        return dl_fail(
            err, DL_INPUT,
            "the model's '%s' is %s; the data loaders of this version give f32[N, C, %lld, %lld, %lld]", name,
            dl_type_text(t), (long long)size, (long long)size, (long long)size);
    *channels = (int)t->axis[1].size;
    return true;
}

static bool find(const dlr_exec *exec, dl_var_role role, const dl_plan_var **var, dlr_view *view,
                 dl_error *err) {
    const dl_plan *p = dlr_exec_plan(exec);
    int n = 0;
    for (int i = 0; i < p->vars.n; i++)
        if (p->vars.at[i].role == role) *var = &p->vars.at[i], n++;
    if (n != 1)
        return dl_fail(err, DL_INPUT, "the model has %d %ss; the data loaders of this version give one", n,
                       dl_var_roles[role]);
    *view = dlr_exec_variable(exec, (*var)->name);
    return true;
}

bool dlr_feed_open(dlr_feed *f, dlr_exec *exec, dl_error *err) {
    f->exec = exec;
    return find(exec, DL_VAR_INPUT, &f->input, &f->input_view, err) &&
           find(exec, DL_VAR_TARGET, &f->target, &f->target_view, err);
}

void dlr_feed_batch(const dlr_feed *f, const dlr_batch *batch) {
    dlr_state_write(f->exec, f->input_view, DL_F32, batch->input);
    dlr_state_write(f->exec, f->target_view, DL_F32, batch->target);
}
