#include "compiler/session.h"

#include <stdlib.h>
#include <unistd.h>

#include "compiler/arguments.h"
#include "compiler/objectives.h"
#include "compiler/param_rules.h"
#include "compiler/related_samples.h"
#include "compiler/step_options.h"
#include "frontends/yaml/data_file.h"
#include "ir/base/clock.h"
#include "ir/base/hash.h"
#include "ir/body.h"
#include "ir/text/text.h"
#include "passes/parallel/per_sample.h"
#include "passes/parallel/samples.h"

enum {
    FIRST_BUCKET = 1 << 20, /* bytes: small, so that the first all_reduce begins soon */
    /* bytes: sharding the state of a smaller parameter saves less than a message costs */
    LEAST_SHARED = 16 << 10
};

static bool fail_model(const dl_session *s, const dl_diags *diags, dl_error *err) {
    return dl_fail(err, DL_INPUT, "%s: %d error%s", s->model_path, diags->errors,
                   diags->errors == 1 ? "" : "s");
}

/* Samples of a step over all ranks, of which `dp` are data-parallel, and over all its batches. */
static int64_t global_batch(const dl_config *c, int dp) {
    if (!dl_config_is_null(c, DL_KEY_local_batch_size))
        return dl_config_int(c, DL_KEY_local_batch_size) * dp * dl_config_int(c, DL_KEY_accumulate);
    bool of_rank = strcmp(dl_config_str(c, DL_KEY_batch_size_of), "rank") == 0;
    return dl_config_int(c, DL_KEY_global_batch_size) * (of_rank ? dp : 1);
}

/* The rank's index in a group. */
static int place_in(const dl_ranks *ranks, const char *group, int rank) {
    int place = 0, *members = dl_calloc((size_t)dl_ranks_count(ranks, group), sizeof *members);
    dl_ranks_members(ranks, group, rank, members);
    while (members[place] != rank) place++;
    free(members);
    return place;
}

/* This rank's part in the parallel work. */
static dl_parallel parallel_of(const dl_config *c, const dl_ranks *ranks, int rank) {
    int at[DL_NRANK_PARTS];
    dl_ranks_place(ranks, rank, at);
    bool alone = dl_config_bool(c, DL_KEY_noddp),
         synced = dl_config_bool(c, DL_KEY_sync_batch_norm);
    int dp = alone ? 1 : ranks->size[DL_RANKS_DP];
    dl_parallel p = {.dp = dp,
                     .tp = ranks->size[DL_RANKS_TP],
                     .cp = ranks->size[DL_RANKS_CP],
                     .dp_rank = alone ? 0 : at[DL_RANKS_DP],
                     .tp_rank = at[DL_RANKS_TP],
                     .cp_rank = at[DL_RANKS_CP],
                     .batch_ranks = synced ? dp : 1,
                     .first_bucket_bytes = FIRST_BUCKET,
                     .bucket_bytes = dl_config_int(c, DL_KEY_bucket_cap_mb) << 20,
                     .zero = dl_config_int(c, DL_KEY_zero) == 1,
                     .ring = strcmp(dl_config_str(c, DL_KEY_cp_comm_type), "p2p") == 0,
                     .least_shared = LEAST_SHARED};
    if (p.zero) p.sum_rank = place_in(ranks, dl_gradient_group(&p), rank);
    return p;
}

static bool is_batch_given(const dl_config *c) {
    return !c->batch_assumed && (dl_config_is_given(c, DL_KEY_global_batch_size) ||
                                 dl_config_is_given(c, DL_KEY_local_batch_size));
}

/* Builds the model's graphs for a batch, with the given sizes of the axes that the model leaves
 * open. */
static dl_module *build_module(const dl_session *s, int nsizes, const dl_axis_size *sizes,
                               dl_diags *diags) {
    dl_axis_size *all = DL_NEWS(s->arena, dl_axis_size, nsizes + 1);
    dl_model_config config = {
        .sizes = all, .nsizes = nsizes + 1, .any_batch = !is_batch_given(s->config)};
    all[0] = (dl_axis_size){"N", s->batch};
    for (int i = 0; i < nsizes; i++) all[i + 1] = sizes[i];
    config.arguments = dl_arguments_values(s->arena, s->config, s->model, &config.narguments);
    return dl_model_build(s->arena, s->model, &config, diags);
}

/* Takes the batch from a model that fixes it (N=8), unless the configuration sets another. */
static void take_fixed_batch(dl_session *s) {
    const dl_graph *g = s->module->graphs.at[0];
    const char *batch = dl_intern("N");
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *v = g->vars.at[i];
        int at = dl_type_axis(&v->value.type, batch);
        if ((v->role != DL_VAR_INPUT && v->role != DL_VAR_TARGET) || at < 0 ||
            !v->value.type.axis[at].size)
            continue;
        s->batch = v->value.type.axis[at].size;
        s->global_batch =
            s->batch * s->ranks.size[DL_RANKS_DP] * dl_config_int(s->config, DL_KEY_accumulate);
        return;
    }
}

static bool build(dl_session *s, dl_diags *diags, dl_error *err) {
    s->module = build_module(s, 0, NULL, diags);
    if (!s->module) return fail_model(s, diags, err);
    if (!is_batch_given(s->config)) take_fixed_batch(s);
    s->parameters = dl_count_parameters(s->module->graphs.at[0]);
    return true;
}

static bool fail_shares(const dl_session *s, int64_t parts, dl_error *err) {
    int64_t batches = dl_config_int(s->config, DL_KEY_accumulate);
    return dl_config_fail(
        s->config, DL_KEY_global_batch_size, err,
        "%lld samples cannot be shared by %d ranks%s: a multiple of %lld can, or give "
        "local_batch_size, each rank's%s",
        (long long)s->global_batch, s->ranks.size[DL_RANKS_DP],
        batches > 1 ? dl_format(s->arena, " of %lld batches", (long long)batches) : "",
        (long long)parts, batches > 1 ? " in a batch" : "");
}

/* The noise scale compares gradients of parts of a step: there must be several, whole on a rank. */
static bool check_noise(const dl_session *s, dl_error *err) {
    const dl_config *c = s->config;
    const int *ranks = s->ranks.size;
    if (!dl_config_bool(c, DL_KEY_log_noise_scale)) return true;
    if (ranks[DL_RANKS_TP] > 1 || ranks[DL_RANKS_CP] > 1)
        return dl_config_fail(c, DL_KEY_log_noise_scale, err,
                              "gradients are cut by tensor_parallel and context_parallel: leave "
                              "one of them out");
    if (dl_step_lower_precision(c) == DL_F16)
        return dl_config_fail(c, DL_KEY_log_noise_scale, err,
                              "fp16's gradients are scaled until a step's end: --amp_mode=bf16, or "
                              "none");
    return ranks[DL_RANKS_DP] * dl_config_int(c, DL_KEY_accumulate) > 1 ||
           dl_config_fail(c, DL_KEY_log_noise_scale, err,
                          "it compares the gradients of a step's batches: --accumulate=2 or more, "
                          "or several ranks");
}

/* The text of the model that was given, or of the file that the configuration names. */
static bool read_model(dl_session *s, const dl_model_text *given, dl_error *err) {
    const char *named = dl_config_str(s->config, DL_KEY_model);
    s->model_path = given ? given->name : dl_find_data_file(s->arena, named, err);
    if (given && !s->model_path) s->model_path = named;
    if (!s->model_path) return false;
    s->model_path = dl_intern(s->model_path); /* locations in the configuration refer to the name
                                                 after the session ends */
    s->source = given ? dl_source_new(s->arena, s->model_path, given->text, given->n)
                      : dl_source_read(s->arena, s->model_path, err);
    return s->source != NULL;
}

/* *found: the model's diagnostics, also where there is no session. */
static dl_session *open_session(dl_arena *arena, dl_config *config, const dl_model_text *given,
                                int world, const dl_diags **found, dl_error *err) {
    double start = dl_clock_ms();
    dl_session *s = DL_NEW(arena, dl_session);
    *s = (dl_session){.arena = arena, .config = config};
    if (!dl_config_load(config, err) || !read_model(s, given, err)) return NULL;
    dl_diags *diags = dl_diags_new(arena, s->source);
    *found = s->diags = diags;
    s->model = dl_model_parse(arena, s->source, diags);
    bool ok = s->model && dl_arguments_check(s->model, diags);
    if (!ok) fail_model(s, diags, err);
    ok = ok && dl_arguments_declare(arena, config, s->model, s->source, err) &&
         dl_config_finish(config, err) && dl_step_resolve(config, err) &&
         dl_ranks_of(&s->ranks, world, (int)dl_config_int(config, DL_KEY_tensor_parallel),
                     (int)dl_config_int(config, DL_KEY_context_parallel),
                     dl_config_str(config, DL_KEY_parallel_order), err);
    if (ok) {
        int dp = s->ranks.size[DL_RANKS_DP];
        s->global_batch = global_batch(config, dp);
        const int64_t parts = dp * dl_config_int(config, DL_KEY_accumulate);
        s->batch = s->global_batch / parts;
        s->model_name = dl_model_name(s->model);
        s->parallel = parallel_of(config, &s->ranks, 0);
        ok = (s->batch > 0 && s->global_batch % parts == 0) || fail_shares(s, parts, err);
        ok = ok && check_noise(s, err) && build(s, diags, err);
        if (ok && parts > 1) dl_warn_of_related(s, build_module(s, 0, NULL, diags));
    }
    s->front_ms = dl_clock_ms() - start;
    return ok ? s : NULL;
}

dl_session *dl_session_open_text(dl_arena *arena, dl_config *config, const dl_model_text *given,
                                 int world, dl_buf *diagnostics, dl_error *err) {
    const dl_diags *found = NULL;
    dl_session *s = open_session(arena, config, given, world, &found, err);
    dl_buf *out = s ? &s->diagnostics : diagnostics;
    if (out && found && found->list.n) dl_diags_print(out, found, isatty(2) && !getenv("NO_COLOR"));
    return s;
}

dl_session *dl_session_open_found(dl_arena *arena, dl_config *config, int world,
                                  const dl_diags **found, dl_error *err) {
    *found = NULL;
    return open_session(arena, config, NULL, world, found, err);
}

dl_session *dl_session_open(dl_arena *arena, dl_config *config, int world, dl_buf *diagnostics,
                            dl_error *err) {
    return dl_session_open_text(arena, config, NULL, world, diagnostics, err);
}

void dl_session_take_rank(dl_session *s, int rank) {
    s->parallel = parallel_of(s->config, &s->ranks, rank);
}

void dl_session_close(dl_session *s) {
    if (s) dl_buf_free(&s->diagnostics);
}

/* ---- prediction ---- */

/* Refuses sizes that change a parameter: they make another model. */
static bool check_parameters(const dl_session *s, const dl_module *m, dl_error *err) {
    const dl_graph *then = s->module->graphs.at[0], *now = m->graphs.at[0];
    for (int i = 0; i < now->vars.n; i++) {
        const dl_var *v = now->vars.at[i], *was = dl_graph_find_var(then, v->name);
        if (v->role != DL_VAR_PARAM && v->role != DL_VAR_STATE) continue;
        if (!was || !dl_type_same(&was->value.type, &v->value.type))
            return dl_fail(err, DL_INPUT, "%s: '%s' would be %s there, and is %s", s->model_path,
                           v->name, dl_type_text(&v->value.type),
                           was ? dl_type_text(&was->value.type) : "not there");
    }
    return true;
}

/* NULL with an error: a fault of the model, which must come from these sizes. */
static dl_module *prediction_of(const dl_session *s, int nsizes, const dl_axis_size *sizes,
                                dl_error *err) {
    dl_diags *diags = dl_diags_new(s->arena, s->source);
    dl_module *m = build_module(s, nsizes, sizes, diags);
    for (int i = 0; !m && i < diags->list.n; i++)
        if (diags->list.at[i]->message)
            return dl_fail(err, DL_INPUT, "%s: %s", s->model_path, diags->list.at[i]->message),
                   NULL;
    if (!m) return fail_model(s, diags, err), NULL;
    return dl_keep_prediction(m, err) ? m : NULL;
}

bool dl_session_predict(dl_session *s, int nsizes, const dl_axis_size *sizes, dl_error *err) {
    dl_module *m = prediction_of(s, nsizes, sizes, err);
    if (!m || !check_parameters(s, m, err)) return false;
    s->module = m;
    return true;
}

static void add_graph(dl_session *s, const dl_module *of) {
    dl_graph *g = of->graphs.at[0];
    g->module = s->module;
    dl_bodies_follow(g);
    dl_push(s->module->arena, &s->module->graphs, g);
}

bool dl_session_add_prediction(dl_session *s, dl_error *err) {
    dl_module *m = prediction_of(s, 0, NULL, err);
    if (m) add_graph(s, m);
    return m != NULL;
}

bool dl_session_add_evaluation(dl_session *s, dl_error *err) {
    dl_diags *diags = dl_diags_new(s->arena, s->source);
    dl_module *m = build_module(s, 0, NULL, diags);
    if (!m) return fail_model(s, diags, err);
    dl_keep_evaluation(m);
    if (dl_measure_per_sample(m->graphs.at[0])) add_graph(s, m);
    return true;
}

const dl_graph *dl_session_seen(const dl_session *s, dl_error *err) {
    dl_module *m = prediction_of(s, 0, NULL, err);
    if (!m) return NULL;
    dl_pass_ctx ctx = {.arena = s->arena, .err = err};
    return dl_run_passes(m, "lower", &ctx, (dl_pass_options){0}) ? m->graphs.at[0] : NULL;
}

bool dl_session_treats_alone(const dl_session *s, int64_t batch) {
    dl_session at = *s;
    dl_error none = {0};
    at.batch = batch;
    if (!dl_session_predict(&at, 0, NULL, &none)) return false;
    const dl_graph *g = dl_session_seen(&at, &none);
    return g && dl_samples_are_apart(g);
}

bool dl_session_measures_alone(const dl_session *s, int64_t batch) {
    dl_session at = *s;
    dl_error none = {0};
    at.batch = batch;
    return dl_session_predict(&at, 0, NULL, &none) && dl_session_add_evaluation(&at, &none) &&
           dl_module_graph(at.module, "eval") != NULL;
}

/* The graph of the batches before the last one of a step. */
static bool add_accumulation(dl_session *s, dl_error *err) {
    dl_diags *diags = dl_diags_new(s->arena, s->source);
    dl_module *m = build_module(s, 0, NULL, diags);
    if (!m) return fail_model(s, diags, err);
    DL_CHECK(strcmp(m->graphs.at[0]->name, "train") == 0);
    m->graphs.at[0]->name = dl_intern(DL_GRAPH_ACCUMULATE);
    add_graph(s, m);
    return true;
}

/* ---- the plan ---- */

/* Refuses a batch norm in training over one value per channel, as PyTorch does: its variance is
 * always 0. Prediction reads the running statistics. */
static bool check_statistics(const dl_session *s, dl_error *err) {
    const dl_graph *g = dl_module_graph(s->module, "train");
    for (int i = 0; g && i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        if (n->op != DL_OP_batch_norm || !dl_node_int(n, DL_ATTR_training)) continue;
        const dl_type *t = &n->in[0]->type;
        int64_t ranks = s->parallel.batch_ranks > 1 ? s->parallel.batch_ranks : 1;
        if (dl_type_count(t) != t->axis[1].size || ranks > 1 || !dl_type_count(t)) continue;
        return dl_fail(
            err, DL_INPUT,
            "%s:%d:%d: error: batch_norm divides by the deviation of one value a channel in "
            "training, which is 0: its input is %s; give a larger local_batch_size%s [DL-E0805]",
            n->loc.file ? n->loc.file : s->model_path, n->loc.line, n->loc.column, dl_type_text(t),
            s->ranks.size[DL_RANKS_DP] > 1 ? ", or sync_batch_norm" : "");
    }
    return true;
}

static bool find_memory(const dl_config *c, int64_t *bytes, dl_error *err) {
    *bytes = 0;
    if (dl_config_is_null(c, DL_KEY_memory_budget)) return true;
    const char *said = dl_config_str(c, DL_KEY_memory_budget);
    return (dl_parse_size(said, bytes) && *bytes > 0) ||
           dl_config_fail(c, DL_KEY_memory_budget, err,
                          "memory_budget must be a size such as 8GiB or 512MiB, not '%.60s'", said);
}

bool dl_session_options(const dl_session *s, const char *target, dl_compile_options *opt,
                        dl_error *err) {
    *opt = (dl_compile_options){.model = s->model_name,
                                .batch = s->batch,
                                .parallel = s->parallel,
                                .skip = getenv("DLC_SKIP"),
                                .link = true};
    const dl_graph *trained = dl_module_graph(s->module, "train");
    if (!dl_step_options_of(s->config, &opt->step_options, err) ||
        (trained && (!dl_param_rules_of(s->arena, s->config, trained, &opt->params, err) ||
                     !dl_objectives_of(s->arena, s->config, trained, &opt->step_options,
                                       &opt->objectives, &opt->nobjectives, err))))
        return false;
    const char *override =
        getenv("NVIDIA_TF32_OVERRIDE"); /* read in the same way as by NVIDIA's libraries */
    opt->tf32 = dl_config_bool(s->config, DL_KEY_tf32) && !(override && strcmp(override, "0") == 0);
    opt->target = dl_target_find(s->arena, target, err);
    if (opt->target && strcmp(dl_config_str(s->config, DL_KEY_winograd), "off") == 0)
        opt->target = dl_target_without_winograd(s->arena, opt->target);
    if (!find_memory(s->config, &opt->memory, err)) return false;
    opt->validate = DL_VALIDATE_STAGES;
    return opt->target && check_statistics(s, err);
}

bool dl_session_check_no_average(const dl_session *s, const char *who, dl_error *err) {
    bool swa = !dl_config_is_null(s->config, DL_KEY_swa);
    if (!swa && !(dl_config_float(s->config, DL_KEY_ema) > 0)) return true;
    return dl_config_fail(s->config, swa ? DL_KEY_swa : DL_KEY_ema, err,
                          "%s keeps no mean of the weights: --%s", who, swa ? "swa=null" : "ema=0");
}

bool dl_session_check_one_batch(const dl_session *s, const char *who, dl_error *err) {
    return dl_config_int(s->config, DL_KEY_accumulate) == 1 ||
           dl_config_fail(s->config, DL_KEY_accumulate, err,
                          "%s runs steps of one batch: --accumulate=1", who);
}

dl_plan *dl_session_compile(dl_session *s, const dl_compile_options *opt, dl_error *err) {
    bool several = opt->step_options.accumulate && dl_module_graph(s->module, "train");
    if (several && !add_accumulation(s, err)) return NULL;
    return dl_compile(s->arena, s->module, opt, &s->times, err);
}
