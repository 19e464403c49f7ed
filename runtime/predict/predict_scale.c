/* The normalisation of the run's loader: done to inputs of predictions, undone to
 * what comes of it. */
#include "runtime/data/array_dataset.h"
#include "runtime/data/statistics.h"
#include "runtime/predict/predict_job.h"
#include "runtime/setup/dataset_options.h"

static bool is_loader(const dl_config *c, const char *name) {
    return strcmp(dl_samples_loader(c), name) == 0;
}

static void add_scale(dl_predict_job *job, const char *input, dl_predict_scale scale) {
    job->scales[job->n_scales].name = dl_strdup(job->arena, input);
    job->scales[job->n_scales++].scale = scale;
}

static bool weather_scales(dl_predict_job *job, const char *input, int64_t channels,
                           dl_error *err) {
    const dl_config *c = job->config;
    float *mean = DL_NEWS(job->arena, float, channels),
          *deviation = DL_NEWS(job->arena, float, channels);
    job->out = (dl_predict_scale){mean, deviation, channels};
    add_scale(job, input, job->out);
    job->crops = true, job->dt = dl_config_int(c, DL_KEY_dt);
    return dlr_statistics_read(dl_config_str(c, DL_KEY_global_means_path), "global_means_path",
                               channels, false, mean, err) &&
           dlr_statistics_read(dl_config_str(c, DL_KEY_global_stds_path), "global_stds_path",
                               channels, true, deviation, err);
}

/* ---- data of one's own ---- */

/* Arrays are read in the model's order of axes: one that the section reads otherwise is refused. Of
 * values that training takes as they are another file can be given as they are; normalised ones
 * would be other numbers. */
static bool check_order(const dlr_array_dataset_source *from, const dlr_array *a, bool scaled,
                        dl_error *err) {
    bool same = !from->channels;
    int at = 0;
    for (int i = 0; same && i < from->axes.n; i++) {
        const char *axis = from->axes.at[i];
        if (strcmp(axis, "N") == 0) continue;
        same = at < a->type.rank && strcmp(axis, a->type.axis[at++].name) == 0;
    }
    return same ||
           dl_fail(
               err, DL_INPUT,
               "%s: predict takes arrays in the model's order of axes and channels, %s: %s",
               from->key, dl_type_text(&a->type),
               scaled
                   ? "train from a file that has them so (normalised data can be predicted from in "
                     "no "
                     "other order)"
                   : "write such a file, and give --data_loader_config=synthetic (then values are "
                     "taken as they are, as in training)");
}

static dl_predict_scale scale_of(dl_predict_job *job, const dlr_array_dataset_facts *f,
                                 int64_t channels) {
    if (!f->n) return (dl_predict_scale){0};
    float *mean = DL_NEWS(job->arena, float, channels),
          *deviation = DL_NEWS(job->arena, float, channels);
    for (int64_t c = 0; c < channels; c++) {
        mean[c] = f->mean[f->n > 1 ? c : 0];
        deviation[c] = f->deviation[f->n > 1 ? c : 0];
    }
    return (dl_predict_scale){mean, deviation, channels};
}

static int64_t channels_of(const dlr_array *a) { return a->type.rank ? a->type.axis[0].size : 1; }

/* The statistics are of the training data, computed or kept next to them. A target one step after
 * the input in the same array is the next state. */
static bool own_scales(dl_predict_job *job, dl_error *err) {
    /* No sample is asked for, so that no more than one need be there. */
    if (!dl_config_set(job->config, DL_KEY_Nsamples, "1", err)) return false;
    dlr_dataset *d = dl_samples_open(job->arena, job->session, DLR_TRAIN, DLR_OPEN_FOR_USE, err);
    if (!d) return false;
    const dlr_arrays *arrays = dlr_dataset_arrays(d);
    job->unpacks = true;
    int input = 0, targets = 0;
    bool ok = true, scaled = false; /* any target */
    for (int k = 0; ok && k < arrays->n; k++) {
        const dlr_array *a = &arrays->at[k];
        dlr_array_dataset_facts f = dlr_array_dataset_facts_of(d, k);
        if (a->is_target && dl_dtype_is_float(a->type.dtype)) {
            int64_t later = f.from->offset - dlr_array_dataset_facts_of(d, input).from->offset;
            job->out = scale_of(job, &f, channels_of(a));
            job->dt = later > 0 ? later : 0;
            targets++, scaled |= f.n > 0;
        } else if (!a->is_target) {
            ok = check_order(f.from, a, f.n > 0, err);
            add_scale(job, a->name, scale_of(job, &f, channels_of(a)));
        }
    }
    dlr_dataset_close(d);
    if (ok && scaled && targets > 1)
        ok = dl_fail(err, DL_INPUT,
                     "the model has %d targets, of which some are normalised, and nothing says by "
                     "whose statistics "
                     "its outputs are to be undone: train without `normalize` in data.targets, so "
                     "that outputs "
                     "are in the targets' units",
                     targets);
    return ok;
}

bool dl_predict_scales(dl_predict_job *job, dl_error *err) {
    const dl_config *c = job->config;
    if (is_loader(c, "cifar10") || is_loader(c, "image_folder"))
        return dl_fail(err, DL_INPUT,
                       "data_loader_config %s: predict does not read pictures; give arrays as the "
                       "model takes them "
                       "with --data_loader_config=synthetic",
                       dl_config_str(c, DL_KEY_data_loader_config));
    if (is_loader(c, "own")) return own_scales(job, err);
    job->dt = job->rolls ? dl_config_int(c, DL_KEY_dt) : 0;
    const dl_graph *g = job->session->module->graphs.at[0];
    for (int i = 0; i < g->vars.n; i++)
        if (g->vars.at[i]->role == DL_VAR_INPUT && g->vars.at[i]->value.type.rank > 1 &&
            (is_loader(c, "pytorch") || is_loader(c, "dali")))
            return weather_scales(job, g->vars.at[i]->name, g->vars.at[i]->value.type.axis[1].size,
                                  err);
    return true;
}
