/* dldata nbody: the command line of a simulation of the universe. */
#include "cli/dldata.h"
#include "cli/progress.h"
#include "dldata/target.h"
#include "dldata/volume_file.h"
#include "ir/base/foreign.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const dl_option options[] = {
    {"output", 'o', "FILE", "the HDF5 file to write; its directory is made if missing"},
    {"size", 0, "L", "cells and particles along a side, even (128)"},
    {"seed", 0, "N", "another seed, another universe (0)"},
    {"box", 0, "B", "side of the box in Mpc/h (64)"},
    {"steps", 0, "N", "time steps from redshift 49 to 0 (40)"},
    DLDATA_THREADS,
    DLDATA_FORCE,
    DLDATA_QUIET,
    DL_OPTION_HELP,
    {0},
};

static const char usage[] =
    "usage: dldata nbody -o FILE [OPTIONS]\n\n"
    "Simulates gravity in a periodic box and writes what the 3-D U-Net learns from: "
    "`Nbody` f32 "
    "[4,L,L,L]\n"
    "(density, velocities of dark matter) and `Hydro` f32 [5,L,L,L] (density, temperature, "
    "velocities of gas).\n\n";

static const char after[] =
    "\nTo train, make two files:\n"
    "  dldata nbody -o data/nbody_train.h5\n  dldata nbody -o data/nbody_valid.h5 "
    "--seed 1\n\n"
    "The same options write the same bytes on a kind of machine. 128^3 cells take about "
    "half a "
    "minute.\n";

static bool show(void *ctx, int step, int steps, double a) {
    char note[32];
    snprintf(note, sizeof note, "redshift %.2f", 1 / a - 1);
    return progress_show(ctx, step, steps, note);
}

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

static bool simulate(const nbody_setup *s, const char *path, progress *bar,
                     const dl_console *console, dl_error *err) {
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
        ok = ok && volume_file_write(path, s, nbody, hydro, console, err);
        free(nbody);
        free(hydro);
    }
    mesh_close(&m);
    return ok;
}

static bool run(dl_invocation *call, dl_error *err) {
    const dl_config *c = call->config;
    dldata_shared shared;
    int64_t size = 128, steps = 40;
    double box = 64;
    if (!(dl_option_int(c, "size", 16, 1024, &size, err) &&
          dl_option_real(c, "box", 1, 10000, &box, err) &&
          dl_option_int(c, "steps", 5, 10000, &steps, err) &&
          dldata_read_shared(c, "an output file: `dldata nbody -o data/nbody_train.h5`", &shared,
                             err)))
        return false;
    if (size % 2)
        return dl_fail(err, DL_USAGE, "--size %lld is odd; the mesh needs an even number",
                       (long long)size);
    if (!check_memory((int)size, err) || !volume_file_prepare(shared.path, (int)size, err) ||
        !target_check(shared.path, VOLUME_GENERATOR, shared.force, err))
        return false;

    nbody_setup s = {.size = (int)size,
                     .box = box,
                     .seed = (uint64_t)shared.seed,
                     .steps = (int)steps,
                     .z_start = 49,
                     .threads = (int)shared.threads,
                     .cosmos = cosmology_planck()};
    progress bar;
    progress_begin(&bar, shared.quiet);
    if (!shared.quiet)
        fprintf(stderr,
                "simulating %lld^3 particles in a box of %g Mpc/h, seed %lld, on %lld thread%s\n",
                (long long)size, box, (long long)shared.seed, (long long)shared.threads,
                shared.threads == 1 ? "" : "s");
    bool ok = progress_end(&bar, simulate(&s, shared.path, &bar, call->out, err), err);
    if (ok && !shared.quiet) {
        const char *shown = dl_shown(call->arena, shared.path);
        progress_wrote(&bar, shown, volume_file_bytes(s.size));
        if (shared.seed == 0)
            dl_console_text(
                call->out,
                "next, a box to validate on: dldata nbody -o data/nbody_valid.h5 --seed 1\n");
        dl_console_text(call->out, "to see it: dldata inspect %s\n", shown);
    }
    return ok;
}

const dl_subcommand dldata_nbody = {
    .name = "nbody",
    .help = "simulate a piece of the universe for the 3-D U-Net (HDF5: Nbody, Hydro)",
    .usage = usage,
    .options = options,
    .after = after,
    .options_only = true,
    .run = run,
};
