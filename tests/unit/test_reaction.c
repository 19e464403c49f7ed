/* Random fields and what becomes of them, against what is known exactly. */
#include "dldata/reaction.h"
#include "ir/base/input.h"
#include "tests/check.h"

#include <hdf5.h>
#include <stdlib.h>
#include <unistd.h>

static dl_error err;

static reaction_setup setup(int size, int channels) {
    return (reaction_setup){.samples = 3,
                            .channels = channels,
                            .size = size,
                            .threads = 1,
                            .seed = 1,
                            .smooth = 2,
                            .time = 2,
                            .diffusivity = 1,
                            .competition = 0.5};
}

/* Each value is uniform, and neighbours are as like as the Gaussian makes them. */
static void test_draw(void) {
    enum { L = 256, N = L * L };
    reaction_setup s = setup(L, 2);
    float *x = malloc(2 * N * sizeof *x);
    double mean = 0, square = 0, across = 0;
    int tenth[10] = {0};
    CHECK(reaction_draw(&s, 0, x, &err), "%s", err.message);
    for (int i = 0; i < N; i++) {
        double v = (double)x[i] - 0.5;
        mean += v / N, square += v * v / N;
        across += v * ((double)x[(i + 4) % L + i / L * L] - 0.5) / N;
        tenth[x[i] < 1 ? (int)(x[i] * 10) : 9]++;
    }
    CHECK_NEAR(mean, 0, 0.02);
    CHECK_NEAR(square, 1 / 12.0, 0.004);
    /* Gaussian fields at distance d have correlation exp(-d^2 / 4 smooth^2); of their ranks
     * (Pearson 1907) it is 6 / pi asin(r / 2). */
    CHECK_NEAR(across / square, 6 / M_PI * asin(exp(-1) / 2), 0.05);
    for (int i = 0; i < 10; i++) CHECK_NEAR(tenth[i] / (double)N, 0.1, 0.012);
    CHECK(memcmp(x, x + N, N * sizeof *x), "the channels are equal");
    free(x);
}

static void test_evolve(void) {
    enum { L = 32, N = L * L };
    reaction_setup s = setup(L, 1);
    float *x = malloc(4 * N * sizeof *x), *t = x + 2 * N;
    /* Even fields grow by the logistic equation. */
    for (int i = 0; i < N; i++) x[i] = 0.2f;
    CHECK(reaction_evolve(&s, x, t, &err));
    CHECK_NEAR(t[0], 0.2 * exp(2) / (1 + 0.2 * (exp(2) - 1)), 1e-5);
    CHECK(t[0] == t[N - 1] && t[0] == t[N / 2 + 7]);
    /* Two alike that compete in full are one that is twice as dense. */
    s.channels = 2, s.competition = 1;
    for (int i = 0; i < 2 * N; i++) x[i] = 0.1f;
    CHECK(reaction_evolve(&s, x, t, &err));
    CHECK_NEAR(2 * t[0], 0.2 * exp(2) / (1 + 0.2 * (exp(2) - 1)), 1e-5);
    /* A faint wave grows and spreads: rate 1 - D k^2, with the k^2 of the five-point Laplacian. */
    s = setup(L, 1);
    double k2 = 2 - 2 * cos(2 * M_PI * 5 / L);
    for (int i = 0; i < N; i++) x[i] = 1e-6f * (float)(1 + cos(2 * M_PI * 5 * i / L));
    CHECK(reaction_evolve(&s, x, t, &err));
    CHECK_NEAR((double)t[0] / 1e-6, exp(2) + exp(2 * (1 - k2)), 1e-3);
    s.time = 0;
    CHECK(reaction_evolve(&s, x, t, &err) && !memcmp(x, t, N * sizeof *x));
    free(x);
}

static void test_file(const char *dir) {
    reaction_setup s = setup(16, 2);
    dl_arena *arena = dl_arena_new(NULL);
    char path[2][300];
    size_t n[2];
    char *bytes[2];
    for (int i = 0; i < 2; i++) {
        s.threads = 1 + 2 * i;
        snprintf(path[i], sizeof path[i], "%s/%d.h5", dir, i);
        CHECK(reaction_write(path[i], &s, NULL, NULL, NULL, &err), "%s", err.message);
        bytes[i] = dl_read_file(arena, path[i], 1 << 24, &n[i], &err);
    }
    CHECK(n[0] == n[1] && !memcmp(bytes[0], bytes[1], n[0]), "hangs on the number of threads");
    hid_t file = H5Fopen(path[0], H5F_ACC_RDONLY, H5P_DEFAULT),
          set = H5Dopen2(file, "t", H5P_DEFAULT);
    float t[3 * 2 * 256], x[2 * 256], again[2 * 256];
    CHECK(H5Dread(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, t) >= 0);
    CHECK(reaction_draw(&s, 1, x, &err) && reaction_evolve(&s, x, again, &err));
    CHECK(!memcmp(t + 2 * 256, again, sizeof again), "sample 1 is not where it belongs");
    H5Dclose(set), H5Fclose(file);
    dl_arena_free(arena);
}

int main(void) {
    char dir[] = "/tmp/test_reaction.XXXXXX", command[64];
    if (!mkdtemp(dir)) return 1;
    test_draw();
    test_evolve();
    test_file(dir);
    snprintf(command, sizeof command, "rm -r %s", dir);
    CHECK(system(command) == 0);
    return dl_test_end();
}
