/* dldata images: the command line of drawn, labelled pictures. */
#include "dldata/commands.h"
#include "dldata/image_files.h"
#include "dldata/options.h"
#include "dldata/output_tree.h"
#include "dldata/parallel.h"
#include "dldata/progress.h"
#include "dldata/scene.h"
#include "ir/base/clock.h"
#include "ir/base/foreign.h"

#include <stdio.h>

static bool show(void *ctx, long long done, long long all) {
    return progress_show(ctx, done, all, "pictures drawn");
}

static void print_usage(const option *options, int n) {
    printf("usage: dldata images -o DIR [OPTIONS]\n\n"
           "Draws labelled pictures: a lit, textured shape in clutter, one of ten classes. Writes "
           "CIFAR-10's "
           "binary layout,\n"
           "data_batch_1.bin to data_batch_5.bin, test_batch.bin and batches.meta.txt; or, with "
           "--jpeg, class "
           "folders\n"
           "train/CLASS/NUMBER.jpg and val/CLASS/NUMBER.jpg.\n\nclasses: ");
    for (int i = 0; i < SCENE_CLASSES; i++)
        printf("%s%s", scene_class_names[i], i + 1 < SCENE_CLASSES ? ", " : "\n\n");
    options_print(options, n);
    printf("\nexamples:\n  dldata images -o data/pictures\n  dldata images -o data/photographs "
           "--jpeg\n\n"
           "The same options write the same bytes on a kind of machine.\n");
}

bool command_images(int argc, char **argv, dl_error *err) {
    long long seed = 0, threads = parallel_default(), train = -1, valid = -1, side = 160;
    const char *path = NULL, *extra;
    bool jpeg = false, quiet = false, help = false;
    const option options[] = {
        {"output", "o", OPTION_TEXT, &path, 0, 0, "DIR", "the directory to make"},
        {"jpeg", NULL, OPTION_FLAG, &jpeg, 0, 0, NULL,
         "class folders of JPEG files of varying sizes"},
        {"train", NULL, OPTION_INTEGER, &train, 5, 10000000, "N",
         "pictures to train on (50000; with --jpeg 2000)"},
        {"valid", NULL, OPTION_INTEGER, &valid, 1, 10000000, "N",
         "pictures to validate on (10000; with --jpeg 400)"},
        {"side", NULL, OPTION_INTEGER, &side, 16, 2000, "PIXELS",
         "with --jpeg: shorter sides are 0.7 to 1.3 times this (160)"},
        {"seed", NULL, OPTION_INTEGER, &seed, 0, 9e15, "N", "another seed, other pictures (0)"},
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
                       "where to? give an output directory: `dldata images -o data/pictures`");
    if (train < 0) train = jpeg ? 2000 : 50000;
    if (valid < 0) valid = jpeg ? 400 : 10000;
    if (!jpeg && train % 5)
        return dl_fail(err, DL_USAGE,
                       "--train %lld: CIFAR-10's layout has five files of equal length, so it "
                       "must be a multiple of 5",
                       train);
    image_setup s = {(int)train, (int)valid, (int)side, (int)threads, (uint64_t)seed, jpeg};
    if (!output_tree_prepare(path, image_bytes(&s), err)) return false;
    progress bar;
    progress_begin(&bar, quiet);
    bool ok = progress_end(&bar, image_write(path, &s, show, &bar, err), err);
    if (ok && !quiet) {
        dl_arena *arena = dl_arena_new(NULL);
        printf("wrote %lld pictures to train on and %lld to validate on into %s in %.1f s\n", train,
               valid, dl_shown(arena, path), dl_clock_seconds() - bar.start);
        dl_arena_free(arena);
    }
    return ok;
}
