/* Ranks of an MPI program that train together (dlc_options.mpi_comm): as one rank with all samples.
 * Built with each MPI and started by check_insitu.py; each rank prints its line. */
#include <mpi.h>

#include "tests/library/fixture.h"

enum { EACH = 2, MOST = 8, IN = 300, OUT = 301, STEPS = 5 };

/* A gradient of several messages, whose pieces are uneven. */
static const char WIDE[] = "model Wide():\n"
                           "    input x: f32[N, C=300]\n"
                           "    target t: f32[N, C=301]\n"
                           "    y = x |> linear(301) @l\n"
                           "    output y\n"
                           "    loss = mean((y - t)**2)\n"
                           "    metric most = mean(abs(y))\n";

static int rank, size;
static float x[MOST * EACH * IN], t[MOST * EACH * OUT];
static float weight[OUT * IN], other[OUT * IN];
static const char *path;

static void test_refused(MPI_Comm *world) {
    static const char *const cut[] = {"tensor_parallel=3", NULL}, *const zero[] = {"zero=1", NULL},
                             *const sums[] = {"comm_order=mpi", NULL};
    dlc_status s;
    MPI_Comm none = MPI_COMM_NULL;
    dlc_options o = fixture_options(EACH, 1);
    o.mpi_comm = &none;
    FAILS(dlc_open(path, &o, &s) != NULL, s, 2, "MPI_COMM_NULL");
    o.mpi_comm = world, o.settings = cut;
    FAILS(dlc_open(path, &o, &s) != NULL, s, 2, "tensor_parallel");
    o.settings = zero;
    FAILS(dlc_open(path, &o, &s) != NULL, s, 2, "dlrun's");
    o.settings = sums;
    FAILS(dlc_open(path, &o, &s) != NULL, s, 2, "comm_order=mpi is dlrun's");
    o = fixture_options(EACH, 1), o.mpi_comm = world;
    FAILS(dlc_open(rank == 1 ? "/nowhere" : path, &o, &s) != NULL, s, rank == 1 ? 4 : 8,
          rank == 1 ? "/nowhere" : "another rank");
    o.device = "cuda:emulated";
    FAILS(dlc_open(path, &o, &s) != NULL, s, rank ? 8 : 2, rank ? "another rank" : "CPUs");
}

static void expect_near(const float *a, const float *b, int n) {
    double most = 0;
    for (int i = 0; i < n && !isnan(most); i++) {
        const double off = fabs((double)a[i] - (double)b[i]);
        if (!(off <= most)) most = off;
    }
    CHECK(most < 1e-5, "%g apart", most);
}

/* All ranks have the same bits. */
static void expect_same(const float *a, size_t bytes) {
    memcpy(other, a, bytes);
    MPI_Bcast(other, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    CHECK(memcmp(other, a, bytes) == 0, "rank %d differs", rank);
}

static void test_training(MPI_Comm *world) {
    dlc_status s;
    dlc_options o = fixture_options((int64_t)EACH * size, 1);
    dlc_model *alone = fixture_open(path, &o);
    o.batch = EACH, o.mpi_comm = world;
    dlc_model *m = fixture_open(path, &o);
    const void *all[] = {x, t}, *mine[] = {x + rank * EACH * IN, t + rank * EACH * OUT};
    double loss, want, metric[1], metric_want[1];
    static float y[MOST * EACH * OUT];
    for (int i = 0; m && i < STEPS; i++) {
        CHECK(dlc_train_step(alone, (int64_t)EACH * size, all, &want, &s), "%s", s.message);
        CHECK(dlc_train_step(m, EACH, mine, &loss, &s), "%s", s.message);
        CHECK_NEAR(loss, want, 1e-6 * want);
    }
    CHECK(dlc_evaluate(alone, (int64_t)EACH * size, all, &want, metric_want, &s), "%s", s.message);
    CHECK(dlc_evaluate(m, EACH, mine, &loss, metric, &s), "%s", s.message);
    CHECK_NEAR(loss, want, 1e-6 * want);
    CHECK_NEAR(metric[0], metric_want[0], 1e-5);
    static float its[OUT * IN];
    CHECK(dlc_get(m, "l.weight", weight, sizeof weight, &s) &&
              dlc_get(alone, "l.weight", its, sizeof its, &s),
          "%s", s.message);
    expect_near(weight, its, OUT * IN);
    expect_same(weight, sizeof weight);
    if (rank == 0) /* alone: the others do not wait */
        CHECK(dlc_predict(m, (int64_t)EACH * size, all, (void *[]){y}, &s), "%s", s.message);
    char run[200];
    snprintf(run, sizeof run, "%s_run", path);
    CHECK(dlc_save(m, run, &s), "%s", s.message);
    dlc_close(m), dlc_close(alone);
    m = fixture_open(run, &o);
    CHECK(dlc_get(m, "l.weight", its, sizeof its, &s) && !memcmp(its, weight, sizeof its), "%s",
          s.message);
    CHECK(dlc_train_step(m, EACH, mine, &loss, &s), "%s", s.message);
    CHECK_NEAR(loss, want, 1e-5);
    FAILS(dlc_save(m, "/proc/nowhere", &s), s, rank ? 8 : 4, rank ? "another rank" : "/proc");
    dlc_close(m);
}

/* A communicator of one rank is this process alone. */
static void test_self(void) {
    MPI_Comm self = MPI_COMM_SELF;
    dlc_status s;
    dlc_options o = fixture_options(EACH, 1);
    o.mpi_comm = &self;
    dlc_model *m = fixture_open(path, &o);
    if (rank == 0)
        CHECK(dlc_train_step(m, EACH, (const void *[]){x, t}, NULL, &s), "%s", s.message);
    dlc_close(m);
}

int main(int argc, char **argv) {
    dlc_status s;
    MPI_Comm world = MPI_COMM_WORLD;
    dlc_options o = fixture_options(EACH, 1);
    path = argc > 1 ? argv[1] : "";
    o.mpi_comm = &world;
    if (argc > 2) {
        FILE *f = fopen(path, "w");
        return !f || fputs(WIDE, f) < 0 || fclose(f) != 0;
    }
    FAILS(dlc_open(path, &o, &s) != NULL, s, 2, "MPI_Init");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(world, &rank), MPI_Comm_size(world, &size);
    unsigned r = 1;
    for (int i = 0; i < size * EACH * IN; i++)
        r = r * 1664525 + 1013904223, x[i] = (float)(r >> 8) / (1 << 23) - 1;
    for (int i = 0; i < size * EACH * OUT; i++) t[i] = x[i / OUT * IN + i % IN];
    test_refused(&world);
    test_training(&world);
    test_self();
    MPI_Finalize();
    return dl_test_end();
}
