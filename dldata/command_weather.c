/* dldata weather: the command line of a simulation of the weather. */
#include "dldata/commands.h"
#include "dldata/options.h"
#include "dldata/output_tree.h"
#include "dldata/parallel.h"
#include "dldata/progress.h"
#include "dldata/weather_files.h"
#include "ir/base/foreign.h"
#include "ir/base/memory.h"

#include <stdio.h>
#include <stdlib.h>

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

static bool check_memory(const char *size, const weather_setup *s, dl_error *err) {
    int64_t have = dl_memory_available();
    uint64_t need = weather_memory(s);
    if (have < 0 || need < (uint64_t)have) return true;
    return dl_fail(err, DL_RESOURCE,
                   "--size %s --samples %d needs %.1f GiB of memory (a year is held there twice), "
                   "and %.1f GiB "
                   "are free",
                   size, s->samples, (double)need / (1 << 30), (double)have / (1 << 30));
}

static void print_usage(const option *options, int n) {
    printf("usage: dldata weather -o DIR [OPTIONS]\n\n"
           "Simulates a shallow atmosphere on a turning sphere, with mountains and seasons, and "
           "writes what "
           "weather models\n"
           "learn from: DIR/train/YYYY.h5 and DIR/valid/YYYY.h5, each with `fields` f32 [time, 20, "
           "lat, lon], "
           "and the training\n"
           "years' DIR/stats/global_means.npy and global_stds.npy.\n\n");
    options_print(options, n);
    printf("\nThe seasons go round once in a file, so that its year is as long as --samples times "
           "--hours.\n"
           "example:\n  dldata weather -o data/weather\n\n"
           "The same options write the same bytes on a kind of machine. The time grows with the "
           "fourth power "
           "of --size.\n");
}

bool command_weather(int argc, char **argv, dl_error *err) {
    long long seed = 0, threads = parallel_default(), years = 4, valid = 1, samples = 120,
              first = 2001;
    double hours = 6, spin_up = 20;
    const char *path = NULL, *size = "64x128", *extra;
    bool quiet = false, help = false;
    const option options[] = {
        {"output", "o", OPTION_TEXT, &path, 0, 0, "DIR", "the directory to make"},
        {"size", NULL, OPTION_TEXT, &size, 0, 0, "HxW",
         "rows (both poles included) and columns, even (64x128)"},
        {"years", NULL, OPTION_INTEGER, &years, 1, 1000, "N", "files to train on (4)"},
        {"valid-years", NULL, OPTION_INTEGER, &valid, 0, 1000, "N",
         "files to validate on, which follow (1)"},
        {"first-year", NULL, OPTION_INTEGER, &first, 1, 8000, "YYYY",
         "name of the first file (2001)"},
        {"samples", NULL, OPTION_INTEGER, &samples, 2, 100000, "N", "samples a year (120)"},
        {"hours", NULL, OPTION_REAL, &hours, 0.1, 240, "H", "between two samples (6)"},
        {"spin-up", NULL, OPTION_REAL, &spin_up, 0, 3650, "DAYS",
         "simulated before the first sample (20)"},
        {"seed", NULL, OPTION_INTEGER, &seed, 0, 9e15, "N", "another seed, another planet (0)"},
        {"threads", NULL, OPTION_INTEGER, &threads, 1, PARALLEL_THREADS, "N",
         "threads; the bytes written do not depend on it (all)"},
        {"quiet", "q", OPTION_FLAG, &quiet, 0, 0, NULL, "print errors alone"},
        {"help", "h", OPTION_FLAG, &help, 0, 0, NULL, "this text"},
    };
    enum { N = sizeof options / sizeof options[0] };
    int n_files;
    if (!options_read(options, N, argc, argv, &extra, 0, &n_files, err)) return false;
    if (help) return print_usage(options, N), true;
    if (!path)
        return dl_fail(err, DL_USAGE,
                       "where to? give an output directory: `dldata weather -o data/weather`");
    weather_setup s = {.threads = (int)threads,
                       .seed = (uint64_t)seed,
                       .first_year = (int)first,
                       .train_years = (int)years,
                       .valid_years = (int)valid,
                       .samples = (int)samples,
                       .hours = hours,
                       .spin_up = spin_up};
    if (!read_size(size, &s, err) || !check_memory(size, &s, err) ||
        !output_tree_prepare(path, weather_bytes(&s), err))
        return false;
    progress bar;
    progress_begin(&bar, quiet);
    if (!quiet)
        fprintf(stderr,
                "simulating %lld years of %.0f days at %dx%d, seed %lld, on %lld thread%s\n",
                years + valid, (double)samples * hours / 24, s.rows, s.columns, seed, threads,
                threads == 1 ? "" : "s");
    bool ok = progress_end(&bar, weather_write(path, &s, show, &bar, &progress_stop, err), err);
    if (ok && !quiet) {
        dl_arena *arena = dl_arena_new(NULL);
        const char *shown = dl_shown(arena, path);
        progress_wrote(&bar, shown, weather_bytes(&s));
        printf("to see it: dldata inspect %s/train/%04d.h5\n", shown, s.first_year);
        dl_arena_free(arena);
    }
    return ok;
}
