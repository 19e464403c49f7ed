/* The data of the run, as its record has them: what is done to inputs, and undone to outputs. */
#include "runtime/predict/predict_job.h"
#include "runtime/setup/dataset_options.h"

static bool is_loader(const dl_data_record *r, const char *name) {
    return strcmp(r->loader, name) == 0;
}

bool dl_predict_scales(dl_predict_job *job, dl_error *err) {
    const dl_data_record *r = &job->net.data;
    job->pictures = is_loader(r, "cifar10") || is_loader(r, "image_folder");
    job->scaling = dl_samples_scaling(job->net.config);
    job->crops = is_loader(r, "pytorch") || is_loader(r, "dali");
    job->unpacks = is_loader(r, "own");
    /* of a loader that makes no targets of its inputs, only a rollout asks for it */
    bool knows = job->crops || job->unpacks;
    job->dt = knows ? r->dt : job->rolls ? dl_config_int(job->net.config, DL_KEY_dt) : 0;
    job->earliest = INT64_MAX;
    for (int i = 0; i < r->n; i++)
        if (!r->at[i].is_target && r->at[i].offset < job->earliest) job->earliest = r->at[i].offset;
    for (int i = 0; i < job->n_inputs; i++) {
        dl_predict_input_data *in = &job->input[i];
        in->record = dl_data_record_find(r, in->name);
        const char *what = dl_format(job->arena, "the model's input '%s'", in->name);
        if (!dlr_scale_of(job->arena, in->record, &in->type, in->whole ? 0 : job->space, what,
                          &in->scale, err))
            return false;
    }
    return true;
}

bool dl_predict_pair(dl_predict_job *job, dl_error *err) {
    const dl_graph *g = job->net.session->module->graphs.at[0];
    dl_record_output outputs[DLR_MAX_OUTPUTS];
    bool scaled = dl_data_record_scales_targets(&job->net.data);
    if (g->results.n > DLR_MAX_OUTPUTS)
        return dl_fail(err, DL_INPUT, "%s has more than %d outputs", job->net.model_path,
                       DLR_MAX_OUTPUTS);
    for (int i = 0; i < g->results.n; i++) {
        outputs[i] = dl_record_output_of(&g->results.at[i]);
        if (!dl_type_has_samples(outputs[i].type) && outputs[i].type->rank == DL_MAX_RANK)
            return dl_fail(err, DL_INPUT,
                           "the output '%s' is %s: with the samples it has more than %d axes",
                           outputs[i].name, dl_type_text(outputs[i].type), DL_MAX_RANK);
    }
    if (!dl_data_record_pair(&job->net.data, g->results.n, outputs, job->paired, err)) return false;
    for (int i = 0; i < g->results.n; i++)
        if (scaled && !job->paired[i] && !outputs[i].undo &&
            dl_dtype_is_float(outputs[i].type->dtype))
            dl_console_warning(
                job->console,
                dl_format(job->arena,
                          "the output '%s' has the name and the shape of no target: its numbers "
                          "are the network's own, and no statistics are undone",
                          outputs[i].name));
    return true;
}

bool dl_predict_undo(dl_predict_job *job, dl_error *err) {
    const dlr_predict *e = &job->engine;
    for (int i = 0; i < e->n_outputs; i++) {
        const dlr_predict_output *o = &e->output[i];
        const char *what = dl_format(job->arena, "the output '%s'", o->name);
        if (dl_dtype_is_float(o->type.dtype) &&
            !dlr_scale_of(job->arena, job->paired[i], &o->type, o->space, what, &job->out[i], err))
            return false;
    }
    return true;
}
