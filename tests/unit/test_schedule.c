/* The learning rate against values worked out by system A's own formula (Python, 17 digits). */
#include "tests/check.h"

#include "runtime/schedule.h"

static dlr_rates rates_of(dlr_schedule s) {
    dlr_rates r = {0};
    dl_error err = {0};
    CHECK(dlr_schedule_rates(&s, &r, &err), "%s", err.message);
    return r;
}

static void test_scaling(void) {
    dlr_schedule s = {2e-4, 0, "none", 128, 256, 64, 5120};
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

static void test_rate(void) {
    /* bs256_opt of system A: 20 epochs of 256 steps */
    dlr_rates r = rates_of((dlr_schedule){2e-4, 0, "sqrt", 128, 256, 64, 5120});
    CHECK_NEAR(dlr_schedule_rate(&r, 1), 3.125e-06, 1e-20);
    CHECK_NEAR(dlr_schedule_rate(&r, 127), 0.000396875, 1e-18);
    CHECK_NEAR(dlr_schedule_rate(&r, 128), 0.0004, 1e-18);
    CHECK_NEAR(dlr_schedule_rate(&r, 2688), 0.0002, 1e-18);
    CHECK_NEAR(dlr_schedule_rate(&r, 5120), 6.165332533744295e-07,
               1e-17); /* the cosine runs on behind the warm-up */
    /* base: 10 epochs of 1,024 steps; and one that ends above zero */
    r = rates_of((dlr_schedule){2e-4, 0, "sqrt", 128, 64, 64, 10240});
    CHECK_NEAR(dlr_schedule_rate(&r, 1), 0.00019999999529380594, 1e-18);
    CHECK_NEAR(dlr_schedule_rate(&r, 5120), 0.0001, 1e-18);
    CHECK_NEAR(dlr_schedule_rate(&r, 10240), 0, 0);
    r = rates_of((dlr_schedule){1e-3, 1e-4, "none", 0, 8, 8, 100});
    CHECK_NEAR(dlr_schedule_rate(&r, 50), 5.5e-4, 1e-18);
    CHECK_NEAR(dlr_schedule_rate(&r, 100), 1e-4, 1e-18);
}

static void check_refused(dlr_schedule s, const char *what) {
    dl_error err = {0};
    dlr_rates r;
    CHECK(!dlr_schedule_rates(&s, &r, &err) && err.code == DL_USAGE && strstr(err.message, what), "%s",
          err.message);
}

static void test_errors(void) {
    check_refused((dlr_schedule){1e-4, 0, "cubic", 0, 4, 4, 10}, "cubic");
    check_refused((dlr_schedule){1e-4, 0, "none", 0, 4, 4, 0}, "0 steps");
    check_refused((dlr_schedule){1e-4, 0, "none", 0, 4, 0, 10}, "base 0");
}

int main(void) {
    test_scaling();
    test_rate();
    test_errors();
    return dl_test_end();
}
