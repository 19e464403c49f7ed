/* Every optimiser and every schedule against PyTorch in f64: the learning rate, the parameters and
 * the norms of each step, as the pass builds them and after the whole pipeline. */
#include <unistd.h>

#include "ir/interp/interp.h"
#include "ir/text/text.h"
#include "tests/check.h"
#include "tests/unit/schedule_cases.h"

enum { STEPS = 24, LONG = 200 }; /* LONG: of optimisers, by the whole pipeline */
/* A step's line: rate, weights, biases, the norms of all gradients before clipping and of all
 * weights after the step, and that of asgd's means of weights, of others of the weights. */
enum { WEIGHTS = 6, BIASES = 3, BOTH = WEIGHTS + BIASES, NUMBERS = 1 + BOTH + 3 };

static const char model[] = "graph @train {\n"
                            "  param $w = %0 : f64[K=2, J=3] init zero\n"
                            "  param $b = %1 : f64[J=3] init zero\n"
                            "  input $x = %2 : f64[K=2]\n"
                            "  %3 = mul $w, $x : f64[K=2, J=3]\n"
                            "  %4 = add %3, $b : f64[K=2, J=3]\n"
                            "  %5 = mul $x, $x : f64[K=2]\n"
                            "  %6 = sub %4, %5 : f64[K=2, J=3]\n"
                            "  %7 = mul %6, %6 : f64[K=2, J=3]\n"
                            "  %8 = mean %7 {over=[K, J]} : f64[]\n"
                            "  loss \"loss\" = %8\n"
                            "}\n";
/* The biases' norm is 0 at first, which rules by norms take for 1. */
static const double w0[WEIGHTS] = {0.5, -0.25, 0.75, 0.125, 1.0, -0.375}, b0[BIASES] = {0};
/* Squares, which a line cannot fit at the inputs of all steps: gradients stay far from rounding, by
 * which the course of a sign would be decided. */
static double input_of(int step, int k) {
    return k ? -1.25 + step % 5 * 0.25 : 0.375 + step % 7 * 0.125;
}

static const char oracle_head[] =
    "import math\n"
    "try: import torch\n"
    "except ImportError: print('none'); raise SystemExit\n"
    "from torch.optim import *\n"
    "from torch.optim.lr_scheduler import *\n"
    "import sys\n"
    "sys.path.insert(0, 'tests/oracle')\n"
    "from paper_optimizers import *\n"
    "torch.set_default_dtype(torch.float64)\n" /* of what NAdam keeps, too */
    "def ahead(schedule):\n"
    "    schedule.step()\n"
    "    return schedule\n"
    "def run(steps, make, schedule, every, clip):\n"
    "    w = torch.tensor([[0.5, -0.25, 0.75], [0.125, 1.0, -0.375]], requires_grad=True)\n"
    "    b = torch.zeros(3, requires_grad=True)\n"
    "    opt = make([w, b])\n"
    "    rates = schedule(opt)\n"
    "    for it in range(1, steps + 1):\n"
    "        x = torch.tensor([[0.375 + it % 7 * 0.125], [-1.25 + it % 5 * 0.25]])\n"
    "        rate = opt.param_groups[0]['lr']\n"
    "        opt.zero_grad()\n"
    "        ((w * x + b - x * x)**2).mean().backward()\n"
    "        norm = torch.nn.utils.clip_grad_norm_([w, b], clip or math.inf)\n"
    "        opt.step()\n"
    "        if it % every == 0: rates.step()\n"
    "        p = torch.cat([w.flatten(), b])\n"
    "        mean = torch.cat([opt.state[q].get('ax', q).flatten() for q in (w, b)])\n"
    "        norms = [norm.item(), p.norm().item(), mean.norm().item()]\n"
    "        print(repr(float(rate)), *map(repr, p.tolist() + norms))\n";

enum {
    NOPTIMIZERS = sizeof optimizer_cases / sizeof *optimizer_cases,
    NCASES = NOPTIMIZERS + sizeof schedule_cases / sizeof *schedule_cases
};
static const optimizer_case *case_at(int i) {
    return i < NOPTIMIZERS ? &optimizer_cases[i] : &schedule_cases[i - NOPTIMIZERS];
}

static int steps_of(int i) { return i < NOPTIMIZERS ? LONG : STEPS; }

/* The oracle's numbers for all cases, or false without PyTorch. */
static bool ask_oracle(double want[NCASES][LONG][NUMBERS]) {
    char path[] = "/tmp/dl_optimizers_XXXXXX";
    int fd = mkstemp(path);
    FILE *script = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!script) return false;
    fputs(oracle_head, script);
    for (int i = 0; i < NCASES; i++)
        fprintf(script, "run(%d, lambda p: %s, lambda o: %s, %d, %g)\n", steps_of(i),
                case_at(i)->make, case_at(i)->schedule, case_at(i)->every, case_at(i)->clip);
    fclose(script);
    char command[64];
    snprintf(command, sizeof command, "/usr/bin/python3 -W ignore %s", path);
    FILE *lines = access("/usr/bin/python3", X_OK) == 0 ? popen(command, "r") : NULL;
    int read = 0, all = 0;
    for (int i = 0; i < NCASES; i++) {
        const int n = steps_of(i) * NUMBERS;
        for (int k = 0; lines && k < n && fscanf(lines, "%lf", &want[i][0][0] + k) == 1; k++)
            read++;
        all += n;
    }
    if (lines) pclose(lines);
    unlink(path);
    CHECK(read == 0 || read == all, "the oracle gave %d numbers", read);
    return read > 0;
}

static double *data_of(dl_interp *run, const dl_graph *g, const char *name) {
    const dl_var *v = dl_graph_find_var(g, name);
    CHECK(v, "no variable %s", name);
    return v ? dl_interp_data(run, &v->value) : NULL;
}

static double *metric_of(dl_interp *run, const dl_graph *g, const char *name) {
    const dl_result *r = dl_graph_find_result(g, DL_RESULT_METRIC, name);
    CHECK(r && r->value->type.dtype == DL_F64, "%s", name);
    return r ? dl_interp_data(run, r->value) : NULL;
}

/* The norm of asgd's means of the weights, or where an optimiser keeps none, of the weights. */
static double mean_norm(dl_interp *run, const dl_graph *g, const double *w, const double *b) {
    const bool kept = dl_graph_find_var(g, "ax.w") != NULL;
    double sum = 0;
    if (kept) w = data_of(run, g, "ax.w"), b = data_of(run, g, "ax.b");
    for (int i = 0; i < WEIGHTS; i++) sum += w[i] * w[i];
    for (int i = 0; i < BIASES; i++) sum += b[i] * b[i];
    return sqrt(sum);
}

static int count_op(const dl_graph *g, dl_op op) {
    int n = 0;
    for (int i = 0; i < g->nodes.n; i++) n += g->nodes.at[i]->op == op;
    return n;
}

/* The gradients' norm is taken once, for clipping and for who wants to see it; nobody asked,
 * nothing is. */
static void check_norms_shared(void) {
    static const int roots[2][2] = {{0, 2}, {1, 2}}; /* [clipped][seen] */
    for (int clip = 0; clip < 2; clip++)
        for (int norms = 0; norms < 2; norms++) {
            dl_error err = {0};
            dl_module *m = dl_parse_module(NULL, model, sizeof model - 1, "optimizers", &err);
            dl_pass_ctx ctx = {.arena = m->arena,
                               .step_options = {DL_OPT_sgd, FIXED, .clip = clip, .norms = norms},
                               .err = &err};
            CHECK(dl_run_passes(m, "autodiff,optimizer", &ctx,
                                (dl_pass_options){.validate = DL_VALIDATE_PASSES}),
                  "%s", err.message);
            const dl_graph *g = m->graphs.at[0];
            CHECK(count_op(g, DL_OP_sqrt) == roots[clip][norms], "clip %d, norms %d: %d roots",
                  clip, norms, count_op(g, DL_OP_sqrt));
            CHECK(!dl_graph_find_result(g, DL_RESULT_METRIC, "grad_norm") == !norms);
            CHECK(!dl_graph_find_result(g, DL_RESULT_METRIC, "weight_norm") == !norms);
            dl_arena_free(m->arena);
        }
}

/* The distance of two numbers that a step may leave. Later a rounding may have grown: muon divides
 * by the norm of a momentum that becomes small, and sgd's largest rate diverges. */
static double bound(int step, double want) {
    return step < STEPS ? 1e-12 : 1e-8 * (1 + fabs(want));
}

static void check_case(const optimizer_case *c, const char *passes, bool norms,
                       double want[LONG][NUMBERS], int steps) {
    dl_error err = {0};
    dl_module *m = dl_parse_module(NULL, model, sizeof model - 1, "optimizers", &err);
    CHECK(m, "%s", err.message);
    dl_pass_ctx ctx = {.arena = m->arena,
                       .weights = {.kind = DL_PANEL, .width = 16},
                       .step_options = c->step_options,
                       .err = &err};
    ctx.step_options.norms = norms;
    CHECK(dl_run_passes(m, passes, &ctx, (dl_pass_options){.validate = DL_VALIDATE_PASSES}),
          "%s: %s", c->name, err.message);
    dl_graph *g = m->graphs.at[0];
    CHECK(!dl_graph_find_result(g, DL_RESULT_GRAD, NULL), "gradients are not kept");
    dl_interp *run = dl_interp_new(g, false);
    for (int i = 0; i < g->vars.n; i++) { /* what nobody sets is worth what its variable says */
        const dl_value *v = &g->vars.at[i]->value;
        for (int64_t k = 0; k < dl_type_count(&v->type); k++)
            dl_interp_data(run, v)[k] = g->vars.at[i]->init.a;
    }
    for (int i = 0; i < MOST_SETTINGS && c->set[i].name; i++)
        *data_of(run, g, c->set[i].name) = c->set[i].value;
    double *w = data_of(run, g, "w"), *b = data_of(run, g, "b");
    memcpy(w, w0, sizeof w0), memcpy(b, b0, sizeof b0);
    double *x = data_of(run, g, "x");
    const double *rate = metric_of(run, g, "Learning Rate");
    const double *grad_norm = norms ? metric_of(run, g, "grad_norm") : NULL;
    const double *weight_norm = norms ? metric_of(run, g, "weight_norm") : NULL;
    for (int step = 0; step < steps; step++) {
        x[0] = input_of(step + 1, 0), x[1] = input_of(step + 1, 1);
        CHECK(dl_interp_run(run, &err), "%s", err.message);
        CHECK(fabs(*rate - want[step][0]) <= 1e-15, "%s, step %d: rate %.17g, want %.17g", c->name,
              step + 1, *rate, want[step][0]);
        for (int i = 0; i < (norms ? BOTH + 2 : BOTH); i++) {
            double got = i < WEIGHTS ? w[i]
                         : i < BOTH  ? b[i - WEIGHTS]
                         : i == BOTH ? *grad_norm
                                     : *weight_norm;
            CHECK(fabs(got - want[step][1 + i]) <= bound(step, want[step][1 + i]),
                  "%s, step %d, number %d: %.17g, want %.17g", c->name, step + 1, i, got,
                  want[step][1 + i]);
        }
        const double mean = want[step][NUMBERS - 1];
        CHECK_NEAR(mean_norm(run, g, w, b), mean, bound(step, mean));
    }
    CHECK_NEAR(*data_of(run, g, "optimizer.step"), steps, 0);
    dl_interp_free(run);
    dl_arena_free(m->arena);
}

/* ---- the loss scaler ---- */

typedef struct {
    double p[BOTH], m[BOTH], v[BOTH]; /* weights, then biases; their moments */
    double scale;
    int good, skipped;
} scaled_run;

/* Adam by its formulas on what is left of the steps; the rate rises by all of them. Growth after 3
 * good ones. */
static void take_step(scaled_run *r, const double x[2], int step) {
    double g[BOTH] = {0}, rate = 0.05 * fmin(1, step / 7.0);
    bool finite = true;
    for (int i = 0; i < WEIGHTS; i++) {
        const int to = WEIGHTS + i % BIASES;
        double of = x[i / BIASES], y = r->p[i] * of + r->p[to] - of * of, dy = r->scale * y / 3;
        g[i] = dy * of, g[to] += dy;
    }
    for (int i = 0; i < BOTH; i++) finite = finite && isfinite(g[i]);
    if (!finite) {
        r->scale /= 2, r->good = 0, r->skipped++;
        return;
    }
    int taken = step - r->skipped;
    for (int i = 0; i < BOTH; i++) {
        double unscaled = g[i] * (1 / r->scale);
        r->m[i] = 0.9 * r->m[i] + 0.1 * unscaled,
        r->v[i] = 0.999 * r->v[i] + 0.001 * unscaled * unscaled;
        r->p[i] -= rate / (1 - pow(0.9, taken)) * r->m[i] /
                   (sqrt(r->v[i] / (1 - pow(0.999, taken))) + 1e-8);
    }
    if (++r->good == 3) r->good = 0, r->scale *= r->scale < 0x1p127 ? 2 : 1;
}

/* Scales, skipped steps and weights through infinite and undefined gradients; where a scale cannot
 * grow. */
static void check_scaler(const char *passes, double first) {
    static const double faults[STEPS] = {
        [0] = INFINITY, [1] = NAN, [9] = -INFINITY, [16] = NAN, [17] = NAN};
    dl_error err = {0};
    dl_module *m = dl_parse_module(NULL, model, sizeof model - 1, "optimizers", &err);
    dl_pass_ctx ctx = {.arena = m->arena,
                       .weights = {.kind = DL_PANEL, .width = 16},
                       .step_options = {FIXED, .low = DL_F16},
                       .err = &err};
    CHECK(dl_run_passes(m, passes, &ctx, (dl_pass_options){.validate = DL_VALIDATE_PASSES}), "%s",
          err.message);
    dl_graph *g = m->graphs.at[0];
    dl_interp *run = dl_interp_new(g, false);
    for (int i = 0; i < g->vars.n; i++)
        *dl_interp_data(run, &g->vars.at[i]->value) = g->vars.at[i]->init.a;
    double *w = data_of(run, g, "w"), *b = data_of(run, g, "b"), *x = data_of(run, g, "x");
    double *scale = data_of(run, g, "scaler.scale"), *good = data_of(run, g, "scaler.good");
    const double *used = metric_of(run, g, "loss_scale"), *skipped = metric_of(run, g, "skipped");
    CHECK(*scale == 65536 && *data_of(run, g, "optimizer.scaler.growth_interval") == 2000);
    scaled_run want = {.scale = *scale = first};
    memcpy(want.p, w0, sizeof w0), memcpy(want.p + WEIGHTS, b0, sizeof b0);
    memcpy(w, w0, sizeof w0), memcpy(b, b0, sizeof b0);
    *data_of(run, g, "optimizer.scaler.growth_interval") = 3;
    *data_of(run, g, "optimizer.lr.init") = 0.05, *data_of(run, g, "optimizer.lr.warmup") = 7;
    for (int step = 1; step <= STEPS; step++) {
        double before = want.scale, lost = want.skipped;
        x[0] = input_of(step, 0), x[1] = input_of(step, 1);
        if (faults[step - 1] != 0) x[1] = faults[step - 1];
        take_step(&want, x, step);
        CHECK(dl_interp_run(run, &err), "%s", err.message);
        CHECK(*scale == want.scale && *good == want.good &&
                  *data_of(run, g, "scaler.skipped") == want.skipped,
              "%s, step %d: scale %g, %g good steps; want %g, %d", passes, step, *scale, *good,
              want.scale, want.good);
        CHECK(*used == before && *skipped == want.skipped - lost);
        for (int i = 0; i < BOTH; i++) {
            const double got = i < WEIGHTS ? w[i] : b[i - WEIGHTS];
            CHECK(fabs(got - want.p[i]) <= 1e-12, "%s, step %d, number %d: %.17g, want %.17g",
                  passes, step, i, got, want.p[i]);
        }
    }
    CHECK(want.skipped == 5 && *data_of(run, g, "optimizer.step") == STEPS);
    dl_interp_free(run);
    dl_arena_free(m->arena);
}

/* Nothing of it where nothing is scaled, and its names are its own. */
static void check_scaler_names(void) {
    static const dl_dtype lows[] = {DL_F32, DL_BF16, DL_F16};
    for (int i = 0; i < 3; i++) {
        dl_error err = {0};
        dl_module *m = dl_parse_module(NULL, model, sizeof model - 1, "optimizers", &err);
        dl_pass_ctx ctx = {.arena = m->arena, .step_options = {FIXED, .low = lows[i]}, .err = &err};
        CHECK(dl_run_passes(m, "autodiff,optimizer", &ctx,
                            (dl_pass_options){.validate = DL_VALIDATE_PASSES}),
              "%s", err.message);
        CHECK(!dl_graph_find_var(m->graphs.at[0], "scaler.scale") == (lows[i] != DL_F16));
        CHECK(!dl_graph_find_result(m->graphs.at[0], DL_RESULT_METRIC, "skipped") ==
              (lows[i] != DL_F16));
        dl_arena_free(m->arena);
    }
    static const char taken[] = "graph @train {\n"
                                "  param $scaler.scale = %0 : f32[] init zero\n"
                                "  %1 = mul $scaler.scale, $scaler.scale : f32[]\n"
                                "  loss \"loss\" = %1\n"
                                "}\n";
    dl_error err = {0};
    dl_module *m = dl_parse_module(NULL, taken, sizeof taken - 1, "optimizers", &err);
    CHECK(m, "%s", err.message);
    dl_pass_ctx ctx = {.arena = m->arena, .step_options = {FIXED, .low = DL_F16}, .err = &err};
    CHECK(!dl_run_passes(m, "autodiff,optimizer", &ctx, (dl_pass_options){0}) &&
              err.code == DL_INPUT && strstr(err.message, "$scaler.scale"),
          "%s", err.message);
    dl_arena_free(m->arena);
}

/* Each row of both tables has a case, and is found by its name. */
static void check_coverage(void) {
    for (int row = 0; row < DL_OPT_NONE; row++) {
        int n = 0;
        for (int i = 0; i < NCASES; i++)
            n += case_at(i)->step_options.optimizer == (dl_optimizer)row;
        CHECK(n > 0, "no case for optimiser %d", row);
    }
    CHECK(dl_optimizer_find("adamw") == DL_OPT_adamw && dl_optimizer_find("adan") == -1, "find");
    CHECK(dl_schedule_find("piecewise") == DL_SCHEDULE_piecewise && dl_schedule_find("") == -1,
          "find");
#define SCHEDULE(id, help)                                                                         \
    {                                                                                              \
        int n = 0;                                                                                 \
        for (int i = 0; i < NCASES; i++)                                                           \
            n += case_at(i)->step_options.schedule == DL_SCHEDULE_##id;                            \
        CHECK(n > 0, "no case for schedule " #id);                                                 \
    }
#include "ir/base/schedules.def"
#undef SCHEDULE
}

int main(void) {
    static double want[NCASES][LONG][NUMBERS];
    check_coverage();
    check_norms_shared();
    check_scaler_names();
    for (int i = 0; i < 2; i++) {
        check_scaler(i ? dl_pipeline : "autodiff,optimizer", 65536);
        check_scaler(i ? dl_pipeline : "autodiff,optimizer", 0x1p127);
    }
    if (ask_oracle(want)) {
        for (int i = 0; i < NCASES; i++) {
            for (int norms = 0; norms < 2; norms++) {
                check_case(case_at(i), "autodiff,optimizer", norms, want[i], STEPS);
                check_case(case_at(i), dl_pipeline, norms, want[i], norms ? steps_of(i) : STEPS);
            }
        }
    } else {
        dl_test_skip("optimisers against PyTorch (no /usr/bin/python3 with torch)");
    }
    return dl_test_end();
}
