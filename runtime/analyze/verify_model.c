/* `dlc verify`: every compiled kernel compared with the interpreter, on the same operands and
 * between canaries; then the model as it was written, its gradients and the optimiser's steps
 * compared with their definitions. What is compared, and how, is verify/verify.h's part. */
#include <limits.h>
#include <malloc.h>
#include <math.h>
#include <stdlib.h>

#include "ir/base/foreign.h"
#include "runtime/analyze/analyze.h"
#include "runtime/analyze/synthetic_inputs.h"
#include "runtime/exec/state.h"
#include "runtime/formats/json.h"
#include "runtime/setup/device_choice.h"
#include "runtime/tune/tune.h"
#include "verify/reference.h"
#include "verify/verify.h"

static const dl_option options[] = {
    {"target", 0, "TARGET",
     "cpu (the best here), cpu:avx2, ..., cuda:sm_90a, ...; on a GPU, or by --device=cuda:emulated "
     "on the "
     "CPU"},
    {"json", 0, NULL, "print what was judged, and what is off, as one JSON object"},
    {"kernels", 0, NULL,
     "judge the compiled kernels alone, and what they write: on a device, whose time is short"},
    DL_OPTION_HELP,
    {0},
};

static const char usage[] = "usage: dlc verify [MODEL.dl] [OPTION...] [--key=value...]\n\n"
                            "Runs every kernel of a training and an evaluation step between guard "
                            "zones, and compares what it\n"
                            "stores with the reference interpreter (double precision, plain "
                            "loops): each number must lie where\n"
                            "float32's rounding of what was summed can leave it, and ties within "
                            "rounding may go to either side. "
                            "Then\n"
                            "compares the model as written, each op by its own definition, with "
                            "what the compiler's passes make of\n"
                            "it: each op, its gradient (central differences), outputs, losses and "
                            "metrics, the whole loss's\n"
                            "gradients, and the optimiser's updates. Says how many of each it "
                            "judged, and what not. Without "
                            "--config,\n"
                            "the configuration `tiny` is taken where there is one. Exit status 7 "
                            "when something is off.\n\n";

typedef struct {
    dl_classes classes;
    uint64_t seed;
    dl_step_options step_options;
} filling;

/* ---- the state that everything is judged in ---- */

/* A step like any other: neither the first nor one whose numbers hide a part of a rule. */
static void set_numbers(dlr_exec *exec) {
    static const struct {
        const char *name;
        double value;
    } numbers[] = {{"optimizer.step", 6},
                   {"random.step", 4},
                   {"optimizer.lr.warmup", 3},
                   {"optimizer.lr.end", 1e-5},
                   {"optimizer.lr.passed", 2},
                   {"optimizer.lr.steps", 4},
                   {"optimizer.weight_decay", 0.02},
                   {"optimizer.mu_product", 0.3}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        dlr_view v = dlr_exec_variable(exec, numbers[i].name);
        if (v.type) dlr_state_write(exec, v, DL_F64, &numbers[i].value);
    }
}

/* Parameters away from where they start: a weight of zeros, or one of ones, hides faults
 * after it. */
static bool move_weights(dlr_exec *exec, uint64_t seed, dl_error *err) {
    const dl_plan *p = dlr_exec_plan(exec);
    for (int i = 0; i < p->vars.n; i++) {
        if (p->vars.at[i].role != DL_VAR_PARAM) continue;
        dlr_view v = dlr_exec_variable(exec, p->vars.at[i].name);
        int64_t n = dl_type_count(v.type);
        double *x = calloc((size_t)n + 1, sizeof *x), squares = 0;
        if (!x) return dl_fail(err, DL_RESOURCE, "no memory for the weights");
        dlr_state_read(exec, v, DL_F64, x);
        for (int64_t k = 0; k < n; k++) squares += x[k] * x[k];
        double by =
            sqrt(3) * (0.1 * sqrt(squares / (double)(n ? n : 1)) + 0.01); /* a deviation's width */
        for (int64_t k = 0; k < n; k++)
            x[k] += by * dl_verify_uniform(seed + 0x100u * (unsigned)i, (uint64_t)k);
        dlr_state_write(exec, v, DL_F64, x);
        free(x);
    }
    return true;
}

static bool fill(dlr_exec *exec, void *user, dl_error *err) {
    const filling *f = user;
    if (!dl_fill_synthetic(exec, &f->classes, f->seed, err) || !move_weights(exec, f->seed, err))
        return false;
    set_numbers(exec);
    return true;
}

/* The compiler's passes, on what is to be judged. The scaler of a loss is the optimiser's:
 * gradients alone are those of the loss. */
static bool run_passes(dl_module *m, const char *names, void *user, dl_error *err) {
    const filling *f = user;
    dl_pass_ctx ctx = {.arena = m->arena, .err = err};
    if (strstr(names, "optimizer")) ctx.step_options = f->step_options;
    return dl_run_passes(m, names, &ctx, (dl_pass_options){0});
}

/* ---- what is said ---- */

typedef struct {
    dl_arena *arena;
    const dl_console *out;
    dl_verdict all;     /* of everything: judged, faults, skipped */
    bool json, kernels; /* kernels alone */
} report;

static void add(report *r, const dl_verdict *v) {
    for (int i = 0; i < v->faults.n; i++) {
        if (!r->json) dl_console_text(r->out, "  OFF  %s\n", v->faults.at[i]);
        dl_push(r->arena, &r->all.faults, v->faults.at[i]);
    }
    for (int i = 0; i < v->skipped.n; i++) dl_push(r->arena, &r->all.skipped, v->skipped.at[i]);
    r->all.judged.kernels += v->judged.kernels, r->all.judged.gradients += v->judged.gradients;
    r->all.judged.updates += v->judged.updates, r->all.judged.composites += v->judged.composites;
    r->all.judged.guards += v->judged.guards;
}

static void print_judged(const report *r) {
    const dl_judged *j = &r->all.judged;
    dl_console_text(r->out,
                    "  judged: %d kernels between %d guard zones, %d ops by their own meaning, %d "
                    "gradients, %d "
                    "updates\n",
                    j->kernels, j->guards, j->composites, j->gradients, j->updates);
    for (int i = 0; i < r->all.skipped.n; i++)
        dl_console_text(r->out, "  not judged: %s\n", r->all.skipped.at[i]);
}

static void put_texts(dl_buf *b, const char *key, int n, char *const *texts) {
    dlr_json_put_key(b, key), dl_puts(b, "[");
    for (int i = 0; i < n; i++) dl_puts(b, i ? ", " : ""), dlr_json_put_string(b, texts[i]);
    dl_puts(b, "]");
}

static void print_json(const report *r, const dl_session *s, const char *target) {
    dl_buf b = {0};
    const dl_judged *j = &r->all.judged;
    dl_puts(&b, "{"), dlr_json_put_key(&b, "model"), dlr_json_put_string(&b, s->model_path);
    dlr_json_put_key(&b, "config"), dlr_json_put_string(&b, s->config->name);
    dlr_json_put_key(&b, "target"), dlr_json_put_string(&b, target);
    dl_putf(&b, ", \"batch\": %lld", (long long)s->batch);
    dl_putf(
        &b,
        ", \"judged\": {\"kernels\": %d, \"gradients\": %d, \"updates\": %d, \"composites\": %d, "
        "\"guards\": %d}",
        j->kernels, j->gradients, j->updates, j->composites, j->guards);
    put_texts(&b, "not_judged", r->all.skipped.n, r->all.skipped.at);
    put_texts(&b, "off", r->all.faults.n, r->all.faults.at);
    dl_console_text(r->out, "%s}\n", b.at);
    dl_buf_free(&b);
}

/* ---- what is judged ---- */

/* Kernels of one graph, in order, each on what the compiled ones before it left. */
static bool verify_kernels(report *r, const dl_graph *g, const dl_plan *plan,
                           const dl_verify_run *run, dl_error *err) {
    dl_verdict v = {0};
    if (!dl_verify_kernels(r->arena, g, plan, run, &v, err)) return false;
    add(r, &v);
    if (!r->json)
        dl_console_text(
            r->out,
            "  %-5s %3d kernels, %d results: at most %.2f of what float32's rounding allows%s%s\n",
            g->name, g->nodes.n, v.compared, v.worst, v.worst_of ? ", by " : "",
            v.worst_of ? v.worst_of : "");
    return true;
}

/* The graphs of one name compared with the model as the front end built it. */
static bool verify_meaning(report *r, const dl_verify_graphs *graphs, const dl_plan *plan,
                           const dl_verify_run *run, const dl_step_options *step_options,
                           dl_rules **rules, dl_error *err) {
    const dl_graph *written = graphs->written;
    dl_verdict v = {.rules = *rules};
    double *float32 = DL_NEWS(r->arena, double, written->results.n + 1);
    if (!dl_verify_meaning(r->arena, graphs, plan, run, step_options, &v, float32, err))
        return false;
    *rules = v.rules;
    add(r, &v);
    for (int i = 0; i < written->results.n && !graphs->derived && !r->json; i++) {
        const dl_result *of = &written->results.at[i];
        if (float32[i] == float32[i])
            dl_console_text(r->out,
                            "       %s \"%s\" compared with the model as written, in double "
                            "precision: relative "
                            "error %.2e\n",
                            dl_result_roles[of->role], of->name, float32[i]);
    }
    return true;
}

static bool is_composite(const dl_node *n) { return n->op != DL_OP_grad; }

/* Lowers the ops `grad`, and the composites that they differentiate, of a model as written; all
 * composites if some draw random numbers, since these are numbered in order. */
static bool expand_gradients(dl_module *m, dl_error *err) {
    dl_pass_ctx ctx = {.arena = m->arena, .err = err, .keeps = is_composite};
    bool any = false;
    for (int i = 0; i < m->graphs.n; i++)
        for (int k = 0; k < m->graphs.at[i]->nodes.n; k++) {
            const dl_node *n = m->graphs.at[i]->nodes.at[k];
            any |= n->op == DL_OP_grad;
            if (dl_reference_draws(n)) ctx.keeps = NULL;
        }
    return !any || dl_run_passes(m, "lower", &ctx, (dl_pass_options){0});
}

enum { AS_WRITTEN, DERIVED, DERIVATIVES, NWRITTEN };

/* All of it. `written`: sessions of the same model; the second becomes its gradients, the third is
 * for those in its text. */
static bool verify_all(report *r, const dl_session *s, const dl_plan *p,
                       dl_session *const written[NWRITTEN], const dl_verify_run *run,
                       const dl_compile_options *opt, dl_error *err) {
    const dl_step_options *step_options = &opt->step_options;
    filling *with = run->user;
    dl_rules *rules = NULL;
    bool ok = true;
    for (int g = 0; ok && g < s->module->graphs.n; g++)
        ok = verify_kernels(r, s->module->graphs.at[g], p, run, err);
    if (ok && r->kernels) {
        char *why =
            dl_strdup(r->arena, "ops, gradients and updates: --kernels asks for kernels alone");
        dl_push(r->arena, &r->all.skipped, why);
    }
    if (!ok || r->kernels) return ok;
    ok = run->passes(written[DERIVED]->module, "lower,simplify,autodiff", run->user, err) &&
         expand_gradients(written[AS_WRITTEN]->module, err);
    for (int g = 0; ok && g < s->module->graphs.n; g++) {
        const char *name = s->module->graphs.at[g]->name;
        bool trains = strcmp(name, "train") == 0;
        dl_verify_graphs graphs = {dl_module_graph(written[AS_WRITTEN]->module, name),
                                   trains ? dl_module_graph(written[DERIVED]->module, name) : NULL,
                                   s->module->graphs.at[g]};
        ok = verify_meaning(r, &graphs, p, run, step_options, &rules, err);
    }
    dl_verdict updates = {0};
    ok = ok && dl_verify_derivatives(r->arena, written[DERIVATIVES]->module, "train", p, run,
                                     &updates, err);
    ok = ok && (opt->nobjectives || dl_verify_updates(r->arena, step_options, run, &updates, err));
    for (int i = 0; ok && i < opt->nobjectives; i++) {
        with->step_options = opt->objectives[i].own;
        ok = dl_verify_updates(r->arena, &opt->objectives[i].own, run, &updates, err);
    }
    add(r, &updates);
    return ok;
}

/* `tiny` where the model's YAML has it and nobody asked for another. */
static dl_session *open_session(const dl_invocation *call, dl_error *err) {
    static const char *const tiny[] = {"--config=tiny", "--local_batch_size=1"};
    if (!dl_config_option(call->config, "config")) {
        dl_error none = {0}; /* of a model without `tiny` */
        const dl_console silent = {0};
        dl_invocation quiet = *call;
        quiet.out = &silent;
        dl_session *s = dl_open_session_with(&quiet, 2, tiny, &none);
        if (s) return s;
    }
    return dl_reopen_session(call, 0, err);
}

/* Arrays of a large weight's size come and go by the hundred. Mapped one by one, as glibc has them,
 * each is made of fresh zero pages: a fifth of all time. From the heap, which is not given back
 * before the end, they are used again; the peak is the same. */
static void keep_memory(void) {
#ifdef __GLIBC__
    mallopt(M_MMAP_MAX, 0), mallopt(M_TRIM_THRESHOLD, INT_MAX);
#endif
}

static bool verify_on(dl_invocation *call, dl_session *s, dl_session *const written[NWRITTEN],
                      dl_error *err) {
    dl_arena *arena = call->arena;
    dl_compile_options opt;
    dl_device_choice on;
    dl_tuning tuning;
    if (!dl_device_choose(arena, dl_config_str(s->config, DL_KEY_device),
                          dl_config_option(s->config, "target"), &on, err) ||
        !dl_session_check_one_batch(s, "dlc verify", err) ||
        !dl_session_check_no_average(s, "dlc verify", err) ||
        !dl_session_options(s, on.target, &opt, err))
        return false;
    opt.out = call->out;
    if (!dl_tune(arena, s->config, on.device, &opt, &tuning, err)) return false;
    filling with = {dl_classes_find(arena, written[AS_WRITTEN]->module),
                    (uint64_t)dl_config_int(s->config, DL_KEY_seed), opt.step_options};
    dl_plan *p = dl_session_compile(s, &opt, err);
    dl_verify_run how = {
        {.threads = (int)dl_config_int(s->config, DL_KEY_threads), .device = on.device},
        fill,
        run_passes,
        &with};
    report r = {.arena = arena,
                .out = call->out,
                .json = dl_config_option(call->config, "json"),
                .kernels = dl_config_option(call->config, "kernels")};
    const char *tuned = dl_tuning_text(arena, &tuning);
    if (p && !r.json) {
        dl_console_text(r.out, "%s, configuration %s, batch %lld, %s\n",
                        dl_shown(s->arena, s->model_path), dl_shown(s->arena, s->config->name),
                        (long long)s->batch, p->target);
        if (tuned) dl_console_text(r.out, "  %s\n", tuned);
    }
    if (!p || !verify_all(&r, s, p, written, &how, &opt, err)) return false;
    int bad = r.all.faults.n;
    if (r.json) print_json(&r, s, p->target);
    if (!r.json) print_judged(&r);
    if (!r.json && bad) dl_console_text(r.out, "  %d OFF\n", bad);
    if (!r.json && !bad) dl_console_puts(r.out, "  all agree\n");
    call->status = bad ? DL_NUMERIC : DL_OK;
    return true;
}

static bool run(dl_invocation *call, dl_error *err) {
    keep_memory();
    dl_session *s = open_session(call, err), *written[NWRITTEN] = {NULL};
    bool ok = s != NULL;
    for (int i = 0; i < NWRITTEN && ok; i++) ok = (written[i] = open_session(call, err)) != NULL;
    if (ok) dl_pass_on_warnings(call, s);
    ok = ok && verify_on(call, s, written, err);
    dl_session_close(s);
    for (int i = 0; i < NWRITTEN; i++) dl_session_close(written[i]);
    return ok;
}

const dl_subcommand dl_subcommand_verify = {
    .name = "verify",
    .help = "run every compiled kernel and compare it with the interpreter",
    .usage = usage,
    .options = options,
    .takes_keys = true,
    .run = run,
};
