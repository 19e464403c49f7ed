/* dldata fields: the command line of random fields and what becomes of them. */
#include "cli/dldata.h"
#include "cli/progress.h"
#include "dldata/hdf5_file.h"
#include "dldata/reaction.h"
#include "dldata/target.h"
#include "ir/base/foreign.h"

#include <stdio.h>

static const dl_option options[] = {
    {"output", 'o', "FILE", "the HDF5 file to write; its directory is made if missing"},
    {"samples", 0, "N", "pairs of fields (128)"},
    {"channels", 0, "C", "of x and of t; they compete (1)"},
    {"size", 0, "L", "points along a side (128)"},
    {"smooth", 0, "S", "how smooth x is: rms of a Gaussian, points (2)"},
    {"time", 0, "T", "from x to t (2)"},
    {"diffusivity", 0, "D", "points^2 a unit of time (1)"},
    {"competition", 0, "A", "between channels (0.5)"},
    {"seed", 0, "N", "another seed, other fields (0)"},
    DLDATA_THREADS,
    DLDATA_FORCE,
    DLDATA_QUIET,
    DL_OPTION_HELP,
    {0},
};

static const char usage[] =
    "usage: dldata fields -o FILE [OPTIONS]\n\n"
    "Makes pairs of 2-D fields for a small convolutional network: random densities `x`, and "
    "`t`, what "
    "they become when\n"
    "they spread, grow and compete; both f32 [samples, channels, size, size], between 0 and "
    "1.\n\n";

static const char after[] =
    "\nTo train, make two files:\n"
    "  dldata fields -o data/fields_train.h5\n  dldata fields -o data/fields_valid.h5 "
    "--seed 1\n\n"
    "The same options write the same bytes on a kind of machine.\n";

static bool show(void *ctx, long long done, long long all) {
    return progress_show(ctx, done, all, "samples made");
}

static bool check_memory(dl_arena *arena, const reaction_setup *s, dl_error *err) {
    const char *what =
        dl_format(arena, "%d samples of %d x %d^2 points need", s->samples, s->channels, s->size);
    return dldata_check_memory(reaction_file_bytes(s), what, "", err);
}

static bool run(dl_invocation *call, dl_error *err) {
    const dl_config *c = call->config;
    dldata_shared shared;
    int64_t samples = 128, channels = 1, size = 128;
    double smooth = 2, time = 2, diffusivity = 1, competition = 0.5;
    if (!(dl_option_int(c, "samples", 1, 100000000, &samples, err) &&
          dl_option_int(c, "channels", 1, 64, &channels, err) &&
          dl_option_int(c, "size", 4, 8192, &size, err) &&
          dl_option_real(c, "smooth", 0, 100, &smooth, err) &&
          dl_option_real(c, "time", 0, 100, &time, err) &&
          dl_option_real(c, "diffusivity", 0, 100, &diffusivity, err) &&
          dl_option_real(c, "competition", 0, 10, &competition, err) &&
          dldata_read_shared(c, "an output file: `dldata fields -o data/fields_train.h5`", &shared,
                             err)))
        return false;
    reaction_setup s = {.samples = (int)samples,
                        .channels = (int)channels,
                        .size = (int)size,
                        .threads = (int)shared.threads,
                        .seed = (uint64_t)shared.seed,
                        .smooth = smooth,
                        .time = time,
                        .diffusivity = diffusivity,
                        .competition = competition};
    if (!check_memory(call->arena, &s, err) ||
        !hdf5_file_prepare(shared.path, reaction_file_bytes(&s), err) ||
        !target_check(shared.path, REACTION_GENERATOR, shared.force, err))
        return false;
    progress bar;
    progress_begin(&bar, shared.quiet);
    bool ok = progress_end(&bar, reaction_write(shared.path, &s, show, &bar, call->out, err), err);
    if (ok && !shared.quiet) {
        const char *shown = dl_shown(call->arena, shared.path);
        progress_wrote(&bar, shown, reaction_file_bytes(&s));
        dl_console_text(call->out, "to see it: dldata inspect %s\n", shown);
    }
    return ok;
}

const dl_subcommand dldata_fields = {
    .name = "fields",
    .help = "make pairs of random fields and what becomes of them (HDF5: x, t)",
    .usage = usage,
    .options = options,
    .after = after,
    .options_only = true,
    .run = run,
};
