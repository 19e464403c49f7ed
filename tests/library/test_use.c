/* Predictions, steps, parameters and checkpoints, of models whose numbers the test computes. */
#include "tests/library/fixture.h"

static const float X[8][3] = {{1, 2, 3},  {4, 5, 6}, {7, 8, 9},  {-1, 0, 1},
                              {2, -3, 4}, {0, 0, 1}, {.5, 1, 2}, {-4, 2, .25}},
                   T[8][2] = {{1, 0}, {0, 1}, {2, 2}, {-1, 1}, {3, 1}, {0, 0}, {1, 1}, {-2, .5}};
static const float W[2][3] = {{.5f, -.25f, 1}, {.125f, 2, -.5f}}, B[2] = {.75f, -1};

static dlc_model *open_linear(int64_t batch, int train) {
    dlc_options o = fixture_options(batch, train);
    dlc_model *m = fixture_open(fixture_file("linear.dl", LINEAR), &o);
    CHECK(m && dlc_set(m, "l.weight", W, sizeof W, NULL) && dlc_set(m, "l.bias", B, 8, NULL),
          "set");
    return m;
}

static void expect_linear(const float *y, int n) {
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 2; k++) {
            double want = B[k];
            for (int c = 0; c < 3; c++) want += (double)W[k][c] * X[i][c];
            CHECK_NEAR(y[2 * i + k], want, 1e-5);
        }
}

/* Fewer samples than the batch, as many, more, and no multiple of it; nothing beyond is written. */
static void test_samples(void) {
    dlc_status s;
    for (int64_t batch = 1; batch <= 8; batch += 3) {
        dlc_model *m = open_linear(batch, 0);
        for (int n = 0; n <= 7; n++) {
            float y[16];
            const void *in[] = {X};
            void *out[] = {y};
            for (int i = 0; i < 16; i++) y[i] = 77;
            CHECK(dlc_predict(m, n, in, out, &s) && s.code == 0, "%s", s.message);
            expect_linear(y, n);
            for (int i = 2 * n; i < 16; i++) CHECK(y[i] == 77, "beyond");
        }
        dlc_close(m);
    }
}

/* The loss of n samples from `first`, and its gradient. */
static double loss_of(const float w[2][3], const float b[2], int first, int n, double dw[2][3],
                      double db[2], double *mae) {
    double loss = 0;
    *mae = 0;
    for (int k = 0; k < 2; k++) db[k] = dw[k][0] = dw[k][1] = dw[k][2] = 0;
    for (int i = first; i < first + n; i++)
        for (int k = 0; k < 2; k++) {
            double e = b[k] - T[i][k];
            for (int c = 0; c < 3; c++) e += (double)w[k][c] * X[i][c];
            loss += e * e / (2 * n), *mae += fabs(e) / (2 * n), db[k] += e / n;
            for (int c = 0; c < 3; c++) dw[k][c] += e * X[i][c] / n;
        }
    return loss;
}

/* Samples that a model relates: each is predicted by itself, or in whole batches. */
static void test_related(void) {
    static const char text[] = "model Related():\n"
                               "    input x: f32[N, C=3]\n"
                               "    target t: f32[N, C=3]\n"
                               "    param w: [C] = 1.0\n"
                               "    y = x - mean(x, over=N) + w\n"
                               "    output y\n"
                               "    loss = mean((y - t)**2)\n";
    const char *path = fixture_file("related.dl", text);
    const float x[4][3] = {{1, 2, 3}, {5, 4, 3}, {0, 0, 0}, {2, 2, 2}};
    float y[4][3];
    const void *in[] = {x};
    void *out[] = {y};
    dlc_status s;
    for (int train = 0; train < 2; train++) {
        dlc_options o = fixture_options(2, train);
        dlc_model *m = fixture_open(path, &o);
        CHECK(m && dlc_predict(m, 4, in, out, &s), "%s", s.message);
        for (int i = 0; m && i < 12; i++) {
            int k = i / 6 * 2, c = i % 3;
            double want = train ? 1 + (double)(x[i / 3][c] - (x[k][c] + x[k + 1][c]) / 2) : 1;
            CHECK(fabs((double)y[i / 3][c] - want) < 1e-6, "train %d, %d: %g", train, i,
                  (double)y[i / 3][c]);
        }
        if (train) FAILS(dlc_predict(m, 3, in, out, &s), s, 2, "no multiple of the batch, 2");
        if (!train) CHECK(m && dlc_predict(m, 3, in, out, &s), "%s", s.message);
        dlc_close(m);
    }
}

/* Outputs without samples are of each sample by itself, where a batch is one sample. */
static void test_whole(void) {
    static const char text[] = "model Whole():\n"
                               "    input x: f32[N, C=3]\n"
                               "    target t: f32[N, C=3]\n"
                               "    param w: [C] = 1.0\n"
                               "    y = x * w\n"
                               "    total = sum(y)\n"
                               "    most = max(y, over=N)\n"
                               "    output y\n"
                               "    output total\n"
                               "    output most\n"
                               "    loss = mean((y - t)**2)\n";
    const char *path = fixture_file("whole.dl", text);
    float y[5][3], total[5], most[5][3];
    void *out[] = {y, total, most};
    dlc_status s;
    for (int train = 0; train < 2; train++) {
        dlc_options o = fixture_options(train ? 1 : 4, train);
        dlc_model *m = fixture_open(path, &o);
        dlc_tensor d;
        if (!m) return;
        CHECK(dlc_describe(m, DLC_OUTPUT, 1, &d) && d.rank == 1 && d.shape[0] == 1 &&
                  !strcmp(d.axis[0], "N"),
              "a number for each sample");
        CHECK(dlc_describe(m, DLC_OUTPUT, 2, &d) && d.rank == 2 && d.shape[1] == 3 &&
                  !strcmp(d.axis[1], "C"),
              "an array for each sample");
        CHECK(dlc_predict(m, 5, (const void *[]){X}, out, &s), "%s", s.message);
        for (int i = 0; i < 5; i++) {
            CHECK_NEAR(total[i], X[i][0] + X[i][1] + X[i][2], 1e-5);
            CHECK(!memcmp(most[i], X[i], sizeof X[i]), "%d: %g", i, (double)most[i][0]);
        }
        dlc_close(m);
    }
    dlc_options o = fixture_options(4, 1);
    FAILS(dlc_open(path, &o, &s) != NULL, s, 3, "'total' is f32[]");
}

static void test_step(void) {
    dlc_status s;
    dlc_model *m = open_linear(4, 1);
    float w[2][3], b[2], y[8];
    double dw[2][3], db[2], mae, loss = 0, metrics[2] = {0};
    const void *all[] = {X, T};
    void *out[] = {y};
    double first = loss_of(W, B, 0, 4, dw, db, &mae);
    CHECK(dlc_train_step(m, 4, all, &loss, &s), "%s", s.message);
    CHECK_NEAR(loss, first, 1e-5 * first);
    CHECK(dlc_get(m, "l.weight", w, sizeof w, &s) && dlc_get(m, "l.bias", b, sizeof b, &s), "%s",
          s.message);
    for (int k = 0; k < 2; k++) {
        CHECK_NEAR(b[k], B[k] - .1 * db[k], 1e-5);
        for (int c = 0; c < 3; c++) CHECK_NEAR(w[k][c], W[k][c] - .1 * dw[k][c], 1e-5);
    }
    CHECK(dlc_set(m, "l.weight", W, sizeof W, NULL) && dlc_set(m, "l.bias", B, 8, NULL), "%s",
          s.message);
    CHECK(dlc_predict(m, 4, all, out, &s), "%s", s.message); /* the copies are fresh, too */
    expect_linear(y, 4);
    double mae8 = 0, want = 0;
    for (int half = 0; half < 2; half++)
        want += loss_of(W, B, 4 * half, 4, dw, db, &mae) / 2, mae8 += mae / 2;
    CHECK(dlc_evaluate(m, 8, all, &loss, metrics, &s), "%s", s.message);
    CHECK_NEAR(loss, want, 1e-5 * want);
    CHECK_NEAR(metrics[0], mae8, 1e-5 * mae8);
    CHECK_NEAR(metrics[1], want, 1e-5 * want);
    CHECK(dlc_evaluate(m, 8, all, NULL, NULL, NULL) && dlc_train_step(m, 4, all, NULL, NULL), "%s",
          s.message);
    dlc_close(m);
}

/* A step of two batches is that of all their samples, and one of another number is refused. */
static void test_accumulate(void) {
    static const char *const two[] = {"optimizer=sgd", "lr=0.1",       "lr_schedule=none",
                                      "momentum=0",    "accumulate=2", NULL};
    dlc_status s;
    dlc_options o = fixture_options(2, 1);
    o.settings = two;
    dlc_model *m = fixture_open(fixture_file("linear.dl", LINEAR), &o), *again;
    const void *all[] = {X, T};
    float w[2][3], b[2], its[2];
    double dw[2][3], db[2], mae, loss = 0, want = loss_of(W, B, 0, 4, dw, db, &mae);
    CHECK(m && dlc_set(m, "l.weight", W, sizeof W, NULL) && dlc_set(m, "l.bias", B, 8, NULL),
          "set");
    FAILS(dlc_train_step(m, 2, all, NULL, &s), s, 2, "a step takes exactly 4");
    CHECK(dlc_train_step(m, 4, all, &loss, &s), "%s", s.message);
    CHECK_NEAR(loss, want, 1e-6 * want);
    CHECK(dlc_get(m, "l.weight", w, sizeof w, &s) && dlc_get(m, "l.bias", b, 8, &s), "%s",
          s.message);
    for (int k = 0; k < 2; k++) {
        CHECK_NEAR(b[k], B[k] - .1 * db[k], 1e-6);
        for (int c = 0; c < 3; c++) CHECK_NEAR(w[k][c], W[k][c] - .1 * dw[k][c], 1e-6);
    }
    const char *run = fixture_path("accumulated/run");
    CHECK(dlc_save(m, run, &s), "%s", s.message);
    again = fixture_open(run, &(dlc_options){.size = sizeof o, .threads = 1, .train = 1});
    CHECK(dlc_train_step(m, 4, all, NULL, &s) && dlc_train_step(again, 4, all, NULL, &s) &&
              dlc_get(m, "l.bias", b, 8, &s) && dlc_get(again, "l.bias", its, 8, &s) &&
              !memcmp(b, its, 8),
          "a step of two batches after dlc_save: %s", s.message);
    dlc_close(again);
    dlc_close(m);
}

/* Open again: the same bits of the weights, and the same bits a step later. */
static void test_save(void) {
    dlc_status s;
    const void *all[] = {X, T};
    static const char *const adam[] = {"lr=0.05", "lr_schedule=none", NULL};
    dlc_options o = fixture_options(4, 1);
    o.settings = adam;
    dlc_model *m = fixture_open(fixture_file("linear.dl", LINEAR), &o), *again;
    const char *run = fixture_path("new/run");
    for (int i = 0; i < 3; i++) CHECK(dlc_train_step(m, 4, all, NULL, &s), "%s", s.message);
    CHECK(dlc_save(m, run, &s) && dlc_save(m, run, &s), "%s", s.message);
    again = fixture_open(run, &(dlc_options){.size = sizeof o, .threads = 1, .train = 1});
    for (int step = 0; again && step < 3; step++) {
        float a[8], b[8];
        double la = 0, lb = 0;
        for (int i = 0; i < 8; i += 6) {
            const char *name = i ? "l.bias" : "l.weight";
            size_t bytes = i ? 8 : 24;
            CHECK(dlc_get(m, name, a + i, bytes, &s) && dlc_get(again, name, b + i, bytes, &s),
                  "%s", s.message);
        }
        CHECK(memcmp(a, b, sizeof a) == 0, "the same bits after %d steps", step);
        CHECK(dlc_train_step(m, 4, all, &la, &s) && dlc_train_step(again, 4, all, &lb, &s) &&
                  la == lb,
              "%.17g %.17g", la, lb);
    }
    dlc_close(again);
    CHECK(dlc_save(m, run, &s), "once more: %s", s.message);
    again = fixture_open(run, NULL);
    float a[2], b[2];
    CHECK(dlc_get(m, "l.bias", a, 8, &s) && dlc_get(again, "l.bias", b, 8, &s) && !memcmp(a, b, 8),
          "the newest");
    dlc_close(again);
    dlc_close(m);
}

/* ---- other models ---- */

static void test_several(void) {
    static const char text[] = "model Several():\n"
                               "    input a: f32[N, C=2]\n"
                               "    input k: i32[N]\n"
                               "    input w: f32[N, C=2]\n"
                               "    target c: i64[N]\n"
                               "    target t: f32[N, C=2]\n"
                               "    y = 2 * a + (k |> one_hot(C=2) as f32)\n"
                               "    z = y |> linear(2) @l\n"
                               "    output y\n"
                               "    double = 2 * y\n"
                               "    output double\n"
                               "    loss = mean(w * (z - t)**2) + cross_entropy(z, c, over=C)\n";
    dlc_status s;
    dlc_options o = fixture_options(2, 1);
    dlc_model *m = fixture_open(fixture_file("several.dl", text), &o);
    dlc_tensor d;
    const float a[2][2] = {{1, 2}, {3, 4}}, w[2][2] = {{1, 1}, {1, 1}}, t[2][2] = {{0}};
    const int32_t k[2] = {1, 0};
    const int64_t c[2] = {0, 1};
    float y[2][2], z[2][2];
    double loss;
    const void *all[] = {a, k, w, c, t}, *few[] = {a, k, NULL};
    void *out[] = {y, z};
    if (!m) return;
    CHECK(dlc_count(m, DLC_INPUT) == 3 && dlc_count(m, DLC_TARGET) == 2 &&
              dlc_count(m, DLC_OUTPUT) == 2,
          "counts");
    CHECK(dlc_describe(m, DLC_INPUT, 1, &d) && d.dtype == DLC_I32 && d.rank == 1, "k");
    CHECK(dlc_describe(m, DLC_TARGET, 0, &d) && d.dtype == DLC_I64 && !strcmp(d.name, "c"), "c");
    CHECK(dlc_describe(m, DLC_OUTPUT, 1, &d) && !strcmp(d.name, "double"), "%s", d.name);
    CHECK(dlc_predict(m, 2, few, out, &s), "an input of the loss alone: %s", s.message);
    CHECK(y[0][0] == 2 && y[0][1] == 5 && y[1][0] == 7 && y[1][1] == 8 && z[1][1] == 16, "%g %g",
          (double)y[0][0], (double)z[1][1]);
    CHECK(dlc_train_step(m, 2, all, &loss, &s) && isfinite(loss), "%s", s.message);
    FAILS(dlc_train_step(m, 2, (const void *[]){a, k, NULL, c, t}, &loss, &s), s, 2, "'w' is NULL");
    dlc_close(m);
}

static void test_f64(void) {
    static const char text[] = "model Double():\n    input x: f64[N, C=2]\n"
                               "    output 3 * x\n    loss = mean(x)\n";
    dlc_status s;
    dlc_options o = fixture_options(2, 0);
    dlc_model *m = fixture_open(fixture_file("double.dl", text), &o);
    const double x[3][2] = {{1. / 3, 1e300}, {-1e-300, 2}, {3, 1. / 7}};
    double y[3][2];
    if (!m) return;
    CHECK(dlc_predict(m, 3, (const void *[]){x}, (void *[]){y}, &s), "%s", s.message);
    for (int i = 0; i < 6; i++)
        CHECK(y[i / 2][i % 2] == 3 * x[i / 2][i % 2], "%g", y[i / 2][i % 2]);
    dlc_close(m);
}

/* Refused before anything has run: no output is written, no step made. */
static void test_not_finite(void) {
    dlc_status s;
    float x[3][3] = {{1, 2, 3}, {4, 5, 6}, {7, 8, NAN}}, y[3][2] = {{5, 5}, {5, 5}, {5, 5}};
    float b[2], after[2];
    const float bad[2][2] = {{1, 2}, {NAN, 3}};
    const void *in[] = {x, T}, *bad_target[] = {X, bad};
    dlc_options o = fixture_options(2, 1);
    o.refuse_nan = 1;
    dlc_model *m = fixture_open(fixture_file("linear.dl", LINEAR), &o);
    FAILS(dlc_predict(m, 3, in, (void *[]){y}, &s), s, 7, "'x': element 2 of sample 2");
    CHECK(y[0][0] == 5 && y[2][1] == 5, "nothing is written");
    x[1][1] = INFINITY;
    CHECK(dlc_get(m, "l.bias", b, 8, &s), "%s", s.message);
    FAILS(dlc_train_step(m, 2, in, NULL, &s), s, 7, "element 1 of sample 1");
    FAILS(dlc_train_step(m, 2, bad_target, NULL, &s), s, 7, "'t': element 0 of sample 1");
    FAILS(dlc_evaluate(m, 2, in, NULL, NULL, &s), s, 7, "sample 1");
    CHECK(dlc_get(m, "l.bias", after, 8, &s) && !memcmp(b, after, 8), "no step");
    dlc_close(m);
    o.refuse_nan = 0;
    m = fixture_open(fixture_path("linear.dl"), &o);
    CHECK(dlc_predict(m, 3, in, (void *[]){y}, &s) && isfinite(y[0][0]) && isnan(y[2][0]), "%s",
          s.message);
    dlc_close(m);
}

int main(void) {
    CHECK(fixture_begin(), "a folder");
    test_samples();
    test_related();
    test_whole();
    test_step();
    test_accumulate();
    test_save();
    test_several();
    test_f64();
    test_not_finite();
    return fixture_end();
}
