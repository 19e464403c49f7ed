#include "runtime/train/feed.h"

#include "runtime/exec/state.h"

static const dl_var_role roles[] = {DL_VAR_INPUT, DL_VAR_TARGET};

/* One array of a plan; `exactly`: dlr_feed_arrays_exactly. */
static bool add_array(dlr_arrays *arrays, const dl_plan_var *v, bool exactly, dl_error *err) {
    const dl_type *t = &v->type;
    bool is_target = v->role == DL_VAR_TARGET, per_batch = exactly && !dl_type_has_samples(t);
    if (per_batch && t->rank == DL_MAX_RANK)
        return dl_fail(err, DL_INPUT, "'%s' is %s: with the samples it has more than %d axes",
                       v->name, dl_type_text(t), DL_MAX_RANK);
    dl_type batch = per_batch ? dl_type_of_samples(t) : *t;
    if (!dlr_arrays_add(arrays, v->name, is_target, &batch, err)) return false;
    dlr_array *a = &arrays->at[arrays->n - 1];
    a->per_batch = per_batch;
    if (exactly && t->dtype == DL_F64) a->type.dtype = DL_F64;
    return true;
}

static bool add_arrays(const dlr_exec *exec, dlr_arrays *arrays, bool exactly, dl_error *err) {
    const dl_plan *p = dlr_exec_plan(exec);
    arrays->n = 0;
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < p->vars.n; i++)
            if (p->vars.at[i].role == roles[r] && !add_array(arrays, &p->vars.at[i], exactly, err))
                return false;
    return true;
}

bool dlr_feed_arrays(const dlr_exec *exec, dlr_arrays *arrays, dl_error *err) {
    return add_arrays(exec, arrays, false, err);
}

bool dlr_feed_arrays_exactly(const dlr_exec *exec, dlr_arrays *arrays, dl_error *err) {
    return add_arrays(exec, arrays, true, err);
}

static const dl_plan_var *find(const dl_plan *p, const char *name, bool is_target) {
    for (int i = 0; i < p->vars.n; i++)
        if (p->vars.at[i].role == roles[is_target] && strcmp(p->vars.at[i].name, name) == 0)
            return &p->vars.at[i];
    return NULL;
}

static int count_fed(const dl_plan *p) {
    int n = 0;
    for (int i = 0; i < p->vars.n; i++) n += dl_plan_is_fed(&p->vars.at[i]);
    return n;
}

bool dlr_feed_open(dlr_feed *f, dlr_exec *exec, const dlr_arrays *arrays, dl_error *err) {
    *f = (dlr_feed){.exec = exec};
    int takes = count_fed(dlr_exec_plan(exec));
    if (takes != arrays->n)
        return dl_fail(err, DL_INPUT, "the plan takes %d inputs and targets, the data set gives %d",
                       takes, arrays->n);
    for (; f->n < arrays->n; f->n++) {
        const dlr_array *a = &arrays->at[f->n];
        const dl_plan_var *v = find(dlr_exec_plan(exec), a->name, a->is_target);
        dlr_arrays wants = {0};
        bool exactly = a->per_batch || a->type.dtype == DL_F64;
        if (v && !add_array(&wants, v, exactly, err)) return false;
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
