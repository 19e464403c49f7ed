/* dldata nbody: the command line of a simulation of the universe. */
#include "dldata/commands.h"
#include "dldata/options.h"
#include "dldata/parallel.h"
#include "dldata/progress.h"
#include "dldata/target.h"
#include "dldata/volume_file.h"
#include "ir/base/foreign.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static bool show(void *ctx, int step, int steps, double a) {
    char note[32];
    snprintf(note, sizeof note, "redshift %.2f", 1 / a - 1);
    return progress_show(ctx, step, steps, note);
}

static const char example[] = "`dldata nbody -o data/nbody_train.h5`";

/* Particles twice (one copy is room to sort), five fields, and the result. */
static double bytes_needed(double size) {
    return size * size * size * (2.0 * sizeof(particle) + 5 * 4 + 9 * 4);
}

static bool check_memory(int size, dl_error *err) {
    double need = bytes_needed(size),
           have = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (need < have) return true;
    return dl_fail(err, DL_RESOURCE,
                   "--size %d needs %.1f GiB of memory, and this machine has %.1f GiB", size,
                   need / (1 << 30), have / (1 << 30));
}

static bool simulate(const nbody_setup *s, const char *path, progress *bar, dl_error *err) {
    mesh m;
    particles ps;
    size_t cells = (size_t)s->size * (size_t)s->size * (size_t)s->size;
    if (!mesh_open(&m, s->size, s->threads, err)) return false;
    bool ok = nbody_run(s, &m, &ps, show, bar, err);
    if (ok) {
        float *nbody = malloc(NBODY_CHANNELS * cells * sizeof *nbody);
        float *hydro = malloc(HYDRO_CHANNELS * cells * sizeof *hydro);
        if (!nbody || !hydro)
            ok = dl_fail(err, DL_RESOURCE,
                         "no memory for the volumes of --size %d; try a smaller one", s->size);
        ok = ok && volumes_make(s, &ps, nbody, hydro, err);
        particles_close(&ps); /* whose memory the file takes */
        ok = ok && volume_file_write(path, s, nbody, hydro, &progress_stop, err);
        free(nbody);
        free(hydro);
    }
    mesh_close(&m);
    return ok;
}

bool command_nbody(int argc, char **argv, dl_error *err) {
    long long size = 128, seed = 0, steps = 40, threads = parallel_default();
    double box = 64;
    const char *path = NULL, *extra;
    bool quiet = false, force = false, help = false;
    const option options[] = {
        {"output", "o", OPTION_TEXT, &path, 0, 0, "FILE",
         "the HDF5 file to write; its directory is made if missing"},
        {"size", NULL, OPTION_INTEGER, &size, 16, 1024, "L",
         "cells and particles along a side, even (128)"},
        {"seed", NULL, OPTION_INTEGER, &seed, 0, 9e15, "N", "another seed, another universe (0)"},
        {"box", NULL, OPTION_REAL, &box, 1, 10000, "B", "side of the box in Mpc/h (64)"},
        {"steps", NULL, OPTION_INTEGER, &steps, 5, 10000, "N",
         "time steps from redshift 49 to 0 (40)"},
        {"threads", NULL, OPTION_INTEGER, &threads, 1, PARALLEL_THREADS, "N",
         "threads; the bytes written do not depend on it (all)"},
        {"force", NULL, OPTION_FLAG, &force, 0, 0, NULL,
         "replace a file that this command did not make"},
        {"quiet", "q", OPTION_FLAG, &quiet, 0, 0, NULL, "print errors alone"},
        {"help", "h", OPTION_FLAG, &help, 0, 0, NULL, "this text"},
    };
    enum { N = sizeof options / sizeof options[0] };
    int n_files;
    if (!options_read(options, N, argc, argv, &extra, 0, &n_files, err)) return false;
    if (help) {
        printf(
            "usage: dldata nbody -o FILE [OPTIONS]\n\n"
            "Simulates gravity in a periodic box and writes what the 3-D U-Net learns from: "
            "`Nbody` f32 "
            "[4,L,L,L]\n"
            "(density, velocities of dark matter) and `Hydro` f32 [5,L,L,L] (density, temperature, "
            "velocities of gas).\n\n");
        options_print(options, N);
        printf("\nTo train, make two files:\n"
               "  dldata nbody -o data/nbody_train.h5\n  dldata nbody -o data/nbody_valid.h5 "
               "--seed 1\n\n"
               "The same options write the same bytes on a kind of machine. 128^3 cells take about "
               "half a "
               "minute.\n");
        return true;
    }
    if (!path) return dl_fail(err, DL_USAGE, "where to? give an output file: %s", example);
    if (size % 2)
        return dl_fail(err, DL_USAGE, "--size %lld is odd; the mesh needs an even number", size);
    if (!check_memory((int)size, err) || !volume_file_prepare(path, (int)size, err) ||
        !target_check(path, VOLUME_GENERATOR, force, err))
        return false;

    nbody_setup s = {.size = (int)size,
                     .box = box,
                     .seed = (uint64_t)seed,
                     .steps = (int)steps,
                     .z_start = 49,
                     .threads = (int)threads,
                     .cosmos = cosmology_planck()};
    progress bar;
    progress_begin(&bar, quiet);
    if (!quiet)
        fprintf(stderr,
                "simulating %lld^3 particles in a box of %g Mpc/h, seed %lld, on %lld thread%s\n",
                size, box, seed, threads, threads == 1 ? "" : "s");
    bool ok = progress_end(&bar, simulate(&s, path, &bar, err), err);
    if (ok && !quiet) {
        dl_arena *arena = dl_arena_new(NULL);
        const char *shown = dl_shown(arena, path);
        progress_wrote(&bar, shown, volume_file_bytes(s.size));
        if (seed == 0)
            printf("next, a box to validate on: dldata nbody -o data/nbody_valid.h5 --seed 1\n");
        printf("to see it: dldata inspect %s\n", shown);
        dl_arena_free(arena);
    }
    return ok;
}
