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
    job->batch_fixed = true;
    if (dl_session_treats_alone(s, job->batch)) return true;
    return dl_fail(err, DL_INPUT,
                   "%s fixes its batch, N=%lld, and relates the samples of a batch: a prediction "
                   "is of each sample by itself; write N without a size",
                   job->net.model_path, (long long)job->batch);
}

static const char related[] =
    "the loss or a metric relates the samples of a batch otherwise than by "
    "sums, means and extrema";

/* The most samples of a file that are predicted. */
static int64_t most_samples(const dl_predict_job *job) {
    int64_t most = 0;
    for (int i = 0; i < job->n; i++) {
        int64_t n = dl_predict_count(job, i);
        if (n > most) most = n;
    }
    return most;
}

/* The batch of the plan's programs of which at least half is filled by `most` samples. */
static int64_t given_batch(const dl_predict_job *job, bool measures, int64_t most,
                           const char **why) {
    const dl_plan *q = dl_plan_prediction(job->given, job->batch);
    while (q && q->batch / 2 >= most && q->batch > 1)
        q = dl_plan_prediction(job->given, q->batch - 1);
    if (!q || q->batch == 1 || !measures || dl_plan_program_find(q, "eval"))
        return q ? q->batch : 1;
    *why = related;
    return 1;
}

int64_t dl_predict_batch(const dl_predict_job *job, const char **why) {
    *why = NULL;
    if (job->batch_fixed) return job->batch;
    const bool measures = job->measured && !job->rolls;
    int64_t batch = job->batch, most = most_samples(job);
    if (job->given) return given_batch(job, measures, most, why);
    while (batch > 1 && batch > most) batch /= 2;
    if (batch <= 1) return 1;
    if (!dl_session_treats_alone(job->net.session, batch))
        *why = "the model relates the samples of a batch, or has an output without them";
    else if (measures && !dl_session_measures_alone(job->net.session, batch))
        *why = related;
    return *why ? 1 : batch;
}
