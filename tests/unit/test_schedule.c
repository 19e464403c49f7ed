/* The learning rate against values worked out by system A's own formula (Python, 17 digits). */
#include "tests/check.h"

#include <math.h>

#include "runtime/train/schedule.h"

/* System A's: start, end, scaling, warm-up, global and base batch, steps. */
static dlr_schedule of_a(double start, double end, const char *scaling, int64_t warmup,
                         int64_t global, int64_t base, int64_t steps) {
    return (dlr_schedule){.start_lr = start,
                          .end_lr = end,
                          .scaling = scaling,
                          .warmup_steps = warmup,
                          .warmup_where_scaled = true,
                          .global_batch = global,
                          .base_batch = base,
                          .steps = steps,
                          .epoch_steps = steps};
}

static dlr_rates rates_of(dlr_schedule s) {
    dlr_rates r = {0};
    dl_error err = {0};
    CHECK(dlr_schedule_rates(&s, &r, &err), "%s", err.message);
    return r;
}

static void test_scaling(void) {
    dlr_schedule s = of_a(2e-4, 0, "none", 128, 256, 64, 5120);
    CHECK_NEAR(rates_of(s).init, 2e-4, 0);
    CHECK_NEAR(rates_of(s).warmup, 0, 0); /* no scaling, no warm-up */
    s.scaling = "sqrt";
    CHECK_NEAR(rates_of(s).init, 4e-4, 1e-19);
    CHECK_NEAR(rates_of(s).warmup, 128, 0);
    s.scaling = "linear";
    CHECK_NEAR(rates_of(s).init, 8e-4, 1e-19);
    s.global_batch = 4; /* a batch below the base: the rate as written, and no warm-up */
    CHECK_NEAR(rates_of(s).init, 2e-4, 0);
    CHECK_NEAR(rates_of(s).warmup, 0, 0);
    s.scaling = "sqrt";
    CHECK_NEAR(rates_of(s).init, 2e-4, 0);
    s.global_batch = 64;
    CHECK_NEAR(rates_of(s).init, 2e-4, 0);
    CHECK_NEAR(rates_of(s).warmup, 0, 0);
}

/* System D's `Learning Rate` in its example log (example_logs/base, TensorBoard's floats), after
 * its steps. */
static void test_published(void) {
    dlr_schedule s = of_a(5e-4, 0, "none", 0, 16, 16, 30000);
    s.warmup_where_scaled = false;
    dlr_rates r = rates_of(s);
    CHECK_NEAR(dlr_schedule_cosine(&r, 2372 + 1), 0.0004923270316794515, 4e-11);
    CHECK_NEAR(dlr_schedule_cosine(&r, 23720 + 1), 5.214076372794807e-05, 4e-12);
    s.warmup_steps = 100;
    r = rates_of(s);
    CHECK_NEAR(dlr_schedule_cosine(&r, 50), 2.5e-4, 1e-18);
    CHECK_NEAR(dlr_schedule_cosine(&r, 30001), 0, 0);
}

static void test_rate(void) {
    /* bs256_opt of system A: 20 epochs of 256 steps */
    dlr_rates r = rates_of(of_a(2e-4, 0, "sqrt", 128, 256, 64, 5120));
    CHECK_NEAR(dlr_schedule_rate(&r, 1), 3.125e-06, 1e-20);
    CHECK_NEAR(dlr_schedule_rate(&r, 127), 0.000396875, 1e-18);
    CHECK_NEAR(dlr_schedule_rate(&r, 128), 0.0004, 1e-18);
    CHECK_NEAR(dlr_schedule_rate(&r, 2688), 0.0002, 1e-18);
    CHECK_NEAR(dlr_schedule_rate(&r, 5120), 6.165332533744295e-07,
               1e-17); /* the cosine runs on after the warm-up */
    /* base: 10 epochs of 1,024 steps; and one that ends above zero */
    r = rates_of(of_a(2e-4, 0, "sqrt", 128, 64, 64, 10240));
    CHECK_NEAR(dlr_schedule_rate(&r, 1), 0.00019999999529380594, 1e-18);
    CHECK_NEAR(dlr_schedule_rate(&r, 5120), 0.0001, 1e-18);
    CHECK_NEAR(dlr_schedule_rate(&r, 10240), 0, 0);
    r = rates_of(of_a(1e-3, 1e-4, "none", 0, 8, 8, 100));
    CHECK_NEAR(dlr_schedule_rate(&r, 50), 5.5e-4, 1e-18);
    CHECK_NEAR(dlr_schedule_rate(&r, 100), 1e-4, 1e-18);
}

static double value_of(const dlr_rates *r, const char *name) {
    double v = NAN;
    CHECK(dlr_rates_value(r, name, &v), "%s", name);
    return v;
}

/* System E's rate is meant for one rank, and its warm-up begins at the share of one. */
static void test_ranks(void) {
    dlr_schedule s = of_a(1e-3, 0, "none", 7, 8, 8, 100);
    s.rank_scaling = "linear", s.ranks = 1;
    dlr_rates r = rates_of(s);
    CHECK(value_of(&r, "optimizer.lr.init") == 1e-3 &&
          value_of(&r, "optimizer.lr.warmup.from") == 1);
    s.ranks = 4;
    r = rates_of(s);
    CHECK(value_of(&r, "optimizer.lr.init") == 4e-3 &&
          value_of(&r, "optimizer.lr.warmup.from") == 0.25);
    s.rank_scaling = "sqrt";
    r = rates_of(s);
    CHECK(value_of(&r, "optimizer.lr.init") == 2e-3 &&
          value_of(&r, "optimizer.lr.warmup.from") == 0.25);
    s.rank_scaling = "none";
    r = rates_of(s);
    CHECK(value_of(&r, "optimizer.lr.init") == 1e-3 &&
          value_of(&r, "optimizer.lr.warmup.from") == 1);
}

/* The arguments of the other schedules: units of steps or epochs, and ranges. */
static void test_values(void) {
    const dlr_rate_range ranges[] = {{5, 30, 1}, {30, INFINITY, 0.1}};
    dlr_schedule s = {.start_lr = 0.5,
                      .end_lr = 0.25,
                      .scaling = "none",
                      .warmup_steps = 7,
                      .global_batch = 4,
                      .base_batch = 64,
                      .steps = 25,
                      .epoch_steps = 10};
    dlr_rates r = rates_of(s);
    CHECK(value_of(&r, "optimizer.lr.init") == 0.5 && value_of(&r, "optimizer.lr.end") == 0.25 &&
          value_of(&r, "optimizer.lr.total") == 25);
    CHECK(value_of(&r, "optimizer.lr.warmup") == 7 && value_of(&r, "optimizer.lr.steps") == 10);
    CHECK(value_of(&r, "optimizer.lr.passed") == 0);
    s.by_epochs = true;
    r = rates_of(s);
    CHECK(value_of(&r, "optimizer.lr.total") == 3, "all epochs, the short one too");
    s.cosine_epochs = 8;
    r = rates_of(s);
    CHECK(value_of(&r, "optimizer.lr.total") == 8);
    s.warmup_epochs = 2, s.range = ranges, s.ranges = 2;
    r = rates_of(s);
    CHECK(value_of(&r, "optimizer.lr.warmup") == 27, "steps and epochs of it");
    CHECK(value_of(&r, "optimizer.lr.range.0.start") == 5 &&
          value_of(&r, "optimizer.lr.range.0.end") == 30);
    CHECK(value_of(&r, "optimizer.lr.range.1.factor") == 0.1 &&
          isinf(value_of(&r, "optimizer.lr.range.1.end")));
    const char *others[] = {"optimizer.lr.range.2.start", "optimizer.lr.range.-1.start",
                            "optimizer.lr.range.", "optimizer.lr.scale", "optimizer.beta1"};
    double v = 3;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CHECK(!dlr_rates_value(&r, others[i], &v) && v == 3, "%s", others[i]);
}

/* A phase's begin and length are shares of the run, of which an epoch cut short is one, too. */
static void test_phases(void) {
    const dl_rate_phase late = {.start = {.share = 1, .plus = -1}, .length = {.share = 0.5}};
    dlr_schedule s = of_a(1e-3, 0, "none", 0, 8, 8, 25);
    s.epoch_steps = 10, s.phase = &late, s.phases = 1;
    dlr_rates r = rates_of(s);
    CHECK(r.unit == 1 && r.phases == 1 && r.phase[0].start == 24 && r.phase[0].length == 12.5,
          "in steps: %g, %g", r.phase[0].start, r.phase[0].length);
    s.phases_in_epochs = true;
    r = rates_of(s);
    CHECK(r.unit == 10 && r.phase[0].start == 2 && r.phase[0].length == 1.5, "in epochs: %g, %g",
          r.phase[0].start, r.phase[0].length);
}

static void check_refused(dlr_schedule s, const char *what) {
    dl_error err = {0};
    dlr_rates r;
    CHECK(!dlr_schedule_rates(&s, &r, &err) && err.code == DL_USAGE && strstr(err.message, what),
          "%s", err.message);
}

static void test_errors(void) {
    check_refused(of_a(1e-4, 0, "cubic", 0, 4, 4, 10), "cubic");
    check_refused(of_a(1e-4, 0, "none", 0, 4, 4, 0), "0 steps");
    check_refused(of_a(1e-4, 0, "none", 0, 4, 0, 10), "base 0");
}

int main(void) {
    test_scaling();
    test_rate();
    test_published();
    test_values();
    test_ranks();
    test_phases();
    test_errors();
    return dl_test_end();
}
