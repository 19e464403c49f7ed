#include "compiler/origin.h"

#include "compiler/objectives.h"
#include "compiler/param_rules.h"

#include "compiler/step_options.h"
#include "compiler/target/backend.h"
#include "ir/base/foreign.h"
#include "ir/base/hash.h"
#include "ir/text/text.h"

/* Each member of dl_step_options has its row in `add_step_options`. */
_Static_assert(sizeof(dl_step_options) == 56,
               "a new member of dl_step_options is a setting of a plan's origin");

typedef struct {
    dl_arena *arena;
    const dl_config *config;
    DL_ARRAY(dl_plan_setting) list;
} settings;

/* A value as a command line has it. */
static const char *text_of(dl_arena *arena, const dl_yaml *v) {
    dl_buf b = {0};
    if (v && v->kind == DL_YAML_STRING) return dl_strdup(arena, v->text);
    if (v) dl_yaml_put(&b, v);
    const char *text = v ? dl_strndup(arena, b.at, b.n) : "null";
    dl_buf_free(&b);
    return text;
}

static void add(settings *s, const char *key, const char *is, const char *shown) {
    dl_push(s->arena, &s->list, (dl_plan_setting){key, is, shown});
}

static void add_key(settings *s, dl_key key, double is) {
    add(s, dl_key_name(key), dl_format(s->arena, "%.17g", is),
        text_of(s->arena, dl_config_value(s->config, key)));
}

static void add_number(settings *s, const char *key, int64_t n) {
    const char *text = dl_format(s->arena, "%lld", (long long)n);
    add(s, key, text, text);
}

/* ---- what determines the programs ---- */

static int at_least_1(int n) { return n > 1 ? n : 1; }

static void add_ranks(settings *s, const dl_session *session, const dl_parallel *p) {
    int dp = at_least_1(p->dp), tp = at_least_1(p->tp), cp = at_least_1(p->cp);
    add_number(s, "ranks", (int64_t)dp * tp * cp);
    add_number(s, dl_key_name(DL_KEY_tensor_parallel), tp);
    add_number(s, dl_key_name(DL_KEY_context_parallel), cp);
    add_number(s, dl_key_name(DL_KEY_local_batch_size), session->batch);
    add_key(s, DL_KEY_sync_batch_norm, p->batch_ranks > 1);
    add_key(s, DL_KEY_bucket_cap_mb, dp * cp > 1 ? (double)p->bucket_bytes : 0);
    add_key(s, DL_KEY_zero, dp > 1 && p->zero);
    add_key(s, DL_KEY_cp_comm_type, cp > 1 && p->ring);
}

/* The key that decides on mixed precision, and on the schedule. */
static dl_key key_of_precision(const dl_config *c) {
    bool named = strcmp(dl_config_str(c, DL_KEY_amp_mode), "none") != 0;
    return !named && dl_config_bool(c, DL_KEY_enable_amp) ? DL_KEY_enable_amp : DL_KEY_amp_mode;
}

static dl_key key_of_schedule(const dl_config *c) {
    if (!dl_config_is_null(c, DL_KEY_scheduler)) return DL_KEY_scheduler;
    const char *name = dl_config_value(c, DL_KEY_lr_schedule)->text;
    bool none = name && strcmp(name, "none") == 0;
    return none && dl_config_int(c, DL_KEY_lr_warmup_epochs) > 0 ? DL_KEY_lr_warmup_epochs
                                                                 : DL_KEY_lr_schedule;
}

static void add_step_options(settings *s, const dl_step_options *r) {
    enum { MOST_RANGES = 1 << 20 };
    add_key(s, DL_KEY_optimizer, r->optimizer);
    add_key(s, key_of_schedule(s->config), r->schedule * (double)MOST_RANGES + r->ranges);
    if (r->phases) add_key(s, key_of_schedule(s->config), (double)r->phases);
    add_key(s, DL_KEY_momentum, r->momentum);
    add_key(s, DL_KEY_nesterov, r->nesterov);
    add_key(s, DL_KEY_rmsprop_centered, r->centered);
    add_key(s, DL_KEY_sgd_dampening, r->dampens);
    add_key(s, DL_KEY_amsgrad, r->amsgrad);
    add_key(s, DL_KEY_maximize, r->maximize);
    add_key(s, DL_KEY_weight_decay, r->decay);
    add_key(s, DL_KEY_decay_norm_and_bias, r->decay_vectors);
    add_key(s, DL_KEY_accumulate, r->accumulate);
    add_key(s, DL_KEY_optimize_order, r->together);
    add_key(s, DL_KEY_clip_grad_norm, r->clip);
    add_key(s, r->mean_of_epochs ? DL_KEY_swa : DL_KEY_ema, r->average + r->mean_of_epochs);
    add_key(s, DL_KEY_clip_grad_value, r->clip_value);
    add_key(s, DL_KEY_log_norms, r->norms);
    add_key(s, DL_KEY_log_layer_norms, r->layer_norms);
    add_key(s, DL_KEY_log_noise_scale, r->noise);
    add_key(s, DL_KEY_adagrad_initial_accumulator, r->accumulator);
}

/* Which parameters are frozen, and which are in which group. */
static void add_params(settings *s, const dl_param_rules *rules) {
    uint64_t h = dl_param_rules_hash(rules, 0);
    add_key(s, dl_config_is_null(s->config, DL_KEY_groups) ? DL_KEY_freeze : DL_KEY_groups,
            (double)(h >> 12));
}

/* Which optimisers the losses have that are not the step's own. */
static void add_objectives(settings *s, const dl_compile_options *opt) {
    uint64_t h = dl_objectives_hash(opt->objectives, opt->nobjectives, 0);
    add_key(s, DL_KEY_optimizers, (double)(h >> 12));
}

/* A prediction has the settings of its numbers alone. */
static settings settings_of(dl_arena *arena, const dl_session *session,
                            const dl_compile_options *opt) {
    settings s = {.arena = arena, .config = session->config};
    const char *skip = opt->skip ? opt->skip : "";
    bool trains = dl_module_graph(session->module, "train") != NULL;
    if (trains) add_ranks(&s, session, &opt->parallel);
    if (trains) add_step_options(&s, &opt->step_options);
    if (trains) add_params(&s, opt->params);
    if (trains) add_objectives(&s, opt);
    add_key(&s, key_of_precision(s.config), opt->step_options.low);
    add_key(&s, DL_KEY_tf32, opt->tf32 && opt->target->has_tf32);
    add_key(&s, DL_KEY_winograd, opt->target->winograd);
    if (trains) add_key(&s, DL_KEY_save_grads, opt->keep_gradients);
    add(&s, "DLC_SKIP", dl_strdup(arena, skip), *skip ? dl_strdup(arena, skip) : "nothing");
    return s;
}

/* The model's arguments, which the graphs already contain: for messages. */
static settings arguments_of(dl_arena *arena, const dl_session *session) {
    settings s = {.arena = arena, .config = session->config};
    int n;
    const dl_argument *all = dl_model_arguments(session->model, &n);
    for (int i = 0; i < n; i++) {
        const char *text = text_of(arena, dl_config_find(session->config, all[i].name));
        add(&s, dl_strdup(arena, all[i].name), text, text);
    }
    return s;
}

static uint64_t graphs_of(const dl_session *s) {
    dl_buf text = {0};
    dl_print_module(&text, s->module, (dl_print_options){0});
    uint64_t h = dl_hash(text.at, text.n, DL_PLAN_VERSION);
    dl_buf_free(&text);
    return h;
}

/* The part that determines the programs. */
static dl_plan_origin programs_of(dl_arena *arena, const dl_session *s,
                                  const dl_compile_options *opt) {
    settings of = settings_of(arena, s, opt), arguments = arguments_of(arena, s);
    dl_plan_origin o = {.graphs = graphs_of(s)};
    o.settings.at = of.list.at, o.settings.n = o.settings.cap = of.list.n;
    o.arguments.at = arguments.list.at, o.arguments.n = o.arguments.cap = arguments.list.n;
    return o;
}

dl_plan_origin dl_origin_of(dl_arena *arena, const dl_session *s, const dl_compile_options *opt,
                            const char *command) {
    dl_buf yaml = {0};
    dl_config_put_given(s->config, &yaml);
    dl_plan_origin o = programs_of(arena, s, opt);
    o.program = DL_VERSION;
    o.command = dl_strdup(arena, command);
    o.path = dl_strdup(arena, s->model_path);
    o.text = dl_strndup(arena, s->source->text, s->source->n);
    o.configuration = dl_strndup(arena, yaml.at, yaml.n);
    dl_buf_free(&yaml);
    return o;
}

/* Whether the session's inputs have so many samples: a model may fix its batch. */
static bool has_batch(const dl_session *s, int64_t batch) {
    const dl_graph *g = s->module->graphs.at[0];
    bool all = true;
    for (int i = 0; i < g->vars.n; i++) {
        const dl_type *t = &g->vars.at[i]->value.type;
        int at = g->vars.at[i]->role == DL_VAR_INPUT ? dl_type_axis(t, dl_intern("N")) : -1;
        all = all && (at < 0 || t->axis[at].size == batch);
    }
    return all;
}

/* The prediction of a batch, where the model has one. */
static bool add_prediction(dl_arena *arena, const dl_session *s, const dl_compile_options *opt,
                           int64_t batch, dl_plan *p, dl_error *err) {
    dl_session of = *s;
    dl_error none = {0};
    dl_compile_options o = *opt;
    of.batch = batch;
    if (!dl_session_predict(&of, 0, NULL, &none) || !has_batch(&of, batch) ||
        (batch > 1 && !dl_session_treats_alone(s, batch)) || !dl_session_add_evaluation(&of, &none))
        return true;
    o.batch = batch, o.parallel = (dl_parallel){.dp = 1, .tp = 1, .cp = 1, .batch_ranks = 1};
    o.keep_gradients = false, o.observe = NULL, o.user = NULL;
    dl_plan_origin origin = programs_of(arena, &of, &o);
    dl_plan *q = dl_session_compile(&of, &o, err);
    if (!q) return false;
    dl_arena_move(q->arena, arena);
    q->origin = origin;
    dl_push(arena, &p->predictions, q);
    return true;
}

bool dl_origin_predictions(dl_arena *arena, const dl_session *s, const dl_compile_options *opt,
                           dl_plan *p, dl_error *err) {
    p->predictions.n = p->predictions.cap = 0;
    return add_prediction(arena, s, opt, 1, p, err) &&
           (s->batch == 1 || add_prediction(arena, s, opt, s->batch, p, err));
}

dl_model_text dl_origin_model(const dl_plan *p) {
    return (dl_model_text){
        .name = p->origin.path, .text = p->origin.text, .n = strlen(p->origin.text)};
}

const char *dl_origin_command(dl_arena *arena, const dl_plan *p, const char *words,
                              const char *path) {
    dl_buf b = {0};
    dl_puts(&b, p->origin.command);
    if (*words) dl_putf(&b, "%s%s", *words == ' ' ? "" : " ", words);
    dl_puts(&b, " -o ");
    dl_put_shell_word(&b, path);
    const char *command = dl_strndup(arena, b.at, b.n);
    dl_buf_free(&b);
    return command;
}

/* ---- does it fit? ---- */

typedef struct {
    dl_arena *arena;
    const dl_config *config;
    bool any;
    int n;            /* of the settings that differ, and are shown */
    dl_buf text;      /* "amp_mode none (here bf16)", separated by commas */
    dl_buf words;     /* " --amp_mode=bf16" */
    const char *skip; /* this run's DLC_SKIP, where the plan has another; else NULL */
} differences;

static void put_word(differences *d, const char *key, const char *text) {
    dl_puts(&d->words, " ");
    dl_put_shell_word(&d->words, dl_format(d->arena, "--%s=%s", key, text));
}

/* Several keys may decide on one thing: the plan's gets this run's value, too. */
static void add_difference(differences *d, const dl_plan_setting *then,
                           const dl_plan_setting *now) {
    enum { MOST_SHOWN = 4 };
    bool other = strcmp(then->key, now->key) != 0, skip = strcmp(now->key, "DLC_SKIP") == 0;
    d->any = true;
    if (!other && strcmp(then->shown, now->shown) == 0) return; /* it depends on another one */
    if (d->n < MOST_SHOWN)
        dl_putf(&d->text, "%s%s %.80s (here %s%s%.80s)", d->n ? ", " : "", then->key, then->shown,
                other ? now->key : "", other ? " " : "", now->shown);
    d->n++;
    if (skip) {
        d->skip = now->is;
        return;
    }
    if (other) put_word(d, then->key, text_of(d->arena, dl_config_find(d->config, then->key)));
    put_word(d, now->key, now->shown);
}

static void compare(differences *d, int n, const dl_plan_setting *then, settings now) {
    for (int i = 0; i < n && i < now.list.n; i++)
        if (strcmp(then[i].is, now.list.at[i].is) != 0)
            add_difference(d, &then[i], &now.list.at[i]);
}

static bool fail_different(const differences *d, const dl_plan *p, const char *path,
                           dl_error *err) {
    dl_buf skip = {0};
    if (d->skip)
        dl_puts(&skip, "DLC_SKIP="), dl_put_shell_word(&skip, d->skip), dl_puts(&skip, " ");
    const char *command = dl_origin_command(d->arena, p, d->words.at ? d->words.at : "", path);
    if (d->n)
        dl_fail(err, DL_INPUT,
                "%.200s was compiled for another run: %s%s; compile one for this run: %s%s", path,
                d->text.at, d->n > 4 ? ", and more" : "", skip.at ? skip.at : "", command);
    else
        dl_fail(err, DL_INPUT,
                "%.200s was compiled by version %s, which builds other graphs of this model than "
                "version " DL_VERSION "; compile it again: %s",
                path, p->origin.program, command);
    dl_buf_free(&skip);
    return false;
}

/* Ranks that hold different parts of the model, or of its optimiser. */
static bool check_shared(const char *path, const dl_parallel *p, dl_error *err) {
    bool own = p->tp > 1 || p->cp > 1 || (p->zero && p->dp > 1);
    return !own || dl_fail(err, DL_INPUT,
                           "%.200s: with %s each rank runs programs of its own, and a plan's file "
                           "holds those of one: train with the model's file instead",
                           path,
                           p->tp > 1   ? "tensor_parallel"
                           : p->cp > 1 ? "context_parallel"
                                       : "zero");
}

bool dl_origin_check(const dl_plan *p, const char *path, const dl_session *s,
                     const dl_compile_options *opt, dl_error *err) {
    bool trains = dl_module_graph(s->module, "train") != NULL;
    const dl_plan *of = trains ? p : dl_plan_prediction(p, s->batch);
    if (trains && !check_shared(path, &opt->parallel, err)) return false;
    if (!of)
        return dl_fail(err, DL_INPUT,
                       "%.200s has no programs for predictions: the model fixes its batch and "
                       "relates the samples of one, or an output is made of a target",
                       path);
    const dl_plan_origin *o = &of->origin;
    dl_arena *arena = dl_arena_new(NULL);
    differences d = {.arena = arena, .config = s->config};
    settings now = settings_of(arena, s, opt);
    bool same = graphs_of(s) == o->graphs && o->settings.n == now.list.n;
    compare(&d, o->settings.n, o->settings.at, now);
    if (!same) compare(&d, o->arguments.n, o->arguments.at, arguments_of(arena, s));
    bool ok = (same && !d.any) || fail_different(&d, p, path, err);
    dl_buf_free(&d.text), dl_buf_free(&d.words);
    dl_arena_free(arena);
    return ok && opt->target->backend->check(of, err);
}
