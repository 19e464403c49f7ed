/* A sweep's file: what it may say, and every mistake at its place; values and names of its trials;
 * draws next to the distributions that they are named after. */
#include <unistd.h>

#include "frontends/yaml/sweep_file.h"
#include "ir/base/dirs.h"
#include "ir/base/input.h"
#include "ir/base/output.h"
#include "tests/check.h"

static dl_arena *arena;
static char directory[] = "/tmp/dl_sweep_XXXXXX";

static const dl_sweep_file *read_text(const char *text, dl_error *err) {
    *err = (dl_error){0};
    dl_input_forget();
    CHECK(dl_write_file("s.yaml", text, strlen(text), err), "%s", err->message);
    return dl_sweep_read(arena, "s.yaml", err);
}

static const dl_sweep_file *read_ok(const char *text) {
    dl_error err;
    const dl_sweep_file *f = read_text(text, &err);
    CHECK(f, "%s", err.message);
    return f;
}

static void check_fault(const char *text, const char *want) {
    dl_error err;
    CHECK(!read_text(text, &err) && err.code == DL_INPUT, "%s: code %d", text, err.code);
    CHECK(strstr(err.message, want), "got '%s', want '%s'", err.message, want);
}

static const char *json_of(const dl_sweep_file *f, int64_t number) {
    dl_buf b = {0};
    dl_yaml_put_json(&b, dl_sweep_values(arena, f, number, NULL));
    const char *text = dl_strdup(arena, b.at);
    dl_buf_free(&b);
    return text;
}

static const char *name_of(const dl_sweep_file *f, int64_t number) {
    return dl_sweep_name(arena, f, dl_sweep_values(arena, f, number, NULL));
}

/* ---- grids and names ---- */

static void test_grid(void) {
    const dl_sweep_file *f =
        read_ok("name: my_hpo_sweep\nentity: nersc\nproject: test\nprogram: dummy\n"
                "method: grid\nmetric:\n  name: val_loss\n  goal: minimize\n"
                "parameters:\n  lr:\n    values: [1E-5, 5E-5, 1E-4]\n"
                "  batch_size:\n    values: [16, 32]\n"); /* system C's */
    if (!f) return;
    CHECK(f->trials == 6 && f->n == 2 && !f->maximize && f->warnings.n == 0, " ");
    CHECK_STR(f->metric, "val_loss");
    CHECK_STR(json_of(f, 0), "{\"lr\": 1e-05, \"batch_size\": 16}");
    CHECK_STR(json_of(f, 1), "{\"lr\": 1e-05, \"batch_size\": 32}");
    CHECK_STR(json_of(f, 5), "{\"lr\": 0.0001, \"batch_size\": 32}");
    CHECK_STR(name_of(f, 4), "lr1em4_batchsize16");
    CHECK_STR(name_of(f, 3), "lr5em5_batchsize32");

    f = read_ok(
        "method: grid\nrun_cap: 5\ncommand: [a]\nparameters:\n  a: {min: 3, max: 5}\n"
        "  b: {value: [1, 2]}\n  c_d: {values: [x/y z, true, null, [8, 0.5], 1.5, -2.5e-7, 2e10, "
        "12345.678]}\n");
    if (!f) return;
    CHECK(f->trials == 5 && !f->metric && f->warnings.n == 1, " ");
    CHECK_STR(json_of(f, 3), "{\"a\": 3, \"b\": [1, 2], \"c_d\": [8, 0.5]}");
    const char *names[] = {"a3_cdx-y-z", "a3_cdtrue",    "a3_cdnone", "a3_cd8x5em1",
                           "a3_cd1.5",   "a3_cd-2.5em7", "a3_cd2e10", "a3_cd1.235e4"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK_STR(name_of(f, (int64_t)i), names[i]);
    CHECK_STR(name_of(f, 8), "a4_cdx-y-z");
    f = read_ok("method: grid\nparameters: {a: {value: 1}}\n");
    CHECK(f && f->trials == 1, " ");
    CHECK_STR(name_of(f, 0), "trial");
}

/* ---- draws ---- */

static double even(double x, double low, double high) { return (x - low) / (high - low); }
static double cdf(const dl_sweep_parameter *p, double x) {
    switch (p->draw) {
    case DL_DRAW_INT_UNIFORM: return even(floor(x) + 1, p->low, p->high + 1);
    case DL_DRAW_LOG_UNIFORM_VALUES: return even(log(x), log(p->low), log(p->high));
    case DL_DRAW_Q_UNIFORM: return even(x + p->step / 2, p->low, p->high);
    case DL_DRAW_Q_LOG_UNIFORM_VALUES: return even(log(x + p->step / 2), log(p->low), log(p->high));
    case DL_DRAW_NORMAL: return erfc(-(x - p->low) / p->high / sqrt(2)) / 2;
    default: return even(x, p->low, p->high);
    }
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Kolmogorov and Smirnov: 1.95 / sqrt(n) is exceeded once in a thousand (and never twice: the draws
 * are fixed). At steps of a distribution the fractions of draws below and of those up to it lie
 * around its own. */
static void check_distribution(const char *parameter) {
    enum { N = 4000 };
    static double x[N];
    const dl_sweep_file *f =
        read_ok(dl_format(arena, "method: random\nseed: 7\nparameters:\n  p: {%s}\n", parameter));
    if (!f) return;
    const dl_sweep_parameter *p = &f->parameters[0];
    CHECK(f->trials == -1, " ");
    bool whole = p->whole || p->draw == DL_DRAW_INT_UNIFORM;
    int fractions = 0;
    for (int i = 0; i < N; i++) {
        const dl_yaml *v = dl_sweep_values(arena, f, i, NULL)->entries.at[0].value;
        fractions += v->kind != DL_YAML_INT;
        x[i] = v->number;
    }
    CHECK(whole ? fractions == 0 : fractions > N / 2, "%s: %d", parameter, fractions);
    qsort(x, N, sizeof *x, compare);
    double most = 0;
    for (int i = 0, next; i < N; i = next) {
        for (next = i; next < N && x[next] == x[i]; next++) {
        }
        double c = fmin(fmax(cdf(p, x[i]), 0), 1);
        most = dl_test_worse(most, fabs(c - (double)next / N));
    }
    CHECK(most < 1.95 / sqrt(N), "%s: %g", parameter, most);
    if (p->draw != DL_DRAW_NORMAL)
        CHECK(x[0] >= p->low - p->step / 2 && x[N - 1] <= p->high + p->step / 2, " ");
}

/* In 4,000 draws of the values 0 to 3 each one's number lies within five spreads of a binomial. */
static void check_shares(const char *said, const double share[4]) {
    enum { N = 4000 };
    const char *text = "method: random\nseed: 7\nparameters:\n  p: {values: [0, 1, 2, 3]%s}\n";
    const dl_sweep_file *f = read_ok(dl_format(arena, text, said));
    int drawn[4] = {0};
    for (int i = 0; f && i < N; i++)
        drawn[dl_sweep_values(arena, f, i, NULL)->entries.at[0].value->integer]++;
    for (int k = 0; f && k < 4; k++)
        CHECK(fabs(drawn[k] - N * share[k]) <= 5 * sqrt(N * share[k] * (1 - share[k])),
              "%s: %d of %d are value %d, whose share is %g", said, drawn[k], N, k, share[k]);
}

static void test_random(void) {
    check_shares("", (double[]){0.25, 0.25, 0.25, 0.25});
    check_shares(", probabilities: [0.1, 0.4, 0.2, 0.3]", (double[]){0.1, 0.4, 0.2, 0.3});
    check_shares(", probabilities: [0.3, 0, 0.7, 0]", (double[]){0.3, 0, 0.7, 0});
    check_distribution("min: 0.5, max: 2.5");
    check_distribution("min: -3, max: 4");
    check_distribution("distribution: uniform, min: 1, max: 2");
    check_distribution("distribution: log_uniform_values, min: 1e-6, max: 1e-2");
    check_distribution("min: 0, max: 10, q: 2");
    check_distribution("distribution: q_uniform, min: 0, max: 1, q: 0.05");
    check_distribution("distribution: q_log_uniform_values, min: 8, max: 512, q: 8");
    check_distribution("mu: 3, sigma: 0.5");

    const char *text =
        "method: random\nseed: %d\nrun_cap: 9\nparameters:\n  lr: {min: 1.0e-4, max: 1.0e-2}\n"
        "  opt: {values: [adam, sgd, lion], probabilities: [0.5, 0.5, 0]}\n%s";
    const dl_sweep_file *a = read_ok(dl_format(arena, text, 1, "")),
                        *b = read_ok(dl_format(arena, text, 1, "")),
                        *c = read_ok(dl_format(arena, text, 2, "")),
                        *d = read_ok(dl_format(arena, text, 1, "  k: {values: [1, 2]}\n"));
    if (!a || !b || !c || !d) return;
    CHECK(a->trials == 9, " ");
    int sgd = 0, other = 0, lion = 0, wrong = 0;
    for (int i = 0; i < 2000; i++) {
        const char *same = json_of(a, i), *longer = json_of(d, i);
        wrong += strcmp(same, json_of(b, i)) != 0 || strncmp(same, longer, strlen(same) - 1) != 0;
        other += strcmp(same, json_of(c, i)) != 0;
        sgd += strstr(same, "sgd") != NULL, lion += strstr(same, "lion") != NULL;
    }
    CHECK(wrong == 0, "%d differ by the same seed, or by a parameter more", wrong);
    CHECK(lion == 0, "%d of probability 0", lion);
    CHECK(other > 1990 && abs(sgd - 1000) < 110, "%d %d", other,
          sgd); /* 110: five spreads of a binomial */
}

/* ---- mistakes ---- */

#define GRID   "method: grid\n"
#define RANDOM "method: random\n"

static void test_faults(void) {
    check_fault("[1]\n",
                "s.yaml:1:1: error: a sweep's file is a map with method, metric, parameters");
    check_fault("method: grid\n  x: 1\n", "s.yaml:2:");
    check_fault("parameters: {a: {value: 1}}\n",
                "s.yaml:1:1: error: a sweep's file has a method: one of grid, random, bayes");
    check_fault("method: bayes\nparameters: {a: {value: 1}}\n",
                "s.yaml:1:1: error: bayes needs a metric: {name: val_loss, goal: minimize}");
    check_fault(
        "method: gird\n",
        "s.yaml:1:9: error: method must be one of grid, random, bayes, not 'gird'; did you mean "
        "'grid'?");
    check_fault(
        GRID "metrics: {}\n",
        "s.yaml:2:1: error: unknown key 'metrics' in a sweep's file; did you mean 'metric'?; it "
        "can have method, metric, parameters, run_cap, seed, early_terminate");
    check_fault(GRID, "s.yaml:1:1: error: a sweep's file has parameters");
    check_fault(GRID "parameters: {}\n", "s.yaml:2:13: error: a sweep's file has parameters");
    check_fault(GRID "metric: val_loss\n", "s.yaml:2:9: error: metric must be a map");
    check_fault(GRID "metric: {goal: minimize}\n", "s.yaml:2:9: error: metric needs the name");
    check_fault(GRID "metric: {name: x, gaol: minimize}\n",
                "s.yaml:2:19: error: unknown key 'gaol' in metric; did you mean 'goal'?");
    check_fault(GRID "metric: {name: x, goal: min}\n",
                "goal must be one of minimize, maximize, not 'min'");
    check_fault(GRID "run_cap: 0\n",
                "s.yaml:2:10: error: run_cap must be an integer of at least 1, not '0'");
    check_fault(GRID "seed: x\n", "seed must be an integer of at least 0");
#define P GRID "parameters:\n  lr: "
#define R RANDOM "parameters:\n  lr: "
    check_fault(
        P "3\n",
        "s.yaml:3:7: error: 'lr' must be a map with value, values, or min and max, not '3'");
    check_fault(P "{}\n", "s.yaml:3:3: error: 'lr' lacks value, values, or both min and max");
    check_fault(P "{vals: [1]}\n",
                "s.yaml:3:8: error: unknown key 'vals' in 'lr'; did you mean 'value'?");
    check_fault(P "{values: 3}\n",
                "s.yaml:3:16: error: values of 'lr' must be a list of at least one, not '3'");
    check_fault(P "{values: []}\n", "values of 'lr' must be a list of at least one");
    check_fault(P "{values: [1, 2, 1]}\n", "s.yaml:3:23: error: values of 'lr' have '1' twice");
    check_fault(P "{value: 1, values: [1]}\n",
                "'lr' is constant, which takes value, and has values, too");
    check_fault(P "{values: [1], min: 0}\n",
                "'lr' is categorical, which takes values (and probabilities), and has min, too");
    check_fault(
        P "{min: 0.1, max: 1}\n",
        "s.yaml:3:3: error: 'lr' is uniform, which a grid cannot go through: list its values");
    check_fault(P "{values: [1, 2], probabilities: [0.5, 0.5]}\n", "a grid takes each value once");
    check_fault(P "{min: 1, max: 9999999}\n", "more than 100000 values for a grid");
    check_fault(P "{min: 1, max: 2000}\n  b: {min: 1, max: 2000}\n",
                "s.yaml:4:3: error: this grid has more than 100000 trials");
    check_fault(P "{parameters: {x: {vals: 1}}}\n",
                "s.yaml:3:25: error: unknown key 'vals' in 'lr.x'");
    check_fault(P "{parameters: {}}\n",
                "s.yaml:3:20: error: parameters of 'lr' must be a map of keys with their values");
    check_fault(P "{parameters: {x: {value: 1}}, min: 0}\n",
                "s.yaml:3:37: error: unknown key 'min' in 'lr'");
#define E "metric: {name: x}\n" GRID "parameters: {a: {value: 1}}\nearly_terminate: "
    check_fault(GRID "parameters: {a: {value: 1}}\nearly_terminate: {type: median}\n",
                "s.yaml:1:1: error: early_terminate needs a metric");
    check_fault(E "3\n", "s.yaml:4:18: error: early_terminate must be a map with a type");
    check_fault(E "{min_iter: 3}\n", "early_terminate must be a map with a type");
    check_fault(E "{type: medain}\n", "type must be one of hyperband, median, not 'medain'; did "
                                      "you mean 'median'?");
    check_fault(E "{type: median, eta: 3}\n", "s.yaml:4:33: error: unknown key 'eta' in median");
    check_fault(E "{type: hyperband}\n",
                "s.yaml:4:18: error: hyperband takes min_iter, or max_iter");
    check_fault(E "{type: hyperband, max_iter: 27}\n",
                "hyperband takes min_iter, or max_iter and s");
    check_fault(E "{type: hyperband, min_iter: 1, max_iter: 27, s: 2}\n",
                "hyperband takes min_iter");
    check_fault(E "{type: hyperband, max_iter: 2, s: 2}\n", "max_iter is below eta");
    check_fault(E "{type: hyperband, min_iter: 1, eta: 1}\n",
                "eta must be an integer of at least 2");
    check_fault(R "{min: 1}\n", "'lr' lacks value, values, or both min and max");
    check_fault(R "{min: 1, max: x}\n", "max of 'lr' must be a number, not 'x'");
    check_fault(R "{min: 2.0, max: 1}\n",
                "s.yaml:3:13: error: min of 'lr', 2, must be below max, 1");
    check_fault(R "{distribution: log_uniform_values, min: 0, max: 1}\n",
                "min of 'lr' must be above 0: its logarithm");
    check_fault(R "{distribution: loguniform, min: 0, max: 1}\n",
                "distribution must be one of constant, categorical, int_uniform");
    check_fault(R "{distribution: q_uniform, min: 0, max: 1}\n",
                "'lr' is q_uniform and lacks q: that takes min, max and q");
    check_fault(R "{min: 0, max: 1, q: 0}\n", "q of 'lr' must be above 0");
    check_fault(R "{distribution: int_uniform, min: 0.5, max: 1}\n",
                "int_uniform: min and max must be integers");
    check_fault(R "{mu: 0, sigma: 0}\n", "sigma of 'lr' must be above 0");
    check_fault(R "{values: [1, 2], probabilities: [1]}\n",
                "probabilities of 'lr' must be a list of 2 numbers");
    check_fault(R "{values: [1, 2], probabilities: [1, -1]}\n",
                "a probability is a number of at least 0, not '-1'");
    check_fault(R "{values: [1, 2], probabilities: [0.5, 0.6]}\n",
                "probabilities of 'lr' add up to 1.1, not to 1");
    dl_error err = {0};
    CHECK(!dl_sweep_read(arena, "none.yaml", &err) && err.code == DL_IO, "%s", err.message);
}

/* ---- next to a configuration ---- */

static void check_config(const char *line, const char *parameters, dl_code code, const char *want) {
    char *argv[8] = {"prog", "--yaml_config=f.yaml"};
    int argc = 2;
    if (*line) argv[argc++] = dl_strdup(arena, line);
    dl_error err = {0};
    const dl_sweep_file *f = read_ok(dl_format(arena, RANDOM "parameters:\n  %s\n", parameters));
    CHECK(dl_write_file("f.yaml", "base: {seed: 1}\n", 16, &err), "%s", err.message);
    dl_config *c = dl_config_open(arena, argc, argv, NULL, &err);
    bool ok = f && c && dl_config_load(c, &err) && dl_config_finish(c, &err) &&
              dl_config_set(c, DL_KEY_optimizer_eps, "1e-8",
                            &err) && /* settled, and no word of the line's */
              dl_sweep_check(f, c, &err);
    CHECK(ok == (code == DL_OK) && err.code == code, "%s: %d %s", parameters, err.code,
          err.message);
    CHECK(strstr(err.message, want), "got '%s', want '%s'", err.message, want);
}

static void test_config(void) {
    check_config("", "lr: {values: [1e-4, 1e-3]}", DL_OK, "");
    check_config("", "lr_schedule.start_lr: {min: 1e-4, max: 1e-3}", DL_OK, "");
    check_config(
        "", "lrr: {value: 1}", DL_INPUT,
        "s.yaml:3:3: error: no key of this configuration, nor argument of its model, is called "
        "'lrr'; did you mean "
        "'lr'?");
    check_config("", "lr: {values: [1e-4, fast]}", DL_INPUT,
                 "s.yaml:3:23: error: lr_schedule.start_lr must be a number");
    check_config("", "num_epochs: {min: 0.5, max: 3}", DL_INPUT,
                 "s.yaml:3:21: error: num_epochs must be an integer");
    check_config("", "num_epochs: {min: 0, max: 3}", DL_INPUT,
                 "num_epochs must be an integer from 1");
    check_config("", "num_epochs: {min: 1, max: 9, q: 4}", DL_INPUT,
                 "num_epochs must be an integer from 1 to 1000000, not '0'");
    check_config("", "run_num: {values: [a, b]}", DL_INPUT, "run_num is no parameter of a sweep");
    check_config("", "lr: {value: 1}\n  start_lr: {value: 2}", DL_INPUT,
                 "s.yaml:4:3: error: 'lr' and 'start_lr' are one key");
    check_config("--lr=3", "lr: {value: 1}", DL_USAGE,
                 "--lr=3: s.yaml:3 gives 'lr' its values; leave one of them out");
    check_config("", "optimizer.rho: {values: [0.9, 0.99]}", DL_OK, "");
    check_config("", "optimizer.rho: {values: [0.9, 2]}", DL_INPUT,
                 "s.yaml:3:33: error: optimizer_rho must be");
    check_config("", "optimizer_rho: {value: 0.9}\n  optimizer.alpha: {value: 0.9}", DL_INPUT,
                 "s.yaml:4:3: error: 'optimizer_rho' and 'optimizer.alpha' are one key");
    check_config("--optimizer.alpha=0.9", "optimizer.rho: {value: 0.9}", DL_USAGE,
                 "--optimizer.alpha=0.9: ");
    check_config(
        "", "optimizer.betas: {value: [0.9, 0.99]}", DL_INPUT,
        "s.yaml:3:3: error: 'optimizer.betas' is several keys: name each by its own, adam_beta1, "
        "adam_beta2");
    check_config("", "optimizer: {values: [Adam, sgd, adam]}", DL_INPUT,
                 "s.yaml:3:35: error: values of 'optimizer' have 'adam' twice");
    check_config("", "optimizer: {values: [Adam, sgd]}", DL_OK, "");
    check_config("", "optimizer: {parameters: {rho: {min: 0.8, max: 0.9}, name: {value: sgd}}}",
                 DL_OK, "");
    check_config("", "optimizer: {parameters: {roh: {value: 0.9}}}", DL_INPUT,
                 "s.yaml:3:28: error: no key of this configuration, nor argument of its model, is "
                 "called 'optimizer.roh'");
    check_config("--start_lr=3", "lr: {value: 1}", DL_USAGE, "--start_lr=3: ");
    check_config("", "optimizer_eps: {values: [1e-8, 1e-6]}", DL_OK, "");
    check_config("--adam_eps=1e-7", "optimizer_eps: {values: [1e-8, 1e-6]}", DL_USAGE,
                 "--adam_eps=1e-7: ");
}

int main(void) {
    arena = dl_arena_new(NULL);
    if (!mkdtemp(directory) || chdir(directory)) return 1;
    test_grid();
    test_random();
    test_faults();
    test_config();
    dl_error err = {0};
    if (chdir("/") || !dl_remove_tree(directory, &err)) printf("%s\n", err.message);
    dl_arena_free(arena);
    return dl_test_end();
}
