/* The simulation's parts against what is known exactly, and the whole against linear theory. */
#include "dldata/parallel.h"
#include "dldata/volume_file.h"
#include "ir/base/input.h"
#include "ir/base/str.h"
#include "runtime/base/rng.h"
#include "tests/check.h"

#include <dirent.h>
#include <hdf5.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static dl_error err;

static nbody_setup setup(int size, double box, uint64_t seed, int steps, int threads) {
    return (nbody_setup){.size = size,
                         .box = box,
                         .seed = seed,
                         .steps = steps,
                         .z_start = 49,
                         .threads = threads,
                         .cosmos = cosmology_planck()};
}

static void test_cosmology(void) {
    cosmology c = cosmology_planck(),
              eds = {.omega_m = 1, .omega_b = 0.05, .h = 0.7, .n_s = 1, .sigma8 = 0.8};
    CHECK_NEAR(cosmology_sigma(&c, 8), c.sigma8, 1e-9);
    CHECK_NEAR(cosmology_growth(&c, 1), 1, 1e-12);
    /* Einstein-de Sitter: D = a, and G = a^3 a^(-3/2) = a^(3/2). */
    CHECK_NEAR(cosmology_growth(&eds, 0.3), 0.3, 1e-8);
    CHECK_NEAR(cosmology_momentum_growth(&eds, 0.3), pow(0.3, 1.5), 1e-8);
    /* The growth equation in the form that the leapfrog uses: dG/da = 3/2 omega_m D / (a^2 E). */
    for (double a = 0.05; a < 1; a += 0.3) {
        double e = 1e-4, slope = (cosmology_momentum_growth(&c, a + e) -
                                  cosmology_momentum_growth(&c, a - e)) /
                                 (2 * e);
        double want =
            1.5 * c.omega_m * cosmology_growth(&c, a) / (a * a * cosmology_expansion(&c, a));
        CHECK_NEAR(slope / want, 1, 1e-5);
    }
    /* The approximation of Carroll, Press & Turner (1992) for D(1)/D(a -> 0)/a: 0.78 for omega_m
     * 0.31. */
    double g = 2.5 * 0.31 / (pow(0.31, 4.0 / 7) - 0.69 + (1 + 0.31 / 2) * (1 + 0.69 / 70));
    CHECK_NEAR(0.001 / cosmology_growth(&c, 0.001), g, 0.01);
    CHECK_NEAR(cosmology_transfer(&c, 1e-6), 1, 1e-3);
    /* Small scales: T falls as ln(k) / k^2. */
    CHECK_NEAR(log(cosmology_transfer(&c, 200) / cosmology_transfer(&c, 100)) / log(2), -1.87,
               0.06);
}

static void test_mesh(void) {
    enum { L = 32 };
    mesh m;
    CHECK(mesh_open(&m, L, 2, &err));
    float *field = mesh_field(&m, &err), *psi = mesh_field(&m, &err);
    /* div psi = -contrast: for cos(q x) sin(r z) along z, psi_z = contrast' / (q^2 + r^2); also for
     * the shortest wave along x, whose gradient is zero at all points. */
    double r = 2 * M_PI * 2 / L, worst = 0;
    for (int axis = 0; axis < 6; axis++) {
        double q = 2 * M_PI * (axis < 3 ? 3 : L / 2.0) / L;
        for (size_t x = 0; x < L; x++)
            for (size_t y = 0; y < L; y++)
                for (size_t z = 0; z < L; z++)
                    field[x * mesh_plane(&m) + y * mesh_pitch(&m) + z] =
                        (float)(cos(q * (double)x) * sin(r * (double)z));
        mesh_forward(&m, field);
        mesh_displacement(&m, field, axis % 3, psi);
        for (size_t x = 0; x < L; x++)
            for (size_t y = 0; y < L; y++)
                for (size_t z = 0; z < L; z++) {
                    double X = q * (double)x, Z = r * (double)z;
                    double want = axis % 3 == 0   ? -q * sin(X) * sin(Z)
                                  : axis % 3 == 2 ? r * cos(X) * cos(Z)
                                                  : 0;
                    double got = psi[x * mesh_plane(&m) + y * mesh_pitch(&m) + z];
                    worst = dl_test_worse(worst, fabs(got - want / (q * q + r * r)));
                }
    }
    CHECK(worst < 1e-5, "%g", worst);

    /* A smoothed point is a Gaussian of weight one; the wing adds its weight. */
    memset(field, 0, mesh_floats(&m) * sizeof *field);
    field[0] = 1;
    mesh_smooth(&m, field, 2, 0);
    double norm = pow(2 * M_PI * 4, -1.5), sum = 0;
    CHECK_NEAR(field[0], norm, 1e-6);
    CHECK_NEAR(field[3 * mesh_plane(&m) + 1], norm * exp(-10.0 / 8), 1e-6);
    for (size_t x = 0; x < L * L; x++)
        for (size_t z = 0; z < L; z++) sum += field[x * mesh_pitch(&m) + z];
    CHECK_NEAR(sum, 1, 1e-5);
    free(field);
    free(psi);
    mesh_close(&m);
}

static double field_sum(const mesh *m, const float *field) {
    double sum = 0;
    for (size_t row = 0; row < (size_t)m->size * (size_t)m->size; row++)
        for (int z = 0; z < m->size; z++) sum += field[row * mesh_pitch(m) + (size_t)z];
    return sum;
}

static void test_particles(void) {
    enum { L = 16 };
    mesh m;
    particles ps;
    CHECK(mesh_open(&m, L, 2, &err) && particles_open(&ps, &m, &err));
    float *field = mesh_field(&m, &err);
    particles_deposit_mass(&ps, field);
    bool uniform = true;
    for (size_t row = 0; row < L * L; row++)
        for (size_t z = 0; z < L; z++) uniform = uniform && field[row * mesh_pitch(&m) + z] == 1;
    CHECK(uniform);

    /* Scattered, with weights that are dyadic: all sums in the field are exact. */
    dlr_rng random = dlr_rng_at((dlr_rng_place){.seed = 3, .stream = DLR_STREAM_NOISE});
    for (size_t i = 0; i < ps.n; i++)
        for (int d = 0; d < 3; d++) {
            ps.at[i].x[d] = (float)(dlr_rng_below(&random, L * 16)) / 16;
            ps.at[i].p[d] = (float)(dlr_rng_below(&random, 64)) - 32;
        }
    particles_sort(&ps);
    for (size_t i = 1; i < ps.n; i++)
        if (floorf(ps.at[i].x[0]) < floorf(ps.at[i - 1].x[0])) {
            CHECK(false, "particle %zu is out of order", i);
            break;
        }
    particles_deposit_mass(&ps, field);
    CHECK(field_sum(&m, field) == (double)ps.n, "%.17g", field_sum(&m, field));
    double momentum = 0;
    for (size_t i = 0; i < ps.n; i++) momentum += ps.at[i].p[1];
    particles_deposit_momentum(&ps, 1, field);
    CHECK_NEAR(field_sum(&m, field), momentum, 1e-2);

    /* One particle between mesh points: the eight weights; and a kick reads with the same ones. */
    particle lone = {.x = {L - 0.25f, 2.5f, 3}, .p = {0}};
    for (size_t i = 0; i < ps.n; i++) ps.at[i] = (particle){.x = {5, 5, 5}};
    ps.at[0] = lone;
    particles_sort(&ps);
    particles_deposit_mass(&ps, field);
    size_t plane = mesh_plane(&m), pitch = mesh_pitch(&m);
    CHECK(field[(L - 1) * plane + 2 * pitch + 3] == 0.125f && field[3 * pitch + 3] == 0.375f);
    CHECK(field[2 * pitch + 4] == 0 && field[5 * plane + 5 * pitch + 5] == (float)(ps.n - 1));
    for (size_t i = 0; i < mesh_floats(&m); i++) field[i] = 0;
    field[2 * pitch + 3] = 8;
    particles_kick(&ps, 2, field, 0.5);
    CHECK_NEAR(ps.at[ps.n - 1].p[2], 0.5 * 8 * 0.375, 1e-6);
    CHECK(ps.at[0].p[2] == 0);

    /* The box is periodic, also when rounding meets its end. */
    ps.at[0] = (particle){.x = {1, 0, 0}, .p = {-1.5f, -1e-9f, 40}};
    particles_drift(&ps, 1);
    CHECK(ps.at[0].x[0] == L - 0.5f && ps.at[0].x[1] == 0 && ps.at[0].x[2] == 8);
    free(field);
    particles_close(&ps);
    mesh_close(&m);
}

/* Power of the modes up to wave number 2 (in units of the fundamental) of the deposited mass. */
static double large_scale_power(const particles *ps, float *field) {
    const mesh *m = ps->m;
    particles_deposit_mass(ps, field);
    mesh_forward(m, field);
    double sum = 0;
    for (int x = -2; x <= 2; x++)
        for (int y = -2; y <= 2; y++)
            for (int z = 0; z <= 2; z++) {
                if (x * x + y * y + z * z == 0 || x * x + y * y + z * z > 4) continue;
                const float *c = field + (size_t)((x + m->size) % m->size) * mesh_plane(m) +
                                 (size_t)((y + m->size) % m->size) * mesh_pitch(m) + 2 * z;
                sum += (z ? 2.0 : 1.0) * ((double)c[0] * c[0] + (double)c[1] * c[1]);
            }
    return sum;
}

static void test_gravity(void) {
    /* A large box stays linear on its largest scales: their power grows as D^2. */
    nbody_setup s = setup(32, 600, 5, 10, 2);
    mesh m;
    particles ps;
    CHECK(mesh_open(&m, s.size, 2, &err) && particles_open(&ps, &m, &err));
    float *linear = mesh_field(&m, &err), *a = mesh_field(&m, &err), *b = mesh_field(&m, &err);
    nbody_linear_field(&s, &m, linear);
    nbody_zeldovich(&s, &ps, linear, 0.1, a);
    particles_sort(&ps);
    double before = large_scale_power(&ps, a);
    CHECK(nbody_evolve(&s, &ps, 0.1, 0.5, a, b, NULL, NULL));
    double after = large_scale_power(&ps, a);
    double growth = cosmology_growth(&s.cosmos, 0.5) / cosmology_growth(&s.cosmos, 0.1);
    CHECK_NEAR(after / before / (growth * growth), 1, 0.04);

    /* Momentum: the sum stays what it was, to rounding next to the particles' own. */
    double sum[3] = {0}, square = 0;
    for (size_t i = 0; i < ps.n; i++)
        for (int d = 0; d < 3; d++)
            sum[d] += ps.at[i].p[d], square += (double)ps.at[i].p[d] * ps.at[i].p[d];
    double rms = sqrt(square / (3 * (double)ps.n));
    for (int d = 0; d < 3; d++)
        CHECK(fabs(sum[d]) / (double)ps.n < 1e-5 * rms, "axis %d: %g of %g", d, sum[d], rms);

    /* The linear field has the power asked for: its variance against the sum of P(k) over the
     * mesh's modes. */
    double variance = 0, want = 0;
    for (int x = 0; x < 32; x++)
        for (int y = 0; y < 32; y++)
            for (int z = 0; z < 32; z++) {
                int i = x < 16 ? x : x - 32, j = y < 16 ? y : y - 32, k = z < 16 ? z : z - 32;
                if (i || j || k)
                    want +=
                        cosmology_power(&s.cosmos, 2 * M_PI / s.box * sqrt(i * i + j * j + k * k)) /
                        (s.box * s.box * s.box);
                if (z > 16) continue;
                const float *c =
                    linear + (size_t)x * mesh_plane(&m) + (size_t)y * mesh_pitch(&m) + 2 * z;
                variance +=
                    (z % 16 ? 2 : 1) * ((double)c[0] * c[0] + (double)c[1] * c[1]) / pow(32, 6);
            }
    CHECK_NEAR(variance / want, 1, 0.03);
    free(linear);
    free(a);
    free(b);
    particles_close(&ps);
    mesh_close(&m);
}

/* The whole way to a file; its bytes in the arena. */
static char *make(dl_arena *arena, const nbody_setup *s, const char *path, size_t *n) {
    mesh m;
    particles ps;
    size_t cells = (size_t)s->size * (size_t)s->size * (size_t)s->size;
    float *nbody = malloc(4 * cells * sizeof *nbody), *hydro = malloc(5 * cells * sizeof *hydro);
    bool ok = mesh_open(&m, s->size, s->threads, &err) && nbody_run(s, &m, &ps, NULL, NULL, &err) &&
              volumes_make(s, &ps, nbody, hydro, &err) &&
              volume_file_write(path, s, nbody, hydro, NULL, &err);
    CHECK(ok, "%s", err.message);
    bool inside = true, finite = true;
    for (size_t i = 0; i < 5 * cells; i++) inside = inside && fabsf(hydro[i]) < 1;
    for (size_t i = 0; i < 4 * cells; i++)
        finite = finite && isfinite(nbody[i]) && fabsf(nbody[i]) < 20;
    CHECK(inside && finite);
    double mass = 0;
    for (size_t i = 0; i < cells; i++) mass += pow(10, (double)nbody[i]) - 1;
    CHECK_NEAR(mass / (double)cells, 1, 1e-4);
    particles_close(&ps);
    mesh_close(&m);
    free(nbody);
    free(hydro);
    return dl_read_file(arena, path, 1 << 28, n, &err);
}

static int find_one(void *of) { return (void)of, 1; }

static void test_file(const char *dir) {
    dl_arena *arena = dl_arena_new(NULL);
    nbody_setup s = setup(16, 20, 1, 8, 1), two = setup(16, 20, 1, 8, 2),
                other = setup(16, 20, 2, 8, 3);
    char path[512];
    snprintf(path, sizeof path, "%s/new/dir/a.h5", dir);
    CHECK(volume_file_prepare(path, 16, &err), "%s", err.message);
    size_t n[4] = {0};
    char *bytes[4] = {make(arena, &s, path, &n[0]), make(arena, &s, path, &n[1]),
                      make(arena, &two, path, &n[2]), make(arena, &other, path, &n[3])};
    CHECK(n[0] > 9 * 4 * 4096 && n[0] <= volume_file_bytes(16), "%zu bytes", n[0]);
    CHECK(n[0] == n[1] && memcmp(bytes[0], bytes[1], n[0]) == 0, "a second run differs");
    CHECK(n[0] == n[2] && memcmp(bytes[0], bytes[2], n[0]) == 0, "two threads differ from one");
    CHECK(n[0] != n[3] || memcmp(bytes[0], bytes[3], n[0]) != 0, "another seed does not differ");

    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT),
          set = H5Dopen2(file, "Hydro", H5P_DEFAULT);
    hid_t space = H5Dget_space(set), how = H5Dget_create_plist(set);
    hsize_t dims[4] = {0};
    CHECK(H5Sget_simple_extent_ndims(space) == 4 &&
          H5Sget_simple_extent_dims(space, dims, NULL) == 4);
    CHECK(dims[0] == 5 && dims[1] == 16 && dims[2] == 16 && dims[3] == 16);
    CHECK(H5Pget_layout(how) == H5D_CONTIGUOUS);
    uint64_t seed = 0;
    hid_t attribute = H5Aopen(file, "seed", H5P_DEFAULT);
    CHECK(H5Aread(attribute, H5T_NATIVE_UINT64, &seed) >= 0 && seed == 2);
    H5Aclose(attribute), H5Pclose(how), H5Sclose(space), H5Dclose(set), H5Fclose(file);

    /* A disk that is full: the error has the cause, the old file stays, nothing is left next to it.
     */
    float zero[9 * 4096] = {0};
    struct rlimit old, small = {60000, RLIM_INFINITY};
    getrlimit(RLIMIT_FSIZE, &old);
    small.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    CHECK(!volume_file_write(path, &s, zero, zero, NULL, &err) && err.code == DL_IO, "%s",
          err.message);
    setrlimit(RLIMIT_FSIZE, &old);
    err = (dl_error){0};
    const dl_console stop = {.stop_requested = find_one};
    CHECK(!volume_file_write(path, &s, zero, zero, &stop, &err) && err.code == DL_OK, "%s",
          err.message);
    size_t again;
    char *still = dl_read_file(arena, path, 1 << 28, &again, &err);
    CHECK(again == n[3] && memcmp(still, bytes[3], again) == 0);
    snprintf(path, sizeof path, "%s/new/dir", dir);
    DIR *d = opendir(path);
    int files = 0;
    for (struct dirent *e; d && (e = readdir(d));) files += e->d_name[0] != '.';
    if (d) closedir(d);
    CHECK(files == 1, "%d files", files);
    CHECK(!volume_file_prepare("/proc/nowhere/a.h5", 16, &err) && err.code == DL_IO);
    err = (dl_error){0};
    dl_arena_free(arena);
}

int main(void) {
    char dir[] = "/tmp/test_nbody.XXXXXX", command[64];
    if (!mkdtemp(dir)) return 1;
    test_cosmology();
    test_mesh();
    test_particles();
    test_gravity();
    test_file(dir);
    snprintf(command, sizeof command, "rm -r %s", dir);
    CHECK(system(command) == 0);
    return dl_test_end();
}
