/* Burgers' equation, u_t + (u^2/2)_x = nu u_xx, on a ring: a fine grid teaches a network, while it
 * runs, what a coarse grid misses; then the coarse grid runs with the network.
 *
 *     cc -O2 burgers.c $(pkg-config --cflags --libs dlc) -lm -o burgers && ./burgers
 *     mpicc -DWITH_MPI -O2 burgers.c $(pkg-config --cflags --libs dlc) -lm -o burgers
 *     mpirun -n 2 ./burgers
 *
 * Arguments: the model's file, the steps of training, a directory for the checkpoint. */
#include <dlc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef WITH_MPI
#include <mpi.h>
#endif

enum {
    FINE = 256,
    CELLS = 32, /* of the coarse grid, as in closure.dl */
    RATIO = FINE / CELLS,
    GHOSTS = 6,
    MEMBERS = 8, /* flows that are computed side by side: the samples of a step */
    LIFE = 100   /* steps after which a flow begins anew */
};
static const double NU = 0.02, DT = 0.02, TWO_PI = 6.283185307179586;

static int rank;

static void stop(const dlc_status *status) {
    fprintf(stderr, "rank %d: %s\n", rank, status->message);
#ifdef WITH_MPI
    MPI_Abort(MPI_COMM_WORLD, status->code);
#endif
    exit(status->code);
}

/* ---- the solver ---- */

/* One step of n cells by Heun's method in `parts` parts; `add`: a tendency, or NULL. */
static void slope(int n, const double *u, const double *add, double *to) {
    double dx = TWO_PI / n;
    for (int i = 0; i < n; i++) {
        double l = u[(i + n - 1) % n], r = u[(i + 1) % n];
        to[i] = -(r * r - l * l) / (4 * dx) + NU * (l - 2 * u[i] + r) / (dx * dx);
        if (add) to[i] += add[i];
    }
}

static void advance(int n, double *u, int parts, const double *add) {
    double a[FINE], b[FINE], half[FINE], dt = DT / parts;
    for (int part = 0; part < parts; part++) {
        slope(n, u, add, a);
        for (int i = 0; i < n; i++) half[i] = u[i] + dt * a[i];
        slope(n, half, add, b);
        for (int i = 0; i < n; i++) u[i] += dt / 2 * (a[i] + b[i]);
    }
}

static void coarsen(const double *fine, double *coarse) {
    for (int i = 0; i < CELLS; i++) {
        coarse[i] = 0;
        for (int k = 0; k < RATIO; k++) coarse[i] += fine[RATIO * i + k] / RATIO;
    }
}

static void begin(double *u, unsigned *seed) {
    memset(u, 0, FINE * sizeof *u);
    for (int mode = 1; mode <= 4; mode++) {
        double size = (double)rand_r(seed) / RAND_MAX, phase = (double)rand_r(seed) / RAND_MAX;
        for (int i = 0; i < FINE; i++)
            u[i] += size / mode * sin(TWO_PI * ((double)mode * i / FINE + phase));
    }
}

static void with_ghosts(const double *u, float *to) {
    for (int i = 0; i < CELLS + 2 * GHOSTS; i++) to[i] = (float)u[(i + CELLS - GHOSTS) % CELLS];
}

/* ---- training, as the fine solver runs ---- */

static void train(dlc_model *net, int steps) {
    static double fine[MEMBERS][FINE];
    static float x[MEMBERS][CELLS + 2 * GHOSTS], t[MEMBERS][CELLS];
    const void *arrays[] = {x, t};
    unsigned seed = 1 + 1000 * (unsigned)rank; /* each rank has flows of its own */
    double loss, left = 0, all = 0;            /* of the squares of what the coarse grid misses */
    dlc_status status;
    for (int step = 0; step < steps; step++) {
        for (int m = 0; m < MEMBERS; m++) {
            double before[CELLS], after[CELLS];
            if ((step + m * LIFE / MEMBERS) % LIFE == 0 || step == 0) begin(fine[m], &seed);
            coarsen(fine[m], before);
            with_ghosts(before, x[m]);
            advance(FINE, fine[m], RATIO, NULL);
            coarsen(fine[m], after);
            advance(CELLS, before, 1, NULL);
            for (int i = 0; i < CELLS; i++) {
                t[m][i] = (float)((after[i] - before[i]) / DT);
                all += t[m][i] * t[m][i] / (MEMBERS * CELLS);
            }
        }
        if (!dlc_train_step(net, MEMBERS, arrays, &loss, &status)) stop(&status);
        left += loss;
        if ((step + 1) % 100) continue;
        if (rank == 0) printf("step %d, missed %.3f\n", step + 1, left / all);
        left = all = 0;
    }
}

/* ---- a flow that was not seen: the coarse solver without the network, and with it ---- */

static double distance(const double *a, const double *b) {
    double sum = 0;
    for (int i = 0; i < CELLS; i++) sum += (a[i] - b[i]) * (a[i] - b[i]) / CELLS;
    return sqrt(sum);
}

static void compare(dlc_model *net) {
    double fine[FINE], truth[CELLS], plain[CELLS], closed[CELLS], add[CELLS];
    float x[CELLS + 2 * GHOSTS], y[CELLS];
    const void *inputs[] = {x};
    void *outputs[] = {y};
    unsigned seed = 7;
    dlc_status status;
    begin(fine, &seed);
    coarsen(fine, plain), coarsen(fine, closed);
    for (int step = 0; step < LIFE; step++) {
        with_ghosts(closed, x);
        if (!dlc_predict(net, 1, inputs, outputs, &status)) stop(&status);
        for (int i = 0; i < CELLS; i++) add[i] = y[i];
        advance(CELLS, closed, 1, add);
        advance(CELLS, plain, 1, NULL);
        advance(FINE, fine, RATIO, NULL);
    }
    coarsen(fine, truth);
    printf("error of the coarse grid %.5f, with the network %.5f\n", distance(plain, truth),
           distance(closed, truth));
}

int main(int argc, char **argv) {
    static const char *const settings[] = {"lr=0.003", "lr_schedule=none", NULL};
    dlc_options options = {.size = sizeof options};
    dlc_status status;
#ifdef WITH_MPI
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(world, &rank);
    options.mpi_comm = &world;
#endif
    options.device = "cpu", options.threads = 1;
    options.batch = MEMBERS, options.train = 1, options.settings = settings;
    dlc_model *net = dlc_open(argc > 1 ? argv[1] : "closure.dl", &options, &status);
    if (!net) stop(&status);
    train(net, argc > 2 ? atoi(argv[2]) : 1000);
    if (rank == 0) compare(net);
    if (!dlc_save(net, argc > 3 ? argv[3] : "run", &status)) stop(&status);
    dlc_close(net);
#ifdef WITH_MPI
    MPI_Finalize();
#endif
    return 0;
}
