/* How many samples the program takes at once. */
#include "runtime/predict/predict_job.h"

/* The batch of the session's inputs, which a model may fix. */
static int64_t batch_of(const dl_session *s) {
    const dl_graph *g = s->module->graphs.at[0];
    for (int i = 0; i < g->vars.n; i++) {
        const dl_type *t = &g->vars.at[i]->value.type;
        int at = g->vars.at[i]->role == DL_VAR_INPUT ? dl_type_axis(t, dl_intern("N")) : -1;
        if (at >= 0) return t->axis[at].size;
    }
    return 1;
}

bool dl_predict_open_batch(dl_predict_job *job, dl_error *err) {
    dl_session *s = job->net.session;
    job->batch = s->batch, s->batch = 1;
    dl_error alone = {0};
    if (dl_session_predict(s, 0, NULL, &alone) && batch_of(s) == 1) return true;
    s->batch = job->batch;
    if (alone.code && !dl_session_predict(s, 0, NULL, &(dl_error){0}))
        return dl_fail(err, alone.code, "%s", alone.message);
    if (job->given)
        return dl_fail(
            err, DL_INPUT,
            "%s fixes its batch, N=%lld, and a plan's file predicts one sample at a time",
            job->net.model_path, (long long)job->batch);
    job->batch_fixed = true;
    if (dl_session_treats_alone(s, job->batch)) return true;
    return dl_fail(err, DL_INPUT,
                   "%s fixes its batch, N=%lld, and relates the samples of a batch: a prediction "
                   "is of each sample by itself; write N without a size",
                   job->net.model_path, (long long)job->batch);
}

/* The most samples of a file that are predicted. */
static int64_t most_samples(const dl_predict_job *job) {
    int64_t most = 0;
    for (int i = 0; i < job->n; i++) {
        int64_t n = dl_predict_count(job, i);
        if (n > most) most = n;
    }
    return most;
}

int64_t dl_predict_batch(const dl_predict_job *job, const char **why) {
    *why = NULL;
    if (job->batch_fixed) return job->batch;
    int64_t batch = job->batch, most = most_samples(job);
    while (batch > 1 && batch > most) batch /= 2;
    if (batch <= 1 || job->given) return 1;
    if (job->measured && !job->rolls)
        *why = "each sample is measured";
    else if (!dl_session_treats_alone(job->net.session, batch))
        *why = "the model relates the samples of a batch, or has an output without them";
    return *why ? 1 : batch;
}
