/* Methods that learn, and rules by which trials end early: method: bayes is better than random
 * draws on functions whose minimum is known, over many seeds; hyperband and median end the trials
 * that their papers' definitions end. */
#include <math.h>
#include <stdlib.h>

#include "frontends/yaml/sweep_file.h"
#include "tests/check.h"

static dl_arena *arena;

static const dl_sweep_file *read_text(const char *text) {
    dl_error err = {0};
    const dl_yaml *top = dl_yaml_read(arena, text, strlen(text), "s.yaml", &err);
    const dl_sweep_file *f = top ? dl_sweep_parse(arena, top, "s.yaml", &err) : NULL;
    CHECK(f, "%s", err.message);
    return f;
}

/* ---- bayes ---- */

static double number_of(const dl_yaml *values, const char *name) {
    return dl_yaml_get(values, name)->number;
}

static double sphere(const dl_yaml *v) {
    static const char *const names[] = {"a", "b", "c", "d"};
    double sum = 0;
    for (int i = 0; i < 4; i++) sum += pow(number_of(v, names[i]) - 1.2 * i, 2);
    return sum;
}

/* Branin's function, whose least value is 0.397887. */
static double branin(const dl_yaml *v) {
    const double pi = acos(-1), x = number_of(v, "x"), y = number_of(v, "y");
    return pow(y - 5.1 / (4 * pi * pi) * x * x + 5 / pi * x - 6, 2) +
           10 * (1 - 1 / (8 * pi)) * cos(x) + 10 - 0.397887;
}

/* Like a training: a rate, a number of layers, an optimiser, a momentum. */
static double training(const dl_yaml *v) {
    const char *optimizer = dl_yaml_get(v, "optimizer")->text;
    double kind = strcmp(optimizer, "lion") == 0 ? 0 : strcmp(optimizer, "adam") == 0 ? 0.3 : 1;
    return kind + pow(log10(number_of(v, "lr")) + 2.5, 2) +
           0.1 * pow(number_of(v, "layers") - 6, 2) + 20 * fabs(number_of(v, "momentum") - 0.95);
}

typedef struct {
    const char *name, *parameters;
    double (*loss)(const dl_yaml *values);
} problem;

static const problem problems[] = {
    {"sphere",
     "  a: {min: -5.0, max: 5}\n  b: {min: -5.0, max: 5}\n  c: {min: -5.0, max: 5}\n"
     "  d: {min: -5.0, max: 5}\n",
     sphere},
    {"branin", "  x: {min: -5.0, max: 10}\n  y: {min: 0.0, max: 15}\n", branin},
    {"training",
     "  lr: {distribution: log_uniform_values, min: 1.0e-6, max: 1}\n  layers: {min: 1, max: 12}\n"
     "  optimizer: {values: [sgd, adam, lion, rprop]}\n  momentum: {mu: 0.9, sigma: 0.05}\n",
     training},
};
enum { TRIALS = 80, SEEDS = 24 };

/* The least loss of a sweep's trials, one after the other. */
static double run(const problem *p, const char *method, int seed) {
    const dl_sweep_file *f =
        read_text(dl_format(arena, "method: %s\nseed: %d\nmetric: {name: loss}\nparameters:\n%s",
                            method, seed, p->parameters));
    dl_sweep_past *past = DL_NEWS(arena, dl_sweep_past, TRIALS);
    double least = INFINITY;
    for (int i = 0; f && i < TRIALS; i++) {
        const dl_sweep_history history = {i, past};
        const dl_yaml *values = dl_sweep_values(arena, f, i, &history);
        past[i] = (dl_sweep_past){values, p->loss(values)};
        least = fmin(least, past[i].loss);
    }
    return least;
}

/* In 80 trials it comes to half of random's distance from the least value (geometric mean over the
 * seeds) and is the better one in three seeds of five. */
static void test_bayes(void) {
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        double ratio = 0;
        int better = 0;
        for (int seed = 0; seed < SEEDS; seed++) {
            double bayes = run(&problems[i], "bayes", seed),
                   random = run(&problems[i], "random", seed);
            ratio += log(bayes / random) / SEEDS, better += bayes < random;
        }
        printf("%s: %.3f of random's distance, better in %d of %d seeds\n", problems[i].name,
               exp(ratio), better, SEEDS);
        CHECK(exp(ratio) < 0.5 && better >= SEEDS * 3 / 5, "%s: %g, %d", problems[i].name,
              exp(ratio), better);
    }
}

/* The first trials are those of random draws; a failed trial and one at work are no results; the
 * same history gives the same values, and a larger loss turned round is as good. */
static void test_history(void) {
    const char *text = "method: %s\nmetric: {name: loss}\nparameters:\n  x: {min: 0.0, max: 1}\n"
                       "  k: {values: [a, 2, 0.5, [1, 2]]}\n";
    const dl_sweep_file *f = read_text(dl_format(arena, text, "bayes")),
                        *random = read_text(dl_format(arena, text, "random"));
    enum { N = 40 };
    dl_sweep_past past[N];
    int in_half = 0, listed = 0;
    for (int i = 0; i < N; i++) {
        const dl_sweep_history history = {i, past};
        const dl_yaml *v = dl_sweep_values(arena, f, i, &history),
                      *again = dl_sweep_values(arena, f, i, &history);
        double x = number_of(v, "x");
        CHECK(x == number_of(again, "x"), "%d", i);
        if (i < 10)
            CHECK(x == number_of(dl_sweep_values(arena, random, i, NULL), "x"), "%d", i);
        else
            in_half += x < 0.5, listed += dl_yaml_get(v, "k")->kind == DL_YAML_LIST;
        bool good = dl_yaml_get(v, "k")->kind == DL_YAML_LIST;
        past[i] = (dl_sweep_past){v, x >= 0.5 ? NAN : x + !good};
    }
    CHECK(in_half >= 22, "of 30 values %d are where trials do not fail", in_half);
    CHECK(listed >= 15, "of 30 values %d are the good one", listed);
}

/* ---- early ends ---- */

static dl_sweep_stop rule_of(const char *text) {
    const dl_sweep_file *f =
        read_text(dl_format(arena,
                            "method: grid\nmetric: {name: loss}\nparameters: {a: {value: 1}}\n"
                            "early_terminate: {%s}\n",
                            text));
    return f ? f->stop : (dl_sweep_stop){0};
}

/* The losses of a text of digits, which falls where the digits do. */
static dl_sweep_curve curve(const char *digits) {
    int n = (int)strlen(digits);
    double *at = DL_NEWS(arena, double, n + 1);
    for (int i = 0; i < n; i++) at[i] = digits[i] == 'n' ? NAN : digits[i] - '0';
    return (dl_sweep_curve){n, at};
}

static bool stops(const dl_sweep_stop *s, const char *own, int n, const char *const *others) {
    dl_sweep_curve mine = curve(own), all[16];
    for (int i = 0; i < n; i++) all[i] = curve(others[i]);
    return dl_sweep_stops(s, &mine, n, all);
}

static void test_hyperband(void) {
    dl_sweep_stop s = rule_of("type: hyperband, min_iter: 2");
    CHECK(s.n > 3 && s.rungs[0] == 2 && s.rungs[1] == 6 && s.rungs[2] == 18 && s.eta == 3, " ");
    dl_sweep_stop by_end = rule_of("type: hyperband, max_iter: 81, s: 3, eta: 3");
    CHECK(by_end.n == 3 && by_end.rungs[0] == 3 && by_end.rungs[1] == 9 && by_end.rungs[2] == 27,
          " ");
    CHECK(!stops(&s, "9", 2, (const char *[]){"11", "11"}), "before the first rung");
    CHECK(!stops(&s, "99", 0, NULL), "the first trial goes on");
    CHECK(stops(&s, "99", 1, (const char *[]){"88"}), "the worse of two");
    CHECK(!stops(&s, "88", 1, (const char *[]){"88"}), "not worse");
    /* of four at the rung two go on: a third, rounded up */
    CHECK(!stops(&s, "44", 3, (const char *[]){"33", "66", "77"}), "the second of four");
    CHECK(stops(&s, "66", 3, (const char *[]){"33", "44", "77"}), "the third of four");
    CHECK(!stops(&s, "49", 3, (const char *[]){"33", "66", "77"}), "by its best value");
    CHECK(!stops(&s, "44", 3, (const char *[]){"3", "3", "3"}), "others that are not there yet");
    CHECK(stops(&s, "222229", 1, (const char *[]){"333331"}), "the next rung");
    CHECK(stops(&s, "nn", 1, (const char *[]){"99"}), "no number is the worst");
}

static void test_median(void) {
    dl_sweep_stop s = rule_of("type: median, min_iter: 2, min_trials: 3");
    const char *others[] = {"84", "62", "95"}; /* means to the second: 6, 4, 7 */
    CHECK(stops(&s, "97", 3, others) && !stops(&s, "96", 3, others), "the median is 6");
    CHECK(!stops(&s, "9", 3, others), "before min_iter");
    CHECK(!stops(&s, "97", 2, others), "too few others");
    CHECK(!stops(&s, "977", 3, others), "others that are not there yet");
    dl_sweep_stop usual = rule_of("type: median");
    CHECK(usual.least == 1 && usual.trials == 5, " ");
}

int main(void) {
    arena = dl_arena_new(NULL);
    test_bayes();
    test_history();
    test_hyperband();
    test_median();
    dl_arena_free(arena);
    return dl_test_end();
}
