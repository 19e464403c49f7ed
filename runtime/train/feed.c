#include "runtime/train/feed.h"

#include "runtime/exec/state.h"

static const dl_var_role roles[] = {DL_VAR_INPUT, DL_VAR_TARGET};

bool dlr_feed_arrays(const dlr_exec *exec, dlr_arrays *arrays, dl_error *err) {
    const dl_plan *p = dlr_exec_plan(exec);
    arrays->n = 0;
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < p->vars.n; i++) {
            const dl_plan_var *v = &p->vars.at[i];
            if (v->role == roles[r] && !dlr_arrays_add(arrays, v->name, r == 1, &v->type, err))
                return false;
        }
    return true;
}

static const dl_plan_var *find(const dl_plan *p, const char *name, bool is_target) {
    for (int i = 0; i < p->vars.n; i++)
        if (p->vars.at[i].role == roles[is_target] && strcmp(p->vars.at[i].name, name) == 0)
            return &p->vars.at[i];
    return NULL;
}

bool dlr_feed_open(dlr_feed *f, dlr_exec *exec, const dlr_arrays *arrays, dl_error *err) {
    dlr_arrays takes = {0};
    *f = (dlr_feed){.exec = exec};
    if (!dlr_feed_arrays(exec, &takes, err)) return false;
    if (takes.n != arrays->n)
        return dl_fail(err, DL_INPUT, "the plan takes %d inputs and targets, the data set gives %d",
                       takes.n, arrays->n);
    for (; f->n < arrays->n; f->n++) {
        const dlr_array *a = &arrays->at[f->n];
        const dl_plan_var *v = find(dlr_exec_plan(exec), a->name, a->is_target);
        dlr_arrays wants = {0};
        if (v && !dlr_arrays_add(&wants, v->name, a->is_target, &v->type, err)) return false;
        if (!v || !dl_type_same(&wants.at[0].type, &a->type))
            return dl_fail(err, DL_INPUT, "samples of '%s' are %s, but the plan takes %s", a->name,
                           dl_type_text(&a->type),
                           v ? dl_type_text(&wants.at[0].type) : "no such array");
        f->var[f->n] = v, f->view[f->n] = dlr_exec_variable(exec, v->name);
    }
    return true;
}

void dlr_feed_batch(const dlr_feed *f, const dlr_batch *batch) {
    for (int i = 0; i < f->n; i++)
        if (batch->raw)
            dlr_feed_numbers(f, i, batch);
        else
            dlr_state_write(f->exec, f->view[i], batch->arrays->at[i].type.dtype, batch->data[i]);
}

int dlr_feed_first(const dlr_feed *f, dl_var_role role) {
    for (int i = 0; i < f->n; i++)
        if (f->var[i]->role == role) return i;
    return -1;
}
