/* `dlc verify`: every compiled kernel beside the interpreter, on the same operands; then the kernels together
 * beside the graph as it was written. What is compared, and how, is verify/verify.h's part. */
#include <stdio.h>

#include "programs/device.h"
#include "programs/dlc.h"
#include "programs/fill.h"
#include "programs/tune.h"
#include "verify/verify.h"

static const dl_option options[] = {
    {"target", 0, "TARGET",
     "cpu (the best here), cpu:avx2, ..., cuda:sm_90a, ...; on a GPU, or by --device=cuda:emulated on the "
     "CPU"},
    {"help", 'h', NULL, "this text"},
    {0},
};

static const char usage[] =
    "usage: dlc verify [MODEL.dl] [OPTION...] [--key=value...]\n\n"
    "Runs every kernel of a training and an evaluation step and compares what it stores with the reference\n"
    "interpreter (double precision, plain loops): each number must lie where float32's rounding of what was\n"
    "summed can leave it, and ties within rounding may go to either side. Then compares the outputs, losses "
    "and\n"
    "metrics of the kernels with those of the model as written. Without --config, the configuration `tiny` "
    "is\n"
    "taken where there is one. Exit status 7 when something is off.\n\n";

typedef struct {
    dl_classes classes;
    uint64_t seed;
} filling;
static bool fill(dlr_exec *exec, void *user, dl_error *err) {
    const filling *f = user;
    return dlc_fill(exec, &f->classes, f->seed, err);
}

static void print_faults(const dl_verdict *v) {
    for (int i = 0; i < v->faults.n; i++) printf("  OFF  %s\n", v->faults.at[i]);
}

/* Kernels of one graph, in order, each on what the compiled ones before it left. */
static bool verify_kernels(dl_arena *arena, const dl_graph *g, const dl_plan *plan, const dl_verify_run *run,
                           int *bad, dl_error *err) {
    dl_verdict v = {0};
    if (!dl_verify_kernels(arena, g, plan, run, &v, err)) return false;
    print_faults(&v);
    printf("  %-5s %3d kernels, %d results: at most %.2f of what float32's rounding allows%s%s\n", g->name,
           g->nodes.n, v.compared, v.worst, v.worst_of ? ", by " : "", v.worst_of ? v.worst_of : "");
    *bad += v.faults.n;
    return true;
}

/* Outputs, losses, metrics and figures of the eval program beside the graph as the front end built it. */
static bool verify_meaning(dl_arena *arena, const dl_graph *written, const dl_graph *g, const dl_plan *plan,
                           const dl_verify_run *run, int *bad, dl_error *err) {
    dl_verdict v = {0};
    double *float32 = DL_NEWS(arena, double, written->results.n);
    if (!dl_verify_meaning(arena, written, g, plan, run, &v, float32, err)) return false;
    print_faults(&v);
    for (int i = 0; i < written->results.n; i++) {
        const dl_result *r = &written->results.at[i];
        if (float32[i] == float32[i])
            printf("       %s \"%s\" beside the model as written, in double precision: relative error %.2e\n",
                   dl_result_roles[r->role], r->name, float32[i]);
    }
    *bad += v.faults.n;
    return true;
}

/* `tiny` where the model's YAML has it and nobody asked for another. */
static dl_session *open_session(dl_arena *arena, int argc, char **argv, int *code) {
    bool named = false;
    for (int i = 1; i < argc; i++)
        named |= strncmp(argv[i], "--config", 8) == 0 && (argv[i][8] == '=' || !argv[i][8]);
    dl_error err = {0};
    if (!named) {
        char **more = DL_NEWS(arena, char *, argc + 3);
        memcpy(more, argv, sizeof *argv * (size_t)argc);
        more[argc] = "--config=tiny", more[argc + 1] = "--local_batch_size=1";
        dl_config *c = dl_config_open(arena, argc + 2, more, options, &err);
        dl_session *s = NULL;
        if (c && dl_config_take_model(c, &err)) s = dl_session_open(arena, c, 1, NULL, &err);
        if (s) return s;
        err = (dl_error){0};
    }
    dl_config *c = dl_config_open(arena, argc, argv, options, &err);
    if (c) return dlc_session_again(arena, c, code);
    *code = dlc_fail(&err);
    return NULL;
}

int dlc_verify(dl_arena *arena, int argc, char **argv) {
    int code = 0, bad = 0;
    dl_error err = {0};
    dl_config *c = dl_config_open(arena, argc, argv, options, &err);
    if (!c) return dlc_fail(&err);
    if (dl_config_option(c, "help")) return dlc_help(usage, options, c);
    dl_session *s = open_session(arena, argc, argv, &code),
               *written = s ? open_session(arena, argc, argv, &code) : NULL;
    if (!written) return code;
    dlc_tell_warnings(s);
    dl_compile_options opt;
    dl_device_choice on;
    if (!dl_device_choose(arena, dl_config_str(s->config, DL_KEY_device),
                          dl_config_option(s->config, "target"), &on, &err) ||
        !dl_session_options(s, on.target, &opt, &err))
        return dlc_fail(&err);
    opt.warn = dlc_warn;
    dl_tuning tuning;
    if (!dl_tune(arena, s->config, on.device, &opt, &tuning, &err)) return dlc_fail(&err);
    filling with = {dl_classes_find(arena, written->module), (uint64_t)dl_config_int(s->config, DL_KEY_seed)};
    dl_plan *p = dl_session_compile(s, &opt, &err);
    dl_verify_run run = {
        {.threads = (int)dl_config_int(s->config, DL_KEY_threads), .device = on.device}, fill, &with};
    /* The interpreter has no meaning of its own for composites: what they consist of is what is compared
     * with. */
    dl_pass_ctx lower = {.arena = arena, .err = &err};
    bool ok = p && dl_run_passes(written->module, "lower", &lower, (dl_pass_options){0});
    if (ok)
        printf("%s, configuration %s, batch %lld, %s\n", dl_shown(s->arena, s->model_path),
               dl_shown(s->arena, s->config->name), (long long)s->batch, p->target);
    if (ok && dl_tuning_text(arena, &tuning)) printf("  %s\n", dl_tuning_text(arena, &tuning));
    for (int g = 0; ok && g < s->module->graphs.n; g++)
        ok = verify_kernels(arena, s->module->graphs.at[g], p, &run, &bad, &err);
    ok = ok && verify_meaning(arena, dl_module_graph(written->module, "eval"),
                              dl_module_graph(s->module, "eval"), p, &run, &bad, &err);
    dl_session_close(s);
    dl_session_close(written);
    if (!ok) return dlc_fail(&err);
    printf(bad ? "  %d OFF\n" : "  all agree\n", bad);
    return bad ? DL_NUMERIC : 0;
}
