/* The arrays that a network takes and gives. */
#include <string.h>

#include "library/model.h"

static const dlc_dtype dtypes[DL_NDTYPES] = {
    [DL_F32] = DLC_F32, [DL_F64] = DLC_F64, [DL_F16] = DLC_F16,  [DL_BF16] = DLC_BF16,
    [DL_I32] = DLC_I32, [DL_I64] = DLC_I64, [DL_BOOL] = DLC_BOOL};

static const library_array *arrays_of(const dlc_model *m, dlc_role role, int *n) {
    *n = role == DLC_INPUT    ? m->n_inputs
         : role == DLC_TARGET ? m->n_targets
         : role == DLC_OUTPUT ? m->n_outputs
                              : 0;
    return role == DLC_INPUT ? m->input : role == DLC_TARGET ? m->target : m->output;
}

int dlc_count(const dlc_model *m, dlc_role role) {
    int n;
    if (!m) return 0;
    arrays_of(m, role, &n);
    return role == DLC_METRIC ? m->metrics.n : role == DLC_PARAMETER ? m->tensors.n : n;
}

static void put_type(dlc_tensor *out, const char *name, const dl_type *t) {
    *out = (dlc_tensor){.name = name, .dtype = dtypes[t->dtype], .rank = t->rank};
    for (int k = 0; k < t->rank; k++)
        out->shape[k] = t->axis[k].size, out->axis[k] = t->axis[k].name;
}

int dlc_describe(const dlc_model *m, dlc_role role, int index, dlc_tensor *out) {
    int n;
    if (!m || !out || index < 0 || index >= dlc_count(m, role)) return 0;
    const library_array *all = arrays_of(m, role, &n);
    if (role == DLC_METRIC) {
        *out = (dlc_tensor){.name = m->metrics.at[index].name, .dtype = DLC_F64};
    } else if (role == DLC_PARAMETER) {
        const dlr_st_tensor *t = &m->tensors.list[index];
        put_type(out, t->name, m->tensors.views[index].type);
    } else {
        put_type(out, all[index].name, &all[index].type);
        out->shape[0] = m->batch; /* of a plan, or of related samples, not the configuration's */
    }
    return 1;
}

int64_t dlc_memory(const dlc_model *m) {
    return m ? dl_plan_peak(m->plan, dlr_pool_threads(dlr_exec_pool(m->exec))) : 0;
}
