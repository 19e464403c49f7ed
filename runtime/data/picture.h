/* Pictures as samples: what a model must take for them, how they are moved in training, and how
 * bytes become its values.
 *
 * A picture is float planes [3, H, W] of 0 to 255, red, green, blue. */
#ifndef DLR_PICTURE_H
#define DLR_PICTURE_H
#include "runtime/base/rng.h"
#include "runtime/data/dataset.h"

typedef enum {
    DLR_SCALING_UNIT, /* value / 255 */
    /* Keras' caffe mode: blue, green, red less 103.939, 116.779 and 123.68, ImageNet's means */
    DLR_SCALING_CAFFE
} dlr_scaling;

/* What is drawn for each picture of training; all zero: nothing. */
typedef struct {
    double shift; /* moved by up to this share of its height and width each way, 0 to 1 */
    double zoom;  /* height and width each seen 1 - zoom to 1 + zoom times as large a part, 0 to
                     below 1 */
    bool flip;    /* left to right, every second one */
    double crop;  /* a part of at least this share of its area is shown, above 0 to below 1; 0: all
                     of it */
} dlr_moves;

/* What the loaders of pictures (cifar.h, image_folder.h) are told. */
typedef struct {
    dlr_scaling scaling;
    dlr_moves moves;
    int64_t classes; /* that the model tells apart; 0: it does not say */
    int64_t limit;   /* the first so many samples alone; 0: all */
} dlr_picture_options;

/* What the state of such a data set begins with. */
typedef struct {
    dlr_picture_options o;
    int64_t height, width; /* the model's */
    dlr_element points;    /* u8 or f32: of a picture as it is read */
    /* Reads picture `picture`, in the order of the files, as planes[3][height][width] of `points`,
     * for a sample of an epoch, which says what part of it is shown, and its class. Errors: those
     * of samples. */
    bool (*read)(const dlr_dataset *d, int64_t picture, int64_t epoch, int64_t sample, void *planes,
                 int64_t *label, dl_error *err);
} dlr_pictures;

/* How the points of a picture come from those of another of its size: point p of an axis of n
 * points from zoom (p - c) + c + shift n, c = (n - 1) / 2, and then from right to left with `flip`.
 * Between points it is linear; outside the outermost point goes on. */
typedef struct {
    double shift[2], zoom[2]; /* height, width */
    bool flip;
} dlr_move;

/* Drawn as Keras' ImageDataGenerator does it: every quantity uniform and by itself. */
dlr_move dlr_move_draw(const dlr_moves *moves, dlr_rng_place place);
/* A part of a picture, in points. */
typedef struct {
    int64_t top, left, height, width;
} dlr_box;
/* The part of a picture of height x width points that is shown, as torchvision's RandomResizedCrop
 * draws it: a share of the area from moves->crop to 1, sides in a ratio between 3/4 and 4/3 (each
 * as likely as its inverse), anywhere; where ten such do not fit, the middle. All of it without
 * moves->crop. */
dlr_box dlr_box_draw(const dlr_moves *moves, dlr_rng_place place, int64_t height, int64_t width);
/* That of a sample: drawn from (seed, epoch, sample) in training, all of it in validation. */
dlr_box dlr_box_of(const dlr_dataset *d, const dlr_moves *moves, int64_t epoch, int64_t sample,
                   int64_t height, int64_t width);
/* The move of a sample: drawn from (seed, epoch, sample) in training, none in validation. */
dlr_move dlr_move_of(const dlr_dataset *d, const dlr_moves *moves, int64_t epoch, int64_t sample);
/* Which picture a sample is: in training in another order in each epoch. */
int64_t dlr_picture_of(const dlr_dataset *d, int64_t epoch, int64_t sample);

/* Sets d->scratch, and the size of the pictures of a model that takes f32[3, H, W] and a class, a
 * whole number. Errors: DL_INPUT for a model that takes something else; DL_USAGE for moves out of
 * their ranges. */
bool dlr_picture_check(dlr_dataset *d, dlr_pictures *pictures, dl_error *err);
/* Bytes that dlr_picture_write needs. */
size_t dlr_picture_scratch(int64_t height, int64_t width);
/* planes[3][height][width] moved and scaled into out[3][height][width]; the class into `label`, of
 * `type`. */
void dlr_picture_write(const float *planes, int64_t height, int64_t width, const dlr_move *move,
                       dlr_scaling scaling, float *out, void *scratch);
void dlr_label_write(const dl_type *type, int64_t label, void *out);

/* A loader's functions (loader.h), of a data set whose state begins with dlr_pictures. Where a
 * device makes the samples it moves, scales and lays out what `read` gives; it holds the pictures
 * where each is shown whole. */
bool dlr_pictures_sample(const dlr_dataset *d, int64_t epoch, int64_t sample, void *const *out,
                         void *scratch, dl_error *err);
bool dlr_pictures_raw(const dlr_dataset *d, dlr_raw *raw);
bool dlr_pictures_numbers(const dlr_dataset *d, int64_t epoch, int64_t sample, void *const *out,
                          void *scratch, dlr_placing *how, dl_error *err);
void dlr_pictures_store(const dlr_dataset *d, dlr_store *store);
bool dlr_pictures_piece(const dlr_dataset *d, int64_t i, void *out, void *scratch, int64_t *at,
                        int64_t *bytes, dl_error *err);
void dlr_pictures_locate(const dlr_dataset *d, int64_t epoch, int64_t sample, dlr_placing *how);
#endif
