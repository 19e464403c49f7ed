/* dldata fields: the command line of random fields and what becomes of them. */
#include "dldata/commands.h"
#include "dldata/hdf5_file.h"
#include "dldata/options.h"
#include "dldata/parallel.h"
#include "dldata/progress.h"
#include "dldata/reaction.h"
#include "dldata/target.h"
#include "ir/base/foreign.h"
#include "ir/base/memory.h"

#include <stdio.h>

static bool show(void *ctx, long long done, long long all) {
    return progress_show(ctx, done, all, "samples made");
}

static bool check_memory(const reaction_setup *s, dl_error *err) {
    int64_t have = dl_memory_available();
    uint64_t need = 2 * reaction_file_bytes(s);
    if (have < 0 || need < (uint64_t)have) return true;
    return dl_fail(err, DL_RESOURCE,
                   "%d samples of %d x %d^2 points need %.1f GiB of memory (all is held there "
                   "twice), and %.1f "
                   "GiB are free",
                   s->samples, s->channels, s->size, (double)need / (1 << 30),
                   (double)have / (1 << 30));
}

static void print_usage(const option *options, int n) {
    printf("usage: dldata fields -o FILE [OPTIONS]\n\n"
           "Makes pairs of 2-D fields for a small convolutional network: random densities `x`, and "
           "`t`, what "
           "they become when\n"
           "they spread, grow and compete; both f32 [samples, channels, size, size], between 0 and "
           "1.\n\n");
    options_print(options, n);
    printf("\nTo train, make two files:\n"
           "  dldata fields -o data/fields_train.h5\n  dldata fields -o data/fields_valid.h5 "
           "--seed 1\n\n"
           "The same options write the same bytes on a kind of machine.\n");
}

bool command_fields(int argc, char **argv, dl_error *err) {
    long long seed = 0, threads = parallel_default(), samples = 128, channels = 1, size = 128;
    double smooth = 2, time = 2, diffusivity = 1, competition = 0.5;
    const char *path = NULL, *extra;
    bool quiet = false, force = false, help = false;
    const option options[] = {
        {"output", "o", OPTION_TEXT, &path, 0, 0, "FILE",
         "the HDF5 file to write; its directory is made if missing"},
        {"samples", NULL, OPTION_INTEGER, &samples, 1, 100000000, "N", "pairs of fields (128)"},
        {"channels", NULL, OPTION_INTEGER, &channels, 1, 64, "C",
         "of x and of t; they compete (1)"},
        {"size", NULL, OPTION_INTEGER, &size, 4, 8192, "L", "points along a side (128)"},
        {"smooth", NULL, OPTION_REAL, &smooth, 0, 100, "S",
         "how smooth x is: rms of a Gaussian, points (2)"},
        {"time", NULL, OPTION_REAL, &time, 0, 100, "T", "from x to t (2)"},
        {"diffusivity", NULL, OPTION_REAL, &diffusivity, 0, 100, "D",
         "points^2 a unit of time (1)"},
        {"competition", NULL, OPTION_REAL, &competition, 0, 10, "A", "between channels (0.5)"},
        {"seed", NULL, OPTION_INTEGER, &seed, 0, 9e15, "N", "another seed, other fields (0)"},
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
    if (help) return print_usage(options, N), true;
    if (!path)
        return dl_fail(err, DL_USAGE,
                       "where to? give an output file: `dldata fields -o data/fields_train.h5`");
    reaction_setup s = {.samples = (int)samples,
                        .channels = (int)channels,
                        .size = (int)size,
                        .threads = (int)threads,
                        .seed = (uint64_t)seed,
                        .smooth = smooth,
                        .time = time,
                        .diffusivity = diffusivity,
                        .competition = competition};
    if (!check_memory(&s, err) || !hdf5_file_prepare(path, reaction_file_bytes(&s), err) ||
        !target_check(path, REACTION_GENERATOR, force, err))
        return false;
    progress bar;
    progress_begin(&bar, quiet);
    bool ok = progress_end(&bar, reaction_write(path, &s, show, &bar, &progress_stop, err), err);
    if (ok && !quiet) {
        dl_arena *arena = dl_arena_new(NULL);
        const char *shown = dl_shown(arena, path);
        progress_wrote(&bar, shown, reaction_file_bytes(&s));
        printf("to see it: dldata inspect %s\n", shown);
        dl_arena_free(arena);
    }
    return ok;
}
