/* dldata weather: the command line of a simulation of the weather. */
#include "cli/dldata.h"
#include "cli/progress.h"
#include "dldata/output_tree.h"
#include "dldata/weather_files.h"
#include "ir/base/foreign.h"

#include <stdio.h>
#include <stdlib.h>

static const dl_option options[] = {
    {"output", 'o', "DIR", "the directory to make"},
    {"size", 0, "HxW", "rows (both poles included) and columns, even (64x128)"},
    {"years", 0, "N", "files to train on (4)"},
    {"valid-years", 0, "N", "files to validate on, which follow (1)"},
    {"first-year", 0, "YYYY", "name of the first file (2001)"},
    {"samples", 0, "N", "samples a year (120)"},
    {"hours", 0, "H", "between two samples (6)"},
    {"spin-up", 0, "DAYS", "simulated before the first sample (20)"},
    {"seed", 0, "N", "another seed, another planet (0)"},
    DLDATA_THREADS,
    DLDATA_QUIET,
    DL_OPTION_HELP,
    {0},
};

static const char usage[] =
    "usage: dldata weather -o DIR [OPTIONS]\n\n"
    "Simulates a shallow atmosphere on a turning sphere, with mountains and seasons, and "
    "writes what "
    "weather models\n"
    "learn from: DIR/train/YYYY.h5 and DIR/valid/YYYY.h5, each with `fields` f32 [time, 20, "
    "lat, lon], "
    "and the training\n"
    "years' DIR/stats/global_means.npy and global_stds.npy.\n\n";

static const char after[] =
    "\nThe seasons go round once in a file, so that its year is as long as --samples times "
    "--hours.\n"
    "example:\n  dldata weather -o data/weather\n\n"
    "The same options write the same bytes on a kind of machine. The time grows with the "
    "fourth power "
    "of --size.\n";

static bool show(void *ctx, long long step, long long steps, const atmosphere *a,
                 const air_budget *b) {
    char note[160];
    snprintf(
        note, sizeof note,
        "day %.1f: energy %.5e J/m2 (kinetic %.3e), potential enstrophy %.4e, wind up to %.0f m/s",
        a->time / EARTH_DAY, b->energy, b->kinetic, b->enstrophy, b->wind);
    return progress_show(ctx, step, steps, note);
}

/* "88x176" */
static bool read_size(const char *text, weather_setup *s, dl_error *err) {
    int end = 0;
    bool ok = sscanf(text, "%4dx%4d%n", &s->rows, &s->columns, &end) == 2 && !text[end] &&
              s->rows >= 8 && s->rows <= 2000 && s->columns >= 16 && s->columns <= 4000 &&
              s->columns % 2 == 0;
    return ok || dl_fail(err, DL_USAGE,
                         "--size %.40s: wanted are rows and columns as in 64x128, at least 8 rows "
                         "and an even "
                         "number of at least 16 columns",
                         text);
}

static bool check_memory(dl_arena *arena, const char *size, const weather_setup *s, dl_error *err) {
    const char *what = dl_format(arena, "--size %s --samples %d needs", size, s->samples);
    return dldata_check_memory(weather_memory(s), what, " (for a year of samples)", err);
}

static bool run(dl_invocation *call, dl_error *err) {
    const dl_config *c = call->config;
    dldata_shared shared;
    int64_t years = 4, valid = 1, samples = 120, first = 2001;
    double hours = 6, spin_up = 20;
    const char *size = dl_config_option(c, "size");
    if (!size) size = "64x128";
    if (!(dl_option_int(c, "years", 1, 1000, &years, err) &&
          dl_option_int(c, "valid-years", 0, 1000, &valid, err) &&
          dl_option_int(c, "first-year", 1, 8000, &first, err) &&
          dl_option_int(c, "samples", 2, 100000, &samples, err) &&
          dl_option_real(c, "hours", 0.1, 240, &hours, err) &&
          dl_option_real(c, "spin-up", 0, 3650, &spin_up, err) &&
          dldata_read_shared(c, "an output directory: `dldata weather -o data/weather`", &shared,
                             err)))
        return false;
    weather_setup s = {.threads = (int)shared.threads,
                       .seed = (uint64_t)shared.seed,
                       .first_year = (int)first,
                       .train_years = (int)years,
                       .valid_years = (int)valid,
                       .samples = (int)samples,
                       .hours = hours,
                       .spin_up = spin_up};
    if (!read_size(size, &s, err) || !check_memory(call->arena, size, &s, err) ||
        !output_tree_prepare(shared.path, weather_bytes(&s), err))
        return false;
    progress bar;
    progress_begin(&bar, shared.quiet);
    if (!shared.quiet)
        fprintf(stderr,
                "simulating %lld years of %.0f days at %dx%d, seed %lld, on %lld thread%s\n",
                (long long)(years + valid), (double)samples * hours / 24, s.rows, s.columns,
                (long long)shared.seed, (long long)shared.threads, shared.threads == 1 ? "" : "s");
    bool ok = progress_end(&bar, weather_write(shared.path, &s, show, &bar, call->out, err), err);
    if (ok && !shared.quiet) {
        const char *shown = dl_shown(call->arena, shared.path);
        progress_wrote(&bar, shown, weather_bytes(&s));
        dl_console_text(call->out, "to see it: dldata inspect %s/train/%04d.h5\n", shown,
                        s.first_year);
    }
    return ok;
}

const dl_subcommand dldata_weather = {
    .name = "weather",
    .help = "simulate a small atmosphere for weather models (HDF5: fields, a file a year)",
    .usage = usage,
    .options = options,
    .after = after,
    .options_only = true,
    .run = run,
};
