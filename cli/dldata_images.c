/* dldata images: the command line of drawn, labelled pictures. */
#include "cli/dldata.h"
#include "cli/progress.h"
#include "dldata/image_files.h"
#include "dldata/output_tree.h"
#include "dldata/scene.h"
#include "ir/base/clock.h"
#include "ir/base/foreign.h"

#include <stdio.h>

static const dl_option options[] = {
    {"output", 'o', "DIR", "the directory to make"},
    {"jpeg", 0, NULL, "class folders of JPEG files of varying sizes"},
    {"train", 0, "N", "pictures to train on (50000; with --jpeg 2000)"},
    {"valid", 0, "N", "pictures to validate on (10000; with --jpeg 400)"},
    {"side", 0, "PIXELS", "with --jpeg: shorter sides are 0.7 to 1.3 times this (160)"},
    {"seed", 0, "N", "another seed, other pictures (0)"},
    DLDATA_THREADS,
    DLDATA_QUIET,
    DL_OPTION_HELP,
    {0},
};

static void put_usage(dl_buf *b) {
    dl_puts(b, "usage: dldata images -o DIR [OPTIONS]\n\n"
               "Draws labelled pictures: a lit, textured shape in clutter, one of ten classes. "
               "Writes CIFAR-10's\nbinary layout, data_batch_1.bin to data_batch_5.bin, "
               "test_batch.bin and batches.meta.txt; or, with\n--jpeg, class folders "
               "train/CLASS/NUMBER.jpg and val/CLASS/NUMBER.jpg.\n\nclasses: ");
    for (int i = 0; i < SCENE_CLASSES; i++)
        dl_putf(b, "%s%s", scene_class_names[i], i + 1 < SCENE_CLASSES ? ", " : "\n\n");
}

static const char after[] =
    "\nexamples:\n  dldata images -o data/pictures\n  dldata images -o data/photographs "
    "--jpeg\n\n"
    "The same options write the same bytes on a kind of machine.\n";

static bool show(void *ctx, long long done, long long all) {
    return progress_show(ctx, done, all, "pictures drawn");
}

static bool run(dl_invocation *call, dl_error *err) {
    const dl_config *c = call->config;
    dldata_shared shared;
    int64_t train = -1, valid = -1, side = 160;
    bool jpeg = dl_config_option(c, "jpeg");
    if (!(dl_option_int(c, "train", 5, 10000000, &train, err) &&
          dl_option_int(c, "valid", 1, 10000000, &valid, err) &&
          dl_option_int(c, "side", 16, 2000, &side, err) &&
          dldata_read_shared(c, "an output directory: `dldata images -o data/pictures`", &shared,
                             err)))
        return false;
    if (train < 0) train = jpeg ? 2000 : 50000;
    if (valid < 0) valid = jpeg ? 400 : 10000;
    if (!jpeg && train % 5)
        return dl_fail(err, DL_USAGE,
                       "--train %lld: CIFAR-10's layout has five files of equal length, so it "
                       "must be a multiple of 5",
                       (long long)train);
    image_setup s = {(int)train, (int)valid, (int)side, (int)shared.threads, (uint64_t)shared.seed,
                     jpeg};
    if (!output_tree_prepare(shared.path, image_bytes(&s), err)) return false;
    progress bar;
    progress_begin(&bar, shared.quiet);
    bool ok = progress_end(&bar, image_write(shared.path, &s, show, &bar, err), err);
    if (ok && !shared.quiet) {
        dl_console_text(
            call->out,
            "wrote %lld pictures to train on and %lld to validate on into %s in %.1f s\n",
            (long long)train, (long long)valid, dl_shown(call->arena, shared.path),
            dl_clock_seconds() - bar.start);
    }
    return ok;
}

const dl_subcommand dldata_images = {
    .name = "images",
    .help = "draw labelled pictures (CIFAR-10's binary files, or JPEG class folders)",
    .put_usage = put_usage,
    .options = options,
    .after = after,
    .options_only = true,
    .run = run,
};
