/* `dlc verify`: every compiled kernel beside the interpreter, on the same operands; then the model's outputs
 * and loss as compiled beside the interpreter on the graph as it was written. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ir/interp.h"
#include "programs/dlc.h"
#include "programs/fill.h"
#include "runtime/exec.h"

static const dl_option options[] = {
    {"target", 0, "TARGET", "cpu (the best here), cpu:avx512, cpu:avx2, cpu:generic"},
    {"help", 'h', NULL, "this text"},
    {0},
};

static const char usage[] =
    "usage: dlc verify [MODEL.dl] [OPTION...] [--key=value...]\n\n"
    "Runs every kernel of a training and an evaluation step and compares what it stores with the reference\n"
    "interpreter (double precision, plain loops). Without --config, the configuration `tiny` is taken where "
    "there\n"
    "is one. Exit status 7 when a kernel is off.\n\n";

/* Relative L2 error that f32 sums of up to 10^5 products may show: rounding grows as the square root of their
 * number, sqrt(1e5) * 2^-24 = 2e-5. */
static const double TOLERANCE = 2e-5;

/* Row-major doubles from memory in any layout. */
static void fetch(const void *data, const dl_type *t, double *out) {
    int64_t at[DL_MAX_RANK] = {0}, n = dl_type_count(t);
    for (int64_t i = 0; i < n; i++) {
        int64_t o = dl_type_offset(t, at);
        switch (t->dtype) {
        case DL_F64: out[i] = ((const double *)data)[o]; break;
        case DL_I64: out[i] = (double)((const int64_t *)data)[o]; break;
        case DL_I32: out[i] = ((const int32_t *)data)[o]; break;
        case DL_BOOL: out[i] = ((const unsigned char *)data)[o]; break;
        default: out[i] = (double)((const float *)data)[o]; break;
        }
        for (int a = t->rank - 1; a >= 0 && ++at[a] == t->axis[a].size; a--) at[a] = 0;
    }
}

/* ||got - want|| / ||want||, NaN where one has a NaN that the other has not. */
static double relative_error(const double *got, const double *want, int64_t n) {
    double off = 0, all = 0;
    for (int64_t i = 0; i < n; i++) {
        if (got[i] == want[i] || (got[i] != got[i] && want[i] != want[i])) {
            all += want[i] - want[i] == 0 ? want[i] * want[i] : 0;
            continue;
        }
        off += (got[i] - want[i]) * (got[i] - want[i]), all += want[i] * want[i];
    }
    return off == 0 ? 0 : sqrt(off / (all > 0 ? all : 1e-300));
}

/* The same plan with every launch as a program of its own. */
static dl_plan *one_by_one(dl_arena *arena, const dl_plan *p, int program) {
    dl_plan *q = DL_NEW(arena, dl_plan);
    *q = *p;
    memset(&q->programs, 0, sizeof q->programs);
    const dl_plan_program *from = &p->programs.at[program];
    for (int i = 0; i < from->launches.n; i++) {
        dl_plan_program one = {.name = p->kernels.at[from->launches.at[i].kernel].name,
                               .results = from->results};
        dl_push(arena, &one.launches, from->launches.at[i]);
        dl_push(arena, &q->programs, one);
    }
    return q;
}

/* Kernels of one graph, in order, each on what the compiled ones before it left. */
static bool verify_kernels(dl_arena *arena, const dl_graph *g, const dl_plan *plan, int program, int threads,
                           uint64_t seed, int *bad, dl_error *err) {
    dl_plan *p = one_by_one(arena, plan, program);
    dlr_exec *exec = dlr_exec_open(p, threads, err);
    dl_interp *in = exec ? dl_interp_new(g, true) : NULL;
    bool ok = in && dlc_fill(exec, seed, err);
    double worst = 0;
    char *base = exec ? dlr_exec_arena(exec) : NULL;
    for (int i = 0; ok && i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        for (int k = 0; k < n->nin; k++) {
            double *d = dl_interp_data(in, n->in[k]);
            if (!d)
                return dl_fail(err, DL_RESOURCE,
                               "not enough memory for the interpreter; verify a smaller --data_size");
            fetch(base + n->in[k]->offset, &n->in[k]->type, d);
        }
        dlr_exec_run(exec, i, NULL);
        ok = dl_interp_node(in, n, err);
        for (int k = 0; ok && k < n->nout; k++) {
            int64_t count = dl_type_count(&n->out[k].type);
            double *got = malloc((size_t)(count ? count : 1) * sizeof(double));
            if (!got) return dl_fail(err, DL_RESOURCE, "not enough memory");
            fetch(base + n->out[k].offset, &n->out[k].type, got);
            double e = relative_error(got, dl_interp_data(in, &n->out[k]), count);
            free(got);
            if (!(e <= TOLERANCE)) {
                printf("  OFF  @%s result %d %s: relative error %.2e (%s:%d)\n", n->kernel->name, k,
                       dl_type_text(&n->out[k].type), e, dl_shown(arena, n->loc.file ? n->loc.file : "?"),
                       n->loc.line);
                ++*bad;
            }
            if (!(e <= worst)) worst = e;
        }
    }
    if (ok)
        printf("  %-5s %3d kernels, worst relative error %.2e (limit %.0e)\n", g->name, g->nodes.n, worst,
               TOLERANCE);
    dl_interp_free(in);
    dlr_exec_close(exec);
    return ok;
}

/* Outputs, losses and metrics of the eval program beside the interpreter on the graph as the front end built
 * it. */
static bool verify_meaning(const dl_graph *written, const dl_plan *plan, int threads, uint64_t seed, int *bad,
                           dl_error *err) {
    dlr_exec *exec = dlr_exec_open(plan, threads, err);
    dl_interp *in = exec ? dl_interp_new(written, false) : NULL;
    if (!in || !dlc_fill(exec, seed, err)) return false;
    for (int i = 0; i < written->vars.n; i++) {
        dlr_view v = dlr_exec_variable(exec, written->vars.at[i]->name);
        if (v.type) fetch(v.data, v.type, dl_interp_data(in, &written->vars.at[i]->value));
    }
    int program = dlr_exec_program(exec, written->name);
    dlr_exec_run(exec, program, NULL);
    bool ok = dl_interp_run(in, err);
    for (int i = 0; ok && i < written->results.n; i++) {
        const dl_result *r = &written->results.at[i];
        if (r->role == DL_RESULT_UPDATE || r->role == DL_RESULT_GRAD) continue;
        dlr_view v = dlr_exec_result(exec, program, r->role, r->name);
        int64_t count = dl_type_count(v.type);
        double *got = malloc((size_t)(count ? count : 1) * sizeof(double));
        if (!got) return dl_fail(err, DL_RESOURCE, "not enough memory");
        fetch(v.data, v.type, got);
        double e = relative_error(got, dl_interp_data(in, r->value), count);
        free(got);
        printf("  %s  %s \"%s\" of the model as written: relative error %.2e\n",
               e <= TOLERANCE ? "ok " : "OFF", dl_result_roles[r->role], r->name, e);
        *bad += !(e <= TOLERANCE);
    }
    dl_interp_free(in);
    dlr_exec_close(exec);
    return ok;
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
        if (c && c->positional.n == 1 && !dl_config_set(c, "model", c->positional.at[0], &err)) c = NULL;
        if (c) s = dl_session_open(arena, c, 1, NULL, &err);
        if (s) return s;
        err = (dl_error){0};
    }
    dl_config *c = dl_config_open(arena, argc, argv, options, &err);
    if (c) return dlc_session(arena, c, code);
    *code = dlc_fail(&err);
    return NULL;
}

int dlc_verify(dl_arena *arena, int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return dlc_help(usage, options, true);
    int code = 0, bad = 0;
    dl_error err = {0};
    dl_session *s = open_session(arena, argc, argv, &code),
               *written = s ? open_session(arena, argc, argv, &code) : NULL;
    if (!written) return code;
    dl_compile_options opt;
    if (!dl_session_options(s, dl_config_option(s->config, "target"), &opt, &err)) return dlc_fail(&err);
    opt.warn = dlc_warn;
    dl_plan *p = dl_session_compile(s, &opt, &err);
    int threads = (int)dl_config_int(s->config, DL_KEY_threads);
    uint64_t seed = (uint64_t)dl_config_int(s->config, DL_KEY_seed);
    bool ok = p != NULL;
    if (ok)
        printf("%s, configuration %s, batch %lld, %s\n", dl_shown(s->arena, s->model_path),
               dl_shown(s->arena, s->config->name), (long long)s->batch, p->target);
    for (int g = 0; ok && g < s->module->graphs.n; g++)
        ok = verify_kernels(arena, s->module->graphs.at[g], p, g, threads, seed, &bad, &err);
    ok = ok && verify_meaning(dl_module_graph(written->module, "eval"), p, threads, seed, &bad, &err);
    dl_session_close(s);
    dl_session_close(written);
    if (!ok) return dlc_fail(&err);
    printf(bad ? "  %d OFF\n" : "  all agree\n", bad);
    return bad ? DL_NUMERIC : 0;
}
