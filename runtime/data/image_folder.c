#include "runtime/data/image_folder.h"

#include "ir/base/arena.h"
#include "ir/base/file_calls.h"
#include "ir/base/str.h"
#include "runtime/data/jpeg.h"
#include "runtime/data/jpeg_folder.h"
#include "runtime/data/loader.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>

typedef struct {
    const char *name;
    int class;
    atomic_bool told; /* a warning was printed that it is skipped */
} image;

typedef struct {
    dlr_pictures pictures;
    dl_arena *arena; /* holds all names; `held` counts their bytes */
    void (*skipped)(const char *why);
    const char *folder;
    dlr_names classes;
    image *images; /* [d->samples] */
} images;

/* ---- folders ---- */

static bool list_classes(images *s, const char *folder, dl_error *err) {
    if (!folder || !folder[0])
        return dl_fail(err, DL_USAGE,
                       "train_dir is not set: a folder of JPEG files, a folder each class (or "
                       "--data_loader_config=synthetic)");
    if (!dlr_folder_list(s->arena, "train_dir", folder, true, &s->classes, err)) return false;
    int n = s->classes.n;
    if (n == 0)
        return dl_fail(err, DL_INPUT, "train_dir: %s holds no folders, one for each class", folder);
    int64_t told = s->pictures.o.classes;
    if (told && told != n)
        return dl_fail(err, DL_INPUT,
                       "train_dir: %s holds %d class folders (%.80s to %.80s), and the model tells "
                       "%lld classes "
                       "apart (n_classes)",
                       folder, n, s->classes.at[0], s->classes.at[n - 1], (long long)told);
    return true;
}

/* Checks that each folder of the validation set has the name of a training class; a training class
 * may have no validation folder. */
static bool check_classes(images *s, const char *key, dl_error *err) {
    dlr_names found = {0};
    if (!dlr_folder_list(s->arena, key, s->folder, true, &found, err)) return false;
    for (int i = 0; i < found.n; i++)
        if (!dlr_names_have(&s->classes, found.at[i]))
            return dl_fail(err, DL_INPUT,
                           "%s: %s/%s is no class of train_dir, which has no such folder", key,
                           s->folder, found.at[i]);
    return true;
}

/* ---- samples ---- */

/* Orders the pictures: the first of each class, the second of each, ... */
static bool number_images(dlr_dataset *d, images *s, const dlr_names *of, dl_error *err) {
    int64_t all = 0, limit = s->pictures.o.limit;
    for (int c = 0; c < s->classes.n; c++) all += of[c].n;
    if (limit && limit < all) all = limit;
    if (all > UINT32_MAX)
        return dl_fail(err, DL_INPUT, "%s: more pictures than can be numbered", s->folder);
    s->images = malloc(((size_t)all + 1) * sizeof *s->images);
    if (!s->images)
        return dl_fail(err, DL_RESOURCE, "no memory for the names of %lld pictures",
                       (long long)all);
    for (int k = 0; d->samples < all; k++)
        for (int c = 0; c < s->classes.n && d->samples < all; c++)
            if (k < of[c].n) s->images[d->samples++] = (image){.name = of[c].at[k], .class = c};
    return true;
}

static const char *path_of(const images *s, const image *i, dl_buf *path) {
    dl_putf(path, "%s/%s/%s", s->folder, s->classes.at[i->class], i->name);
    return path->at;
}

/* Whether a fault of this file is skipped; a warning is printed once per file. */
static bool skip(const images *s, image *i, const dl_error *fault) {
    if (!s->skipped || fault->code != DL_INPUT) return false;
    if (!atomic_exchange(&i->told, true)) s->skipped(fault->message);
    return true;
}

/* Checks the first files, so that a folder of other files is found before a model is compiled; the
 * others are checked when they are read. */
static bool check_first(const dlr_dataset *d, const images *s, dl_error *err) {
    bool ok = true;
    for (int64_t i = 0; ok && i < d->samples && i < s->classes.n; i++) {
        dl_buf path = {0};
        dl_error fault = {0};
        ok = dlr_jpeg_check(path_of(s, &s->images[i], &path), &fault) ||
             (s->skipped && fault.code == DL_INPUT);
        if (!ok) *err = fault;
        dl_buf_free(&path);
    }
    return ok;
}

static bool open_images(dlr_dataset *d, const char *key, images *s, dl_error *err) {
    dlr_names *of = dl_alloc_array(s->arena, (size_t)s->classes.n, sizeof *of);
    for (int c = 0; c < s->classes.n; c++) {
        const char *folder = dl_format(s->arena, "%s/%s", s->folder, s->classes.at[c]);
        struct stat st;
        if (d->split == DLR_VALID && dl_stat(folder, &st) < 0 && errno == ENOENT) continue;
        if (!dlr_folder_jpegs(s->arena, key, folder, &of[c], err)) return false;
        for (int i = 0; i < of[c].n; i++) d->held += (int64_t)strlen(of[c].at[i]) + 64;
        if (of[c].n == 0 && d->split == DLR_TRAIN)
            return dl_fail(err, DL_INPUT, "%s: %s has no file .jpg or .jpeg", key, folder);
    }
    if (!number_images(d, s, of, err)) return false;
    if (d->samples == 0)
        return dl_fail(err, DL_INPUT, "%s: %s has no pictures in its folders", key, s->folder);
    return check_first(d, s, err);
}

/* The size to decode at: the smallest crop that may be drawn should have the model's number of
 * pixels, where the file has them. */
static int64_t wanted(const dlr_dataset *d, int64_t points) {
    const images *s = d->state;
    double crop = s->pictures.o.moves.crop;
    bool parts = d->split == DLR_TRAIN && crop > 0;
    return parts ? (int64_t)ceil((double)points / sqrt(crop)) : points;
}

static bool read_planes(const dlr_dataset *d, const image *i, int64_t epoch, int64_t sample,
                        float *planes, dl_error *err) {
    const images *s = d->state;
    int64_t height = s->pictures.height, width = s->pictures.width;
    dl_buf path = {0};
    dlr_jpeg picture;
    bool ok =
        dlr_jpeg_read(path_of(s, i, &path), wanted(d, height), wanted(d, width), &picture, err);
    dl_buf_free(&path);
    if (!ok) return false;
    dlr_box b = dlr_box_of(d, &s->pictures.o.moves, epoch, sample, picture.height, picture.width);
    dlr_jpeg_crop(&picture, b.top, b.left, b.height, b.width);
    ok = dlr_jpeg_resize(&picture, height, width, planes, err);
    free(picture.rgb);
    return ok;
}

/* Reads that picture, or where it is skipped the next readable one in the folder's order. */
static bool read_picture(const dlr_dataset *d, int64_t picture, int64_t epoch, int64_t sample,
                         void *planes, int64_t *label, dl_error *err) {
    const images *s = d->state;
    for (int64_t k = 0; k < d->samples; k++) {
        image *i = &s->images[(picture + k) % d->samples];
        dl_error fault = {0};
        *label = i->class;
        if (read_planes(d, i, epoch, sample, planes, &fault)) return true;
        if (skip(s, i, &fault)) continue;
        *err = fault;
        return false;
    }
    return dl_fail(err, DL_INPUT, "%s: none of its pictures can be read", s->folder);
}

/* ---- the loader ---- */

static bool open_folder(dlr_dataset *d, const void *options, dl_error *err) {
    const dlr_image_folder_options *o = options;
    const char *key = d->split == DLR_TRAIN ? "train_dir" : "valid_dir";
    const char *folder = d->split == DLR_TRAIN ? o->train : o->valid;
    images *s = d->state = calloc(1, sizeof *s);
    if (!s) return dl_fail(err, DL_RESOURCE, "no memory for a data set");
    s->arena = dl_arena_new(NULL), s->skipped = o->skipped;
    s->pictures = (dlr_pictures){.o = o->pictures, .points = DLR_EL_F32, .read = read_picture};
    if (!dlr_picture_check(d, &s->pictures, err) || !list_classes(s, o->train, err)) return false;
    if (!folder || !folder[0])
        return dl_fail(err, DL_USAGE, "%s is not set: a folder of JPEG files, a folder each class",
                       key);
    s->folder = dl_strdup(s->arena, folder);
    return (d->split == DLR_TRAIN || check_classes(s, key, err)) && open_images(d, key, s, err);
}

const dlr_names *dlr_image_folder_classes(const dlr_dataset *d) {
    const images *s = d->state;
    return &s->classes;
}

static void close_folder(dlr_dataset *d) {
    images *s = d->state;
    if (!s) return;
    dl_arena_free(s->arena);
    free(s->images), free(s);
}

const dlr_loader dlr_image_folder_loader = {.name = "image_folder",
                                            .host = "decodes, cuts out and resizes them",
                                            .open = open_folder,
                                            .sample = dlr_pictures_sample,
                                            .raw = dlr_pictures_raw,
                                            .numbers = dlr_pictures_numbers,
                                            .store = dlr_pictures_store,
                                            .piece = dlr_pictures_piece,
                                            .locate = dlr_pictures_locate,
                                            .close = close_folder};
