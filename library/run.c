/* Calls that run the network. */
#include "library/model.h"

static bool check_arrays(const dlc_model *m, const char *call, int64_t samples,
                         const void *const *at, int n, dl_error *err) {
    if (!m) return dl_fail(err, DL_USAGE, "%s: the model is NULL", call);
    if (samples < 0) return dl_fail(err, DL_USAGE, "%s: %lld samples", call, (long long)samples);
    return at || n == 0 || dl_fail(err, DL_USAGE, "%s: the list of arrays is NULL", call);
}

/* An input or target of a call, before anything runs. */
static bool check_fed(const dlc_model *m, const char *call, const library_array *a, int64_t samples,
                      const void *at, dl_error *err) {
    return (at || dl_fail(err, DL_USAGE, "%s: the array of '%s' is NULL", call, a->name)) &&
           library_check_finite(m, a, at, samples, err);
}

/* ---- prediction ---- */

static bool check_predict(const dlc_model *m, int64_t samples, const void *const inputs[],
                          void *const outputs[], dl_error *err) {
    static const char call[] = "dlc_predict";
    if (!check_arrays(m, call, samples, inputs, m && samples ? m->n_inputs : 0, err) ||
        !check_arrays(m, call, samples, (const void *const *)outputs, samples ? m->n_outputs : 0,
                      err))
        return false;
    if (m->relates && samples % m->batch)
        return dl_fail(err, DL_USAGE,
                       "%s: %lld samples are no multiple of the batch, %lld, and the model relates "
                       "the samples of a batch",
                       call, (long long)samples, (long long)m->batch);
    for (int i = 0; i < m->n_outputs && samples; i++)
        if (!outputs[i])
            return dl_fail(err, DL_USAGE, "%s: the array of '%s' is NULL", call, m->output[i].name);
    for (int i = 0; i < m->n_inputs && samples; i++)
        if (m->input[i].predicts && !check_fed(m, call, &m->input[i], samples, inputs[i], err))
            return false;
    return true;
}

int dlc_predict(dlc_model *m, int64_t samples, const void *const inputs[], void *const outputs[],
                dlc_status *status) {
    LIBRARY_OWN_FLOATS;
    dl_error err = {0};
    bool ok = check_predict(m, samples, inputs, outputs, &err);
    for (int64_t first = 0; ok && first < samples; first += m->batch) {
        int64_t n = samples - first < m->batch ? samples - first : m->batch;
        for (int i = 0; i < m->n_inputs; i++)
            if (m->input[i].predicts) library_feed(m, &m->input[i], inputs[i], first, n);
        dlr_exec_run(m->exec, m->predict, NULL);
        ok = dlr_exec_check(m->exec, &err);
        for (int i = 0; ok && i < m->n_outputs; i++)
            library_fetch(m, &m->output[i], outputs[i], first, n);
    }
    return library_end(ok, &err, status);
}

/* ---- training ---- */

static bool check_train(const dlc_model *m, const char *call, int64_t samples,
                        const void *const arrays[], dl_error *err) {
    if (!check_arrays(m, call, samples, arrays, 1, err)) return false;
    if (m->train < 0)
        return dl_fail(err, DL_USAGE, "%s: open the model with dlc_options.train = 1", call);
    for (int i = 0; i < m->n_inputs; i++)
        if (!check_fed(m, call, &m->input[i], samples, arrays[i], err)) return false;
    for (int i = 0; i < m->n_targets; i++)
        if (!check_fed(m, call, &m->target[i], samples, arrays[m->n_inputs + i], err)) return false;
    return true;
}

static void feed_all(dlc_model *m, const void *const arrays[], int64_t first) {
    for (int i = 0; i < m->n_inputs; i++) library_feed(m, &m->input[i], arrays[i], first, m->batch);
    for (int i = 0; i < m->n_targets; i++)
        library_feed(m, &m->target[i], arrays[m->n_inputs + i], first, m->batch);
}

int dlc_train_step(dlc_model *m, int64_t samples, const void *const arrays[], double *loss,
                   dlc_status *status) {
    LIBRARY_OWN_FLOATS;
    dl_error err = {0};
    const int64_t all = m && m->train >= 0 ? m->batch * m->in_step : samples;
    bool ok = samples == all ||
              dl_fail(&err, DL_USAGE,
                      "dlc_train_step: %lld samples, and a step takes exactly %lld: open the model "
                      "with another dlc_options.batch",
                      (long long)samples, (long long)all);
    ok = ok && check_train(m, "dlc_train_step", samples, arrays, &err);
    if (ok) {
        for (int64_t i = 1; i < m->in_step; i++) {
            feed_all(m, arrays, (i - 1) * m->batch);
            dlr_exec_run(m->exec, m->accumulate, NULL);
        }
        feed_all(m, arrays, all - m->batch);
        dlr_exec_run(m->exec, m->train, NULL);
        if (loss) *loss = dlr_scalar(m->exec, m->loss);
        ok = dlr_exec_check(m->exec, &err);
        dlr_scaler_note(&m->scaler, m->exec);
        m->at.iteration++;
    }
    return library_end(ok, &err, status);
}

int dlc_evaluate(dlc_model *m, int64_t samples, const void *const arrays[], double *loss,
                 double metrics[], dlc_status *status) {
    LIBRARY_OWN_FLOATS;
    dl_error err = {0};
    double sum = 0;
    int64_t batches = 0;
    bool ok =
        !m || m->train < 0 || (samples > 0 && samples % m->batch == 0) ||
        dl_fail(&err, DL_USAGE, "dlc_evaluate: %lld samples are no multiple of the batch, %lld",
                (long long)samples, (long long)m->batch);
    ok = ok && check_train(m, "dlc_evaluate", samples, arrays, &err);
    for (int i = 0; ok && i < m->metrics.n; i++) m->metrics.at[i].sum = 0;
    for (int64_t first = 0; ok && first < samples; first += m->batch, batches++) {
        feed_all(m, arrays, first);
        dlr_exec_run(m->exec, m->eval, NULL);
        sum += dlr_scalar(m->exec, m->valid_loss);
        for (int i = 0; i < m->metrics.n; i++)
            m->metrics.at[i].sum += dlr_scalar(m->exec, m->metrics.at[i].view);
        ok = dlr_exec_check(m->exec, &err);
    }
    if (ok && loss) *loss = sum / (double)batches;
    for (int i = 0; ok && metrics && i < m->metrics.n; i++)
        metrics[i] = m->metrics.at[i].sum / (double)batches;
    return library_end(ok, &err, status);
}
