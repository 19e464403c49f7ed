/* Trajectories: an array's times as copies of its variables, and the simulations as groups. */
#include "runtime/data/array_dataset_private.h"

static int find_steps(const dataset_array *a) {
    for (int m = 0; m < a->to.type.rank; m++)
        if (strcmp(a->to.type.axis[m].name, "T") == 0) return m;
    return -1;
}

bool dataset_spread_times(array_dataset *w, dataset_array *a, dl_error *err) {
    const dlr_array_dataset_trajectory *t = &w->o->trajectory;
    const bool target = a->to.is_target;
    a->steps = t->given ? find_steps(a) : -1;
    a->history = t->given && !target && a->steps < 0 ? t->history : 1;
    if (!t->given) return true;
    if (target) a->from.offset += t->lead * t->stride;
    if (a->steps < 0) return true;
    int64_t size = a->to.type.axis[a->steps].size;
    if (!target && size != t->history)
        return dl_fail(err, DL_INPUT,
                       "data.trajectory.history is %lld, and the model's '%s' is %s: T is the "
                       "history",
                       (long long)t->history, a->to.name, dl_type_text(&a->to.type));
    dataset_copy_variables(w, a, size);
    return true;
}

void dataset_copy_variables(array_dataset *w, dataset_array *a, int64_t times) {
    const int own = a->variables.n;
    const int64_t stride = w->o->trajectory.stride;
    for (int64_t step = 0; step < times; step++)
        for (int i = 0; i < own; i++) {
            dataset_variable copy = a->variables.at[i];
            copy.like = i, copy.step = a->steps < 0 ? 0 : step;
            copy.delay = (a->to.is_target ? step : step - (times - 1)) * stride;
            if (step == 0)
                a->variables.at[i].delay = copy.delay;
            else
                dl_push(w->arena, &a->variables, copy);
        }
}

bool dataset_number_simulations(array_dataset *w, int64_t total, dl_error *err) {
    const dataset_variable *v = NULL;
    for (int k = 0; k < w->n && !v; k++)
        for (int i = 0; i < w->at[k].variables.n && !v; i++)
            if (w->at[k].variables.at[i].has_samples) v = &w->at[k].variables.at[i];
    if (!v) return dl_fail(err, DL_INPUT, "data.trajectory: no array has an axis of times");
    if (total > INT32_MAX)
        return dl_fail(err, DL_INPUT, "data.trajectory: %lld times: at most %d", (long long)total,
                       INT32_MAX);
    w->group = DL_NEWS(w->arena, int32_t, total);
    for (int i = 0; i < v->files.n; i++) {
        const dataset_file *f = &v->files.at[i];
        for (int64_t at = 0; at < f->n; at++)
            w->group[f->first + at] = (int32_t)(w->n_groups + at / f->times);
        w->n_groups += f->n / f->times;
    }
    return true;
}
