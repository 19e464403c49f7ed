/* Inputs, targets and outputs: between the caller's numbers and the plan's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "library/model.h"
#include "runtime/base/convert.h"
#include "runtime/exec/state.h"

/* ---- which there are ---- */

static bool take_record(const dlc_model *m, library_array *a, const dl_array_record *r,
                        dl_error *err) {
    if (m->raw || !r || !dl_dtype_is_float(a->type.dtype)) return true;
    int axis = dl_type_channel_axis(&a->type);
    a->replaces_nan = r->replaces_nan, a->nan = r->nan;
    if (!r->n_scales) return true;
    if (a->type.dtype != DL_F32 && a->type.dtype != DL_F64)
        return dl_fail(err, DL_INPUT,
                       "'%s' is %s, and normalised: the library normalises f32 and f64; open it "
                       "with raw = 1",
                       a->name, dl_type_text(&a->type));
    if (!dl_record_fits(r, &a->type, "its type", err)) return false;
    a->mean = r->mean, a->deviation = r->deviation, a->n = r->n_scales, a->inner = 1;
    for (int k = axis + 1; k < a->type.rank; k++) a->inner *= a->type.axis[k].size;
    return true;
}

/* `whole`: it may be one for the batch, without samples, and is that of a sample where the batch is
 * one sample. */
static bool describe(const dlc_model *m, library_array *a, const char *name, const dl_type *type,
                     bool whole, dl_error *err) {
    *a = (library_array){.name = dl_strdup(m->arena, name)};
    if (!dl_type_has_samples(type)) {
        if (!whole || m->batch > 1)
            return dl_fail(err, DL_INPUT,
                           "'%s' is %s: the library takes and gives arrays whose first axis is the "
                           "samples, N%s",
                           name, dl_type_text(type),
                           whole ? "; outputs without it are of a batch of one sample" : "");
        if (type->rank == DL_MAX_RANK)
            return dl_fail(err, DL_INPUT, "'%s' is %s: with the samples it has more than %d axes",
                           name, dl_type_text(type), DL_MAX_RANK);
    }
    a->type = dl_type_of_samples(type);
    a->per_sample = dl_type_count(&a->type) / a->type.axis[0].size;
    return true;
}

static bool fail_many(const char *what, dl_error *err) {
    return dl_fail(err, DL_INPUT, "the model has more than %d %s", DLC_MAX_ARRAYS, what);
}

static bool find_fed(dlc_model *m, const dl_graph *g, dl_var_role role, library_array *all, int *n,
                     dl_error *err) {
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *v = g->vars.at[i];
        if (v->role != role) continue;
        if (*n == DLC_MAX_ARRAYS) return fail_many("inputs or targets", err);
        library_array *a = &all[(*n)++];
        if (!describe(m, a, v->name, &v->value.type, false, err) ||
            !take_record(m, a, dl_data_record_find(&m->net.data, a->name), err))
            return false;
    }
    return true;
}

static int count_outputs(const dl_graph *g) {
    int n = 0;
    for (int i = 0; i < g->results.n; i++) n += g->results.at[i].role == DL_RESULT_OUTPUT;
    return n;
}

static bool find_outputs(dlc_model *m, const dl_graph *g, dl_error *err) {
    dl_record_output outputs[DLC_MAX_ARRAYS];
    const dl_array_record *targets[DLC_MAX_ARRAYS];
    if (count_outputs(g) > DLC_MAX_ARRAYS) return fail_many("outputs", err);
    for (int i = 0; i < g->results.n; i++) {
        const dl_result *r = &g->results.at[i];
        if (r->role != DL_RESULT_OUTPUT) continue;
        int k = m->n_outputs++;
        outputs[k] = dl_record_output_of(r);
        if (!describe(m, &m->output[k], r->name, &r->value->type, true, err)) return false;
    }
    if (!m->raw && !dl_data_record_pair(&m->net.data, m->n_outputs, outputs, targets, err))
        return false;
    for (int k = 0; k < m->n_outputs && !m->raw; k++)
        if (!take_record(m, &m->output[k], targets[k], err)) return false;
    return true;
}

bool library_find_arrays(dlc_model *m, dl_error *err) {
    const dl_graph *g = dl_module_graph(m->session->module, "eval");
    if (!g) g = m->session->module->graphs.at[0];
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].role == DL_RESULT_METRIC)
            dl_push(m->arena, &m->metrics,
                    (library_metric){.name = dl_strdup(m->arena, g->results.at[i].name)});
    return find_fed(m, g, DL_VAR_INPUT, m->input, &m->n_inputs, err) &&
           find_fed(m, g, DL_VAR_TARGET, m->target, &m->n_targets, err) && find_outputs(m, g, err);
}

/* ---- where they are ---- */

static bool place(dlc_model *m, library_array *a, dl_error *err) {
    a->view = dlr_exec_variable(m->exec, a->name);
    if (!a->view.type || (!a->n && !a->replaces_nan)) return true;
    a->room = malloc((size_t)(a->per_sample * m->batch + 1) * dl_dtype_bytes(a->type.dtype));
    return a->room || dl_fail(err, DL_RESOURCE, "no memory for a batch of '%s'", a->name);
}

static bool reads(const dl_plan *p, int program, int64_t offset) {
    const dl_plan_program *g = &p->programs.at[program];
    for (int i = 0; i < g->launches.n; i++)
        for (int k = 0; k < g->launches.at[i].nargs; k++)
            if (g->launches.at[i].args[k] == offset) return true;
    return false;
}

bool library_place_arrays(dlc_model *m, dl_error *err) {
    for (int i = 0; i < m->n_inputs; i++) {
        if (!place(m, &m->input[i], err)) return false;
        m->input[i].predicts =
            m->input[i].view.type && reads(m->plan, m->predict, m->input[i].view.offset);
    }
    for (int i = 0; i < m->n_targets; i++)
        if (!place(m, &m->target[i], err)) return false;
    for (int i = 0; i < m->n_outputs; i++)
        m->output[i].view =
            dlr_exec_result(m->exec, m->predict, DL_RESULT_OUTPUT, m->output[i].name);
    for (int i = 0; m->eval >= 0 && i < m->metrics.n; i++)
        m->metrics.at[i].view =
            dlr_exec_result(m->exec, m->eval, DL_RESULT_METRIC, m->metrics.at[i].name);
    return true;
}

/* ---- their numbers ---- */

/* The number of element i, in the array's own type. */
#define NORMALISE(T)                                                                               \
    for (int64_t i = 0; i < n; i++) {                                                              \
        int64_t c = a->n > 1 ? (first + i) / a->inner % a->n : 0;                                  \
        T v = ((const T *)from)[i];                                                                \
        if (a->replaces_nan && !isfinite(v))                                                       \
            ((T *)to)[i] = (T)a->nan;                                                              \
        else                                                                                       \
            ((T *)to)[i] = a->n ? (v - (T)a->mean[c]) / (T)a->deviation[c] : v;                    \
    }
static void normalise(const library_array *a, int64_t first, const void *from, int64_t n,
                      void *to) {
    if (a->type.dtype == DL_F64)
        NORMALISE(double)
    else
        NORMALISE(float)
}

#define UNDO(T)                                                                                    \
    for (int64_t i = 0; i < n; i++) {                                                              \
        int64_t c = a->n > 1 ? i / a->inner % a->n : 0;                                            \
        ((T *)at)[i] = ((T *)at)[i] * (T)a->deviation[c] + (T)a->mean[c];                          \
    }

/* The first of n elements that is not finite, or -1. */
static int64_t find_not_finite(dl_dtype dtype, const void *at, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        bool ok = dtype == DL_F32   ? isfinite(((const float *)at)[i])
                  : dtype == DL_F64 ? isfinite(((const double *)at)[i])
                                    : true;
        if (!ok) return i;
    }
    return -1;
}

bool library_check_finite(const dlc_model *m, const library_array *a, const void *from, int64_t n,
                          dl_error *err) {
    bool looks = m->refuses_nan && a->view.type && !a->replaces_nan;
    int64_t bad = looks ? find_not_finite(a->type.dtype, from, n * a->per_sample) : -1;
    return bad < 0 ||
           dl_fail(err, DL_NUMERIC, "'%s': element %lld of sample %lld is not finite", a->name,
                   (long long)(bad % a->per_sample), (long long)(bad / a->per_sample));
}

void library_feed(dlc_model *m, library_array *a, const void *from, int64_t first, int64_t n) {
    size_t size = dl_dtype_bytes(a->type.dtype);
    int64_t elements = n * a->per_sample, all = m->batch * a->per_sample;
    if (!a->view.type) return; /* no program reads it */
    from = (const char *)from + (size_t)(first * a->per_sample) * size;
    if (a->room) normalise(a, 0, from, elements, a->room), from = a->room;
    dlr_state_write_range(m->exec, a->view, (dlr_range){0, elements}, a->type.dtype, from);
    static const char zeros[4096];
    int64_t piece = (int64_t)(sizeof zeros / size);
    for (int64_t i = elements; i < all; i += piece)
        dlr_state_write_range(m->exec, a->view, (dlr_range){i, all - i < piece ? all - i : piece},
                              a->type.dtype, zeros);
}

void library_fetch(dlc_model *m, const library_array *a, void *to, int64_t first, int64_t n) {
    size_t size = dl_dtype_bytes(a->type.dtype);
    void *at = (char *)to + (size_t)(first * a->per_sample) * size;
    n *= a->per_sample;
    dlr_state_read_range(m->exec, a->view, (dlr_range){0, n}, a->type.dtype, at);
    if (!a->n) return;
    if (a->type.dtype == DL_F64)
        UNDO(double)
    else
        UNDO(float)
}
