/* How many samples there are, and of which extent. */
#include "runtime/predict/predict_job.h"

dlr_extent dl_predict_whole_input(const dl_predict_job *job, int input) {
    dlr_extent e = job->engine.input[input].tile;
    for (int k = 0; k < DLR_SPACE && !job->engine.input[input].whole; k++) {
        const dlr_tiles *t = &job->engine.tiles[k];
        e.size[k] = t->pieces.at[t->pieces.n - 1].start + e.size[k];
    }
    return e;
}

int64_t dl_predict_samples(const dl_predict_job *job, int file, bool *in_order) {
    int64_t n = 1;
    *in_order = false;
    for (int i = 0; i < job->n_inputs; i++) {
        const dlr_field *f = &job->input[i].data[file];
        if (!f->in_order) continue;
        if (!*in_order || f->samples < n) n = f->samples;
        *in_order = true;
    }
    return n;
}

int64_t dl_predict_count(const dl_predict_job *job, int file) {
    bool in_order;
    int64_t n = dl_predict_samples(job, file, &in_order), last = job->last < n ? job->last : n;
    return last > job->first ? last - job->first : 0;
}
