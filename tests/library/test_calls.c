/* Calls that cannot be done: each reports a code and a sentence, and the model goes on as before.
 */
#include <stdlib.h>
#include <sys/stat.h>

#include "tests/library/fixture.h"

static float x[4][3] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {-1, 0, 1}}, t[4][2], y[4][2];

/* ---- dlc_open ---- */

static void test_paths(void) {
    dlc_status s;
    dlc_options o = fixture_options(4, 0);
    FAILS(dlc_open(NULL, &o, &s) != NULL, s, 2, "no path");
    FAILS(dlc_open("", &o, &s) != NULL, s, 2, "no path");
    FAILS(dlc_open("/nowhere/at/all", &o, &s) != NULL, s, 4, "/nowhere/at/all");
    FAILS(dlc_open("/nowhere/at/all.dl", &o, &s) != NULL, s, 4, "/nowhere/at/all.dl");
    FAILS(dlc_open(fixture_dir, &o, &s) != NULL, s, 3, "no directory of a run");
    FAILS(dlc_open(fixture_file("a.txt", "abc\n"), &o, &s) != NULL, s, 2, "a.txt");
    const char *run = fixture_path("empty_run");
    char inner[300];
    snprintf(inner, sizeof inner, "%s/checkpoints", run);
    CHECK(mkdir(run, 0777) == 0 && mkdir(inner, 0777) == 0, "a run");
    FAILS(dlc_open(run, &o, &s) != NULL, s, 3, "no checkpoint");
    CHECK(!dlc_open("/nowhere", NULL, NULL), "without options and status");
}

static char logged[4000];

static void take_log(void *context, int level, const char *text) {
    CHECK(context == logged && level >= DLC_LOG_INFO && level <= DLC_LOG_DIAGNOSTICS, "%d", level);
    if (level == DLC_LOG_DIAGNOSTICS) snprintf(logged, sizeof logged, "%s", text);
}

static void test_faulty_models(void) {
    dlc_status s;
    dlc_options o = fixture_options(4, 1);
    o.log = take_log, o.log_context = logged;
    const char *path = fixture_file("faulty.dl", "model A():\n    input x: f32[N, C=3]\n"
                                                 "    y = x |> linaer(2)\n    output y\n");
    FAILS(dlc_open(path, &o, &s) != NULL, s, 3, "");
    CHECK(!strchr(logged, 27), "no colours, on a terminal either: %s", logged);
    CHECK(strstr(logged, "linaer") && strstr(logged, "faulty.dl:3"), "located: %s", logged);
    o.log = NULL;
    FAILS(dlc_open(path, &o, &s) != NULL, s, 3, "");
    FAILS(dlc_open(fixture_file("none.dl", ""), &o, &s) != NULL, s, 3, "");
    path = fixture_file("lossless.dl", "model A():\n    input x: f32[N, C=3]\n"
                                       "    output x |> linear(2)\n");
    FAILS(dlc_open(path, &o, &s) != NULL, s, 3, "loss");
    path = fixture_file("whole.dl", "model A():\n    input x: f32[C=3]\n    input z: f32[N, C=3]\n"
                                    "    y = x + z\n    output y\n    loss = mean(y)\n");
    FAILS(dlc_open(path, &o, &s) != NULL, s, 3, "samples");
}

static void test_options(void) {
    dlc_status s;
    const char *path = fixture_file("options.dl", LINEAR);
    dlc_options o = fixture_options(4, 0);
    const size_t sizes[] = {0, 1, 7, 9, sizeof o - 1, sizeof o + 1, (1 << 16) + 8, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        o.size = sizes[i];
        FAILS(dlc_open(path, &o, &s) != NULL, s, 2, "dlc_options.size");
    }
    /* An earlier header ended before `train`: what stands there is not the caller's option. */
    o = fixture_options(4, 1), o.size = offsetof(dlc_options, train);
    dlc_model *m = fixture_open(path, &o);
    FAILS(dlc_save(m, fixture_dir, &s), s, 2, "train = 1");
    dlc_close(m);
    struct {
        dlc_options o;
        void *more;
    } later = {.o = fixture_options(4, 0)};
    later.o.size = sizeof later;
    dlc_close(fixture_open(path, &later.o));
    later.more = &later;
    FAILS(dlc_open(path, &later.o, &s) != NULL, s, 2, "lacks options");
    o = fixture_options(-1, 0);
    FAILS(dlc_open(path, &o, &s) != NULL, s, 2, "must not be negative");
    o = fixture_options(4, 0), o.threads = -1;
    FAILS(dlc_open(path, &o, &s) != NULL, s, 2, "must not be negative");
    o = fixture_options(4, 0), o.device = "toaster";
    FAILS(dlc_open(path, &o, &s) != NULL, s, 2, "toaster");
    o = fixture_options(INT64_MAX, 0);
    FAILS(dlc_open(path, &o, &s) != NULL, s, 2, "batch");
    static const char *const wrong[][2] = {{"leanring_rate=1"}, {"lr=fast"}, {"=1"}, {""}, {"C=4"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        o = fixture_options(4, 0), o.settings = wrong[i];
        FAILS(dlc_open(path, &o, &s) != NULL, s, 2, "");
        CHECK(*s.message, "%s: a sentence", *wrong[i]);
    }
    static const char *const means[][2] = {{"ema=0.9"}, {"swa=2"}};
    for (size_t i = 0; i < 2; i++) {
        o = fixture_options(4, 1), o.settings = means[i];
        FAILS(dlc_open(path, &o, &s) != NULL, s, 2, "the library keeps no mean of the weights");
        o.train = 0;
        dlc_close(fixture_open(path, &o));
    }
    o = fixture_options(4, 0), o.config_file = "/nowhere.yaml";
    FAILS(dlc_open(path, &o, &s) != NULL, s, 4, "/nowhere.yaml");
    o.config_file = NULL, o.config_name = "nobody";
    FAILS(dlc_open(path, &o, &s) != NULL, s, 2, "nobody");
}

/* A plan is opened next to a network, for predictions alone; check_library.py has one that fits. */
static void test_plans(void) {
    dlc_status s;
    const char *path = fixture_file("planned.dl", LINEAR),
               *no = fixture_file("no.dlp", "no plan\n");
    dlc_options o = fixture_options(4, 0);
    FAILS(dlc_open(no, &o, &s) != NULL, s, 2, "dlc_options.plan");
    o.plan = no;
    FAILS(dlc_open(path, &o, &s) != NULL, s, 3, "no.dlp");
    FAILS(dlc_open(no, &o, &s) != NULL, s, 2, "dlc_options.plan");
    CHECK(chmod(no, 0666) == 0, "chmod");
    FAILS(dlc_open(path, &o, &s) != NULL, s, 6, "no.dlp");
    o.plan = "/nowhere.dlp";
    FAILS(dlc_open(path, &o, &s) != NULL, s, 4, "/nowhere.dlp");
    o.plan = fixture_dir;
    FAILS(dlc_open(path, &o, &s) != NULL, s, 3, "");
    o.plan = no, o.train = 1;
    FAILS(dlc_open(path, &o, &s) != NULL, s, 2, "for training without it");
}

/* ---- calls of an open model ---- */

static void test_nothing(void) {
    dlc_status s;
    double loss;
    const void *in[] = {x, t};
    void *out[] = {y};
    dlc_tensor d;
    dlc_close(NULL);
    CHECK(dlc_count(NULL, DLC_INPUT) == 0 && !dlc_describe(NULL, DLC_INPUT, 0, &d) &&
              dlc_memory(NULL) == 0,
          "no model");
    FAILS(dlc_predict(NULL, 4, in, out, &s), s, 2, "model is NULL");
    FAILS(dlc_train_step(NULL, 4, in, &loss, &s), s, 2, "model is NULL");
    FAILS(dlc_evaluate(NULL, 4, in, &loss, NULL, &s), s, 2, "model is NULL");
    FAILS(dlc_get(NULL, "l.bias", y, 8, &s), s, 2, "model is NULL");
    FAILS(dlc_set(NULL, "l.bias", y, 8, &s), s, 2, "model is NULL");
    FAILS(dlc_save(NULL, fixture_dir, &s), s, 2, "model is NULL");
    CHECK(!dlc_predict(NULL, 4, NULL, NULL, NULL) && !dlc_get(NULL, NULL, NULL, 0, NULL),
          "without status");
    CHECK_STR(dlc_version(), DL_VERSION);
}

static void test_describe(const dlc_model *m) {
    dlc_tensor d;
    const int counts[] = {1, 1, 1, 2, 2};
    for (int role = DLC_INPUT; role <= DLC_PARAMETER; role++) {
        CHECK(dlc_count(m, role) == counts[role], "role %d: %d", role, dlc_count(m, role));
        CHECK(!dlc_describe(m, role, -1, &d) && !dlc_describe(m, role, counts[role], &d) &&
                  !dlc_describe(m, role, INT32_MAX, &d) && !dlc_describe(m, role, 0, NULL),
              "index out of range");
    }
    for (int role = -1; role < 9; role += 6)
        CHECK(dlc_count(m, (dlc_role)role) == 0 && !dlc_describe(m, (dlc_role)role, 0, &d), "role");
    CHECK(dlc_describe(m, DLC_TARGET, 0, &d) && !strcmp(d.name, "t") && d.dtype == DLC_F32 &&
              d.rank == 2 && d.shape[0] == 4 && d.shape[1] == 2 && !strcmp(d.axis[1], "C"),
          "the target");
    CHECK(dlc_describe(m, DLC_METRIC, 1, &d) && !strcmp(d.name, "mse") && d.rank == 0, "metric");
    CHECK(dlc_describe(m, DLC_PARAMETER, 0, &d) && !strcmp(d.name, "l.weight") && d.shape[0] == 2 &&
              d.shape[1] == 3,
          "%s %lld %lld", d.name, (long long)d.shape[0], (long long)d.shape[1]);
}

static void test_arrays(dlc_model *m) {
    dlc_status s;
    double loss = 5, metrics[2] = {6, 7};
    const void *in[] = {x, t}, *no_input[] = {NULL, t}, *no_target[] = {x, NULL};
    void *out[] = {y}, *no_output[] = {NULL};
    FAILS(dlc_predict(m, -1, in, out, &s), s, 2, "-1 samples");
    FAILS(dlc_predict(m, 4, NULL, out, &s), s, 2, "NULL");
    FAILS(dlc_predict(m, 4, in, NULL, &s), s, 2, "NULL");
    FAILS(dlc_predict(m, 4, no_input, out, &s), s, 2, "'x' is NULL");
    FAILS(dlc_predict(m, 4, in, no_output, &s), s, 2, "'y' is NULL");
    CHECK(dlc_predict(m, 0, NULL, NULL, &s) == 1 && s.code == 0, "no samples: %s", s.message);
    FAILS(dlc_train_step(m, 4, NULL, &loss, &s), s, 2, "NULL");
    FAILS(dlc_train_step(m, 4, no_input, &loss, &s), s, 2, "'x' is NULL");
    FAILS(dlc_train_step(m, 4, no_target, &loss, &s), s, 2, "'t' is NULL");
    const int64_t others[] = {-4, 0, 3, 5, 8, INT64_MAX};
    for (int i = 0; i < 6; i++) {
        FAILS(dlc_train_step(m, others[i], in, &loss, &s), s, 2, "samples");
        if (others[i] == 8) continue;
        FAILS(dlc_evaluate(m, others[i], in, &loss, metrics, &s), s, 2, "samples");
    }
    FAILS(dlc_evaluate(m, 4, NULL, &loss, metrics, &s), s, 2, "NULL");
    FAILS(dlc_evaluate(m, 4, no_target, &loss, metrics, &s), s, 2, "'t' is NULL");
    CHECK(loss == 5 && metrics[0] == 6 && metrics[1] == 7, "nothing is written");
}

static void test_parameters(dlc_model *m) {
    dlc_status s;
    float w[6], b[2] = {3, 4}, before[2], after[2];
    CHECK(dlc_get(m, "l.bias", before, sizeof before, &s), "%s", s.message);
    FAILS(dlc_get(m, NULL, w, 24, &s), s, 2, "name is NULL");
    FAILS(dlc_get(m, "l.weight", NULL, 24, &s), s, 2, "NULL");
    FAILS(dlc_get(m, "l.weights", w, 24, &s), s, 2, "no parameter 'l.weights'");
    FAILS(dlc_get(m, "", w, 24, &s), s, 2, "no parameter");
    FAILS(dlc_get(m, "l.weight", w, 23, &s), s, 2, "24 bytes");
    FAILS(dlc_get(m, "l.weight", w, SIZE_MAX, &s), s, 2, "24 bytes");
    FAILS(dlc_set(m, "l.bias", b, 0, &s), s, 2, "8 bytes");
    FAILS(dlc_set(m, "l.bias", NULL, 8, &s), s, 2, "NULL");
    char *name = malloc(100000);
    memset(name, 'a', 99999), name[99999] = 0;
    FAILS(dlc_set(m, name, b, 8, &s), s, 2, "no parameter");
    free(name);
    CHECK(dlc_get(m, "l.bias", after, sizeof after, NULL) && !memcmp(before, after, 8),
          "as it was");
    CHECK(dlc_set(m, "l.bias", b, 8, NULL) && dlc_get(m, "l.bias", after, 8, NULL) &&
              !memcmp(b, after, 8),
          "set");
}

static void test_not_for_training(void) {
    dlc_status s;
    const void *in[] = {x, t};
    dlc_options o = fixture_options(4, 0);
    dlc_model *m = fixture_open(fixture_file("predicts.dl", LINEAR), &o);
    FAILS(dlc_train_step(m, 4, in, NULL, &s), s, 2, "train = 1");
    FAILS(dlc_evaluate(m, 4, in, NULL, NULL, &s), s, 2, "train = 1");
    FAILS(dlc_save(m, fixture_dir, &s), s, 2, "train = 1");
    dlc_close(m);
}

static void test_save(dlc_model *m) {
    dlc_status s;
    FAILS(dlc_save(m, NULL, &s), s, 2, "no directory");
    FAILS(dlc_save(m, "", &s), s, 2, "no directory");
    FAILS(dlc_save(m, "/proc/nowhere", &s), s, 4, "/proc/nowhere");
    FAILS(dlc_save(m, fixture_file("a_file", "text"), &s), s, 4, "a_file");
}

int main(void) {
    CHECK(fixture_begin(), "a folder");
    dlc_options o = fixture_options(4, 1);
    dlc_model *m = fixture_open(fixture_file("linear.dl", LINEAR), &o);
    test_paths();
    test_faulty_models();
    test_options();
    test_plans();
    test_nothing();
    if (m) test_describe(m), test_arrays(m), test_parameters(m), test_save(m);
    test_not_for_training();
    dlc_close(m);
    return fixture_end();
}
