/* How a sample is predicted: at once, or in which pieces; and the plan for that. */
#include "compiler/origin.h"
#include "ir/base/foreign.h"
#include "runtime/predict/predict_job.h"
#include "runtime/setup/plan_choice.h"
#include "runtime/tune/tune.h"

const char *const dl_tiles_modes[DL_N_TILES] = {"auto", "whole", "exact", "blend", "crop"};

static const dl_graph *graph_of(const dl_predict_job *job) {
    return job->net.session->module->graphs.at[0];
}

static const dl_var *input_of(const dl_predict_job *job, const dl_graph *g, int input) {
    for (int i = 0; i < g->vars.n; i++)
        if (g->vars.at[i]->role == DL_VAR_INPUT &&
            !strcmp(g->vars.at[i]->name, job->input[input].name))
            return g->vars.at[i];
    return NULL;
}

/* Do the last `space` axes of an input have the leading one's names and sizes? False, with `none`:
 * it has none of these names. */
static bool follows(const dl_type *t, const dl_type *lead, int space, bool *none) {
    bool all = t->rank >= 2 + space;
    *none = true;
    for (int i = 0; i < space; i++) {
        const dl_axis *axis = &lead->axis[lead->rank - space + i];
        const dl_axis *own = all ? &t->axis[t->rank - space + i] : NULL;
        all = own && own->name == axis->name && own->size == axis->size;
        *none &= dl_type_axis(t, axis->name) < 0;
    }
    return all;
}

/* Whether an array's statistics differ along an axis that would be cut. */
static bool differs_along_space(const dl_array_record *r, const dl_type *t) {
    return r && r->n_scales > 1 && dl_type_channel_axis(t) > 1;
}

static bool output_differs(const dl_array_record *r, const dl_type *output) {
    const dl_type t = dl_type_of_samples(output);
    return differs_along_space(r, &t);
}

/* A model with its channels last takes and gives whole samples, whose axes are all channels. */
static bool is_flat(const dl_predict_job *job) {
    const dl_graph *g = graph_of(job);
    const dl_data_record *data = &job->net.data;
    bool flat = false;
    for (int i = 0; i < job->n_inputs; i++)
        flat |=
            differs_along_space(dl_data_record_find(data, job->input[i].name), &job->input[i].type);
    for (int i = 0; i < g->results.n; i++)
        flat |= output_differs(job->paired[i], &g->results.at[i].value->type);
    return flat;
}

bool dl_predict_input(dl_predict_job *job, dl_error *err) {
    const dl_graph *g = graph_of(job);
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *v = g->vars.at[i];
        if (v->role != DL_VAR_INPUT) continue;
        if (job->n_inputs == DLR_MAX_INPUTS)
            return dl_fail(err, DL_INPUT, "%s has more than %d inputs", job->net.model_path,
                           DLR_MAX_INPUTS);
        dl_predict_input_data in = {.name = dl_strdup(job->arena, v->name), .type = v->value.type};
        in.type.layout = (dl_layout){0};
        if (in.type.rank < 1 || in.type.rank - 2 > DLR_SPACE || dl_type_count(&in.type) <= 0)
            return dl_fail(err, DL_INPUT,
                           "%s: its input '%s' is %s; predict serves [N, channels] with up to "
                           "three more axes, "
                           "and [N]",
                           job->net.model_path, v->name, dl_type_text(&in.type));
        int at = job->n_inputs++; /* in front of it: the leading one */
        bool leads = at && in.type.rank > job->input[0].type.rank;
        job->input[at] = leads ? job->input[0] : in;
        if (leads) job->input[0] = in;
    }
    if (!job->n_inputs)
        return dl_fail(err, DL_INPUT, "%s: its outputs are made of no input", job->net.model_path);
    const dl_predict_input_data *lead = &job->input[0];
    job->flat = is_flat(job);
    job->space = lead->type.rank < 2 || job->flat ? 0 : lead->type.rank - 2;
    for (int i = 1; i < job->n_inputs; i++) {
        dl_predict_input_data *in = &job->input[i];
        bool none;
        if (follows(&in->type, &lead->type, job->space, &none)) continue;
        in->whole = true;
        if (!none) job->fixed = in;
    }
    return true;
}

/* Which of the engine's axes spatial axis i is, and which of a tensor's. */
static int engine_axis(const dl_predict_job *job, int i) { return DLR_SPACE - job->space + i; }

static dlr_extent extent_of(const dl_type *t, int space) {
    dlr_extent e = {1, {1, 1, 1}};
    for (int k = 1; k < t->rank - space; k++) e.channels *= t->axis[k].size;
    for (int k = 0; k < space; k++)
        e.size[DLR_SPACE - space + k] = t->axis[t->rank - space + k].size;
    return e;
}

static bool same_size(const dlr_extent *a, const dlr_extent *b) {
    return memcmp(a->size, b->size, sizeof a->size) == 0;
}

/* The type of a piece of an input of this type. */
static dlr_extent set_tile(dl_predict_job *job, int input, const dl_type *t) {
    dlr_predict_input *in = &job->engine.input[input];
    in->whole = job->input[input].whole;
    return in->tile = extent_of(t, in->whole ? 0 : job->space);
}

static bool compile(dl_predict_job *job, dl_error *err) {
    dl_compile_options opt;
    dl_tuning tuning;
    dl_session *s = job->net.session;
    /* A loss over a larger sample is another one than in training. */
    const bool wanted = job->measured && job->own_size && !job->rolls;
    if ((wanted || job->given) && !dl_session_add_evaluation(s, err)) return false;
    job->evaluates = wanted && dl_module_graph(s->module, "eval");
    if (!dl_session_options(s, job->device.target, &opt, err)) return false;
    if (job->given) {
        job->plan = dl_plan_prediction(job->given, s->batch);
        return dl_origin_check(job->given, job->plan_file, s, &opt, err);
    }
    if (!dl_tune(job->arena, job->net.session->config, job->device.device, &opt, &tuning, err))
        return false;
    job->plan = dl_session_plan(s, &opt, &job->plan_cached, err);
    return job->plan != NULL;
}

/* ---- whole ---- */

static bool fits_memory(const dl_predict_job *job, dl_error *err) {
    if (dl_target_is_gpu(job->plan->target)) return true; /* its own memory: seen when it opens */
    int threads = (int)dl_config_int(job->net.config, DL_KEY_threads);
    double peak = (double)dl_plan_peak(job->plan, threads ? threads : 1),
           free = (double)dl_memory_available();
    return free < 0 || peak < 0.9 * free ||
           dl_fail(err, DL_RESOURCE, "%.1f MiB of memory for it, and %.1f MiB are free",
                   peak / 0x1p20, free / 0x1p20);
}

/* The model at the sample's size, if it leaves the sizes of its axes open, keeps its parameters
 * there, and fits into memory. */
static bool try_whole(dl_predict_job *job, const dlr_extent *sample, dl_error *err) {
    dl_axis_size sizes[DLR_SPACE];
    if (job->given)
        return dl_fail(err, DL_INPUT, "%.200s has programs of the model's own size alone",
                       job->plan_file);
    for (int i = 0; i < job->space; i++)
        sizes[i] =
            (dl_axis_size){job->input[0].type.axis[2 + i].name, sample->size[engine_axis(job, i)]};
    if (!dl_session_predict(job->net.session, job->space, sizes, err)) return false;
    for (int i = 0; i < job->n_inputs; i++) {
        const dl_type *t = &input_of(job, graph_of(job), i)->value.type;
        dlr_extent now = set_tile(job, i, t);
        if (!job->input[i].whole && !same_size(&now, sample))
            return dl_fail(err, DL_INPUT, "the model states the size of its input itself (%s)",
                           dl_type_text(t));
    }
    job->way = "at once, by a plan of its size";
    for (int k = 0; k < DLR_SPACE; k++) {
        dlr_axis a = {.whole = sample->size[k],
                      .tile = sample->size[k],
                      .num = 1,
                      .den = 1,
                      .step = 1,
                      .exact = true};
        if (!dlr_tiles_make(job->arena, &a, &job->engine.tiles[k], err)) return false;
    }
    return compile(job, err) && fits_memory(job, err);
}

/* ---- pieces ---- */

static int64_t divisor(int64_t a, int64_t b) { return b ? divisor(b, a % b) : a; }

/* The axis of an output that lies where the input's spatial axis i does. */
static int axis_along(const dl_predict_job *job, const dl_type *output, int i) {
    int axis = output->rank - job->space + i;
    return axis >= 0 && output->axis[axis].name == job->input[0].type.axis[2 + i].name ? axis : -1;
}

/* Positions an output position along axis i, by sizes: alike for all outputs. */
static bool find_ratio(const dl_predict_job *job, int i, dlr_axis *a, dl_error *err) {
    const dl_graph *g = graph_of(job);
    for (int k = 0; k < g->results.n; k++) {
        const dl_type *t = &g->results.at[k].value->type;
        int axis = axis_along(job, t, i);
        if (axis < 0 || t->axis[axis].size < 1)
            return dl_fail(err, DL_INPUT,
                           "the output '%s' is %s: without the axis %s of the input, it cannot be "
                           "put together "
                           "of pieces; the data must have the model's size %s",
                           g->results.at[k].name, dl_type_text(t),
                           job->input[0].type.axis[2 + i].name, dl_type_text(&job->input[0].type));
        int64_t d = divisor(a->tile, t->axis[axis].size), num = a->tile / d,
                den = t->axis[axis].size / d;
        if (k && (num != a->num || den != a->den))
            return dl_fail(err, DL_INPUT,
                           "outputs of different sizes along %s cannot be put together of pieces",
                           job->input[0].type.axis[2 + i].name);
        a->num = num, a->den = den;
    }
    return true;
}

/* How far all outputs see along axis i; false: without bound, or not alike. */
static bool find_reach(const dl_predict_job *job, const dl_graph *seen, int i, dlr_axis *a,
                       dl_error *err) {
    a->exact = true, a->step = 1, a->lo = a->hi = 0;
    for (int k = 0; k < seen->results.n; k++) {
        const dl_value *y = seen->results.at[k].value;
        dl_reach r = dl_find_reach(seen, job->input[0].type.axis[2 + i].name, y);
        const char *axis = job->input[0].type.axis[2 + i].name;
        if (!r.bounded && r.why)
            return dl_fail(err, DL_INPUT,
                           "along %s there is no bound to what an output sees: %s:%d:%d %s", axis,
                           r.where.file ? r.where.file : "", r.where.line, r.where.column, r.why);
        if (!r.bounded || r.axis != axis_along(job, &y->type, i) || r.num != a->num ||
            r.den != a->den)
            return dl_fail(err, DL_INPUT, "'%s' does not go along %s of the input",
                           seen->results.at[k].name, axis);
        a->step *= r.step / divisor(a->step, r.step);
        if (r.lo < a->lo) a->lo = r.lo;
        if (r.hi > a->hi) a->hi = r.hi;
    }
    return true;
}

/* Along each axis; one piece where the sample is as long as the model's input. */
static bool make_tiles(dl_predict_job *job, const dlr_extent *sample, bool exact, dl_error *err) {
    const dl_graph *seen = exact ? dl_session_seen(job->net.session, err) : NULL;
    dlr_extent tile = extent_of(&job->input[0].type, job->space);
    for (int i = 0; i < job->n_inputs; i++) set_tile(job, i, &job->input[i].type);
    if (exact && !seen) return false;
    dl_buf b = {0};
    for (int k = 0; k < DLR_SPACE; k++) {
        int i = k - (DLR_SPACE - job->space);
        dlr_axis a = {.whole = sample->size[k],
                      .tile = tile.size[k],
                      .num = 1,
                      .den = 1,
                      .step = 1,
                      .exact = true};
        bool longer = a.whole > a.tile;
        if (i >= 0 && !same_size(sample, &tile) && !find_ratio(job, i, &a, err)) break;
        if (i >= 0 && longer && exact && !find_reach(job, seen, i, &a, err)) break;
        a.exact = exact || !longer;
        if (!dlr_tiles_make(job->arena, &a, &job->engine.tiles[k], err)) break;
        if (i >= 0 && longer && exact)
            dl_putf(&b, "%s %s sees %.0f positions", b.n ? "," : "; an output along",
                    job->input[0].type.axis[2 + i].name, a.hi - a.lo + 1);
    }
    bool ok = err->code == DL_OK;
    const dlr_tiles *t = job->engine.tiles;
    if (ok && same_size(sample, &tile))
        job->way = "at once";
    else if (ok)
        job->way =
            dl_format(job->arena, "in %d x %d x %d pieces, %s%s", t[0].pieces.n, t[1].pieces.n,
                      t[2].pieces.n, exact ? "exactly" : "blended", b.at ? b.at : "");
    dl_buf_free(&b);
    return ok;
}

/* Where nothing compiles: takes the programs that the run has kept (keep_kernels) as the job's. The
 * error of the compilation stays where there are none. */
static bool take_kept(dl_predict_job *job, dl_error *err) {
    const char *run = dl_saved_model_run(&job->net), *path;
    dl_compile_options opt;
    dl_error why = {0};
    if (err->code != DL_RESOURCE || job->given || !run ||
        !dl_session_options(job->net.session, job->device.target, &opt, &why))
        return false;
    dl_plan *p = dl_plan_choice_kept(job->arena, run, opt.target->name, &path, &why);
    if (p || why.code) *err = why;
    job->given = p, job->plan_file = p ? path : NULL;
    return p != NULL;
}

/* By a program of the model's own size. */
static bool try_tiles(dl_predict_job *job, const dlr_extent *sample, bool exact, dl_error *err) {
    return dl_session_predict(job->net.session, 0, NULL, err) &&
           make_tiles(job, sample, exact, err) && compile(job, err);
}

static bool try_pieces(dl_predict_job *job, const dlr_extent *sample, bool exact, dl_error *err) {
    return try_tiles(job, sample, exact, err) ||
           (take_kept(job, err) && try_tiles(job, sample, exact, err));
}

/* Samples of the model's own size: in batches, where these fit into memory. */
static bool try_own_size(dl_predict_job *job, const dlr_extent *tile, dl_error *err) {
    const char *why;
    dl_session *s = job->net.session;
    dl_error many = {0};
    const int64_t one = s->batch, batch = dl_predict_batch(job, &why);
    if (batch > one) {
        s->batch = batch;
        bool compiled = try_tiles(job, tile, false, &many);
        if (compiled && fits_memory(job, &many)) {
            job->way = dl_format(job->arena, "in batches of %lld", (long long)batch);
            return true;
        }
        s->batch = one, why = many.message;
        if (!compiled && take_kept(job, &many)) return try_own_size(job, tile, err);
        if (many.code != DL_RESOURCE) return dl_fail(err, many.code, "%s", many.message);
    }
    if (!try_pieces(job, tile, false, err)) return false;
    if (why)
        job->way = dl_format(job->arena, "one by one: %s", why);
    else if (one > 1)
        job->way = dl_format(job->arena, "in batches of %lld", (long long)one);
    return true;
}

static bool check_size(const dl_predict_job *job, const dlr_extent *sample, dl_error *err) {
    for (int i = 0; i < job->space; i++) {
        const dl_axis *axis = &job->input[0].type.axis[2 + i];
        int64_t there = sample->size[engine_axis(job, i)];
        if (there < axis->size)
            return dl_fail(
                err, DL_INPUT,
                "samples have %lld positions along %s, fewer than the %lld of the model's input: "
                "give it that size by its arguments, or --tiles=whole",
                (long long)there, axis->name, (long long)axis->size);
    }
    return true;
}

static bool try_mode(dl_predict_job *job, const dlr_extent *sample, dl_tiles_mode mode,
                     dl_error *err) {
    if (mode == DL_TILES_WHOLE) return try_whole(job, sample, err);
    return check_size(job, sample, err) && try_pieces(job, sample, mode == DL_TILES_EXACT, err);
}

static bool choose_plan(dl_predict_job *job, const dlr_extent *given, dl_error *err) {
    dlr_extent tile = extent_of(&job->input[0].type, job->space), sample = *given;
    dl_error why[DL_N_TILES] = {0};
    if (job->mode == DL_TILES_AUTO && job->crops) job->mode = DL_TILES_CROP;
    if (job->mode == DL_TILES_CROP && !check_size(job, &sample, err)) return false;
    job->own_size = job->mode == DL_TILES_CROP || same_size(&sample, &tile);
    if (job->own_size) return try_own_size(job, &tile, err);
    if (job->fixed)
        return dl_fail(
            err, DL_INPUT,
            "samples must have the size of the model's '%s' (%s): its input '%s' (%s) has some of "
            "the axes along which larger samples are cut; give the model that size by its "
            "arguments",
            job->input[0].name, dl_type_text(&job->input[0].type), job->fixed->name,
            dl_type_text(&job->fixed->type));
    dl_tiles_mode first = job->mode == DL_TILES_AUTO ? DL_TILES_WHOLE : job->mode,
                  last = job->mode == DL_TILES_AUTO ? DL_TILES_BLEND : job->mode, mode = first;
    while (!try_mode(job, &sample, mode, &why[mode]) && mode < last) mode++;
    dl_buf b = {0};
    dl_putf(&b, "%s",
            why[mode].code
                ? dl_format(job->arena, "--tiles=%s: %s", dl_tiles_modes[mode], why[mode].message)
                : job->way);
    for (int m = first; m < (int)mode; m++)
        dl_putf(&b, "; not %s: %s", dl_tiles_modes[m], why[m].message);
    job->way = dl_strdup(job->arena, b.at);
    dl_buf_free(&b);
    if (why[mode].code) return dl_fail(err, why[mode].code, "%s", job->way);
    job->mode = mode;
    return true;
}

static bool is_state(const dl_type *in, const dl_type *out) {
    bool same = in->rank == out->rank && dl_dtype_is_float(in->dtype);
    for (int k = 0; same && k < in->rank; k++) same = in->axis[k].size == out->axis[k].size;
    return same && dl_dtype_is_float(out->dtype);
}

/* The first input of the first output's shape, in the plan; the leading one before others. */
static int find_state(const dl_predict_job *job) {
    const dl_type out =
        dl_type_of_samples(&dl_plan_program_find(job->plan, "predict")->results.at[0].type);
    for (int i = 0; i < job->n_inputs; i++)
        for (int k = 0; k < job->plan->vars.n; k++)
            if (strcmp(job->plan->vars.at[k].name, job->input[i].name) == 0 &&
                is_state(&job->plan->vars.at[k].type, &out))
                return i;
    return -1;
}

bool dl_predict_plan(dl_predict_job *job, const dlr_extent *sample, dl_error *err) {
    if (!choose_plan(job, sample, err)) return false;
    job->engine.batch = job->net.session->batch;
    job->fed = find_state(job);
    return true;
}

bool dl_predict_outputs(dl_predict_job *job, dl_error *err) {
    dlr_predict *e = &job->engine;
    e->exec = job->exec, e->program = dlr_exec_program(job->exec, "predict");
    e->n_inputs = job->n_inputs;
    for (int i = 0; i < e->n_inputs; i++) {
        e->input[i].view = dlr_exec_variable(job->exec, job->input[i].name);
        e->input[i].numbers = dlr_field_numbers(&job->input[i].type);
    }
    const dl_plan_program *g = &job->plan->programs.at[e->program];
    bool tiled = dlr_predict_is_tiled(e);
    for (int i = 0; i < g->results.n; i++) {
        const dl_plan_result *r = &g->results.at[i];
        const dl_type t = dl_type_of_samples(&r->type);
        int own = job->flat ? 0 : t.rank > 2 + DLR_SPACE ? DLR_SPACE : t.rank > 2 ? t.rank - 2 : 0;
        if (e->n_outputs == DLR_MAX_OUTPUTS)
            return dl_fail(err, DL_INPUT, "%s has more than %d outputs", job->net.model_path,
                           DLR_MAX_OUTPUTS);
        dlr_predict_output *o = &e->output[e->n_outputs++];
        *o = (dlr_predict_output){
            .name = r->name,
            .view = dlr_exec_result(job->exec, e->program, DL_RESULT_OUTPUT, r->name),
            .type = t,
            .numbers = dlr_field_numbers(&t),
            .whole = extent_of(&t, tiled ? job->space : own),
            .space = tiled ? job->space : own};
        for (int k = 0; tiled && k < DLR_SPACE; k++) o->whole.size[k] = e->tiles[k].whole;
        if (tiled && job->mode == DL_TILES_BLEND && !dl_dtype_is_float(r->type.dtype))
            return dl_fail(err, DL_INPUT,
                           "--tiles=blend takes means where pieces overlap, and the output '%s' is "
                           "%s, which has "
                           "none: give --tiles=crop, or exact",
                           r->name, dl_type_text(&r->type));
    }
    return true;
}
